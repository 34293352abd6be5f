//! Counts what decisions heard of their sessions, and how long the directory took.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Metrics, ResultLabel};
use crate::session::{Answer, Fault};

/// Seconds, around `session.timeout`'s 50 ms.
const BUCKETS: [f64; 12] = [2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0];

/// What became of a session that was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learned {
    /// It lives here from now on.
    Learned,
    /// It was known to live here, and its time was running out.
    Renewed,
    /// Redis held as much already, or somebody else's word.
    Kept,
    /// Something stands in Redis that is no placement.
    LeftAlone,
    /// The chain does not hold the cluster: Envoy went there by itself.
    NotAllowed,
    /// Redis did not take it.
    Failed,
    /// Too much was being written.
    Dropped,
}

impl Learned {
    const ALL: [Self; 7] =
        [Self::Learned, Self::Renewed, Self::Kept, Self::LeftAlone, Self::NotAllowed, Self::Failed, Self::Dropped];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Learned => "learned",
            Self::Renewed => "renewed",
            Self::Kept => "kept",
            Self::LeftAlone => "left_alone",
            Self::NotAllowed => "not_allowed",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

#[derive(Debug)]
pub(super) struct Sessions {
    placed: Counter,
    unknown: Counter,
    not_asked: Counter,
    /// As in [`Fault::ALL`].
    faults: [Counter; Fault::ALL.len()],
    /// As in [`Learned::ALL`].
    learned: [Counter; Learned::ALL.len()],
    seconds: Histogram,
    cached: Gauge,
}

impl Sessions {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let lookups: Family<ResultLabel, Counter> = Family::default();
        let learned: Family<ResultLabel, Counter> = Family::default();
        let counter = |result| lookups.get_or_create_owned(&ResultLabel { result });
        let sessions = Self {
            placed: counter("placed"),
            unknown: counter("unknown"),
            not_asked: counter("not_asked"),
            faults: Fault::ALL.map(|fault| counter(fault.as_str())),
            learned: Learned::ALL.map(|result| learned.get_or_create_owned(&ResultLabel { result: result.as_str() })),
            seconds: Histogram::new(BUCKETS),
            cached: Gauge::default(),
        };
        registry.register("cascade_session_lookups", "Decisions by what the session directory said", lookups);
        registry.register("cascade_session_learned", "Sessions by what became of what served them", learned);
        let about = "How long the session directory took, cached answers apart";
        registry.register("cascade_session_lookup_seconds", about, sessions.seconds.clone());
        registry.register(
            "cascade_session_cache_entries",
            "Remembered answers of the session directory",
            sessions.cached.clone(),
        );
        sessions
    }
}

impl Metrics {
    /// A decision was made with this answer of the directory.
    pub fn session_looked_up(&self, answer: &Answer) {
        let sessions = &self.sessions;
        match answer {
            Answer::Placed(_) => sessions.placed.inc(),
            Answer::Unknown => sessions.unknown.inc(),
            Answer::NotAsked => sessions.not_asked.inc(),
            Answer::Unavailable(fault) => sessions.faults[*fault as usize].inc(),
        };
    }

    /// A remote directory was asked and took this long, whatever it said.
    pub fn session_lookup_took(&self, time: Duration) {
        self.sessions.seconds.observe(time.as_secs_f64());
    }

    pub fn session_learned(&self, learned: Learned) {
        self.sessions.learned[learned as usize].inc();
    }

    pub fn sessions_cached(&self, entries: u64) {
        self.sessions.cached.set(i64::try_from(entries).unwrap_or(i64::MAX));
    }
}
