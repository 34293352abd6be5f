//! Which groups can serve which models, by what the catalog states: weights, `models` of clusters and the rules of a tenant, without
//! drains unless asked for. Groups known only by name can serve anything.

use crate::catalog::compile::Rules;
use crate::catalog::pattern::Pattern;
use crate::catalog::snapshot::{Chain, Cluster, Entry, Group, GroupId, ModelId, Served, Snapshot, TagSet};

/// True if the cluster serves the model; `None` is a model that the catalog does not know.
pub(super) fn serves(cluster: &Cluster, model: Option<ModelId>) -> bool {
    match &cluster.served {
        Served::Every => true,
        Served::Only(models) => model.is_some_and(|model| models.contains_key(&model)),
    }
}

/// True if a cluster of the group with a weight passes `keep`, or if its clusters are unknown.
pub(super) fn usable(snapshot: &Snapshot, group: &Group, keep: impl Fn(&Cluster) -> bool) -> bool {
    group.clusters.is_empty() || group.clusters.iter().any(|(cluster, weight)| *weight > 0 && keep(snapshot.cluster(*cluster)))
}

pub(super) fn groups_of(chain: &Chain) -> impl Iterator<Item = (GroupId, &crate::diagnostic::Place)> {
    chain.entries.iter().zip(&chain.places).filter_map(|(entry, place)| match entry {
        Entry::Group(group) => Some((*group, place)),
        Entry::ModelChain => None,
    })
}

/// True if rules let a cluster be used.
pub(super) fn permits(rules: &Rules, cluster: &Cluster) -> bool {
    let has = |tags: &TagSet, tag| tags.contains(tag);
    rules.require_tags.iter().all(|(tag, _)| has(&cluster.tags, *tag))
        && !rules.forbid_tags.iter().any(|(tag, _)| has(&cluster.tags, *tag))
        && !rules.forbid_providers.iter().any(|(provider, _)| cluster.provider == Some(*provider))
}

/// True if rules let a model be asked for.
pub(super) fn allows(rules: &Rules, model: &str) -> bool {
    let matches = |patterns: &[(Pattern, _)]| patterns.iter().any(|(pattern, _)| pattern.matches(model));
    rules.allowed.as_ref().is_none_or(|allowed| matches(allowed)) && !matches(&rules.denied)
}

/// The chain that rules give to a model of the catalog, if any: the best key wins.
pub(super) fn chain_for<'r>(rules: &'r Rules, model: &str) -> Option<&'r Chain> {
    let matching = rules.chains.iter().filter(|keyed| keyed.key.matches(model));
    matching.min_by(|a, b| a.key.rank().cmp(&b.key.rank())).map(|keyed| &keyed.chain)
}
