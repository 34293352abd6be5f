//! From a success to a session that is remembered: whose it was, and whether the cluster is one that a decision could have sent it
//! to. Envoy may go elsewhere by itself (a group that the catalog names and does not list, fact 12): that is never remembered.

use std::net::SocketAddr;
use std::sync::Arc;

use super::token;
use crate::catalog::snapshot::Snapshot;
use crate::directory::{Served, Sessions};
use crate::resolve::affinity;
use crate::telemetry::{Learned, Metrics};

#[derive(Debug)]
pub(super) struct Learner {
    pub(super) sessions: Arc<Sessions>,
    pub(super) metrics: Arc<Metrics>,
}

impl Learner {
    /// An attempt has served this session.
    pub(super) fn served(&self, snapshot: &Snapshot, session: &token::Session, cluster: &str, endpoint: Option<SocketAddr>) {
        let (tenant, model) = (session.tenant.as_deref(), session.model.as_deref());
        let Some(key) = self.sessions.template.fill(tenant, model, &session.id) else { return };
        let endpoint = endpoint.filter(|_| self.sessions.learns_endpoints).map(|endpoint| endpoint.to_string());
        if self.sessions.knows(&key, cluster, endpoint.as_deref()) {
            return;
        }
        let Some(names) = affinity::names_of(snapshot, tenant, model, cluster) else {
            self.metrics.session_learned(Learned::NotAllowed);
            return;
        };
        let tenant = tenant.map(str::to_owned);
        self.sessions.learn(&key, Served { tenant, cluster: cluster.to_owned(), endpoint, names });
    }
}
