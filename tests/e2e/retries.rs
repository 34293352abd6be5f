//! What a chain needs of Envoy's own configuration to be walked to its end.

use std::net::SocketAddr;

use cascade::lab::{BodyMode, Cluster};

use crate::answer::Answer;
use crate::gateway::{Gateway, chat, chat_of, ok, providers};
use crate::processor::{at_body, hold_headers};

const MIB: usize = 1 << 20;

// Fact 17
#[tokio::test]
async fn without_refresh_cluster_on_retry_every_group_after_the_first_is_dead() {
    let gateway = providers(&[("fixed", 200), ("one", 429), ("two", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.with(|setup| {
        setup.refresh_cluster_on_retry = false;
        setup.num_retries = 2;
    });
    let gateway = gateway.start(at_body(Answer::clusters(&["one", "two"]))).await;

    gateway.send(chat()).await.went("one(429) one(429) one(429)");
}

// Fact 35, its plain half: whoever refuses connections costs one attempt.
#[tokio::test]
async fn a_provider_that_refuses_connections_costs_one_attempt() {
    let gateway = providers(&[("fixed", 200), ("two", 200)]).dead("one").static_chain(&["fixed"]);
    let gateway = gateway.start(at_body(Answer::clusters(&["one", "two"]))).await;

    gateway.send(chat()).await.went("one(UF) two(200)");
}

// Fact 18
#[tokio::test]
async fn a_body_over_the_buffer_limit_is_not_retried() {
    let gateway = providers(&[("fixed", 200), ("one", 429), ("two", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.with(|setup| {
        setup.body_mode = BodyMode::FullDuplexStreamed;
        setup.buffer_limit = 1 << 20;
    });
    let gateway = gateway.start(hold_headers(Answer::clusters(&["one", "two"]), 1)).await;

    gateway.send(chat_of(3 * MIB)).await.went("one(429)");
    assert_eq!(gateway.stat("cluster.one.retry_or_shadow_abandoned").await, 1);
}

// Fact 18
#[tokio::test]
async fn with_a_higher_buffer_limit_3_mb_are_retried_in_both_modes() {
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed] {
        let gateway = providers(&[("fixed", 200), ("one", 429), ("two", 200)]).static_chain(&["fixed"]);
        let gateway = gateway.with(move |setup| {
            setup.body_mode = mode;
            setup.buffer_limit = 16 << 20;
        });
        let chain = Answer::clusters(&["one", "two"]);
        let script = if mode == BodyMode::Buffered { at_body(chain) } else { hold_headers(chain, 1) };
        let gateway = gateway.start(script).await;
        let request = chat_of(3 * MIB);

        gateway.send(request.clone()).await.went("one(429) two(200)");
        assert!(gateway.provider("two").seen()[0].body == request.body, "{mode}");
    }
}

/// Sixteen clients at once, thirty requests each, over two providers that refuse and one that is well: how many failed.
async fn crowd(gateway: &Gateway) -> usize {
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let address = gateway.envoy.address();
        clients.spawn(async move {
            let mut failed = 0;
            for _ in 0..30 {
                failed += usize::from(ok(chat().send(address).await).status != 200);
            }
            failed
        });
    }
    clients.join_all().await.into_iter().sum()
}

// Fact 33
#[tokio::test]
async fn envoys_default_of_three_retries_at_once_fails_requests_that_had_a_provider_left() {
    let gateway = providers(&[("one", 429), ("two", 429), ("three", 200)]).with(|setup| setup.max_retries = None);
    let gateway = gateway.start(at_body(Answer::clusters(&["one", "two", "three"]))).await;

    let failed = crowd(&gateway).await;
    let overflow = gateway.stat("cluster.one.upstream_rq_retry_overflow").await;
    let elsewhere = gateway.stat("cluster.two.upstream_rq_retry_overflow").await;
    assert!(failed > 0, "nobody was hurt");
    assert_eq!((overflow, elsewhere), (failed as u64, 0), "counted on the first attempt's cluster");
}

// Fact 33
#[tokio::test]
async fn with_max_retries_raised_nobody_fails() {
    let gateway = providers(&[("one", 429), ("two", 429), ("three", 200)]).with(|setup| setup.max_retries = Some(1000));
    let gateway = gateway.start(at_body(Answer::clusters(&["one", "two", "three"]))).await;

    assert_eq!(crowd(&gateway).await, 0);
}

/// `one` refuses, then comes a cluster that has no healthy host, then `two` would be well.
async fn over_a_cluster_without_hosts(cluster: Cluster) -> Gateway {
    let name = cluster.name.clone();
    let gateway = providers(&[("one", 429), ("two", 200)]).static_chain(&["one"]).with(|setup| setup.clusters.push(cluster));
    gateway.start(at_body(Answer::clusters(&["one", &name, "two"]))).await
}

// Fact 35
#[tokio::test]
async fn a_cluster_without_any_host_ends_the_chain_with_503_at_whichever_attempt() {
    let gateway = over_a_cluster_without_hosts(Cluster::empty("hollow")).await;

    let told = gateway.send(chat()).await;
    assert_eq!(told.trail.to_string(), "one(429)", "the attempt that never was has no entry of its own");
    assert_eq!(told.response.status, 503);
    assert_eq!((told.trail.last.to_string().as_str(), told.trail.last.flags.as_str()), ("hollow(503)", "UH"));

    let first = gateway.send_with(at_body(Answer::clusters(&["hollow", "two"])), chat()).await;
    first.went("");
    assert_eq!((first.response.status, first.trail.last.flags.as_str()), (503, "UH"));
}

fn sick(name: &str, panic_threshold: Option<u32>) -> Cluster {
    let refusing = SocketAddr::from(([127, 0, 0, 1], 1));
    Cluster { unhealthy: true, panic_threshold, ..Cluster::new(name, refusing) }
}

// Fact 35
#[tokio::test]
async fn a_cluster_of_unhealthy_hosts_ends_the_chain_if_the_panic_threshold_is_0() {
    let gateway = over_a_cluster_without_hosts(sick("sick", Some(0))).await;

    let told = gateway.send(chat()).await;
    assert_eq!(told.trail.to_string(), "one(429)");
    assert_eq!((told.response.status, told.trail.last.flags.as_str()), (503, "UH"));
}

// Fact 35
#[tokio::test]
async fn with_the_default_panic_threshold_an_unhealthy_host_is_tried_and_the_chain_goes_on() {
    let gateway = over_a_cluster_without_hosts(sick("sick", None)).await;

    gateway.send(chat()).await.went("one(429) sick(UF) two(200)");
}

// Fact 35: the cure, for both kinds.
#[tokio::test]
async fn a_second_priority_that_refuses_connections_keeps_the_chain_going() {
    let refusing = Some(SocketAddr::from(([127, 0, 0, 1], 1)));
    for cluster in [Cluster::empty("lame"), sick("lame", Some(0))] {
        let gateway = over_a_cluster_without_hosts(Cluster { last_resort: refusing, ..cluster }).await;

        gateway.send(chat()).await.went("one(429) lame(UF) two(200)");
    }
}
