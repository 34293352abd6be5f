//! Requests of every shape on their way through the upstream role, on a real Envoy: chunked and trailing ones, those that wait for
//! `100 Continue`, empty, compressed and large ones, and WebSockets. And what a filter without its role does.

use std::io::Write as _;

use cascade::lab::{OwnFilters, Reply, Request, eventually};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::gateway::ok;
use crate::street::{Fate, Street};
use crate::town::LIMIT;

const ONE: &str = "vendor-one-with-a-much-longer-name";

fn chat(model: &str) -> String {
    format!("{{\"model\":\"{model}\",\"messages\":[]}}")
}

/// Writes these bytes, the second after the server has said `100 Continue`, and reads the answer to its end.
async fn converse(street: &Street, head: &str, then: Option<&str>) -> String {
    let mut stream = TcpStream::connect(street.envoy.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    if let Some(then) = then {
        while !answer.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "an end before its time");
        }
        assert!(answer.starts_with(b"HTTP/1.1 100 Continue"), "{}", String::from_utf8_lossy(&answer));
        answer.clear();
        stream.write_all(then.as_bytes()).await.unwrap();
    }
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn bodies_that_come_in_any_way_are_whole_at_every_attempt() {
    let street = Street::build(|_| {}).await;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let body = chat("alias-m");
    let (first, last) = body.split_at(7);
    let chunks = format!("{:x}\r\n{first}\r\n{:x}\r\n{last}\r\n0\r\n", first.len(), last.len());
    for (what, head, then) in [
        ("chunked", format!("{head}transfer-encoding: chunked\r\n\r\n{chunks}\r\n"), None),
        ("trailers", format!("{head}transfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n{chunks}x-sum: 1\r\n\r\n"), None),
        ("expect", format!("{head}content-length: {}\r\nexpect: 100-continue\r\n\r\n", body.len()), Some(body.as_str())),
    ] {
        let before = street.seen();
        let answer = converse(&street, &head, then).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
        for (seen, name) in street.since(before, what).into_iter().zip([ONE, "v", "m"]) {
            assert_eq!(
                (String::from_utf8_lossy(&seen.body).into_owned(), seen.header("content-length")),
                (chat(name), None),
                "{what}"
            );
        }
    }
}

#[tokio::test]
async fn what_has_no_body_or_one_that_cannot_be_read_stays_as_it_is() {
    let mut street = Street::build(|_| {}).await;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(chat("alias-m").as_bytes()).unwrap();
    let compressed = Request::post("/v1/chat/completions", gzip.finish().unwrap()).header("content-encoding", "gzip");
    let empty = Request::post("/custom?model=alias-m", "");
    let twice = Request::post("/custom?model=alias-m", r#"{"model":"alias-m","model":"alias-n"}"#);
    for fate in [Fate::Lives, Fate::Freezes] {
        for (what, request) in [("compressed", &compressed), ("empty", &empty), ("twice", &twice)] {
            for seen in street.send(what, request, fate).await {
                assert_eq!(seen.body, request.body, "{what}");
                assert_eq!(seen.header("content-length"), Some(request.body.len().to_string().as_str()), "{what}");
            }
        }
    }
    assert!(street.metric("cascade_upstream_rewrites_total{result=\"compressed\"}").await >= 4.0);
}

#[tokio::test]
async fn a_large_body_is_whole_whatever_the_cluster_buffers() {
    let large = |model: &str| format!("{{\"model\":\"{model}\",\"x\":\"{}\"}}", "y".repeat(3 << 20));
    let request = Request::post("/v1/chat/completions", large("alias-m"));
    // Envoy's default is 1 MiB.
    for limit in [None, Some(64 << 10), Some(8 << 20)] {
        let mut street = Street::build(|clusters| clusters.iter_mut().for_each(|cluster| cluster.buffer_limit = limit)).await;
        for fate in [Fate::Lives, Fate::Freezes] {
            let names = if fate == Fate::Lives { [ONE, "v", "m"] } else { [ONE, "alias-m", "alias-m"] };
            for (seen, name) in street.send("large", &request, fate).await.into_iter().zip(names) {
                let start = String::from_utf8_lossy(&seen.body[..seen.body.len().min(60)]).into_owned();
                assert!(seen.body == large(name).as_bytes(), "{limit:?} {fate:?}: {name}: {} bytes: {start}", seen.body.len());
            }
        }
    }
}

// Fact 99
#[tokio::test]
async fn a_websocket_opens_at_a_cluster_with_names_of_its_own() {
    let street = Street::build(|_| {}).await;
    street.answer(1, |_| Reply::status(101).header("connection", "upgrade").header("upgrade", "websocket"));
    for path in ["/custom?model=alias-m", "/v1/realtime?model=alias-m"] {
        let mut stream = TcpStream::connect(street.envoy.address()).await.unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "an end before its time");
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with("HTTP/1.1 101"), "{path}: {answer}");
        let at = |number: usize| street.requests(number).pop().unwrap().path;
        assert_eq!((at(0), at(1)), (path.replace("alias-m", ONE), path.replace("alias-m", "v")));
    }
}

#[tokio::test]
async fn a_filter_of_attempts_without_its_role_is_told_of() {
    let street = Street::build(|clusters| clusters[0].own_filters = OwnFilters::RoleUnnamed).await;
    let (_, trail) = ok(street.envoy.send(Request::post("/v1/chat/completions", chat("alias-m"))).await);
    assert_eq!(trail.to_string(), "one(503) two(503) three(200)");
    let said = async || street.serve.log().contains("x-cascade-role, value: upstream").then_some(());
    ok(eventually("the line about the role", LIMIT, said).await);
    assert_eq!(street.metric("cascade_decided_twice_total").await, 1.0, "the first attempt's");
}
