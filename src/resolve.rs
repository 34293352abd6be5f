//! The decision: a pure function from a catalog snapshot and the facts of a request to an answer with a reason. It knows no bytes
//! and no protobuf, it does no I/O and asks no clock: the same input gives the same answer.
//!
//! The order of judgement is the catalog's contract: tenant, trouble with the body, doubt about it, model, permission, chain, the clusters that
//! are left, the session, and how many attempts are sent.

pub mod affinity;
pub mod attempts;
pub mod chain;
mod cooling;
pub mod endpoint;
pub mod matching;
pub mod naming;
pub mod rivals;
pub mod sticky;
pub mod trace;
mod unread;

use std::sync::Arc;

use chain::{Asked, LeftOut, Step, Why};
use matching::{Named, Stranger};
use trace::{Considered, Trace};

use crate::catalog::snapshot::{Chain, ClusterId, Mode, ModelId, Snapshot, Tenant, TenantId, UnknownModelPolicy};
use crate::extract::{Facts, Found};
use crate::health::{Scope, Seen};
use crate::outcome::{HealthEffect, OnTrouble, Outcome, Reason};
use crate::session::{Answer, Placement, State};

/// What the operator's settings (not the catalog) say of requests that cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub on_missing_model: OnTrouble,
    pub on_malformed_body: OnTrouble,
    /// For a directory that does not answer; passing through means going on without it.
    pub on_session_unavailable: OnTrouble,
    /// Each group is narrowed to the session's own cluster.
    pub sticky: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            on_missing_model: OnTrouble::PassThrough,
            on_malformed_body: OnTrouble::PassThrough,
            on_session_unavailable: OnTrouble::PassThrough,
            sticky: false,
        }
    }
}

/// The answer, with ids of the snapshot it was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    pub outcome: Outcome,
    pub reason: Reason,
    pub health: HealthEffect,
    /// Clusters of the chain that were in cooldown, and how much of each; empty where the chain was not looked at.
    pub cooled: Vec<(ClusterId, Scope)>,
    /// `None`: anonymous, or nobody the catalog knows.
    pub tenant: Option<TenantId>,
    /// `None`: unknown to the catalog, or known to the tenant's own chains alone.
    pub model: Option<ModelId>,
    /// What an override sends; for `shadow` what it would have sent; else empty.
    pub chain: Vec<Step>,
    pub left_out: Vec<LeftOut>,
    /// Where the session lives, if that is within the chain.
    pub placement: Option<Arc<Placement>>,
    /// The session's number for `sticky_header`.
    pub number: Option<u64>,
    /// One attempt and no other: what the request changes at a provider must not be changed twice.
    pub once: bool,
}

impl Resolution {
    /// One that says nothing but this: of a request that could not be judged.
    #[must_use]
    pub const fn of(outcome: Outcome, reason: Reason) -> Self {
        Self {
            outcome,
            reason,
            health: HealthEffect::AsWritten,
            cooled: Vec::new(),
            tenant: None,
            model: None,
            chain: Vec::new(),
            left_out: Vec::new(),
            placement: None,
            number: None,
            once: false,
        }
    }
}

