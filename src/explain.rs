//! Judges a request that somebody describes, and says everything about how: the facts and where each came from, every rule that
//! was considered, what was left out, and per attempt which cluster may serve. It calls the same core as the data path and adds
//! nothing to the judgement.

mod cooling;
mod json;
mod question;
pub mod text;
mod unread;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::catalog::snapshot::Snapshot;
use crate::extract::reader::Needs;
use crate::extract::request::Request;
use crate::extract::source::{Plan, Source};
use crate::extract::spelling::is_visible;
use crate::extract::{Facts, Found, Limits, Origins, TenantClaim};
use crate::health::{Moment, Seen};
use crate::outcome::Outcome;
use crate::resolve::attempts::{AttemptRules, Budget};
use crate::resolve::chain::{Step, Why};
use crate::resolve::endpoint;
use crate::resolve::trace::Considered;
use crate::resolve::{Policy, Resolution, resolve};
use crate::session::{Answer, Placement, State};

/// The path that a description without one means.
pub const DEFAULT_PATH: &str = "/v1/chat/completions";

/// The longest list of attempts that is spelled out.
pub const MAX_ATTEMPTS: usize = 64;

/// A request as a person describes it. `model`, `tenant` and `session` stand for what extraction would have found; where they
/// are missing the rest is read as a real request would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    pub model: Option<String>,
    pub tenant: Option<String>,
    pub session: Option<String>,
    pub path: Option<String>,
    pub method: Option<String>,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    /// The value of Envoy's `header_name` header: picks a cluster exactly (fact 16).
    pub random: Option<u64>,
    /// How many attempts to spell out; by default one a group.
    pub attempts: Option<usize>,
    /// What cools, each a cluster or `cluster=model`. Empty: what the caller knows of their health.
    pub cooling: Vec<String>,
}

/// How requests are read and judged, besides the catalog: what the settings say.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub plan: Plan,
    pub policy: Policy,
    pub limits: Limits,
    /// Something uses the session: a directory, `sticky` or `sticky_header`.
    pub session: bool,
    pub attempts: AttemptRules,
}

/// The whole answer.
#[derive(Debug, Clone)]
pub struct Explanation<'a> {
    snapshot: &'a Snapshot,
    pub resolution: Resolution,
    pub facts: Facts,
    origins: Vec<(&'static str, String)>,
    pub considered: Vec<Considered>,
    random: Option<u64>,
    attempts: usize,
    /// What Envoy is asked for, if the answer is an override.
    pub budget: Budget,
    session: Option<String>,
    directory: Answer,
    /// What was learned beside a directory that is never told.
    learned: Option<Arc<Placement>>,
}

/// Judges the request by the catalog alone: no directory is asked and no session has a choice of its own. `hide` hashes a session
/// id, as it is hashed wherever it leaves us.
#[must_use]
pub fn explain<'a>(
    snapshot: &'a Snapshot,
    rules: &Rules,
    question: &Question,
    seen: Seen<'_>,
    hide: &dyn Fn(&str) -> String,
) -> Explanation<'a> {
    explain_with(snapshot, rules, question, seen, hide, &|_| State::default())
}

/// The same with what `session` knows of the request's session.
#[must_use]
pub fn explain_with<'a>(
    snapshot: &'a Snapshot,
    rules: &Rules,
    question: &Question,
    seen: Seen<'_>,
    hide: &dyn Fn(&str) -> String,
    session: &dyn Fn(&Facts) -> State,
) -> Explanation<'a> {
    let (facts, origins) = facts(snapshot, rules, question);
    let mut considered = Vec::new();
    unread::headers(&rules.plan, &question.headers, &mut considered);
    let given = cooling::supposed(snapshot, &question.cooling, &mut considered);
    let seen = if question.cooling.is_empty() { seen } else { Seen::new(&given, Moment(0)) };
    let state = session(&facts);
    let resolution = resolve(snapshot, rules.policy, &facts, &state, seen, &mut considered);
    let attempts = question.attempts.unwrap_or(resolution.chain.len()).min(MAX_ATTEMPTS);
    let is_sent = resolution.outcome == Outcome::Override;
    let budget = if is_sent { Budget::of(snapshot, &resolution, &rules.attempts, facts.streams) } else { Budget::default() };
    let session = facts.session.as_deref().map(hide);
    let State { answer: directory, learned, .. } = state;
    Explanation {
        snapshot,
        resolution,
        facts,
        origins,
        considered,
        random: question.random,
        attempts,
        budget,
        session,
        directory,
        learned,
    }
}

impl Rules {
    /// Which fields a decision waits for under this catalog.
    #[must_use]
    pub fn needs(&self, snapshot: &Snapshot) -> Needs {
        let stream = snapshot.limits_attempts || self.attempts.timeout.is_some() || self.attempts.stream_timeout.is_some();
        Needs { tenant: !snapshot.tenants.is_empty(), session: self.session, rivals: snapshot.limits_models, stream }
    }
}

