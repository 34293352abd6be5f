//! One attempt → what became of it: a table from Envoy's flags and the provider's status to a word. Where the attempt's entry alone
//! does not tell, it says which question is open, and answers it once the request's own entry is there. It knows no cluster's state
//! and no time.

use std::time::Duration;

use crate::health::{Event, Failure};
use crate::proto::ResponseFlags;

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    Success,
    RateLimited,
    /// A status that the settings count as a failure.
    ServerError,
    ConnectionFailure,
    Timeout,
    /// The answer began and was cut: a success so far as the status goes, and a failure.
    BrokenStream,
    /// The attempt never was: the cluster had nobody to send it to (fact 35), or Envoy does not have the cluster (fact 14).
    NoHealthyHost,
    /// Envoy's own circuit breaker (fact 36): says nothing of the provider.
    Overflow,
    /// The provider refused the request itself.
    ClientFault,
    /// The client left before the attempt's end (fact 100): nobody knows how it would have ended.
    ClientLeft,
    /// Ended by Envoy for reasons of its own, or a status that the settings do not count.
    NotOurs,
}

impl Class {
    pub const ALL: [Self; 11] = [
        Self::Success,
        Self::RateLimited,
        Self::ServerError,
        Self::ConnectionFailure,
        Self::Timeout,
        Self::BrokenStream,
        Self::NoHealthyHost,
        Self::Overflow,
        Self::ClientFault,
        Self::ClientLeft,
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
            Self::BrokenStream => "broken_stream",
            Self::NoHealthyHost => "no_healthy_host",
            Self::Overflow => "overflow",
            Self::ClientFault => "client_fault",
            Self::ClientLeft => "client_left",
            Self::NotOurs => "not_ours",
        }
    }

    /// What health makes of it; `None`: nothing.
    #[must_use]
    pub const fn event(self, status: u16, retry_after: Option<Duration>) -> Option<Event> {
        match self {
            Self::Success | Self::ClientFault => Some(Event::Answered),
            Self::RateLimited => Some(Event::RateLimited { retry_after }),
            Self::ServerError => Some(Event::Failed(Failure::Status(status))),
            Self::ConnectionFailure => Some(Event::Failed(Failure::Connection)),
            Self::Timeout => Some(Event::Failed(Failure::Timeout)),
            Self::BrokenStream => Some(Event::Failed(Failure::BrokenStream)),
            Self::NoHealthyHost => Some(Event::NoHost),
            Self::Overflow | Self::ClientLeft | Self::NotOurs => None,
        }
    }
}

/// What the entry of an attempt leaves open: Envoy ends an attempt without a word when its own limits for the request run out, or the
/// client leaves (facts 42 and 100).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// It has begun to answer, and nothing says that it came to the end.
    Answering,
    /// There was no answer, and nothing says why.
    Silent,
}

/// What the request's own entry says of how its last attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The answer went through to its end.
    Whole,
    ClientLeft,
    /// A limit of the whole request ran out: its time, its idle time, its longest duration.
    TimedOut,
    /// The answer was cut.
    Cut,
    /// Something else, which says nothing of the provider.
    Other,
}

impl Open {
    #[must_use]
    pub const fn settle(self, ending: Ending) -> Class {
        match (self, ending) {
            (Self::Answering, Ending::Whole) => Class::Success,
            (Self::Answering, Ending::TimedOut | Ending::Cut) => Class::BrokenStream,
            (Self::Silent, Ending::TimedOut) => Class::Timeout,
            (_, Ending::ClientLeft) => Class::ClientLeft,
            (Self::Silent, Ending::Whole | Ending::Cut) | (_, Ending::Other) => Class::NotOurs,
        }
    }
}

