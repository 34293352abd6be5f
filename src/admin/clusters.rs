//! `/clusters`: what the catalog says of each cluster and how Cascade sees its health; and the two levers for a person: take a
//! cluster out for a while, bring one back. They turn nobody away: a cooling cluster only comes last.

use std::time::{Duration, UNIX_EPOCH};

use axum::extract::{Path, State as Given};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::answer::Parameters;
use super::error::Problem;
use super::{Changes, State};
use crate::catalog::snapshot::{Cluster, Snapshot};
use crate::health::{self, Cooldown, Moment};
use crate::telemetry::time::rfc3339;

/// How long a cluster cools if nobody says.
const SECONDS: u64 = 60;
const MAX_SECONDS: u64 = health::MAX_BY_HAND.as_secs();

pub(super) async fn list(Given(state): Given<State>, uri: Uri) -> Response {
    let parameters = match Parameters::read(&uri, &[]) {
        Ok(parameters) => parameters,
        Err(problem) => return problem.into_response(),
    };
    let Some(snapshot) = state.readiness.store.current() else { return Problem::no_catalog().into_response() };
    let mut clusters: Vec<Value> = snapshot.clusters.iter().map(|cluster| one(&state, &snapshot, cluster)).collect();
    clusters.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    parameters.format().answer(&json!({"revision": snapshot.revision.to_string(), "clusters": clusters}))
}

fn one(state: &State, snapshot: &Snapshot, cluster: &Cluster) -> Value {
    let provider = cluster.provider.and_then(|provider| snapshot.providers.get(provider.index()));
    let tags: Vec<&str> = cluster.tags.iter().filter_map(|tag| snapshot.tags.get(tag.index())).map(String::as_str).collect();
    let known = state.monitor.cluster(cluster.name.as_str()).unwrap_or_default();
    let now = state.monitor.now();
    let under_way = |cooldown: &&Cooldown| cooldown.is_cooling(now);
    let whole = known.whole.as_ref().filter(under_way);
    let mut models: Vec<_> = known.models.iter().filter(|(_, cooldown)| under_way(cooldown)).collect();
    models.sort_by_key(|(model, _)| (*model).clone());
    json!({
        "name": cluster.name.as_str(),
        "provider": provider.map(ToString::to_string),
        "tags": tags,
        "drained": cluster.drain.is_some(),
        "path_prefix": cluster.path_prefix.as_ref().map(|rule| json!({"from": rule.from(), "to": rule.to()})),
        "state": if whole.is_some() || !models.is_empty() { "cooling" } else { "healthy" },
        "reason": whole.map(|cooldown| cooldown.cause.as_str()),
        "since": whole.map(|cooldown| time(cooldown.since)),
        "until": whole.map(|cooldown| time(cooldown.until)),
        "models": models.iter().map(|(model, cooldown)| (model.to_string(), cooldown_json(cooldown))).collect::<Map<_, _>>(),
        "failures_in_a_row": known.failures,
        "failures": known.row_in_words(),
        "last_failure": last_failure(&known),
    })
}

fn last_failure(known: &health::Cluster) -> Value {
    let Some(last) = known.last_failure else { return Value::Null };
    let failure = last.failure.map(|failure| failure.to_string());
    json!({"at": time(last.at), "reason": last.cause.as_str(), "failure": failure})
}

fn cooldown_json(cooldown: &Cooldown) -> Value {
    json!({"reason": cooldown.cause.as_str(), "since": time(cooldown.since), "until": time(cooldown.until)})
}

fn time(moment: Moment) -> String {
    rfc3339(UNIX_EPOCH + Duration::from_millis(moment.0))
}

pub(super) async fn cool(Given(state): Given<State>, Path(name): Path<String>, uri: Uri, headers: HeaderMap) -> Response {
    if let Some(refusal) = refusal(&state.changes, &headers) {
        return refusal;
    }
    let parameters = match Parameters::read(&uri, &["seconds"]) {
        Ok(parameters) => parameters,
        Err(problem) => return problem.into_response(),
    };
    let seconds = match parameters.get("seconds").map(str::parse::<u64>) {
        None => SECONDS,
        Some(Ok(seconds)) if (1..=MAX_SECONDS).contains(&seconds) => seconds,
        Some(_) => {
            let hint = format!("for longer than {MAX_SECONDS} seconds, drain the cluster in the catalog");
            let what = format!("seconds must be a whole number from 1 to {MAX_SECONDS}");
            return Problem::new(StatusCode::BAD_REQUEST, what, hint).into_response();
        }
    };
    change(&state, &name, &parameters, |state| state.monitor.cool(&name, Duration::from_secs(seconds)))
}

pub(super) async fn clear(Given(state): Given<State>, Path(name): Path<String>, uri: Uri, headers: HeaderMap) -> Response {
    if let Some(refusal) = refusal(&state.changes, &headers) {
        return refusal;
    }
    match Parameters::read(&uri, &[]) {
        Ok(parameters) => change(&state, &name, &parameters, |state| state.monitor.clear(&name)),
        Err(problem) => problem.into_response(),
    }
}

/// Says no before anything is looked up.
fn refusal(changes: &Changes, headers: &HeaderMap) -> Option<Response> {
    match changes {
        Changes::Anyone => None,
        Changes::Nobody => {
            let hint = "let `admin` listen on a loopback address or a Unix socket, name an `admin_token_file`, or set `drained: \
                        true` in the catalog";
            let what = "clusters are not changed at an address that others may reach";
            Some(Problem::new(StatusCode::FORBIDDEN, what, hint).into_response())
        }
        Changes::Bearer(tokens) => {
            let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            if shown.is_some_and(|shown| tokens.allow(shown)) {
                return None;
            }
            let what = if shown.is_some() { "this is no token of `admin_token_file`" } else { "this takes a token" };
            let hint = "send `authorization: Bearer` and a line of the file that `admin_token_file` names";
            let problem = Problem::new(StatusCode::UNAUTHORIZED, what, hint);
            Some(([(header::WWW_AUTHENTICATE, "Bearer")], problem).into_response())
        }
    }
}

/// Answers with the cluster as it is afterwards.
fn change(state: &State, name: &str, parameters: &Parameters, act: impl FnOnce(&State)) -> Response {
    let Some(snapshot) = state.readiness.store.current() else { return Problem::no_catalog().into_response() };
    let Some(id) = snapshot.cluster_ids.get(name) else {
        let problem = Problem::new(StatusCode::NOT_FOUND, "the catalog has no such cluster", "GET /clusters lists them");
        return problem.into_response();
    };
    act(state);
    let mut answer = one(state, &snapshot, snapshot.cluster(*id));
    // At three in the morning it matters whether the other replicas will hear of it.
    answer["sharing"] = json!(state.monitor.outlet().map(|outlet| outlet.status().word()));
    parameters.format().answer(&answer)
}
