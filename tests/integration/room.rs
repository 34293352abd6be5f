//! What streams hold of bodies has one limit for the process, and a body that was made to be slow keeps nobody waiting.

use std::io::Write;

use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, ProcessingRequest, ProcessingResponse};
use tonic::transport::Channel;

use crate::catalog::Home;
use crate::grpc::{self, Stream, decision, is_body_answer};
use crate::process::{Cascade, eventually};

const HELD: &str = "cascade_held_body_bytes";

fn chunk(length: usize) -> ProcessingRequest {
    let text = format!("{{\"messages\":\"{}", "x".repeat(length));
    let body = HttpBody { body: text.into_bytes(), end_of_stream: false, ..HttpBody::default() };
    ProcessingRequest { request: Some(Request::RequestBody(body)), ..ProcessingRequest::default() }
}

/// A stream in FULL_DUPLEX_STREAMED that has sent so much of a body whose model is not known yet.
async fn holding(channel: &Channel, tenant: &str, length: usize) -> Stream {
    let mut stream = Stream::open(channel).await.unwrap();
    let mut head = grpc::head(&[("x-tenant", tenant)], false);
    head.protocol_config.as_mut().unwrap().request_body_mode = grpc::FULL_DUPLEX_STREAMED;
    stream.send(head).await;
    stream.send(chunk(length)).await;
    stream
}

async fn holds(cascade: &Cascade, what: &str, enough: impl Fn(f64) -> bool) {
    eventually(what, async || cascade.metric(HELD).await.filter(|bytes| enough(*bytes))).await;
}

fn refusal(answer: &ProcessingResponse) -> Option<i32> {
    match &answer.response {
        Some(Response::ImmediateResponse(refusal)) => refusal.status.as_ref().map(|status| status.code),
        _ => None,
    }
}

#[tokio::test]
async fn bodies_that_find_no_room_are_overloaded_and_a_tenant_takes_only_its_own() {
    const MIB: usize = 1024 * 1024;
    let home = Home::with_catalog("one");
    let settings = [("LIMITS__HELD_BODIES", "8MiB"), ("EXTRACT__TENANT", "[{header: x-tenant, trusted: true}]")];
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
    let channel = grpc::connect(&cascade.listen().await).await;

    let mut first = holding(&channel, "acme", 3 * MIB / 2).await;
    holds(&cascade, "the first body is held", |bytes| bytes > 1.5e6).await;
    // What is held has to go back: the request goes on, and its body with it.
    let mut second = holding(&channel, "acme", MIB).await;
    let answer = second.answer().await.unwrap().unwrap();
    assert_eq!(decision(&answer), "pass_through overloaded");
    let mut returned = 0;
    while returned < MIB {
        let Some(Response::RequestBody(body)) = second.answer().await.unwrap().unwrap().response else { panic!("no body") };
        returned += grpc_piece(&body);
    }
    // Whole bodies break off in the middle; their answer comes, and the stream ends in good order.
    let mut whole = Stream::begin(&channel, &[("x-tenant", "acme")]).await;
    whole.send(grpc::whole_body(vec![b' '; 3 * MIB])).await;
    let answer = whole.answer().await.unwrap().unwrap();
    assert!(is_body_answer(&answer) && decision(&answer) == "pass_through overloaded", "{answer:?}");
    assert!(whole.answer().await.unwrap().is_none());

    // Another tenant has room of its own, and is refused where it has not: it may not go on without a decision.
    let mut other = Stream::open(&channel).await.unwrap();
    let [_, answer] = other.buffered(&[("x-tenant", "eu")], br#"{"model": "m"}"#.to_vec()).await;
    assert!(!decision(&answer).contains("overloaded"), "{answer:?}");
    let mut large = Stream::begin(&channel, &[("x-tenant", "eu")]).await;
    large.send(grpc::whole_body(vec![b' '; 3 * MIB])).await;
    let answer = large.answer().await.unwrap().unwrap();
    assert_eq!((refusal(&answer), decision(&answer).as_str()), (Some(503), "reject overloaded"));

    // A request without a body asks for no room.
    let mut head = Stream::open(&channel).await.unwrap();
    head.send(grpc::head(&[("x-tenant", "acme"), (":path", "/openai/deployments/m/chat/completions")], true)).await;
    assert_eq!(decision(&head.answer().await.unwrap().unwrap()), "override model_chain");

    first.close();
    drop((first, second, whole, other, large, head));
    holds(&cascade, "nothing is held any more", |bytes| bytes == 0.0).await;
    let mut again = Stream::open(&channel).await.unwrap();
    let body = format!(r#"{{"messages": "{}", "model": "m"}}"#, "x".repeat(3 * MIB / 2));
    let [_, answer] = again.buffered(&[("x-tenant", "acme")], body.into_bytes()).await;
    assert_eq!(decision(&answer), "override model_chain");
}

/// How many bytes of the body come back.
fn grpc_piece(body: &envoy_types::pb::envoy::service::ext_proc::v3::BodyResponse) -> usize {
    use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
    let mutation = body.response.as_ref().and_then(|common| common.body_mutation.as_ref()?.mutation.as_ref());
    match mutation {
        Some(Mutation::StreamedResponse(piece)) => piece.body.len(),
        other => panic!("{other:?}"),
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn hostile_bodies_and_their_neighbours_are_all_answered() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let million = 1_000_000;
    let hostile: Vec<(&str, Vec<u8>)> = vec![
        ("gzip", gzip(b"").repeat(million / 20)),
        ("deflate", [0, 0, 0, 0xFF, 0xFF].repeat(million / 5)),
        ("deflate", 0x8020_0802_u64.to_le_bytes()[..5].repeat(million / 5)),
        ("zstd", zstd::stream::encode_all(&b""[..], 1).unwrap().repeat(million / 9)),
        ("br", [vec![0x0C], vec![0x06; million]].concat()),
    ];
    let mut streams = Vec::new();
    for (coding, body) in &hostile {
        let mut stream = Stream::begin(&channel, &[("content-encoding", coding)]).await;
        stream.send(grpc::whole_body(body.clone())).await;
        let mut neighbour = Stream::open(&channel).await.unwrap();
        let [_, answer] = neighbour.buffered(&[], br#"{"model": "m"}"#.to_vec()).await;
        assert_eq!(decision(&answer), "override model_chain");
        streams.push((coding, stream));
    }
    for (coding, mut stream) in streams {
        assert_eq!(decision(&stream.answer().await.unwrap().unwrap()), "pass_through body_too_large", "{coding}");
    }
}

/// Tiny fields unfold to fifty times their size: such a message is none.
#[tokio::test]
async fn a_message_of_very_many_fields_breaks_its_stream_and_no_other() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut neighbour = Stream::begin(&channel, &[]).await;
    let headers: Vec<(String, &str)> = (0..100_000).map(|index| (format!("h{index}"), "")).collect();
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let mut stream = Stream::open(&channel).await.unwrap();
    stream.send(grpc::head(&headers, false)).await;
    assert!(!matches!(stream.answer().await, Ok(Some(answer)) if decision(&answer).starts_with("override")));
    neighbour.send(grpc::whole_body(br#"{"model": "m"}"#.to_vec())).await;
    assert_eq!(decision(&neighbour.answer().await.unwrap().unwrap()), "override model_chain");
}