/// What an attempt's own entry says. `statuses`: those that count as failures.
///
/// # Errors
/// What it leaves open.
pub fn attempt(flags: ResponseFlags, status: u16, statuses: &[u16]) -> Result<Class, Open> {
    let begun = (100..400).contains(&status);
    if flags.no_healthy_upstream || flags.no_cluster_found {
        return Ok(Class::NoHealthyHost);
    }
    if flags.upstream_overflow {
        return Ok(Class::Overflow);
    }
    if flags.upstream_connection_failure || flags.dns_resolution_failure {
        return Ok(Class::ConnectionFailure);
    }
    if flags.upstream_request_timeout || flags.upstream_max_stream_duration_reached {
        return Ok(if begun { Class::BrokenStream } else { Class::Timeout });
    }
    // What the provider has said outweighs how the stream then ended.
    match status {
        429 if statuses.contains(&status) => return Ok(Class::RateLimited),
        _ if statuses.contains(&status) => return Ok(Class::ServerError),
        _ => {}
    }
    // `per_try_idle_timeout` (fact 41), before an answer or in the middle of one.
    if flags.stream_idle_timeout || flags.duration_timeout {
        return Ok(if begun { Class::BrokenStream } else { Class::Timeout });
    }
    if (400..500).contains(&status) {
        return Ok(Class::ClientFault);
    }
    if flags.upstream_connection_termination || flags.upstream_remote_reset || flags.upstream_protocol_error {
        return Ok(if begun { Class::BrokenStream } else { Class::ConnectionFailure });
    }
    if flags.downstream_connection_termination || flags.downstream_remote_reset || flags.downstream_protocol_error {
        return Ok(Class::ClientLeft);
    }
    match status {
        _ if flags.local_reset => Ok(Class::NotOurs),
        // The connection is the client's and the provider's own now.
        101 => Ok(Class::Success),
        100..=399 => Err(Open::Answering),
        0 => Err(Open::Silent),
        _ => Ok(Class::NotOurs),
    }
}

