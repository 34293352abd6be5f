//! The head of a request: headers, cookies, the query, attributes and metadata, as one of the configured sources asks for them.
//! Where they come from (protobuf, a command line, a catalog's test) is the business of whoever implements [`Head`].

use sha2::{Digest, Sha256};

use super::path::{Disagreement, is_ambiguous, pair, split_target};
use super::source::Source;
use super::{Found, TenantClaim};

/// What HTTP lets stand around the value of a header (RFC 9110); any other blank is a part of the value.
const BLANK: [char; 2] = [' ', '\t'];

/// What a request's head can be asked for.
pub trait Head {
    /// Every value of the header, in order. `name` is lower case; pseudo headers are asked for as `:path`.
    fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]>;
    /// An Envoy attribute as text.
    fn attribute(&self, name: &str) -> Option<String>;
    /// The text at `path` below a metadata namespace, untyped or typed.
    fn metadata(&self, namespace: &str, path: &[String]) -> Option<String>;
}

/// The one value of a header: `Unusable` if it stands several times with different values or is no UTF-8.
pub fn header(head: &impl Head, name: &str) -> Found<String> {
    agreed(head.header(name).map(|value| std::str::from_utf8(value).ok().map(|text| text.trim_matches(BLANK).to_owned())))
}

/// The `:path` header, query included; empty if there is none.
pub fn target(head: &impl Head) -> &str {
    head.header(":path").next().and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default()
}

/// The method; empty if there is none.
pub fn method(head: &impl Head) -> &str {
    head.header(":method").next().and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default()
}

/// True for a request that becomes a stream of another protocol: its body has no end, and nobody may wait for it (fact 99).
pub fn is_upgrade(head: &impl Head) -> bool {
    let has = |name: &'static str| head.header(name).any(|value| !value.trim_ascii().is_empty());
    has("upgrade") || has(":protocol") || method(head) == "CONNECT"
}

/// What the source says, for sources that need no body; body sources say nothing.
pub fn find(head: &impl Head, source: &Source) -> Found<String> {
    match source {
        Source::Header(name) => header(head, name),
        Source::Cookie(name) => agreed(head.header("cookie").flat_map(|value| cookies(value, name))),
        Source::Query(name) => match pair(split_target(target(head)).1, name) {
            Ok(value) => some(value),
            Err(Disagreement) => Found::Unusable,
        },
        Source::Path(template) => some(template.capture(split_target(target(head)).0)),
        Source::Attribute(name) => some(head.attribute(name)),
        Source::Metadata { namespace, path } => some(head.metadata(namespace, path)),
        Source::Value(value) => some(Some(value.clone())),
        Source::ApiKey { header: name, scheme } => match header(head, name) {
            Found::Value(value) => some(strip_scheme(&value, scheme).map(str::to_owned)),
            other => other,
        },
        Source::Dialect | Source::Body(_) | Source::Multipart(_) | Source::Form(_) => Found::Nothing,
    }
}

/// Why a provider may read another value than [`find`] from the same place.
pub fn doubt(head: &impl Head, source: &Source) -> Option<&'static str> {
    let (path, query) = split_target(target(head));
    match source {
        Source::Path(template) => template.doubt(path),
        Source::Query(name) => is_ambiguous(query, name).then_some("the query can be read in two ways"),
        _ => None,
    }
}

/// A tenant source's value as a claim: an API key leaves here as its hash alone.
#[must_use]
pub fn claim(source: &Source, value: String) -> TenantClaim {
    match source {
        Source::ApiKey { .. } => TenantClaim::ApiKey(Sha256::digest(value.as_bytes()).into()),
        _ => TenantClaim::Name(value),
    }
}

fn some(value: Option<String>) -> Found<String> {
    value.filter(|value| !value.is_empty()).map_or(Found::Nothing, Found::Value)
}

/// One value if all agree. `None` among them is a value that is no text; an empty one is no value.
fn agreed(values: impl Iterator<Item = Option<String>>) -> Found<String> {
    let mut found = Found::Nothing;
    for value in values.filter(|value| value.as_deref() != Some("")) {
        match (&found, value) {
            (_, None) => return Found::Unusable,
            (Found::Nothing, value) => found = some(value),
            (Found::Value(first), Some(other)) if *first == other => {}
            _ => return Found::Unusable,
        }
    }
    found
}

