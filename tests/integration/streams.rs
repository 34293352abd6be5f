//! Limits of the gRPC side: large messages, many streams, strangers.

use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;

use crate::catalog::Home;
use crate::grpc::{self, Stream, decision, is_body_answer};
use crate::process::{Cascade, eventually};

#[tokio::test]
async fn a_body_of_20_mb_is_one_message_like_any_other() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut stream = Stream::open(&channel).await.unwrap();
    let body = format!(r#"{{"messages": "{}", "model": "m"}}"#, "x".repeat(20 * 1024 * 1024));
    let [_, answer] = stream.buffered(&[], body.into_bytes()).await;
    assert!(is_body_answer(&answer));
    assert_eq!(decision(&answer), "override model_chain");
}

#[tokio::test]
async fn a_message_over_the_limit_ends_its_stream_and_no_other() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[("SERVER__MAX_MESSAGE", "1MiB")]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut other = Stream::begin(&channel, &[]).await;
    let mut large = Stream::begin(&channel, &[]).await;
    large.send(grpc::whole_body(vec![b'x'; 2 * 1024 * 1024])).await;
    let status = large.answer().await.expect_err("an error");
    assert!(matches!(status.code(), tonic::Code::OutOfRange | tonic::Code::ResourceExhausted), "{status:?}");
    other.send(grpc::whole_body(br#"{"model": "m"}"#.to_vec())).await;
    assert_eq!(decision(&other.answer().await.unwrap().unwrap()), "override model_chain");
}

/// The stream ends, and with it a request goes on to Envoy's static chain; so who may not go there is refused before.
#[tokio::test]
async fn a_message_over_the_limit_is_refused_for_a_restricted_tenant_before_the_stream_ends() {
    let home = Home::with_catalog("one");
    // All that is missing where the path names the model is a session, which would be no trouble if anything else could be heard.
    const BY_PATH: &str = "/openai/deployments/m/chat/completions";
    let settings = [
        ("SERVER__MAX_MESSAGE", "1MiB"),
        ("EXTRACT__TENANT", "[{header: x-tenant, trusted: true}]"),
        ("SESSION__STICKY", "true"),
    ];
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    for (path, duplex, tenant, refused) in [
        ("/v1/chat/completions", false, "eu", true),
        ("/v1/chat/completions", false, "acme", false),
        ("/v1/chat/completions", true, "eu", true),
        ("/v1/chat/completions", true, "acme", false),
        ("/v1/chat/completions", true, "nobody", true),
        (BY_PATH, false, "eu", true),
        (BY_PATH, true, "eu", true),
        (BY_PATH, true, "acme", false),
    ] {
        let mut stream = Stream::open(&channel).await.unwrap();
        let mut head = grpc::head(&[("x-tenant", tenant), (":path", path)], false);
        if duplex {
            head.protocol_config.as_mut().unwrap().request_body_mode = grpc::FULL_DUPLEX_STREAMED;
        }
        stream.send(head).await;
        if !duplex {
            stream.answer().await.unwrap();
        }
        stream.send(grpc::whole_body(vec![b'x'; 2 * 1024 * 1024])).await;
        let answer = stream.answer().await;
        if refused {
            let answer = answer.unwrap().expect("a refusal");
            let Some(Response::ImmediateResponse(refusal)) = &answer.response else { panic!("{answer:?}") };
            let (status, decision) = match tenant {
                "nobody" => (401, "reject unknown_tenant"),
                _ => (413, "reject body_too_large"),
            };
            assert_eq!((refusal.status.unwrap().code, grpc::decision(&answer).as_str()), (status, decision));
            assert!(stream.answer().await.unwrap().is_none(), "nothing follows a refusal");
        } else {
            let status = answer.expect_err("no answer");
            assert!(matches!(status.code(), tonic::Code::OutOfRange | tonic::Code::ResourceExhausted), "{status:?}");
        }
    }
    let count = |reason: &str| format!("cascade_requests_total{{outcome=\"reject\",reason=\"{reason}\"}}");
    assert_eq!(cascade.metric(&count("body_too_large")).await, Some(4.0));
    assert_eq!(cascade.metric(&count("unknown_tenant")).await, Some(1.0));
}

/// Decided already, and the rest of the body cannot be read any more: a late refusal for who is restricted, and for others what was
/// decided stands. Either way the request counts once, as what it came to.
#[tokio::test]
async fn a_message_over_the_limit_after_the_decision_is_refused_late_for_a_restricted_tenant() {
    let home = Home::with_catalog("one");
    let settings = [("SERVER__MAX_MESSAGE", "1MiB"), ("EXTRACT__TENANT", "[{header: x-tenant, trusted: true}]")];
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    for tenant in ["eu", "acme"] {
        let mut stream = Stream::open(&channel).await.unwrap();
        let mut head = grpc::head(&[("x-tenant", tenant)], false);
        head.protocol_config.as_mut().unwrap().request_body_mode = grpc::FULL_DUPLEX_STREAMED;
        stream.send(head).await;
        let mut first = grpc::whole_body(br#"{"model":"m","#.to_vec());
        if let Some(Request::RequestBody(body)) = &mut first.request {
            body.end_of_stream = false;
        }
        stream.send(first).await;
        assert_eq!(decision(&stream.answer().await.unwrap().unwrap()), "override model_chain");
        assert!(is_body_answer(&stream.answer().await.unwrap().unwrap()));
        stream.send(grpc::whole_body(vec![b'x'; 2 * 1024 * 1024])).await;
        if tenant == "eu" {
            let answer = stream.answer().await.unwrap().unwrap();
            assert_eq!(decision(&answer), "reject body_too_large");
            assert!(matches!(answer.response, Some(Response::ImmediateResponse(_))), "{answer:?}");
        } else {
            assert!(stream.answer().await.is_err());
        }
    }
    assert_eq!(cascade.metric("cascade_abandoned_total").await.unwrap_or_default(), 0.0);
    let total = |outcome: &str, reason: &str| format!("cascade_requests_total{{outcome=\"{outcome}\",reason=\"{reason}\"}}");
    eventually("both counted", async || (cascade.metric("cascade_decision_seconds_count").await == Some(2.0)).then_some(()))
        .await;
    assert_eq!(cascade.metric(&total("override", "model_chain")).await, Some(1.0));
    assert_eq!(cascade.metric(&total("reject", "body_too_large")).await, Some(1.0));
}

#[tokio::test]
async fn streams_over_the_limit_wait_for_one_to_end() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[("SERVER__MAX_CONCURRENT_STREAMS", "2")]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        open.push(Stream::begin(&channel, &[]).await);
    }
    let waiting = channel.clone();
    let third =
        tokio::spawn(async move { Stream::open(&waiting).await.unwrap().buffered(&[], br#"{"model": "m"}"#.to_vec()).await });
    // A stream on another connection is not concerned.
    let elsewhere = grpc::connect(&cascade.listen().await).await;
    Stream::open(&elsewhere).await.unwrap().buffered(&[], br#"{"model": "m"}"#.to_vec()).await;
    assert!(!third.is_finished());
    drop(open.pop());
    assert_eq!(decision(&third.await.unwrap()[1]), "override model_chain");
}

#[tokio::test]
async fn more_than_the_http2_default_of_streams_are_open_at_once() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut open = Vec::new();
    for _ in 0..1024 {
        open.push(Stream::begin(&channel, &[]).await);
    }
    assert_eq!(cascade.metric("cascade_streams_in_flight").await, Some(1024.0));
    // All of them are reset at once, as when many clients hang up: the connection survives.
    let mut last = open.pop().unwrap();
    drop(open);
    eventually("one stream", async || (cascade.metric("cascade_streams_in_flight").await == Some(1.0)).then_some(())).await;
    last.send(grpc::whole_body(br#"{"model": "m"}"#.to_vec())).await;
    assert_eq!(decision(&last.answer().await.unwrap().unwrap()), "override model_chain");
}

#[tokio::test]
async fn another_service_is_unimplemented_and_plain_http_is_no_harm() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let listen = cascade.listen().await;
    let answer = crate::http::get(&listen, "/").await;
    assert_ne!(answer.status, 200, "HTTP/1.1 is not spoken here");
    let channel = grpc::connect(&listen).await;
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let path = http::uri::PathAndQuery::from_static("/other.Service/Method");
    let status = client.unary(tonic::Request::new(()), path, codec).await.expect_err("no such service");
    assert_eq!(status.code(), tonic::Code::Unimplemented);
}
