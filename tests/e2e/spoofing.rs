//! What a client writes into headers that are ours, or repeats, on every way a request can take: nothing of it reaches a provider,
//! and nothing of it counts. Stub providers record what reaches them.

use cascade::lab::{BodyMode, EnvoySetup, Request, Seen};
use serde_json::Value;

use crate::gateway::ok;
use crate::town::{LIMIT, Town};

const CATALOG: &str = "
version: 1
clusters: {gone: {drained: true}}
priority_groups:
  a: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: b, weight: 1}]}
  none: {clusters: [{cluster_name: gone, weight: 1}]}
models:
  m: {chain: [a]}
  drained: {chain: [none]}
tenants:
  acme: {}
  trial: {mode: shadow}
  strict: {allowed_models: [m]}
defaults: {missing_tenant: anonymous}
";

/// Both headers are in use, so that both are written somewhere and must be removed elsewhere.
const SETTINGS: &str = "
publish: {sticky_header: X-Cascade-Pick}
feedback: {enabled: true}
limits: {max_body: 1MiB}
extract: {tenant: [{header: X-Tenant-Id, trusted: true}]}
";

async fn town(settings: &str, mode: BodyMode, change: impl FnOnce(&mut EnvoySetup)) -> Town {
    Town::with_catalog(CATALOG, settings, |setup| {
        setup.body_mode = mode;
        setup.message_timeout = LIMIT;
        change(setup);
    })
    .await
}

fn forging(request: Request) -> Request {
    let pick = request.header("x-cascade-pick", "7").header("X-Cascade-Pick", "8, 9").header("X-CASCADE-PICK", "forged");
    pick.header("x-cascade-decision", "forged").header("X-Cascade-Decision", "v1.forged")
}

fn post(body: &str) -> Request {
    Request::post("/v1/chat/completions", body)
}

