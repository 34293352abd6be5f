//! Entries that teach nothing and should have: counted by why, and said once a minute, since each means that somebody's configuration
//! is not what they think.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::warn;

use crate::health::Moment;
use crate::telemetry::{Ignored, Metrics};

/// How often each kind is said.
const PAUSE: Duration = Duration::from_secs(60);
/// How much of a name is shown, in characters: anybody who reaches the port may have written it.
const SHOWN: usize = 64;

#[derive(Debug)]
pub(super) struct Ledger {
    metrics: Arc<Metrics>,
    /// By kind: when it was said last, and how many have come since.
    said: Mutex<[(Option<Moment>, u64); Ignored::ALL.len()]>,
}

impl Ledger {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, said: Mutex::default() }
    }

    /// `times` entries more. `seen`: the name that was not known, or nothing.
    pub(super) fn note(&self, why: Ignored, times: usize, seen: &str, now: Moment) {
        let times = u64::try_from(times).unwrap_or(u64::MAX);
        if times == 0 {
            return;
        }
        self.metrics.feedback_ignored(why, times);
        if let Some(entries) = self.is_to_be_said(why, times, now) {
            let seen = shown(seen);
            let (why, hint) = (why.as_str(), hint(why));
            warn!(event = "feedback_ignored", why, entries, seen, hint, "log entries of Envoy teach nothing");
        }
    }

    /// How many have come, if it is time to say so.
    fn is_to_be_said(&self, why: Ignored, times: u64, now: Moment) -> Option<u64> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, count) = &mut said[why as usize];
        *count = count.saturating_add(times);
        if last.is_some_and(|last| now < last.after(PAUSE)) {
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(count))
    }
}

const fn hint(why: Ignored) -> &'static str {
    match why {
        Ignored::Unreadable => "these are no entries of Envoy's HTTP access log; see who else can reach the gRPC port",
        Ignored::LogName => "common_config.log_name of Envoy's http_grpc access logger and feedback.log_name must be equal",
        Ignored::UnknownCluster => {
            "name the cluster in the catalog if it may cool; with alt_stat_name the tag upstream_cluster must be \
             %UPSTREAM_CLUSTER_RAW%"
        }
        Ignored::NoCluster => {
            "an attempt found no host and nothing names its cluster: custom_tags needs {tag: upstream_cluster, value: \
             '%UPSTREAM_CLUSTER_RAW%'}"
        }
        Ignored::Unmatched => {
            "whether these attempts came to their end is told by the request's own entry, and none came: the connection \
             manager needs the same http_grpc access logger, without a filter"
        }
        Ignored::Tcp => "only HTTP access logs tell of attempts",
    }
}

fn shown(name: &str) -> String {
    name.chars().take(SHOWN).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_said_once_a_minute_with_what_has_come_since() {
        let ledger = Ledger::new(Arc::new(Metrics::new()));
        let said = |why, times, seconds: u64| ledger.is_to_be_said(why, times, Moment(seconds * 1_000));
        assert_eq!(said(Ignored::LogName, 3, 100), Some(3));
        assert_eq!(said(Ignored::LogName, 5, 159), None);
        assert_eq!(said(Ignored::Unreadable, 1, 159), Some(1), "another kind has its own minute");
        assert_eq!(said(Ignored::LogName, 1, 160), Some(6));
    }

    #[test]
    fn what_is_shown_of_a_name_is_short_and_on_one_line() {
        assert_eq!(shown("a\nb\u{1b}[0m"), "a\\nb\\u{1b}[0m");
        assert_eq!(shown(&"x".repeat(1_000)).len(), 64);
    }
}
