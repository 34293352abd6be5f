//! `envoy.service.accesslog.v3` and `envoy.data.accesslog.v3`: the fields of an entry that tell of an attempt.

use std::net::SocketAddr;

use bytes::Bytes;
use prost::Message;

use super::Received;

#[derive(Clone, PartialEq, prost::Message)]
pub struct LogMessage {
    /// In the first message of a stream.
    #[prost(message, optional, tag = "1")]
    pub identifier: Option<LogIdentifier>,
    #[prost(message, optional, tag = "2")]
    pub http: Option<HttpLogEntries>,
    /// Entries of connections, which tell of no attempt.
    #[prost(message, optional, tag = "3")]
    pub tcp: Option<HttpLogEntries>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct LogIdentifier {
    #[prost(bytes = "bytes", tag = "2")]
    pub log_name: Bytes,
}

/// Entries stay as they came, so that a repeated one can be told by its bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpLogEntries {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub entries: Vec<Bytes>,
}

impl HttpLogEntries {
    /// One entry; `None` if it is none.
    #[must_use]
    pub fn decode_entry(bytes: &Bytes) -> Option<HttpLogEntry> {
        HttpLogEntry::receive(bytes.clone()).ok()
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct HttpLogEntry {
    #[prost(message, optional, tag = "1")]
    pub common: Option<LogCommon>,
    #[prost(message, optional, tag = "3")]
    pub request: Option<LogRequest>,
    #[prost(message, optional, tag = "4")]
    pub response: Option<LogResponse>,
}

impl HttpLogEntry {
    /// A request header, if Envoy is told to log it (`additional_request_headers_to_log`).
    #[must_use]
    pub fn request_header(&self, name: &str) -> Option<&str> {
        text_of(self.request.as_ref().map(|request| request.headers.as_slice()), name)
    }

    /// A response header, if Envoy is told to log it (`additional_response_headers_to_log`).
    #[must_use]
    pub fn response_header(&self, name: &str) -> Option<&str> {
        text_of(self.response.as_ref().map(|response| response.headers.as_slice()), name)
    }

    /// The cluster that Envoy itself names: that of the last attempt that had a host.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        std::str::from_utf8(&self.common.as_ref()?.upstream_cluster).ok().filter(|name| !name.is_empty())
    }

    /// A custom tag. Envoy writes `-` where it has no value.
    #[must_use]
    pub fn tag(&self, name: &str) -> Option<&str> {
        text_of(Some(&self.common.as_ref()?.custom_tags), name).filter(|text| !text.is_empty() && *text != "-")
    }

    /// Why Envoy ended the response as it did, in its own words (`via_upstream`, `response_timeout`); empty: it does not say.
    #[must_use]
    pub fn details(&self) -> &str {
        self.response.as_ref().and_then(|response| std::str::from_utf8(&response.details).ok()).unwrap_or_default()
    }

    /// The status; 0: there is none.
    #[must_use]
    pub fn status(&self) -> u16 {
        let code = self.response.as_ref().and_then(|response| response.code).map_or(0, |code| code.value);
        u16::try_from(code).unwrap_or_default()
    }

    /// The endpoint of the attempt, if it is an IP address with a port.
    #[must_use]
    pub fn endpoint(&self) -> Option<SocketAddr> {
        let address = LogAddress::decode(self.common.as_ref()?.upstream_remote_address.clone()).ok()?.socket?;
        let port = u16::try_from(address.port).ok().filter(|port| *port > 0)?;
        Some(SocketAddr::new(address.address.parse().ok()?, port))
    }

    /// True if the entry says which request it is of, so that its like is a repetition.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.request.as_ref().is_some_and(|request| !request.request_id.is_empty())
            || self.common.as_ref().is_some_and(|common| !common.stream_id.is_empty())
    }
}