fn facts(snapshot: &Snapshot, rules: &Rules, question: &Question) -> (Facts, Vec<(&'static str, String)>) {
    let mut request = Request::new(question.path.as_deref().unwrap_or(DEFAULT_PATH));
    request.add_header(":method", question.method.as_deref().unwrap_or("POST"));
    question.headers.iter().for_each(|(name, value)| request.add_header(name, value));
    request.body.clone_from(&question.body);
    let (mut facts, found) = request.read(&rules.plan, rules.needs(snapshot), &rules.limits);
    let mut origins = describe(&rules.plan, found);
    let mut given = |name: &'static str| {
        origins.retain(|(field, _)| *field != name);
        origins.push((name, "the question".to_owned()));
    };
    if let Some(model) = &question.model {
        facts.model = if model.is_empty() { Found::Nothing } else { Found::Value(model.clone()) };
        // A model that is given needs no body, so that the body's troubles are none of its own.
        (facts.trouble, facts.doubt) = (None, None);
        facts.rivals.clear();
        given("model");
    }
    if let Some(tenant) = &question.tenant {
        facts.tenant = if tenant.is_empty() { Found::Nothing } else { Found::Value(TenantClaim::Name(tenant.clone())) };
        given("tenant");
    }
    if let Some(session) = &question.session {
        facts.session = Some(session.clone()).filter(|session| is_visible(session));
        given("session");
    }
    (facts, origins)
}

fn describe(plan: &Plan, origins: Origins) -> Vec<(&'static str, String)> {
    let from = |list: &[Source], index: Option<usize>| Some(list.get(index?)?.describe());
    [
        ("model", from(&plan.model, origins.model)),
        ("tenant", from(&plan.tenant, origins.tenant)),
        ("session", from(&plan.session, origins.session)),
    ]
    .into_iter()
    .filter_map(|(field, origin)| Some((field, origin?)))
    .collect()
}

/// One attempt: the group it uses and the share of each cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt<'a> {
    /// From 1.
    pub number: usize,
    pub group: &'a str,
    /// Name and probability; empty for a group that only Envoy knows.
    pub clusters: Vec<(&'a str, f64)>,
    pub pick: Option<&'a str>,
}

impl<'a> Explanation<'a> {
    #[must_use]
    pub fn attempts(&self) -> Vec<Attempt<'a>> {
        let Some(last) = self.resolution.chain.len().checked_sub(1) else { return Vec::new() };
        // More attempts than groups stay on the last group (fact 15).
        (0..self.attempts).map(|index| self.attempt(index + 1, &self.resolution.chain[index.min(last)])).collect()
    }

    fn attempt(&self, number: usize, step: &Step) -> Attempt<'a> {
        let name = |id| self.snapshot.cluster(id).name.as_str();
        let total: u64 = step.clusters.iter().map(|(_, weight)| u64::from(weight.get())).sum();
        #[allow(clippy::cast_precision_loss)] // a share is shown, not summed
        let share = |weight: u32| f64::from(weight) / total as f64;
        let clusters = step.clusters.iter().map(|(id, weight)| (name(*id), share(weight.get()))).collect();
        let pick = self.random.filter(|_| total > 0).and_then(|random| {
            let mut rest = random % total;
            step.clusters.iter().find_map(|(id, weight)| {
                let weight = u64::from(weight.get());
                if rest < weight {
                    return Some(name(*id));
                }
                rest -= weight;
                None
            })
        });
        Attempt { number, group: self.snapshot.group(step.group).name.as_str(), clusters, pick }
    }

    fn model(&self) -> Option<&'a str> {
        self.resolution.model.map(|model| self.snapshot.model(model).name.as_str())
    }

    fn tenant(&self) -> Option<&'a str> {
        self.resolution.tenant.map(|tenant| self.snapshot.tenant(tenant).name.as_str())
    }

    /// Group, cluster (none: the whole group) and why it is left out.
    fn left_out(&self) -> Vec<(&'a str, Option<&'a str>, &'static str, Option<String>)> {
        let one = |left: &crate::resolve::chain::LeftOut| {
            let detail = match left.why {
                Why::MissingTag(tag) | Why::ForbiddenTag(tag) => self.snapshot.tags.get(tag.index()).cloned(),
                Why::ForbiddenProvider(provider) => self.snapshot.providers.get(provider.index()).map(ToString::to_string),
                Why::WeightZero | Why::Drained(_) | Why::ModelNotServed | Why::UnknownClusters => None,
            };
            let cluster = left.cluster.map(|id| self.snapshot.cluster(id).name.as_str());
            (self.snapshot.group(left.group).name.as_str(), cluster, left.why.as_str(), detail)
        };
        self.resolution.left_out.iter().map(one).collect()
    }

    fn endpoint_metadata(&self) -> Map<String, Value> {
        endpoint::of(self.snapshot, &self.resolution)
    }
}
