//! Which paths name a model, which name none, and which can be read in two ways.

use proptest::prelude::*;

use super::*;
use crate::extract::path::decode;

fn path_model(path: &str) -> Option<String> {
    match Dialect::of(path, "POST").model {
        ModelPlace::Path(model) => model,
        ModelPlace::Query(_) | ModelPlace::KnownBody | ModelPlace::AnyBody | ModelPlace::Nowhere => None,
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
        // Other spellings of the same paths.
        ("/OpenAI/%64eployments/GPT//chat/completions/", "GPT"),
        ("//openai//deployments//m//x//", "m"),
        ("/V1Beta/%6Dodels/m:GenerateContent/", "m"),
        ("/v1beta/models/gemini%3AgenerateContent", "gemini"),
        ("/v1beta/models/a%3ab%3agenerateContent", "a:b"),
        ("/Model/m/Invoke/", "m"),
        // Other verbs and resources.
        ("/v1beta/tunedModels/m:generateContent", "m"),
        ("/v1beta/models/m:batchEmbedContents", "m"),
        ("/v1/projects/p/locations/l/endpoints/123:generateContent", "123"),
        ("/v1/projects/p/locations/l/publishers/mistralai/models/count-tokens:rawPredict", "count-tokens"),
        ("/model/m/count-tokens", "m"),
        ("/model/arn:aws:bedrock:eu:1:inference-profile/eu.m/converse", "arn:aws:bedrock:eu:1:inference-profile/eu.m"),
        ("/v1/engines/davinci/completions", "davinci"),
        ("/openai/deployments//chat/completions", "chat"),
    ] {
        assert_eq!(path_model(path).as_deref(), Some(model), "{path}");
    }
    for path in [
        "/v1/models/gpt-4o",
        "/v1/models/qwen3:30b",
        "/v1beta/models/:generateContent",
        "/v1beta/models/m%253AgenerateContent",
        "/v1beta/cachedContents/x:generateContent",
        "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
        "/v1/engines/davinci",
        "/model/x/y/invoke",
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
        assert_eq!(Dialect::of(path, "POST").api, api, "{path}");
    }
}

#[test]
fn path_dialects_have_methods_of_their_own() {
    for (method, path, model) in [
        ("", "/v1beta/models/m:generateContent", Some("m")),
        ("GET", "/v1beta/models/m:generateContent", None),
        ("GET", "/model/m/invoke", None),
        ("DELETE", "/openai/deployments/m/x", None),
        ("GET", "/openai/deployments/m/realtime", Some("m")),
    ] {
        let dialect = Dialect::of(path, method);
        let found = if let ModelPlace::Path(model) = &dialect.model { model.as_deref() } else { None };
        assert_eq!((found, dialect.doubt.is_some()), (model, model.is_none()), "{method} {path}");
    }
}

#[test]
fn bodies_and_queries_hold_the_model_where_the_api_says() {
    let vertex = "/v1/projects/p/locations/l";
    for (path, place) in [
        ("/V1/%63hat//Completions/", ModelPlace::KnownBody),
        ("/openai/v1/responses", ModelPlace::KnownBody),
        (&format!("{vertex}/publishers/anthropic/models/count-tokens:rawPredict"), ModelPlace::KnownBody),
        (&format!("{vertex}/Publishers/anthropic/models/count-tokens%3ArawPredict"), ModelPlace::KnownBody),
        (&format!("{vertex}/endpoints/openapi/chat/completions"), ModelPlace::KnownBody),
        ("/v1/realtime", ModelPlace::Query("model")),
        ("/openai/realtime", ModelPlace::Query("deployment")),
        ("/v1/files", ModelPlace::Nowhere),
        ("/v1/files/v1/chat/completions", ModelPlace::KnownBody),
        ("/v1/fine_tuning/jobs", ModelPlace::AnyBody),
        ("/v1/responses/compact", ModelPlace::AnyBody),
    ] {
        assert_eq!(Dialect::of(path, "POST").model, place, "{path}");
    }
}

#[test]
fn a_path_that_can_be_read_in_two_ways_is_doubtful() {
    for path in [
        "/openai/deployments/a/../../../v1/chat/completions",
        "/openai/deployments/a/%2e%2E/b/chat/completions",
        "/v1/./chat/completions",
        "/v1\\..\\v1/chat/completions",
        "/openai\\deployments\\m\\chat\\completions",
        "/openai%2Fdeployments%2Fm%2Fchat",
        "/openai/deployments%5Cm/chat",
        "/v1%2Fchat/completions",
        "/v1/chat;x=y/completions",
        "/openai/deployments/%256d/chat",
        "/v1beta/models/m%253AgenerateContent",
        "/openai/deployments/a/openai/deployments/b/chat",
        "/openai/deployments/a/v1beta/models/b:generateContent",
        "/model/x%2Fmodel%2Fy/invoke",
    ] {
        assert!(Dialect::of(path, "POST").doubt.is_some(), "{path}");
    }
    for path in [
        "/v1/chat/completions",
        "/eu//v1/%63hat/completions/",
        "/model/arn%3Aaws%3Abedrock%3Aeu%3A1%3Ainference-profile%2Feu.m/converse",
        "/openai/deployments/gpt%2D4.1/chat/completions",
        "/openai/deployments/a/openai/deployments/a/chat",
        "/custom/a%2Fb;v=1",
    ] {
        assert_eq!(Dialect::of(path, "POST").doubt, None, "{path}");
    }
}

