//! Headers that a person gives and that nothing reads: without a word about them an answer looks as if they had counted.

use crate::extract::source::{Plan, Source};
use crate::resolve::trace::Considered;

/// What is read of every request, or is so ordinary that nobody expects it to decide.
const ORDINARY: [&str; 14] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "traceparent",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-request-id",
];

/// Says of each header that no source of the settings names, once.
pub(super) fn headers(plan: &Plan, headers: &[(String, String)], considered: &mut Vec<Considered>) {
    let mut said: Vec<&str> = Vec::new();
    for (name, _) in headers {
        let is_ordinary = name.starts_with(':') || ORDINARY.iter().any(|ordinary| name.eq_ignore_ascii_case(ordinary));
        if is_ordinary || said.contains(&name.as_str()) || is_read(plan, name) {
            continue;
        }
        said.push(name);
        let result = format!(
            "no source reads the header `{name}`: it changes nothing. `extract:` in the settings (--config) names what is read, as in \
             tenant: [{{header: {name}, trusted: true}}]"
        );
        considered.push(Considered::new("extract", None, result));
    }
}

fn is_read(plan: &Plan, name: &str) -> bool {
    let reads = |source: &Source| match source {
        Source::Header(header) | Source::ApiKey { header, .. } => header.eq_ignore_ascii_case(name),
        Source::Cookie(_) => name.eq_ignore_ascii_case("cookie"),
        Source::Dialect
        | Source::Query(_)
        | Source::Path(_)
        | Source::Body(_)
        | Source::Multipart(_)
        | Source::Form(_)
        | Source::Attribute(_)
        | Source::Metadata { .. }
        | Source::Value(_) => false,
    };
    plan.model.iter().chain(&plan.tenant).chain(&plan.session).any(reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_nothing_reads_are_named_once() {
        let plan = Plan { tenant: vec![Source::Header("x-read".to_owned())], ..Plan::default() };
        let header = |name: &str| (name.to_owned(), "v".to_owned());
        let given = ["x-tenant", "X-Read", "content-type", ":authority", "x-tenant", "x-session-id", "cookie"].map(header);
        let mut considered = Vec::new();
        headers(&plan, &given, &mut considered);
        let named: Vec<_> = considered.iter().filter_map(|entry| entry.result.split('`').nth(1)).collect();
        assert_eq!(named, ["x-tenant", "cookie"]);
    }
}
