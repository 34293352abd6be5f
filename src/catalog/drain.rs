//! What a drain of a provider would cost: the models whose own chain would be left without a cluster. A look ahead for `cascade check`,
//! made before the incident; it drains nothing.

use super::snapshot::{Entry, ModelId, Served, Snapshot};
use crate::names::{ModelName, ProviderName};

/// What draining one provider does beyond what is drained already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainEffect {
    pub provider: ProviderName,
    /// Models of which the catalog's own chain would have no cluster left, in the order of their names.
    pub models: Vec<ModelName>,
}

/// Models of which the catalog's own chain has no cluster even now, in the order of their names.
#[must_use]
pub fn lost_already(snapshot: &Snapshot) -> Vec<ModelName> {
    lost(snapshot, None).map(|id| snapshot.model(id).name.clone()).collect()
}

fn lost(snapshot: &Snapshot, provider: Option<usize>) -> impl Iterator<Item = ModelId> {
    let models = (0..).map(ModelId).zip(&snapshot.models);
    models.filter(move |(id, _)| !has_cluster(snapshot, *id, provider)).map(|(id, _)| id)
}

/// One effect per provider, in the order of their names. Groups known only by name count as left.
#[must_use]
pub fn effects(snapshot: &Snapshot) -> Vec<DrainEffect> {
    let already: Vec<ModelId> = lost(snapshot, None).collect();
    let effect = |(at, provider): (usize, &ProviderName)| DrainEffect {
        provider: provider.clone(),
        models: lost(snapshot, Some(at)).filter(|id| !already.contains(id)).map(|id| snapshot.model(id).name.clone()).collect(),
    };
    snapshot.providers.iter().enumerate().map(effect).collect()
}

fn has_cluster(snapshot: &Snapshot, model: ModelId, drained: Option<usize>) -> bool {
    snapshot.model(model).chain.entries.iter().any(|entry| {
        let Entry::Group(group) = entry else { return false };
        let clusters = &snapshot.group(*group).clusters;
        clusters.is_empty()
            || clusters.iter().any(|(cluster, weight)| {
                let cluster = snapshot.cluster(*cluster);
                let serves = match &cluster.served {
                    Served::Every => true,
                    Served::Only(models) => models.contains_key(&model),
                };
                let is_drained =
                    cluster.drain.is_some() || drained.is_some_and(|at| cluster.provider.is_some_and(|id| id.index() == at));
                *weight > 0 && serves && !is_drained
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::compile::compile;
    use crate::catalog::load::SourceFile;

    #[test]
    fn a_drain_is_weighed_before_it_happens() {
        let text = r"
providers: {openai: {}, azure: {}, vllm: {}, gone: {drained: true}}
clusters:
  a: {provider: openai}
  b: {provider: azure, models: [both]}
  c: {provider: vllm}
  d: {provider: gone}
priority_groups:
  a: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: c, weight: 0}]}
  b: {clusters: [{cluster_name: b, weight: 1}]}
  c: {clusters: [{cluster_name: c, weight: 1}]}
  d: {clusters: [{cluster_name: d, weight: 1}]}
  envoy: {}
models:
  both: {chain: [a, b]}
  one: {chain: [a, b]}
  house: {chain: [c]}
  known: {chain: [a, envoy]}
  lost: {chain: [d]}
";
        let snapshot = compile(&[SourceFile::new("a.yaml", text)]).unwrap().snapshot;
        let effects: Vec<String> = effects(&snapshot)
            .iter()
            .map(|effect| {
                let models: Vec<&str> = effect.models.iter().map(ModelName::as_str).collect();
                format!("{}: {}", effect.provider, models.join(" "))
            })
            .collect();
        assert_eq!(effects, ["azure: ", "gone: ", "openai: one", "vllm: house"]);
        assert_eq!(lost_already(&snapshot).iter().map(ModelName::as_str).collect::<Vec<_>>(), ["lost"]);
    }
}
