//! What Cascade learns from attempts, and what each attempt carries: a real Envoy, `cascade serve` with feedback on, and providers
//! that fail in every way there is.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cascade::lab::{Cluster, DeadPort, Provider, Reply, Request, Scratch, eventually};
use serde_json::Value;

use crate::gateway::{chat, ok};
use crate::scene::Scene;
use crate::town::LIMIT;

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
    // The line is written when the monitor wakes, which may be after the first request that goes there again.
    let told = || async { scene.serve.log().contains("a cluster has cooled").then_some(()) };
    ok(eventually("the end of the cooldown in the log", LIMIT, told).await);
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

/// A cluster whose hosts Envoy reads from a file, with this one alone.
fn scalable(scratch: &Scratch, host: SocketAddr) -> Cluster {
    let followed = scratch.path().join("hosts.yaml");
    let cluster = Cluster { followed: Some(followed), ..Cluster::new("scaled", host) };
    scale(&cluster);
    cluster
}

/// Lets Envoy know of the cluster's hosts as an orchestrator does.
fn scale(cluster: &Cluster) {
    let file = cluster.followed.as_ref().unwrap();
    std::fs::write(file.with_extension("new.yaml"), cluster.assignment()).unwrap();
    std::fs::rename(file.with_extension("new.yaml"), file).unwrap();
}

// Fact 35
#[tokio::test]
async fn after_a_cluster_is_scaled_to_zero_the_next_request_skips_it() {
    let (scratch, pod) = (ok(Scratch::new()), ok(Provider::answering("pod", 200).await));
    let mut cluster = scalable(&scratch, pod.address());
    let scene = Scene::set(&[("two", 200)], vec![cluster.clone()], "scaled").await;
    assert_eq!(scene.way().await, "scaled(200)");
    cluster.hosts.clear();
    scale(&cluster);
    // One request runs into it, and none after Cascade has heard of that.
    let lost = || async { (scene.send(chat()).await.1.last.flags == "UH").then_some(()) };
    ok(eventually("the request that finds nobody", LIMIT, lost).await);
    scene.goes("two(200)").await;
    cluster.hosts.push(pod.address());
    scale(&cluster);
    scene.goes("scaled(200)").await;
}

// Fact 35
#[tokio::test]
async fn with_the_sentinel_not_one_request_is_lost_when_a_cluster_is_scaled_to_zero() {
    let (scratch, pod) = (ok(Scratch::new()), ok(Provider::answering("pod", 200).await));
    let refusing = Some(SocketAddr::from(([127, 0, 0, 1], 1)));
    let mut cluster = Cluster { last_resort: refusing, ..scalable(&scratch, pod.address()) };
    scale(&cluster);
    let scene = Scene::set(&[("two", 200)], vec![cluster.clone()], "scaled").await;
    assert_eq!(scene.way().await, "scaled(200)");
    cluster.hosts.clear();
    scale(&cluster);
    let way = || async {
        let (response, trail) = scene.send(chat()).await;
        assert_eq!(response.status, 200, "{trail}");
        (trail.to_string() == "two(200)").then_some(())
    };
    ok(eventually("requests that skip the empty cluster", LIMIT, way).await);
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
