//! Sessions that come back to what served them: which of Envoy's log entries teach Cascade something, about whom, and what the next
//! request of the session is told. What Envoy itself writes is tested in `tests/e2e`.

use envoy_types::pb::envoy::data::accesslog::v3::ResponseFlags;
use serde_json::Value;

use crate::feedback::{Scene, answered, entry, token, with_token};
use crate::http;

const CATALOG: &str = "version: 1
clusters: {a: {tags: [eu]}, b: {tags: [eu]}, c: {}, stranger: {}}
priority_groups:
  one: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: b, weight: 1}]}
  two: {clusters: [{cluster_name: c, weight: 1}]}
  other: {clusters: [{cluster_name: stranger, weight: 1}]}
models:
  m: {aliases: [alias], chain: [one, two]}
  elsewhere: {chain: [other]}
tenants:
  acme: {chains: {own: [one, two]}}
  globex: {}
  eu: {require_tags: [eu]}
defaults: {missing_tenant: anonymous}
";
const SETTINGS: [(&str, &str); 3] =
    [("SESSION__LEARN", "true"), ("SESSION__TTL", "1h"), ("EXTRACT__TENANT", "[{header: x-tenant, trusted: true}]")];

async fn scene() -> Scene {
    Scene::with_catalog(CATALOG, &SETTINGS).await
}

/// The header that a request of this session carries to the providers.
async fn decide(scene: &Scene, tenant: &str, model: &str) -> String {
    let headers = [("x-session-id", "s"), ("x-tenant", tenant)];
    let headers = if tenant.is_empty() { &headers[..1] } else { &headers[..] };
    token(&scene.decide(headers, model).await).unwrap()
}

/// A request of session `s` is served by this cluster, and Envoy tells so.
async fn serve(scene: &Scene, tenant: &str, model: &str, cluster: &str) {
    let token = decide(scene, tenant, model).await;
    scene.log("cascade", vec![with_token(answered(cluster, 200), &token)]).await;
}

