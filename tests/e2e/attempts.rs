//! What Cascade learns from attempts, and what each attempt carries: a real Envoy, `cascade serve` with feedback on, and providers
//! that fail in every way there is.

use std::time::{Duration, Instant};

use cascade::lab::{Cluster, DeadPort, Reply, Request};
use serde_json::Value;

use crate::gateway::{chat, ok};
use crate::scene::Scene;

// Fact 28
#[tokio::test]
async fn a_429_sends_the_next_requests_to_the_second_group_until_its_time_is_over() {
    let scene = Scene::set(&[("one", 200), ("two", 200)], vec![], "one").await;
    scene.provider("one").answer(|_| Reply::too_many(3));
    let start = Instant::now();
    assert_eq!(scene.way().await, "one(429) two(200)");
    scene.goes("two(200)").await;
    let clusters = ok(scene.serve.admin(Request::get("/clusters")).await);
    let clusters: Value = serde_json::from_slice(&clusters.body).unwrap();
    assert_eq!(clusters["clusters"][0]["models"]["m"]["reason"], "rate_limited", "the token came back: {clusters}");
    scene.provider("one").answer_status(200);
    scene.goes("one(200)").await;
    assert!(start.elapsed() >= Duration::from_secs(3), "not before the provider wants it");
    assert!(scene.serve.log().contains("a cluster has cooled"));
}

#[tokio::test]
async fn a_provider_that_refuses_connections_cools_after_its_third_failure() {
    let dead = ok(DeadPort::reserve());
    let scene = Scene::set(&[("two", 200)], vec![Cluster::new("dead", dead.address())], "dead").await;
    for _ in 0..3 {
        assert_eq!(scene.way().await, "dead(UF) two(200)");
    }
    scene.goes("two(200)").await;
    assert!(scene.metric("cascade_attempts_total{cluster=\"dead\",class=\"connection_failure\"}").await >= 3.0);
}

// Fact 35
#[tokio::test]
async fn an_empty_cluster_ends_one_request_and_the_next_ones_go_past_it() {
    let scene = Scene::set(&[("two", 200)], vec![Cluster::empty("hollow")], "hollow").await;
    let (response, trail) = scene.send(chat()).await;
    assert_eq!((response.status, trail.last.flags.as_str()), (503, "UH"));
    scene.goes("two(200)").await;
    let line = "cascade_attempts_total{cluster=\"hollow\",class=\"no_healthy_host\"}";
    assert!(scene.metric(line).await >= 1.0);
}

// Fact 35
#[tokio::test]
async fn with_the_sentinel_endpoint_even_the_first_request_survives_an_empty_cluster() {
    let refusing = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 1)));
    let hollow = Cluster { last_resort: refusing, ..Cluster::empty("hollow") };
    let scene = Scene::set(&[("two", 200)], vec![hollow], "hollow").await;
    assert_eq!(scene.way().await, "hollow(UF) two(200)");
    scene.goes("two(200)").await;
}

#[tokio::test]
async fn when_all_are_down_every_request_still_tries_the_whole_chain() {
    let scene = Scene::set(&[("one", 503), ("two", 503)], vec![], "one").await;
    let whole = |way: &str| way.contains("one(503)") && way.contains("two(503)");
    for _ in 0..4 {
        let way = scene.way().await;
        assert!(whole(&way), "{way}");
    }
    scene.cools("one").await;
    scene.cools("two").await;
    for _ in 0..3 {
        let way = scene.way().await;
        assert!(way.starts_with("one(503) two(503)"), "the chain as written: {way}");
    }
}

