//! What a provider calls a model. A cluster's `models` map wins, the catalog's own name is used where the map has none, and the
//! alias that a client sent never goes out.

use crate::catalog::snapshot::{Cluster, ModelId, Served, Snapshot};
use crate::resolve::matching;

/// The catalog's model that a name or an alias stands for.
#[must_use]
pub fn model_called(snapshot: &Snapshot, name: &str) -> Option<ModelId> {
    matching::find_model(snapshot, None, Some(name), &mut ()).id()
}

/// The model's name at a cluster; one that the catalog does not know has no names of its own.
#[must_use]
pub fn name_at<'a>(snapshot: &'a Snapshot, cluster: Option<&'a Cluster>, model: ModelId) -> &'a str {
    let own = match cluster.map(|cluster| &cluster.served) {
        None | Some(Served::Every) => None,
        Some(Served::Only(models)) => models.get(&model).and_then(Option::as_deref),
    };
    own.unwrap_or_else(|| snapshot.model(model).name.as_str())
}

/// True if whatever a client may have sent is what this cluster calls it: the catalog has no aliases and the cluster no names of
/// its own.
#[must_use]
pub fn never_differs(snapshot: &Snapshot, cluster: &Cluster) -> bool {
    let has_names = match &cluster.served {
        Served::Every => false,
        Served::Only(models) => models.values().any(Option::is_some),
    };
    !has_names && snapshot.model_ids.len() == snapshot.models.len() && snapshot.model_patterns.iter().next().is_none()
}
