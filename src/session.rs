//! What a session directory says of one session, as data: where it lives, that nobody knows it, or that there was no answer. It
//! reads the directory's JSON; it asks nobody, and what a chain makes of an answer is the decision's business.

pub mod template;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::metadata::{OWN_KEYS, is_too_deep};

/// The longest answer that is read, in bytes.
pub const MAX_ANSWER: usize = 64 * 1024;
/// What is said of a longer one.
pub const TOO_LONG: &str = "it is longer than 64 KiB";
/// More addresses than any failover needs.
const MAX_ADDRESSES: usize = 16;
/// A year: longer is a slip, and clocks must be able to add it.
const MAX_TTL: f64 = 31_536_000.0;

/// What a decision knows of the request's session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// The directory's word.
    pub answer: Answer,
    /// What served the session last, if the directory does not know of it: it counts where the directory's word does not.
    pub learned: Option<Arc<Placement>>,
    /// A keyed hash of the session's id; the same on every replica with the same key. `None`: the request has no session, or
    /// nothing is chosen by it.
    pub seed: Option<u64>,
}

/// What the directory said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Answer {
    /// There is no directory, or no session to look up.
    #[default]
    NotAsked,
    Placed(Arc<Placement>),
    /// The directory does not know the session.
    Unknown,
    Unavailable(Fault),
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No answer within `session.timeout`.
    Timeout,
    /// No answer within `limits.decision_deadline`.
    Deadline,
    /// So many lookups of the tenant waited for their turn that this one was not begun.
    Busy,
    /// No connection, or one that broke.
    Unreachable,
    /// The directory answered with an error.
    Refused,
    /// What came is no answer.
    Garbage,
    /// A fault of our own.
    Internal,
}

impl Fault {
    pub const ALL: [Self; 7] =
        [Self::Timeout, Self::Deadline, Self::Busy, Self::Unreachable, Self::Refused, Self::Garbage, Self::Internal];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Deadline => "deadline",
            Self::Busy => "busy",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Garbage => "garbage",
            Self::Internal => "internal",
        }
    }
}

impl Answer {
    /// The closed word for metrics and `explain`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotAsked => "not_asked",
            Self::Placed(_) => "placed",
            Self::Unknown => "unknown",
            Self::Unavailable(fault) => fault.as_str(),
        }
    }
}

/// Where a session lives. Nothing in it is trusted: a name may stand for nothing, an address may be of another cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// A cluster or a group.
    pub backend: Option<Box<str>>,
    /// `ip:port[,ip:port]`, valid addresses only.
    pub endpoint: Option<Box<str>>,
    /// A complete entry for `envoy.lb`; never empty.
    pub metadata: Option<Box<Map<String, Value>>>,
    /// How long the answer holds, if the directory says so.
    pub ttl: Option<Duration>,
    /// Nobody's word but what served the session last: `backend` is a cluster, whatever groups are called.
    pub learned: bool,
}

impl Placement {
    /// What served a session, to be remembered for so long.
    #[must_use]
    pub fn learned(cluster: &str, endpoint: Option<&str>, ttl: Duration) -> Self {
        let (backend, endpoint) = (Some(Box::from(cluster)), endpoint.map(Box::from));
        Self { backend, endpoint, metadata: None, ttl: Some(ttl), learned: true }
    }

    /// As directories keep it; how long it holds is theirs to know.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut text = Map::new();
        text.extend(self.backend.as_deref().map(|name| ("selected_backend".to_owned(), json!(name))));
        text.extend(self.endpoint.as_deref().map(|list| ("selected_endpoint".to_owned(), json!(list))));
        text.extend(self.metadata.as_deref().map(|entry| ("endpoint_metadata".to_owned(), json!(entry))));
        text.extend(self.learned.then(|| ("learned".to_owned(), json!(true))));
        Value::Object(text)
    }
}

/// Reads a directory's answer. One that names nothing is a session that nobody holds.
///
/// # Errors
/// It is none: what is wrong with it, in words that hold nothing of it.
pub fn read(bytes: &[u8]) -> Result<Answer, &'static str> {
    if bytes.len() > MAX_ANSWER {
        return Err(TOO_LONG);
    }
    let Ok(Value::Object(mut answer)) = serde_json::from_slice(bytes) else { return Err("it is no JSON object") };
    let backend = match answer.remove("selected_backend") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name.into_boxed_str()).filter(|name| !name.is_empty()),
        Some(_) => return Err("selected_backend is no text"),
    };
    let endpoint = match answer.remove("selected_endpoint") {
        None | Some(Value::Null) => None,
        Some(Value::String(list)) => addresses(&list),
        Some(_) => return Err("selected_endpoint is no text"),
    };
    let metadata = match answer.remove("endpoint_metadata") {
        None | Some(Value::Null) => None,
        Some(Value::Object(entry)) if is_too_deep(&entry) => return Err("endpoint_metadata is deeper than Envoy reads"),
        Some(Value::Object(entry)) => entry_of(entry),
        Some(_) => return Err("endpoint_metadata is no object"),
    };
    let ttl = match answer.remove("ttl_seconds") {
        None | Some(Value::Null) => None,
        Some(seconds) => match seconds.as_f64() {
            Some(seconds) if seconds >= 0.0 => Some(Duration::from_secs_f64(seconds.min(MAX_TTL))),
            _ => return Err("ttl_seconds is no number of seconds"),
        },
    };
    if backend.is_none() && endpoint.is_none() && metadata.is_none() {
        return Ok(Answer::Unknown);
    }
    let learned = answer.get("learned") == Some(&Value::Bool(true));
    Ok(Answer::Placed(Arc::new(Placement { backend, endpoint, metadata, ttl, learned })))
}

