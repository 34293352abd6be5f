//! Entries of Envoy's log in every order and condition: what an attempt's own entry leaves open is settled by its request's, whichever
//! comes first; what cannot be used is counted and said, and takes nothing else with it.

use envoy_types::pb::envoy::data::accesslog::v3::{AccessLogType, HttpAccessLogEntry, ResponseFlags};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use crate::catalog::Home;
use crate::feedback::{Scene, answered, entry, token, with_token};
use crate::grpc;
use crate::process::eventually;

const STREAM: &str = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";
const LEARNS: [(&str, &str); 3] = [("SESSION__LEARN", "true"), ("SESSION__TTL", "10m"), ("FEEDBACK__CONSECUTIVE_FAILURES", "3")];

fn typed(mut entry: HttpAccessLogEntry, kind: AccessLogType) -> HttpAccessLogEntry {
    entry.common_properties.get_or_insert_default().access_log_type = kind.into();
    entry
}

/// An attempt as Envoy logs it.
fn attempt(cluster: &str, status: u32) -> HttpAccessLogEntry {
    typed(answered(cluster, status), AccessLogType::UpstreamEnd)
}

/// A request as the connection manager logs it.
fn request(status: u32, flags: ResponseFlags) -> HttpAccessLogEntry {
    typed(entry("", status, flags), AccessLogType::DownstreamEnd)
}

fn left() -> ResponseFlags {
    ResponseFlags { downstream_connection_termination: true, ..Default::default() }
}

fn timed_out() -> ResponseFlags {
    ResponseFlags { upstream_request_timeout: true, ..Default::default() }
}

fn named(mut entry: HttpAccessLogEntry, id: &str) -> HttpAccessLogEntry {
    entry.request.get_or_insert_default().request_id = id.to_owned();
    entry
}

async fn class(scene: &Scene, cluster: &str, class: &str) -> Option<String> {
    scene.metric(&format!("cascade_attempts_total{{cluster=\"{cluster}\",class=\"{class}\"}}")).await
}

async fn ignored(scene: &Scene, why: &str) -> String {
    scene.metric(&format!("cascade_feedback_ignored_total{{why=\"{why}\"}}")).await.unwrap()
}

async fn learned(scene: &Scene) -> String {
    scene.metric("cascade_session_learned_total{result=\"learned\"}").await.unwrap()
}

async fn token_of(scene: &Scene, session: &str) -> String {
    token(&scene.decide(&[("x-session-id", session)], "m").await).unwrap()
}

#[tokio::test]
async fn an_answer_is_a_success_once_its_request_says_that_it_went_through_in_either_order() {
    let scene = Scene::set(&LEARNS).await;
    for (session, request_first) in [("s1", false), ("s2", true)] {
        let sealed = token_of(&scene, session).await;
        let mut entries =
            vec![with_token(attempt("c", 200), &sealed), with_token(request(200, ResponseFlags::default()), &sealed)];
        if request_first {
            entries.reverse();
        }
        // Two streams: Envoy has one per worker and logger.
        for entry in entries {
            scene.log("cascade", vec![entry]).await;
        }
    }
    assert_eq!(class(&scene, "c", "success").await.as_deref(), Some("2"));
    assert_eq!(learned(&scene).await, "2");
}

#[tokio::test]
async fn a_client_that_left_teaches_nothing_and_a_limit_of_the_request_is_a_failure() {
    let scene = Scene::set(&LEARNS).await;
    for (index, (cluster, status, flags, expected)) in [
        ("a", 200, left(), "client_left"),
        ("a", 0, left(), "client_left"),
        ("b", 0, timed_out(), "timeout"),
        ("b", 200, timed_out(), "broken_stream"),
        ("b", 0, ResponseFlags { stream_idle_timeout: true, ..Default::default() }, "timeout"),
    ]
    .into_iter()
    .enumerate()
    {
        let before = class(&scene, cluster, expected).await.unwrap_or_default();
        let sealed = token_of(&scene, &format!("s{index}")).await;
        let end = if status == 0 { 504 } else { 200 };
        scene.log("cascade", vec![with_token(request(end, flags), &sealed), with_token(attempt(cluster, status), &sealed)]).await;
        assert_ne!(class(&scene, cluster, expected).await.unwrap(), before, "{cluster} {status} {flags:?}");
    }
    assert_eq!(learned(&scene).await, "0");
    assert_eq!(scene.cluster("a").await["failures_in_a_row"], 0);
    assert_eq!(scene.cluster("b").await["state"], "cooling", "three failures");
    assert_eq!(scene.cluster("b").await["failures"], "timeout, broken_stream, timeout");
    assert_eq!(class(&scene, "a", "success").await, None);
}

