//! What a request's `content-type` makes of its body: which form it is read as, and whether a provider may read it in another way. A
//! path that is known to take JSON knows better than the type; a body that nothing else fits may be JSON all the same, and its first
//! byte will tell. It never looks into the body.

use super::Found;
use super::dialect::ModelPlace;
use super::head::{self, Head};
use super::parameters::{are_plain, parameter};
use super::path::segments::segments;

/// How the bytes of the body are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyKind {
    Json,
    Multipart {
        boundary: String,
    },
    /// A form, or JSON: `curl -d` calls everything a form.
    Form,
    /// JSON if it begins like that, else nothing that holds a field.
    Other,
    /// The same, but what is not JSON may hold a field that cannot be found.
    Unclear(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentType {
    pub kind: BodyKind,
    /// Why a provider may read the same bytes in another way.
    pub doubt: Option<&'static str>,
}

const SEVERAL: &str = "the request has several content types";
const BOUNDARY: &str = "the boundary of the multipart body is not clear";
const CHARSET: &str = "the content type names a charset other than UTF-8";

/// Reads the content type of a request for this path (without its query), whose model is there.
#[must_use]
pub fn of(head: &impl Head, path: &str, place: &ModelPlace) -> ContentType {
    let (text, is_one) = match head::header(head, "content-type") {
        Found::Nothing => return ContentType { kind: BodyKind::Json, doubt: None },
        Found::Unusable => (String::new(), false),
        Found::Value(text) => {
            let is_one = !text.contains(',');
            (text, is_one)
        }
    };
    let (media_type, parameters) = text.split_at(text.find(';').unwrap_or(text.len()));
    let media_type = media_type.trim_matches([' ', '\t']).to_ascii_lowercase();
    let is_known = *place == ModelPlace::KnownBody;
    let kind = match media_type.as_str() {
        _ if is_known && !takes_uploads(path) => BodyKind::Json,
        _ if !is_one => BodyKind::Unclear(SEVERAL),
        "multipart/form-data" => match boundary(parameters) {
            Some(boundary) => BodyKind::Multipart { boundary },
            None => BodyKind::Unclear(BOUNDARY),
        },
        // Some parsers take any multipart body for a form.
        other if other.starts_with("multipart/") => BodyKind::Unclear("the body is multipart, and not a form"),
        _ if is_known => BodyKind::Json,
        "application/json" => BodyKind::Json,
        other if other.ends_with("+json") => BodyKind::Json,
        "application/x-www-form-urlencoded" => BodyKind::Form,
        _ => BodyKind::Other,
    };
    let is_ambiguous = match &kind {
        BodyKind::Multipart { boundary } => !are_plain(parameters, "") || !is_plain_boundary(boundary),
        BodyKind::Json | BodyKind::Form | BodyKind::Other | BodyKind::Unclear(_) => false,
    };
    let doubt = if is_ambiguous { Some(BOUNDARY) } else { (!is_utf8(parameters)).then_some(CHARSET) };
    ContentType { kind, doubt }
}

/// True if the API at a path that is known to take JSON takes multipart as well. Others read such a body as JSON, or not at all.
fn takes_uploads(path: &str) -> bool {
    match segments(path).as_slice() {
        [.., first, last] => (first.is("images") && !last.is("generations")) || (first.is("audio") && !last.is("speech")),
        _ => false,
    }
}

fn boundary(parameters: &str) -> Option<String> {
    parameter(parameters, "boundary").filter(|boundary| !boundary.is_empty() && boundary.len() <= 200)
}

/// RFC 2046's characters, and no blank at either end, where some parsers cut it off.
fn is_plain_boundary(boundary: &str) -> bool {
    boundary == boundary.trim() && boundary.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte))
}

