//! What the log holds, and what it must never hold.

use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use cascade::lab::RedisServer;

use crate::catalog::Home;
use crate::grpc::{self, Stream};
use crate::http;
use crate::process::{Cascade, eventually};

#[tokio::test]
async fn no_body_key_or_session_is_logged_however_much_is_logged() {
    let home = Home::with_catalog("one");
    home.write("cascade.yaml", "extract: {tenant: [{api_key: {header: authorization, scheme: Bearer}}]}\n");
    let arguments = ["--catalog", &home.text("catalog.yaml"), "--config", &home.text("cascade.yaml")];
    let cascade = Cascade::ready(&arguments, &[("TELEMETRY__LOG", "trace")]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let body = br#"{"model": "m", "session": "canary-session", "messages": "canary-prompt"}"#.to_vec();
    let headers = [("authorization", "Bearer canary-key"), ("x-session-id", "canary-header"), ("cookie", "canary-cookie")];
    let mut stream = Stream::open(&channel).await.unwrap();
    stream.buffered(&headers, body).await;
    let question = r#"{"model": "canary-model", "session": "canary-asked", "body": "canary-body"}"#;
    assert_eq!(http::post(&cascade.admin().await, "/explain", question).await.status, 200);
    let says = |word: &str| cascade.output().contains(word);
    eventually("a talkative log", async || (says(" TRACE ") && says("event=\"decision\"")).then_some(())).await;
    let output = cascade.output();
    let leak = output.lines().find(|line| line.contains("canary"));
    assert_eq!(leak, None);
}

#[tokio::test]
async fn json_logs_carry_the_bound_addresses_as_fields() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::start(
        &["--catalog", &home.text("catalog.yaml")],
        &[("TELEMETRY__LOG_FORMAT", "json"), ("PROBE", "127.0.0.1:0")],
    );
    let find = |name: &str| {
        let lines = cascade.output();
        let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.find_map(|line| Some(line.get(name)?.as_str()?.to_owned()))
    };
    for name in ["listen", "admin", "probe"] {
        let address = eventually(name, async || find(name)).await;
        let reached = std::net::TcpStream::connect_timeout(&address.parse().unwrap(), Duration::from_secs(5));
        assert!(reached.is_ok(), "{name} {address}");
    }
    assert!(cascade.output().lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{}", cascade.output());
}

#[tokio::test]
async fn a_session_directory_that_fails_at_one_key_is_told_once_a_minute_and_in_the_words_of_its_fault() {
    let home = Home::with_catalog("one");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/{{session}}", listener.local_addr().unwrap());
    let broken = async || StatusCode::INTERNAL_SERVER_ERROR;
    let router = Router::new().route("/garbage", get(async || "<html>")).route("/refused", get(broken));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let place = url.trim_start_matches("http://").trim_end_matches("/{session}");
    for (fault, cause, words) in
        [("garbage", "it is no JSON object", "is no placement"), ("refused", "status 500", "answers with an error")]
    {
        let settings = [
            ("SESSION__DIRECTORY", "http"),
            ("SESSION__URL", &url),
            ("SESSION__TIMEOUT", "20s"),
            ("LIMITS__DECISION_DEADLINE", "20s"),
        ];
        let mut cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
        let channel = grpc::connect(&cascade.listen().await).await;
        for unknown in ["a", "b", "c"] {
            for session in [fault, unknown] {
                let mut stream = Stream::open(&channel).await.unwrap();
                stream.buffered(&[("x-session-id", session)], br#"{"model": "m"}"#.to_vec()).await;
            }
        }
        let lookups = |result| format!("cascade_session_lookups_total{{result=\"{result}\"}}");
        for result in [fault, "unknown"] {
            assert_eq!(cascade.metric(&lookups(result)).await, Some(3.0), "{result}");
        }
        cascade.terminate();
        let (_, output) = cascade.ended().await;
        let away: Vec<&str> = output.lines().filter(|line| line.contains("session_directory_away")).collect();
        assert_eq!(away.len(), 1, "{output}");
        let fields = format!("place=\"{place}\" why=\"{fault}\" failed=1 cause=\"{cause}\"");
        assert!(away[0].contains(words) && away[0].contains(&fields), "{away:?}");
        assert_eq!(output.matches("session_directory_back").count(), 1, "{output}");
    }
}

/// A request of a session of a directory in trouble, and the line that tells of it. Nothing with `canary` is in the log.
async fn trouble(settings: &[(&str, &str)]) -> String {
    let home = Home::with_catalog("one");
    let more = [("TELEMETRY__LOG", "trace"), ("SESSION__TIMEOUT", "10s"), ("LIMITS__DECISION_DEADLINE", "10s")];
    let settings: Vec<_> = more.iter().chain(settings).copied().collect();
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut stream = Stream::open(&channel).await.unwrap();
    stream.buffered(&[("x-session-id", "canary-session")], br#"{"model": "m"}"#.to_vec()).await;
    let line = || cascade.output().lines().find(|line| line.contains("session_directory_away")).map(str::to_owned);
    let line = eventually("a line of the trouble", async || line()).await;
    let output = cascade.output();
    assert_eq!(output.lines().find(|line| line.contains("canary")), None);
    assert!(output.contains(" TRACE "), "{output}");
    line
}

#[tokio::test]
async fn a_directory_in_trouble_is_told_with_its_place_and_cause_and_without_keys_or_secrets() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let router = Router::new()
        .route("/canary-path/{session}", get(async || r#"{"selected_backend": "canary", "ttl_seconds": "canary"}"#))
        .route("/moved/{session}", get(async || (StatusCode::FOUND, [("location", "/canary-path/x")])));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nowhere = gone.local_addr().unwrap().to_string();
    drop(gone);
    let redis = RedisServer::start().await.unwrap();
    let of_redis = redis.url().trim_start_matches("redis+unix://").to_owned();
    redis.ask::<()>(&["SET", "canary-session", "canary-value"]).await.unwrap();
    let (at, session) = ("http://canary:canary@", "{session}?key=canary");
    for (directory, url, expected) in [
        ("http", format!("{at}{place}/canary-path/{session}"), [&*place, "garbage", "ttl_seconds is no number of seconds"]),
        ("http", format!("{at}{place}/moved/{session}"), [&*place, "refused", "status 302"]),
        ("http", format!("{at}{nowhere}/{session}"), [&*nowhere, "unreachable", "Connection refused"]),
        ("redis", format!("redis://{nowhere}"), [&*nowhere, "unreachable", "Connection refused"]),
        ("redis", redis.url(), [&*of_redis, "garbage", "it is no JSON object"]),
        ("redis", format!("{}?pass=canary", redis.url()), [&*of_redis, "refused", "authentication failed"]),
    ] {
        let key = if directory == "redis" { "{session}" } else { "" };
        let line = trouble(&[("SESSION__DIRECTORY", directory), ("SESSION__URL", &url), ("SESSION__KEY", key)]).await;
        let [place, why, cause] = expected;
        for part in [&format!("place=\"{place}\""), &format!("why=\"{why}\""), &format!("cause=\"{cause}")] {
            assert!(line.contains(part.as_str()), "{part} is not in {line}");
        }
    }
}
