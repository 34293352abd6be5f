//! Why a remote directory gave no answer: a closed word for metrics and `explain`, and a cause for the log. A cause is a status, a
//! word of an error or the name of a field; never a URL, a key or a value, since all of them may hold session ids or secrets.

use std::borrow::Cow;
use std::error::Error;

use redis::{ErrorKind, RedisError};

use crate::session::Fault;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub fault: Fault,
    pub cause: Cow<'static, str>,
}

impl Failure {
    pub(super) fn new(fault: Fault, cause: impl Into<Cow<'static, str>>) -> Self {
        Self { fault, cause: cause.into() }
    }

    pub(super) fn busy() -> Self {
        Self::new(Fault::Busy, "the tenant has more lookups waiting than can be made in time")
    }

    pub(super) fn timeout() -> Self {
        Self::new(Fault::Timeout, "no answer within session.timeout")
    }

    /// The innermost error: `connection refused` is three deep, and only the outermost one carries the URL.
    pub(super) fn of_http(error: reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::timeout();
        }
        let error = error.without_url();
        let mut innermost: &dyn Error = &error;
        while let Some(cause) = innermost.source() {
            innermost = cause;
        }
        Self::new(Fault::Unreachable, innermost.to_string())
    }

    /// An error of the connection, or the kind of what Redis said: its words may quote what it was asked.
    pub(super) fn of_redis(error: &RedisError) -> Self {
        if error.is_timeout() {
            return Self::timeout();
        }
        let servers = error.clone().into_server_errors();
        let code = servers.as_ref().and_then(|errors| Some(errors.first()?.1.code()));
        if code == Some("WRONGTYPE") {
            return Self::new(Fault::Garbage, "it is no string of Redis");
        }
        let is_away = error.is_io_error() || error.is_connection_dropped() || error.is_connection_refusal();
        let cause = match error.kind() {
            ErrorKind::Io => error.source().map(|io| format!("{io}")),
            _ => None,
        };
        let cause = cause.or_else(|| code.map(str::to_owned)).unwrap_or_else(|| error.category().to_owned());
        Self::new(if is_away { Fault::Unreachable } else { Fault::Refused }, cause)
    }
}
