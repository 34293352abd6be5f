//! Secrets in files, and the keys that hide what clients wrote (session ids, unknown model names) wherever it would leave us. The
//! first key signs; with `secret_file` all replicas hide alike, without it a random key lasts as long as the process.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::watch;

mod admin;
mod file;
mod seal;

pub use admin::AdminTokens;
use file::Secret;
use seal::Seals;

/// How many hexadecimal digits of a hash are shown: 64 bits, enough to tell sessions apart.
const DIGITS: usize = 16;

/// The setting, for messages.
const FILE: &str = "secret_file";

/// Clones share the keys: all of them change when the file does.
#[derive(Clone)]
pub struct Keys {
    ring: Arc<ArcSwap<Ring>>,
}

/// The keys in use.
struct Ring {
    signing: Hmac<Sha256>,
    seals: Seals,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(hidden)")
    }
}

/// Why a secret file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSecret(pub String);

impl Keys {
    /// The keys of a secret file, or a random one.
    ///
    /// # Errors
    /// The file cannot be read or holds no usable key.
    pub fn of(secret_file: Option<&str>) -> Result<Self, BadSecret> {
        let Some(path) = secret_file else { return Self::random() };
        read(FILE, path, Self::parse)
    }

    /// A random key for this process.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn random() -> Result<Self, BadSecret> {
        let mut key = [0_u8; 32];
        getrandom::fill(&mut key).map_err(|error| BadSecret(format!("no random key can be made: {error}")))?;
        Ok(Self::from_keys(&[&key]))
    }

    /// The lines of a secret file that are not empty: the first signs, all verify. A key has at least 16 characters.
    ///
    /// # Errors
    /// There is no line, or a key that is too short.
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        let lines: Vec<&[u8]> = lines_of(text, "key")?.into_iter().map(str::as_bytes).collect();
        Ok(Self::from_keys(&lines))
    }

    fn from_keys(keys: &[&[u8]]) -> Self {
        let signing = keyed(keys.first().copied().unwrap_or_default());
        Self { ring: Arc::new(ArcSwap::from_pointee(Ring { signing, seals: Seals::new(keys) })) }
    }

    /// A text that only holders of the keys can read or make; different each time. `None` if there is no randomness.
    #[must_use]
    pub fn seal(&self, content: &[u8]) -> Option<String> {
        self.ring.load().seals.seal(content)
    }

    /// What was sealed with any of the keys; `None` for everything else.
    #[must_use]
    pub fn open(&self, text: &str) -> Option<Vec<u8>> {
        self.ring.load().seals.open(text)
    }

    /// Takes over the keys of the file whenever it changes, for as long as it is polled; `again` has it looked at at once.
    pub async fn follow(self, path: String, again: watch::Receiver<u64>) {
        file::follow(self, path, again).await;
    }

    fn take_over(&self, text: &str) -> Result<(), BadSecret> {
        Self::parse(text).map(|new| self.ring.store(new.ring.load_full()))
    }

    /// A number that only the holder of the key can link to the text; it says nothing of what [`Keys::hide`] shows.
    #[must_use]
    pub fn seed(&self, text: &str) -> u64 {
        let digest = self.sign(text);
        digest.iter().rev().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
    }

    fn sign(&self, text: &str) -> [u8; 32] {
        let mut mac = self.ring.load().signing.clone();
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// A text as 16 hexadecimal digits that only the holder of the key can link to it.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        let digest = self.sign(text);
        let mut shown = String::with_capacity(DIGITS);
        for byte in digest.iter().take(DIGITS / 2) {
            for nibble in [byte >> 4, byte & 15] {
                shown.push(char::from(b"0123456789abcdef"[usize::from(nibble)]));
            }
        }
        shown
    }
}

/// Reads a secret from the file that a setting names.
fn read<T>(setting: &str, path: &str, parse: impl Fn(&str) -> Result<T, BadSecret>) -> Result<T, BadSecret> {
    let named = |why: &dyn std::fmt::Display| BadSecret(format!("{setting} {path}: {why}"));
    let text = file::read(path).map_err(|why| named(&why))?;
    parse(&text).map_err(|BadSecret(why)| named(&why))
}

/// The lines of a secret file that are not empty, trimmed.
fn lines_of<'t>(text: &'t str, what: &str) -> Result<Vec<&'t str>, BadSecret> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return Err(BadSecret(format!("the file holds no {what}: write one {what} a line, at least 16 characters each")));
    }
    if lines.iter().any(|line| line.len() < 16) {
        return Err(BadSecret(format!("a {what} in the file has fewer than 16 characters")));
    }
    Ok(lines)
}

/// Without its keys Cascade could neither read what it sent before nor show the same hash for the same session, and an attempt under
/// way would be judged as a stranger's. So a file that is emptied takes no key back: only other keys in it do.
impl Secret for Keys {
    const SETTING: &'static str = FILE;
    const MEANWHILE: &'static str =
        "the keys that it held before stay in use. To take a key back, write the file without it and with another one";

    fn take(&self, text: &str) -> Result<(), BadSecret> {
        self.take_over(text)
    }

    fn lose(&self) {}
}

/// HMAC takes keys of any length, so that this cannot fail; an empty key stands in for the impossible.
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_with_the_same_file_hide_alike_and_others_do_not() {
        let keys = Keys::parse("\n first-key-of-the-team \nsecond-key-of-the-team\n").unwrap();
        let same = Keys::parse("first-key-of-the-team").unwrap();
        assert_eq!(keys.hide("session"), same.hide("session"));
        assert_ne!(keys.hide("session"), keys.hide("session2"));
        assert_ne!(keys.hide("session"), Keys::random().unwrap().hide("session"));
        assert_eq!(keys.hide("").len(), DIGITS);
    }

    #[test]
    fn a_changed_file_changes_all_clones_and_a_bad_one_none() {
        let keys = Keys::parse("first-key-of-the-team").unwrap();
        let clone = keys.clone();
        keys.take_over("second-key-of-the-team").unwrap();
        assert_eq!(clone.hide("x"), Keys::parse("second-key-of-the-team").unwrap().hide("x"));
        assert!(keys.take_over("short").is_err() && keys.take_over("").is_err());
        assert_eq!(clone.hide("x"), keys.hide("x"));
        assert_eq!(clone.hide("x"), Keys::parse("second-key-of-the-team").unwrap().hide("x"));
    }

    #[test]
    fn short_or_missing_keys_are_refused() {
        assert!(Keys::parse("").is_err() && Keys::parse(" \n").is_err() && Keys::parse("long-enough-as-a-key\nshort").is_err());
    }
}
