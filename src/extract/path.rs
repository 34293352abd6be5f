//! Paths: a request target split into path and query, percent-decoding, segments, and the templates of the settings. It knows no API.

pub mod segments;
mod template;

use std::borrow::Cow;
use std::ops::Range;

use percent_encoding::percent_decode_str;

pub use self::template::Template;

/// Splits `:path` at the first `?`; a fragment (never sent by a correct client) is dropped.
#[must_use]
pub fn split_target(target: &str) -> (&str, &str) {
    let target = target.split('#').next().unwrap_or(target);
    target.split_once('?').unwrap_or((target, ""))
}

/// Percent-decodes; a `+` stays a `+`. `None` if the bytes are no UTF-8.
#[must_use]
pub fn decode(text: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(text).decode_utf8().ok()
}

/// Percent-decodes with `+` for space, as forms and queries have it. `None` if the bytes are no UTF-8.
#[must_use]
pub fn decode_form(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    decode(&spaced).map(Cow::into_owned)
}

/// The value of `name` in `a=1&b=2`; `Err` if it stands several times with different values.
///
/// # Errors
/// The values disagree.
pub fn pair(pairs: &str, name: &str) -> Result<Option<String>, Disagreement> {
    let mut found: Option<String> = None;
    for (key, value) in pairs.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))) {
        if decode_form(key).as_deref() != Some(name) {
            continue;
        }
        let Some(value) = decode_form(value) else { return Err(Disagreement) };
        match &found {
            Some(first) if *first != value => return Err(Disagreement),
            _ => found = Some(value),
        }
    }
    Ok(found.filter(|value| !value.is_empty()))
}

/// True if a lenient parser finds another value: it takes `;` for `&`, `Model` and `model[]` for `model`.
#[must_use]
pub fn is_ambiguous(pairs: &str, name: &str) -> bool {
    let Ok(read) = pair(pairs, name) else { return false };
    pairs.split(['&', ';']).any(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let key = percent_decode_str(key).decode_utf8_lossy().replace('+', " ");
        let key = key.trim().split('[').next().unwrap_or_default();
        key.eq_ignore_ascii_case(name) && !value.is_empty() && decode_form(value) != read
    })
}

/// Where the values of `name` are in `a=1&b=2`, as they are written there; empty ones are none.
#[must_use]
pub fn values_of(pairs: &str, name: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut found = Vec::new();
    for pair in pairs.split('&') {
        let key = pair.split('=').next().unwrap_or_default();
        let value = start + (key.len() + 1).min(pair.len())..start + pair.len();
        if !value.is_empty() && decode_form(key).as_deref() == Some(name) {
            found.push(value);
        }
        start += pair.len() + 1;
    }
    found
}

/// Values that contradict each other, or that are no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disagreement;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_must_agree() {
        assert_eq!(pair("model=gpt+4&x=1", "model"), Ok(Some("gpt 4".to_owned())));
        assert_eq!(pair("m%6Fdel=a%2Fb", "model"), Ok(Some("a/b".to_owned())));
        assert_eq!(pair("model=a&model=a", "model"), Ok(Some("a".to_owned())));
        assert_eq!(pair("model=a&model=b", "model"), Err(Disagreement));
        assert_eq!(pair("model=&x", "model"), Ok(None));
        assert_eq!(pair("model=%ff", "model"), Err(Disagreement));
    }

    #[test]
    fn a_query_that_a_lenient_parser_reads_in_another_way_is_ambiguous() {
        for (pairs, expected) in [
            ("model=a&x=1;y=2", false),
            ("model=a;model=b", true),
            ("x=1;model=b", true),
            ("model=a&Model=b", true),
            ("MODEL=b", true),
            ("model=a&model[]=b", true),
            ("model%5B0%5D=b", true),
            ("model=a&+model=b", true),
            ("model=a&Model=a", false),
            ("model=a&models=b", false),
            ("model=&model=a", false),
        ] {
            assert_eq!(is_ambiguous(pairs, "model"), expected, "{pairs}");
        }
    }

    #[test]
    fn the_places_of_values_are_found_as_they_are_written() {
        for (pairs, values) in [
            ("model=gpt+4&x=1", &["gpt+4"][..]),
            ("x=1&m%6Fdel=a%2Fb&model=a%2fb&model", &["a%2Fb", "a%2fb"]),
            ("model=a=b&&model=", &["a=b"]),
            ("models=a", &[]),
            ("", &[]),
        ] {
            let found: Vec<&str> = values_of(pairs, "model").into_iter().map(|range| &pairs[range]).collect();
            assert_eq!(found, values, "{pairs}");
        }
    }

    #[test]
    fn a_target_is_split_at_the_query() {
        assert_eq!(split_target("/v1/x?a=1?b"), ("/v1/x", "a=1?b"));
        assert_eq!(split_target("/v1/x#f?a"), ("/v1/x", ""));
    }
}