/// Judges a request, given what is known of its session and of the clusters' health. The trace hears of every rule that was
/// considered; `&mut ()` listens to nothing and costs nothing.
pub fn resolve(
    snapshot: &Snapshot,
    policy: Policy,
    facts: &Facts,
    session: &State,
    seen: Seen<'_>,
    trace: &mut impl Trace,
) -> Resolution {
    let mut judge = Judge {
        snapshot,
        policy,
        session,
        seen,
        trace,
        tenant: None,
        model: None,
        left_out: Vec::new(),
        placement: None,
        number: None,
        once: false,
        health: HealthEffect::AsWritten,
        cooled: Vec::new(),
    };
    let verdict = judge.verdict(facts);
    let (outcome, reason, chain) = match verdict {
        Verdict::Chain(reason, chain) => match judge.tenant().map(|tenant| tenant.mode) {
            Some(Mode::Shadow) => (Outcome::PassThrough, Reason::Shadow, chain),
            Some(Mode::Enforce) | None => (Outcome::Override, reason, chain),
        },
        Verdict::Reject(reason) => (Outcome::Reject, reason, Vec::new()),
        Verdict::Unjudged(reason) if judge.fails_closed() => {
            judge.trace.consider(|| {
                Considered::new("fail: closed", None, "a restriction or `fail: closed` keeps the request from the static chain")
            });
            (Outcome::Reject, reason, Vec::new())
        }
        Verdict::Unjudged(reason) => (Outcome::PassThrough, reason, Vec::new()),
    };
    let Judge { tenant, model, left_out, placement, number, once, health, cooled, .. } = judge;
    Resolution { outcome, reason, health, cooled, tenant, model, chain, left_out, placement, number, once }
}

enum Verdict {
    Chain(Reason, Vec<Step>),
    Reject(Reason),
    /// The static chain, unless a restriction or `fail: closed` forbids it (rule 2).
    Unjudged(Reason),
}

impl Verdict {
    const fn by(choice: OnTrouble, reason: Reason) -> Self {
        match choice {
            OnTrouble::PassThrough => Self::Unjudged(reason),
            OnTrouble::Reject => Self::Reject(reason),
        }
    }
}

struct Judge<'a, T> {
    snapshot: &'a Snapshot,
    policy: Policy,
    session: &'a State,
    seen: Seen<'a>,
    trace: &'a mut T,
    tenant: Option<TenantId>,
    model: Option<ModelId>,
    left_out: Vec<LeftOut>,
    placement: Option<Arc<Placement>>,
    number: Option<u64>,
    once: bool,
    health: HealthEffect,
    cooled: Vec<(ClusterId, Scope)>,
}

