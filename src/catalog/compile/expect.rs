//! The catalog's `tests` and `invariants`: what is said of names that must exist.

use super::models::Models;
use super::rules::Ground;
use super::tenants::Tenants;
use crate::catalog::expectations::{Expect, Expectations, Invariant, TenantSelector, Test, TestRequest};
use crate::catalog::pattern::Pattern;
use crate::document::{Node, Value};
use crate::names::{TenantName, TierName};
use crate::outcome::Reason;

pub(super) fn read(document: &Node, tenants: &Tenants, models: &Models, ground: &mut Ground<'_, '_>) -> Expectations {
    let items = |name: &str| document.get(name).map(Node::items).unwrap_or_default().iter().enumerate();
    let tests = items("tests").filter_map(|(at, node)| test(at, node, ground)).collect();
    let invariants = items("invariants").map(|(at, node)| invariant(at, node, tenants, models, ground)).collect();
    Expectations { tests, invariants }
}

fn name_of(node: &Node, what: &str, at: usize) -> String {
    node.get("name").and_then(Node::text).map_or_else(|| format!("{what} {}", at + 1), str::to_owned)
}

fn texts(node: Option<&Node>) -> Vec<String> {
    node.map(Node::items).unwrap_or_default().iter().filter_map(Node::text).map(str::to_owned).collect()
}

fn test(at: usize, node: &Node, ground: &mut Ground<'_, '_>) -> Option<Test> {
    let expect = expectation(node.get("expect")?, ground)?;
    Some(Test { name: name_of(node, "test", at), request: request(node.get("request")?), expect, place: node.place.clone() })
}

fn request(node: &Node) -> TestRequest {
    let text = |name: &str| node.get(name).and_then(Node::text).map(str::to_owned);
    let headers = node.get("headers").map(Node::entries).unwrap_or_default();
    let body = node.get("body").and_then(|body| match body.value {
        Value::Map(_) => body.to_json().map(|json| json.to_string()),
        _ => body.text().map(str::to_owned),
    });
    TestRequest {
        model: text("model"),
        tenant: text("tenant"),
        session: text("session"),
        path: text("path"),
        method: text("method"),
        headers: headers.iter().filter_map(|entry| Some((entry.key.to_lowercase(), entry.value.text()?.to_owned()))).collect(),
        body,
    }
}

fn expectation(node: &Node, ground: &mut Ground<'_, '_>) -> Option<Expect> {
    const HINT: &str = "write one of `chain`, `clusters`, `reject`, `pass_through`";
    let [entry] = node.entries() else {
        ground.findings.error("bad-expectation", &node.place, "a test expects exactly one thing", HINT);
        return None;
    };
    let empty = entry.value.items().is_empty();
    match entry.key.as_str() {
        "chain" | "clusters" if empty => {
            let message = format!("`{}` is empty: no answer ever holds an empty chain", entry.key);
            ground.findings.error(
                "empty-chain",
                &entry.value.place,
                message,
                "expect `pass_through` or `reject` with its reason",
            );
            None
        }
        "chain" => {
            entry.value.items().iter().for_each(|name| known_group(name, ground));
            Some(Expect::Chain(texts(Some(&entry.value))))
        }
        "clusters" => {
            entry.value.items().iter().flat_map(Node::items).for_each(|name| known_cluster(name, ground));
            Some(Expect::Clusters(entry.value.items().iter().map(|group| texts(Some(group))).collect()))
        }
        "reject" => reason(&entry.value, Reason::can_reject, "reject", ground).map(Expect::Reject),
        _ => reason(&entry.value, Reason::can_pass_through, "pass through", ground).map(Expect::PassThrough),
    }
}

fn known_group(node: &Node, ground: &mut Ground<'_, '_>) {
    let Some(name) = node.text() else { return };
    if !ground.groups.all.iter().any(|group| group.name.as_str() == name) {
        let hint =
            ground.findings.meant(name, ground.groups.all.iter().map(|group| group.name.as_str()), "see `priority_groups`");
        ground.findings.error("unknown-group", &node.place, format!("there is no group `{name}`: the test can only fail"), hint);
    }
}

fn known_cluster(node: &Node, ground: &mut Ground<'_, '_>) {
    let Some(name) = node.text() else { return };
    if !ground.clusters.ids.contains_key(name) {
        let names = ground.clusters.all.iter().map(|cluster| cluster.name.as_str());
        let hint = ground.findings.meant(name, names, "see the groups under `priority_groups`");
        ground.findings.error(
            "unknown-cluster",
            &node.place,
            format!("no group has a cluster `{name}`: the test can only fail"),
            hint,
        );
    }
}

