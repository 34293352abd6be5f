//! Whose API a path belongs to, and where that API keeps the model: in the body, or in the path itself. It reads the path and the
//! content type alone; it never looks into a body.

use std::ops::Range;

use super::Api;
use super::path::decode;

/// What the path says of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    pub api: Api,
    pub model: ModelPlace,
}

/// Where the model stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelPlace {
    /// In the path: it wins over the body. `None` if the segment is no UTF-8.
    Path(Option<String>),
    /// In a body that is JSON unless it says it is multipart, whatever the content type.
    KnownBody,
    /// In a body that is what its content type says.
    AnyBody,
}

/// How the bytes of the body are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyKind {
    Json,
    Multipart {
        boundary: String,
    },
    Form,
    /// Nothing that holds a field.
    Other,
}

const OPENAI: [&[&str]; 6] =
    [&["chat", "completions"], &["completions"], &["responses"], &["embeddings"], &["moderations"], &["rerank"]];

/// Which bytes of the path (without its query) are the model, if the API keeps it there.
#[must_use]
pub fn model_in_path(path: &str) -> Option<Range<usize>> {
    let segments: Vec<&str> = path.split('/').collect();
    let segments = segments.as_slice();
    let model = google_model(segments).or_else(|| bedrock_model(segments)).or_else(|| azure_model(segments))?;
    // It is a part of the path: the distance between the two is its offset.
    let start = (model.as_ptr() as usize).checked_sub(path.as_ptr() as usize)?;
    Some(start..start + model.len())
}

impl Dialect {
    /// Reads the path without its query. Anything may stand before the part that is the API's own.
    #[must_use]
    pub fn of(path: &str) -> Self {
        let segments: Vec<&str> = path.split('/').collect();
        let segments = segments.as_slice();
        if let Some(model) = google_model(segments) {
            return Self { api: Api::Google, model: ModelPlace::Path(owned(model)) };
        }
        if let Some(model) = bedrock_model(segments).or_else(|| azure_model(segments)) {
            return Self { api: Api::OpenAi, model: ModelPlace::Path(owned(model)) };
        }
        match after_v1(segments) {
            Some(["messages"] | ["messages", "count_tokens"]) => Self { api: Api::Anthropic, model: ModelPlace::KnownBody },
            Some(["messages", ..]) => Self { api: Api::Anthropic, model: ModelPlace::AnyBody },
            Some(["images" | "audio", _]) => Self { api: Api::OpenAi, model: ModelPlace::KnownBody },
            Some(rest) if OPENAI.contains(&rest) => Self { api: Api::OpenAi, model: ModelPlace::KnownBody },
            _ => Self { api: Api::OpenAi, model: ModelPlace::AnyBody },
        }
    }

    /// How to read the body, given its `content-type`.
    #[must_use]
    pub fn body_kind(&self, content_type: Option<&str>) -> BodyKind {
        let Some(content_type) = content_type else { return BodyKind::Json };
        let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if media_type == "multipart/form-data" {
            return boundary(content_type).map_or(BodyKind::Other, |boundary| BodyKind::Multipart { boundary });
        }
        // `curl -d` calls everything a form; a path that is known to take JSON knows better.
        if self.model == ModelPlace::KnownBody || media_type == "application/json" || media_type.ends_with("+json") {
            return BodyKind::Json;
        }
        if media_type == "application/x-www-form-urlencoded" { BodyKind::Form } else { BodyKind::Other }
    }
}

fn owned(segment: &str) -> Option<String> {
    decode(segment).filter(|model| !model.is_empty()).map(std::borrow::Cow::into_owned)
}

/// Gemini and Vertex: `…/models/{model}:{verb}`. The last colon ends the model, since a verb has none.
fn google_model<'a>(segments: &[&'a str]) -> Option<&'a str> {
    match segments {
        [.., "models", last] => last.rsplit_once(':').map(|(model, _)| model).filter(|model| !model.is_empty()),
        _ => None,
    }
}

