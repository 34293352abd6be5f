//! How attempts end without anybody saying so: providers that hang, stall or break off, clients that leave, and clusters that Envoy has
//! under another name, without a host, or not at all. Which class that is, what cools, and which session is remembered.

use std::time::Duration;

use cascade::lab::{Cluster, Envoy, EnvoySetup, Reply, Request, Then};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::gateway::ok;
use crate::scene::{FEEDBACK, Scene, catalog_of};

const LEARNS: &str = "session: {learn: true, ttl: 10m}\n";
const EVENT: &str = "data: {}\n\n";
/// Long enough for a busy machine, short enough to wait for.
const LIMIT: Duration = Duration::from_millis(700);

async fn scene(change: impl FnOnce(&mut EnvoySetup)) -> Scene {
    let settings = format!("{LEARNS}{FEEDBACK}");
    Scene::with_envoy(&settings, &catalog_of(&["one", "two"]), &[("one", 200), ("two", 200)], vec![], change).await
}

fn chat_in(session: &str) -> Request {
    Request::post("/v1/chat/completions", r#"{"model":"m","messages":[]}"#).header("x-session-id", session)
}

/// A request whose answer is cut: what was read of it, up to the end of the connection.
async fn send_and_read(envoy: &Envoy, session: &str) -> String {
    let mut stream = begin(envoy, session).await;
    let mut answer = Vec::new();
    // A reset is one way to learn of the cut.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// A client that reads the first event and leaves.
async fn send_and_leave(envoy: &Envoy, session: &str) {
    let mut stream = begin(envoy, session).await;
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains(EVENT) {
        let count = stream.read_buf(&mut answer).await.unwrap();
        assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&answer));
    }
}

