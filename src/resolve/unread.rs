//! Requests of which no model is known: what was sent cannot be read, not in one way only, or it names none.

use super::chain::Asked;
use super::matching::{self, Named};
use super::trace::{Considered, Trace};
use super::{Judge, Verdict};
use crate::catalog::snapshot::UnknownModelPolicy;
use crate::extract::{Access, Found, Trouble};
use crate::outcome::Reason;

impl<T: Trace> Judge<'_, T> {
    pub(super) fn trouble(&mut self, trouble: &Trouble) -> Verdict {
        let (verdict, detail) = match trouble {
            Trouble::DuplicateKey => (Verdict::Reject(Reason::DuplicateKey), "a key that decides the route appears twice"),
            Trouble::Malformed(why) => (Verdict::by(self.policy.on_malformed_body, Reason::MalformedBody), *why),
            Trouble::TooLarge => (Verdict::Unjudged(Reason::BodyTooLarge), "the body goes over limits.max_body"),
            Trouble::ModeTooLate => (Verdict::Unjudged(Reason::ModeTooLate), "Envoy's STREAMED mode shows the body too late"),
            Trouble::Deadline => (Verdict::Unjudged(Reason::Deadline), "limits.body_wait is over"),
            Trouble::Overloaded => (Verdict::Unjudged(Reason::Overloaded), "no room for the body: limits.held_bodies"),
            Trouble::Internal => (Verdict::Unjudged(Reason::Internal), "a fault of our own"),
        };
        self.trace.consider(|| Considered::new("body", None, detail));
        verdict
    }

    /// A doubt is trouble for who fails closed. It is judged where trouble is, before the model's permission: nobody knows which model
    /// the permission would be about. The model that was read counts with its `fail: closed` all the same.
    pub(super) fn doubt(&mut self, doubt: &Trouble, model: &Found<String>) -> Option<Verdict> {
        if let Found::Value(name) = model {
            self.model = matching::find_model(self.snapshot, self.tenant(), Some(name), &mut ()).id();
        }
        if self.fails_closed() {
            return Some(self.trouble(doubt));
        }
        self.trace.consider(|| {
            Considered::new(
                "body",
                None,
                "a provider may read it in another way: this counts only under a restriction or `fail: closed`",
            )
        });
        None
    }

    /// A request that names no model by nature goes where the catalog says; any other has forgotten it.
    pub(super) fn without_model(&mut self, access: Option<Access>) -> Verdict {
        const RULE: &str = "defaults.missing_model";
        let missing = Verdict::by(self.policy.on_missing_model, Reason::MissingModel);
        let (Some(access), Some(policy)) = (access, &self.snapshot.defaults.missing_model) else { return missing };
        if access == Access::Write && self.tenant().is_some_and(|tenant| tenant.limits_models()) {
            self.trace.consider(|| {
                Considered::new(
                    RULE,
                    None,
                    "only GET and HEAD for a tenant that may not use every model: the request may run some",
                )
            });
            return missing;
        }
        match policy {
            UnknownModelPolicy::PassThrough => Verdict::Unjudged(Reason::MissingModel),
            UnknownModelPolicy::Reject => Verdict::Reject(Reason::MissingModel),
            UnknownModelPolicy::Chain(chain) => {
                self.trace.consider(|| Considered::new(RULE, Some(&chain.place), "used: its chain"));
                self.once = access == Access::Write;
                let most = if self.once { 1 } else { self.snapshot.defaults.max_attempts };
                self.walk(Reason::NoModelChain, chain, Named::Unknown(None), Asked::Nothing, most)
            }
        }
    }
}
