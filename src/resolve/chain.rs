//! From a chain as written to the clusters that a request may really use: the model's own chain put in place, and every cluster
//! left out that is drained, weightless, does not serve the model, or is not for this tenant. It never adds a cluster.

use crate::catalog::snapshot::{
    Chain, Cluster, ClusterId, Drain, Entry, GroupId, ModelId, ProviderId, Restriction, Served, Snapshot, TagId, Tenant,
};
use crate::diagnostic::Place;
use crate::names::Weight;
use crate::resolve::trace::Considered;

/// One attempt: a group and what is left of it. No clusters: Envoy's own configured group of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub group: GroupId,
    pub clusters: Vec<(ClusterId, Weight)>,
}

/// A cluster, or a whole group that is known only by name, that the chain names and the request may not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    pub group: GroupId,
    /// `None`: the whole group, whose clusters only Envoy knows.
    pub cluster: Option<ClusterId>,
    pub why: Why,
}

/// Why a cluster is left out; of several, the first in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    WeightZero,
    Drained(Drain),
    ModelNotServed,
    MissingTag(TagId),
    ForbiddenTag(TagId),
    ForbiddenProvider(ProviderId),
    /// A group known only by name, for a tenant whose clusters are restricted.
    UnknownClusters,
}

impl Why {
    /// The closed word for metadata and `explain`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WeightZero => "weight_zero",
            Self::Drained(Drain::Cluster) => "drained",
            Self::Drained(Drain::Provider) => "provider_drained",
            Self::ModelNotServed => "model_not_served",
            Self::MissingTag(_) => "missing_tag",
            Self::ForbiddenTag(_) => "forbidden_tag",
            Self::ForbiddenProvider(_) => "forbidden_provider",
            Self::UnknownClusters => "unknown_clusters",
        }
    }
}

/// What is left of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub steps: Vec<Step>,
    /// True if some cluster passes the tenant's restrictions, whatever else leaves it out.
    pub any_allowed: bool,
}

/// What a chain is narrowed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Model(ModelId),
    /// A model that the catalog does not know: clusters that list their models do not serve it.
    Unknown,
    /// No model: any cluster can answer.
    Nothing,
}

/// Narrows `chain` to what the tenant may use now for what is asked.
#[must_use]
pub fn narrow(snapshot: &Snapshot, chain: &Chain, tenant: Option<&Tenant>, asked: Asked, left_out: &mut Vec<LeftOut>) -> Left {
    // One more: a session may live in a part of a group.
    let mut left = Left { steps: Vec::with_capacity(chain.entries.len() + 1), any_allowed: false };
    let mut named_any = false;
    for entry in &chain.entries {
        let entries = match entry {
            Entry::Group(_) => std::slice::from_ref(entry),
            Entry::ModelChain => match asked {
                Asked::Model(model) => snapshot.model(model).chain.entries.as_slice(),
                Asked::Unknown | Asked::Nothing => &[],
            },
        };
        for entry in entries {
            if let Entry::Group(group) = entry {
                named_any = true;
                add_group(snapshot, *group, tenant, asked, &mut left, left_out);
            }
        }
    }
    // Where the chain comes down to nothing by itself (`model_chain` of a model without one) no restriction is at work.
    left.any_allowed |= !named_any;
    left
}

fn add_group(
    snapshot: &Snapshot,
    id: GroupId,
    tenant: Option<&Tenant>,
    asked: Asked,
    left: &mut Left,
    left_out: &mut Vec<LeftOut>,
) {
    let mut note = |cluster, why| {
        let entry = LeftOut { group: id, cluster, why };
        if !left_out.contains(&entry) {
            left_out.push(entry);
        }
    };
    let group = snapshot.group(id);
    if group.clusters.is_empty() {
        if tenant.is_some_and(|tenant| tenant.restricts_clusters()) {
            note(None, Why::UnknownClusters);
        } else {
            left.any_allowed = true;
            left.steps.push(Step { group: id, clusters: Vec::new() });
        }
        return;
    }
    let mut clusters = Vec::with_capacity(group.clusters.len());
    for (cluster_id, weight) in &group.clusters {
        let cluster = snapshot.cluster(*cluster_id);
        let restriction = tenant.and_then(|tenant| restriction(cluster, tenant));
        left.any_allowed |= restriction.is_none();
        let weight = Weight::new(*weight);
        match (weight, unavailable(cluster, weight, asked).or(restriction)) {
            (Some(weight), None) => clusters.push((*cluster_id, weight)),
            (_, why) => note(Some(*cluster_id), why.unwrap_or(Why::WeightZero)),
        }
    }
    if !clusters.is_empty() {
        left.steps.push(Step { group: id, clusters });
    }
}

/// What a restriction kept from the tenant, for `explain`.
pub(super) fn describe(
    snapshot: &Snapshot,
    tenant: &Tenant,
    restriction: Restriction,
    place: &Place,
    left_out: &[LeftOut],
) -> Considered {
    let tag = |id: TagId| snapshot.tags.get(id.index()).map_or("", String::as_str);
    let (rule, value, why) = match restriction {
        Restriction::RequireTag(id) => ("require_tags", tag(id), Why::MissingTag(id)),
        Restriction::ForbidTag(id) => ("forbid_tags", tag(id), Why::ForbiddenTag(id)),
        Restriction::ForbidProvider(id) => {
            let name = snapshot.providers.get(id.index()).map_or("", |name| name.as_str());
            ("forbid_providers", name, Why::ForbiddenProvider(id))
        }
    };
    let kept = left_out.iter().filter(|left| left.why == why).filter_map(|left| left.cluster);
    let mut names: Vec<&str> = kept.map(|id| snapshot.cluster(id).name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let result = if names.is_empty() { "leaves out nothing more".to_owned() } else { format!("leaves out {}", names.join(", ")) };
    Considered::new(format!("tenants.{}.{rule} {value}", tenant.name), Some(place), result)
}

fn unavailable(cluster: &Cluster, weight: Option<Weight>, asked: Asked) -> Option<Why> {
    if weight.is_none() {
        return Some(Why::WeightZero);
    }
    if let Some(drain) = cluster.drain {
        return Some(Why::Drained(drain));
    }
    match &cluster.served {
        Served::Every => None,
        Served::Only(models) => match asked {
            Asked::Model(model) if models.contains_key(&model) => None,
            Asked::Nothing => None,
            Asked::Model(_) | Asked::Unknown => Some(Why::ModelNotServed),
        },
    }
}

fn restriction(cluster: &Cluster, tenant: &Tenant) -> Option<Why> {
    if let Some(tag) = tenant.require_tags.first_missing_in(&cluster.tags) {
        return Some(Why::MissingTag(tag));
    }
    if let Some(tag) = tenant.forbid_tags.first_shared_with(&cluster.tags) {
        return Some(Why::ForbiddenTag(tag));
    }
    let provider = cluster.provider?;
    tenant.forbid_providers.contains(&provider).then_some(Why::ForbiddenProvider(provider))
}