#[tokio::test]
async fn an_attempt_whose_request_never_tells_teaches_nothing() {
    let scene = Scene::set(&LEARNS).await;
    let sealed = token_of(&scene, "s").await;
    scene.log("cascade", vec![with_token(attempt("c", 503), &sealed), with_token(attempt("c", 200), &sealed)]).await;
    // A stream that stays open is what sweeps.
    let open = tokio::spawn({
        let channel = grpc::connect(&scene.cascade.listen().await).await;
        async move { raw(channel, vec![RawMessage::of("cascade", Vec::new())], true).await }
    });
    let given_up = async || (ignored(&scene, "unmatched").await == "1").then_some(());
    eventually("the attempt is given up", given_up).await;
    open.abort();
    assert_eq!((learned(&scene).await.as_str(), class(&scene, "c", "success").await), ("0", None));
    assert_eq!(scene.cluster("c").await["failures_in_a_row"], 1, "it ends no row of failures");
    assert!(scene.cascade.output().contains("without a filter"), "the line says what is missing");
}

#[tokio::test]
async fn entries_of_requests_without_a_decision_and_repeated_ones_do_no_harm() {
    let scene = Scene::set(&LEARNS).await;
    // The static chain: no token. Its two entries find each other by the request's id.
    let pair = |id: &str, flags| vec![named(attempt("c", 200), id), named(request(200, flags), id)];
    scene.log("cascade", pair("r1", ResponseFlags::default())).await;
    scene.log("cascade", pair("r2", left())).await;
    assert_eq!(class(&scene, "c", "success").await.as_deref(), Some("1"));
    assert_eq!(class(&scene, "c", "client_left").await.as_deref(), Some("1"));
    // No attempt at all: a health check of Envoy's own, a refusal.
    scene.log("cascade", vec![named(request(200, ResponseFlags::default()), "r3"), request(404, ResponseFlags::default())]).await;
    let hang = |id: &str| vec![named(attempt("a", 0), id), named(request(504, timed_out()), id)];
    for _ in 0..3 {
        scene.log("cascade", hang("r4")).await;
    }
    assert_eq!(scene.cluster("a").await["failures_in_a_row"], 1, "told three times, it happened once");
}

#[tokio::test]
async fn a_batch_of_thousands_is_taken_in_whatever_else_is_in_it() {
    let scene = Scene::set(&[]).await;
    let sealed = scene.token("m").await;
    let mut entries: Vec<Vec<u8>> = Vec::new();
    for index in 0..5_000 {
        entries.push(named(with_token(attempt("a", 503), &sealed), &format!("r{index}")).encode_to_vec());
    }
    entries.insert(0, b"\xff\xff\xff\xff".to_vec());
    entries.insert(1, HttpAccessLogEntry::default().encode_to_vec());
    entries.insert(2, entries[3][..entries[3].len() - 4].to_vec());
    entries.insert(2_500, attempt("stranger", 503).encode_to_vec());
    entries.push(attempt("", 503).encode_to_vec());
    entries.push(attempt("b", 503).encode_to_vec());
    let channel = grpc::connect(&scene.cascade.listen().await).await;
    raw(channel, vec![RawMessage::of("cascade", entries)], false).await;
    assert_eq!(class(&scene, "a", "server_error").await.as_deref(), Some("5000"));
    assert_eq!(class(&scene, "b", "server_error").await.as_deref(), Some("1"), "the last one too");
    assert_eq!(ignored(&scene, "unreadable").await, "3");
    assert_eq!((ignored(&scene, "unknown_cluster").await, ignored(&scene, "no_cluster").await), ("1".to_owned(), "1".to_owned()));
    let log = scene.cascade.output();
    assert!(log.contains("stranger") && log.matches("teach nothing").count() == 3, "one line for each kind: {log}");
}

#[tokio::test]
async fn a_misspelt_log_name_is_counted_and_said_once() {
    let scene = Scene::set(&[]).await;
    for _ in 0..5 {
        scene.log("cascda", vec![answered("a", 429), answered("b", 429)]).await;
    }
    assert_eq!(ignored(&scene, "log_name").await, "10");
    let log = scene.cascade.output();
    assert!(log.contains("cascda") && log.contains("feedback.log_name"), "{log}");
    assert_eq!(log.matches("feedback_ignored").count(), 1, "once a minute: {log}");
}

