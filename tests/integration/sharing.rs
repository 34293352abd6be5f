//! Replicas that share cooldowns through a real Redis: what one learns the other knows, and nothing that Redis does or fails to do
//! harms a request.

use cascade::lab::RedisServer;
use serde_json::Value;

use crate::feedback::{CATALOG, Scene, answered, retry_after, with_token};
use crate::process::{Cascade, eventually};

const AS_WRITTEN: &str = "as_written: one(a b) two(c)";

async fn replica(redis: &RedisServer, more: &[(&str, &str)]) -> Scene {
    let url = redis.url();
    let own = [("SESSION__DIRECTORY", "redis"), ("SESSION__URL", url.as_str()), ("FEEDBACK__SHARE", "redis")];
    Scene::set(&[&own[..], more].concat()).await
}

async fn sharing(scene: &Scene) -> Value {
    scene.cascade.get("/healthz").await.json()["sharing"].clone()
}

async fn shares(scene: &Scene, state: &str) {
    let what = format!("sharing that is {state}");
    eventually(&what, async || (sharing(scene).await["state"] == state).then_some(())).await;
}

async fn goes(scene: &Scene, model: &str, way: &str) {
    eventually(&format!("{model} goes {way}"), async || (scene.way(model).await == way).then_some(())).await;
}

async fn metric(scene: &Scene, result: &str) -> f64 {
    scene.cascade.metric(&format!("cascade_shared_cooldowns_total{{result=\"{result}\"}}")).await.unwrap()
}

/// Something that every replica hears after all that was said before.
async fn all_hear(speaker: &Scene, others: &[&Scene]) {
    speaker.post("/clusters/a/cool?seconds=3600").await;
    for other in others {
        eventually("the marker", async || (other.cluster("a").await["state"] == "cooling").then_some(())).await;
    }
}

#[tokio::test]
async fn a_429_that_one_replica_sees_sends_the_others_past_that_provider() {
    let redis = RedisServer::start().await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let secret = home.path().join("secret");
    std::fs::write(&secret, "a-key-that-all-replicas-share\n").unwrap();
    let secret = [("SECRET_FILE", secret.to_str().unwrap())];
    let (one, two) = (replica(&redis, &secret).await, replica(&redis, &secret).await);
    let sealed = one.token("m").await;
    // Any replica's log may tell of a decision that another one made.
    two.log("cascade", vec![retry_after(with_token(answered("a", 429), &sealed), "30")]).await;
    goes(&one, "m", "reordered: one(b) two(c)").await;
    assert_eq!(one.way("n").await, AS_WRITTEN, "one model of the cluster");
    let (here, there) = (two.cluster("a").await, one.cluster("a").await);
    assert_eq!(here["models"]["m"], there["models"]["m"], "the same reason, since and until");
    let answer = one.post("/clusters/a/clear").await.json();
    assert_eq!(answer["sharing"], "ok");
    goes(&two, "m", AS_WRITTEN).await;
    assert_eq!(one.way("m").await, AS_WRITTEN);
    two.post("/clusters/c/cool?seconds=600").await;
    eventually("what a person said", async || (one.cluster("c").await["reason"] == "operator").then_some(())).await;
    assert_eq!(one.cluster("c").await["until"], two.cluster("c").await["until"]);
    assert!(metric(&one, "learned").await >= 2.0 && metric(&two, "sent").await >= 2.0);
    assert!(one.cascade.output().contains("another replica"));
}

#[tokio::test]
async fn a_replica_that_starts_later_knows_what_cools_and_what_was_cleared() {
    let redis = RedisServer::start().await.unwrap();
    let one = replica(&redis, &[]).await;
    for path in ["/clusters/a/cool?seconds=600", "/clusters/c/cool?seconds=600", "/clusters/c/clear"] {
        assert_eq!(one.post(path).await.status, 200);
    }
    eventually("all is sent", async || (metric(&one, "sent").await >= 3.0).then_some(())).await;
    let two = replica(&redis, &[]).await;
    goes(&two, "m", "reordered: one(b) two(c)").await;
    assert_eq!(two.cluster("c").await["state"], "healthy");
    assert_eq!(two.cluster("a").await["until"], one.cluster("a").await["until"]);
}

