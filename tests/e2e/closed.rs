//! No way around a decision, and none of a request's own to hang: no catalog, upgrades in every mode, answers that outlive Cascade.

use std::net::SocketAddr;
use std::path::Path;

use cascade::lab::{BodyMode, Cluster, Envoy, EnvoySetup, Group, Provider, Request, Scratch, Serve, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::cases::CASCADE;
use crate::gateway::{chat, ok};
use crate::town::{LIMIT, Town, leads_to};

/// Cascade without a catalog, behind an Envoy whose static chain is `fixed`.
async fn without_catalog(fail_open: bool, mode: BodyMode) -> (Envoy, Provider, Serve, Scratch) {
    let scratch = ok(Scratch::new());
    let text = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    ok(scratch.write("cascade.yaml", "catalog: {refresh: 100ms}\n"));
    let arguments = ["--config".to_owned(), text("cascade.yaml"), "--catalog".to_owned(), text("catalog.yaml")];
    let serve = ok(Serve::spawn(Path::new(CASCADE), scratch.path(), &arguments.each_ref().map(String::as_str)));
    ok(serve.bound().await);
    let fixed = ok(Provider::answering("fixed", 200).await);
    let mut setup = EnvoySetup::new(serve.grpc().clone(), vec![Cluster::new("fixed", fixed.address())]);
    setup.failure_mode_allow = fail_open;
    setup.body_mode = mode;
    (ok(Envoy::start(&setup).await), fixed, serve, scratch)
}

#[tokio::test]
async fn without_a_catalog_failure_mode_allow_decides_as_the_operator_wrote_it() {
    for (fail_open, status, way) in [(true, 200, "fixed(200)"), (false, 500, "")] {
        let (envoy, fixed, _serve, _scratch) = without_catalog(fail_open, BodyMode::Buffered).await;
        for request in [chat(), Request::get("/v1/models")] {
            let (response, trail) = ok(envoy.send(request).await);
            assert_eq!((response.status, trail.to_string().as_str()), (status, way), "failure_mode_allow: {fail_open}");
        }
        assert_eq!(fixed.seen().len(), if fail_open { 2 } else { 0 });
    }
}

#[tokio::test]
async fn once_the_catalog_is_there_its_restrictions_hold() {
    let (envoy, fixed, _serve, scratch) = without_catalog(false, BodyMode::Buffered).await;
    assert_eq!(ok(envoy.send(chat()).await).0.status, 500);
    ok(scratch.write("catalog.yaml", &leads_to("fixed")));
    let served = || async { ok(envoy.send(chat()).await).0.status == 200 };
    ok(eventually("the catalog", LIMIT, || async { served().await.then_some(()) }).await);
    assert!(!fixed.seen().is_empty());
}

/// A provider that takes upgrades and says its name; what is sent to it then comes back.
async fn echo(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { return };
                    head.push(byte);
                }
                let head = format!(
                    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nx-served-by: {name}\r\n\r\n"
                );
                let _ = stream.write_all(head.as_bytes()).await;
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
            });
        }
    });
    address
}

/// The head of the answer to an upgrade, and what came back of `ping`.
async fn upgrade(to: SocketAddr, method: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: gateway\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    let read = async {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"ping").await.unwrap();
        let mut back = [0; 4];
        stream.read_exact(&mut back).await.unwrap();
        back
    };
    let back = tokio::time::timeout(LIMIT, read).await.unwrap_or_else(|_| panic!("the upgrade hangs"));
    (String::from_utf8(head).unwrap(), String::from_utf8(back.to_vec()).unwrap())
}

#[tokio::test]
async fn an_upgrade_goes_where_its_query_says_at_once_in_every_mode_and_role() {
    let settings = "session: {sticky: true}\nextract: {model: [{query: model}, {dialect: auto}]}\nlimits: {body_wait: 60s}\n";
    let catalog = format!("{}clusters: {{a: {{models: {{m: renamed}}}}}}\n", leads_to("a"));
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed, BodyMode::None] {
        let (fixed, a) = (echo("fixed").await, echo("a").await);
        for upstream_role in [false, true] {
            let town = Town::with_catalog(&catalog, settings, |setup: &mut EnvoySetup| {
                setup.clusters = vec![Cluster::new("fixed", fixed), Cluster::new("a", a)];
                setup.static_chain = vec![Group::of("fixed", "fixed")];
                setup.body_mode = mode;
                setup.websockets = true;
                setup.upstream_role = upstream_role;
                setup.allow_mode_override = true;
            })
            .await;
            for method in ["GET", "POST"] {
                let (head, back) = upgrade(town.envoy.address(), method, "/v1/realtime?model=m").await;
                let what = format!("{method}, {mode}, upstream role: {upstream_role}");
                assert!(head.starts_with("HTTP/1.1 101") && head.contains("x-served-by: a"), "{what}: {head}");
                assert_eq!(back, "ping", "{what}");
            }
        }
    }
}

