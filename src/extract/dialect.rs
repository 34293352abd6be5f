//! Whose API a path belongs to, and where that API keeps the model: in the body, in the path itself, or nowhere. It reads the path
//! and the method alone. APIs are recognised as routers do it: percent-encoded letters
//! are letters, case and empty segments mean nothing, anything may come before.

mod by_nature;
mod places;
#[cfg(test)]
mod tests;

use std::ops::Range;

use super::path::segments::{DOTS, Segment, TWO_WAYS, loose, segments};
use super::{Access, Api};

pub use by_nature::{TABLE, VERSIONS};

/// What the path says of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    pub api: Api,
    pub model: ModelPlace,
    /// The request names no model by nature: if none is found, that is no mistake.
    pub by_nature: Option<Access>,
    /// Whether the answer is a stream, where the path says so.
    pub streams: Option<bool>,
    /// Why a provider may read another API or another model from this path.
    pub doubt: Option<&'static str>,
}

/// Where the model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelPlace {
    /// In the path: it wins over the body. `None` if the segment is not UTF-8.
    Path(Option<String>),
    /// In the query, under this name.
    Query(&'static str),
    /// In a body that is JSON unless it says it is multipart, whatever the content type.
    KnownBody,
    /// In a body that is what its content type says.
    AnyBody,
    /// Nowhere: the body holds no model, and is not searched for one.
    Nowhere,
}

const OPENAI: [&[&str]; 6] =
    [&["chat", "completions"], &["completions"], &["responses"], &["embeddings"], &["moderations"], &["rerank"]];

/// Which bytes of the path (without its query) are the model, if the API keeps it there.
#[must_use]
pub fn model_in_path(path: &str, method: &str) -> Option<Range<usize>> {
    places::models(&segments(path), method).into_iter().find(|named| named.is_asked).map(|named| named.range)
}

impl Dialect {
    /// Reads the path without its query; an empty method is one that is not known.
    #[must_use]
    pub fn of(path: &str, method: &str) -> Self {
        let mut dialect = Self::plain(path, method);
        if let Some(loose) = loose(path) {
            let other = Self::plain(&loose.path, method);
            if loose.has_dots {
                dialect.doubt = Some(DOTS);
            } else if other.is_known() && (other.api, &other.model) != (dialect.api, &dialect.model) {
                dialect.doubt = Some(TWO_WAYS);
            }
        }
        dialect
    }

    /// Reads the path as it is written.
    fn plain(path: &str, method: &str) -> Self {
        let segments = segments(path);
        let by_nature = by_nature::of(&segments, method);
        let named = places::models(&segments, method);
        let mut texts = named.iter().map(|named| places::text(path, named));
        let first = texts.next();
        let doubt = match &first {
            Some(_) if named.iter().any(|named| !named.is_asked) => {
                Some("the path names a model, and its API does not take the method")
            }
            Some(first) if texts.any(|other| other != *first) => Some("the path names two models"),
            _ => None,
        };
        let (api, model) = match named.iter().position(|named| named.is_asked) {
            Some(at) => (named[at].api, ModelPlace::Path(places::text(path, &named[at]))),
            None => Self::unnamed(&segments, by_nature),
        };
        Self { api, model, by_nature, streams: places::streams(&segments), doubt }
    }

    /// Where a path that names no model itself has it.
    fn unnamed(segments: &[Segment<'_>], by_nature: Option<Access>) -> (Api, ModelPlace) {
        let rest = after_v1(segments).unwrap_or_default();
        let api = if rest.first().is_some_and(|segment| segment.is("messages")) { Api::Anthropic } else { Api::OpenAi };
        let place = match by_nature {
            Some(Access::Write) => ModelPlace::Nowhere,
            Some(Access::Read) | None if is_known_body(rest) => ModelPlace::KnownBody,
            Some(Access::Read) | None => realtime(segments).map_or(ModelPlace::AnyBody, ModelPlace::Query),
        };
        match segments {
            _ if places::counts_tokens(segments) => (Api::Google, ModelPlace::KnownBody),
            // Vertex speaks OpenAI's API, too.
            [.., endpoints, _, chat, completions]
                if endpoints.is("endpoints") && chat.is("chat") && completions.is("completions") =>
            {
                (Api::OpenAi, ModelPlace::KnownBody)
            }
            _ => (api, place),
        }
    }

    /// True if the path is one of an API that takes a model.
    fn is_known(&self) -> bool {
        match self.model {
            ModelPlace::Path(_) | ModelPlace::Query(_) | ModelPlace::KnownBody => true,
            ModelPlace::AnyBody | ModelPlace::Nowhere => false,
        }
    }
}

/// What follows the last `v1` segment.
fn after_v1<'a, 'b>(segments: &'b [Segment<'a>]) -> Option<&'b [Segment<'a>]> {
    let at = segments.iter().rposition(|segment| segment.is("v1"))?;
    segments.get(at + 1..)
}

/// True for what follows `v1` where the body is known to hold the model.
fn is_known_body(rest: &[Segment<'_>]) -> bool {
    let reads = |words: &[&str]| rest.len() == words.len() && rest.iter().zip(words).all(|(segment, word)| segment.is(word));
    match rest {
        [first, _] if first.is_any(&["images", "audio"]) => true,
        _ => reads(&["messages"]) || reads(&["messages", "count_tokens"]) || OPENAI.iter().any(|words| reads(words)),
    }
}

/// The parameter of the query that names the model of a realtime session, which is opened without a body.
fn realtime(segments: &[Segment<'_>]) -> Option<&'static str> {
    match segments {
        [.., version, last] if last.is("realtime") && version.is("v1") => Some("model"),
        [.., azure, last] if last.is("realtime") && azure.is("openai") => Some("deployment"),
        _ => None,
    }
}
