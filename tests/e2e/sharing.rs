//! `feedback.share` on a real Envoy: what a provider tells one replica, the requests of the others go by, each through an Envoy of its
//! own.

use cascade::lab::{RedisServer, Reply, Request, Scratch};

use crate::gateway::ok;
use crate::scene::{Scene, catalog_of};

/// A replica, its Envoy, and providers of its own under the names that all replicas' clusters have.
async fn replica(redis: &RedisServer, secret: &str) -> Scene {
    let settings = format!(
        "feedback: {{enabled: true, share: redis, max_cooldown: 10m}}\nsession: {{directory: redis, url: \"{}\"}}\n\
         secret_file: {secret}\n",
        redis.url()
    );
    Scene::with_settings(&settings, &catalog_of(&["one", "two"]), &[("one", 200), ("two", 200)], vec![]).await
}

#[tokio::test]
async fn a_429_at_one_envoy_sends_the_requests_of_another_past_that_provider() {
    let (redis, scratch) = (ok(RedisServer::start().await), ok(Scratch::new()));
    let secret = ok(scratch.write("secret", "a-key-that-all-replicas-share\n")).display().to_string();
    let (here, there) = (replica(&redis, &secret).await, replica(&redis, &secret).await);
    assert_eq!(there.way().await, "one(200)");

    here.provider("one").answer(|_| Reply::too_many(600));
    assert_eq!(here.way().await, "one(429) two(200)");

    there.goes("two(200)").await;
    here.goes("two(200)").await;
    // What a person takes back at one of them holds at both.
    here.provider("one").answer_status(200);
    assert_eq!(ok(there.serve.admin(Request::post("/clusters/one/clear", "")).await).status, 200);
    there.goes("one(200)").await;
    here.goes("one(200)").await;
}
