//! One log entry → what it says of the attempt: a table from Envoy's flags and the provider's status to a word. It knows no
//! cluster's state, and it counts an attempt once, whichever of Envoy's logs tells of it.

use std::time::Duration;

use super::retry_after;
use crate::health::{Event, Moment};
use crate::proto::{HttpLogEntry, ResponseFlags, log_type};

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    Success,
    RateLimited,
    /// A status that the settings count as a failure.
    ServerError,
    ConnectionFailure,
    Timeout,
    /// The attempt never was: the cluster had nobody to send it to (fact 35).
    NoHealthyHost,
    /// Envoy's own circuit breaker (fact 36): says nothing of the provider.
    Overflow,
    /// The provider refused the request itself.
    ClientFault,
    /// Ended by the client or by Envoy for reasons of their own, or a status that the settings do not count.
    NotOurs,
}

impl Class {
    pub const ALL: [Self; 9] = [
        Self::Success,
        Self::RateLimited,
        Self::ServerError,
        Self::ConnectionFailure,
        Self::Timeout,
        Self::NoHealthyHost,
        Self::Overflow,
        Self::ClientFault,
        Self::NotOurs,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RateLimited => "rate_limited",
            Self::ServerError => "server_error",
            Self::ConnectionFailure => "connection_failure",
            Self::Timeout => "timeout",
            Self::NoHealthyHost => "no_healthy_host",
            Self::Overflow => "overflow",
            Self::ClientFault => "client_fault",
            Self::NotOurs => "not_ours",
        }
    }

    /// What health makes of it; `None`: nothing.
    #[must_use]
    pub const fn event(self, retry_after: Option<Duration>) -> Option<Event> {
        match self {
            Self::Success | Self::ClientFault => Some(Event::Answered),
            Self::RateLimited => Some(Event::RateLimited { retry_after }),
            Self::ServerError | Self::ConnectionFailure | Self::Timeout => Some(Event::Failed),
            Self::NoHealthyHost => Some(Event::NoHost),
            Self::Overflow | Self::NotOurs => None,
        }
    }
}

/// An entry that tells of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt<'a> {
    pub cluster: &'a str,
    pub class: Class,
    pub retry_after: Option<Duration>,
    /// The provider has done what the request wanted.
    pub is_served: bool,
}

/// Reads an entry; `None` if it tells of no attempt, or of one that has an entry of its own.
#[must_use]
pub fn read<'a>(entry: &'a HttpLogEntry, statuses: &[u16], now: Moment) -> Option<Attempt<'a>> {
    let common = entry.common.as_ref()?;
    let cluster = entry.cluster()?;
    let flags = common.response_flags.unwrap_or_default();
    let is_end = match common.log_type {
        log_type::NOT_SET => !common.intermediate,
        log_type::UPSTREAM_END => true,
        // The request's own entry repeats its last attempt, but for one that never was (fact 35).
        log_type::DOWNSTREAM_END => flags.no_healthy_upstream,
        _ => false,
    };
    if !is_end {
        return None;
    }
    let status = entry.response.as_ref().and_then(|response| response.code.as_ref()).map_or(0, |code| code.value);
    let class = classify(flags, status, statuses);
    let retry_after = match class {
        Class::RateLimited => entry.response_header("retry-after").and_then(|text| retry_after::parse(text, now)),
        _ => None,
    };
    // A redirect is an answer, but nobody was served.
    let is_served = class == Class::Success && (200..300).contains(&status);
    Some(Attempt { cluster, class, retry_after, is_served })
}

