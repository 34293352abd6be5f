//! Messages that a well-behaved Envoy sends rarely or never, over raw gRPC against `cascade serve`: each gets its answer in kind or
//! none at all, and the process goes on.

use std::path::Path;
use std::time::Duration;

use cascade::lab::{BodyMode, Request as HttpRequest, Scratch, Serve, eventually};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders, HttpTrailers, ProcessingRequest, ProcessingResponse};
use tokio::task::JoinSet;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::cases::CASCADE;
use crate::gateway::{chat, chat_of, ok};
use crate::wire::{Manner, Wire, channel, messages};

const CATALOG: &str = "version: 1\npriority_groups: {g: {clusters: [{cluster_name: a, weight: 1}]}}\nmodels: {m: {chain: [g]}}\n";
const LIMIT: Duration = Duration::from_secs(20);

async fn serve(scratch: &Scratch) -> Serve {
    let catalog = ok(scratch.write("catalog.yaml", CATALOG));
    ok(Serve::start(Path::new(CASCADE), scratch.path(), &["--catalog", catalog.to_str().unwrap()]).await)
}

async fn running() -> (Scratch, Serve, Wire) {
    let scratch = ok(Scratch::new());
    let serve = serve(&scratch).await;
    let wire = Wire::connect(serve.grpc()).await;
    (scratch, serve, wire)
}

fn manner(mode: BodyMode) -> Manner {
    Manner { mode, chunk: usize::MAX, late_end: false }
}

/// The oneofs of the answers, in short.
fn kinds(answers: &[ProcessingResponse]) -> String {
    let kind = |answer: &ProcessingResponse| match answer.response {
        Some(Response::RequestHeaders(_)) => "headers",
        Some(Response::RequestBody(_)) => "body",
        Some(Response::RequestTrailers(_)) => "trailers",
        Some(Response::ResponseHeaders(_)) => "response-headers",
        Some(Response::ResponseBody(_)) => "response-body",
        Some(Response::ResponseTrailers(_)) => "response-trailers",
        Some(Response::ImmediateResponse(_)) => "refusal",
        _ => "?",
    };
    answers.iter().map(kind).collect::<Vec<_>>().join(" ")
}

fn message(request: Request) -> ProcessingRequest {
    ProcessingRequest { request: Some(request), ..Default::default() }
}

#[tokio::test]
async fn each_body_mode_gets_the_decision_where_it_still_counts() {
    let (_scratch, _serve, wire) = running().await;
    for (mode, has_body, reason) in [
        (BodyMode::Buffered, true, "model_chain"),
        (BodyMode::BufferedPartial, true, "model_chain"),
        (BodyMode::FullDuplexStreamed, true, "model_chain"),
        (BodyMode::Streamed, true, "mode_too_late"),
        (BodyMode::None, false, "missing_model"),
    ] {
        let answered = wire.ask(&chat(), has_body, manner(mode)).await;
        assert_eq!(answered.decision["reason"], reason, "{mode}");
    }
}

#[tokio::test]
async fn without_a_protocol_config_a_body_is_awaited_as_in_buffered() {
    let (_scratch, _serve, wire) = running().await;
    let mut sent = messages(&chat(), true, manner(BodyMode::Buffered));
    sent[0].protocol_config = None;
    let answers = wire.converse(sent).await;
    assert_eq!(kinds(&answers), "headers body");
    assert!(answers[1].dynamic_metadata.as_ref().is_some_and(|metadata| metadata.fields.contains_key("cascade")));
}

#[tokio::test]
async fn what_comes_back_from_the_provider_is_answered_and_left_alone() {
    let (_scratch, _serve, wire) = running().await;
    let mut sent = messages(&chat(), true, manner(BodyMode::Buffered));
    // Where no body of a response is announced, nothing more can be asked, and the stream has ended by then.
    let protocol = sent[0].protocol_config.as_mut().unwrap();
    protocol.response_body_mode = BodySendMode::Buffered.into();
    sent.push(message(Request::RequestTrailers(HttpTrailers::default())));
    sent.push(message(Request::ResponseHeaders(HttpHeaders::default())));
    sent.push(message(Request::ResponseBody(HttpBody { body: b"{}".to_vec(), end_of_stream: true, ..Default::default() })));
    sent.push(message(Request::ResponseTrailers(HttpTrailers::default())));
    let answers = wire.converse(sent).await;
    assert_eq!(kinds(&answers), "headers body trailers response-headers response-body response-trailers");
    assert!(answers[2..].iter().all(|answer| answer.dynamic_metadata.is_none()));
}

