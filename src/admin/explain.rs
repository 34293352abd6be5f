//! `POST /explain`: the decision for a request that is described, not sent. The names are those of the flags of `cascade explain`.

use std::collections::HashMap;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Query, State as Given};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::Value;

use super::error::{Problem, unknown_parameter};
use super::{MAX_BODY, State};
use crate::explain::{self as core, Question};
use crate::extract::Facts;

const EXAMPLE: &str = r#"as in {"model": "gpt-4o", "tenant": "acme", "headers": {"x-session-id": "s1"}}"#;

pub(super) async fn explain(
    Given(state): Given<State>,
    Query(query): Query<HashMap<String, String>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if let Some(refusal) = unknown_parameter(&query, &[]) {
        return refusal;
    }
    match answer(&state, body).await {
        Ok(explanation) => Json(explanation).into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn answer(state: &State, body: Result<Bytes, BytesRejection>) -> Result<Value, Problem> {
    let body =
        body.map_err(|error| Problem::new(error.status(), "the body cannot be read", format!("send at most {MAX_BODY} bytes")))?;
    let question = parse(&body).map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error, EXAMPLE))?;
    let snapshot = state.readiness.store.current().ok_or_else(Problem::no_catalog)?;
    let State { rules, keys, affinity, monitor, .. } = state.clone();
    let runtime = tokio::runtime::Handle::current();
    let explain = move || {
        let session = |facts: &Facts| runtime.block_on(affinity.state(facts, affinity.ask(&snapshot, facts)));
        let look = monitor.look(Instant::now());
        core::explain_with(&snapshot, &rules, &question, look.seen(), &|session| keys.hide(session), &session).to_json()
    };
    tokio::task::spawn_blocking(explain).await.map_err(|_| Problem::internal())
}

fn parse(body: &[u8]) -> Result<Question, String> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let value: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    Question::from_json(&value)
}
