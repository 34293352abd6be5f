//! `POST /explain`: the decision for a request that is described, not sent. The names are those of the flags of `cascade explain`.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::State as Given;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde_json::{Map, Value};

use super::error::Problem;
use super::{MAX_BODY, State};
use crate::explain::{self as core, Question};

const NAMES: [&str; 9] = ["model", "tenant", "session", "path", "method", "headers", "body", "random", "attempts"];
const EXAMPLE: &str = r#"as in {"model": "gpt-4o", "tenant": "acme", "headers": {"x-session-id": "s1"}}"#;

pub(super) async fn explain(Given(state): Given<State>, body: Result<Bytes, BytesRejection>) -> Response {
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
    let State { rules, keys, .. } = state.clone();
    tokio::task::spawn_blocking(move || core::explain(&snapshot, &rules, &question, &|session| keys.hide(session)).to_json())
        .await
        .map_err(|_| Problem::internal())
}

fn parse(body: &[u8]) -> Result<Question, String> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let value: Value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let Value::Object(mut fields) = value else { return Err("the body must be a JSON object".to_owned()) };
    if let Some(unknown) = fields.keys().find(|key| !NAMES.contains(&key.as_str())) {
        return Err(format!("`{unknown}` is not known here; there are {}", NAMES.join(", ")));
    }
    Ok(Question {
        model: text(&mut fields, "model")?,
        tenant: text(&mut fields, "tenant")?,
        session: text(&mut fields, "session")?,
        path: text(&mut fields, "path")?,
        method: text(&mut fields, "method")?,
        headers: headers(&mut fields)?,
        body: request_body(&mut fields)?,
        random: number(&mut fields, "random")?,
        attempts: number(&mut fields, "attempts")?.map(|attempts| usize::try_from(attempts).unwrap_or(usize::MAX)),
    })
}

fn take(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    fields.remove(name).filter(|value| !value.is_null())
}

fn text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match take(fields, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{name}` must be a text")),
    }
}

fn number(fields: &mut Map<String, Value>, name: &str) -> Result<Option<u64>, String> {
    match take(fields, name) {
        None => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| format!("`{name}` must be a whole number of at least 0")),
    }
}

fn headers(fields: &mut Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let wrong = || "`headers` must be an object of texts, or of lists of texts for a repeated header".to_owned();
    let mut headers = Vec::new();
    let given: BTreeMap<String, Value> = match take(fields, "headers") {
        None => return Ok(headers),
        Some(Value::Object(given)) => given.into_iter().collect(),
        Some(_) => return Err(wrong()),
    };
    for (name, value) in given {
        let values = if let Value::Array(values) = value { values } else { vec![value] };
        for value in values {
            let value = value.as_str().ok_or_else(wrong)?;
            headers.push((name.to_lowercase(), value.to_owned()));
        }
    }
    Ok(headers)
}

/// A text is the body as sent; an object stands for its JSON.
fn request_body(fields: &mut Map<String, Value>) -> Result<Option<Vec<u8>>, String> {
    match take(fields, "body") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.into_bytes())),
        Some(value @ Value::Object(_)) => Ok(Some(value.to_string().into_bytes())),
        Some(_) => Err("`body` must be a text, or an object that stands for its JSON".to_owned()),
    }
}
