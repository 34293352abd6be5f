//! The cooldowns under way as a decision looks at them: small, immutable, and next to nothing while all is well.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::Moment;

/// FNV-1a. A decision looks up a few short names, all of them the catalog's own, so nobody can aim at collisions.
#[derive(Debug, Clone)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type ByName<T> = HashMap<Box<str>, T, BuildHasherDefault<Fnv>>;

/// Which clusters cool, and until when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    clusters: ByName<Cooling>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cooling {
    whole: Option<Moment>,
    models: ByName<Moment>,
}

impl View {
    pub fn add(&mut self, cluster: &str, model: Option<&str>, until: Moment) {
        let cooling = self.clusters.entry(Box::from(cluster)).or_default();
        match model {
            None => cooling.whole = Some(until),
            Some(model) => {
                cooling.models.insert(Box::from(model), until);
            }
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// True if the cluster, or any model on it, cools.
    #[must_use]
    pub fn touches(&self, cluster: &str, now: Moment) -> bool {
        let cools = |cooling: &Cooling| cooling.whole.iter().chain(cooling.models.values()).any(|until| now < *until);
        self.clusters.get(cluster).is_some_and(cools)
    }
}

/// How much of a cluster cools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All of it: failures in a row, no host, or somebody took it out by hand.
    Cluster,
    /// One model on it: its rate limit.
    Model,
}

impl Scope {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Model => "model",
        }
    }
}

/// A view at an instant. `Seen::well()` is a world in which nothing cools.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen<'a> {
    view: Option<&'a View>,
    now: Moment,
}

impl<'a> Seen<'a> {
    #[must_use]
    pub fn new(view: &'a View, now: Moment) -> Self {
        Self { view: Some(view).filter(|view| !view.is_empty()), now }
    }

    #[must_use]
    pub const fn well() -> Self {
        Self { view: None, now: Moment(0) }
    }

    /// True if nothing cools anywhere.
    #[must_use]
    pub fn is_well(self) -> bool {
        self.view.is_none()
    }

    /// True if the cluster cools, wholly or for this model.
    #[must_use]
    pub fn is_cooling(self, cluster: &str, model: Option<&str>) -> bool {
        self.cooling(cluster, model).is_some()
    }

    /// What of the cluster cools that this model would need; `None`: nothing.
    #[must_use]
    pub fn cooling(self, cluster: &str, model: Option<&str>) -> Option<Scope> {
        let cooling = self.view.and_then(|view| view.clusters.get(cluster))?;
        let until = |moment: &Moment| self.now < *moment;
        if cooling.whole.as_ref().is_some_and(until) {
            return Some(Scope::Cluster);
        }
        model.and_then(|model| cooling.models.get(model)).filter(|moment| until(moment)).map(|_| Scope::Model)
    }
}