/// What a request's own entry says of how it ended. `details`: Envoy's words for it, where the entry has them.
#[must_use]
pub fn ending(flags: ResponseFlags, status: u16, details: &str) -> Ending {
    if flags.downstream_connection_termination || flags.downstream_remote_reset || flags.downstream_protocol_error {
        return Ending::ClientLeft;
    }
    let timed_out = flags.upstream_request_timeout
        || flags.stream_idle_timeout
        || flags.duration_timeout
        || flags.upstream_max_stream_duration_reached
        // `max_stream_duration` sets no flag.
        || details.contains("duration_timeout");
    if timed_out {
        return Ending::TimedOut;
    }
    if flags.upstream_connection_termination || flags.upstream_remote_reset || flags.upstream_protocol_error {
        return Ending::Cut;
    }
    let is_plain = !flags.local_reset && (details.is_empty() || details == "via_upstream");
    if is_plain && (100..400).contains(&status) { Ending::Whole } else { Ending::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Flags = ResponseFlags;
    const STATUSES: [u16; 4] = [429, 500, 503, 529];

    #[test]
    fn statuses_and_flags_have_their_class() {
        let none = Flags::default();
        let timeout = Flags { upstream_request_timeout: true, ..none };
        let idle = Flags { stream_idle_timeout: true, ..none };
        let left = Flags { downstream_connection_termination: true, ..none };
        let refused = Flags { upstream_connection_failure: true, ..none };
        let closed = Flags { upstream_connection_termination: true, ..none };
        let reset = Flags { upstream_remote_reset: true, ..none };
        let broken = Flags { upstream_protocol_error: true, ..none };
        let longest = Flags { upstream_max_stream_duration_reached: true, ..none };
        for (status, flags, expected) in [
            (101, none, Ok(Class::Success)),
            (200, none, Err(Open::Answering)),
            (304, none, Err(Open::Answering)),
            (0, none, Err(Open::Silent)),
            (429, none, Ok(Class::RateLimited)),
            (503, none, Ok(Class::ServerError)),
            (529, none, Ok(Class::ServerError)),
            (501, none, Ok(Class::NotOurs)),
            (400, none, Ok(Class::ClientFault)),
            (0, refused, Ok(Class::ConnectionFailure)),
            (503, refused, Ok(Class::ConnectionFailure)),
            (0, closed, Ok(Class::ConnectionFailure)),
            (0, reset, Ok(Class::ConnectionFailure)),
            (200, closed, Ok(Class::BrokenStream)),
            (200, reset, Ok(Class::BrokenStream)),
            (200, broken, Ok(Class::BrokenStream)),
            (0, timeout, Ok(Class::Timeout)),
            (504, timeout, Ok(Class::Timeout)),
            (200, timeout, Ok(Class::BrokenStream)),
            (0, idle, Ok(Class::Timeout)),
            (200, idle, Ok(Class::BrokenStream)),
            (503, idle, Ok(Class::ServerError)),
            (429, idle, Ok(Class::RateLimited)),
            (404, idle, Ok(Class::Timeout)),
            (0, longest, Ok(Class::Timeout)),
            (200, longest, Ok(Class::BrokenStream)),
            (0, Flags { upstream_overflow: true, ..none }, Ok(Class::Overflow)),
            (503, Flags { no_healthy_upstream: true, ..none }, Ok(Class::NoHealthyHost)),
            (503, Flags { no_cluster_found: true, ..none }, Ok(Class::NoHealthyHost)),
            (200, left, Ok(Class::ClientLeft)),
            (0, left, Ok(Class::ClientLeft)),
            (429, left, Ok(Class::RateLimited)),
            (0, Flags { local_reset: true, ..none }, Ok(Class::NotOurs)),
            (503, Flags { upstream_retry_limit_exceeded: true, ..none }, Ok(Class::ServerError)),
        ] {
            assert_eq!(attempt(flags, status, &STATUSES), expected, "{status} {flags:?}");
        }
    }

    #[test]
    fn the_requests_own_entry_says_how_it_ended() {
        let none = Flags::default();
        for (status, flags, details, expected) in [
            (200, none, "via_upstream", Ending::Whole),
            (204, none, "", Ending::Whole),
            (200, none, "max_duration_timeout", Ending::TimedOut),
            (504, none, "max_duration_timeout", Ending::TimedOut),
            (200, none, "ext_proc_error", Ending::Other),
            (503, none, "via_upstream", Ending::Other),
            (200, Flags { downstream_connection_termination: true, ..none }, "downstream_remote_disconnect", Ending::ClientLeft),
            (0, Flags { downstream_remote_reset: true, ..none }, "", Ending::ClientLeft),
            (504, Flags { upstream_request_timeout: true, ..none }, "response_timeout", Ending::TimedOut),
            (200, Flags { upstream_request_timeout: true, ..none }, "response_timeout", Ending::TimedOut),
            (504, Flags { stream_idle_timeout: true, ..none }, "stream_idle_timeout", Ending::TimedOut),
            (200, Flags { upstream_protocol_error: true, ..none }, "", Ending::Cut),
            (200, Flags { local_reset: true, ..none }, "", Ending::Other),
        ] {
            assert_eq!(ending(flags, status, details), expected, "{status} {details} {flags:?}");
        }
    }

    #[test]
    fn an_open_question_is_settled_by_how_the_request_ended() {
        for (open, ending, expected) in [
            (Open::Answering, Ending::Whole, Class::Success),
            (Open::Answering, Ending::ClientLeft, Class::ClientLeft),
            (Open::Answering, Ending::TimedOut, Class::BrokenStream),
            (Open::Answering, Ending::Cut, Class::BrokenStream),
            (Open::Answering, Ending::Other, Class::NotOurs),
            (Open::Silent, Ending::Whole, Class::NotOurs),
            (Open::Silent, Ending::ClientLeft, Class::ClientLeft),
            (Open::Silent, Ending::TimedOut, Class::Timeout),
            (Open::Silent, Ending::Other, Class::NotOurs),
        ] {
            assert_eq!(open.settle(ending), expected, "{open:?} {ending:?}");
        }
    }

    #[test]
    fn only_what_says_something_of_the_provider_reaches_its_health() {
        for class in Class::ALL {
            let is_heard = class.event(503, None).is_some();
            assert_eq!(is_heard, !matches!(class, Class::Overflow | Class::ClientLeft | Class::NotOurs), "{class:?}");
        }
    }
}
