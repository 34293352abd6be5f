//! The metrics of design section 9 as a struct of handles: made once, handed to whoever counts. Labels come from the catalog or
//! from closed lists; a client cannot make a series. It knows no request, only what became of it.

mod attempts;
mod connections;
mod labels;
mod pairs;
mod sessions;
mod sharing;
mod stream;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{EncodeLabelSet, prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::attempts::Attempts;
pub use self::attempts::Ignored;
use self::connections::Connections;
use self::labels::{Answers, ByName};
use self::pairs::Pairs;
pub use self::sessions::Learned;
use self::sessions::Sessions;
pub use self::sharing::Shared;
use self::sharing::Sharing;
pub use self::stream::StreamGuard;
use crate::catalog::snapshot::{Revision, Snapshot};
use crate::outcome::{Outcome, Reason};

/// Seconds. Decisions take microseconds; `decision_deadline` ends them at 150 ms by default.
const DECISION_BUCKETS: [f64; 18] =
    [1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.15, 0.25];
/// The first 1,000 tenants have series of their own (design section 9); the rest is `other`.
const MAX_TENANTS: usize = 1_000;
/// Models come from the catalog alone, but catalogs change while the process lives.
const MAX_MODELS: usize = 10_000;

/// What became of one request.
#[derive(Debug, Clone, Copy)]
pub struct DecisionEvent<'a> {
    pub outcome: Outcome,
    pub reason: Reason,
    /// The catalog's name; `None` if the catalog does not know the model: `other`.
    pub model: Option<&'a str>,
    pub tenant: TenantLabel<'a>,
    /// Our own time, without waiting for the client's bytes.
    pub elapsed: Duration,
}

/// Who a decision was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantLabel<'a> {
    /// The catalog's name.
    Named(&'a str),
    Anonymous,
    /// A claim that the catalog does not know.
    Unknown,
}

impl<'a> From<Option<&'a str>> for TenantLabel<'a> {
    fn from(name: Option<&'a str>) -> Self {
        name.map_or(Self::Anonymous, Self::Named)
    }
}