const NAMES: &str = "version: 1
clusters:
  one: {models: {m: vendor-a-model}}
  two: {models: {m: \"vendor-b:0\"}}
  three: {}
priority_groups:
  first: {clusters: [{cluster_name: one, weight: 1}]}
  second: {clusters: [{cluster_name: two, weight: 1}]}
  third: {clusters: [{cluster_name: three, weight: 1}]}
models:
  m: {aliases: [alias, \"m-*\"], chain: [first, second, third]}
";

/// Answers only what it knows by this name; everybody is limited but the last.
fn picky(scene: &Scene, name: &str, accepts: &'static str, then: u16) {
    scene.provider(name).answer(move |seen| {
        let is_known = seen.model().as_deref() == Some(accepts) || seen.path.contains(&format!("/{accepts}/"));
        Reply::status(if is_known { then } else { 404 })
    });
}

// Facts 27 and 28b
#[tokio::test]
async fn each_provider_gets_the_model_under_its_own_name_and_nothing_else_changes() {
    let scene = Scene::with_catalog(NAMES, &[("one", 503), ("two", 503), ("three", 200)], vec![]).await;
    picky(&scene, "one", "vendor-a-model", 503);
    picky(&scene, "two", "vendor-b:0", 503);
    picky(&scene, "three", "m", 200);
    for sent in ["m", "alias", "m-2025"] {
        let body = |model: &str| {
            format!("{{ \"messages\":[{{\"content\":\"\\u00e9 {sent}\"}}], \"n\" : 1.0e2,\n \"model\" : \"{model}\" }}")
        };
        let request = Request::post("/v1/chat/completions", body(sent)).header("content-type", "application/json");
        let (response, trail) = scene.send(request).await;
        let way = trail.to_string();
        assert!(way.ends_with("three(200)") && !way.contains("404"), "{sent}: {way} {response:?} {trail:?}");
        for (name, model) in [("one", "vendor-a-model"), ("two", "vendor-b:0"), ("three", "m")] {
            let Some(seen) = scene.provider(name).seen().pop() else { continue };
            if !String::from_utf8_lossy(&seen.body).contains(&format!("\\u00e9 {sent}\"")) {
                continue; // it cooled and was not asked
            }
            assert_eq!(String::from_utf8(seen.body.clone()).unwrap(), body(model), "{name}");
            assert_eq!(seen.header("content-length"), Some(seen.body.len().to_string().as_str()));
        }
    }
    // The path of an API that names the model there.
    ok(scene.serve.admin(Request::post("/clusters/one/clear", "")).await);
    let (_, trail) = scene.send(Request::post("/openai/deployments/alias/chat/completions?x=1", "{}")).await;
    assert!(trail.to_string().starts_with("one(503)"), "{trail}");
    assert_eq!(scene.provider("one").seen().pop().unwrap().path, "/openai/deployments/vendor-a-model/chat/completions?x=1");
}

#[tokio::test]
async fn what_has_its_name_already_is_not_even_shown_and_the_rest_passes_untouched() {
    let scene = Scene::with_catalog(NAMES, &[("one", 503), ("two", 503), ("three", 200)], vec![]).await;
    for cluster in ["one", "two"] {
        ok(scene.serve.admin(Request::post(&format!("/clusters/{cluster}/cool"), "")).await);
    }
    assert!(scene.way().await.starts_with("three(200)"));
    assert_eq!(scene.metric("cascade_upstream_rewrites_total{result=\"unchanged\"}").await, 1.0);
    let compressed = Request::post("/v1/chat/completions", "\u{1f}garbage").header("content-encoding", "gzip");
    let (response, _) = scene.send(compressed).await;
    assert_ne!(response.status, 500);
    assert_eq!(scene.provider("one").seen().pop().unwrap().body, "\u{1f}garbage".as_bytes(), "the static chain, as it came");
    assert!(scene.metric("cascade_upstream_rewrites_total{result=\"compressed\"}").await >= 1.0);
}

#[tokio::test]
async fn two_thousand_requests_over_flapping_providers_lose_nothing_to_the_static_chain() {
    let scene = Scene::set(&[("one", 200), ("two", 200), ("three", 200)], vec![], "one").await;
    for (name, period) in [("one", 37), ("two", 53)] {
        let count = std::sync::atomic::AtomicU64::new(0);
        scene.provider(name).answer(move |_| {
            let turn = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) / period;
            match turn % 3 {
                0 => Reply::status(200),
                1 => Reply::status(503),
                _ => Reply::too_many(1),
            }
        });
    }
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let address = scene.envoy.address();
        clients.spawn(async move {
            let mut answers = Vec::new();
            for _ in 0..40 {
                answers.push(ok(chat().send(address).await).status);
            }
            answers
        });
    }
    let answers = clients.join_all().await.concat();
    assert_eq!((answers.len(), answers.iter().filter(|status| **status != 200).count()), (2000, 0));
}
