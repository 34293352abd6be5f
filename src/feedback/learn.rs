//! From a success to a session that is remembered: whose it was, and whether the cluster is one that a decision could have sent it
//! to. Envoy may go elsewhere by itself (a group that the catalog names and does not list, fact 12): that is never remembered.

use std::sync::Arc;

use super::classify::Attempt;
use super::token;
use crate::catalog::snapshot::Snapshot;
use crate::directory::{Served, Sessions};
use crate::proto::HttpLogEntry;
use crate::resolve::affinity;
use crate::telemetry::{Learned, Metrics};

#[derive(Debug)]
pub(super) struct Learner {
    pub(super) sessions: Arc<Sessions>,
    pub(super) metrics: Arc<Metrics>,
}

impl Learner {
    /// An attempt has served this session.
    pub(super) fn served(&self, snapshot: &Snapshot, session: &token::Session, attempt: &Attempt<'_>, entry: &HttpLogEntry) {
        let (tenant, model) = (session.tenant.as_deref(), session.model.as_deref());
        let Some(key) = self.sessions.template.fill(tenant, model, &session.id) else { return };
        let endpoint = if self.sessions.learns_endpoints { entry.endpoint() } else { None };
        let endpoint = endpoint.map(|endpoint| endpoint.to_string());
        if self.sessions.knows(&key, attempt.cluster, endpoint.as_deref()) {
            return;
        }
        let Some(names) = affinity::names_of(snapshot, tenant, model, attempt.cluster) else {
            self.metrics.session_learned(Learned::NotAllowed);
            return;
        };
        self.sessions.learn(&key, Served { cluster: attempt.cluster.to_owned(), endpoint, names });
    }
}
