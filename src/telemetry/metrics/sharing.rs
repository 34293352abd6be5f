//! Counts what replicas tell each other of clusters that cool.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Metrics, ResultLabel};

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shared {
    Sent,
    /// Nobody was told: too many at once, or Redis was away for too long.
    Lost,
    /// Another replica told something new.
    Learned,
    /// It was no entry of ours, or of a cluster that the catalog lacks.
    Ignored,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Through {
    through: &'static str,
}

#[derive(Debug)]
pub(super) struct Sharing {
    /// As in [`Shared`].
    counters: [Counter; 4],
    /// No series while nothing is shared.
    up: Family<Through, Gauge>,
}

impl Sharing {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let results: Family<ResultLabel, Counter> = Family::default();
        let counters = ["sent", "lost", "learned", "ignored"].map(|result| results.get_or_create_owned(&ResultLabel { result }));
        let sharing = Self { counters, up: Family::default() };
        registry.register("cascade_shared_cooldowns", "Cooldowns told to and learned from other replicas", results);
        registry.register("cascade_sharing_up", "1 while cooldowns are shared with other replicas", sharing.up.clone());
        sharing
    }
}

impl Metrics {
    pub fn shared(&self, what: Shared) {
        self.sharing.counters[what as usize].inc();
    }

    /// Whether cooldowns are shared at this moment.
    pub fn sharing(&self, up: bool) {
        self.sharing.up.get_or_create(&Through { through: "redis" }).set(i64::from(up));
    }
}
