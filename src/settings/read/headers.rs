//! Reads the headers that Cascade sets itself. They are removed from every request, so that none can be one that somebody needs.

use super::Reader;
use crate::diagnostic::mask::named;
use crate::extract::source::{Plan, Source};
use crate::settings::sources;

/// What HTTP, Envoy or a provider needs, and what else we set.
const NEEDED: &[&str] = &[
    "accept",
    "accept-encoding",
    "api-key",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-api-key",
    "x-cascade-original-path",
    "x-goog-api-key",
    "x-request-id",
];
/// Every header that begins so: those of HTTP/2 itself, and what proxies tell each other.
const NEEDED_FAMILIES: &[&str] = &[":", "x-envoy-", "x-forwarded-"];

impl Reader<'_> {
    /// The header at a path; empty is none.
    pub(super) fn header(&mut self, path: &str, default: String, plan: &Plan) -> String {
        let text = self.text(path).unwrap_or(&default);
        let fault = match sources::header(text) {
            _ if text.is_empty() => return String::new(),
            Ok(name) => match needed(&name, plan) {
                None => return name,
                Some(why) => format!("it is removed from every request, and {why}"),
            },
            Err(fault) => fault.to_owned(),
        };
        let written = if self.at(path).is_some() { path } else { "extract" };
        self.fault("bad-value", written, &format!("`{path}` cannot be {}: {fault}", named(text)));
        default
    }
}

/// Why a header has to stay.
fn needed(name: &str, plan: &Plan) -> Option<String> {
    if NEEDED.contains(&name) || NEEDED_FAMILIES.iter().any(|family| name.starts_with(family)) {
        return Some("this one is needed".to_owned());
    }
    let reads = |sources: &[Source]| {
        sources.iter().any(|source| matches!(source, Source::Header(read) | Source::ApiKey { header: read, .. } if read == name))
    };
    let fields = [("model", &plan.model), ("tenant", &plan.tenant), ("session", &plan.session)];
    fields.iter().find(|(_, sources)| reads(sources)).map(|(field, _)| format!("`extract.{field}` reads this one"))
}