/// Bedrock: `…/model/{model}/{invoke,converse}*`.
fn bedrock_model<'a>(segments: &[&'a str]) -> Option<&'a str> {
    let [.., "model", model, verb] = segments else { return None };
    ((verb.starts_with("invoke") || verb.starts_with("converse")) && !model.is_empty()).then_some(*model)
}

/// Azure: `…/openai/deployments/{model}/*`.
fn azure_model<'a>(segments: &[&'a str]) -> Option<&'a str> {
    segments
        .windows(4)
        .find(|window| window[..2] == ["openai", "deployments"])
        .map(|window| window[2])
        .filter(|model| !model.is_empty())
}

/// What follows the last `v1` segment.
fn after_v1<'a, 'b>(segments: &'b [&'a str]) -> Option<&'b [&'a str]> {
    let at = segments.iter().rposition(|segment| *segment == "v1")?;
    segments.get(at + 1..)
}

/// The `boundary` parameter of a content type, quoted or not.
fn boundary(content_type: &str) -> Option<String> {
    let (_, parameters) = content_type.split_once(';')?;
    super::multipart::parameter(parameters, "boundary").filter(|boundary| !boundary.is_empty() && boundary.len() <= 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_model(path: &str) -> Option<String> {
        match Dialect::of(path).model {
            ModelPlace::Path(model) => model,
            ModelPlace::KnownBody | ModelPlace::AnyBody => None,
        }
    }

    #[test]
    fn path_dialects_name_their_model() {
        for (path, model) in [
            ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro"),
            ("/x/v1/projects/p/locations/l/publishers/google/models/gemini%2Dpro:streamGenerateContent", "gemini-pro"),
            ("/v1beta/models/a:b:generateContent", "a:b"),
            ("/model/us.anthropic.claude-opus-4-1-20250805-v1:0/invoke", "us.anthropic.claude-opus-4-1-20250805-v1:0"),
            ("/model/arn%3Aaws%3Abedrock%2Fx/converse-stream", "arn:aws:bedrock/x"),
            ("/aws/model/m/invoke-with-response-stream", "m"),
            ("/openai/deployments/gpt-4o/chat/completions", "gpt-4o"),
            ("/eu/openai/deployments/gpt%204/embeddings", "gpt 4"),
        ] {
            assert_eq!(path_model(path).as_deref(), Some(model), "{path}");
        }
        for path in [
            "/v1/models/gpt-4o",
            "/model/x/list",
            "/openai/deployments/gpt-4o",
            "/openai/deployments//chat",
            "/v1/chat/completions",
        ] {
            assert_eq!(path_model(path), None, "{path}");
        }
    }

    #[test]
    fn the_path_gives_a_rejection_its_shape() {
        for (path, api) in [
            ("/v1/chat/completions", Api::OpenAi),
            ("/anthropic/v1/messages", Api::Anthropic),
            ("/v1/messages/count_tokens", Api::Anthropic),
            ("/v1/messages/batches", Api::Anthropic),
            ("/v1beta/models/g:countTokens", Api::Google),
            ("/", Api::OpenAi),
        ] {
            assert_eq!(Dialect::of(path).api, api, "{path}");
        }
    }

    #[test]
    fn known_paths_are_json_unless_multipart_and_others_are_what_they_say() {
        let multipart = BodyKind::Multipart { boundary: "a b".to_owned() };
        for (path, content_type, kind) in [
            ("/v1/chat/completions", None, BodyKind::Json),
            ("/v1/chat/completions", Some("application/x-www-form-urlencoded"), BodyKind::Json),
            ("/v1/audio/transcriptions", Some("Multipart/Form-Data; charset=x; boundary=\"a b\""), multipart),
            ("/v1/images/edits", Some("multipart/form-data"), BodyKind::Other),
            ("/custom", Some("application/json; charset=utf-8"), BodyKind::Json),
            ("/custom", Some("application/vnd.api+json"), BodyKind::Json),
            ("/custom", Some("application/x-www-form-urlencoded"), BodyKind::Form),
            ("/custom", Some("text/plain"), BodyKind::Other),
            ("/custom", None, BodyKind::Json),
        ] {
            assert_eq!(Dialect::of(path).body_kind(content_type), kind, "{path} {content_type:?}");
        }
    }
}
