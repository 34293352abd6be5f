//! Endpoints that `session.learn` has learned, on a real Envoy with `examples/envoy/sessions.yaml`: a session comes back to the very
//! process that served it, while that is alive.

use std::collections::HashMap;

use cascade::lab::{Request, eventually};

use crate::gateway::ok;
use crate::sessions::Pool;
use crate::town::LIMIT;

async fn counted(pool: &Pool, result: &str) -> f64 {
    let page = ok(pool.serve.admin(Request::get("/metrics")).await).text();
    let line = format!("cascade_session_learned_total{{result=\"{result}\"}} ");
    page.lines().find_map(|text| text.strip_prefix(&line)?.parse().ok()).unwrap_or_default()
}

async fn learned(pool: &Pool, times: f64) {
    let what = format!("{times} sessions learned");
    ok(eventually(&what, LIMIT, async || (counted(pool, "learned").await >= times).then_some(())).await);
}

// Facts 22 to 24 and 28
#[tokio::test]
async fn a_session_that_nobody_knows_comes_back_to_the_endpoint_that_served_it() {
    let pool =
        Pool::open(", learn: true, learn_endpoint: true, ttl: 10m, negative_ttl: 1ms\nfeedback: {enabled: true}\n", |yaml| yaml)
            .await;
    // Round robin spreads what nobody has seen yet over both.
    let mut homes = HashMap::new();
    for session in ["s1", "s2", "s3", "s4"] {
        homes.insert(session, pool.send("assistant", session).await.1);
    }
    learned(&pool, 4.0).await;
    assert!(homes.values().any(|home| home == "agent-1") && homes.values().any(|home| home == "agent-2"), "{homes:?}");
    for (session, home) in &homes {
        pool.serves("assistant", session, home).await;
    }
    // Beside the entries of a model an endpoint would become part of each: it is not sent there.
    let (served, question) = (pool.send("reasoner", "s1").await.1, r#"{"model":"reasoner","session":"s1"}"#);
    learned(&pool, 5.0).await;
    let told = ok(pool.serve.admin(Request::post("/explain", question)).await);
    let told: serde_json::Value = serde_json::from_slice(&told.body).unwrap();
    assert!(served.starts_with("gpu-p") && told["directory"]["learned_here"]["selected_endpoint"].is_string(), "{told}");
    assert_eq!(
        told["endpoint_metadata"],
        serde_json::json!({"fallback_list": [{"tier": "gpu"}, {"tier": "spare"}, {"any": "endpoint"}]})
    );
    // All agents fail: the endpoint reaches the subset cluster behind them and does no harm there.
    ["agent-1", "agent-2"].iter().for_each(|name| pool.endpoint(name).answer_status(503));
    let (status, served, way) = pool.send("assistant", "s1").await;
    assert_eq!((status, served.as_str(), way.as_str()), (200, "cpu", "agents(503) agents(503) cpu_pool(200)"));
    learned(&pool, 6.0).await;
    ["agent-1", "agent-2"].iter().for_each(|name| pool.endpoint(name).answer_status(200));
    pool.serves("assistant", "s1", "cpu").await;
    pool.serves("assistant", "s2", &homes["s2"]).await;
}

// Facts 22 and 28
#[tokio::test]
async fn a_session_whose_endpoint_is_dead_lives_at_the_one_that_serves_it_instead() {
    let settings = ", learn: true, learn_endpoint: true, ttl: 48s, negative_ttl: 1ms\nfeedback: {enabled: true, consecutive_failures: 1000}\n";
    let mut pool = Pool::open(settings, |yaml| yaml).await;
    let home = pool.send("assistant", "s").await.1;
    learned(&pool, 1.0).await;
    pool.serves("assistant", "s", &home).await;
    pool.endpoints.retain(|endpoint| endpoint.name() != home);
    let other = if home == "agent-1" { "agent-2" } else { "agent-1" };
    // Each request finds it dead and is served by the other one, until that is known; not by the renewal at half the time.
    let moved = async || {
        let (status, served, way) = pool.send("assistant", "s").await;
        assert_eq!((status, served.as_str()), (200, other), "{way}");
        if way != "agents(200)" {
            assert_eq!(way, "agents(UF) agents(200)");
        }
        (way == "agents(200)").then_some(())
    };
    ok(eventually("the session's move", LIMIT, moved).await);
    pool.serves("assistant", "s", other).await;
    assert_eq!((counted(&pool, "learned").await, counted(&pool, "renewed").await), (2.0, 0.0));
}