/// Where session `s` goes: `group(cluster …) …`.
async fn way(scene: &Scene, tenant: &str, model: &str) -> String {
    let question = format!(r#"{{"model": "{model}", "tenant": "{tenant}", "session": "s"}}"#);
    let told = http::post(&scene.cascade.admin().await, "/explain", &question).await.json();
    let names = |list: &Value| {
        let names: Vec<_> = list.as_array().unwrap().iter().map(|it| it["cluster_name"].as_str().unwrap()).collect();
        names.join(" ")
    };
    let groups = told["chain"].as_array().unwrap().iter();
    groups
        .map(|group| format!("{}({})", group["name"].as_str().unwrap(), names(&group["clusters"])))
        .collect::<Vec<_>>()
        .join(" ")
}

async fn learned(scene: &Scene, result: &str) -> Option<String> {
    scene.metric(&format!("cascade_session_learned_total{{result=\"{result}\"}}")).await
}

const WRITTEN: &str = "one(a b) two(c)";

#[tokio::test]
async fn two_tenants_with_one_session_id_share_nothing() {
    let scene = scene().await;
    serve(&scene, "acme", "m", "c").await;
    assert_eq!(way(&scene, "acme", "m").await, "two(c) one(a b)");
    for (tenant, model) in [("globex", "m"), ("", "m"), ("acme", "own")] {
        assert_eq!(way(&scene, tenant, model).await, WRITTEN, "{tenant} {model}");
    }
    serve(&scene, "", "alias", "b").await;
    assert_eq!(way(&scene, "", "m").await, "one(b) one(a b) two(c)", "a model is one model under all its names");
    assert_eq!((way(&scene, "acme", "m").await, way(&scene, "globex", "m").await), ("two(c) one(a b)".into(), WRITTEN.into()));
}

#[tokio::test]
async fn a_model_that_one_tenant_alone_knows_is_learned_as_well() {
    let scene = scene().await;
    serve(&scene, "acme", "own", "c").await;
    assert_eq!(way(&scene, "acme", "own").await, "two(c) one(a b)");
}

#[tokio::test]
async fn a_failover_moves_the_session_and_what_teaches_nothing_does_not() {
    let scene = scene().await;
    let token = decide(&scene, "acme", "m").await;
    let client_left = ResponseFlags { downstream_connection_termination: true, ..Default::default() };
    let broke_off = ResponseFlags { upstream_remote_reset: true, ..Default::default() };
    let nothing = [
        with_token(answered("c", 503), &token),
        with_token(answered("c", 404), &token),
        with_token(answered("c", 307), &token),
        with_token(entry("c", 200, client_left), &token),
        with_token(entry("c", 200, broke_off), &token),
        with_token(answered("nobody", 200), &token),
        with_token(answered("c", 200), "forged"),
        answered("c", 200),
    ];
    scene.log("cascade", nothing.to_vec()).await;
    scene.log("another log", vec![with_token(answered("c", 200), &token)]).await;
    assert_eq!((way(&scene, "acme", "m").await.as_str(), learned(&scene, "learned").await.as_deref()), (WRITTEN, Some("0")));
    scene.log("cascade", vec![with_token(answered("b", 200), &token)]).await;
    assert_eq!(way(&scene, "acme", "m").await, "one(b) one(a b) two(c)");
    scene.log("cascade", vec![with_token(answered("b", 503), &token), with_token(answered("c", 200), &token)]).await;
    assert_eq!(way(&scene, "acme", "m").await, "two(c) one(a b)");
    scene.log("cascade", vec![with_token(answered("c", 200), &token); 100]).await;
    assert_eq!(learned(&scene, "learned").await.as_deref(), Some("2"), "the same again is no news");
}

#[tokio::test]
async fn a_cluster_that_the_decision_did_not_allow_is_never_learned() {
    let scene = scene().await;
    let eu = decide(&scene, "eu", "m").await;
    // Both are the catalog's, and Envoy could have gone there by itself (fact 12).
    scene.log("cascade", vec![with_token(answered("c", 200), &eu), with_token(answered("stranger", 200), &eu)]).await;
    assert_eq!(learned(&scene, "not_allowed").await.as_deref(), Some("2"));
    assert_eq!(way(&scene, "eu", "m").await, "one(a b)");
    // What does not stand in the static chain's stead carries no token at all.
    assert_eq!(token(&scene.decide(&[("x-session-id", "s")], "unknown").await), None);
}

#[tokio::test]
async fn a_learned_cluster_that_cools_is_treated_like_any_other() {
    let scene = scene().await;
    serve(&scene, "acme", "m", "a").await;
    assert_eq!(way(&scene, "acme", "m").await, "one(a) one(a b) two(c)");
    scene.post("/clusters/a/cool?seconds=600").await;
    assert_eq!(way(&scene, "acme", "m").await, "one(b) two(c) one(a)");
    scene.post("/clusters/a/clear").await;
    assert_eq!(way(&scene, "acme", "m").await, "one(a) one(a b) two(c)");
}

#[tokio::test]
async fn learning_is_shown_and_needs_feedback() {
    let scene = scene().await;
    serve(&scene, "acme", "m", "c").await;
    assert_eq!(scene.cascade.get("/healthz").await.json()["sessions"]["learned"]["remembered"], 1);
    let question = r#"{"model": "m", "tenant": "acme", "session": "s"}"#;
    let told = http::post(&scene.cascade.admin().await, "/explain", question).await.json();
    assert_eq!((&told["directory"]["learned"], &told["directory"]["selected_backend"]), (&true.into(), &"c".into()));
    let home = crate::catalog::Home::new();
    home.write("cascade.yaml", "session: {learn: true}\n");
    let (code, said, _) = crate::process::run(&["check", "--config", &home.text("cascade.yaml")]);
    assert!(code == Some(1) && said.contains("feedback.enabled: true"), "{said}");
}

#[tokio::test]
async fn a_redis_that_does_not_take_what_is_learned_is_told_with_its_place_and_without_sessions() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = gone.local_addr().unwrap().to_string();
    drop(gone);
    let url = format!("redis://:canary@{nowhere}");
    let redis = [("SESSION__DIRECTORY", "redis"), ("SESSION__URL", url.as_str()), ("TELEMETRY__LOG", "trace")];
    let key = ("SESSION__KEY", "canary:{tenant}/{session}");
    let scene = Scene::with_catalog(CATALOG, &[&SETTINGS[..], &redis, &[key]].concat()).await;
    serve(&scene, "acme", "m", "c").await;
    let find = || scene.cascade.output().lines().find(|line| line.contains("session_learning_failed")).map(str::to_owned);
    let line = crate::process::eventually("a line of the trouble", async || find()).await;
    let fields = format!("place=\"{nowhere}\" why=\"unreachable\" failed=1 cause=\"Connection refused");
    assert!(line.contains(&fields), "{line}");
    assert_eq!(scene.cascade.output().lines().find(|line| line.contains("canary")), None);
    assert_eq!(learned(&scene, "failed").await.as_deref(), Some("1"));
}
