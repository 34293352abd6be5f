//! What a kubelet and Prometheus ask. Alive is not ready: without a catalog Cascade is alive and waits.

use axum::extract::State as Given;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

use super::{State, catalog};

pub(super) async fn livez() -> &'static str {
    "ok\n"
}

pub(super) async fn readyz(Given(state): Given<State>) -> Response {
    match state.readiness.check() {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", why.as_str())).into_response(),
    }
}

pub(super) async fn healthz(Given(state): Given<State>) -> Response {
    let ready = state.readiness.check();
    let status = if ready.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "ready": ready.is_ok(),
        "reason": ready.err().map(crate::server::phase::NotReady::as_str),
        "version": env!("CARGO_PKG_VERSION"),
        "streams_in_flight": state.metrics.streams_in_flight(),
        "catalog": catalog::status_json(&state.readiness.store.status()),
        // A directory that is away makes nobody unready: requests go on without it.
        "sessions": state.affinity.status(),
        // Nor does a Redis that is away: each replica then goes by what it sees itself.
        "sharing": state.monitor.outlet().map_or_else(|| json!({"share": "none"}), |outlet| outlet.status().to_json()),
    });
    (status, Json(body)).into_response()
}

pub(super) async fn metrics(Given(state): Given<State>, headers: HeaderMap) -> Response {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let snapshot = state.readiness.store.current();
    let clusters = snapshot.iter().flat_map(|snapshot| &snapshot.clusters).map(|cluster| cluster.name.as_str());
    let clusters: Vec<(&str, bool)> = clusters.map(|name| (name, state.monitor.is_cooling(name))).collect();
    let (text, kind) = state.metrics.page(accepts.contains("application/openmetrics-text"), &clusters);
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