#[tokio::test]
async fn a_message_that_cannot_be_read_does_not_end_its_stream() {
    let scene = Scene::set(&[]).await;
    let channel = grpc::connect(&scene.cascade.listen().await).await;
    let garbage = RawMessage { identifier: b"\xff\xff".to_vec(), ..RawMessage::default() };
    let tcp =
        RawMessage { tcp: vec![RawEntries { entries: vec![Vec::new(), Vec::new()] }], ..RawMessage::of("cascade", Vec::new()) };
    let good = RawMessage::of("cascade", vec![answered("a", 503).encode_to_vec()]);
    let more = RawMessage { identifier: Vec::new(), ..RawMessage::of("", vec![answered("a", 503).encode_to_vec()]) };
    raw(channel, vec![good, garbage, tcp, more], false).await;
    assert_eq!(class(&scene, "a", "server_error").await.as_deref(), Some("2"));
    assert_eq!((ignored(&scene, "unreadable").await, ignored(&scene, "tcp").await), ("1".to_owned(), "2".to_owned()));
}

#[tokio::test]
async fn the_decision_of_another_replica_with_the_same_key_is_understood() {
    let home = Home::new();
    home.write("keys", "a-key-that-all-replicas-share\n");
    let keys = home.text("keys");
    let settings: Vec<(&str, &str)> = LEARNS.into_iter().chain([("SECRET_FILE", keys.as_str())]).collect();
    let (one, two) = (Scene::set(&settings).await, Scene::set(&settings).await);
    let sealed = token_of(&one, "s").await;
    let entries = vec![with_token(attempt("c", 200), &sealed), with_token(request(200, ResponseFlags::default()), &sealed)];
    two.log("cascade", entries).await;
    assert_eq!(learned(&two).await, "1");
}

#[tokio::test]
async fn fallbacks_and_chains_that_ran_out_are_counted_by_model() {
    let scene = Scene::set(&[]).await;
    let end = |status, attempts: u32, token: &str, id: &str| {
        let mut entry = named(with_token(request(status, ResponseFlags::default()), token), id);
        entry.common_properties.get_or_insert_default().upstream_request_attempt_count = attempts;
        entry
    };
    let sealed = scene.token("m").await;
    let again = end(200, 2, &sealed, "r1");
    scene.log("cascade", vec![again.clone(), again, end(200, 1, &sealed, "r2"), end(503, 2, &sealed, "r3")]).await;
    // No decision of ours.
    scene.log("cascade", vec![end(503, 2, "forged", "r4"), end(200, 2, "forged", "r5")]).await;
    assert_eq!(scene.metric("cascade_fallbacks_total{model=\"m\"}").await.as_deref(), Some("1"));
    assert_eq!(scene.metric("cascade_chains_exhausted_total{model=\"m\"}").await.as_deref(), Some("1"));
    assert_eq!(scene.metric("cascade_fallbacks_total{model=\"other\"}").await, None);
}

/// A message with entries of any bytes.
#[derive(Clone, PartialEq, prost::Message)]
struct RawMessage {
    #[prost(bytes = "vec", tag = "1")]
    identifier: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    http: Vec<RawEntries>,
    #[prost(message, repeated, tag = "3")]
    tcp: Vec<RawEntries>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RawEntries {
    #[prost(bytes = "vec", repeated, tag = "1")]
    entries: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RawName {
    #[prost(string, tag = "2")]
    log_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Nothing {}

impl RawMessage {
    fn of(log_name: &str, entries: Vec<Vec<u8>>) -> Self {
        let identifier = RawName { log_name: log_name.to_owned() }.encode_to_vec();
        Self { identifier, http: vec![RawEntries { entries }], tcp: Vec::new() }
    }
}

/// Sends these messages on one stream, to its end unless it `stays` open.
async fn raw(channel: Channel, messages: Vec<RawMessage>, stays: bool) {
    use tokio_stream::StreamExt;
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let codec: ProstCodec<RawMessage, Nothing> = ProstCodec::default();
    let (messages, path) = (tokio_stream::iter(messages), PathAndQuery::from_static(STREAM));
    if stays {
        let messages = messages.chain(tokio_stream::pending());
        client.client_streaming(tonic::Request::new(messages), path, codec).await.unwrap();
    } else {
        client.client_streaming(tonic::Request::new(messages), path, codec).await.unwrap();
    }
}
