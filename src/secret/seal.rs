//! Sealed texts: what leaves us in a header that clients and providers see, and comes back. XChaCha20-Poly1305 with a random nonce:
//! nobody without a key can read one, make one, or tell that two belong together. What is inside is not its business.

use std::cell::RefCell;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::Aead;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use hmac::Mac;

use super::keyed;

const NONCE: usize = 24;
/// Longer texts are none of ours.
const MAX_TEXT: usize = 4 * 1024;

pub(super) struct Seals(Vec<XChaCha20Poly1305>);

impl Seals {
    pub(super) fn new(keys: &[&[u8]]) -> Self {
        Self(keys.iter().map(|key| XChaCha20Poly1305::new(&derived(key).into())).collect())
    }

    pub(super) fn seal(&self, content: &[u8]) -> Option<String> {
        let nonce = nonce()?;
        let sealed = self.0.first()?.encrypt(&XNonce::from(nonce), content).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    pub(super) fn open(&self, text: &str) -> Option<Vec<u8>> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE>()?;
        let nonce = XNonce::from(*nonce);
        self.0.iter().find_map(|key| key.decrypt(&nonce, sealed).ok())
    }
}

/// Fresh random bytes, each used once. The system is asked for many at a time: a call costs more than the cipher does.
fn nonce() -> Option<[u8; NONCE]> {
    const STOCK: usize = 64 * NONCE;
    thread_local! {
        static STOCKED: RefCell<([u8; STOCK], usize)> = const { RefCell::new(([0; STOCK], STOCK)) };
    }
    STOCKED.with(|stocked| {
        let (bytes, used) = &mut *stocked.borrow_mut();
        if *used == STOCK {
            getrandom::fill(bytes).ok()?;
            *used = 0;
        }
        let nonce = bytes[*used..].first_chunk().copied()?;
        *used += NONCE;
        Some(nonce)
    })
}

/// A key of its own, so that sealing and hashing never share one.
fn derived(key: &[u8]) -> [u8; 32] {
    let mut mac = keyed(key);
    mac.update(b"cascade: sealed texts, version 1");
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use crate::secret::Keys;

    const OLD: &str = "first-key-of-the-team";
    const NEW: &str = "second-key-of-the-team";

    #[test]
    fn any_key_of_the_file_opens_and_the_first_one_seals() {
        let (old, both, new) =
            (Keys::parse(OLD).unwrap(), Keys::parse(&format!("{NEW}\n{OLD}")).unwrap(), Keys::parse(NEW).unwrap());
        let sealed = old.seal(b"content").unwrap();
        assert_eq!(both.open(&sealed).as_deref(), Some(&b"content"[..]));
        assert_eq!(new.open(&sealed), None);
        assert_eq!(new.open(&both.seal(b"x").unwrap()).as_deref(), Some(&b"x"[..]));
    }

    #[test]
    fn equal_contents_look_different_and_a_changed_text_opens_nothing() {
        let keys = Keys::random().unwrap();
        let sealed = keys.seal(b"content").unwrap();
        assert_ne!(sealed, keys.seal(b"content").unwrap());
        for at in 0..sealed.len() {
            let mut forged = sealed.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(keys.open(std::str::from_utf8(&forged).unwrap()), None, "at {at}");
        }
        for text in ["", "x", "\u{fc}", &sealed[1..], &"A".repeat(10_000)] {
            assert_eq!(keys.open(text), None);
        }
    }
}
