//! One request on its way to a decision: the snapshot is pinned, the request is read as it arrives, the pure core is asked, the answer
//! is written, counted and logged. It is the only joint that may wait; what it waits for is bounded by clocks.

mod fault;
mod intake;
mod late;

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use super::affinity::Asked;
use super::held::Holder;
use super::shown::requested_model;
use super::{OWN_HEADERS, Pipeline, Stage};
use crate::catalog::snapshot::Snapshot;
use crate::encode::reply::Answer;
use crate::encode::{self, Decision};
use crate::extract::reader::Reader;
use crate::extract::{Facts, Found, Trouble};
use crate::feedback::token::Token;
use crate::outcome::Outcome;
use crate::resolve::Resolution;
use crate::resolve::attempts::Budget;
use crate::resolve::matching::find_tenant;
use crate::session::{self, State};
use crate::telemetry::{DecisionEvent, StreamGuard, TenantLabel};

/// One request on its way to a decision.
#[derive(Debug)]
pub struct Judgement {
    pipeline: Arc<Pipeline>,
    snapshot: Option<Arc<Snapshot>>,
    reader: Option<Reader>,
    /// Reading failed inside: of what it found only the head's tenant counts.
    is_faulty: Cell<bool>,
    /// The stream broke before there was a head, or behind an early decision.
    lost: Option<Trouble>,
    /// Envoy does not show the headers (`request_header_mode: SKIP`).
    is_headless: bool,
    request_id: Option<String>,
    /// Of the first decision: a late one is about the same request.
    decision_id: Option<String>,
    /// Which of [`Pipeline::own_headers`] the client sent.
    spoofed: [bool; OWN_HEADERS],
    /// The directory is still to be asked.
    asks: bool,
    asked: Option<Asked>,
    /// The directory failed inside.
    asking_failed: bool,
    decided: Decided,
    /// The decision knew of a doubt: who fails closed was refused then.
    doubted: bool,
    /// Our own time so far, without waiting for the client.
    spent: Duration,
    guard: StreamGuard,
}

/// How far the decision is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decided {
    NotYet,
    /// By a body that was sound so far: trouble that comes later is judged as well.
    Soundly,
    /// In trouble, or twice: nothing is judged again.
    Finally,
}

/// Whether something may still come that takes the place of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Last,
    /// FULL_DUPLEX_STREAMED: the rest of the body may lead to a refusal.
    First,
}

impl Judgement {
    pub(super) fn new(pipeline: Arc<Pipeline>) -> Self {
        Self {
            snapshot: pipeline.store.current(),
            reader: None,
            is_faulty: Cell::new(false),
            lost: None,
            is_headless: false,
            request_id: None,
            decision_id: None,
            spoofed: [false; OWN_HEADERS],
            asks: pipeline.affinity.has_directory(),
            asked: None,
            asking_failed: false,
            decided: Decided::NotYet,
            doubted: false,
            spent: Duration::ZERO,
            guard: pipeline.metrics.stream(),
            pipeline,
        }
    }

    /// Whose bytes the stream holds, as far as its head says it.
    #[must_use]
    pub fn holder(&self) -> Holder {
        let Some(snapshot) = self.snapshot.as_ref() else { return Holder::Unknown };
        if snapshot.tenants.is_empty() {
            return Holder::Everybody;
        }
        let claim = self.reader.as_ref().map(|reader| reader.tenant_claim().0).unwrap_or_default();
        let tenant = find_tenant(snapshot, &claim, &mut ()).ok().flatten();
        tenant.map_or(Holder::Unknown, |id| Holder::Tenant(snapshot.tenant(id).name.to_string()))
    }