impl<'a, T: Trace> Judge<'a, T> {
    fn tenant(&self) -> Option<&'a Tenant> {
        self.tenant.map(|id| self.snapshot.tenant(id))
    }

    fn fails_closed(&self) -> bool {
        self.snapshot.defaults.fail_closed
            || self.tenant().is_some_and(|tenant| tenant.fail_closed)
            || self.model.is_some_and(|model| self.snapshot.model(model).fail_closed)
    }

    fn verdict(&mut self, facts: &Facts) -> Verdict {
        match matching::find_tenant(self.snapshot, &facts.tenant, self.trace) {
            Ok(tenant) => self.tenant = tenant,
            Err(Stranger::Missing) => return Verdict::Reject(Reason::MissingTenant),
            Err(Stranger::Unknown) => return Verdict::Reject(Reason::UnknownTenant),
        }
        if let Some(trouble) = &facts.trouble {
            // A model that was read before the trouble keeps its `fail: closed`: breaking the rest of a body is no way out of it.
            if let Found::Value(name) = &facts.model {
                self.model = matching::find_model(self.snapshot, self.tenant(), Some(name), self.trace).id();
            }
            return self.trouble(trouble);
        }
        if let Some(doubt) = &facts.doubt
            && let Some(verdict) = self.doubt(doubt, &facts.model)
        {
            return verdict;
        }
        if let Some(trouble) = rivals::disagreement(self.snapshot, self.tenant(), facts) {
            return self.trouble(&trouble);
        }
        let name = match &facts.model {
            Found::Nothing => return self.without_model(facts.without_model),
            Found::Value(name) => Some(name.as_str()),
            Found::Unusable => None,
        };
        let named = matching::find_model(self.snapshot, self.tenant(), name, self.trace);
        self.model = named.id();
        if let Some(tenant) = self.tenant()
            && !matching::is_allowed(tenant, named.name(self.snapshot), self.trace)
        {
            return Verdict::Reject(Reason::ModelNotAllowed);
        }
        self.chain(named)
    }

    /// Where each rule stands that keeps clusters from the tenant, and what it kept.
    fn trace_restrictions(&mut self) {
        let Some(tenant) = self.tenant() else { return };
        for (restriction, place) in &tenant.restrictions {
            self.trace.consider(|| chain::describe(self.snapshot, tenant, *restriction, place, &self.left_out));
        }
    }

    /// The directory's word, else what was learned; without either the chain stands as it is.
    fn place(&mut self, steps: &mut Vec<Step>) -> Result<(), Verdict> {
        let State { answer, learned, .. } = self.session;
        affinity::trace_answer(answer, self.trace);
        let said = if let Answer::Placed(placement) = answer { Some(placement) } else { None };
        let mut known = said.into_iter().chain(learned);
        self.placement = known.find(|placement| affinity::place(self.snapshot, steps, placement, self.trace)).cloned();
        let is_away = matches!(answer, Answer::Unavailable(_)) && self.placement.is_none();
        if is_away && self.policy.on_session_unavailable == OnTrouble::Reject {
            return Err(Verdict::Reject(Reason::SessionUnavailable));
        }
        Ok(())
    }

    fn stick(&mut self, steps: &mut [Step], named: Named<'_>) {
        let Some(seed) = self.session.seed else { return };
        let tenant = self.tenant().map(|tenant| tenant.name.as_str());
        let draw = sticky::Draw::new(seed, tenant, named.known(self.snapshot));
        self.number = Some(draw.number());
        if self.policy.sticky {
            sticky::narrow(self.snapshot, steps, draw, self.trace);
        }
    }

    fn chain(&mut self, named: Named<'_>) -> Verdict {
        let chosen = match matching::choose_chain(self.snapshot, self.tenant(), named, self.trace) {
            Some(chosen) => chosen,
            None => match &self.snapshot.defaults.unknown_model {
                UnknownModelPolicy::PassThrough => return Verdict::Unjudged(Reason::UnknownModel),
                UnknownModelPolicy::Reject => return Verdict::Reject(Reason::UnknownModel),
                UnknownModelPolicy::Chain(chain) => {
                    self.trace.consider(|| Considered::new("defaults.unknown_model", Some(&chain.place), "used: its chain"));
                    (Reason::DefaultChain, chain)
                }
            },
        };
        let (reason, chain) = chosen;
        self.walk(reason, chain, named, named.asked(), self.snapshot.defaults.max_attempts)
    }

    /// From the chain as written to the attempts that are sent.
    fn walk(&mut self, reason: Reason, chain: &Chain, named: Named<'_>, asked: Asked, most: usize) -> Verdict {
        let left = chain::narrow(self.snapshot, chain, self.tenant(), asked, &mut self.left_out);
        self.trace_restrictions();
        if left.steps.is_empty() {
            let by_drain = self.left_out.iter().any(|left| matches!(left.why, Why::Drained(_)));
            return if left.any_allowed && by_drain && self.snapshot.defaults.rejects_drained {
                self.trace.consider(|| Considered::new("defaults.on_drained", None, "reject: a drain has emptied the chain"));
                Verdict::Reject(Reason::NoClusterLeft)
            } else if left.any_allowed {
                Verdict::Unjudged(Reason::NoClusterLeft)
            } else {
                Verdict::Reject(Reason::NoClusterAllowed)
            };
        }
        let mut steps = left.steps;
        if let Err(refused) = self.place(&mut steps) {
            return refused;
        }
        let (mut steps, health, cooled) = cooling::reorder(self.snapshot, steps, self.model, self.seen, self.trace);
        (self.health, self.cooled) = (health, cooled);
        // Of what health leaves, so that a cluster that cools moves its own sessions only.
        self.stick(&mut steps, named);
        if steps.len() > most {
            let rule = if asked == Asked::Nothing && most == 1 { "method" } else { "defaults.max_attempts" };
            self.trace.consider(|| Considered::new(rule, None, format!("cut from {} groups to {most}", steps.len())));
            steps.truncate(most);
        }
        Verdict::Chain(reason, steps)
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
