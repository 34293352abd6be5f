//! A state of health that somebody supposes: clusters, and models on clusters, that would cool. A name that stands for nothing is
//! told, so that nobody takes an answer about other clusters for one about theirs.

use crate::catalog::snapshot::Snapshot;
use crate::health::{Moment, View};
use crate::resolve::naming;
use crate::resolve::trace::Considered;

/// Reads `cluster` and `cluster=model`, the model by any of its names. A cluster's own name may hold a `=`: what is a cluster as it
/// stands is taken as one.
pub(super) fn supposed(snapshot: &Snapshot, cooling: &[String], considered: &mut Vec<Considered>) -> View {
    let mut view = View::default();
    let mut complain = |result: String| considered.push(Considered::new("health", None, result));
    for text in cooling {
        let (cluster, model) = match text.rsplit_once('=').filter(|_| !snapshot.cluster_ids.contains_key(text.as_str())) {
            Some((cluster, model)) => (cluster, Some(model)),
            None => (text.as_str(), None),
        };
        if !snapshot.cluster_ids.contains_key(cluster) {
            complain(format!("supposed to cool: {cluster}, which is no cluster of the catalog"));
            continue;
        }
        match model.map(|model| (model, naming::model_called(snapshot, model))) {
            None => view.add(cluster, None, Moment(u64::MAX)),
            Some((_, Some(id))) => view.add(cluster, Some(snapshot.model(id).name.as_str()), Moment(u64::MAX)),
            Some((model, None)) => complain(format!("supposed to cool: {model} on {cluster}, which is no model of the catalog")),
        }
    }
    view
}
