//! The admin address: what an operator, a probe and Prometheus may ask of a running Cascade. Everything is JSON (text where
//! `?format=text` asks for it) but `/metrics`, `/livez` and `/readyz`. It shows what is there and decides nothing; no answer holds an API key, hashed or not.

mod answer;
mod catalog;
mod clusters;
mod entrance;
mod error;
mod explain;
mod probes;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Router, middleware};
use serde_json::json;

pub use self::entrance::Entrance;
use self::error::{Problem, no_store};
use crate::explain::Rules;
use crate::feedback::Monitor;
use crate::pipeline::affinity::Affinity;
use crate::secret::{AdminTokens, Keys};
use crate::server::phase::Readiness;
use crate::telemetry::Metrics;

/// The largest request body, in bytes: a request to explain may carry the body of a real one.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// What the handlers read.
#[derive(Debug, Clone)]
pub struct State {
    rules: Arc<Rules>,
    keys: Keys,
    metrics: Arc<Metrics>,
    affinity: Arc<Affinity>,
    readiness: Readiness,
    monitor: Arc<Monitor>,
    changes: Changes,
}

/// Who may cool and clear clusters.
#[derive(Debug, Clone)]
pub enum Changes {
    /// Whoever reaches the address: nobody but this machine does.
    Anyone,
    Bearer(AdminTokens),
    Nobody,
}

impl State {
    #[must_use]
    pub fn new(
        rules: Rules,
        keys: Keys,
        metrics: Arc<Metrics>,
        affinity: Arc<Affinity>,
        readiness: Readiness,
        monitor: Arc<Monitor>,
    ) -> Self {
        Self { rules: Arc::new(rules), keys, metrics, affinity, readiness, monitor, changes: Changes::Nobody }
    }

    #[must_use]
    pub fn open_to(self, changes: Changes) -> Self {
        Self { changes, ..self }
    }
}

/// A path, what it is for, and who answers.
type Endpoint = (&'static str, &'static str, MethodRouter<State>);

/// Whoever may only probe learns nothing of tenants, sources and errors.
fn probe_endpoints() -> Vec<Endpoint> {
    vec![
        ("/livez", "GET: the process answers", get(probes::livez)),
        ("/readyz", "GET: 200 if requests should come here, else 503", get(probes::readyz)),
        ("/healthz", "GET: as /readyz, in JSON", get(probes::healthz)),
        ("/metrics", "GET: Prometheus text, without the series of tenants", get(probes::metrics_without_tenants)),
    ]
}

fn admin_endpoints() -> Vec<Endpoint> {
    vec![
        ("/livez", "GET: the process answers", get(probes::livez)),
        ("/readyz", "GET: 200 if requests should come here, else 503", get(probes::readyz)),
        ("/healthz", "GET: as /readyz, with the reasons", get(probes::details)),
        ("/metrics", "GET: Prometheus text", get(probes::metrics)),
        ("/catalog", "GET: the catalog in use, compiled; ?tenant= and ?model= show one", get(catalog::compiled)),
        ("/catalog/status", "GET: revision, source, last error", get(catalog::status)),
        ("/explain", "POST: what would be decided for a request, and why", post(explain::explain)),
        ("/clusters", "GET: the clusters of the catalog, what cools, why and until when", get(clusters::list)),
        ("/clusters/{name}/cool", "POST: take a cluster out for ?seconds=n", post(clusters::cool)),
        ("/clusters/{name}/clear", "POST: bring a cluster back", post(clusters::clear)),
    ]
}

/// Everything, for whoever may ask.
pub fn routes(state: State, entrance: Entrance) -> Router {
    build(admin_endpoints(), state).layer(middleware::from_fn_with_state(entrance, entrance::admit))
}

/// For the probe address: nothing that changes anything or shows the catalog, under whatever host.
pub fn probe_routes(state: State) -> Router {
    build(probe_endpoints(), state)
}

fn build(endpoints: Vec<Endpoint>, state: State) -> Router {
    let index: Arc<[(&str, &str)]> = endpoints.iter().map(|(path, about, _)| (*path, *about)).collect();
    let mut router = Router::new();
    for (path, about, handler) in endpoints {
        let method = about.split(':').next().unwrap_or_default();
        router = router.route(path, handler.fallback(move |request: Request| async move { wrong_method(&request, method) }));
    }
    let root = index.clone();
    router
        .route("/", get(async move || answer::json(&json!({"endpoints": listed(&root)}))))
        .fallback(async move |request: Request| not_found(&request, &index))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::map_response(no_store))
        .with_state(state)
}

fn listed(index: &[(&str, &str)]) -> serde_json::Map<String, serde_json::Value> {
    index.iter().map(|(path, about)| ((*path).to_owned(), json!(about))).collect()
}

fn not_found(request: &Request, index: &[(&str, &str)]) -> Response {
    let message = format!("there is nothing at {}", request.uri().path());
    let body = json!({"error": message, "hint": "these are the endpoints of this address", "endpoints": listed(index)});
    (StatusCode::NOT_FOUND, answer::json(&body)).into_response()
}

fn wrong_method(request: &Request, allowed: &'static str) -> Response {
    let problem = Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{} does not take {}", request.uri().path(), request.method()),
        format!("use {allowed}"),
    );
    let allowed = if allowed == Method::GET.as_str() { "GET, HEAD" } else { allowed };
    ([("allow", allowed)], problem).into_response()
}