/// True if no parameter names a charset, or one that is UTF-8 or a part of it.
#[must_use]
pub fn is_utf8(parameters: &str) -> bool {
    let lower = parameters.to_ascii_lowercase();
    let mut rest = lower.as_str();
    while let Some((_, after)) = rest.split_once("charset") {
        let after = after.trim_start_matches([' ', '\t']);
        let Some(value) = after.strip_prefix('=') else { return false };
        let value = value.trim_start_matches([' ', '\t', '"']);
        let end = value.find([';', '"', ' ', '\t']).unwrap_or(value.len());
        if !matches!(&value[..end], "utf-8" | "utf8" | "us-ascii" | "ascii" | "") {
            return false;
        }
        rest = &value[end..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::dialect::Dialect;
    use crate::extract::request::Request;

    fn content_type(path: &str, values: &[&str]) -> ContentType {
        let mut request = Request::new(path);
        values.iter().for_each(|value| request.add_header("content-type", value));
        of(&request, path, &Dialect::of(path, "POST").model)
    }

    fn multipart(boundary: &str) -> BodyKind {
        BodyKind::Multipart { boundary: boundary.to_owned() }
    }

    #[test]
    fn known_paths_are_json_unless_they_take_uploads_and_others_are_what_they_say() {
        let (chat, upload, custom) = ("/v1/chat/completions", "/v1/audio/transcriptions", "/custom");
        for (path, value, kind) in [
            (chat, "application/x-www-form-urlencoded", BodyKind::Json),
            (chat, "multipart/form-data; boundary=b", BodyKind::Json),
            (chat, "text/plain, application/json", BodyKind::Json),
            ("/v1/%63hat/completions", "application/x-www-form-urlencoded", BodyKind::Json),
            ("/v1/images/generations", "multipart/form-data; boundary=b", BodyKind::Json),
            ("/v1/audio/speech", "multipart/form-data; boundary=b", BodyKind::Json),
            (upload, "application/json", BodyKind::Json),
            (upload, "Multipart/Form-Data; charset=utf-8; boundary=\"a b\"", multipart("a b")),
            ("/v1/images/edits", "multipart/form-data", BodyKind::Unclear(BOUNDARY)),
            (upload, "multipart/form-data; boundary*=utf-8''b", BodyKind::Unclear(BOUNDARY)),
            (upload, "multipart/form-data; boundary=b, text/plain", BodyKind::Unclear(SEVERAL)),
            (custom, "application/json; charset=utf-8", BodyKind::Json),
            (custom, "application/vnd.api+json", BodyKind::Json),
            (custom, "application/x-www-form-urlencoded", BodyKind::Form),
            (custom, "multipart/form-data; boundary=b", multipart("b")),
            (custom, "text/plain", BodyKind::Other),
            (custom, "application/octet-stream", BodyKind::Other),
            (custom, "application", BodyKind::Other),
        ] {
            assert_eq!(content_type(path, &[value]), ContentType { kind, doubt: None }, "{path} {value}");
        }
        for other in ["multipart/mixed; boundary=b", "multipart/related; boundary=b"] {
            for path in [custom, upload] {
                assert!(matches!(content_type(path, &[other]).kind, BodyKind::Unclear(_)), "{path} {other}");
            }
        }
        assert_eq!(content_type(chat, &[]).kind, BodyKind::Json);
        assert_eq!(content_type(chat, &["text/plain", "text/css"]).kind, BodyKind::Json);
        assert_eq!(content_type(custom, &["text/plain", "text/css"]).kind, BodyKind::Unclear(SEVERAL));
        assert_eq!(content_type(custom, &["text/plain", "text/plain"]).kind, BodyKind::Other);
    }

    #[test]
    fn a_type_that_providers_may_read_in_another_way_is_doubtful() {
        for (path, value, doubt) in [
            ("/v1/responses", "application/json; charset=UTF-8", None),
            ("/v1/responses", "application/json; charset=\"us-ascii\"; x=y", None),
            ("/v1/responses", "application/json; charset=utf-7", Some(CHARSET)),
            ("/v1/responses", "application/json; charset=utf-8; CHARSET = utf-16le", Some(CHARSET)),
            ("/v1/responses", "application/json; charset*=utf-8''utf-16", Some(CHARSET)),
            ("/custom", "application/x-www-form-urlencoded; charset=iso-8859-1", Some(CHARSET)),
            ("/custom", "multipart/form-data; charset=utf-16; boundary=b", Some(CHARSET)),
            ("/custom", "multipart/form-data; boundary=a; boundary=b", Some(BOUNDARY)),
            ("/custom", "multipart/form-data; boundary=a; boundary*=utf-8''b", Some(BOUNDARY)),
            ("/custom", "multipart/form-data; boundary=\"\\b\"", Some(BOUNDARY)),
            ("/custom", "multipart/form-data; boundary=a=b", Some(BOUNDARY)),
            ("/custom", "multipart/form-data; boundary=\"a=b\"", None),
            ("/custom", "multipart/form-data; boundary=\"a \"", Some(BOUNDARY)),
            ("/custom", "multipart/form-data; boundary=\"é\"", Some(BOUNDARY)),
        ] {
            assert_eq!(content_type(path, &[value]).doubt, doubt, "{path} {value}");
        }
    }
}
