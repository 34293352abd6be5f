//! Where a request keeps its model, as the bytes that a source was read from, and how another name is written there. Whoever renames
//! the model replaces exactly these bytes. It finds places; it knows no catalog and chooses no name.

use std::ops::Range;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::dialect::{self, Dialect, ModelPlace};
use super::head::{self, Head};
use super::path::{split_target, values_of};
use super::source::Source;

/// How a name is written at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A JSON string with its quotes.
    Json,
    /// As it is.
    Plain,
    /// Percent-encoded, as in a segment of a path.
    Segment,
    /// Percent-encoded, as in `a=1&b=2`.
    Pair,
}

/// A model in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InBody {
    pub range: Range<usize>,
    pub style: Style,
}

/// A model in the head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InHead {
    /// These bytes of the path.
    Path(Range<usize>),
    /// These bytes of the query (behind the `?`), each a value of its own.
    Query(Vec<Range<usize>>),
    /// All of this header.
    Header(String),
}

impl Style {
    /// The name as it is written here; `None` if it cannot be: a line break would end what it is written into.
    #[must_use]
    pub fn write(self, name: &str) -> Option<String> {
        const SEGMENT: &AsciiSet =
            &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b'@').remove(b'+');
        // In a query or a form a plus is a space.
        const PAIR: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b'@');
        match self {
            Self::Json => Some(serde_json::Value::from(name).to_string()),
            Self::Plain => (!name.chars().any(char::is_control)).then(|| name.to_owned()),
            Self::Segment => Some(utf8_percent_encode(name, SEGMENT).to_string()),
            Self::Pair => Some(utf8_percent_encode(name, PAIR).to_string()),
        }
    }
}

impl InHead {
    /// Where the source finds its value in this head; `None` if it finds none, or one that nothing can be put in place of.
    #[must_use]
    pub fn of(head: &impl Head, source: &Source) -> Option<Self> {
        let (path, query) = split_target(head::target(head));
        match source {
            Source::Dialect => match Dialect::of(path, head::method(head)).model {
                ModelPlace::Path(Some(_)) => dialect::model_in_path(path, head::method(head)).map(Self::Path),
                ModelPlace::Query(name) => in_query(query, name),
                ModelPlace::Path(None) | ModelPlace::KnownBody | ModelPlace::AnyBody | ModelPlace::Nowhere => None,
            },
            Source::Path(template) => template.place(path).filter(|range| !range.is_empty()).map(Self::Path),
            Source::Query(name) => in_query(query, name),
            Source::Header(name) => head.header(name).next().is_some().then(|| Self::Header(name.clone())),
            Source::Body(_)
            | Source::Multipart(_)
            | Source::Form(_)
            | Source::Cookie(_)
            | Source::Attribute(_)
            | Source::Metadata { .. }
            | Source::ApiKey { .. }
            | Source::Value(_) => None,
        }
    }
}

fn in_query(query: &str, name: &str) -> Option<InHead> {
    Some(values_of(query, name)).filter(|ranges| !ranges.is_empty()).map(InHead::Query)
}

/// The JSON string whose opening quote is at `start`, quotes included.
pub(super) fn json_text(body: &[u8], start: usize) -> Option<InBody> {
    let length = end_of_text(body.get(start + 1..)?)?;
    Some(InBody { range: start..start + 1 + length, style: Style::Json })
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

#[cfg(test)]
mod tests;
