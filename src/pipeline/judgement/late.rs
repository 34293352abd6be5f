//! What came after an early decision (FULL_DUPLEX_STREAMED): the request is on its way, and then its body cannot be read to the end,
//! or not in one way only. Who fails closed is refused after all, as before the decision; for others the request goes on as it was
//! decided, and what was met is counted.

use std::time::Instant;

use super::{Decided, Judgement, Word};
use crate::encode::reply::{Answer, HeaderChanges, Metadata};
use crate::extract::reader::Reader;
use crate::extract::{Facts, Trouble};
use crate::outcome::Outcome;
use crate::pipeline::Stage;
use crate::resolve::rivals;
use crate::session::State;

impl Judgement {
    /// True, once, if there is trouble now that the decision did not know of, and a refusal can still reach the client.
    pub(super) fn meets_late_trouble(&mut self, response_started: bool) -> bool {
        if self.decided != Decided::Soundly {
            return false;
        }
        let failed = Some(Trouble::Internal);
        let met =
            if self.is_faulty.get() { failed } else { self.guarded(Stage::Ready, |this| this.late_trouble()).unwrap_or(failed) };
        match met {
            Some(_) if !response_started => return true,
            Some(trouble) => {
                self.decided = Decided::Finally;
                self.pipeline.metrics.late_trouble(trouble.as_str());
                self.guard.settle();
            }
            None if response_started || self.reader.as_ref().is_none_or(Reader::has_ended) => self.guard.settle(),
            None => {}
        }
        false
    }

    fn late_trouble(&self) -> Option<Trouble> {
        if self.lost.is_some() {
            return self.lost.clone();
        }
        let reader = self.reader.as_ref()?;
        let met = reader.trouble().cloned().or_else(|| reader.doubt().filter(|_| !self.doubted));
        met.or_else(|| rivals::disagreement_of(self.snapshot.as_deref()?, &reader.facts().0))
    }

    /// Judges once more, by what the body says now. The session plays no part: of all answers only a refusal has an effect.
    pub(super) fn decide_late(&mut self, facts: &Facts, start: Instant) -> Answer {
        self.decided = Decided::Finally;
        let resolution = self.resolve(facts, &State::default());
        if resolution.outcome != Outcome::Reject {
            if let Some(trouble) = facts.trouble.as_ref().or(facts.doubt.as_ref()) {
                self.pipeline.metrics.late_trouble(trouble.as_str());
            }
            self.guard.settle();
            return Answer::Proceed { reroute: false, headers: HeaderChanges::default(), metadata: Metadata::default() };
        }
        let (resolution, answer) = self.write(facts, resolution);
        self.record(facts, &resolution, start, Word::Last);
        answer
    }
}