/// How a load of the catalog ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    Success,
    Failure,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TroubleLabel {
    trouble: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CatalogLabels {
    revision: String,
    label: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    cluster: String,
    class: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabel {
    cluster: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
    answers: Answers,
    sessions: Sessions,
    sharing: Sharing,
    seconds: Histogram,
    in_flight: Gauge,
    held_bodies: Gauge,
    abandoned: Counter,
    connections: Connections,
    models: ByName,
    tenants: ByName,
    pairs: Pairs,
    told: Attempts,
    catalog_info: Family<CatalogLabels, Gauge>,
    reload_success: Counter,
    reload_failure: Counter,
    last_success: Gauge,
    stale: Gauge,
    attempts: Family<AttemptLabels, Counter>,
    cooling: Family<ClusterLabel, Gauge>,
    rewrites: Family<ResultLabel, Counter>,
    late_trouble: Family<TroubleLabel, Counter>,
    decided_twice: Counter,
    /// Held while a page is written, so that two scrapes do not mix what they show.
    page: Mutex<()>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    #[must_use]
    pub fn new() -> Self {
        Self::beside(Counter::default())
    }

    /// `log_lines_lost` is counted by the log.
    #[must_use]
    pub fn beside(log_lines_lost: Counter) -> Self {
        let mut registry = Registry::default();
        registry.register(
            "cascade_log_lines_dropped",
            "Log lines that were lost: the reader of the log was too slow",
            log_lines_lost,
        );
        let reloads: Family<ResultLabel, Counter> = Family::default();
        let build: Family<BuildLabels, Gauge> = Family::default();
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("cascade_build_info", "The version that runs", build);
        let metrics = Self {
            answers: Answers::register(&mut registry),
            sessions: Sessions::register(&mut registry),
            sharing: Sharing::register(&mut registry),
            models: ByName::models(&mut registry, MAX_MODELS),
            tenants: ByName::tenants(&mut registry, MAX_TENANTS),
            pairs: Pairs::register(&mut registry),
            told: Attempts::register(&mut registry),
            seconds: Histogram::new(DECISION_BUCKETS),
            in_flight: Gauge::default(),
            held_bodies: Gauge::default(),
            abandoned: Counter::default(),
            connections: Connections::register(&mut registry),
            catalog_info: Family::default(),
            reload_success: reloads.get_or_create_owned(&ResultLabel { result: "success" }),
            reload_failure: reloads.get_or_create_owned(&ResultLabel { result: "failure" }),
            last_success: Gauge::default(),
            stale: Gauge::default(),
            attempts: Family::default(),
            cooling: Family::default(),
            rewrites: Family::default(),
            late_trouble: Family::default(),
            decided_twice: Counter::default(),
            page: Mutex::default(),
            registry: Registry::default(),
        };
        let r = &mut registry;
        r.register("cascade_decision_seconds", "Cascade's own time per decision", metrics.seconds.clone());
        r.register("cascade_streams_in_flight", "Open ext_proc streams", metrics.in_flight.clone());
        r.register("cascade_held_body_bytes", "What all streams hold of bodies", metrics.held_bodies.clone());
        r.register("cascade_abandoned", "Streams that ended before their request was decided", metrics.abandoned.clone());
        r.register("cascade_catalog_info", "The catalog in use", metrics.catalog_info.clone());
        r.register("cascade_catalog_reloads", "Loads of the catalog", reloads);
        r.register(
            "cascade_catalog_last_success_timestamp_seconds",
            "When the source last gave a good catalog",
            metrics.last_success.clone(),
        );
        r.register(
            "cascade_late_trouble",
            "Requests that went on though the rest of their body could not be read after an early decision",
            metrics.late_trouble.clone(),
        );
        r.register("cascade_cluster_cooling", "1 while the cluster or one of its models cools", metrics.cooling.clone());
        r.register("cascade_catalog_stale", "1 while the catalog in use is not what the source holds", metrics.stale.clone());
        metrics.register_attempts(r);
        Self { registry, ..metrics }
    }

    fn register_attempts(&self, r: &mut Registry) {
        r.register("cascade_attempts", "Attempts that Envoy told of, by cluster and what became of them", self.attempts.clone());
        r.register("cascade_upstream_rewrites", "Attempts that the upstream role saw, by what it changed", self.rewrites.clone());
        r.register(
            "cascade_decided_twice",
            "Streams that asked for a decision on a request that was decided already",
            self.decided_twice.clone(),
        );
    }

    /// Counts a decision in every metric that speaks of decisions.
    pub fn decided(&self, event: &DecisionEvent<'_>) {
        self.answers.count(event.outcome, event.reason);
        self.seconds.observe(event.elapsed.as_secs_f64());
        self.models.count(event.model, event.outcome);
        let tenant = match event.tenant {
            TenantLabel::Named(name) => Some(name),
            TenantLabel::Anonymous => Some("anonymous"),
            TenantLabel::Unknown => None,
        };
        self.tenants.count(tenant, event.outcome);
        self.pairs.count(tenant, event.model, event.outcome);
    }

    /// A request came while no catalog was loaded: it has no outcome of ours.
    pub fn no_catalog(&self) {
        self.answers.count_no_catalog();
    }

    /// A catalog came into use; `fresh` if it is what the source holds now.
    pub fn catalog_in_use(&self, snapshot: &Snapshot, fresh: bool) {
        let Revision(revision) = &snapshot.revision;
        let label = snapshot.label.as_deref().unwrap_or_default();
        self.catalog_info.clear();
        self.catalog_info.get_or_create(&CatalogLabels { revision: revision.to_string(), label: label.to_owned() }).set(1);
        self.catalog_stale(!fresh);
    }

    /// A load of the catalog ended.
    pub fn reloaded(&self, result: Reload, at: SystemTime) {
        match result {
            Reload::Success => {
                self.reload_success.inc();
                let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                self.last_success.set(i64::try_from(seconds).unwrap_or(i64::MAX));
            }
            Reload::Failure => {
                self.reload_failure.inc();
            }
        }
    }

    pub fn catalog_stale(&self, stale: bool) {
        self.stale.set(i64::from(stale));
    }

    /// An attempt ended. The cluster is one of the catalog's, the class one of a closed list.
    pub fn attempt(&self, cluster: &str, class: &'static str) {
        self.attempts.get_or_create(&AttemptLabels { cluster: cluster.to_owned(), class }).inc();
    }

    /// The upstream role saw an attempt; `result` is one of a closed list.
    pub fn rewrite(&self, result: &'static str) {
        self.rewrites.get_or_create(&ResultLabel { result }).inc();
    }

    /// A request goes on though its body met trouble after the decision; `trouble` is one of a closed list.
    pub fn late_trouble(&self, trouble: &'static str) {
        self.late_trouble.get_or_create(&TroubleLabel { trouble }).inc();
    }

    /// A stream asked for a decision on a request that was decided already.
    pub fn decided_twice(&self) {
        self.decided_twice.inc();
    }

    /// All streams together hold this much of bodies now.
    pub fn held_body_bytes(&self, bytes: u64) {
        self.held_bodies.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// How many ext_proc streams are open now.
    #[must_use]
    pub fn streams_in_flight(&self) -> i64 {
        self.in_flight.get()
    }

    /// [`Metrics::text`] with what cools at this moment: every cluster of the catalog and whether it does.
    #[must_use]
    pub fn page(&self, openmetrics: bool, clusters: &[(&str, bool)]) -> (String, &'static str) {
        let _alone = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        self.cooling.clear();
        for (cluster, cools) in clusters {
            self.cooling.get_or_create(&ClusterLabel { cluster: (*cluster).to_owned() }).set(i64::from(*cools));
        }
        self.text(openmetrics)
    }

    /// The text of `/metrics` and its content type: Prometheus's, or OpenMetrics for those who ask for it.
    #[must_use]
    pub fn text(&self, openmetrics: bool) -> (String, &'static str) {
        let mut out = String::new();
        let (written, kind) = if openmetrics {
            (text::encode(&mut out, &self.registry), "application/openmetrics-text; version=1.0.0; charset=utf-8")
        } else {
            (prometheus_text::encode(&mut out, &self.registry), prometheus_text::CONTENT_TYPE)
        };
        // Writing to a string fails only if an encoder of ours does; half a page would be a lie.
        if written.is_err() {
            out.clear();
        }
        (out, kind)
    }
}

#[cfg(test)]
mod tests;
