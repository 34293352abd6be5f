//! What the client sent, kept for later attempts: all of them share one set of headers, and a path or a header that an attempt was
//! given is still there when the next one goes elsewhere. Providers see what is kept, so it is sealed, and it counts for its own
//! request alone; whoever else writes one says nothing.

use crate::extract::Found;
use crate::extract::head::{self, Head};
use crate::health::Moment;
use crate::secret::Keys;

/// No client may send it.
pub(crate) const HEADER: &str = "x-cascade-original-path";
/// The first byte, which no token of a decision has, says how what follows is laid out: the time it was made, then texts, each after
/// its length in two bytes.
const MARK: u8 = b'=';
/// Stands for the length of a text that there is not.
const NONE: u16 = u16::MAX;
/// As long as a decision's token lives: nobody waits longer for an answer.
const LIFETIME: u64 = 60 * 60 * 1000;
/// In bytes. More stays as it is: what could not be remembered could not be taken back.
const MAX_KEPT: usize = 2048;

/// The parts of a head that attempts change, as the client sent them; `None`: none has changed it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Origin {
    /// Without the query.
    pub path: Option<String>,
    /// What follows the path, `?` included.
    pub query: Option<String>,
    /// Name and value.
    pub header: Option<(String, String)>,
}

/// What an attempt finds of those before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inherited {
    Nothing,
    Origin(Origin),
    /// An earlier attempt has changed something, and nobody here can read what: its keys are gone.
    Unreadable,
}

impl Origin {
    /// Seals it for the request; `None` if it cannot be kept.
    pub(super) fn seal(&self, request: &Request<'_>) -> Option<String> {
        let header = self.header.as_ref();
        let texts = [self.path.as_ref(), self.query.as_ref(), header.map(|(name, _)| name), header.map(|(_, value)| value)];
        if texts.iter().flatten().map(|text| text.len()).sum::<usize>() > MAX_KEPT {
            return None;
        }
        let mut content = [&[MARK][..], &request.now.0.to_be_bytes()].concat();
        for text in [request.id.as_ref()].into_iter().chain(texts) {
            let length = text.map_or(Some(NONE), |text| u16::try_from(text.len()).ok().filter(|length| *length != NONE))?;
            content.extend_from_slice(&length.to_be_bytes());
            content.extend_from_slice(text.map(String::as_bytes).unwrap_or_default());
        }
        request.keys.seal(&content)
    }

    fn open(text: &str, request: &Request<'_>) -> Option<Self> {
        let content = request.keys.open(text)?;
        let (made, mut rest) = content.strip_prefix(&[MARK])?.split_first_chunk()?;
        let mut next = || {
            let (length, after) = rest.split_first_chunk()?;
            let length = u16::from_be_bytes(*length);
            let (text, after) = after.split_at_checked(if length == NONE { 0 } else { usize::from(length) })?;
            rest = after;
            Some((length != NONE).then(|| String::from_utf8_lossy(text).into_owned()))
        };
        let (id, path, query, name, value) = (next()?, next()?, next()?, next()?, next()?);
        let is_ours = request.now.0.abs_diff(u64::from_be_bytes(*made)) <= LIFETIME && id == request.id;
        is_ours.then(|| Self { path, query, header: name.zip(value) })
    }
}

/// Whose origin it is, and who can read it.
#[derive(Debug)]
pub(super) struct Request<'a> {
    /// `x-request-id`, which all attempts have in common.
    pub id: Option<String>,
    pub keys: &'a Keys,
    pub now: Moment,
}

impl<'a> Request<'a> {
    pub(super) fn of(head: &impl Head, keys: &'a Keys, now: Moment) -> Self {
        let id = match head::header(head, "x-request-id") {
            Found::Value(id) if id.len() <= 128 => Some(id),
            Found::Value(_) | Found::Nothing | Found::Unusable => None,
        };
        Self { id, keys, now }
    }

