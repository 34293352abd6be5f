//! Envoy's words on the wire. Requests are described here with the fields that we read and no others: prost skips the rest, and
//! bytes are slices of the received frame, never copies. Names and numbers are those of `envoy.service.ext_proc.v3` and
//! `envoy.config.core.v3` (Envoy 1.40); the tests decode and encode with envoy-types, an independent description.
//!
//! Maps are lists of entries here, which is the same on the wire and cheaper than hashing names that are read once.

mod access_log;
mod bound;
mod sent_chain;

use bytes::Bytes;

pub use self::bound::{Received, Unreadable};
pub use access_log::{HttpLogEntries, HttpLogEntry, LogMessage, ResponseFlags, log_type};
pub use sent_chain::sent_chain;

/// `priority_group`'s override, from the vendored proto.
pub mod priority_group {
    #![allow(clippy::all, missing_docs, unreachable_pub)]
    include!(concat!(env!("OUT_DIR"), "/envoy.extensions.router.cluster_specifiers.priority_group.v3.rs"));
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ProcessingRequest {
    #[prost(message, optional, tag = "8")]
    pub metadata_context: Option<Metadata>,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<NamedStruct>,
    #[prost(bool, tag = "10")]
    pub observability_mode: bool,
    #[prost(message, optional, tag = "11")]
    pub protocol_config: Option<ProtocolConfiguration>,
    #[prost(oneof = "Request", tags = "2, 3, 4, 5, 6, 7")]
    pub request: Option<Request>,
}

impl ProcessingRequest {
    /// True for a message of the request itself, which asks for a decision if it is the first.
    #[must_use]
    pub const fn asks(&self) -> bool {
        matches!(self.request, Some(Request::RequestHeaders(_) | Request::RequestBody(_) | Request::RequestTrailers(_)))
    }
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Request {
    #[prost(message, tag = "2")]
    RequestHeaders(HttpHeaders),
    #[prost(message, tag = "3")]
    ResponseHeaders(Ignored),
    #[prost(message, tag = "4")]
    RequestBody(HttpBody),
    #[prost(message, tag = "5")]
    ResponseBody(HttpBody),
    #[prost(message, tag = "6")]
    RequestTrailers(Ignored),
    #[prost(message, tag = "7")]
    ResponseTrailers(Ignored),
}

/// A message that is answered by its kind alone.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Ignored {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ProtocolConfiguration {
    /// A [`BodyMode`]; other numbers are modes of a newer Envoy.
    #[prost(int32, tag = "1")]
    pub request_body_mode: i32,
    #[prost(int32, tag = "2")]
    pub response_body_mode: i32,
}

/// `ProcessingMode.BodySendMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BodyMode {
    None,
    Streamed,
    Buffered,
    BufferedPartial,
    FullDuplexStreamed,
    /// A mode that this release does not know.
    Unknown,
}

impl BodyMode {
    #[must_use]
    pub const fn from_number(number: i32) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Streamed,
            2 => Self::Buffered,
            3 => Self::BufferedPartial,
            4 => Self::FullDuplexStreamed,
            _ => Self::Unknown,
        }
    }

    /// The number on the wire; NONE for a mode that is not known.
    #[must_use]
    pub const fn to_number(self) -> u64 {
        match self {
            Self::None | Self::Unknown => 0,
            Self::Streamed => 1,
            Self::Buffered => 2,
            Self::BufferedPartial => 3,
            Self::FullDuplexStreamed => 4,
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpHeaders {
    #[prost(message, optional, tag = "1")]
    pub headers: Option<HeaderMap>,
    #[prost(bool, tag = "3")]
    pub end_of_stream: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<HeaderValue>,
}

/// Strings are bytes here: a header that is no UTF-8 must not end the stream.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HeaderValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub raw_value: Bytes,
}

impl HeaderValue {
    /// Envoy fills one of the two.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        if self.raw_value.is_empty() { &self.value } else { &self.raw_value }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpBody {
    #[prost(bytes = "bytes", tag = "1")]
    pub body: Bytes,
    #[prost(bool, tag = "2")]
    pub end_of_stream: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Metadata {
    #[prost(message, repeated, tag = "1")]
    pub filter_metadata: Vec<NamedStruct>,
    #[prost(message, repeated, tag = "2")]
    pub typed_filter_metadata: Vec<NamedAny>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamedStruct {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Struct>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamedAny {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Any {
    #[prost(bytes = "bytes", tag = "1")]
    pub type_url: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Struct {
    #[prost(message, repeated, tag = "1")]
    pub fields: Vec<NamedValue>,
}

impl Struct {
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().rev().find(|field| field.name == name.as_bytes())?.value.as_ref()
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct NamedValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Value {
    #[prost(oneof = "Kind", tags = "2, 3, 4, 5")]
    pub kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Kind {
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(bytes = "bytes", tag = "3")]
    Text(Bytes),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(message, tag = "5")]
    Struct(Struct),
}

/// `envoy.data.ai.v3.RequestInfo`, what Envoy's own AI filters say of a request (fact 30).
#[derive(Clone, PartialEq, prost::Message)]
pub struct AiRequestInfo {
    #[prost(bytes = "bytes", tag = "2")]
    pub model: Bytes,
}

/// `google.protobuf.StringValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StringValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub value: Bytes,
}