#[test]
fn requests_without_a_model_are_in_the_table() {
    for (method, path, expected) in [
        ("HEAD", "/", Some(Access::Read)),
        ("POST", "/", None),
        ("GET", "/v1/models", Some(Access::Read)),
        ("HEAD", "/v1/models/", Some(Access::Read)),
        ("GET", "/team/OpenAI/V1/%6Dodels/org/qwen3:30b", Some(Access::Read)),
        ("GET", "/v1/models/openai/gpt-oss", Some(Access::Read)),
        ("GET", "/openai/models", Some(Access::Read)),
        ("DELETE", "/v1/models/ft:m", Some(Access::Write)),
        ("POST", "/v1/models", None),
        ("POST", "/upload/v1beta/files", Some(Access::Write)),
        ("POST", "/v1beta/batches/1:cancel", Some(Access::Write)),
        ("GET", "/v1/responses/r/input_items", Some(Access::Read)),
        ("GET", "/v1/responses", None),
        ("POST", "/v1/responses/r", None),
        ("GET", "/v1/chat/completions", Some(Access::Read)),
        ("POST", "/v1/chat/completions", None),
        ("GET", "/v1/projects/p/locations/l/operations/o", Some(Access::Read)),
        ("GET", "/x/foundation-models", None),
        ("", "/v1/models", None),
    ] {
        assert_eq!(Dialect::of(path, method).by_nature, expected, "{method} {path}");
    }
}

/// Another spelling of a path: letters in another case or percent-encoded, more slashes, one at the end. What is in braces is a name:
/// only its encoding changes.
fn respelled(path: &str, dice: &[u8]) -> (String, String) {
    let (mut plain, mut other, mut in_name) = (String::new(), String::new(), false);
    for (at, letter) in path.chars().enumerate() {
        let die = dice[at % dice.len()];
        match letter {
            '{' | '}' => in_name = letter == '{',
            '/' => {
                plain.push('/');
                other.push_str(if die.is_multiple_of(3) { "//" } else { "/" });
            }
            letter => {
                plain.push(letter);
                let letter = if die.is_multiple_of(2) && !in_name { letter.to_ascii_uppercase() } else { letter };
                if die.is_multiple_of(5) { other.push_str(&format!("%{:02X}", letter as u32)) } else { other.push(letter) }
            }
        }
    }
    if dice[0].is_multiple_of(2) {
        other.push('/');
    }
    (plain, other)
}

const PATHS: [&str; 14] = [
    "/v1/chat/completions",
    "/eu/v1/messages/count_tokens",
    "/v1/images/edits",
    "/v1/realtime",
    "/v1beta/models/{a-b}:generateContent",
    "/v1/projects/p/locations/l/publishers/google/models/{m.1}:streamRawPredict",
    "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
    "/v1/projects/p/locations/l/endpoints/{1}:predict",
    "/model/{eu.m-v1:0}/converse-stream",
    "/x/openai/deployments/{Gpt~4}/chat/completions",
    "/v1/engines/{m}/completions",
    "/v1/files/{id}",
    "/v1/batches",
    "/custom",
];

proptest! {
    #[test]
    fn a_path_is_judged_like_its_canonical_spelling(at in 0..PATHS.len(), dice in proptest::collection::vec(any::<u8>(), 1..60)) {
        let (plain, other) = respelled(PATHS[at], &dice);
        for method in ["POST", "GET", "DELETE"] {
            prop_assert_eq!(Dialect::of(&plain, method), Dialect::of(&other, method), "{} {}", method, other);
            let model = |path: &str| model_in_path(path, method).map(|range| decode(&path[range]).unwrap().into_owned());
            prop_assert_eq!(model(&plain), model(&other));
        }
    }

    /// The place that is rewritten is the one that was judged.
    #[test]
    fn the_place_of_the_model_is_what_it_reads_as(path in "(/(openai|deployments|model|models|invoke|a|%2F|%61|m:predict|v1|:|\\.\\.|é)){0,7}") {
        let place = model_in_path(&path, "POST").map(|range| decode(&path[range]).map(std::borrow::Cow::into_owned));
        let read = if let ModelPlace::Path(model) = Dialect::of(&path, "POST").model { Some(model) } else { None };
        prop_assert_eq!(place, read);
    }
}
