//! How often and how long Envoy tries, request by request: the headers that Cascade sets for its router (facts 52-56), on routes whose
//! own numbers say something else.

use cascade::lab::{EnvoySetup, Reply, Request};

use crate::gateway::ok;
use crate::town::Town;

const LIMITED: &str = "
version: 1
priority_groups:
  a: {clusters: [{cluster_name: a, weight: 1}]}
  b: {clusters: [{cluster_name: b, weight: 1}]}
models:
  one: {chain: [a]}
  two: {chain: [a, b]}
  four: {chain: [a, b, a, b]}
  slow: {chain: [a, b], attempt_timeout: 300ms}
  streamed: {chain: [a, b], stream_attempt_timeout: 300ms}
";

async fn town(settings: &str, change: impl FnOnce(&mut EnvoySetup)) -> Town {
    Town::with_catalog(LIMITED, settings, |setup| {
        setup.allow_envoy = true;
        change(setup);
    })
    .await
}

fn ask(model: &str, more: &str) -> Request {
    Request::post("/v1/chat/completions", format!(r#"{{"model":"{model}"{more}}}"#))
}

async fn way(town: &Town, model: &str, more: &str) -> String {
    town.send(ask(model, more)).await.1.to_string()
}

#[tokio::test]
async fn a_chain_is_walked_once_whatever_the_route_says() {
    for num_retries in [0, 1, 9] {
        let town = town("", |setup| setup.num_retries = num_retries).await;
        for name in ["a", "b"] {
            town.provider(name).answer_status(503);
        }
        assert_eq!(way(&town, "one", "").await, "a(503)", "{num_retries}");
        assert_eq!(way(&town, "two", "").await, "a(503) b(503)", "{num_retries}");
        assert_eq!(way(&town, "four", "").await, "a(503) b(503) a(503) b(503)", "{num_retries}");
    }
}

#[tokio::test]
async fn where_envoy_drops_our_headers_everything_else_works() {
    let town = town("", |setup| (setup.allow_envoy, setup.num_retries) = (false, 3)).await;
    town.provider("a").answer_status(503);
    assert_eq!(way(&town, "two", "").await, "a(503) b(200)");
    assert!(ok(town.envoy.stat("http.ingress.ext_proc.rejected_header_mutations").await) >= 1);
    town.provider("b").answer_status(503);
    assert_eq!(way(&town, "two", "").await, "a(503) b(503) b(503) b(503)", "the route's own number holds");
}

#[tokio::test]
async fn exact_retries_can_be_left_to_the_route() {
    let town = town("attempts: {exact_retries: false}\n", |setup| setup.num_retries = 2).await;
    town.provider("a").answer_status(503);
    assert_eq!(way(&town, "one", "").await, "a(503) a(503) a(503)");
}

#[tokio::test]
async fn an_attempt_that_says_nothing_ends_at_its_models_limit() {
    let town = town("", |_| {}).await;
    town.provider("a").answer(|_| Reply::silence());
    assert_eq!(way(&town, "slow", "").await, "a(UT) b(200)");
    assert_eq!(way(&town, "streamed", r#","stream":true"#).await, "a(UT) b(200)");
}

#[tokio::test]
async fn an_attempt_that_says_nothing_ends_at_the_settings_limit() {
    let town = town("attempts: {timeout: 300ms}\n", |_| {}).await;
    town.provider("a").answer(|_| Reply::silence());
    assert_eq!(way(&town, "two", "").await, "a(UT) b(200)");
    assert_eq!(way(&town, "two", r#","stream":true"#).await, "a(UT) b(200)", "without a limit of its own, as any other");
}
