//! Who asks for which model: a counter by tenant and model of the catalog, bounded as a whole.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::outcome::Outcome;

/// Pairs with series of their own; further ones count for the tenant and the model `other`. With three outcomes this is the largest
/// family of all, and still one that a Prometheus reads.
const MAX_PAIRS: usize = 5_000;
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    tenant: String,
    model: String,
    outcome: &'static str,
}

type Counters = [Counter; Outcome::ALL.len()];
/// By tenant, then by model, so that a lookup allocates nothing.
type Known = HashMap<Box<str>, HashMap<Box<str>, Counters>>;

/// `cascade_tenant_model_requests_total`.
#[derive(Debug)]
pub(super) struct Pairs {
    family: Family<Labels, Counter>,
    known: RwLock<(Known, usize)>,
}

impl Pairs {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let family: Family<Labels, Counter> = Family::default();
        registry.register("cascade_tenant_model_requests", "Requests by tenant and model of the catalog", family.clone());
        Self { family, known: RwLock::default() }
    }

    /// `None`: the catalog does not know it.
    pub(super) fn count(&self, tenant: Option<&str>, model: Option<&str>, outcome: Outcome) {
        let (tenant, model) = (tenant.unwrap_or(OTHER), model.unwrap_or(OTHER));
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = known.0.get(tenant).and_then(|models| models.get(model)) {
            counters[outcome as usize].inc();
            return;
        }
        drop(known);
        self.learn(tenant, model)[outcome as usize].inc();
    }

    #[cold]
    fn learn(&self, tenant: &str, model: &str) -> Counters {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let (pairs, count) = &mut *known;
        let (tenant, model) = if *count < MAX_PAIRS { (tenant, model) } else { (OTHER, OTHER) };
        let models = pairs.entry(Box::from(tenant)).or_default();
        if let Some(counters) = models.get(model) {
            return counters.clone();
        }
        *count += 1;
        let labels = |outcome: Outcome| Labels { tenant: tenant.to_owned(), model: model.to_owned(), outcome: outcome.as_str() };
        let counters = Outcome::ALL.map(|outcome| self.family.get_or_create_owned(&labels(outcome)));
        models.insert(Box::from(model), counters.clone());
        counters
    }
}