/// The values of one cookie; `None` for one that is not UTF-8.
fn cookies<'a>(header: &'a [u8], name: &'a str) -> impl Iterator<Item = Option<String>> {
    header.split(|byte| *byte == b';').filter_map(move |pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        (trimmed(&pair[..at]) == name.as_bytes()).then(|| {
            let value = std::str::from_utf8(trimmed(&pair[at + 1..])).ok()?;
            let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            Some(quoted.unwrap_or(value).to_owned())
        })
    })
}

fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

fn strip_scheme<'a>(value: &'a str, scheme: &str) -> Option<&'a str> {
    if scheme.is_empty() {
        return Some(value);
    }
    let (first, rest) = value.split_once(BLANK)?;
    first.eq_ignore_ascii_case(scheme).then(|| rest.trim_matches(BLANK))
}

#[cfg(test)]
mod tests {
    use super::super::request::Request;
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request {
        let mut request = Request::new("/v1/x?model=a%20b&tenant=");
        headers.iter().for_each(|(name, value)| request.add_header(name, value));
        request
    }

    fn value(text: &str) -> Found<String> {
        Found::Value(text.to_owned())
    }

    #[test]
    fn each_source_reads_its_place() {
        let request = request(&[
            ("x-tenant", " acme "),
            ("x-empty", ""),
            ("x-half", ""),
            ("x-half", "a"),
            ("x-half", ""),
            ("x-twice", "a"),
            ("x-twice", "b"),
            ("x-same", "a"),
            ("x-same", "a"),
            ("cookie", "a=1; sid=\"s 1\"; b=2"),
            ("cookie", "c=3; twice=1; twice=2"),
            ("authorization", "bearer  key"),
        ]);
        let key = |scheme: &str| Source::ApiKey { header: "authorization".to_owned(), scheme: scheme.to_owned() };
        for (source, expected) in [
            (Source::Header("x-tenant".to_owned()), value("acme")),
            (Source::Header("x-empty".to_owned()), Found::Nothing),
            (Source::Header("x-none".to_owned()), Found::Nothing),
            (Source::Header("x-half".to_owned()), value("a")),
            (Source::Header("x-twice".to_owned()), Found::Unusable),
            (Source::Header("x-same".to_owned()), value("a")),
            (Source::Cookie("sid".to_owned()), value("s 1")),
            (Source::Cookie("c".to_owned()), value("3")),
            (Source::Cookie("twice".to_owned()), Found::Unusable),
            (Source::Cookie("d".to_owned()), Found::Nothing),
            (Source::Query("model".to_owned()), value("a b")),
            (Source::Query("tenant".to_owned()), Found::Nothing),
            (Source::Value("fixed".to_owned()), value("fixed")),
            (key("Bearer"), value("key")),
            (key("Basic"), Found::Nothing),
            (key(""), value("bearer  key")),
        ] {
            assert_eq!(find(&request, &source), expected, "{source:?}");
        }
    }

    #[test]
    fn blanks_that_are_not_of_http_belong_to_the_value() {
        for blank in ["\u{a0}", "\u{2003}", "\u{3000}", "\u{85}", "\u{c}", "\u{feff}"] {
            let with = format!(" \t{blank}acme{blank}\t ");
            let bare = format!("{blank}acme{blank}");
            let request = request(&[
                ("x-tenant", &with),
                ("cookie", &format!("sid={with}; {blank}other=1")),
                ("authorization", &format!("Bearer {with}")),
            ]);
            let key = Source::ApiKey { header: "authorization".to_owned(), scheme: "Bearer".to_owned() };
            for source in [Source::Header("x-tenant".to_owned()), Source::Cookie("sid".to_owned()), key] {
                assert_eq!(find(&request, &source), value(&bare), "{source:?} {blank:?}");
            }
            assert_eq!(find(&request, &Source::Cookie("other".to_owned())), Found::Nothing, "{blank:?}");
        }
    }

    #[test]
    fn an_api_key_becomes_its_hash() {
        let source = Source::ApiKey { header: "x-api-key".to_owned(), scheme: String::new() };
        let TenantClaim::ApiKey(hash) = claim(&source, "abc".to_owned()) else { panic!("a key is a key") };
        assert_eq!(hash[..4], [0xba, 0x78, 0x16, 0xbf]);
    }
}
