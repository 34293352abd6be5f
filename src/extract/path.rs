//! Paths: a request target split into path and query, percent-decoding, and the templates of the settings. It knows no API.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

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

/// Values that contradict each other, or that are no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disagreement;

/// `/openai/deployments/{model}/**`: literal segments, one named segment, `*` for one segment, `**` for any rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Any,
    /// Literal text before and after the name, as in `{model}:generate`.
    Capture {
        before: String,
        after: String,
    },
    Rest,
}

impl Template {
    /// Takes a template with exactly one `{name}`; `**` may only be the last segment.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(rest) = text.strip_prefix('/') else { return Err("a path template starts with `/`") };
        let parts: Vec<&str> = rest.split('/').collect();
        let mut segments = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            segments.push(match *part {
                "**" if index + 1 == parts.len() => Segment::Rest,
                "**" => return Err("`**` may only be the last segment of a path template"),
                "*" => Segment::Any,
                part => match (part.find('{'), part.find('}')) {
                    (None, None) => Segment::Literal(part.to_owned()),
                    (Some(open), Some(close)) if open + 1 < close => {
                        Segment::Capture { before: part[..open].to_owned(), after: part[close + 1..].to_owned() }
                    }
                    _ => return Err("a name in a path template is written `{name}`"),
                },
            });
        }
        match segments.iter().filter(|segment| matches!(segment, Segment::Capture { .. })).count() {
            1 => Ok(Self { text: text.to_owned(), segments }),
            0 => Err("a path template needs one `{name}`, the part that is the value"),
            _ => Err("a path template may have one `{name}` only"),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The named segment of `path` (without query), percent-decoded; `None` if the path has another form or the value is empty.
    #[must_use]
    pub fn capture(&self, path: &str) -> Option<String> {
        let mut parts = path.strip_prefix('/')?.split('/');
        let mut found = None;
        for segment in &self.segments {
            if *segment == Segment::Rest {
                return found;
            }
            let part = parts.next()?;
            match segment {
                Segment::Literal(literal) if literal == part => {}
                Segment::Any => {}
                Segment::Capture { before, after } => {
                    let value = part.strip_prefix(before.as_str())?.strip_suffix(after.as_str())?;
                    found = Some(decode(value).filter(|value| !value.is_empty())?.into_owned());
                }
                Segment::Literal(_) | Segment::Rest => return None,
            }
        }
        if parts.next().is_some() { None } else { found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_captures_one_decoded_segment() {
        for (template, path, expected) in [
            ("/openai/deployments/{model}/**", "/openai/deployments/gpt%2D4o/chat/completions", Some("gpt-4o")),
            ("/openai/deployments/{model}/**", "/openai/deployments/gpt-4o", Some("gpt-4o")),
            ("/openai/deployments/{model}/**", "/openai/deployments//chat", None),
            ("/t/{tenant}/*", "/t/acme/x", Some("acme")),
            ("/t/{tenant}/*", "/t/acme", None),
            ("/t/{tenant}", "/t/acme/x", None),
            ("/m/{model}:run", "/m/a%2Fb:run", Some("a/b")),
            ("/m/{model}:run", "/m/a:stop", None),
            ("/m/{model}", "/m/%ff", None),
        ] {
            assert_eq!(Template::parse(template).unwrap().capture(path).as_deref(), expected, "{template} on {path}");
        }
    }

    #[test]
    fn a_template_without_exactly_one_name_is_refused() {
        for template in ["models/{model}", "/models", "/{a}/{b}", "/**/{model}", "/{}", "/}a{"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }

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
    fn a_target_is_split_at_the_query() {
        assert_eq!(split_target("/v1/x?a=1?b"), ("/v1/x", "a=1?b"));
        assert_eq!(split_target("/v1/x#f?a"), ("/v1/x", ""));
    }
}
