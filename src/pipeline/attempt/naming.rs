//! What the model is called at the cluster of one attempt, and how paths begin there. It knows the catalog and what the decision said;
//! it reads no request.

use std::ops::Range;
use std::sync::Arc;

use crate::catalog::snapshot::{Cluster, ModelId, Snapshot};
use crate::feedback::token::Token;
use crate::resolve::naming;

/// What an attempt is judged by.
#[derive(Debug)]
pub(super) struct Naming {
    snapshot: Option<Arc<Snapshot>>,
    cluster: String,
    token: Option<Token>,
    /// The decision's model, if its token came along.
    decided: Option<ModelId>,
}

impl Naming {
    pub(super) fn of(snapshot: Option<Arc<Snapshot>>) -> Self {
        Self { snapshot, cluster: String::new(), token: None, decided: None }
    }

    /// The attempt goes to this cluster, and the decision said this.
    pub(super) fn read(&mut self, cluster: String, token: Option<Token>) {
        let model = token.as_ref().and_then(|token| token.model.as_deref());
        self.decided = self.snapshot.as_ref().and_then(|snapshot| naming::model_called(snapshot, model?));
        self.cluster = cluster;
        self.token = token;
    }

    /// True without a catalog, and for a cluster of Envoy's static chain that no decision sent the request to: what goes there is not
    /// ours to change.
    pub(super) fn is_foreign(&self) -> bool {
        self.snapshot.is_none() || (self.decided.is_none() && self.known_cluster().is_none())
    }

    /// True if the head alone says that the model has its name already.
    pub(super) fn is_settled(&self) -> bool {
        let Some(snapshot) = &self.snapshot else { return true };
        match (&self.token, self.decided) {
            (Some(token), Some(model)) => {
                token.own_name && token.model.as_deref() == Some(naming::name_at(snapshot, self.known_cluster(), model))
            }
            // The decision's model is known to a tenant alone, or to nobody: it has no names.
            (Some(token), None) if token.model.is_none() => true,
            (Some(_) | None, None) | (None, Some(_)) => {
                self.known_cluster().is_some_and(|cluster| naming::never_differs(snapshot, cluster))
            }
        }
    }

    /// The name to put in the place of the one that was found, if it is another. What the decision did not read is left alone.
    pub(super) fn name_for(&self, found: &str) -> Option<&str> {
        let snapshot = self.snapshot.as_ref()?;
        let model = match (&self.token, self.decided) {
            (Some(token), _) if !token.speaks_of(found) => None,
            (_, Some(model)) => Some(model),
            (_, None) => naming::model_called(snapshot, found),
        };
        let name = naming::name_at(snapshot, self.known_cluster(), model?);
        (name != found).then_some(name)
    }

    /// The path that the client sent as this cluster shall see it: its beginning by `path_prefix`, and the text behind it in the place
    /// of those bytes.
    pub(super) fn path(&self, sent: &str, segment: Option<(Range<usize>, String)>) -> String {
        let rule = self.known_cluster().and_then(|cluster| cluster.path_prefix.as_ref());
        let begins = rule.and_then(|rule| rule.length_in(sent));
        let start = begins.unwrap_or(0);
        let rest = match segment {
            Some((range, text)) if range.start >= start => {
                format!("{}{text}{}", &sent[start..range.start], &sent[range.end..])
            }
            Some(_) | None => sent[start..].to_owned(),
        };
        match rule.filter(|_| begins.is_some()) {
            Some(rule) => rule.before(&rest),
            None => rest,
        }
    }

    fn known_cluster(&self) -> Option<&Cluster> {
        let snapshot = self.snapshot.as_ref()?;
        snapshot.cluster_ids.get(self.cluster.as_str()).map(|id| snapshot.cluster(*id))
    }
}
