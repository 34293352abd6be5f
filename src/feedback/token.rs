//! The decision's model on its way through Envoy and back: no metadata reaches the log of an attempt, only request headers do, and
//! the provider sees those too (fact 28a). So it rides in a sealed header. A forged or old one says nothing.

use crate::health::Moment;
use crate::secret::Keys;

/// The first byte: what follows is laid out as here.
const VERSION: u8 = 1;
/// The model was sent under the catalog's own name.
const OWN_NAME: u8 = 1;
/// Stands for a request without `content-length`.
const NO_LENGTH: u64 = u64::MAX;
/// A token that is older speaks of a request that nobody waits for any more.
const LIFETIME: u64 = 60 * 60 * 1000;

/// What a decision says to those who see its attempts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Token {
    /// The catalog's name of the model; `None` if the catalog does not know it.
    pub model: Option<String>,
    /// The client asked for it under exactly this name.
    pub own_name: bool,
    /// `content-length` as the client sent it.
    pub length: Option<u64>,
}

impl Token {
    #[must_use]
    pub fn seal(&self, keys: &Keys, now: Moment) -> Option<String> {
        let model = self.model.as_deref().unwrap_or_default();
        let mut content = Vec::with_capacity(18 + model.len());
        content.extend_from_slice(&[VERSION, if self.own_name { OWN_NAME } else { 0 }]);
        content.extend_from_slice(&now.0.to_be_bytes());
        content.extend_from_slice(&self.length.unwrap_or(NO_LENGTH).to_be_bytes());
        content.extend_from_slice(model.as_bytes());
        keys.seal(&content)
    }

    #[must_use]
    pub fn open(text: &str, keys: &Keys, now: Moment) -> Option<Self> {
        let content = keys.open(text)?;
        let ([version, flags], rest) = content.split_first_chunk()?;
        let (made, rest) = rest.split_first_chunk()?;
        let (length, model) = rest.split_first_chunk()?;
        let (made, length) = (u64::from_be_bytes(*made), u64::from_be_bytes(*length));
        // Replicas' clocks may differ: one from the near future is as good.
        if *version != VERSION || now.0.abs_diff(made) > LIFETIME {
            return None;
        }
        let model = std::str::from_utf8(model).ok()?;
        Some(Self {
            model: Some(model.to_owned()).filter(|model| !model.is_empty()),
            own_name: flags & OWN_NAME != 0,
            length: Some(length).filter(|length| *length != NO_LENGTH),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_and_an_old_one_does_not() {
        let keys = Keys::random().unwrap();
        for token in [Token { model: Some("gpt-4o".to_owned()), own_name: true, length: Some(0) }, Token::default()] {
            let text = token.seal(&keys, Moment(LIFETIME)).unwrap();
            assert!(text.len() < 100 && text.bytes().all(|byte| byte.is_ascii_graphic()), "fit for a header: {text}");
            assert_eq!(Token::open(&text, &keys, Moment(2 * LIFETIME)), Some(token.clone()));
            assert_eq!(Token::open(&text, &keys, Moment(2 * LIFETIME + 1)), None);
            assert_eq!(Token::open(&text, &Keys::random().unwrap(), Moment(LIFETIME)), None);
        }
        let other = keys.seal(b"\x02\x00somethingelse").unwrap();
        assert_eq!(Token::open(&other, &keys, Moment(0)), None, "another version");
        assert_eq!(Token::open(&keys.seal(b"\x01").unwrap(), &keys, Moment(0)), None, "too short");
    }
}