    /// What earlier attempts have kept. The first attempt has none before it, whatever a client sends.
    pub(super) fn inherited(&self, head: &impl Head) -> Inherited {
        if head.header(HEADER).next().is_none() || head::header(head, "x-envoy-attempt-count") == Found::Value("1".to_owned()) {
            return Inherited::Nothing;
        }
        match head::header(head, HEADER) {
            Found::Value(text) => Origin::open(&text, self).map_or(Inherited::Unreadable, Inherited::Origin),
            Found::Nothing | Found::Unusable => Inherited::Unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::request;
    use crate::feedback::token::Token;
    use crate::settings::read::{Flags, read};

    fn ours(keys: &Keys, now: u64) -> Request<'_> {
        Request { id: Some("id".to_owned()), keys, now: Moment(now) }
    }

    fn path(path: &str) -> Origin {
        Origin { path: Some(path.to_owned()), ..Origin::default() }
    }

    #[test]
    fn no_other_header_of_ours_has_its_name() {
        let settings = format!("publish: {{sticky_header: {HEADER}}}\n");
        assert!(read(Some(("cascade.yaml", &settings)), std::iter::empty(), Flags::default()).is_err());
    }

    #[test]
    fn what_was_kept_comes_back_and_whatever_we_did_not_write_does_not() {
        let keys = Keys::random().unwrap();
        let header = Some(("x-model".to_owned(), String::new()));
        for origin in
            [path("/v1/chat"), Origin { query: Some("?a=1".to_owned()), ..path("") }, Origin { header, ..Origin::default() }]
        {
            let sealed = origin.seal(&ours(&keys, LIFETIME)).unwrap();
            assert_eq!(Origin::open(&sealed, &ours(&keys, 2 * LIFETIME)), Some(origin));
            assert_eq!(Origin::open(&sealed, &ours(&keys, 2 * LIFETIME + 1)), None, "old");
            assert_eq!(Origin::open(&sealed, &ours(&Keys::random().unwrap(), LIFETIME)), None, "forged");
            let other = Request { id: None, ..ours(&keys, LIFETIME) };
            assert_eq!(Origin::open(&sealed, &other), None, "of another request");
            assert_eq!(Token::open(&sealed, &keys, Moment(LIFETIME)), None, "no token of a decision");
        }
        let token = Token::default().seal(&keys, Moment(0)).unwrap();
        assert_eq!(Origin::open(&token, &ours(&keys, 0)), None, "a token of a decision");
        assert_eq!(Origin::open("/v1/chat", &ours(&keys, 0)), None);
        assert_eq!(path(&"x".repeat(MAX_KEPT + 1)).seal(&ours(&keys, 0)), None, "too long");
        for cut in 0..20 {
            let content = [&[MARK][..], &[0; 8], &[0, 2, b'i', b'd'], &[0xFF; 8]].concat();
            assert!(Origin::open(&keys.seal(&content).unwrap(), &ours(&keys, 0)).is_some());
            assert_eq!(Origin::open(&keys.seal(&content[..cut]).unwrap(), &ours(&keys, 0)), None, "cut at {cut}");
        }
    }

    #[test]
    fn the_first_attempt_believes_nobody_and_a_later_one_says_what_it_cannot_read() {
        let keys = Keys::random().unwrap();
        let sealed = path("/v1/chat").seal(&ours(&keys, 0)).unwrap();
        let inherited = |kept: &[&str], count: &[&str]| {
            let mut head = request::Request::new("/now");
            head.add_header("x-request-id", "id");
            kept.iter().for_each(|kept| head.add_header(HEADER, kept));
            count.iter().for_each(|count| head.add_header("x-envoy-attempt-count", count));
            Request::of(&head, &keys, Moment(0)).inherited(&head)
        };
        let origin = Inherited::Origin(path("/v1/chat"));
        for (kept, count, expected) in [
            (&[sealed.as_str()][..], &["1"][..], Inherited::Nothing),
            (&[&sealed], &["2"], origin.clone()),
            (&[&sealed], &[], origin),
            (&["forged"], &["1"], Inherited::Nothing),
            (&["forged"], &["2"], Inherited::Unreadable),
            (&["forged", &sealed], &["2"], Inherited::Unreadable),
            (&[""], &["2"], Inherited::Unreadable),
            (&[], &["2"], Inherited::Nothing),
        ] {
            assert_eq!(inherited(kept, count), expected, "{kept:?} {count:?}");
        }
    }
}
