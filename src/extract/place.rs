//! Where a request keeps its model, as a range of bytes: in the path, in JSON, or in a part of a form. Whoever wants to put another
//! name there replaces exactly these bytes. It finds places; it knows no catalog and chooses no name.

use std::ops::Range;

use super::Found;
use super::dialect::{self, BodyKind, Dialect, ModelPlace};
use super::head::{self, Head};
use super::json::{Malformed, Scanner, Slot};
use super::multipart;
use super::path::decode;
use super::source::{OnDuplicateKey, Pointer};

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// These bytes of `:path`, and the name they stand for.
    Path(Range<usize>, String),
    Json,
    Multipart {
        boundary: String,
    },
    /// In a body that cannot be looked into.
    Compressed,
    Nowhere,
}

/// A model in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InBody {
    pub range: Range<usize>,
    pub model: String,
}

impl Place {
    /// Reads the head of a request for this path (without its query), which may have another one by now.
    #[must_use]
    pub fn of(path: &str, head: &impl Head) -> Self {
        let method = head::method(head);
        if let Some(range) = dialect::model_in_path(path, method) {
            let model = path.get(range.clone()).and_then(decode);
            return model.map_or(Self::Nowhere, |model| Self::Path(range, model.into_owned()));
        }
        let dialect = Dialect::of(path, method);
        let kind = match head::header(head, "content-type") {
            Found::Value(content_type) => dialect.body_kind(Some(&content_type)),
            Found::Nothing => dialect.body_kind(None),
            Found::Unusable => BodyKind::Other,
        };
        let kind = if dialect.model == ModelPlace::Nowhere { BodyKind::Other } else { kind };
        let is_plain = match head::header(head, "content-encoding") {
            Found::Value(encoding) => encoding.eq_ignore_ascii_case("identity"),
            Found::Nothing => true,
            Found::Unusable => false,
        };
        match kind {
            BodyKind::Json | BodyKind::Multipart { .. } if !is_plain => Self::Compressed,
            BodyKind::Json => Self::Json,
            BodyKind::Multipart { boundary } => Self::Multipart { boundary },
            BodyKind::Form | BodyKind::Other => Self::Nowhere,
        }
    }

    /// Finds the model in a whole body; `None` if there is none.
    ///
    /// # Errors
    /// The body is not what its head says.
    pub fn in_body(&self, body: &[u8], max_depth: usize) -> Result<Option<InBody>, Malformed> {
        match self {
            Self::Json => in_json(body, max_depth),
            Self::Multipart { boundary } => in_multipart(body, boundary),
            Self::Path(..) | Self::Compressed | Self::Nowhere => Ok(None),
        }
    }

    /// The name as it is written at this place.
    #[must_use]
    pub fn write(&self, name: &str) -> String {
        match self {
            Self::Path(..) => encode_segment(name),
            Self::Json => serde_json::Value::from(name).to_string(),
            Self::Multipart { .. } | Self::Compressed | Self::Nowhere => name.to_owned(),
        }
    }
}

/// The range holds the quotes. Of several it is the last one, which is what providers' parsers take.
fn in_json(body: &[u8], max_depth: usize) -> Result<Option<InBody>, Malformed> {
    let pointer = Pointer::to_key("model");
    let mut scanner = Scanner::new([&pointer], max_depth, OnDuplicateKey::Last);
    scanner.push(body)?;
    scanner.finish()?;
    let Slot::Text(model) = scanner.slot(0) else { return Ok(None) };
    let start = scanner.starts_at(0);
    let end = body.get(start + 1..).and_then(end_of_text).map(|length| start + 1 + length);
    Ok(end.map(|end| InBody { range: start..end, model: model.clone() }))
}

/// The content of the last part with this name, as for JSON.
fn in_multipart(body: &[u8], boundary: &str) -> Result<Option<InBody>, Malformed> {
    let mut scanner = multipart::Scanner::new(boundary, vec!["model".to_owned()], OnDuplicateKey::Last);
    scanner.push(body)?;
    scanner.finish()?;
    let Slot::Text(model) = scanner.slot(0) else { return Ok(None) };
    Ok(scanner.place(0).map(|range| InBody { range, model: model.clone() }))
}

