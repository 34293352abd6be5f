//! What is said when something cannot be answered: what is wrong, and what to do.

use axum::body::Body;
use axum::http::{Response as HttpResponse, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::answer::json;

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

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, json(&json!({"error": self.error, "hint": self.hint}))).into_response()
    }
}

/// Answers differ with time: no cache may keep them.
pub(super) async fn no_store(mut response: HttpResponse<Body>) -> HttpResponse<Body> {
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}
