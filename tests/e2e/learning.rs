//! `session.learn` on a real Envoy: a session that failed over stays where it was served, for its time, on every replica, and for
//! its tenant alone.

use std::time::Duration;

use cascade::lab::{Provider, RedisServer, Reply, Request, Scratch, eventually};

use crate::gateway::ok;
use crate::scene::{FEEDBACK, Scene, catalog_of};
use crate::town::LIMIT;

const TENANT: &str = "extract: {tenant: [{header: x-tenant, trusted: true}]}\n";

fn catalog() -> String {
    format!("{}tenants: {{acme: {{}}, globex: {{}}}}\n", catalog_of(&["one", "two"]))
}

async fn scene(session: &str, more: &str) -> Scene {
    let settings = format!("session: {{learn: true, {session}}}\n{FEEDBACK}{TENANT}{more}");
    Scene::with_settings(&settings, &catalog(), &[("one", 200), ("two", 200)], vec![]).await
}

/// The way of one request of the session.
async fn way(scene: &Scene, tenant: &str, session: &str) -> String {
    let request = Request::post("/v1/chat/completions", r#"{"model":"m","messages":[]}"#);
    let (response, trail) = scene.send(request.header("x-tenant", tenant).header("x-session-id", session)).await;
    assert_eq!(response.status, 200, "{trail}");
    trail.to_string()
}

async fn goes(scene: &Scene, tenant: &str, session: &str, expected: &str) {
    let what = format!("{tenant}'s {session} goes {expected}");
    ok(eventually(&what, LIMIT, || async { (way(scene, tenant, session).await == expected).then_some(()) }).await);
}

async fn learned(scene: &Scene, results: &[&str], times: f64) {
    let what = format!("{times} sessions {results:?}");
    let count = || async {
        let mut sum = 0.0;
        for result in results {
            sum += scene.metric(&format!("cascade_session_learned_total{{result=\"{result}\"}}")).await;
        }
        (sum >= times).then_some(())
    };
    ok(eventually(&what, LIMIT, count).await);
}

/// The first provider fails one request of the session, and is well again.
async fn fail_over(scene: &Scene, tenant: &str, session: &str) {
    scene.provider("one").answer_status(503);
    assert_eq!(way(scene, tenant, session).await, "one(503) two(200)");
    scene.provider("one").answer_status(200);
}

// Fact 28a
#[tokio::test]
async fn a_session_that_failed_over_stays_though_the_first_provider_is_back_until_its_time_is_over() {
    let scene = scene("ttl: 3s", "").await;
    fail_over(&scene, "acme", "s").await;
    learned(&scene, &["learned"], 1.0).await;
    assert_eq!(way(&scene, "acme", "s").await, "two(200)");
    // The tenant's other sessions and the other tenant's session of the same id stay where the chain says.
    assert_eq!(way(&scene, "acme", "other").await, "one(200)");
    assert_eq!(way(&scene, "globex", "s").await, "one(200)");
    assert_eq!(way(&scene, "acme", "s").await, "two(200)");
    // Requests would renew it: the explanation is asked instead. The address is not asked for, and not remembered.
    let question = || Request::post("/explain", r#"{"model":"m","tenant":"acme","session":"s"}"#);
    let directory = || async {
        let answer: serde_json::Value = serde_json::from_slice(&ok(scene.serve.admin(question()).await).body).unwrap();
        answer["directory"].clone()
    };
    let told = directory().await;
    assert_eq!((&told["selected_backend"], &told["selected_endpoint"]), (&"two".into(), &serde_json::Value::Null), "{told}");
    let is_over = || async { (directory().await["answer"] == "unknown").then_some(()) };
    ok(eventually("the end of its time", LIMIT, is_over).await);
    assert_eq!(way(&scene, "acme", "s").await, "one(200)");
}

#[tokio::test]
async fn a_session_learned_at_a_provider_that_then_fails_moves_on() {
    let scene = scene("ttl: 10m", "").await;
    fail_over(&scene, "acme", "s").await;
    learned(&scene, &["learned"], 1.0).await;
    scene.provider("two").answer(|_| Reply::too_many(600));
    // A dead owner costs one attempt, and while it cools none.
    assert_eq!(way(&scene, "acme", "s").await, "two(429) one(200)");
    scene.cools("two").await;
    assert_eq!(way(&scene, "acme", "s").await, "one(200)");
    learned(&scene, &["learned"], 2.0).await;
    scene.provider("two").answer_status(200);
    ok(scene.serve.admin(Request::post("/clusters/two/clear", "")).await);
    assert_eq!(way(&scene, "acme", "s").await, "one(200)", "it lives here now");
}

#[tokio::test]
async fn replicas_share_what_they_learned_through_redis_and_tenants_share_nothing() {
    let redis = ok(RedisServer::start().await);
    let scratch = ok(Scratch::new());
    let secret = ok(scratch.write("secret", "a-key-that-all-replicas-share\n"));
    let session = format!("directory: redis, url: \"{}\", timeout: 5s, ttl: 10m, negative_ttl: 1ms", redis.url());
    let more = format!("secret_file: {}\nlimits: {{decision_deadline: 1s}}\n", secret.display());
    let replicas = [scene(&session, &more).await, scene(&session, &more).await];
    fail_over(&replicas[0], "acme", "s").await;
    learned(&replicas[0], &["learned"], 1.0).await;
    for replica in &replicas {
        assert_eq!(way(replica, "acme", "s").await, "two(200)");
        assert_eq!(way(replica, "globex", "s").await, "one(200)");
    }
    // And a word that somebody else has put there counts as it always did: what is learned leaves it alone.
    assert_eq!(replicas[0].metric("cascade_session_learned_total{result=\"failed\"}").await, 0.0);
}

#[tokio::test]
async fn beside_a_directory_over_http_what_was_learned_counts_where_its_word_does_not() {
    let directory = ok(Provider::answering("directory", 404).await);
    let url = format!("http://{}/{{tenant}}/{{model}}/{{session}}", directory.address());
    let session = format!("directory: http, url: \"{url}\", timeout: 5s, ttl: 10m, negative_ttl: 1ms");
    let scene = scene(&session, "limits: {decision_deadline: 1s}\n").await;
    fail_over(&scene, "acme", "s").await;
    learned(&scene, &["learned"], 1.0).await;
    assert_eq!(way(&scene, "acme", "s").await, "two(200)", "it is unknown there");
    directory.answer_status(500);
    assert_eq!(way(&scene, "acme", "s").await, "two(200)", "it does not answer");
    directory.answer(|_| Reply::status(200).body(r#"{"selected_backend":"elsewhere","ttl_seconds":0}"#));
    assert_eq!(way(&scene, "acme", "s").await, "two(200)", "it names what the chain does not hold");
    let question = Request::post("/explain", r#"{"model":"m","tenant":"acme","session":"s"}"#);
    let told: serde_json::Value = serde_json::from_slice(&ok(scene.serve.admin(question).await).body).unwrap();
    let (said, learned) = (&told["directory"]["selected_backend"], &told["directory"]["learned_here"]["selected_backend"]);
    assert_eq!((said, learned), (&"elsewhere".into(), &"two".into()));
    directory.answer(|_| Reply::status(200).body(r#"{"selected_backend":"one"}"#));
    goes(&scene, "acme", "s", "one(200)").await;
}

/// A session whose directory names a provider that cools.
#[tokio::test]
async fn a_session_placed_at_a_cooling_provider_goes_elsewhere_until_it_has_cooled() {
    let directory = ok(Provider::start("directory", |_| Reply::status(200).body(r#"{"selected_backend":"two"}"#)).await);
    let url = format!("http://{}/{{tenant}}/{{model}}/{{session}}", directory.address());
    let settings = format!(
        "session: {{directory: http, url: \"{url}\", timeout: 5s}}\n{FEEDBACK}{TENANT}limits: {{decision_deadline: 1s}}\n"
    );
    let scene = Scene::with_settings(&settings, &catalog(), &[("one", 200), ("two", 200)], vec![]).await;
    assert_eq!(way(&scene, "acme", "s").await, "two(200)");
    scene.provider("two").answer(|_| Reply::too_many(2));
    assert_eq!(way(&scene, "acme", "s").await, "two(429) one(200)");
    scene.cools("two").await;
    assert_eq!(way(&scene, "acme", "s").await, "one(200)");
    scene.provider("two").answer_status(200);
    goes(&scene, "acme", "s", "two(200)").await;
}

#[tokio::test]
async fn a_session_that_goes_on_is_renewed_beyond_its_first_time() {
    let scene = scene("ttl: 1s", "").await;
    fail_over(&scene, "acme", "s").await;
    let start = std::time::Instant::now();
    learned(&scene, &["learned"], 1.0).await;
    while start.elapsed() < Duration::from_secs(3) {
        assert_eq!(way(&scene, "acme", "s").await, "two(200)", "after {:?}", start.elapsed());
        tokio::task::yield_now().await;
    }
    learned(&scene, &["renewed"], 2.0).await;
}
