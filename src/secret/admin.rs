//! Who may change something at the admin address: whoever shows a token of `admin_token_file`. Tokens are compared in constant time
//! and never shown.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hmac::Mac;
use tokio::sync::watch;

use super::file::{self, Secret};
use super::{BadSecret, keyed, lines_of, read};

/// The setting, for messages.
const FILE: &str = "admin_token_file";

/// The tokens of the file; clones share them.
#[derive(Clone)]
pub struct AdminTokens(Arc<ArcSwap<Vec<String>>>);

impl std::fmt::Debug for AdminTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminTokens(hidden)")
    }
}

impl AdminTokens {
    /// Reads the file: one token a line, so that an old one may stay valid for a while.
    ///
    /// # Errors
    /// It cannot be read, or holds no usable token.
    pub fn of(path: &str) -> Result<Self, BadSecret> {
        Ok(Self(Arc::new(ArcSwap::from_pointee(read(FILE, path, parse)?))))
    }

    /// True if the value of an `authorization` header is `Bearer` and one of the tokens.
    #[must_use]
    pub fn allow(&self, authorization: &str) -> bool {
        let Some((scheme, shown)) = authorization.trim().split_once(' ') else { return false };
        let tokens = self.0.load();
        // Every token is looked at, whichever fits.
        let fits = tokens.iter().fold(false, |fits, token| fits | is_same(token, shown.trim()));
        scheme.eq_ignore_ascii_case("bearer") && fits
    }

    /// Takes over the tokens of the file whenever it changes, for as long as it is polled; `again` has it looked at at once.
    pub async fn follow(self, path: String, again: watch::Receiver<u64>) {
        file::follow(self, path, again).await;
    }
}

/// Who empties or removes the file takes every token back.
impl Secret for AdminTokens {
    const SETTING: &'static str = FILE;
    const MEANWHILE: &'static str = "nobody may cool or clear clusters until it can be";

    fn take(&self, text: &str) -> Result<(), BadSecret> {
        parse(text).map(|tokens| self.0.store(Arc::new(tokens)))
    }

    fn lose(&self) {
        self.0.store(Arc::default());
    }
}

fn parse(text: &str) -> Result<Vec<String>, BadSecret> {
    lines_of(text, "token").map(|lines| lines.into_iter().map(str::to_owned).collect())
}

/// Compares what both sign, not the texts: how long that takes says nothing of either.
fn is_same(token: &str, shown: &str) -> bool {
    let sign = |key: &str| keyed(key.as_bytes()).chain_update(b"cascade: admin token");
    sign(token).verify_slice(&sign(shown).finalize().into_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_token_behind_bearer_opens() {
        let tokens = AdminTokens(Arc::new(ArcSwap::from_pointee(parse("token-number-one\n\n token-number-two \n").unwrap())));
        for (header, allowed) in [
            ("Bearer token-number-one", true),
            ("bearer  token-number-two ", true),
            ("Bearer token-number-on", false),
            ("Bearer token-number-one1", false),
            ("Bearer token-number-one token-number-two", false),
            ("Bearer ", false),
            ("Bearer", false),
            ("Basic token-number-one", false),
            ("token-number-one", false),
            ("", false),
        ] {
            assert_eq!(tokens.allow(header), allowed, "{header}");
        }
    }

    #[test]
    fn a_file_that_says_nothing_usable_takes_every_token_back() {
        let tokens = AdminTokens(Arc::new(ArcSwap::from_pointee(parse("token-number-one").unwrap())));
        assert!(tokens.take("short").is_err());
        tokens.lose();
        for shown in ["Bearer token-number-one", "Bearer ", "Bearer short"] {
            assert!(!tokens.allow(shown), "{shown}");
        }
        tokens.take("token-number-two").unwrap();
        assert!(tokens.allow("Bearer token-number-two"));
    }

    #[test]
    fn a_file_without_a_usable_token_is_none() {
        for (text, told) in [("", "no token"), (" \n", "no token"), ("too-short", "16 characters")] {
            assert!(parse(text).unwrap_err().0.contains(told), "{text}");
        }
        let BadSecret(told) = AdminTokens::of("/nowhere/token").unwrap_err();
        assert!(told.starts_with("admin_token_file /nowhere/token"), "{told}");
    }
}
