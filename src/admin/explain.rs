//! `POST /explain`: the decision for a request that is described, not sent. The names are those of the flags of `cascade explain`.

use std::time::Instant;

use axum::body::Bytes;
use axum::extract::State as Given;
use axum::extract::rejection::BytesRejection;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::answer::{self, Format, Parameters};
use super::error::Problem;
use super::{MAX_BODY, State};
use crate::explain::{self as core, Question};
use crate::extract::Facts;

const EXAMPLE: &str = r#"as in {"model": "gpt-4o", "tenant": "acme", "headers": {"x-session-id": "s1"}}"#;

pub(super) async fn explain(Given(state): Given<State>, uri: Uri, body: Result<Bytes, BytesRejection>) -> Response {
    let explained = match Parameters::read(&uri, &[]) {
        Ok(parameters) => explained(&state, parameters.format(), body).await,
        Err(problem) => Err(problem),
    };
    explained.unwrap_or_else(IntoResponse::into_response)
}

async fn explained(state: &State, format: Format, body: Result<Bytes, BytesRejection>) -> Result<Response, Problem> {
    let body =
        body.map_err(|error| Problem::new(error.status(), "the body cannot be read", format!("send at most {MAX_BODY} bytes")))?;
    let question = parse(&body).map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error, EXAMPLE))?;
    let snapshot = state.readiness.store.current().ok_or_else(Problem::no_catalog)?;
    let State { rules, keys, affinity, monitor, .. } = state.clone();
    let runtime = tokio::runtime::Handle::current();
    let explain = move || {
        let session = |facts: &Facts| runtime.block_on(affinity.state(facts, affinity.ask(&snapshot, facts)));
        let (look, hide) = (monitor.look(Instant::now()), |session: &str| keys.hide(session));
        let explanation = core::explain_with(&snapshot, &rules, &question, look.seen(), &hide, &session);
        match format {
            Format::Json => answer::json(&explanation.to_json()),
            Format::Text => answer::text(explanation.to_text(false)),
        }
    };
    tokio::task::spawn_blocking(explain).await.map_err(|_| Problem::internal())
}

fn parse(body: &[u8]) -> Result<Question, String> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let value: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    Question::from_json(&value)
}