fn reason(node: &Node, possible: fn(Reason) -> bool, what: &str, ground: &mut Ground<'_, '_>) -> Option<Reason> {
    let word = node.text()?;
    let reason = Reason::parse(word).filter(|reason| possible(*reason));
    if reason.is_none() {
        let words: Vec<&str> = Reason::ALL.iter().filter(|reason| possible(**reason)).map(|reason| reason.as_str()).collect();
        let hint = ground.findings.meant(word, words.iter().copied(), &format!("the reasons are {}", words.join(", ")));
        ground.findings.error("unknown-reason", &node.place, format!("`{word}` is no reason to {what}"), hint);
    }
    reason
}

fn invariant(at: usize, node: &Node, tenants: &Tenants, models: &Models, ground: &mut Ground<'_, '_>) -> Invariant {
    let list = |name: &str| node.get(name).map(Node::items).unwrap_or_default();
    let vacuous = "the invariant cannot be what its author meant";
    for tag in list("only_tags").iter().chain(list("never_tags")) {
        ground.clusters.tag(tag, vacuous, ground.findings);
    }
    for provider in list("only_providers").iter().chain(list("never_providers")) {
        ground.clusters.provider(provider, vacuous, ground.findings);
    }
    let never = texts(node.get("never"));
    let conditions = ["only_tags", "never_tags", "only_providers", "never_providers", "never"];
    if conditions.iter().all(|condition| list(condition).is_empty()) {
        let hint = format!("add one of {}", conditions.join(", "));
        ground.findings.error("empty-invariant", &node.place, "the invariant demands nothing", hint);
    }
    Invariant {
        name: name_of(node, "invariant", at),
        tenants: tenant_selector(node.get("tenants"), tenants, ground),
        models: model_selector(node.get("models"), tenants, models, ground),
        only_tags: texts(node.get("only_tags")),
        never_tags: texts(node.get("never_tags")),
        only_providers: texts(node.get("only_providers")),
        never_providers: texts(node.get("never_providers")),
        never_pass_through: never.iter().any(|word| word == "pass_through"),
        never_reject: never.iter().any(|word| word == "reject"),
        place: node.place.clone(),
    }
}

fn tenant_selector(node: Option<&Node>, tenants: &Tenants, ground: &mut Ground<'_, '_>) -> TenantSelector {
    let Some((node, text)) = node.and_then(|node| Some((node, node.text()?))) else {
        return TenantSelector::Named(Pattern::new("*"));
    };
    if let Some(tier) = text.strip_prefix("tier:") {
        let names: Vec<&str> = tenants.tiers.keys().map(TierName::as_str).collect();
        let pattern = Pattern::new(tier);
        selects(&pattern, node, "tier", &names, ground);
        return TenantSelector::Tier(pattern);
    }
    let names: Vec<&str> = tenants.ids.keys().map(TenantName::as_str).collect();
    let pattern = Pattern::new(text);
    if !pattern.is_any() {
        selects(&pattern, node, "tenant", &names, ground);
    }
    TenantSelector::Named(pattern)
}

fn model_selector(node: Option<&Node>, tenants: &Tenants, models: &Models, ground: &mut Ground<'_, '_>) -> Pattern {
    let Some((node, text)) = node.and_then(|node| Some((node, node.text()?))) else { return Pattern::new("*") };
    let pattern = Pattern::new(text);
    let of_tenants = tenants.all.iter().flat_map(|tenant| tenant.chains.exact.keys().map(String::as_str));
    if !pattern.is_any() {
        let names: Vec<&str> = models.all.iter().map(|model| model.name.as_str()).chain(of_tenants).collect();
        selects(&pattern, node, "model", &names, ground);
    }
    pattern
}

/// A name that does not exist is an error, a pattern that matches nothing (yet) is a warning: the statement guards nothing.
fn selects(pattern: &Pattern, node: &Node, what: &str, names: &[&str], ground: &mut Ground<'_, '_>) {
    if names.iter().any(|name| pattern.matches(name)) {
        return;
    }
    let text = pattern.as_str();
    if pattern.is_exact() {
        let code = match what {
            "tier" => "unknown-tier",
            "tenant" => "unknown-tenant",
            _ => "unknown-model",
        };
        let hint = ground.findings.meant(text, names.iter().copied(), &format!("write the name of a {what}, or a pattern"));
        ground.findings.error(code, &node.place, format!("there is no {what} `{text}`: the invariant guards nothing"), hint);
    } else {
        let message = format!("no {what} matches `{text}`: the invariant guards nothing");
        ground.findings.warning("matches-nothing", &node.place, message, "remove it, or correct the pattern");
    }
}