/// How far the closing quote is, itself included.
fn end_of_text(rest: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match rest.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Percent-encodes what may not stand in a segment; a colon may, and providers' names have some.
fn encode_segment(name: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const SEGMENT: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b'@').remove(b'+');
    utf8_percent_encode(name, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::request::Request;

    fn place(path: &str, headers: &[(&str, &str)]) -> Place {
        let mut request = Request::new(path);
        headers.iter().for_each(|(name, value)| request.add_header(name, value));
        Place::of(crate::extract::path::split_target(path).0, &request)
    }

    /// The body with the model replaced.
    fn replaced(place: &Place, body: &str, name: &str) -> Option<String> {
        let InBody { range, .. } = place.in_body(body.as_bytes(), 16).unwrap()?;
        Some(format!("{}{}{}", &body[..range.start], place.write(name), &body[range.end..]))
    }

    #[test]
    fn nothing_but_the_models_bytes_changes_in_json() {
        for (before, after) in [
            (r#"{"model":"a"}"#, r#"{"model":"n\"x"}"#),
            (r#" { "x" : 1.0e2 , "model" : "a\u0062\"" , "y":[ ] }"#, r#" { "x" : 1.0e2 , "model" : "n\"x" , "y":[ ] }"#),
            (
                "\u{feff}{\"m\":{\"model\":\"no\"},\"model\":\"\",\"z\":\"\\\\\"}",
                "\u{feff}{\"m\":{\"model\":\"no\"},\"model\":\"n\\\"x\",\"z\":\"\\\\\"}",
            ),
            (r#"{"model":"a","model":"b"}"#, r#"{"model":"a","model":"n\"x"}"#),
            (r#"{"m\u006fdel":"a"}"#, r#"{"m\u006fdel":"n\"x"}"#),
        ] {
            assert_eq!(replaced(&Place::Json, before, "n\"x").as_deref(), Some(after));
        }
        for body in ["{}", "[]", r#"{"model":1}"#, r#"{"x":{"model":"a"}}"#] {
            assert_eq!(replaced(&Place::Json, body, "n"), None, "{body}");
        }
        assert!(Place::Json.in_body(b"{\"model\":\"a\"", 16).is_err());
    }

    #[test]
    fn nothing_but_the_parts_content_changes_in_a_form() {
        let place = place("/v1/audio/transcriptions", &[("content-type", "multipart/form-data; boundary=B")]);
        let part = |disposition: &str, content: &str| {
            format!("--B\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{content}\r\n")
        };
        let body = |model: &str| {
            let file = part("name=\"model\"; filename=\"f\"", "x\r\n-B");
            format!("{file}{}{}--B--\r\n", part("name=\"model\"", model), part("name=\"z\"", "1"))
        };
        assert_eq!(replaced(&place, &body("a"), "longer name"), Some(body("longer name")));
        assert_eq!(replaced(&place, &format!("preamble\r\n{}", body("a")), "b"), Some(format!("preamble\r\n{}", body("b"))));
        assert_eq!(replaced(&place, &body(""), "b"), Some(body("b")));
        let twice = body("a").replace("--B--", &(part("name=\"model\"", "a") + "--B--"));
        assert_eq!(replaced(&place, &twice, "b"), Some(twice.replace("\r\n\r\na\r\n--B--", "\r\n\r\nb\r\n--B--")));
        // What follows the end is no part, and headers that run into the delimiter leave no room for a name.
        let after_the_end = format!("--B--\r\n{}", body("a"));
        let no_content = "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n--B--";
        for other in ["--B--", "--B\r\n\r\n\r\n--B--", &after_the_end, no_content] {
            assert_eq!(replaced(&place, other, "b"), None, "{other}");
        }
        for broken in ["", &part("name=\"model\"", "a")] {
            assert!(place.in_body(broken.as_bytes(), 16).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_models_segment_is_found_in_the_path() {
        for (path, segment, model) in [
            ("/openai/deployments/gpt%2D4o/chat?x=gpt", "gpt%2D4o", "gpt-4o"),
            ("/v1beta/models/gemini:generateContent", "gemini", "gemini"),
            ("/model/us.anthropic:0/invoke", "us.anthropic:0", "us.anthropic:0"),
        ] {
            let Place::Path(range, found) = place(path, &[]) else { panic!("{path}") };
            assert_eq!((&path[range], found.as_str()), (segment, model));
        }
        assert_eq!(Place::Path(0..0, String::new()).write("a b/c:0@x"), "a%20b%2Fc:0@x");
    }

    #[test]
    fn what_cannot_be_looked_into_is_left_alone() {
        assert_eq!(place("/v1/chat/completions", &[("content-encoding", "gzip")]), Place::Compressed);
        assert_eq!(place("/v1/chat/completions", &[("content-encoding", "identity")]), Place::Json);
        assert_eq!(place("/x", &[("content-type", "text/plain")]), Place::Nowhere);
        assert_eq!(place("/model/%ff/invoke", &[]), Place::Nowhere);
    }
}
