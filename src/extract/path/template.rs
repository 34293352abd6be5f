//! The path templates of the settings: which segment of a path is the value. Literal text is compared as APIs are recognised: after
//! percent-decoding, whatever its case, without empty segments. It knows no API.

use std::ops::Range;

use super::decode;
use super::segments::{self, segments};

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
        let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        let mut segments = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            segments.push(match *part {
                "**" if index + 1 == parts.len() => Segment::Rest,
                "**" => return Err("`**` may only be the last segment of a path template"),
                "*" => Segment::Any,
                part => match (part.find('{'), part.find('}')) {
                    (None, None) => Segment::Literal(literal(part)?),
                    (Some(open), Some(close)) if open + 1 < close => {
                        Segment::Capture { before: literal(&part[..open])?, after: literal(&part[close + 1..])? }
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
        let range = self.place(path)?;
        decode(path.get(range)?).map(std::borrow::Cow::into_owned)
    }

    /// Why a provider may read another value from this path, or one where none is read here.
    #[must_use]
    pub fn doubt(&self, path: &str) -> Option<&'static str> {
        let loose = segments::loose(path)?;
        let read = self.capture(path);
        match self.capture(&loose.path) {
            _ if loose.has_dots => Some(segments::DOTS),
            Some(other) if read.as_deref() != Some(other.as_str()) => Some(segments::TWO_WAYS),
            _ => None,
        }
    }

    /// Where in the path the value is, as sent; never empty.
    #[must_use]
    pub fn place(&self, path: &str) -> Option<Range<usize>> {
        let parts = segments(path);
        let mut parts = parts.iter();
        let mut found = None;
        for segment in &self.segments {
            if *segment == Segment::Rest {
                return found;
            }
            let part = parts.next()?;
            match segment {
                Segment::Literal(literal) if part.is(literal) => {}
                Segment::Any => {}
                Segment::Capture { before, after } => found = Some(between(part, before, after)?),
                Segment::Literal(_) | Segment::Rest => return None,
            }
        }
        if parts.next().is_some() { None } else { found }
    }
}

fn literal(text: &str) -> Result<String, &'static str> {
    decode(text).map(std::borrow::Cow::into_owned).ok_or("a path template holds percent-encoded bytes that are not UTF-8")
}

/// Which bytes of the path are between the literal texts that begin and end this segment.
fn between(part: &segments::Segment<'_>, before: &str, after: &str) -> Option<Range<usize>> {
    let bytes = part.bytes();
    let end = bytes.len().checked_sub(after.len()).filter(|end| *end > before.len())?;
    let reads = |from: usize, text: &str| {
        bytes[from..from + text.len()].iter().zip(text.bytes()).all(|((byte, _), literal)| byte.eq_ignore_ascii_case(&literal))
    };
    let start = part.range.start;
    (reads(0, before) && reads(end, after)).then(|| {
        let raw_end = bytes.get(end).map_or(part.raw.len(), |(_, at)| *at);
        start + bytes[before.len()].1..start + raw_end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_captures_one_decoded_segment() {
        for (template, path, expected) in [
            ("/openai/deployments/{model}/**", "/openai/deployments/gpt%2D4o/chat/completions", Some("gpt-4o")),
            ("/openai/deployments/{model}/**", "/openai/deployments/gpt-4o", Some("gpt-4o")),
            ("/openai/deployments/{model}/**", "/openai/deployments//gpt-4o/", Some("gpt-4o")),
            ("/openai/deployments/{model}/**", "/openai/deployments/", None),
            ("/openai/deployments/{model}/**", "/OpenAI/%64eployments/GPT/x", Some("GPT")),
            ("/%6Fpenai//{model}/", "/openai/m", Some("m")),
            ("/t/{tenant}", "/t/acme/", Some("acme")),
            ("/m/{model}:run", "/m/a%3ARUN", Some("a")),
            ("/m/{model}:run", "/m/:run", None),
            ("/m/x%2D{model}", "/m/X-%C3%A9", Some("\u{e9}")),
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
    fn a_path_that_a_provider_may_read_in_another_way_is_doubtful() {
        let template = Template::parse("/t/{tenant}/**").unwrap();
        for (path, is_doubtful) in [
            ("/t/acme/x", false),
            ("/t/a%2Fb/x", true),
            ("/t/acme/x%2Fy", false),
            ("/t/acme/../other/x", true),
            ("/x/..%2Ft/acme", true),
            ("/t%2Facme/x", true),
            ("/other%2Fx", false),
            ("/t/%2561/x", true),
            ("/T//acme/", false),
        ] {
            assert_eq!(template.doubt(path).is_some(), is_doubtful, "{path}");
        }
    }

    #[test]
    fn a_template_without_exactly_one_name_is_refused() {
        for template in ["models/{model}", "/models", "/{a}/{b}", "/**/{model}", "/{}", "/}a{"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }
}