async fn begin(envoy: &Envoy, session: &str) -> TcpStream {
    let body = r#"{"model":"m","messages":[]}"#;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: e\r\ncontent-type: application/json\r\nconnection: close";
    let request = format!("{head}\r\nx-session-id: {session}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let mut stream = TcpStream::connect(envoy.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

fn stalls() -> Reply {
    Reply::status(200).header("content-type", "text/event-stream").body(EVENT).then(Then::Stall)
}

/// Nothing that happened to session `s` is remembered: its next request goes where the chain begins.
async fn has_learned_nothing(scene: &Scene) {
    for name in ["one", "two"] {
        scene.provider(name).answer_status(200);
    }
    assert_eq!(ok(scene.envoy.send(chat_in("s")).await).1.to_string(), "one(200)");
}

// Fact 100
#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_an_answer_is_no_success_and_no_failure() {
    for tells_complete in [true, false] {
        let scene = scene(|setup| setup.tells_complete = tells_complete).await;
        // The second provider serves first, so that a session that was wrongly learned would stay there.
        scene.provider("one").answer_status(503);
        scene.provider("two").answer(|_| stalls());
        for _ in 0..4 {
            send_and_leave(&scene.envoy, "s").await;
        }
        scene.counts("two", "client_left", 4.0).await;
        scene.counts("one", "server_error", 3.0).await;
        assert_eq!(scene.metric("cascade_attempts_total{cluster=\"two\",class=\"success\"}").await, 0.0);
        assert_eq!(scene.metric("cascade_cluster_cooling{cluster=\"two\"}").await, 0.0);
        assert_eq!(scene.metric("cascade_session_learned_total{result=\"learned\"}").await, 0.0);
        ok(scene.serve.admin(Request::post("/clusters/one/clear", "")).await);
        has_learned_nothing(&scene).await;
    }
}

// Fact 42
#[tokio::test]
async fn a_client_that_leaves_before_any_answer_says_nothing_of_the_provider() {
    let scene = scene(|_| {}).await;
    scene.provider("one").answer(|_| Reply::silence());
    for times in 1..=4 {
        let client = begin(&scene.envoy, "s").await;
        ok(cascade::lab::eventually("the request at the provider", crate::town::LIMIT, || async {
            (scene.provider("one").begun() >= times).then_some(())
        })
        .await);
        drop(client);
    }
    scene.counts("one", "client_left", 4.0).await;
    assert_eq!(scene.metric("cascade_cluster_cooling{cluster=\"one\"}").await, 0.0);
}

// Facts 40 and 41
#[tokio::test]
async fn a_provider_that_never_answers_costs_one_attempt_and_cools_after_three() {
    for idle in [false, true] {
        let limit = |setup: &mut EnvoySetup| {
            let which = if idle { &mut setup.per_try_idle_timeout } else { &mut setup.per_try_timeout };
            *which = Some(LIMIT);
        };
        let scene = scene(limit).await;
        scene.provider("one").answer(|_| Reply::silence());
        for session in ["a", "b", "c"] {
            let (response, trail) = scene.send(chat_in(session)).await;
            assert_eq!((response.status, trail.last.cluster.as_str()), (200, "two"), "{trail}");
        }
        scene.counts("one", "timeout", 3.0).await;
        scene.cools("one").await;
        scene.goes("two(200)").await;
        let log = scene.serve.log();
        assert!(log.contains("timeout, timeout, timeout"), "the line says which failures: {log}");
    }
}

// Facts 42 and 43
#[tokio::test]
async fn without_a_limit_for_attempts_the_requests_own_entry_tells_that_a_provider_hangs() {
    let scene = scene(|setup| setup.route_timeout = LIMIT).await;
    scene.provider("one").answer(|_| Reply::silence());
    for session in ["a", "b", "c"] {
        let (response, trail) = scene.send(chat_in(session)).await;
        assert_eq!((response.status, trail.last.flags.as_str()), (504, "UT"));
    }
    scene.counts("one", "timeout", 3.0).await;
    scene.goes("two(200)").await;
}

// Fact 44
#[tokio::test]
async fn an_answer_that_stalls_is_a_broken_stream_whichever_limit_ends_it() {
    for by_route in [false, true] {
        let limit = |setup: &mut EnvoySetup| {
            if by_route {
                setup.route_timeout = LIMIT;
            } else {
                setup.per_try_idle_timeout = Some(LIMIT);
            }
        };
        let scene = scene(limit).await;
        scene.provider("one").answer_status(503);
        scene.provider("two").answer(|_| stalls());
        for _ in 0..3 {
            let answer = send_and_read(&scene.envoy, "s").await;
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(EVENT), "{answer}");
        }
        scene.counts("two", "broken_stream", 3.0).await;
        scene.cools("two").await;
        assert_eq!(scene.metric("cascade_attempts_total{cluster=\"two\",class=\"success\"}").await, 0.0);
        assert_eq!(scene.metric("cascade_session_learned_total{result=\"learned\"}").await, 0.0);
        for name in ["one", "two"] {
            ok(scene.serve.admin(Request::post(&format!("/clusters/{name}/clear"), "")).await);
        }
        has_learned_nothing(&scene).await;
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_broken_stream() {
    let scene = scene(|_| {}).await;
    scene.provider("one").answer(|_| Reply::status(200).body(EVENT).then(Then::Break));
    for _ in 0..3 {
        let answer = send_and_read(&scene.envoy, "s").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    scene.counts("one", "broken_stream", 3.0).await;
    scene.goes("two(200)").await;
}

/// Success needs no tag: the request's own entry says that its answer went through.
#[tokio::test]
async fn without_the_tag_the_requests_own_entry_tells_of_success() {
    let scene = scene(|setup| setup.tells_complete = false).await;
    scene.provider("one").answer_status(503);
    assert_eq!(ok(scene.envoy.send(chat_in("s")).await).1.to_string(), "one(503) two(200)");
    scene.counts("two", "success", 1.0).await;
    scene.provider("one").answer_status(200);
    assert_eq!(ok(scene.envoy.send(chat_in("s")).await).1.to_string(), "two(200)", "the session was learned");
    assert_eq!(scene.metric("cascade_fallbacks_total{model=\"m\"}").await, 1.0);
}

/// An empty cluster under another name for statistics, and a first attempt that fails elsewhere.
#[tokio::test]
async fn an_empty_cluster_after_a_failed_attempt_cools_and_not_the_one_that_was_tried() {
    let hollow = Cluster { alt_stat_name: Some("someone-else".to_owned()), ..Cluster::empty("hollow") };
    let catalog = catalog_of(&["one", "hollow", "two"]);
    let scene = Scene::with_settings(FEEDBACK, &catalog, &[("one", 503), ("two", 200)], vec![hollow]).await;
    let (response, trail) = scene.send(chat_in("s")).await;
    assert_eq!((response.status, trail.to_string().as_str(), trail.last.flags.as_str()), (503, "one(503)", "UH"));
    scene.counts("hollow", "no_healthy_host", 1.0).await;
    assert_eq!(scene.metric("cascade_cluster_cooling{cluster=\"one\"}").await, 0.0, "one failure is not three");
    scene.goes("one(503) two(200)").await;
}

// Fact 14
#[tokio::test]
async fn a_cluster_that_envoy_lacks_cools_whichever_attempt_finds_out() {
    for chain in [["gone", "one", "two"], ["one", "gone", "two"]] {
        let scene = Scene::with_catalog(&catalog_of(&chain), &[("one", 503), ("two", 200)], vec![]).await;
        let (response, _) = scene.send(chat_in("s")).await;
        assert_eq!(response.status, 503, "{chain:?}");
        scene.counts("gone", "no_healthy_host", 1.0).await;
        assert_eq!(scene.metric("cascade_cluster_cooling{cluster=\"one\"}").await, 0.0, "{chain:?}");
        scene.goes("one(503) two(200)").await;
    }
}
/// A cluster with another name for statistics is known by its own, whatever becomes of its attempts.
#[tokio::test]
async fn a_cluster_with_a_name_for_statistics_is_known_by_its_own_name() {
    let provider = ok(cascade::lab::Provider::answering("renamed", 503).await);
    let renamed = Cluster { alt_stat_name: Some("someone-else".to_owned()), ..Cluster::new("renamed", provider.address()) };
    let scene = Scene::with_settings(FEEDBACK, &catalog_of(&["renamed", "two"]), &[("two", 200)], vec![renamed]).await;
    for _ in 0..3 {
        assert_eq!(scene.send(chat_in("s")).await.0.status, 200);
    }
    scene.counts("renamed", "server_error", 3.0).await;
    scene.goes("two(200)").await;
    provider.answer_status(200);
    assert_eq!(scene.metric("cascade_feedback_ignored_total{why=\"unknown_cluster\"}").await, 0.0);
}

/// A limit for the headers that runs out while an answer stalls switches the limit for pauses off: why the examples have only one.
#[tokio::test]
async fn a_limit_for_the_headers_beside_one_for_pauses_lets_a_stalled_answer_hang() {
    let scene = scene(|setup| {
        (setup.per_try_timeout, setup.per_try_idle_timeout) = (Some(LIMIT / 2), Some(LIMIT));
        setup.route_timeout = LIMIT * 3;
    })
    .await;
    scene.provider("one").answer(|_| stalls());
    send_and_read(&scene.envoy, "s").await;
    // Only the route's own limit has ended it: the request has the flag, and the attempt has none.
    scene.counts("one", "broken_stream", 1.0).await;
    let path = scene.envoy.directory().join("access.log");
    let flags = async |kind: &str| {
        let line = || async {
            let log = std::fs::read_to_string(&path).ok()?;
            let mut lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            lines.find(|line| line["kind"] == kind)
        };
        ok(cascade::lab::eventually("the line of the log", crate::town::LIMIT, line).await)["flags"].clone()
    };
    assert_eq!((flags("attempt").await, flags("request").await), ("-".into(), "UT".into()));
}
