//! What Envoy makes of the groups of an override.

use std::collections::BTreeSet;

use crate::answer::{Answer, fields, group, list, named, number, object, text, weighted};
use crate::gateway::{chat, providers};
use crate::processor::at_body;

// Fact 11
#[tokio::test]
async fn a_group_that_is_only_a_name_is_envoys_own_group_of_that_name() {
    let gateway = providers(&[("first", 200), ("second", 429), ("third", 200)]).start(at_body(Answer::empty())).await;

    let by_name = Answer::chain(&[named("second"), named("third")]);
    gateway.send_with(at_body(by_name), chat()).await.went("second(429) third(200)");
    let mixed = Answer::chain(&[named("second"), group("mine", "first")]);
    gateway.send_with(at_body(mixed), chat()).await.went("second(429) first(200)");
    let no_clusters = list([object(fields([("name", text("third")), ("clusters", list([]))]))]);
    gateway.send_with(at_body(Answer::raw(no_clusters)), chat()).await.went("third(200)");
    let typed = Answer::typed_chain(&[named("second"), named("third")]);
    let gateway = providers(&[("first", 200), ("second", 429), ("third", 200)])
        .with(|setup| setup.typed = vec!["cascade".to_owned()])
        .start(at_body(typed))
        .await;
    gateway.send(chat()).await.went("second(429) third(200)");
}

// Fact 12
#[tokio::test]
async fn an_unknown_name_gives_its_position_to_the_static_chain_and_spares_the_others() {
    let gateway = providers(&[("first", 200), ("second", 429), ("third", 429)]);
    let gateway = gateway.start(at_body(Answer::chain(&[named("third"), named("nobody"), named("first")]))).await;

    gateway.send(chat()).await.went("third(429) second(429) first(200)");
}

// Fact 13
#[tokio::test]
async fn a_position_with_weight_0_or_without_name_and_clusters_is_the_static_chains() {
    let gateway = providers(&[("first", 200), ("second", 429), ("third", 429)]).start(at_body(Answer::empty())).await;

    let weightless = Answer::chain(&[group("g", "third"), weighted("g", &[("first", 0.0)]), group("g", "first")]);
    gateway.send_with(at_body(weightless), chat()).await.went("third(429) second(429) first(200)");
    let half_weightless = Answer::chain(&[weighted("g", &[("third", 0.0), ("second", 7.0)]), group("g", "third")]);
    gateway.send_with(at_body(half_weightless), chat()).await.went("first(200)");
    let nameless = Answer::chain(&[group("g", "third"), named(""), group("g", "first")]);
    gateway.send_with(at_body(nameless), chat()).await.went("third(429) second(429) first(200)");
}

// Fact 13: the typed form judges alike.
#[tokio::test]
async fn a_typed_position_with_weight_0_is_the_static_chains() {
    let gateway = providers(&[("first", 200), ("second", 429), ("third", 429)]);
    let gateway = gateway.with(|setup| setup.typed = vec!["cascade".to_owned()]);
    let weightless = Answer::typed_chain(&[group("g", "third"), weighted("g", &[("first", 0.0)]), group("g", "first")]);
    let gateway = gateway.start(at_body(weightless)).await;

    gateway.send(chat()).await.went("third(429) second(429) first(200)");
}

// Fact 13
#[tokio::test]
async fn unknown_fields_and_a_fraction_of_a_weight_do_no_harm() {
    let cluster = fields([("cluster_name", text("second")), ("weight", number(1.5)), ("zone", text("eu"))]);
    let groups = fields([("name", text("g")), ("clusters", list([object(cluster)])), ("comment", text("?"))]);
    let gateway = providers(&[("first", 200), ("second", 200)]).start(at_body(Answer::raw(list([object(groups)])))).await;

    gateway.send(chat()).await.went("second(200)");
}

// Fact 14: the worst that an override can do.
#[tokio::test]
async fn a_cluster_that_envoy_does_not_have_ends_the_request_with_503_and_no_retry() {
    let gateway = providers(&[("first", 429), ("second", 200)]).start(at_body(Answer::clusters(&["nowhere", "second"]))).await;

    let told = gateway.send(chat()).await;
    told.went("");
    assert_eq!((told.response.status, told.trail.last.flags.as_str()), (503, "NC"));

    let later = gateway.send_with(at_body(Answer::clusters(&["first", "nowhere", "second"])), chat()).await;
    assert_eq!(later.trail.to_string(), "first(429)");
    assert_eq!(later.response.status, 503);
}

// Fact 15
#[tokio::test]
async fn attempts_beyond_the_last_group_stay_on_it() {
    let gateway = providers(&[("first", 200), ("second", 429), ("third", 429)]).with(|setup| setup.num_retries = 3);
    let gateway = gateway.start(at_body(Answer::clusters(&["second", "third"]))).await;

    gateway.send(chat()).await.went("second(429) third(429) third(429) third(429)");
}

// Fact 16
#[tokio::test]
async fn header_name_picks_by_value_modulo_the_total_weight_the_same_on_every_attempt() {
    let gateway = providers(&[("a", 429), ("b", 429), ("c", 429), ("fixed", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.with(|setup| setup.header_name = Some("x-rand".to_owned())).start(at_body(Answer::empty())).await;
    let split = [("a", 3.0), ("b", 5.0), ("c", 2.0)];
    let chain = Answer::chain(&[weighted("g", &split), weighted("g", &split), group("last", "fixed")]);

    // Cumulative weights: a 0..3, b 3..8, c 8..10.
    for (value, cluster) in
        [("0", "a"), ("2", "a"), ("3", "b"), ("7", "b"), ("8", "c"), ("9", "c"), ("10", "a"), ("18446744073709551615", "b")]
    {
        let answer = chain.clone().set_header("x-rand", value);
        let told = gateway.send_with(at_body(answer), chat()).await;
        told.went(&format!("{cluster}(429) {cluster}(429) fixed(200)"));
    }
}

// Fact 16: the other half. 40 random picks of two equal clusters are all the same once in 2^39 runs.
#[tokio::test]
async fn a_pick_header_that_is_no_u64_falls_back_to_a_random_pick() {
    let gateway = providers(&[("a", 200), ("b", 200)]).with(|setup| setup.header_name = Some("x-rand".to_owned()));
    let even = Answer::chain(&[weighted("g", &[("a", 1.0), ("b", 1.0)])]);
    let gateway = gateway.start(at_body(even.clone())).await;

    for value in ["abc", "-1", "18446744073709551616", "1.0"] {
        gateway.processor.follow(at_body(even.clone().set_header("x-rand", value)));
        let mut picked = BTreeSet::new();
        for _ in 0..40 {
            picked.insert(gateway.send(chat()).await.trail.to_string());
        }
        assert_eq!(picked.len(), 2, "x-rand: {value} gave {picked:?}");
    }
}
