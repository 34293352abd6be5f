//! When an override takes effect, and in which form it may come.

use cascade::lab::EnvoySetup;

use crate::answer::{Answer, group};
use crate::gateway::{chat, providers};
use crate::processor::{at_body, at_headers};

const IGNORED: &str = "http.ingress.ext_proc.clear_route_cache_ignored";

// Fact 1: half of the override is lost, and nothing but a counter says so.
#[tokio::test]
async fn clear_route_cache_without_a_header_mutation_is_ignored_and_only_retries_see_the_override() {
    let gateway = providers(&[("fixed", 429), ("one", 429), ("two", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.start(at_body(Answer::clusters(&["one", "two"]).without_header_mutation())).await;

    gateway.send(chat()).await.went("fixed(429) two(200)");
    assert_eq!(gateway.stat(IGNORED).await, 1);
}

// Fact 2
#[tokio::test]
async fn an_empty_header_mutation_is_enough_to_clear_the_route_cache() {
    let gateway = providers(&[("fixed", 200), ("one", 429), ("two", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.start(at_body(Answer::clusters(&["one", "two"]))).await;

    gateway.send(chat()).await.went("one(429) two(200)");
    let with_header = Answer::clusters(&["two"]).set_header("x-any", "thing");
    gateway.send_with(at_headers(with_header), chat()).await.went("two(200)");
    assert_eq!(gateway.stat(IGNORED).await, 0);
}

fn both_kinds(setup: &mut EnvoySetup) {
    setup.typed = vec!["cascade".to_owned()];
}

// Fact 3
#[tokio::test]
async fn the_override_may_come_untyped_or_typed_and_the_typed_one_is_read_first() {
    let gateway = providers(&[("fixed", 200), ("one", 429), ("two", 200)]).static_chain(&["fixed"]).with(both_kinds);
    let typed = Answer::typed_chain(&[group("g1", "one"), group("g2", "two")]);
    let gateway = gateway.start(at_body(typed.clone())).await;

    gateway.send(chat()).await.went("one(429) two(200)");
    let untyped = Answer::clusters(&["one", "fixed"]);
    gateway.send_with(at_body(untyped.clone()), chat()).await.went("one(429) fixed(200)");
    gateway.send_with(at_body(untyped.and_typed(typed)), chat()).await.went("one(429) two(200)");
}

// Fact 3, the other half: a namespace that is not listed is dropped without a word.
#[tokio::test]
async fn an_override_in_a_namespace_that_envoy_does_not_list_is_dropped() {
    let gateway = providers(&[("fixed", 200), ("one", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.with(|setup| setup.untyped.clear()).start(at_body(Answer::clusters(&["one"]))).await;

    gateway.send(chat()).await.went("fixed(200)");
    gateway.send_with(at_body(Answer::typed_chain(&[group("g", "one")])), chat()).await.went("fixed(200)");
}