#[tokio::test]
async fn a_message_without_content_gets_no_answer() {
    let (_scratch, _serve, wire) = running().await;
    let mut sent = messages(&chat(), true, manner(BodyMode::Buffered));
    sent.insert(1, ProcessingRequest::default());
    assert_eq!(kinds(&wire.converse(sent).await), "headers body");
    assert_eq!(kinds(&wire.converse(vec![ProcessingRequest::default()]).await), "");
}

#[tokio::test]
async fn an_observer_is_told_nothing() {
    let (_scratch, _serve, wire) = running().await;
    let mut sent = messages(&chat(), true, manner(BodyMode::Buffered));
    sent.iter_mut().for_each(|message| message.observability_mode = true);
    assert_eq!(kinds(&wire.converse(sent).await), "");
}

#[tokio::test]
async fn messages_out_of_order_neither_hang_nor_kill() {
    let (_scratch, _serve, wire) = running().await;
    let body = || message(Request::RequestBody(HttpBody { body: chat().body, end_of_stream: true, ..Default::default() }));
    let head = || messages(&chat(), true, manner(BodyMode::Buffered)).remove(0);
    for sent in [
        vec![body()],
        vec![body(), head()],
        vec![head(), head(), body()],
        vec![head(), body(), body()],
        vec![message(Request::RequestTrailers(HttpTrailers::default()))],
        vec![message(Request::ResponseBody(HttpBody::default())), head(), body()],
    ] {
        let count = sent.len();
        let answers = wire.converse(sent).await;
        assert!(answers.len() <= count, "{} answers to {count} messages", answers.len());
    }
    assert_eq!(wire.ask(&chat(), true, manner(BodyMode::Buffered)).await.decision["reason"], "model_chain");
}

#[tokio::test]
async fn a_message_of_20_mb_is_read_and_returned_in_small_chunks() {
    let (_scratch, _serve, wire) = running().await;
    let request = chat_of(20 << 20);
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed] {
        assert_eq!(wire.ask(&request, true, manner(mode)).await.decision["reason"], "model_chain", "{mode}");
    }
}

#[tokio::test]
async fn five_hundred_streams_at_once_on_one_connection_are_all_answered() {
    let (_scratch, _serve, wire) = running().await;
    let mut streams = JoinSet::new();
    for _ in 0..500 {
        let wire = wire.clone();
        streams
            .spawn(async move { wire.ask(&chat(), true, manner(BodyMode::Buffered)).await.decision["reason"] == "model_chain" });
    }
    assert!(streams.join_all().await.into_iter().all(|answered| answered));
}

#[tokio::test]
async fn health_is_not_serving_until_a_catalog_is_there() {
    let scratch = ok(Scratch::new());
    let catalog = scratch.path().join("catalog.yaml");
    let arguments = ["--catalog", catalog.to_str().unwrap()];
    let serve = ok(Serve::spawn(Path::new(CASCADE), scratch.path(), &arguments));
    let up = || async { serve.admin(HttpRequest::get("/livez")).await.ok().filter(|page| page.status == 200) };
    ok(eventually("the admin address", LIMIT, up).await);
    assert_eq!(ok(serve.admin(HttpRequest::get("/readyz")).await).status, 503);

    let mut health = HealthClient::new(channel(serve.grpc()).await);
    let mut serving = async || ok(health.check(HealthCheckRequest::default()).await).into_inner().status();
    assert_eq!(serving().await, ServingStatus::NotServing);
    ok(scratch.write("catalog.yaml", CATALOG));
    let ready = || async { serve.admin(HttpRequest::get("/readyz")).await.ok().filter(|page| page.status == 200) };
    ok(eventually("readiness", LIMIT, ready).await);
    assert_eq!(serving().await, ServingStatus::Serving);
}
