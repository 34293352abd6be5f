//! What is said when something cannot be answered: what is wrong, and what to do.

use std::collections::HashMap;

use axum::body::Body;
use axum::http::{Response as HttpResponse, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    error: String,
    hint: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { status, error: error.into(), hint: hint.into() }
    }

    /// Nothing can be shown before a catalog is loaded.
    pub(super) fn no_catalog() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "no catalog is loaded", "GET /catalog/status says why")
    }

    /// A fault of our own.
    pub(super) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Cascade failed to answer",
            "this is a fault of Cascade; its log may say more",
        )
    }
}

/// A parameter that is written wrong must not be one that nobody wrote: a cluster would cool for longer than was meant.
pub(super) fn unknown_parameter(query: &HashMap<String, String>, known: &[&str]) -> Option<Response> {
    let unknown = query.keys().filter(|name| !known.contains(&name.as_str())).min()?;
    let hint = match known {
        [] => "this takes no parameters".to_owned(),
        known => format!("the parameters are {}", known.join(", ")),
    };
    Some(Problem::new(StatusCode::BAD_REQUEST, format!("there is no parameter `{unknown}`"), hint).into_response())
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"error": self.error, "hint": self.hint}))).into_response()
    }
}

/// Answers differ with time: no cache may keep them.
pub(super) async fn no_store(mut response: HttpResponse<Body>) -> HttpResponse<Body> {
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}
