//! `/clusters`: what the catalog says of each cluster, and how Cascade sees its health. Without feedback every cluster counts as
//! healthy; cooling by hand comes with it.

use axum::extract::{Path, State as Given};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Value, json};

use super::State;
use super::error::Problem;
use crate::catalog::snapshot::Snapshot;

pub(super) async fn list(Given(state): Given<State>) -> Response {
    let Some(snapshot) = state.readiness.store.current() else { return Problem::no_catalog().into_response() };
    let mut clusters: Vec<Value> = snapshot
        .clusters
        .iter()
        .map(|cluster| {
            let provider = cluster.provider.and_then(|provider| snapshot.providers.get(provider.index()));
            let tags: Vec<&str> =
                cluster.tags.iter().filter_map(|tag| snapshot.tags.get(tag.index())).map(String::as_str).collect();
            json!({
                "name": cluster.name.as_str(),
                "provider": provider.map(ToString::to_string),
                "tags": tags,
                "drained": cluster.drain.is_some(),
                "state": "healthy",
            })
        })
        .collect();
    clusters.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    Json(json!({"revision": snapshot.revision.to_string(), "clusters": clusters})).into_response()
}

pub(super) async fn cool(Given(state): Given<State>, Path(name): Path<String>) -> Problem {
    not_available(&state, &name)
}

pub(super) async fn clear(Given(state): Given<State>, Path(name): Path<String>) -> Problem {
    not_available(&state, &name)
}

fn not_available(state: &State, name: &str) -> Problem {
    let known = |snapshot: &Snapshot| snapshot.cluster_ids.contains_key(name);
    if state.readiness.store.current().is_some_and(|snapshot| !known(&snapshot)) {
        return Problem::new(StatusCode::NOT_FOUND, "the catalog has no such cluster", "GET /clusters lists them");
    }
    Problem::new(
        StatusCode::NOT_IMPLEMENTED,
        "this version does not cool clusters",
        "set `drained: true` on the cluster in the catalog: it takes effect within seconds",
    )
}
