//! Which paths name a model, which name none, and which can be read in two ways.

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
