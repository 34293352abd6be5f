//! What holds of every directory.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::session::parse;

const ANSWER: &str = r#"{"selected_backend":"openai_eu","selected_endpoint":"10.0.0.1:80","endpoint_metadata":{"p":"1"}}"#;

async fn ask(directory: &dyn Directory, key: &str) -> Answer {
    tokio::time::timeout(PATIENCE, directory.look_up(None, key).answer()).await.expect("a directory answers")
}

/// `known` holds [`ANSWER`], `empty` holds `{}`, `unknown` nothing.
async fn keeps_the_contract(directory: &dyn Directory, known: &str, empty: &str, unknown: &str) {
    for _ in 0..2 {
        assert_eq!(ask(directory, known).await, parse(ANSWER.as_bytes()));
        assert_eq!(ask(directory, unknown).await, Answer::Unknown);
        assert_eq!(ask(directory, empty).await, Answer::Unknown);
    }
    // Dropping a question harms nobody else's.
    drop(directory.look_up(None, known));
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
    memory.put(None, "known", &parse(ANSWER.as_bytes()));
    memory.put(None, "away", &Answer::Unavailable(Fault::Timeout));
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
    let long = format!(r#"{{"selected_backend":"{}"}}"#, "x".repeat(8 << 20));
    let known = [("known", ANSWER), ("empty", "{}"), ("garbage", "<html>"), ("no text", ""), ("long", &long)];
    server.tell(&known.map(|(key, value)| vec!["SET", key, value])).await.unwrap();
    let redis = Arc::new(Redis::new(&server.url(), PATIENCE, PATIENCE).unwrap());
    let cached = cached(redis.clone(), &settings());
    for directory in [&*redis as &dyn Directory, &cached] {
        keeps_the_contract(directory, "known", "empty", "unknown").await;
        for key in ["garbage", "no text", "long"] {
            survives_garbage(directory, key).await;
        }
    }
    // Others wait behind a long one no longer than for the longest answer there is.
    let stats: String = server.ask(&["INFO", "stats"]).await.unwrap();
    let sent = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).unwrap();
    assert!(sent.parse::<usize>().unwrap() < 1 << 20, "{sent} bytes");
}

/// Answers every question, and closes each connection without a word of it.
async fn hasty() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/s", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut question = Vec::new();
            while !question.ends_with(b"\r\n\r\n") && connection.read_buf(&mut question).await.is_ok_and(|read| read > 0) {}
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{ANSWER}", ANSWER.len());
            let _ = connection.write_all(answer.as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_costs_no_answer() {
    let (http, url) = (Http::new(PATIENCE).unwrap(), hasty().await);
    for _ in 0..300 {
        assert_eq!(ask(&http, &url).await, parse(ANSWER.as_bytes()));
    }
}

#[tokio::test]
async fn answers_with_much_metadata_count_as_several() {
    let memory = Memory::new(1000, PATIENCE, PATIENCE);
    let many: serde_json::Map<String, Value> = (0..4000).map(|key| (format!("k{key}"), json!({}))).collect();
    let large = parse(json!({"endpoint_metadata": many}).to_string().as_bytes());
    assert!(matches!(large, Answer::Placed(_)));
    (0..1000).for_each(|session| memory.put(None, &format!("large {session}"), &large));
    assert!(memory.len() < 10, "{} large ones", memory.len());
    (0..1000).for_each(|session| memory.put(None, &format!("usual {session}"), &parse(ANSWER.as_bytes())));
    assert!((500..=1000).contains(&memory.len()), "{} usual ones", memory.len());
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
        assert!(matches!(redis.look_up(None, "s").answer().await, Answer::Placed(_)));
        server.ask::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    }
}