#[tokio::test]
async fn a_redis_that_goes_away_and_comes_back_empty_is_told_once_and_harms_nothing() {
    let mut redis = RedisServer::start().await.unwrap();
    let (one, two) = (replica(&redis, &[]).await, replica(&redis, &[]).await);
    shares(&one, "ok").await;
    shares(&two, "ok").await;
    one.post("/clusters/a/cool?seconds=3600").await;
    goes(&two, "m", "reordered: one(b) two(c)").await;
    redis.stop();
    shares(&one, "failing").await;
    shares(&two, "failing").await;
    assert_eq!(one.cascade.metric("cascade_sharing_up{through=\"redis\"}").await, Some(0.0));
    assert_eq!(one.cascade.get("/readyz").await.status, 200);
    // Each goes by what it knows, and what is said now is told when Redis is back.
    assert_eq!(two.way("m").await, "reordered: one(b) two(c)");
    two.log("cascade", vec![retry_after(answered("b", 429), "300")]).await;
    assert_eq!(two.way("m").await, "reordered: two(c) one(a b)");
    redis.run().await.unwrap();
    goes(&one, "m", "reordered: two(c) one(a b)").await;
    shares(&one, "ok").await;
    one.post("/clusters/a/clear").await;
    goes(&two, "m", "reordered: one(a) two(c)").await;
    for scene in [&one, &two] {
        let log = scene.cascade.output();
        assert_eq!(log.matches("cooldowns are not shared").count(), 1, "{log}");
        assert_eq!(log.matches("cooldowns are shared").count(), 2, "at the start and at the return: {log}");
        assert_eq!(scene.cascade.metric("cascade_sharing_up{through=\"redis\"}").await, Some(1.0));
    }
}

#[tokio::test]
async fn without_a_redis_at_the_start_cascade_serves_all_the_same() {
    let mut redis = RedisServer::away().unwrap();
    let scene = replica(&redis, &[]).await;
    assert_eq!(scene.cascade.get("/readyz").await.status, 200);
    shares(&scene, "failing").await;
    assert_eq!(sharing(&scene).await["last_error"], "unreachable");
    scene.log("cascade", vec![retry_after(answered("a", 429), "300")]).await;
    assert_eq!(scene.way("m").await, "reordered: one(b) two(c)");
    assert_eq!(scene.post("/clusters/a/clear").await.json()["sharing"], "failing");
    assert_eq!(scene.way("m").await, AS_WRITTEN);
    redis.run().await.unwrap();
    shares(&scene, "ok").await;
}

#[tokio::test]
async fn garbage_strangers_and_floods_in_the_stream_harm_nothing() {
    let redis = RedisServer::start().await.unwrap();
    let scene = replica(&redis, &[]).await;
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let add = |fields: &str| words(&format!("XADD cascade:cooldowns * {fields}"));
    let far = "since_ms 0 until_ms 18446744073709551615 length_ms 18446744073709551615";
    redis
        .tell(&[
            add("x y"),
            add("cools a"),
            add(&format!("cools b model  cause nonsense {far}")),
            add(&format!("cools nobody model  cause failures {far}")),
            add(&format!("cools b model invented cause failures {far}")),
            add("cleared nobody at_ms 1"),
            add("cools b model  cause failures since_ms 0 until_ms 1 length_ms 1"),
            add(&format!("cools c model  cause failures {far}")),
        ])
        .await
        .unwrap();
    eventually("the last entry", async || (scene.cluster("c").await["state"] == "cooling").then_some(())).await;
    assert_eq!(scene.way("m").await, AS_WRITTEN, "c comes last already");
    let until = scene.cluster("c").await["until"].as_str().unwrap().to_owned();
    assert!(until.starts_with("20"), "within max_cooldown: {until}");
    assert_eq!(metric(&scene, "ignored").await, 6.0);
    // A flood: it is taken in bites, and the decision is still there.
    let flood: Vec<_> = (0..20_000).map(|index| add(&format!("cools stranger-{index} model  cause failures {far}"))).collect();
    redis.tell(&flood).await.unwrap();
    assert_eq!(scene.way("m").await, AS_WRITTEN);
    let listener = replica(&redis, &[]).await;
    all_hear(&scene, &[&listener]).await;
    assert_eq!(scene.cascade.get("/clusters").await.json()["clusters"].as_array().unwrap().len(), 3);
    // A key that is none of ours: the way in is shut, and said so.
    redis.tell(&[words("DEL cascade:cooldowns"), words("SET cascade:cooldowns x")]).await.unwrap();
    shares(&scene, "failing").await;
    assert_eq!(sharing(&scene).await["last_error"], "WRONGTYPE");
    assert_eq!(scene.cascade.get("/readyz").await.status, 200);
    redis.tell(&[words("DEL cascade:cooldowns")]).await.unwrap();
    shares(&scene, "ok").await;
}

