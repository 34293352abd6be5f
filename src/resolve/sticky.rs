//! Keeps a session on one cluster of each group, without memory: weighted rendezvous hashing. Every cluster of a group draws a
//! number from (session, tenant, model, cluster), longer the heavier it is, and the best draw serves. The split follows the
//! weights, and a change moves only the sessions whose best draw it touches. All that is random is in the seed.

use super::chain::Step;
use super::trace::{Considered, Trace};
use crate::catalog::snapshot::{ClusterId, GroupId, Snapshot};
use crate::names::Weight;

/// A session in the eyes of one tenant and one model: two tenants with the same session id share nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw(u64);

impl Draw {
    /// `seed` is a keyed hash of the session's id.
    #[must_use]
    pub fn new(seed: u64, tenant: Option<&str>, model: Option<&str>) -> Self {
        // A tenant's name is never empty, so that nobody draws as the request without one.
        Self(mix(mix(seed ^ hash(tenant.unwrap_or_default())) ^ hash(model.unwrap_or_default())))
    }

    /// The number for `sticky_header`.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// How well a cluster does: an exponential draw with the weight as its rate, so that the smallest of them is each cluster's
    /// with a probability that is its share.
    fn score(self, cluster: &str, weight: Weight) -> f64 {
        #[allow(clippy::cast_precision_loss)] // 53 bits are what the conversion takes
        let uniform = ((mix(self.0 ^ hash(cluster)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -uniform.ln() / f64::from(weight.get())
    }
}

/// Narrows every group to the session's choice; a repeat of a group takes the next one, and starts over when all had their turn.
pub fn narrow(snapshot: &Snapshot, steps: &mut [Step], draw: Draw, trace: &mut impl Trace) {
    let mut taken: Vec<(GroupId, ClusterId)> = Vec::new();
    for step in steps.iter_mut() {
        let group = step.group;
        if step.clusters.iter().all(|(id, _)| taken.contains(&(group, *id))) {
            taken.retain(|(of, _)| *of != group);
        }
        let score = |id: ClusterId, weight| draw.score(snapshot.cluster(id).name.as_str(), weight);
        let free = step.clusters.iter().filter(|(id, _)| !taken.contains(&(group, *id)));
        let best = free.min_by(|a, b| score(a.0, a.1).total_cmp(&score(b.0, b.1))).copied();
        let Some(best) = best else { continue };
        if step.clusters.len() > 1 {
            trace.consider(|| {
                let (group, cluster) = (&snapshot.group(group).name, &snapshot.cluster(best.0).name);
                Considered::new("session.sticky", None, format!("group {group} is narrowed to {cluster}"))
            });
        }
        taken.push((group, best.0));
        step.clusters.clear();
        step.clusters.push(best);
    }
}

/// FNV-1a: names are short, and [`mix`] spreads what it leaves.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

/// A bijection in which every bit of the input reaches every bit of the output (the finish of SplitMix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests;
