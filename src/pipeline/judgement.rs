//! One request on its way to a decision: the snapshot is pinned, the request is read as it arrives, the pure core is asked, the answer
//! is written, counted and logged. It is the only joint that may wait; what it waits for is bounded by clocks.

mod late;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Pipeline;
use super::affinity::Asked;
use super::held::Holder;
use crate::catalog::snapshot::Snapshot;
use crate::encode::reply::Answer;
use crate::encode::{self, Decision};
use crate::extproc::exchange::{Cut, Intake, Read};
use crate::extproc::intake::EnvoyHead;
use crate::extract::head::{self, Head};
use crate::extract::reader::Reader;
use crate::extract::{Facts, Found, Slice, Trouble};
use crate::feedback::token::Token;
use crate::health::Seen;
use crate::outcome::{HealthEffect, Outcome, Reason};
use crate::proto::{ProcessingRequest, Request};
use crate::resolve::matching::find_tenant;
use crate::resolve::{self, Resolution, rivals};
use crate::session::State;
use crate::telemetry::{DecisionEvent, StreamGuard, TenantLabel};

/// One request on its way to a decision.
#[derive(Debug)]
pub struct Judgement {
    pipeline: Arc<Pipeline>,
    snapshot: Option<Arc<Snapshot>>,
    reader: Option<Reader>,
    request_id: Option<String>,
    /// Which of [`Pipeline::own_headers`] the client sent.
    spoofed: [bool; 3],
    /// The directory is still to be asked.
    asks: bool,
    asked: Option<Asked>,
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

impl Judgement {
    pub(super) fn new(pipeline: Arc<Pipeline>) -> Self {
        Self {
            snapshot: pipeline.store.current(),
            reader: None,
            request_id: None,
            spoofed: [false; 3],
            asks: pipeline.affinity.has_directory(),
            asked: None,
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
        let claim = self.reader.as_ref().map(|reader| reader.facts().0.tenant).unwrap_or_default();
        let tenant = find_tenant(snapshot, &claim, &mut ()).ok().flatten();
        tenant.map_or(Holder::Unknown, |id| Holder::Tenant(snapshot.tenant(id).name.to_string()))
    }

    /// How much memory reading the body takes beside the body itself, in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.reader.as_ref().map_or(0, Reader::memory)
    }