fn classify(flags: ResponseFlags, status: u32, statuses: &[u16]) -> Class {
    let counts = u16::try_from(status).is_ok_and(|status| statuses.contains(&status));
    if flags.no_healthy_upstream {
        return Class::NoHealthyHost;
    }
    if flags.upstream_overflow {
        return Class::Overflow;
    }
    if flags.upstream_connection_failure || flags.dns_resolution_failure {
        return Class::ConnectionFailure;
    }
    if flags.upstream_request_timeout || flags.upstream_max_stream_duration_reached {
        return Class::Timeout;
    }
    // What the provider has said outweighs how the stream then ended.
    match status {
        429 if counts => return Class::RateLimited,
        _ if counts => return Class::ServerError,
        400..=499 => return Class::ClientFault,
        _ => {}
    }
    if flags.upstream_connection_termination || flags.upstream_remote_reset || flags.upstream_protocol_error {
        return Class::ConnectionFailure;
    }
    match status {
        _ if flags.downstream_connection_termination || flags.downstream_remote_reset || flags.local_reset => Class::NotOurs,
        100..=399 => Class::Success,
        _ => Class::NotOurs,
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::data::accesslog::v3 as pb;
    use envoy_types::pb::google::protobuf::UInt32Value;
    use prost::Message;

    use super::*;

    fn entry(status: u32, log_type: pb::AccessLogType, flags: pb::ResponseFlags) -> HttpLogEntry {
        let response = pb::HttpResponseProperties {
            response_code: (status > 0).then_some(UInt32Value { value: status }),
            response_headers: [("retry-after".to_owned(), "3".to_owned())].into(),
            ..Default::default()
        };
        let common = pb::AccessLogCommon {
            upstream_cluster: "c".to_owned(),
            response_flags: Some(flags),
            access_log_type: log_type.into(),
            ..Default::default()
        };
        let entry = pb::HttpAccessLogEntry { common_properties: Some(common), response: Some(response), ..Default::default() };
        HttpLogEntry::decode(entry.encode_to_vec().as_slice()).unwrap()
    }

    fn class(status: u32, flags: pb::ResponseFlags) -> Class {
        read(&entry(status, pb::AccessLogType::UpstreamEnd, flags), &[429, 500, 503, 529], Moment(0)).unwrap().class
    }

    #[test]
    fn statuses_and_flags_have_their_class() {
        type Flags = pb::ResponseFlags;
        for (status, flags, expected) in [
            (200, Flags::default(), Class::Success),
            (304, Flags::default(), Class::Success),
            (429, Flags::default(), Class::RateLimited),
            (503, Flags::default(), Class::ServerError),
            (529, Flags::default(), Class::ServerError),
            (501, Flags::default(), Class::NotOurs),
            (400, Flags::default(), Class::ClientFault),
            (0, Flags::default(), Class::NotOurs),
            (0, Flags { upstream_connection_failure: true, ..Default::default() }, Class::ConnectionFailure),
            (503, Flags { upstream_connection_failure: true, ..Default::default() }, Class::ConnectionFailure),
            (200, Flags { upstream_connection_termination: true, ..Default::default() }, Class::ConnectionFailure),
            (0, Flags { upstream_remote_reset: true, ..Default::default() }, Class::ConnectionFailure),
            (0, Flags { upstream_request_timeout: true, ..Default::default() }, Class::Timeout),
            (504, Flags { upstream_request_timeout: true, ..Default::default() }, Class::Timeout),
            (0, Flags { upstream_overflow: true, ..Default::default() }, Class::Overflow),
            (503, Flags { no_healthy_upstream: true, ..Default::default() }, Class::NoHealthyHost),
            (200, Flags { downstream_connection_termination: true, ..Default::default() }, Class::NotOurs),
            (0, Flags { downstream_connection_termination: true, ..Default::default() }, Class::NotOurs),
            (429, Flags { downstream_connection_termination: true, ..Default::default() }, Class::RateLimited),
            (503, Flags { upstream_retry_limit_exceeded: true, ..Default::default() }, Class::ServerError),
        ] {
            assert_eq!(class(status, flags), expected, "{status} {flags:?}");
        }
    }

    #[test]
    fn only_the_end_of_an_attempt_counts_and_the_request_only_where_no_attempt_was() {
        let no_host = pb::ResponseFlags { no_healthy_upstream: true, ..Default::default() };
        let overflow = pb::ResponseFlags { upstream_overflow: true, ..Default::default() };
        let seen = |kind, flags: &pb::ResponseFlags| read(&entry(503, kind, *flags), &[503], Moment(0)).is_some();
        use pb::AccessLogType as Kind;
        assert!(seen(Kind::NotSet, &no_host) && seen(Kind::UpstreamEnd, &overflow) && seen(Kind::DownstreamEnd, &no_host));
        for kind in [Kind::DownstreamStart, Kind::DownstreamPeriodic, Kind::UpstreamPoolReady, Kind::UpstreamPeriodic] {
            assert!(!seen(kind, &no_host), "{kind:?}");
        }
        assert!(!seen(Kind::DownstreamEnd, &overflow), "an overflow has an entry of its own (fact 36)");
        assert!(!seen(Kind::DownstreamEnd, &pb::ResponseFlags::default()));
    }

    #[test]
    fn the_providers_word_is_read_where_it_limits() {
        let read = |status| {
            let entry = entry(status, pb::AccessLogType::UpstreamEnd, pb::ResponseFlags::default());
            super::read(&entry, &[429, 503], Moment(0)).unwrap().retry_after
        };
        assert_eq!((read(429), read(503)), (Some(Duration::from_secs(3)), None));
    }

    #[test]
    fn only_a_success_that_did_what_was_wanted_has_served() {
        let is_served =
            |status, flags| read(&entry(status, pb::AccessLogType::UpstreamEnd, flags), &[503], Moment(0)).unwrap().is_served;
        assert!(is_served(200, pb::ResponseFlags::default()) && is_served(204, pb::ResponseFlags::default()));
        for status in [0, 101, 307, 404, 429, 500, 503] {
            assert!(!is_served(status, pb::ResponseFlags::default()), "{status}");
        }
        let broke_off = pb::ResponseFlags { upstream_connection_termination: true, ..Default::default() };
        let client_left = pb::ResponseFlags { downstream_connection_termination: true, ..Default::default() };
        assert!(!is_served(200, broke_off) && !is_served(200, client_left));
    }

    #[test]
    fn the_endpoint_is_where_the_attempt_went() {
        use envoy_types::pb::envoy::config::core::v3 as core;
        let at = |address: &str, port: u32| {
            let port = core::socket_address::PortSpecifier::PortValue(port);
            let address = core::SocketAddress { address: address.to_owned(), port_specifier: Some(port), ..Default::default() };
            let address = core::Address { address: Some(core::address::Address::SocketAddress(address)) };
            let common = pb::AccessLogCommon { upstream_remote_address: Some(address), ..Default::default() };
            let entry = pb::HttpAccessLogEntry { common_properties: Some(common), ..Default::default() };
            let entry = HttpLogEntry::decode(entry.encode_to_vec().as_slice()).unwrap();
            entry.endpoint().map(|endpoint| endpoint.to_string())
        };
        assert_eq!(at("10.0.0.1", 8000).as_deref(), Some("10.0.0.1:8000"));
        assert_eq!(at("::1", 8000).as_deref(), Some("[::1]:8000"));
        assert_eq!((at("host", 80), at("10.0.0.1", 0), at("10.0.0.1", 70_000)), (None, None, None));
        assert_eq!(HttpLogEntry::default().endpoint(), None);
    }

    #[test]
    fn an_entry_without_a_cluster_or_without_anything_is_nothing() {
        assert_eq!(read(&HttpLogEntry::default(), &[], Moment(0)), None);
    }
}
