//! The sources of `extract`, and rule 8: what a client can write counts for a tenant only if the operator says that Envoy sets or
//! strips it.

use super::document::SOURCE_FIELDS;
use crate::diagnostic::Diagnostic;
use crate::diagnostic::mask::blacked_out;
use crate::document::Node;
use crate::extract::path::Template;
use crate::extract::source::{Pointer, Source};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Model,
    Tenant,
    Session,
}

impl Field {
    const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Tenant => "tenant",
            Self::Session => "session",
        }
    }
}

pub(super) fn read(node: &Node, field: Field, found: &mut Vec<Diagnostic>) -> Vec<Source> {
    node.items().iter().filter_map(|item| source(item, field, found)).collect()
}

fn source(item: &Node, field: Field, found: &mut Vec<Diagnostic>) -> Option<Source> {
    let is_place = |key: &str| key != "trusted" && SOURCE_FIELDS.iter().any(|field| field.name == key);
    let places: Vec<_> = item.entries().iter().filter(|entry| is_place(&entry.key)).collect();
    let [entry] = places.as_slice() else {
        // A field that does not exist was reported as such.
        if places.len() > 1 || item.entries().iter().all(|entry| entry.key == "trusted") {
            let fault = Diagnostic::error("bad-source", &item.place, "a source names exactly one place to look");
            found.push(fault.hint("as in `{header: x-tenant-id}` or `{body: /model}`; write several as items of the list"));
        }
        return None;
    };
    let text = entry.value.text();
    let source = match entry.key.as_str() {
        "dialect" => Ok(Source::Dialect),
        "header" => header(text?).map(Source::Header),
        "cookie" => Ok(Source::Cookie(text?.to_owned())),
        "query" => Ok(Source::Query(text?.to_owned())),
        "path" => Template::parse(text?).map(Source::Path),
        "body" => Pointer::parse(text?).map(Source::Body),
        "multipart" => Ok(Source::Multipart(text?.to_owned())),
        "form" => Ok(Source::Form(text?.to_owned())),
        "attribute" => Ok(Source::Attribute(text?.to_owned())),
        "metadata" => metadata(&entry.value),
        "api_key" => api_key(&entry.value),
        "value" => Ok(Source::Value(text?.to_owned())),
        _ => return None,
    };
    match source {
        Ok(source) => {
            found.extend(misplaced(&source, item, field));
            Some(source)
        }
        Err(fault) => {
            let message = format!("`extract.{}` has a source that cannot be used: {fault}", field.name());
            found.push(Diagnostic::error("bad-source", &entry.value.place, message));
            None
        }
    }
}

fn misplaced(source: &Source, item: &Node, field: Field) -> Option<Diagnostic> {
    let is_trusted = item.get("trusted").and_then(Node::flag) == Some(true);
    match source {
        Source::Dialect if field != Field::Model => {
            let message = format!("`dialect` finds models, not `extract.{}`", field.name());
            Some(
                Diagnostic::error("bad-source", &item.place, message)
                    .hint("name the place, as in `{header: ...}` or `{body: /...}`"),
            )
        }
        Source::ApiKey { .. } if field != Field::Tenant => {
            let message = format!("an API key stands for a tenant, not for `extract.{}`", field.name());
            Some(Diagnostic::error("bad-source", &item.place, message).hint("move it to `extract.tenant`"))
        }
        _ if field == Field::Tenant && source.is_client_written() && !is_trusted => {
            let message = format!(
                "clients write {} themselves: whoever sends another tenant's name there would be served as that tenant",
                blacked_out(&source.describe())
            );
            Some(Diagnostic::error("untrusted-tenant", &item.place, message).hint(
                "add `trusted: true` if your Envoy sets it or strips it from clients, or use `api_key`, or `metadata` of a filter that authenticates",
            ))
        }
        _ => None,
    }
}

/// A header's name in lower case; pseudo headers (`:authority`) are fine.
pub(super) fn header(name: &str) -> Result<String, &'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let token = name.strip_prefix(':').unwrap_or(name);
    if token.is_empty() || !token.bytes().all(is_token) {
        return Err("a header's name has letters, digits and dashes only");
    }
    Ok(name.to_ascii_lowercase())
}

fn metadata(node: &Node) -> Result<Source, &'static str> {
    let namespace = node.get("namespace").and_then(Node::text).unwrap_or_default().to_owned();
    let path: Vec<String> =
        node.get("path").map(Node::items).unwrap_or_default().iter().filter_map(Node::text).map(str::to_owned).collect();
    if path.is_empty() {
        return Err("`path` must name at least one key");
    }
    Ok(Source::Metadata { namespace, path })
}

fn api_key(node: &Node) -> Result<Source, &'static str> {
    let header = header(node.get("header").and_then(Node::text).unwrap_or("authorization"))?;
    let scheme = node.get("scheme").and_then(Node::text).unwrap_or("Bearer").to_owned();
    Ok(Source::ApiKey { header, scheme })
}