fn text_of<'a>(headers: Option<&'a [LoggedHeader]>, name: &str) -> Option<&'a str> {
    let header = headers?.iter().find(|header| header.name == name.as_bytes())?;
    std::str::from_utf8(&header.value).ok()
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct LogCommon {
    /// An encoded [`LogAddress`]: few entries are asked for it.
    #[prost(bytes = "bytes", tag = "13")]
    pub upstream_remote_address: Bytes,
    #[prost(bytes = "bytes", tag = "15")]
    pub upstream_cluster: Bytes,
    /// `envoy.config.core.v3.Metadata`, still encoded ([`super::sent_chain`]): few entries are asked for it.
    #[prost(bytes = "bytes", tag = "17")]
    pub metadata: Bytes,
    #[prost(message, optional, tag = "16")]
    pub response_flags: Option<ResponseFlags>,
    #[prost(message, repeated, tag = "22")]
    pub custom_tags: Vec<LoggedHeader>,
    /// How many attempts the request had. 0 in an attempt's entry, and where the first one had no cluster.
    #[prost(uint32, tag = "24")]
    pub attempts: u32,
    #[prost(bytes = "bytes", tag = "26")]
    pub stream_id: Bytes,
    #[prost(bool, tag = "27")]
    pub intermediate: bool,
    /// One of [`log_type`], or another that tells of no attempt's end.
    #[prost(int32, tag = "33")]
    pub log_type: i32,
}

/// `envoy.config.core.v3.Address`, if it is a socket's.
#[derive(Clone, PartialEq, prost::Message)]
struct LogAddress {
    #[prost(message, optional, tag = "1")]
    socket: Option<LogSocketAddress>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LogSocketAddress {
    #[prost(string, tag = "2")]
    address: String,
    #[prost(uint32, tag = "3")]
    port: u32,
}

/// `AccessLogType`: when an entry was written.
pub mod log_type {
    pub const NOT_SET: i32 = 0;
    pub const DOWNSTREAM_END: i32 = 6;
    pub const UPSTREAM_END: i32 = 9;
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct ResponseFlags {
    #[prost(bool, tag = "2")]
    pub no_healthy_upstream: bool,
    #[prost(bool, tag = "3")]
    pub upstream_request_timeout: bool,
    #[prost(bool, tag = "4")]
    pub local_reset: bool,
    #[prost(bool, tag = "5")]
    pub upstream_remote_reset: bool,
    #[prost(bool, tag = "6")]
    pub upstream_connection_failure: bool,
    #[prost(bool, tag = "7")]
    pub upstream_connection_termination: bool,
    #[prost(bool, tag = "8")]
    pub upstream_overflow: bool,
    #[prost(bool, tag = "15")]
    pub downstream_connection_termination: bool,
    #[prost(bool, tag = "16")]
    pub upstream_retry_limit_exceeded: bool,
    #[prost(bool, tag = "17")]
    pub stream_idle_timeout: bool,
    #[prost(bool, tag = "19")]
    pub downstream_protocol_error: bool,
    #[prost(bool, tag = "20")]
    pub upstream_max_stream_duration_reached: bool,
    #[prost(bool, tag = "23")]
    pub duration_timeout: bool,
    #[prost(bool, tag = "24")]
    pub upstream_protocol_error: bool,
    #[prost(bool, tag = "25")]
    pub no_cluster_found: bool,
    #[prost(bool, tag = "27")]
    pub dns_resolution_failure: bool,
    #[prost(bool, tag = "28")]
    pub downstream_remote_reset: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct LogRequest {
    #[prost(bytes = "bytes", tag = "9")]
    pub request_id: Bytes,
    #[prost(message, repeated, tag = "13")]
    pub headers: Vec<LoggedHeader>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct LogResponse {
    #[prost(message, optional, tag = "1")]
    pub code: Option<Code>,
    #[prost(message, repeated, tag = "4")]
    pub headers: Vec<LoggedHeader>,
    #[prost(bytes = "bytes", tag = "6")]
    pub details: Bytes,
}

/// `google.protobuf.UInt32Value`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Code {
    #[prost(uint32, tag = "1")]
    pub value: u32,
}

/// An entry of a `map<string, string>`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LoggedHeader {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}