/// A provider whose answer streams on until it is told to end it.
async fn slow_answer() -> (SocketAddr, tokio::sync::watch::Sender<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (events, seen) = tokio::sync::watch::channel(0_usize);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut seen = seen.clone();
            tokio::spawn(async move {
                let mut read = [0; 4096];
                let _ = stream.read(&mut read).await;
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
                let _ = stream.write_all(head.as_bytes()).await;
                let mut sent = 0;
                while sent < EVENTS {
                    if seen.wait_for(|events| *events > sent).await.is_err() {
                        return;
                    }
                    sent += 1;
                    let _ = stream.write_all(b"8\r\ndata: x\n\r\n").await;
                }
                let _ = stream.write_all(b"0\r\n\r\n").await;
                let _ = stream.read(&mut read).await;
            });
        }
    });
    (address, events)
}

const EVENTS: usize = 6;

async fn outlives(mode: BodyMode, shows_responses: bool, kill: bool) {
    let (provider, events) = slow_answer().await;
    let settings = "server: {drain: 500ms}\n";
    let mut town = Town::found(settings, |setup: &mut EnvoySetup| {
        setup.clusters = vec![Cluster::new("fixed", provider), Cluster::new("a", provider)];
        setup.body_mode = mode;
        setup.shows_responses = shows_responses;
        setup.failure_mode_allow = false;
    })
    .await;
    let what = format!("{mode}, response headers shown: {shows_responses}, killed: {kill}");
    let body = chat().body;
    let (_, mut sending) = ok(town.envoy.begin(chat(), Some(body.len())).await);
    sending.write(&body).await;
    events.send_replace(2);
    ok(town.envoy.stat_reaches("cluster.a.upstream_rq_2xx", 1).await);
    // Nothing of Cascade is needed any more, long before it goes.
    let closed = async || town.metric("cascade_streams_in_flight").await.filter(|open| *open == 0.0);
    ok(eventually("the end of the ext_proc stream", LIMIT, closed).await);
    if kill {
        town.serve.kill();
    } else {
        ok(town.serve.terminate());
        ok(town.serve.ended(LIMIT).await);
    }
    events.send_replace(EVENTS);
    let response = ok(sending.response().await);
    assert_eq!((response.status, response.text()), (200, "data: x\n".repeat(EVENTS)), "{what}");
    for failed in ["streams_failed", "failure_mode_allowed", "spurious_msgs_received", "message_timeouts"] {
        assert_eq!(ok(town.envoy.stat(&format!("http.ingress.ext_proc.{failed}")).await), 0, "{failed}: {what}");
    }
}

#[tokio::test]
async fn an_answer_that_streams_on_is_whole_though_cascade_ends_or_dies() {
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed] {
        for shows_responses in [false, true] {
            for kill in [false, true] {
                outlives(mode, shows_responses, kill).await;
            }
        }
    }
}

/// Where Envoy shows nothing but what it must, requests one after the other leave no failed stream behind.
#[tokio::test]
async fn streams_that_are_ended_early_are_no_failures() {
    let town = Town::found("", |setup: &mut EnvoySetup| setup.failure_mode_allow = false).await;
    for _ in 0..50 {
        assert_eq!(town.way().await, "a(200)");
    }
    assert_eq!(ok(town.envoy.stat("http.ingress.ext_proc.streams_failed").await), 0);
    let started = ok(town.envoy.stat("http.ingress.ext_proc.streams_started").await);
    assert!(started >= 50, "{started}");
    ok(town.envoy.stat_reaches("http.ingress.ext_proc.streams_closed", started).await);
}
