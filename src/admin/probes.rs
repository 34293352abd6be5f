//! What a kubelet and Prometheus ask. Alive is not ready: without a catalog Cascade is alive and waits.

use axum::extract::State as Given;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::answer::Parameters;
use super::{State, answer, catalog};
use crate::server::phase::NotReady;

pub(super) async fn livez() -> &'static str {
    "ok\n"
}

pub(super) async fn readyz(Given(state): Given<State>) -> Response {
    match state.readiness.check() {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", why.as_str())).into_response(),
    }
}

/// For the probe address: the words of `/readyz`.
pub(super) async fn healthz(Given(state): Given<State>) -> Response {
    let ready = state.readiness.check();
    let body = json!({"ready": ready.is_ok(), "reason": ready.err().map(NotReady::as_str)});
    (status(ready), answer::json(&body)).into_response()
}

pub(super) async fn details(Given(state): Given<State>, uri: Uri) -> Response {
    let ready = state.readiness.check();
    // A probe that asks for more than there is must not fail for that.
    let format = Parameters::read(&uri, &[]).unwrap_or_default().format();
    let body = json!({
        "ready": ready.is_ok(),
        "reason": ready.err().map(NotReady::as_str),
        "version": env!("CARGO_PKG_VERSION"),
        "streams_in_flight": state.metrics.streams_in_flight(),
        "catalog": catalog::status_json(&state.readiness.store.status()),
        // A directory that is away makes nobody unready: requests go on without it.
        "sessions": state.affinity.status(),
        // Nor does a Redis that is away: each replica then goes by what it sees itself.
        "sharing": state.monitor.outlet().map_or_else(|| json!({"share": "none"}), |outlet| outlet.status().to_json()),
    });
    (status(ready), format.answer(&body)).into_response()
}

const fn status(ready: Result<(), NotReady>) -> StatusCode {
    if ready.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

pub(super) async fn metrics(Given(state): Given<State>, headers: HeaderMap) -> Response {
    let (text, kind) = page(&state, &headers);
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

pub(super) async fn metrics_without_tenants(Given(state): Given<State>, headers: HeaderMap) -> Response {
    let (text, kind) = page(&state, &headers);
    ([(header::CONTENT_TYPE, kind)], without_label(&text, "tenant")).into_response()
}

fn page(state: &State, headers: &HeaderMap) -> (String, &'static str) {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let snapshot = state.readiness.store.current();
    let clusters = snapshot.iter().flat_map(|snapshot| &snapshot.clusters).map(|cluster| cluster.name.as_str());
    let clusters: Vec<(&str, bool)> = clusters.map(|name| (name, state.monitor.is_cooling(name))).collect();
    state.metrics.page(accepts.contains("application/openmetrics-text"), &clusters)
}

/// Drops each series with this label, whatever it counts. Quotes inside of labels are escaped, so that no label's value looks like it.
fn without_label(text: &str, label: &str) -> String {
    let (first, later) = (format!("{{{label}=\""), format!(",{label}=\""));
    let is_left = |line: &&str| line.starts_with('#') || !line.contains(&first) && !line.contains(&later);
    text.lines().filter(is_left).flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_with_a_label_go_and_all_others_stay() {
        let text = "# TYPE a counter\na{tenant=\"x\",m=\"y\"} 1\na{m=\"y\",tenant=\"x\"} 1\na{m=\"tenant\"} 1\n\
                    a{m=\",tenant=\\\"x\\\"\"} 1\na{subtenant=\"x\"} 1\nb 2\n# EOF\n";
        let left = "# TYPE a counter\na{m=\"tenant\"} 1\na{m=\",tenant=\\\"x\\\"\"} 1\na{subtenant=\"x\"} 1\nb 2\n# EOF\n";
        assert_eq!(without_label(text, "tenant"), left);
    }
}
