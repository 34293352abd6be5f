//! A rejection as the client's own API would word it, so that SDKs raise the error their users know. Which requests are rejected
//! is not decided here.

use serde_json::json;

use super::reply::Refusal;
use crate::diagnostic::plain::plain;
use crate::extract::{Api, Found};
use crate::outcome::Reason;

/// The longest part of a model's name that is said back to the client who sent it, in characters.
const MAX_ECHO: usize = 128;

/// The response for a reason in the shape of an API.
#[must_use]
pub fn of(reason: Reason, api: Api, requested: &Found<String>) -> Refusal {
    let message = message(reason, requested);
    let status = reason.status();
    let body = match api {
        Api::OpenAi => {
            let param = is_about_the_model(reason).then_some("model");
            json!({"error": {"message": message, "type": openai_type(status), "param": param, "code": reason.as_str()}})
        }
        Api::Anthropic => json!({"type": "error", "error": {"type": anthropic_type(status), "message": message}}),
        Api::Google => json!({"error": {"code": status, "message": message, "status": google_status(status)}}),
    };
    Refusal {
        status,
        headers: vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("x-cascade-reason".to_owned(), reason.as_str().to_owned()),
        ],
        body: body.to_string().into_bytes(),
        details: reason.as_str(),
    }
}

fn is_about_the_model(reason: Reason) -> bool {
    matches!(reason, Reason::MissingModel | Reason::UnknownModel | Reason::ModelNotAllowed | Reason::DuplicateKey)
}

fn message(reason: Reason, requested: &Found<String>) -> String {
    let model = match requested {
        Found::Value(name) => format!("The model `{}`", plain(&name.chars().take(MAX_ECHO).collect::<String>())),
        Found::Nothing | Found::Unusable => "The model".to_owned(),
    };
    match reason {
        Reason::MissingModel => "The request names no model.".to_owned(),
        Reason::UnknownModel => format!("{model} does not exist."),
        Reason::ModelNotAllowed => format!("{model} is not allowed for this tenant."),
        Reason::MalformedBody => "The request body could not be read.".to_owned(),
        Reason::BodyTooLarge => "The request body is too large.".to_owned(),
        Reason::DuplicateKey => "A key that decides the route stands more than once in the request body.".to_owned(),
        Reason::MissingTenant => "The request carries no credential of a tenant.".to_owned(),
        Reason::UnknownTenant => "The request's tenant is not known.".to_owned(),
        Reason::NoClusterAllowed => format!("{model} has no provider that this tenant may use."),
        Reason::NoClusterLeft => format!("{model} has no provider at the moment."),
        Reason::SessionUnavailable => "The session's provider cannot be looked up at the moment.".to_owned(),
        Reason::Overloaded => "There is no room for the request body at the moment.".to_owned(),
        Reason::ModeTooLate | Reason::Deadline | Reason::Internal | Reason::NoCatalog => {
            "The request could not be routed in time.".to_owned()
        }
        Reason::TenantChain
        | Reason::TenantDefaultChain
        | Reason::ModelChain
        | Reason::DefaultChain
        | Reason::NoModelChain
        | Reason::Shadow => "The request was refused.".to_owned(),
    }
}

const fn openai_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

const fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

const fn google_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        503 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}