/// The same where nobody asks why it is none.
#[must_use]
pub fn parse(bytes: &[u8]) -> Answer {
    read(bytes).unwrap_or(Answer::Unavailable(Fault::Garbage))
}

fn addresses(list: &str) -> Option<Box<str>> {
    // Envoy takes addresses, not names; `SocketAddr` reads IPv6 in brackets alone, and without a zone nothing is ambiguous.
    let valid = |address: &&str| address.parse::<SocketAddr>().is_ok_and(|address| address.port() > 0) && !address.contains('%');
    let kept: Vec<&str> = list.split(',').map(str::trim).filter(valid).take(MAX_ADDRESSES).collect();
    (!kept.is_empty()).then(|| kept.join(",").into_boxed_str())
}

fn entry_of(mut entry: Map<String, Value>) -> Option<Box<Map<String, Value>>> {
    OWN_KEYS.iter().for_each(|key| drop(entry.shift_remove(*key)));
    (!entry.is_empty()).then(|| Box::new(entry))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn placed(answer: &Value) -> Placement {
        match parse(answer.to_string().as_bytes()) {
            Answer::Placed(placement) => (*placement).clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_says_where_a_session_lives() {
        let placement = placed(&json!({
            "selected_backend": "openai_eu", "selected_endpoint": "10.0.0.1:80, [::1]:9000", "endpoint_metadata": {"proc": "p1"},
            "ttl_seconds": 5, "more": [1]
        }));
        assert_eq!(placement.backend.as_deref(), Some("openai_eu"));
        assert_eq!(placement.endpoint.as_deref(), Some("10.0.0.1:80,[::1]:9000"));
        assert_eq!(json!(placement.metadata.unwrap()), json!({"proc": "p1"}));
        assert_eq!(placement.ttl, Some(Duration::from_secs(5)));
    }

    #[test]
    fn what_was_learned_comes_back_as_it_was_and_nobody_else_says_so_by_chance() {
        let hour = Duration::from_secs(3600);
        for learned in [Placement::learned("a", None, hour), Placement::learned("a", Some("[::1]:9000"), hour)] {
            assert_eq!(placed(&learned.to_json()), Placement { ttl: None, ..learned });
        }
        assert!(!placed(&json!({"selected_backend": "a", "learned": "yes"})).learned);
    }

    #[test]
    fn what_is_no_address_is_dropped_and_the_rest_stays() {
        for (list, kept) in [
            ("10.0.0.1:80,host:80,10.0.0.2:81", Some("10.0.0.1:80,10.0.0.2:81")),
            ("::1:80,[::1]:80", Some("[::1]:80")),
            ("10.0.0.1,10.0.0.1:0,10.0.0.1:99999,[fe80::1%1]:80,,", None),
            ("010.0.0.1:80", None),
        ] {
            let placement = placed(&json!({"selected_backend": "b", "selected_endpoint": list}));
            assert_eq!(placement.endpoint.as_deref(), kept, "{list}");
        }
    }

    #[test]
    fn seconds_are_a_number_as_json_has_it() {
        for (seconds, holds) in
            [("0", 0), ("60", 60_000), ("60.0", 60_000), ("6e1", 60_000), ("1.5", 1_500), ("1e300", 31_536_000_000)]
        {
            let placement = placed(&format!(r#"{{"selected_backend":"b","ttl_seconds":{seconds}}}"#).parse().unwrap());
            assert_eq!(placement.ttl.unwrap().as_millis(), holds, "{seconds}");
        }
    }

    #[test]
    fn our_own_keys_are_not_taken_from_a_directory() {
        let placement = placed(&json!({"endpoint_metadata": {"fallback_list": [{"a": 1}], "selected_endpoint": "x", "a": "b"}}));
        assert_eq!(json!(placement.metadata.unwrap()), json!({"a": "b"}));
    }

    #[test]
    fn an_answer_that_names_nothing_is_an_unknown_session() {
        for text in ["{}", r#"{"selected_backend":null}"#, r#"{"selected_backend":"","ttl_seconds":3,"endpoint_metadata":{}}"#] {
            assert_eq!(parse(text.as_bytes()), Answer::Unknown, "{text}");
        }
    }

    #[test]
    fn garbage_is_no_answer() {
        let long = format!("{{\"selected_backend\":\"{}\"}}", "x".repeat(MAX_ANSWER));
        let deep = format!("{{\"endpoint_metadata\":{}1{}}}", "{\"a\":".repeat(17), "}".repeat(17));
        for (text, why) in [
            ("", "no JSON object"),
            ("null", "no JSON object"),
            ("[]", "no JSON object"),
            ("<html>", "no JSON object"),
            ("{\"selected_backend\":", "no JSON object"),
            ("{\"selected_backend\":5}", "selected_backend"),
            ("{\"selected_endpoint\":[]}", "selected_endpoint"),
            ("{\"endpoint_metadata\":\"x\"}", "endpoint_metadata is no object"),
            ("{\"ttl_seconds\":-1}", "ttl_seconds"),
            ("{\"ttl_seconds\":\"5\"}", "ttl_seconds"),
            (&long, "64 KiB"),
            (&deep, "endpoint_metadata is deeper"),
        ] {
            assert!(read(text.as_bytes()).is_err_and(|said| said.contains(why)), "{text:.40}");
            assert_eq!(parse(text.as_bytes()), Answer::Unavailable(Fault::Garbage), "{text:.40}");
        }
    }
}
