//! Counters by label, resolved before they are needed: the answers that can happen stand there from the start at 0, names of
//! the catalog are resolved once and bounded. A lookup allocates nothing.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::outcome::{Outcome, Reason};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    outcome: &'static str,
    reason: &'static str,
}

/// `cascade_requests_total`.
#[derive(Debug)]
pub(super) struct Answers {
    family: Family<AnswerLabels, Counter>,
    /// By outcome and reason; `None` where the two never go together.
    handles: Vec<Option<Counter>>,
    undecided: Counter,
}

const NO_CATALOG: AnswerLabels = AnswerLabels { outcome: "none", reason: Reason::NoCatalog.as_str() };

impl Answers {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let family: Family<AnswerLabels, Counter> = Family::default();
        registry.register("cascade_requests", "Requests by what was decided and why", family.clone());
        let mut handles = Vec::with_capacity(Outcome::ALL.len() * Reason::ALL.len());
        for outcome in Outcome::ALL {
            for reason in Reason::ALL {
                let labels = AnswerLabels { outcome: outcome.as_str(), reason: reason.as_str() };
                handles.push(go_together(outcome, *reason).then(|| family.get_or_create_owned(&labels)));
            }
        }
        // There from the start, so that an alert on it sees the first one.
        let undecided = family.get_or_create_owned(&NO_CATALOG);
        Self { family, handles, undecided }
    }

    /// A request came while no catalog was loaded, and Envoy's `failure_mode_allow` decides.
    pub(super) fn count_no_catalog(&self) {
        self.undecided.inc();
    }

    pub(super) fn count(&self, outcome: Outcome, reason: Reason) {
        match self.handles.get(outcome as usize * Reason::ALL.len() + reason as usize) {
            Some(Some(counter)) => {
                counter.inc();
            }
            _ => {
                let labels = AnswerLabels { outcome: outcome.as_str(), reason: reason.as_str() };
                self.family.get_or_create(&labels).inc();
            }
        }
    }
}

/// The table of reasons at the end of design section 9.
fn go_together(outcome: Outcome, reason: Reason) -> bool {
    let (overrides, passes, rejects) = match reason {
        Reason::TenantChain | Reason::TenantDefaultChain | Reason::ModelChain | Reason::DefaultChain | Reason::NoModelChain => {
            (true, false, false)
        }
        Reason::MissingModel
        | Reason::UnknownModel
        | Reason::MalformedBody
        | Reason::BodyTooLarge
        | Reason::ModeTooLate
        | Reason::Deadline
        | Reason::NoClusterLeft
        | Reason::Overloaded
        | Reason::Internal => (false, true, true),
        // Counted by `nothing_decided`: nothing is made up.
        Reason::NoCatalog => (false, false, false),
        Reason::Shadow => (false, true, false),
        Reason::MissingTenant
        | Reason::UnknownTenant
        | Reason::ModelNotAllowed
        | Reason::NoClusterAllowed
        | Reason::DuplicateKey
        | Reason::SessionUnavailable => (false, false, true),
    };
    match outcome {
        Outcome::Override => overrides,
        Outcome::PassThrough => passes,
        Outcome::Reject => rejects,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    model: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TenantLabels {
    tenant: String,
    outcome: &'static str,
}

/// One counter per outcome, made when the outcome first happens.
type Counters = [Counter; Outcome::ALL.len()];
type Resolve = Box<dyn Fn(&str) -> Counters + Send + Sync>;

/// A counter family by a name of the catalog and the outcome: the first `limit` names, then `other`.
pub(super) struct ByName {
    known: RwLock<HashMap<Box<str>, Counters>>,
    other: Counters,
    resolve: Resolve,
    limit: usize,
}

impl ByName {
    pub(super) fn models(registry: &mut Registry, limit: usize) -> Self {
        let family: Family<ModelLabels, Counter> = Family::default();
        registry.register("cascade_model_requests", "Requests by model of the catalog", family.clone());
        Self::new(limit, move |name| {
            Outcome::ALL
                .map(|outcome| family.get_or_create_owned(&ModelLabels { model: name.to_owned(), outcome: outcome.as_str() }))
        })
    }

    pub(super) fn tenants(registry: &mut Registry, limit: usize) -> Self {
        let family: Family<TenantLabels, Counter> = Family::default();
        registry.register("cascade_tenant_requests", "Requests by tenant of the catalog", family.clone());
        Self::new(limit, move |name| {
            Outcome::ALL
                .map(|outcome| family.get_or_create_owned(&TenantLabels { tenant: name.to_owned(), outcome: outcome.as_str() }))
        })
    }

    fn new(limit: usize, resolve: impl Fn(&str) -> Counters + Send + Sync + 'static) -> Self {
        let other = resolve("other");
        Self { known: RwLock::default(), other, resolve: Box::new(resolve), limit }
    }

    /// Counts for `name`, or for `other`.
    pub(super) fn count(&self, name: Option<&str>, outcome: Outcome) {
        let Some(name) = name else {
            self.other[outcome as usize].inc();
            return;
        };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = known.get(name) {
            counters[outcome as usize].inc();
            return;
        }
        let full = known.len() >= self.limit;
        drop(known);
        if full {
            self.other[outcome as usize].inc();
        } else {
            self.learn(name)[outcome as usize].inc();
        }
    }

    #[cold]
    fn learn(&self, name: &str) -> Counters {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(name) && known.len() >= self.limit {
            return self.other.clone();
        }
        known.entry(Box::from(name)).or_insert_with(|| (self.resolve)(name)).clone()
    }
}