#[tokio::test]
async fn replicas_agree_however_cooling_and_clearing_cross() {
    let redis = RedisServer::start().await.unwrap();
    let replicas = [replica(&redis, &[]).await, replica(&redis, &[]).await];
    for round in 0..20 {
        let cool = replicas[round % 2].post("/clusters/c/cool?seconds=3600");
        let clear = replicas[(round + 1) % 2].post("/clusters/c/clear");
        tokio::join!(cool, clear);
    }
    all_hear(&replicas[0], &[&replicas[1]]).await;
    all_hear(&replicas[1], &[&replicas[0]]).await;
    let states = async || (replicas[0].cluster("c").await["state"].clone(), replicas[1].cluster("c").await["state"].clone());
    eventually("agreement", async || Some(states().await).filter(|(one, two)| one == two)).await;
}

#[tokio::test]
async fn sharing_without_a_redis_of_the_sessions_is_an_error_that_says_what_to_set() {
    let home = tempfile::tempdir().unwrap();
    let catalog = home.path().join("catalog.yaml");
    std::fs::write(&catalog, CATALOG).unwrap();
    for settings in
        [&[("FEEDBACK__ENABLED", "true")][..], &[("SESSION__DIRECTORY", "memory"), ("SESSION__URL", "redis://127.0.0.1:1")]]
    {
        let all = [&[("FEEDBACK__SHARE", "redis")], settings].concat();
        let mut cascade = Cascade::start(&["--catalog", catalog.to_str().unwrap()], &all);
        let (code, output) = cascade.ended().await;
        assert_eq!(code, Some(78), "{output}");
        assert!(output.contains("session.directory: redis") && output.contains("session.url"), "{output}");
    }
}

#[tokio::test]
async fn a_redis_that_gives_but_does_not_take_is_no_sharing() {
    let redis = RedisServer::start().await.unwrap();
    let (one, other) = (replica(&redis, &[]).await, replica(&redis, &[]).await);
    shares(&one, "ok").await;
    let memory = |limit: &str| ["CONFIG", "SET", "maxmemory", limit].map(str::to_owned).to_vec();
    redis.tell(&[memory("1")]).await.unwrap();
    one.post("/clusters/b/cool?seconds=600").await;
    shares(&one, "failing").await;
    assert_eq!(sharing(&one).await["last_error"], "OOM");
    redis.tell(&[memory("0")]).await.unwrap();
    shares(&one, "ok").await;
    eventually("what waited is told", async || (other.cluster("b").await["state"] == "cooling").then_some(())).await;
}

#[tokio::test]
async fn a_stream_that_begins_anew_with_lower_ids_is_heard() {
    let redis = RedisServer::start().await.unwrap();
    let (one, other) = (replica(&redis, &[]).await, replica(&redis, &[]).await);
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    redis.tell(&[words("XADD cascade:cooldowns 99999999999999-0 x y")]).await.unwrap();
    for replica in [&one, &other] {
        eventually("the entry of the far future", async || (metric(replica, "ignored").await == 1.0).then_some(())).await;
    }
    redis.tell(&[words("DEL cascade:cooldowns")]).await.unwrap();
    one.post("/clusters/b/cool?seconds=600").await;
    eventually("the other hears", async || (other.cluster("b").await["state"] == "cooling").then_some(())).await;
}

#[tokio::test]
async fn replicas_leave_a_primary_that_was_demoted_for_the_new_one() {
    let (old, new) = (RedisServer::start().await.unwrap(), RedisServer::start().await.unwrap());
    let home = tempfile::tempdir().unwrap();
    // A name that leads to the one and then to the other.
    let lead_to = |server: &RedisServer| {
        let (next, path) = (home.path().join("next"), home.path().join("redis.sock"));
        std::os::unix::fs::symlink(server.url().trim_start_matches("redis+unix://"), &next).unwrap();
        std::fs::rename(next, path).unwrap();
    };
    lead_to(&old);
    let url = format!("redis+unix://{}", home.path().join("redis.sock").display());
    let settings = [("SESSION__DIRECTORY", "redis"), ("SESSION__URL", url.as_str()), ("FEEDBACK__SHARE", "redis")];
    let (one, two) = (Scene::set(&settings).await, Scene::set(&settings).await);
    all_hear(&one, &[&two]).await;
    // The connections stay open, and what is read through them stays as it was.
    old.ask::<()>(&["REPLICAOF", "127.0.0.1", "1"]).await.unwrap();
    lead_to(&new);
    one.post("/clusters/c/cool?seconds=600").await;
    two.post("/clusters/b/cool?seconds=600").await;
    eventually("the new primary is told by both", async || {
        (new.ask::<u64>(&["XLEN", "cascade:cooldowns"]).await.unwrap() >= 2).then_some(())
    })
    .await;
    eventually("both are heard", async || {
        let heard = (two.cluster("c").await["state"] == "cooling", one.cluster("b").await["state"] == "cooling");
        (heard == (true, true)).then_some(())
    })
    .await;
    shares(&one, "ok").await;
}
