//! The skeleton of a `ProcessingResponse`: which kind of answer, what it changes, which metadata rides along. It decides nothing;
//! it makes sure that an answer that clears the route cache also mutates headers (fact 1) and that values go out as `raw_value`
//! with an explicit append action.

use bytes::BufMut;

use super::piece::Piece;
use super::wire::Writer;
use crate::proto::BodyMode;

/// The oneof of a message, and with it the only kind of answer it may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    RequestHeaders,
    ResponseHeaders,
    RequestBody,
    ResponseBody,
    RequestTrailers,
    ResponseTrailers,
}

impl Kind {
    /// The field of `ProcessingResponse`.
    pub(super) const fn tag(self) -> u32 {
        match self {
            Self::RequestHeaders => 1,
            Self::ResponseHeaders => 2,
            Self::RequestBody => 3,
            Self::ResponseBody => 4,
            Self::RequestTrailers => 5,
            Self::ResponseTrailers => 6,
        }
    }

    const fn is_trailers(self) -> bool {
        matches!(self, Self::RequestTrailers | Self::ResponseTrailers)
    }
}

/// One `ProcessingResponse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Written(Vec<u8>),
    /// Written when it is sent.
    Piece(Piece),
}

impl Reply {
    /// Writes the message.
    pub fn write(&self, buffer: &mut impl BufMut) {
        match self {
            Self::Written(bytes) => buffer.put_slice(bytes),
            Self::Piece(piece) => piece.write(buffer),
        }
    }

    /// What is written at most, in bytes.
    #[must_use]
    pub fn room(&self) -> usize {
        match self {
            Self::Written(bytes) => bytes.len(),
            Self::Piece(piece) => piece.room(),
        }
    }

    /// The message by itself.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.room());
        self.write(&mut bytes);
        bytes
    }
}

/// What a decision does to the request. Metadata is encoded already: the fields of `dynamic_metadata`, and entries of
/// `typed_dynamic_metadata`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The request goes on. `reroute`: the route cache is cleared, so that the metadata takes effect.
    Proceed { reroute: bool, headers: HeaderChanges, metadata: Metadata },
    /// The client gets this response and nothing goes upstream.
    Refuse { refusal: Refusal, metadata: Metadata },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// The content of the `dynamic_metadata` Struct; empty: none.
    pub untyped: Vec<u8>,
    /// Namespace and the encoded `google.protobuf.Any`.
    pub typed: Option<(String, Vec<u8>)>,
}

/// Headers of the request that are set (overwriting the client's) or removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderChanges {
    pub set: Vec<(String, String)>,
    pub remove: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Shown as `%RESPONSE_CODE_DETAILS%` in Envoy's access log.
    pub details: &'static str,
}

/// Answers a message without changing anything.
#[must_use]
pub fn unchanged(kind: Kind) -> Reply {
    let mut writer = Writer::with_capacity(2);
    writer.message(kind.tag(), |_| {});
    Reply::Written(writer.into_bytes())
}

/// Answers the headers with nothing decided yet, but without the headers that no client may send.
#[must_use]
pub fn cleaned(forged: &[String]) -> Reply {
    if forged.is_empty() {
        return unchanged(Kind::RequestHeaders);
    }
    let mut writer = Writer::with_capacity(64);
    writer.message(Kind::RequestHeaders.tag(), |response| {
        response.message(1, |common| {
            common.message(2, |mutation| forged.iter().for_each(|name| mutation.text(2, name)));
        });
    });
    Reply::Written(writer.into_bytes())
}

/// The wish that Envoy keep a body which decides nothing (fact 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepBody {
    /// As announced: an override replaces the whole processing mode.
    pub response_body: BodyMode,
}

impl KeepBody {
    /// A complete `ProcessingMode`. What is left out would not mean "as it is" but Envoy's default, which sends the response headers.
    /// Header and trailer modes are not announced; nobody here needs them, unless a response body is to follow.
    fn write(self, mode: &mut Writer) {
        const SEND: u64 = 1;
        const SKIP: u64 = 2;
        let response = if self.response_body == BodyMode::None { SKIP } else { SEND };
        mode.number(1, SEND);
        mode.number(2, response);
        // 3, the request body: NONE.
        mode.number(4, self.response_body.to_number());
        mode.number(5, SKIP);
        mode.number(6, SKIP);
    }
}

/// Answers a message with a decision.
#[must_use]
pub fn deciding(kind: Kind, answer: &Answer, keep_body: Option<KeepBody>) -> Reply {
    let mut writer = Writer::with_capacity(1024);
    let metadata = match answer {
        Answer::Proceed { reroute, headers, metadata } => {
            writer.message(kind.tag(), |response| {
                if kind.is_trailers() {
                    return;
                }
                response.message(1, |common| proceed(common, *reroute, headers));
            });
            if let Some(keep) = keep_body {
                writer.message(9, |mode| keep.write(mode));
            }
            metadata
        }
        Answer::Refuse { refusal, metadata } => {
            writer.message(7, |response| refuse(response, refusal));
            metadata
        }
    };
    if !metadata.untyped.is_empty() {
        writer.bytes(8, &metadata.untyped);
    }
    if let Some((namespace, any)) = &metadata.typed {
        writer.message(13, |entry| {
            entry.text(1, namespace);
            entry.bytes(2, any);
        });
    }
    Reply::Written(writer.into_bytes())
}

fn proceed(common: &mut Writer, reroute: bool, headers: &HeaderChanges) {
    // Present even when empty: without it Envoy ignores the flag below, and only retries see the override (facts 1 and 2).
    common.message(2, |mutation| {
        headers.set.iter().for_each(|(name, value)| set_header(mutation, 1, name, value));
        headers.remove.iter().for_each(|name| mutation.text(2, name));
    });
    common.flag(5, reroute);
}

fn refuse(response: &mut Writer, refusal: &Refusal) {
    response.message(1, |status| status.number(1, u64::from(refusal.status)));
    response.message(2, |mutation| {
        refusal.headers.iter().for_each(|(name, value)| set_header(mutation, 1, name, value));
    });
    response.bytes(3, &refusal.body);
    response.text(5, refusal.details);
}

/// `HeaderValueOption` with `raw_value` and OVERWRITE_IF_EXISTS_OR_ADD.
pub(super) fn set_header(mutation: &mut Writer, tag: u32, name: &str, value: &str) {
    const OVERWRITE_IF_EXISTS_OR_ADD: u64 = 2;
    mutation.message(tag, |option| {
        option.message(1, |header| {
            header.text(1, name);
            header.bytes(3, value.as_bytes());
        });
        option.number(3, OVERWRITE_IF_EXISTS_OR_ADD);
    });
}
