//! The decision's model and session on their way through Envoy and back: no metadata reaches the log of an attempt, only request
//! headers do, and the provider sees those too (fact 28a). So they ride in a sealed header. A forged or old one says nothing.

use sha2::{Digest, Sha256};

use crate::health::Moment;
use crate::secret::Keys;

/// The first byte: what follows is laid out as here. Flags, the time it was made, the mark of the name that was sent, then texts, each
/// after its length in two bytes; an empty one says that there is none.
const VERSION: u8 = 3;
/// The model was sent under the catalog's own name.
const OWN_NAME: u8 = 1;
/// The model is known to the session's tenant alone.
const TENANTS_OWN: u8 = 2;
/// A token that is older speaks of a request that nobody waits for any more.
const LIFETIME: u64 = 60 * 60 * 1000;

/// What a decision says to those who see its attempts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Token {
    /// The catalog's name of the model; `None` if the catalog does not know it.
    pub model: Option<String>,
    /// The client asked for it under exactly this name.
    pub own_name: bool,
    /// The mark of the name that the client sent; see [`Token::mark_of`].
    pub sent: u64,
    /// Whose session it was, if what serves it is to be remembered.
    pub session: Option<Session>,
}

/// A session as a directory knows it: the parts of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The catalog's name of the tenant; `None`: anonymous.
    pub tenant: Option<String>,
    /// The model's name, also where it is known to this tenant alone; `None`: nobody knows it.
    pub model: Option<String>,
    /// As the client sent it; never empty.
    pub id: String,
}

impl Token {
    /// Stands for a name of any length: the first bytes of its SHA-256.
    #[must_use]
    pub fn mark_of(name: &str) -> u64 {
        Sha256::digest(name.as_bytes()).iter().take(8).fold(0, |mark, byte| mark << 8 | u64::from(*byte))
    }

    /// True if this is the name that the decision read.
    #[must_use]
    pub fn speaks_of(&self, name: &str) -> bool {
        self.sent == Self::mark_of(name)
    }

    #[must_use]
    pub fn seal(&self, keys: &Keys, now: Moment) -> Option<String> {
        let session = self.session.as_ref();
        let (tenant, id) = (session.and_then(|session| session.tenant.as_deref()), session.map(|session| session.id.as_str()));
        let tenants_own = session.and_then(|session| session.model.as_deref()).filter(|_| self.model.is_none());
        let texts = [self.model.as_deref().or(tenants_own), tenant, id].map(Option::unwrap_or_default);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let mut content = Vec::with_capacity(18 + texts.iter().map(|text| 2 + text.len()).sum::<usize>());
        content.extend_from_slice(&[VERSION, flag(self.own_name, OWN_NAME) | flag(tenants_own.is_some(), TENANTS_OWN)]);
        content.extend_from_slice(&now.0.to_be_bytes());
        content.extend_from_slice(&self.sent.to_be_bytes());
        for text in texts {
            content.extend_from_slice(&u16::try_from(text.len()).ok()?.to_be_bytes());
            content.extend_from_slice(text.as_bytes());
        }
        keys.seal(&content)
    }

    #[must_use]
    pub fn open(text: &str, keys: &Keys, now: Moment) -> Option<Self> {
        let content = keys.open(text)?;
        let ([version, flags], rest) = content.split_first_chunk()?;
        let (made, rest) = rest.split_first_chunk()?;
        let (sent, mut rest) = rest.split_first_chunk()?;
        let (made, sent) = (u64::from_be_bytes(*made), u64::from_be_bytes(*sent));
        // Replicas' clocks may differ: one from the near future is as good.
        if *version != VERSION || now.0.abs_diff(made) > LIFETIME {
            return None;
        }
        let (model, tenant, id) = (take(&mut rest)?, take(&mut rest)?, take(&mut rest)?);
        let session = id.map(|id| Session { tenant, model: model.clone(), id });
        Some(Self { model: model.filter(|_| flags & TENANTS_OWN == 0), own_name: flags & OWN_NAME != 0, sent, session })
    }
}

/// The next text; the inner `None`: there is none. The outer one: these are no texts.
#[allow(clippy::option_option, reason = "the two say different things, and only `open` hears them")]
fn take(rest: &mut &[u8]) -> Option<Option<String>> {
    let (length, after) = rest.split_first_chunk()?;
    let (text, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *rest = after;
    let text = std::str::from_utf8(text).ok()?;
    Some(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(tenant: Option<&str>, model: &str, id: &str) -> Option<Session> {
        Some(Session { tenant: tenant.map(str::to_owned), model: Some(model.to_owned()), id: id.to_owned() })
    }

    #[test]
    fn a_token_comes_back_and_an_old_one_does_not() {
        let keys = Keys::random().unwrap();
        let plain = Token { model: Some("gpt-4o".to_owned()), own_name: true, sent: Token::mark_of("gpt-4o"), session: None };
        let anonymous = Token { session: session(None, "gpt-4o", "s"), ..plain.clone() };
        let tenants_own = Token { session: session(Some("acme"), "ours", "s"), ..Token::default() };
        for token in [plain, anonymous, tenants_own, Token::default()] {
            let text = token.seal(&keys, Moment(LIFETIME)).unwrap();
            assert!(text.len() < 100 && text.bytes().all(|byte| byte.is_ascii_graphic()), "fit for a header: {text}");
            assert_eq!(Token::open(&text, &keys, Moment(2 * LIFETIME)), Some(token.clone()));
            assert_eq!(Token::open(&text, &keys, Moment(2 * LIFETIME + 1)), None);
            assert_eq!(Token::open(&text, &Keys::random().unwrap(), Moment(LIFETIME)), None);
        }
        assert!(Token { sent: Token::mark_of("gpt-4o"), ..Token::default() }.speaks_of("gpt-4o"));
        assert!(!Token { sent: Token::mark_of("gpt-4o"), ..Token::default() }.speaks_of("gpt-4"));
        let other = keys.seal(b"\x01\x00somethingelse, as long as ours").unwrap();
        assert_eq!(Token::open(&other, &keys, Moment(0)), None, "another version");
        for cut in [1, 10, 18, 20, 23, 24] {
            let mut content = [&[VERSION, 0][..], &[0; 16], &[0, 1, b'm', 0, 0, 0, 0]].concat();
            assert!(Token::open(&keys.seal(&content).unwrap(), &keys, Moment(0)).is_some());
            content.truncate(cut);
            assert_eq!(Token::open(&keys.seal(&content).unwrap(), &keys, Moment(0)), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_session_rides_along_and_fits_into_a_header_however_long_its_parts_are() {
        let keys = Keys::random().unwrap();
        let usual = Token {
            model: Some("gpt-4o".to_owned()),
            own_name: true,
            sent: u64::MAX,
            session: session(Some("team-0042"), "gpt-4o", "7c0cb6b2-52ff-4b8e-9a4b-1b1a2a0d6f10"),
        };
        // The longest that names and looked up sessions can be.
        let [tenant, model, id] = [("t", 256), ("m", 256), ("s", 1024)].map(|(text, times)| text.repeat(times));
        let session = session(Some(&tenant), &model, &id);
        let longest = Token { model: Some(model), own_name: true, sent: u64::MAX, session };
        for (token, most) in [(usual, 160), (longest, 4096)] {
            let text = token.seal(&keys, Moment(0)).unwrap();
            assert!(text.len() <= most, "{} bytes", text.len());
            assert_eq!(Token::open(&text, &keys, Moment(0)), Some(token));
        }
    }
}
