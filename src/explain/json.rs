//! An explanation for a machine: the contract's JSON, and `facts` beside it.

use serde_json::{Map, Value, json};

use super::{Attempt, Explanation};
use crate::outcome::Outcome;
use crate::resolve::chain::Step;
use crate::session::{Answer, Placement};

impl Explanation<'_> {
    /// The answer first, then what it rests on.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let resolution = &self.resolution;
        let chain: Vec<Value> = resolution.chain.iter().map(|step| self.step_json(step)).collect();
        let attempts: Vec<Value> = self.attempts().iter().map(attempt_json).collect();
        let left_out: Vec<Value> = self
            .left_out()
            .into_iter()
            .map(|(group, cluster, why, detail)| json!({"cluster": cluster, "group": group, "why": why, "detail": detail}))
            .collect();
        let considered = self.considered.iter().map(|considered| {
            let place = considered.place.as_ref().filter(|place| place.line > 0);
            json!({
                "rule": considered.rule,
                "file": place.map(|place| &*place.source),
                "line": place.map(|place| place.line),
                "result": considered.result,
            })
        });
        let status = (resolution.outcome == Outcome::Reject).then(|| resolution.reason.status());
        json!({
            "outcome": resolution.outcome.as_str(),
            "reason": resolution.reason.as_str(),
            "status": status,
            "health": resolution.health.as_str(),
            "model": self.model(),
            "tenant": self.tenant(),
            "session": self.session,
            "directory": self.directory_json(),
            "revision": self.snapshot.revision.to_string(),
            "label": self.snapshot.label.as_deref(),
            "chain": chain,
            "attempts": attempts,
            "endpoint_metadata": self.endpoint_metadata(),
            "left_out": left_out,
            "cooled": resolution.cooled.iter().map(|(id, scope)| {
                json!({"cluster": self.snapshot.cluster(*id).name.as_str(), "scope": scope.as_str()})
            }).collect::<Vec<_>>(),
            "considered": considered.collect::<Vec<_>>(),
            "facts": self.origins.iter().map(|(field, origin)| ((*field).to_owned(), json!(origin))).collect::<Map<_, _>>(),
        })
    }

    /// What the directory said, and what was learned beside it; null if it was not asked.
    fn directory_json(&self) -> Value {
        let mut told = Map::from_iter([("answer".to_owned(), json!(self.directory.as_str()))]);
        match &self.directory {
            Answer::NotAsked => return Value::Null,
            Answer::Placed(placement) => told.extend(placement_json(placement)),
            Answer::Unknown | Answer::Unavailable(_) => {}
        }
        told.extend(self.learned.iter().map(|learned| ("learned_here".to_owned(), Value::Object(placement_json(learned)))));
        Value::Object(told)
    }

    fn step_json(&self, step: &Step) -> Value {
        let clusters = step
            .clusters
            .iter()
            .map(|(id, weight)| json!({"cluster_name": self.snapshot.cluster(*id).name.as_str(), "weight": weight.get()}))
            .collect::<Vec<_>>();
        json!({"name": self.snapshot.group(step.group).name.as_str(), "clusters": clusters})
    }
}

fn placement_json(placement: &Placement) -> Map<String, Value> {
    let ttl = placement.ttl.map(|ttl| ttl.as_secs());
    [
        ("selected_backend", json!(placement.backend)),
        ("selected_endpoint", json!(placement.endpoint)),
        ("endpoint_metadata", json!(placement.metadata)),
        ("ttl_seconds", json!(ttl)),
        ("learned", json!(placement.learned)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

fn attempt_json(attempt: &Attempt<'_>) -> Value {
    let clusters = attempt
        .clusters
        .iter()
        .map(|(name, probability)| json!({"cluster_name": name, "probability": probability}))
        .collect::<Vec<_>>();
    let mut object = json!({"attempt": attempt.number, "group": attempt.group, "clusters": clusters});
    if let Some(pick) = attempt.pick {
        object["pick"] = json!(pick);
    }
    object
}
