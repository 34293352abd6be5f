//! The path that the client sent, kept for later attempts: all of them share one set of headers, and a path that an attempt was
//! given is still there when the next one goes elsewhere. Providers see the header, so it is sealed; whoever else writes one says
//! nothing.

use crate::extract::Found;
use crate::extract::head::{self, Head};
use crate::health::Moment;
use crate::secret::Keys;

/// No client may send it.
pub(crate) const HEADER: &str = "x-cascade-original-path";
/// The first byte, which no token of a decision has.
const MARK: u8 = b'/';
/// As long as that token lives: nobody waits longer for an answer.
const LIFETIME: u64 = 60 * 60 * 1000;
/// Longer paths stay as they are: what could not be remembered could not be taken back.
const MAX_PATH: usize = 2048;

/// Seals a path without its query; `None` if it cannot be kept.
#[must_use]
pub(super) fn seal(path: &str, keys: &Keys, now: Moment) -> Option<String> {
    if path.len() > MAX_PATH {
        return None;
    }
    keys.seal(&[&[MARK][..], &now.0.to_be_bytes(), path.as_bytes()].concat())
}

/// What an earlier attempt of this request has kept. The first attempt has none before it, whatever a client sends.
#[must_use]
pub(super) fn of(head: &impl Head, keys: &Keys, now: Moment) -> Option<String> {
    let Found::Value(text) = head::header(head, HEADER) else { return None };
    if head::header(head, "x-envoy-attempt-count") == Found::Value("1".to_owned()) {
        return None;
    }
    open(&text, keys, now)
}

fn open(text: &str, keys: &Keys, now: Moment) -> Option<String> {
    let content = keys.open(text)?;
    let (made, path) = content.strip_prefix(&[MARK])?.split_first_chunk()?;
    let is_fresh = now.0.abs_diff(u64::from_be_bytes(*made)) <= LIFETIME;
    is_fresh.then(|| String::from_utf8(path.to_vec()).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::request::Request;
    use crate::feedback::token::Token;
    use crate::settings::read::{Flags, read};

    #[test]
    fn no_other_header_of_ours_has_its_name() {
        let settings = format!("publish: {{sticky_header: {HEADER}}}\n");
        assert!(read(Some(("cascade.yaml", &settings)), std::iter::empty(), Flags::default()).is_err());
    }

    #[test]
    fn a_path_comes_back_and_whatever_we_did_not_write_does_not() {
        let keys = Keys::random().unwrap();
        let sealed = seal("/v1/chat", &keys, Moment(LIFETIME)).unwrap();
        assert_eq!(open(&sealed, &keys, Moment(2 * LIFETIME)).as_deref(), Some("/v1/chat"));
        assert_eq!(open(&sealed, &keys, Moment(2 * LIFETIME + 1)), None, "old");
        assert_eq!(open(&sealed, &Keys::random().unwrap(), Moment(LIFETIME)), None, "forged");
        let token = Token::default().seal(&keys, Moment(LIFETIME)).unwrap();
        assert_eq!(open(&token, &keys, Moment(LIFETIME)), None, "a token of a decision");
        assert_eq!(Token::open(&sealed, &keys, Moment(LIFETIME)), None, "and the other way round");
        assert_eq!(open("/v1/chat", &keys, Moment(0)), None);
        assert_eq!(seal(&"/x".repeat(MAX_PATH), &keys, Moment(0)), None, "too long");
    }

    #[test]
    fn the_first_attempt_believes_nobody() {
        let keys = Keys::random().unwrap();
        let sealed = seal("/v1/chat", &keys, Moment(0)).unwrap();
        let told = |count: &[&str]| {
            let mut request = Request::new("/now");
            request.add_header(HEADER, &sealed);
            count.iter().for_each(|count| request.add_header("x-envoy-attempt-count", count));
            of(&request, &keys, Moment(0)).is_some()
        };
        assert_eq!((told(&["1"]), told(&["2"]), told(&[])), (false, true, true));
    }
}
