//! What came after an early decision (FULL_DUPLEX_STREAMED): the request is on its way, and then its body cannot be read to the end,
//! or not in one way only. Who fails closed is refused after all, as before the decision; for others the request goes on as it was
//! decided, and what was met is counted.

use std::time::Instant;

use super::{Decided, Judgement};
use crate::encode::reply::{Answer, HeaderChanges, Metadata};
use crate::extract::{Facts, Trouble};
use crate::health::Seen;
use crate::outcome::Outcome;
use crate::resolve::rivals;
use crate::session::State;

impl Judgement {
    /// True, once, if there is trouble now that the decision did not know of, and a refusal can still reach the client.
    pub(super) fn meets_late_trouble(&mut self, response_started: bool) -> bool {
        if self.decided != Decided::Soundly {
            return false;
        }
        let Some(trouble) = self.late_trouble() else { return false };
        if response_started {
            self.decided = Decided::Finally;
            self.pipeline.metrics.late_trouble(trouble.as_str());
        }
        !response_started
    }

    fn late_trouble(&self) -> Option<Trouble> {
        let reader = self.reader.as_ref()?;
        let met = reader.trouble().cloned().or_else(|| reader.doubt().filter(|_| !self.doubted));
        met.or_else(|| rivals::disagreement_of(self.snapshot.as_deref()?, &reader.facts().0))
    }

    /// Judges once more, by what the body says now. The session plays no part: of all answers only a refusal has an effect.
    pub(super) fn decide_late(&mut self, facts: &Facts, start: Instant) -> Answer {
        self.decided = Decided::Finally;
        let resolution = self.resolve(facts, &State::default(), Seen::well());
        if resolution.outcome != Outcome::Reject {
            if let Some(trouble) = facts.trouble.as_ref().or(facts.doubt.as_ref()) {
                self.pipeline.metrics.late_trouble(trouble.as_str());
            }
            return Answer::Proceed { reroute: false, headers: HeaderChanges::default(), metadata: Metadata::default() };
        }
        let id = self.pipeline.decision_id();
        let answer = self.write(facts, &resolution, &id);
        self.record(facts, &resolution, &id, start);
        answer
    }
}