    /// How much memory reading the body takes beside the body itself, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.reader.as_ref().map_or(0, Reader::memory)
    }

    /// True if there is a catalog to decide by. If there is none, the request is counted as such, and nothing is decided about it.
    pub fn has_catalog(&mut self) -> bool {
        if self.snapshot.is_none() {
            self.snapshot = self.pipeline.store.current();
        }
        if self.snapshot.is_none() {
            self.pipeline.metrics.no_catalog();
        }
        self.snapshot.is_some()
    }

    /// Decides with what has been read. The only await of a decision: for the session directory, until `decision_deadline`.
    pub async fn decide(&mut self, word: Word) -> Answer {
        let start = Instant::now();
        let facts = self.facts();
        if self.decided != Decided::NotYet {
            return self.decide_late(&facts, start);
        }
        let is_sound = facts.trouble.is_none() && !self.is_faulty.get();
        self.decided = if is_sound { Decided::Soundly } else { Decided::Finally };
        self.doubted = facts.doubt.is_some();
        if facts.trouble == Some(Trouble::ModeTooLate) {
            self.pipeline.warn_too_late();
        }
        // What cannot be judged needs no session.
        if is_sound {
            self.ask_safely(|this| this.ask(&facts));
        }
        let session = self.session(&facts).await;
        let resolution = self.resolve(&facts, &session);
        let (resolution, answer) = self.write(&facts, resolution);
        let word = if is_sound && resolution.outcome != Outcome::Reject { word } else { Word::Last };
        self.record(&facts, &resolution, start, word);
        answer
    }

    /// What has been read, as far as it can be believed.
    fn facts(&mut self) -> Facts {
        let read = self.guarded(Stage::Facts, |this| this.reader.as_ref().map(|reader| reader.facts().0));
        let mut facts = read.flatten().unwrap_or_default();
        if self.reader.is_none() || self.is_faulty.get() {
            facts.trouble = Some(self.lost.clone().unwrap_or(Trouble::Internal));
        } else if let (None, Some(lost)) = (&facts.trouble, &self.lost) {
            facts.trouble = Some(lost.clone());
        }
        facts
    }

    async fn session(&mut self, facts: &Facts) -> State {
        let asked = self.asked.take();
        let stages = self.pipeline.stages.clone();
        let affinity = Arc::clone(&self.pipeline.affinity);
        let state = async {
            stages.enter(Stage::Session);
            affinity.state(facts, asked).await
        };
        let mut state = AssertUnwindSafe(state).catch_unwind().await.unwrap_or_else(|_| {
            fault::report(Stage::Session);
            self.asking_failed = true;
            State::default()
        });
        if self.asking_failed {
            state.answer = session::Answer::Unavailable(session::Fault::Internal);
        }
        if self.pipeline.affinity.has_directory() {
            self.pipeline.metrics.session_looked_up(&state.answer);
        }
        state
    }

    /// Asks the directory as soon as the key is known, so that the answer comes while the body is still on its way.
    fn ask_early(&mut self) {
        if self.asks
            && let Some(reader) = self.reader.as_ref().filter(|reader| self.pipeline.affinity.can_ask(reader))
        {
            let facts = reader.facts().0;
            self.ask(&facts);
        }
    }

    fn ask_safely(&mut self, ask: impl FnOnce(&mut Self)) {
        if self.guarded(Stage::Ask, ask).is_none() {
            (self.asks, self.asking_failed) = (false, true);
        }
    }

    /// Asks once.
    fn ask(&mut self, facts: &Facts) {
        if std::mem::take(&mut self.asks)
            && let Some(snapshot) = &self.snapshot
        {
            self.asked = self.pipeline.affinity.ask(snapshot, facts);
        }
    }

    fn answer(&self, facts: &Facts, resolution: &Resolution) -> Answer {
        let Pipeline { publish, keys, .. } = &*self.pipeline;
        let snapshot = self.snapshot.as_deref();
        let requested_model = requested_model(&facts.model, snapshot, resolution, publish.requested_model, keys);
        let session = facts.session.as_deref().map(|session| self.pipeline.keys.hide(session));
        let token = self.token(facts, resolution);
        let spoofed = self.own_headers_sent();
        let overridden = self.snapshot.as_deref().filter(|_| resolution.outcome == Outcome::Override);
        let attempts = &self.pipeline.rules.attempts;
        let budget = overridden.map(|snapshot| Budget::of(snapshot, resolution, attempts, facts.streams)).unwrap_or_default();
        let decision = Decision {
            budget,
            snapshot: self.snapshot.as_deref(),
            resolution,
            decision_id: self.decision_id.as_deref().unwrap_or_default(),
            request_id: self.request_id.as_deref(),
            requested: &facts.model,
            requested_model: requested_model.as_deref(),
            session: session.as_deref(),
            api: facts.api,
            spoofed: &spoofed,
            token: token.as_deref(),
        };
        self.pipeline.stages.enter(Stage::Encode);
        encode::answer(&decision, &self.pipeline.publish)
    }

    /// What the attempts of an override will say of themselves.
    fn token(&self, facts: &Facts, resolution: &Resolution) -> Option<String> {
        self.pipeline.stages.enter(Stage::Token);
        if !self.pipeline.feedback || resolution.outcome != Outcome::Override {
            return None;
        }
        let model = self.snapshot.as_deref().zip(resolution.model).map(|(snapshot, id)| snapshot.model(id).name.to_string());
        let (own_name, sent) = match (&facts.model, &model) {
            (Found::Value(sent), Some(name)) => (sent == name, Token::mark_of(sent)),
            _ => (false, 0),
        };
        let affinity = &self.pipeline.affinity;
        let session = self.snapshot.as_deref().and_then(|snapshot| affinity.to_remember(snapshot, facts, resolution));
        Token { model, own_name, sent, session }.seal(&self.pipeline.keys, self.pipeline.monitor.now())
    }

    fn record(&mut self, facts: &Facts, resolution: &Resolution, start: Instant, word: Word) {
        let snapshot = self.snapshot.clone();
        let snapshot = snapshot.as_deref();
        let model = snapshot.zip(resolution.model).map(|(snapshot, model)| snapshot.model(model).name.as_str());
        let tenant = match snapshot.zip(resolution.tenant) {
            Some((snapshot, tenant)) => TenantLabel::Named(snapshot.tenant(tenant).name.as_str()),
            None if facts.tenant == Found::Nothing => TenantLabel::Anonymous,
            None => TenantLabel::Unknown,
        };
        if self.pipeline.feedback && resolution.outcome == Outcome::Override && !self.pipeline.monitor.has_heard() {
            self.pipeline.cautions.unheard_override();
        }
        let elapsed = self.spent + start.elapsed();
        let event = DecisionEvent { outcome: resolution.outcome, reason: resolution.reason, model, tenant, elapsed };
        self.guarded(Stage::Record, |this| {
            tracing::debug!(
                event = "decision",
                decision_id = this.decision_id.as_deref().unwrap_or_default(),
                outcome = event.outcome.as_str(),
                reason = event.reason.as_str(),
                model = model.unwrap_or("other"),
                tenant = ?tenant,
            );
            match word {
                Word::Last => this.guard.decided(&event),
                Word::First => this.guard.decided_for_now(&event),
            }
        });
    }

    fn own_headers_sent(&self) -> Vec<&str> {
        let own = self.pipeline.own_headers();
        own.into_iter().zip(self.spoofed).filter(|(_, sent)| *sent).map(|(name, _)| name).collect()
    }
}
