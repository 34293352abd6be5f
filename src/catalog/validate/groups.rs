//! Groups, clusters and tiers that nothing uses, groups that are always empty, clusters about which the catalog says nothing.

use std::collections::HashSet;

use super::reach::groups_of;
use super::{Context, Whose};
use crate::catalog::snapshot::{Chain, ClusterId, GroupId, UnknownModelPolicy};
use crate::document::suggest::nearest;

pub(super) fn check(context: &mut Context<'_>) {
    unused_groups(context);
    always_empty(context);
    clusters(context);
    unused_tiers(context);
}

fn chains<'c>(context: &Context<'c>) -> impl Iterator<Item = &'c Chain> + use<'c> {
    let of_policy = |policy: &'c UnknownModelPolicy| match policy {
        UnknownModelPolicy::Chain(chain) => Some(chain),
        UnknownModelPolicy::PassThrough | UnknownModelPolicy::Reject => None,
    };
    let defaults = &context.snapshot.defaults;
    let of_defaults = std::iter::once(&defaults.unknown_model).chain(&defaults.missing_model).filter_map(of_policy);
    let of_rules = context.written.iter().flat_map(|written| &written.own.chains).map(|keyed| &keyed.chain);
    context.snapshot.models.iter().map(|model| &model.chain).chain(of_rules).chain(of_defaults)
}

fn unused_groups(context: &mut Context<'_>) {
    let used: HashSet<GroupId> = chains(context).flat_map(groups_of).map(|(group, _)| group).collect();
    for (name, id) in &context.snapshot.group_ids {
        if !used.contains(id) {
            let place = &context.snapshot.group(*id).place;
            context.warn("unused-group", place, format!("no chain names the group `{name}`"), "name it in a chain, or remove it");
        }
    }
}

fn always_empty(context: &mut Context<'_>) {
    for group in &context.snapshot.groups {
        if !group.clusters.is_empty() && group.clusters.iter().all(|(_, weight)| *weight == 0) {
            let message = format!("every cluster of the group `{}` has weight 0: the group is always left out", group.name);
            context.warn("empty-group", &group.place, message, "give one of them a weight, or remove the group");
        }
    }
}

fn clusters(context: &mut Context<'_>) {
    let snapshot = context.snapshot;
    let used: HashSet<ClusterId> =
        snapshot.groups.iter().flat_map(|group| &group.clusters).map(|(cluster, _)| *cluster).collect();
    let any_listed = snapshot.clusters.iter().any(|cluster| cluster.listed);
    let any_rules = context.written.iter().any(|written| written.own.restricts_clusters());
    for (id, cluster) in (0..).map(ClusterId).zip(&snapshot.clusters) {
        let name = cluster.name.as_str();
        if cluster.listed && !used.contains(&id) {
            let message = format!("no group names the cluster `{name}`: it gets no requests");
            context.warn("unused-cluster", &cluster.place, message, "put it into a group, or remove it");
        } else if !cluster.listed && (any_listed || any_rules) {
            let listed = snapshot.clusters.iter().filter(|cluster| cluster.listed).map(|cluster| cluster.name.as_str());
            let hint = nearest(name, listed)
                .map_or_else(|| format!("add `{name}` under `clusters`"), |near| format!("did you mean `{near}`?"));
            let message = format!(
                "the cluster `{name}` has no entry under `clusters`: it serves every model, fails `require_tags` and passes `forbid_tags` and `forbid_providers`"
            );
            context.warn("unlisted-cluster", &cluster.place, message, hint);
        }
    }
}

fn unused_tiers(context: &mut Context<'_>) {
    let used: HashSet<&str> = context.snapshot.tenants.iter().filter_map(|tenant| Some(tenant.tier.as_ref()?.as_str())).collect();
    for written in context.written {
        if let Whose::Tier(name) = &written.whose
            && !used.contains(name.as_str())
        {
            let message = format!("no tenant is of the tier `{name}`");
            context.warn("unused-tier", &written.place, message, "give it to a tenant with `tier`, or remove it");
        }
    }
}