    /// Decides with what has been read. The only await of a decision: for the session directory, until `decision_deadline`.
    pub async fn decide(&mut self) -> Answer {
        let start = Instant::now();
        let facts = match &self.reader {
            Some(reader) => reader.facts().0,
            None => Facts { trouble: Some(Trouble::Internal), ..Facts::default() },
        };
        if self.decided != Decided::NotYet {
            return self.decide_late(&facts, start);
        }
        self.decided = if facts.trouble.is_some() { Decided::Finally } else { Decided::Soundly };
        self.doubted = facts.doubt.is_some();
        if facts.trouble == Some(Trouble::ModeTooLate) {
            self.pipeline.warn_too_late();
        }
        // What cannot be judged needs no session.
        if facts.trouble.is_none() {
            self.ask(&facts);
        }
        let session = self.pipeline.affinity.state(&facts, self.asked.take()).await;
        if self.pipeline.affinity.has_directory() {
            self.pipeline.metrics.session_looked_up(&session.answer);
        }
        let look = self.pipeline.monitor.look(Instant::now());
        let resolution = self.resolve(&facts, &session, look.seen());
        let id = self.pipeline.decision_id();
        let answer = self.write(&facts, &resolution, &id);
        self.record(&facts, &resolution, &id, start);
        answer
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

    /// Asks once.
    fn ask(&mut self, facts: &Facts) {
        if std::mem::take(&mut self.asks)
            && let Some(snapshot) = &self.snapshot
        {
            self.asked = self.pipeline.affinity.ask(snapshot, facts);
        }
    }

    /// Any fault of ours ends in "no override", never in a lost stream.
    fn resolve(&self, facts: &Facts, session: &State, seen: Seen<'_>) -> Resolution {
        let fault = Resolution {
            outcome: Outcome::PassThrough,
            reason: Reason::Internal,
            health: HealthEffect::AsWritten,
            tenant: None,
            model: None,
            chain: Vec::new(),
            left_out: Vec::new(),
            placement: None,
            number: None,
            once: false,
        };
        let Some(snapshot) = &self.snapshot else { return fault };
        let judge = |facts: &Facts| {
            let policy = self.pipeline.rules.policy;
            catch_unwind(AssertUnwindSafe(|| resolve::resolve(snapshot, policy, facts, session, seen, &mut ())))
        };
        judge(facts)
            .or_else(|_| {
                tracing::error!(event = "fault", "a decision failed inside; the request is judged as `internal`");
                // A restricted tenant must not reach the static chain through a fault of ours (rule 2).
                judge(&Facts { trouble: Some(Trouble::Internal), ..facts.clone() })
            })
            .unwrap_or(fault)
    }

    fn write(&self, facts: &Facts, resolution: &Resolution, id: &str) -> Answer {
        let requested_model = match (&facts.model, resolution.model) {
            (Found::Value(name), Some(_)) => Some(name.clone()),
            (Found::Value(name), None) => Some(self.pipeline.keys.hide(name)),
            (Found::Nothing | Found::Unusable, _) => None,
        };
        let session = facts.session.as_deref().map(|session| self.pipeline.keys.hide(session));
        let token = self.token(facts, resolution);
        let spoofed = self.own_headers_sent();
        let decision = Decision {
            snapshot: self.snapshot.as_deref(),
            resolution,
            decision_id: id,
            request_id: self.request_id.as_deref(),
            requested: &facts.model,
            requested_model: requested_model.as_deref(),
            session: session.as_deref(),
            api: facts.api,
            spoofed: &spoofed,
            token: token.as_deref(),
        };
        encode::answer(&decision, &self.pipeline.publish)
    }

    /// What the attempts of an override will say of themselves.
    fn token(&self, facts: &Facts, resolution: &Resolution) -> Option<String> {
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

    fn record(&mut self, facts: &Facts, resolution: &Resolution, id: &str, start: Instant) {
        let snapshot = self.snapshot.as_deref();
        let model = snapshot.zip(resolution.model).map(|(snapshot, model)| snapshot.model(model).name.as_str());
        let tenant = match snapshot.zip(resolution.tenant) {
            Some((snapshot, tenant)) => TenantLabel::Named(snapshot.tenant(tenant).name.as_str()),
            None if facts.tenant == Found::Nothing => TenantLabel::Anonymous,
            None => TenantLabel::Unknown,
        };
        tracing::debug!(
            event = "decision",
            decision_id = id,
            outcome = resolution.outcome.as_str(),
            reason = resolution.reason.as_str(),
            model = model.unwrap_or("other"),
            tenant = ?tenant,
        );
        let elapsed = self.spent + start.elapsed();
        self.guard.decided(&DecisionEvent { outcome: resolution.outcome, reason: resolution.reason, model, tenant, elapsed });
    }

    fn own_headers_sent(&self) -> Vec<&str> {
        let own = self.pipeline.own_headers();
        own.into_iter().zip(self.spoofed).filter(|(_, sent)| *sent).map(|(name, _)| name).collect()
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let start = Instant::now();
        let result = work(self);
        self.spent += start.elapsed();
        result
    }
}

impl Intake for Judgement {
    fn head(&mut self, message: &ProcessingRequest) {
        self.guard.expect_decision();
        self.timed(|this| {
            let request = EnvoyHead(message);
            this.request_id = match head::header(&request, "x-request-id") {
                Found::Value(id) if id.len() <= 128 => Some(id),
                _ => None,
            };
            let is_decided = this.pipeline.token(&request).is_some();
            if this.pipeline.cautions.decides(&request, this.request_id.as_deref(), is_decided) {
                this.pipeline.metrics.decided_twice();
            }
            let own = this.pipeline.own_headers();
            // Headers that Envoy does not show may hold anything: then ours are removed unseen.
            let unseen = !matches!(message.request, Some(Request::RequestHeaders(_)));
            this.spoofed = own.map(|name| !name.is_empty() && (unseen || request.header(name).next().is_some()));
            let rules = &this.pipeline.rules;
            let needs = this.snapshot.as_ref().map(|snapshot| rules.needs(snapshot)).unwrap_or_default();
            let mut reader = Reader::new(&request, &rules.plan, needs, &rules.limits);
            if let Some(snapshot) = this.snapshot.as_ref().filter(|_| needs.rivals && reader.knows_the_tenant())
                && !rivals::matter(snapshot, &reader.facts().0.tenant)
            {
                reader.ignore_rivals();
            }
            this.reader = Some(reader);
        });
    }

    fn body(&mut self, chunk: &[u8]) -> Read {
        self.timed(|this| match this.reader.as_mut().map(|reader| reader.take(chunk)) {
            Some(Slice::Part(read)) => Read::Part(read),
            Some(Slice::Whole) | None => Read::All,
        })
    }

    fn wait(&mut self) {
        self.timed(Self::ask_early);
    }

    fn end(&mut self) {
        self.timed(|this| {
            if let Some(reader) = &mut this.reader {
                reader.finish();
            }
        });
    }

    fn cut(&mut self, why: Cut) {
        let Some(reader) = &mut self.reader else { return };
        match why {
            Cut::TooLarge | Cut::Overloaded => reader.truncate(trouble(why)),
            Cut::ModeTooLate | Cut::Deadline | Cut::Broken => reader.cut(trouble(why)),
        }
    }

    fn lost(&mut self, why: Cut) {
        if let Some(reader) = &mut self.reader {
            reader.fail(trouble(why));
        }
    }

    fn needs_no_body(&self) -> bool {
        self.reader.as_ref().is_none_or(Reader::needs_no_body)
    }

    fn is_ready(&self) -> bool {
        self.reader.as_ref().is_none_or(Reader::is_ready)
    }

    fn must_judge_late(&mut self, response_started: bool) -> bool {
        self.meets_late_trouble(response_started)
    }

    fn forged(&self) -> Vec<String> {
        self.own_headers_sent().into_iter().map(str::to_owned).collect()
    }
}

const fn trouble(why: Cut) -> Trouble {
    match why {
        Cut::ModeTooLate => Trouble::ModeTooLate,
        Cut::TooLarge => Trouble::TooLarge,
        Cut::Deadline => Trouble::Deadline,
        Cut::Broken => Trouble::Internal,
        Cut::Overloaded => Trouble::Overloaded,
    }
}