/// Name, request, and the reason that it must get where the body is seen.
fn requests() -> Vec<(&'static str, Request, &'static str)> {
    let model = |model: &str| post(&format!(r#"{{"model":"{model}"}}"#));
    let by_path = "/openai/deployments/m/chat/completions";
    vec![
        ("override", model("m"), "model_chain"),
        ("override with a session", model("m").header("x-session-id", "s"), "model_chain"),
        ("override of a tenant", model("m").header("x-tenant-id", "acme").header("x-session-id", "s"), "model_chain"),
        ("decided by the path", Request::post(by_path, "{}").header("x-session-id", "s"), "model_chain"),
        ("decided by the path alone", Request::get(by_path), "model_chain"),
        ("no body", Request::get("/v1/models"), "missing_model"),
        ("no model", post("{}"), "missing_model"),
        ("an empty body", post(""), "missing_model"),
        ("an unknown model", model("nobody"), "unknown_model"),
        ("a broken body", post("{broken"), "malformed_body"),
        ("a body too large", post(&format!(r#"{{"x":"{}","model":"m"}}"#, "x".repeat(1 << 20))), "body_too_large"),
        ("nothing left", model("drained"), "no_cluster_left"),
        ("shadow", model("m").header("x-tenant-id", "trial").header("x-session-id", "s"), "shadow"),
        ("refused: not allowed", model("n").header("x-tenant-id", "strict"), "model_not_allowed"),
        ("refused: unknown tenant", model("m").header("x-tenant-id", "nobody"), "unknown_tenant"),
        ("refused: a model twice", post(r#"{"model":"m","model":"m"}"#), "duplicate_key"),
    ]
}

fn values<'a>(seen: &'a Seen, name: &str) -> Vec<&'a str> {
    seen.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
}

fn last(town: &Town, cluster: &str) -> Seen {
    town.provider(cluster).seen().pop().unwrap()
}

/// Sends every request with forged headers; what must be true of each.
async fn every_way(town: &Town, mode: BodyMode) {
    let body_is_seen = matches!(mode, BodyMode::Buffered | BodyMode::BufferedPartial | BodyMode::FullDuplexStreamed);
    for (name, request, reason) in requests() {
        let has_session = request.headers.iter().any(|(key, _)| key == "x-session-id");
        let (response, trail) = ok(town.envoy.send(forging(request)).await);
        let told = format!("{name} in {mode}: {trail}, {}", trail.decision);
        if body_is_seen {
            assert_eq!(trail.decision["reason"], reason, "{told}");
        }
        if trail.decision["outcome"] == "reject" {
            assert_eq!(response.header("x-cascade-reason"), trail.decision["reason"].as_str(), "{told}");
            assert_eq!(trail.to_string(), "", "{told}");
            continue;
        }
        let seen = last(town, &trail.attempts[0].cluster);
        let (picks, tokens) = (values(&seen, "x-cascade-pick"), values(&seen, "x-cascade-decision"));
        let is_override = trail.decision["outcome"] == "override";
        assert_eq!(picks.len(), usize::from(is_override && has_session), "{told}: {picks:?}");
        assert!(picks.iter().all(|pick| pick.parse::<u64>().is_ok_and(|pick| ![7, 8, 9].contains(&pick))), "{told}: {picks:?}");
        assert_eq!(tokens.len(), usize::from(is_override), "{told}: {tokens:?}");
        assert!(tokens.iter().all(|token| !token.contains("forged")), "{told}: {tokens:?}");
    }
}

#[tokio::test]
async fn headers_that_are_ours_are_overwritten_or_removed_on_every_way_in_every_mode() {
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed, BodyMode::BufferedPartial, BodyMode::Streamed, BodyMode::None]
    {
        let town = town(SETTINGS, mode, |setup| setup.allow_mode_override = true).await;
        every_way(&town, mode).await;
    }
}

/// A client slower than `body_wait` gets the static chain, and its headers are cleaned all the same.
#[tokio::test]
async fn a_request_that_is_decided_by_the_clock_is_cleaned() {
    let settings = format!("{}limits: {{body_wait: 200ms}}\n", SETTINGS.replace("limits: {max_body: 1MiB}\n", ""));
    let town = town(&settings, BodyMode::FullDuplexStreamed, |_| ()).await;
    let (_, mut sending) = ok(town.envoy.begin(forging(post("")), Some(13)).await);
    ok(town.envoy.stat_reaches("cluster.fixed.upstream_rq_total", 1).await);
    sending.write(br#"{"model":"m"}"#).await;
    assert_eq!(ok(sending.response().await).header("x-served-by"), Some("fixed"));
    let seen = last(&town, "fixed");
    assert!(values(&seen, "x-cascade-pick").is_empty() && values(&seen, "x-cascade-decision").is_empty(), "{seen:?}");
}

/// Without feedback and without a session's number there is nothing to write, and the client's own still go.
#[tokio::test]
async fn headers_that_are_ours_are_removed_where_nothing_is_written() {
    let settings = SETTINGS.replace("feedback: {enabled: true}\n", "");
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed] {
        let town = town(&settings, mode, |_| ()).await;
        let (_, trail) = town.send(forging(post(r#"{"model":"m"}"#))).await;
        let seen = last(&town, &trail.attempts[0].cluster);
        assert!(values(&seen, "x-cascade-pick").is_empty() && values(&seen, "x-cascade-decision").is_empty(), "{seen:?}");
    }
}

/// The tenant of a request with these headers, or the reason of its refusal.
async fn tenant(town: &Town, headers: &[(&str, &str)]) -> Value {
    let request = headers.iter().fold(post(r#"{"model":"m"}"#), |request, (name, value)| request.header(name, value));
    let (response, trail) = ok(town.envoy.send(request).await);
    match response.header("x-cascade-reason") {
        Some(reason) => reason.into(),
        None => trail.decision["tenant"].clone(),
    }
}

#[tokio::test]
async fn a_repeated_tenant_header_counts_if_its_values_agree() {
    let town = town(SETTINGS, BodyMode::Buffered, |_| ()).await;
    for (headers, expected) in [
        (&[("x-tenant-id", "acme")][..], "acme".into()),
        (&[("X-TENANT-ID", "acme")], "acme".into()),
        (&[("x-tenant-id", "acme"), ("X-Tenant-Id", "acme")], "acme".into()),
        (&[("x-tenant-id", "acme"), ("X-Tenant-Id", "strict")], "unknown_tenant".into()),
        (&[("x-tenant-id", "acme, strict")], "unknown_tenant".into()),
        (&[("x-tenant-id", "acme"), ("x-tenant-id", "")], "acme".into()),
        (&[("x-tenant-id", "")], Value::Null),
        (&[("x_tenant_id", "acme")], Value::Null),
        (&[("x-tenant", "acme"), ("cookie", "x-tenant-id=acme"), ("x-forwarded-x-tenant-id", "acme")], Value::Null),
        (&[("x-tenant-id", "Acme")], "unknown_tenant".into()),
        (&[("x-tenant-id", "anonymous")], "unknown_tenant".into()),
    ] {
        assert_eq!(tenant(&town, headers).await, expected, "{headers:?}");
    }
}
