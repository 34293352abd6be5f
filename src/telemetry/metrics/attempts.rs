//! Counts what Envoy's log says of requests and their attempts, and what of it could not be used.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Metrics;

/// Models come from the catalog alone, but catalogs change while the process lives.
const MAX_MODELS: usize = 10_000;

/// Why an entry of Envoy's log taught nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// It is no log entry, or lacks what every entry has.
    Unreadable,
    /// It is of another log.
    LogName,
    /// The catalog does not name its cluster.
    UnknownCluster,
    /// It names no cluster where one is needed.
    NoCluster,
    /// It needed the entry of its request, and none came in time.
    Unmatched,
    /// It is of a TCP log.
    Tcp,
}

impl Ignored {
    pub const ALL: [Self; 6] =
        [Self::Unreadable, Self::LogName, Self::UnknownCluster, Self::NoCluster, Self::Unmatched, Self::Tcp];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::LogName => "log_name",
            Self::UnknownCluster => "unknown_cluster",
            Self::NoCluster => "no_cluster",
            Self::Unmatched => "unmatched",
            Self::Tcp => "tcp",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhyLabel {
    why: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabel {
    model: String,
}

/// A counter by a name of the catalog: the first names, then `other`.
#[derive(Debug)]
struct ByModel {
    family: Family<ModelLabel, Counter>,
    known: Mutex<HashMap<Box<str>, Counter>>,
}

impl ByModel {
    fn register(registry: &mut Registry, name: &str, help: &str) -> Self {
        let family: Family<ModelLabel, Counter> = Family::default();
        registry.register(name, help, family.clone());
        Self { family, known: Mutex::default() }
    }

    fn count(&self, model: Option<&str>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let model = model.filter(|model| known.contains_key(*model) || known.len() < MAX_MODELS).unwrap_or("other");
        if let Some(counter) = known.get(model) {
            counter.inc();
            return;
        }
        let counter = self.family.get_or_create_owned(&ModelLabel { model: model.to_owned() });
        counter.inc();
        known.insert(Box::from(model), counter);
    }
}

#[derive(Debug)]
pub(super) struct Attempts {
    /// As in [`Ignored::ALL`].
    ignored: [Counter; Ignored::ALL.len()],
    fallbacks: ByModel,
    exhausted: ByModel,
}

impl Attempts {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let ignored: Family<WhyLabel, Counter> = Family::default();
        let counters = Ignored::ALL.map(|why| ignored.get_or_create_owned(&WhyLabel { why: why.as_str() }));
        registry.register("cascade_feedback_ignored", "Entries of Envoy's log that taught nothing, by why", ignored);
        let about = "Requests that a later attempt than the first served, by model of the catalog";
        let fallbacks = ByModel::register(registry, "cascade_fallbacks", about);
        let about = "Requests whose last attempt failed too, by model of the catalog";
        let exhausted = ByModel::register(registry, "cascade_chains_exhausted", about);
        Self { ignored: counters, fallbacks, exhausted }
    }
}

impl Metrics {
    pub fn feedback_ignored(&self, why: Ignored, times: u64) {
        self.told.ignored[why as usize].inc_by(times);
    }

    /// A later attempt than the first served a request. The model is the catalog's name.
    pub fn fell_back(&self, model: Option<&str>) {
        self.told.fallbacks.count(model);
    }

    /// The last attempt of a request failed too. The model is the catalog's name.
    pub fn chain_exhausted(&self, model: Option<&str>) {
        self.told.exhausted.count(model);
    }
}
