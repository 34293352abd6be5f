//! What holds of every directory.

use super::*;
use crate::session::parse;

const ANSWER: &str = r#"{"selected_backend":"openai_eu","selected_endpoint":"10.0.0.1:80","endpoint_metadata":{"p":"1"}}"#;

async fn ask(directory: &dyn Directory, key: &str) -> Answer {
    tokio::time::timeout(PATIENCE, directory.look_up(key).answer()).await.expect("a directory answers")
}

/// `known` holds [`ANSWER`], `empty` holds `{}`, `unknown` nothing.
async fn keeps_the_contract(directory: &dyn Directory, known: &str, empty: &str, unknown: &str) {
    for _ in 0..2 {
        assert_eq!(ask(directory, known).await, parse(ANSWER.as_bytes()));
        assert_eq!(ask(directory, unknown).await, Answer::Unknown);
        assert_eq!(ask(directory, empty).await, Answer::Unknown);
    }
    // Dropping a question harms nobody else's.
    drop(directory.look_up(known));
    let all = futures_util::future::join_all((0..100).map(|_| ask(directory, known))).await;
    assert!(all.iter().all(|answer| *answer == parse(ANSWER.as_bytes())));
}

/// The same for one that hears garbage at `garbage`: there is no answer, and none is remembered.
async fn survives_garbage(directory: &dyn Directory, garbage: &str) {
    for _ in 0..2 {
        assert_eq!(ask(directory, garbage).await, Answer::Unavailable(Fault::Garbage));
    }
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    let memory = Memory::new(100, PATIENCE, PATIENCE);
    memory.put("known", &parse(ANSWER.as_bytes()));
    memory.put("away", &Answer::Unavailable(Fault::Timeout));
    keeps_the_contract(&memory, "known", "empty", "unknown").await;
    assert_eq!(ask(&memory, "away").await, Answer::Unknown, "that nobody answered is not remembered");
}

#[tokio::test]
async fn http_keeps_the_contract_cached_or_not() {
    let (web, url) = Web::open().await;
    web.tell("/known", 200, ANSWER);
    web.tell("/empty", 200, "{}");
    web.tell("/garbage", 200, "<html>");
    web.tell("/long", 200, &"x".repeat(1 << 20));
    web.tell("/moved", 302, "");
    web.tell("/broken", 500, ANSWER);
    let http = Arc::new(Http::new(PATIENCE).unwrap());
    let cached = cached(http.clone(), &settings());
    let at = |path: &str| format!("{url}/{path}");
    for directory in [&*http as &dyn Directory, &cached] {
        keeps_the_contract(directory, &at("known"), &at("empty"), &at("unknown")).await;
        survives_garbage(directory, &at("garbage")).await;
        survives_garbage(directory, &at("long")).await;
        for path in ["moved", "broken"] {
            assert_eq!(ask(directory, &at(path)).await, Answer::Unavailable(Fault::Refused), "{path}");
        }
    }
}

#[tokio::test]
async fn redis_keeps_the_contract_cached_or_not() {
    let server = RedisServer::start().await.unwrap();
    let known = [("known", ANSWER), ("empty", "{}"), ("garbage", "<html>")];
    server.tell(&known.map(|(key, value)| vec!["SET", key, value])).await.unwrap();
    let redis = Arc::new(Redis::new(&server.url(), PATIENCE, PATIENCE).unwrap());
    let cached = cached(redis.clone(), &settings());
    for directory in [&*redis as &dyn Directory, &cached] {
        keeps_the_contract(directory, "known", "empty", "unknown").await;
        survives_garbage(directory, "garbage").await;
    }
}

#[tokio::test]
async fn redis_that_was_away_is_found_again() {
    let mut server = RedisServer::start().await.unwrap();
    let redis = Redis::new(&server.url(), Duration::from_secs(2), PATIENCE).unwrap();
    assert_eq!(ask(&redis, "k").await, Answer::Unknown);
    server.stop();
    assert!(matches!(ask(&redis, "k").await, Answer::Unavailable(_)));
    server.run().await.unwrap();
    until("the connection is made anew", async || ask(&redis, "k").await == Answer::Unknown).await;
}

#[tokio::test]
async fn a_connection_that_redis_has_closed_costs_no_answer() {
    let server = RedisServer::start().await.unwrap();
    server.ask::<()>(&["SET", "s", r#"{"selected_backend":"b"}"#]).await.unwrap();
    let redis = Redis::new(&server.url(), PATIENCE, PATIENCE).unwrap();
    for _ in 0..5 {
        assert!(matches!(redis.look_up("s").answer().await, Answer::Placed(_)));
        server.ask::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    }
}
