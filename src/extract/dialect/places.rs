//! The paths of APIs that name a model in the path itself, as closed lists of resources, verbs and methods, and the bytes that are
//! the model. It does not choose between several; it never looks into a body.

use std::ops::Range;

use crate::extract::Api;
use crate::extract::path::decode;
use crate::extract::path::segments::Segment;

/// Resources of Google's APIs that a verb can be asked of: the segment before the model.
const RESOURCES: [&str; 4] = ["models", "tunedModels", "endpoints", "dynamic"];

/// What Gemini and Vertex can be asked to do with a model: `…/models/{model}:{verb}`.
const VERBS: [&str; 26] = [
    "generateContent",
    "streamGenerateContent",
    "batchGenerateContent",
    "bidiGenerateContent",
    "countTokens",
    "computeTokens",
    "embedContent",
    "batchEmbedContents",
    "asyncBatchEmbedContent",
    "predict",
    "rawPredict",
    "streamRawPredict",
    "predictLongRunning",
    "fetchPredictOperation",
    "serverStreamingPredict",
    "streamingPredict",
    "streamingRawPredict",
    "directPredict",
    "directRawPredict",
    "explain",
    "generateAnswer",
    "generateText",
    "generateMessage",
    "countMessageTokens",
    "embedText",
    "batchEmbedText",
];

/// What Bedrock can be asked to do with a model: `/model/{model}/{operation}`.
const OPERATIONS: [&str; 6] =
    ["invoke", "invoke-with-response-stream", "invoke-with-bidirectional-stream", "converse", "converse-stream", "count-tokens"];

/// A model in a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) api: Api,
    /// Its bytes in the path, as sent; never empty.
    pub(super) range: Range<usize>,
    /// The API takes the method.
    pub(super) is_asked: bool,
}

/// Every model that the path names, as one API after the other reads it.
pub(super) fn models(segments: &[Segment<'_>], method: &str) -> Vec<Named> {
    let posts = matches!(method, "" | "POST");
    let opens = posts || matches!(method, "GET" | "CONNECT");
    let google = google(segments).map(|range| Named { api: Api::Google, range, is_asked: posts });
    let bedrock = bedrock(segments).map(|range| Named { api: Api::OpenAi, range, is_asked: posts });
    let engine = engine(segments).map(|range| Named { api: Api::OpenAi, range, is_asked: posts });
    let azure = azure(segments).map(|range| Named { api: Api::OpenAi, range, is_asked: opens });
    google.into_iter().chain(bedrock).chain(azure).chain(engine).collect()
}

/// Vertex counts the tokens of Anthropic's models at a name that is no model: the body holds the model, as for `rawPredict`.
pub(super) fn counts_tokens(segments: &[Segment<'_>]) -> bool {
    let [.., publishers, publisher, models, last] = segments else { return false };
    publishers.is("publishers") && publisher.is("anthropic") && models.is("models") && last.is("count-tokens:rawPredict")
}

/// Gemini and Vertex: `…/models/{model}:{verb}`. The last colon ends the model, since a verb has none; it may be encoded.
fn google(segments: &[Segment<'_>]) -> Option<Range<usize>> {
    let [.., resource, last] = segments else { return None };
    if !resource.is_any(&RESOURCES) || counts_tokens(segments) {
        return None;
    }
    let bytes = last.bytes();
    let colon = bytes.iter().rposition(|(byte, _)| *byte == b':').filter(|at| *at > 0)?;
    let verb: Vec<u8> = bytes[colon + 1..].iter().map(|(byte, _)| *byte).collect();
    let is_verb = VERBS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(&verb));
    is_verb.then(|| last.range.start..last.range.start + bytes[colon].1)
}

/// Bedrock: `…/model/{model}/{operation}`. The slash of an ARN should be encoded; where it is not, the ARN has two segments.
fn bedrock(segments: &[Segment<'_>]) -> Option<Range<usize>> {
    let (_, rest) = segments.split_last().filter(|(last, _)| last.is_any(&OPERATIONS))?;
    match rest {
        [.., word, arn, tail] if word.is("model") && is_arn(arn) => Some(arn.range.start..tail.range.end),
        [.., word, model] if word.is("model") => Some(model.range.clone()),
        _ => None,
    }
}

fn is_arn(segment: &Segment<'_>) -> bool {
    segment.text.as_deref().is_some_and(|text| text.starts_with("arn:"))
}

/// Azure: `…/openai/deployments/{model}/…`, at every place where it reads so.
fn azure(segments: &[Segment<'_>]) -> impl Iterator<Item = Range<usize>> {
    let reads = |window: &&[Segment<'_>]| window[0].is("openai") && window[1].is("deployments");
    segments.windows(4).filter(reads).map(|window| window[2].range.clone())
}

/// OpenAI as it was before `model` was a field: `…/engines/{model}/completions`.
fn engine(segments: &[Segment<'_>]) -> Option<Range<usize>> {
    let at = segments.iter().rposition(|segment| segment.is("engines"))?;
    let [model, operation @ ..] = segments.get(at + 1..)? else { return None };
    let is_operation = match operation {
        [one] => one.is_any(&["completions", "embeddings"]),
        [chat, completions] => chat.is("chat") && completions.is("completions"),
        _ => false,
    };
    is_operation.then(|| model.range.clone())
}

/// Whether the answer to this path is a stream, where the verb or operation says so; `None`: the body does.
pub(super) fn streams(segments: &[Segment<'_>]) -> Option<bool> {
    let last = segments.last()?;
    let text = || last.text.as_deref().unwrap_or_default().to_ascii_lowercase();
    if google(segments).is_some() {
        return Some(text().rsplit(':').next().is_some_and(|verb| verb.contains("stream")));
    }
    bedrock(segments).map(|_| text().ends_with("-stream"))
}

/// The model as it reads; `None` if it is not UTF-8.
pub(super) fn text(path: &str, named: &Named) -> Option<String> {
    path.get(named.range.clone()).and_then(decode).map(std::borrow::Cow::into_owned)
}
