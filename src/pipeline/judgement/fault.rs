//! What a fault of our own comes to. A panic at any stage of a decision is caught where it happens: the request is judged as
//! `internal`, which refuses who may not take the static chain, and nobody else's request hears of it. Where the fault leaves open
//! whose request it is, the strictest rule of the catalog counts. It never knows better than that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use super::{Decided, Judgement, Word};
use crate::encode;
use crate::encode::reply::Answer;
use crate::extract::{Api, Facts, Found, Trouble};
use crate::health::Seen;
use crate::outcome::{Outcome, Reason};
use crate::pipeline::Stage;
use crate::resolve::{self, Resolution};
use crate::session::State;

/// Says in the log that something failed inside, and where. What it was is on standard error; a request's content is in neither.
pub(super) fn report(stage: Stage) {
    tracing::error!(event = "fault", stage = stage.as_str(), "a decision failed inside; the request is judged as `internal`");
}

impl Judgement {
    /// Does the work of a stage and counts its time as ours; `None` if it failed inside, and then what was read is not believed.
    pub(super) fn guarded<T>(&mut self, stage: Stage, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let start = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| {
            self.pipeline.stages.enter(stage);
            work(self)
        }));
        self.spent += start.elapsed();
        if done.is_err() {
            report(stage);
            if is_reading(stage) {
                self.is_faulty.set(true);
            }
        }
        done.ok()
    }

    /// The same for a question that changes nothing.
    pub(super) fn asked_safely(&self, work: impl FnOnce(&Self) -> bool) -> Option<bool> {
        let answer = catch_unwind(AssertUnwindSafe(|| {
            self.pipeline.stages.enter(Stage::Ready);
            work(self)
        }));
        if answer.is_err() {
            report(Stage::Ready);
            self.is_faulty.set(true);
        }
        answer.ok()
    }

    /// Judges by what was read, or as a fault.
    pub(super) fn resolve(&mut self, facts: &Facts, session: &State) -> Resolution {
        if self.is_faulty.get() || self.lost.is_some() {
            return self.resolve_fault(facts);
        }
        let Some(snapshot) = self.snapshot.clone() else { return Resolution::of(Outcome::PassThrough, Reason::NoCatalog) };
        // Whose request it is would be in the headers, and any restriction may be theirs.
        if self.is_headless && facts.tenant == Found::Nothing && snapshot.closed.anybody {
            return Resolution::of(Outcome::Reject, Reason::MissingTenant);
        }
        let resolved = self.guarded(Stage::Resolve, |this| {
            let look = this.pipeline.monitor.look(Instant::now());
            resolve::resolve(&snapshot, this.pipeline.rules.policy, facts, session, look.seen(), &mut ())
        });
        resolved.unwrap_or_else(|| self.resolve_fault(facts))
    }

    /// Judges a request that a fault of ours, or the end of its stream, keeps from being judged.
    pub(super) fn resolve_fault(&self, facts: &Facts) -> Resolution {
        let trouble = self.lost.clone().unwrap_or(Trouble::Internal);
        let Some(snapshot) = self.snapshot.as_deref() else { return Resolution::of(Outcome::PassThrough, Reason::NoCatalog) };
        let is_read = self.reader.is_some() && !self.is_faulty.get();
        let judged = catch_unwind(AssertUnwindSafe(|| {
            self.pipeline.stages.enter(Stage::Resolve);
            let tenant = if is_read { facts.tenant.clone() } else { self.reader.as_ref()?.tenant_of_head()? };
            if self.is_headless && tenant == Found::Nothing {
                return None;
            }
            let facts = Facts { tenant, trouble: Some(trouble.clone()), ..facts.clone() };
            let policy = self.pipeline.rules.policy;
            Some(resolve::resolve(snapshot, policy, &facts, &State::default(), Seen::well(), &mut ()))
        }));
        // A model that nobody has read may be one that fails closed.
        let model_is_open = !snapshot.closed.any_model || (is_read && facts.model != Found::Nothing);
        match judged {
            Ok(Some(resolution)) if resolution.outcome == Outcome::Reject || model_is_open => resolution,
            _ => {
                let strict = snapshot.closed.anybody || snapshot.closed.any_model;
                let outcome = if strict { Outcome::Reject } else { Outcome::PassThrough };
                let reason = match trouble {
                    Trouble::TooLarge => Reason::BodyTooLarge,
                    Trouble::Overloaded => Reason::Overloaded,
                    _ => Reason::Internal,
                };
                Resolution::of(outcome, reason)
            }
        }
    }

    /// Writes the answer. What cannot be written is a fault like any other, but for a refusal: it stays one.
    pub(super) fn write(&mut self, facts: &Facts, resolution: Resolution) -> (Resolution, Answer) {
        self.decision_id.get_or_insert_with(|| self.pipeline.decision_id());
        if let Some(answer) = self.guarded(Stage::Encode, |this| this.answer(facts, &resolution)) {
            return (resolution, answer);
        }
        let resolution = if resolution.outcome == Outcome::Reject { resolution } else { self.resolve_fault(facts) };
        let answer = self.guarded(Stage::Encode, |this| this.answer(facts, &resolution));
        let answer = answer.unwrap_or_else(|| self.bare(&resolution, facts.api));
        (resolution, answer)
    }

    /// The answer to a request whose stream failed outside of what is guarded here; `None`: it may go on without one.
    pub fn refusal_after_fault(&mut self) -> Option<Answer> {
        self.is_faulty.set(true);
        let resolution = self.resolve_fault(&Facts::default());
        if self.decided == Decided::NotYet || self.guard.is_pending() {
            self.record(&Facts::default(), &resolution, Instant::now(), Word::Last);
        }
        self.decided = Decided::Finally;
        (resolution.outcome == Outcome::Reject).then(|| self.bare(&resolution, Api::default()))
    }

    fn bare(&self, resolution: &Resolution, api: Api) -> Answer {
        let own = self.pipeline.own_headers().into_iter().filter(|name| !name.is_empty());
        encode::bare(resolution.outcome, resolution.reason, api, own.map(str::to_owned).collect())
    }
}

/// True if what has been read cannot be believed after a fault there.
const fn is_reading(stage: Stage) -> bool {
    match stage {
        Stage::Head | Stage::Body | Stage::End | Stage::Cut | Stage::Ready | Stage::Facts => true,
        Stage::Ask | Stage::Session | Stage::Resolve | Stage::Token | Stage::Encode | Stage::Record => false,
    }
}
