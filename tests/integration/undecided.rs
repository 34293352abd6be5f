//! Where nothing can be decided: no catalog yet, or a stream whose first message is no message. And where nothing more can be asked.

use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpHeaders, ProcessingRequest};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::catalog::Home;
use crate::grpc::{self, FULL_DUPLEX_STREAMED, SERVICE, Stream, decision, health, is_body_answer};
use crate::process::{Cascade, eventually};

const OPEN: &str = "version: 1\npriority_groups: {g: {clusters: [{cluster_name: a, weight: 1}]}}\nmodels: {m: {chain: [g]}}\n";
const TENANT: (&str, &str) = ("EXTRACT__TENANT", "[{header: x-tenant, trusted: true}]");

fn duplex(mut head: ProcessingRequest) -> ProcessingRequest {
    head.protocol_config.as_mut().unwrap().request_body_mode = FULL_DUPLEX_STREAMED;
    head
}

#[tokio::test]
async fn without_a_catalog_a_request_is_unavailable_and_its_attempts_pass() {
    let home = Home::new();
    let cascade = Cascade::start(&["--catalog", &home.text("catalog.yaml")], &[("CATALOG__REFRESH", "100ms")]);
    let channel = grpc::connect(&cascade.listen().await).await;
    assert_eq!(health(&channel, SERVICE).await, Ok(ServingStatus::NotServing));
    let heads = [grpc::head(&[], false), grpc::head(&[], true), duplex(grpc::head(&[], false)), grpc::whole_body(b"{}".to_vec())];
    let count = heads.len();
    for head in heads {
        let mut stream = Stream::open(&channel).await.unwrap();
        stream.send(head).await;
        assert_eq!(stream.answer().await.unwrap_err().code(), Code::Unavailable);
    }
    let metrics = cascade.get("/metrics").await.text();
    let counted: Vec<&str> =
        metrics.lines().filter(|line| line.contains("reason=\"no_catalog\"") && !line.ends_with(" 0")).collect();
    assert_eq!(counted.len(), 1, "{counted:?}");
    assert!(counted[0].ends_with(&format!(" {count}")), "{counted:?}");

    // Once there is one, it serves.
    home.write("catalog.yaml", OPEN);
    cascade.status_where("the catalog", |status| status["revision"].is_string()).await;
    eventually("health", async || (health(&channel, SERVICE).await == Ok(ServingStatus::Serving)).then_some(())).await;
    let mut stream = Stream::open(&channel).await.unwrap();
    let [_, answer] = stream.buffered(&[], br#"{"model": "m"}"#.to_vec()).await;
    assert_eq!(decision(&answer), "override model_chain");
}

/// Nobody knows whose request it is: if anybody is restricted it is refused, else the stream ends and Envoy decides.
#[tokio::test]
async fn a_first_message_that_cannot_be_taken_is_refused_where_anybody_is_restricted() {
    for (catalog, refused) in [
        (OPEN.to_owned(), false),
        (format!("{OPEN}tenants: {{a: {{}}}}\n"), false),
        (format!("{OPEN}tenants: {{a: {{}}, b: {{denied_models: [n]}}}}\n"), true),
        (format!("{OPEN}defaults: {{fail: closed}}\n"), true),
        (OPEN.replace("chain: [g]}", "chain: [g], fail: closed}"), true),
    ] {
        let home = Home::new();
        home.write("catalog.yaml", &catalog);
        let settings = [("SERVER__MAX_MESSAGE", "1MiB"), TENANT];
        let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
        let channel = grpc::connect(&cascade.listen().await).await;
        let mut large = grpc::head(&[("x-tenant", "a")], false);
        if let Some(Request::RequestHeaders(HttpHeaders { headers: Some(map), .. })) = &mut large.request {
            map.headers[0].raw_value = vec![b'x'; 2 * 1024 * 1024];
        }
        let mut stream = Stream::open(&channel).await.unwrap();
        stream.send(large).await;
        let answer = stream.answer().await;
        if refused {
            let answer = answer.unwrap().expect("a refusal");
            let Some(Response::ImmediateResponse(refusal)) = &answer.response else { panic!("{answer:?}") };
            assert_eq!((refusal.status.unwrap().code, decision(&answer).as_str()), (413, "reject body_too_large"), "{catalog}");
            assert!(stream.answer().await.unwrap().is_none());
        } else {
            assert_eq!(answer.unwrap_err().code(), Code::OutOfRange, "{catalog}");
        }
    }
}

/// The client's answer may stream on for minutes: it must not depend on this process any more.
#[tokio::test]
async fn a_stream_on_which_nothing_more_can_be_asked_is_ended_with_ok() {
    let home = Home::new();
    home.write("catalog.yaml", OPEN);
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let body = || grpc::whole_body(br#"{"model": "m"}"#.to_vec());
    let path = ":path";
    let by_path = "/openai/deployments/m/chat/completions";
    for (heads, bodies) in [
        (grpc::head(&[], false), vec![body()]),
        (grpc::head(&[], true), vec![]),
        (duplex(grpc::head(&[], false)), vec![body()]),
        (duplex(grpc::head(&[], true)), vec![]),
        // The head decides, and the body is switched off.
        (grpc::head(&[(path, by_path)], false), vec![]),
        (grpc::head(&[(path, "/v1/realtime?model=m"), (":method", "GET"), ("upgrade", "websocket")], false), vec![]),
    ] {
        let mut stream = Stream::open(&channel).await.unwrap();
        let what = format!("{heads:?}");
        stream.send(heads).await;
        for body in bodies {
            stream.send(body).await;
        }
        let mut answers = 0;
        while stream.answer().await.unwrap_or_else(|status| panic!("{status}: {what}")).is_some() {
            answers += 1;
        }
        assert!(answers > 0, "{what}");
    }
    // One on which something may still come stays open.
    let mut open = duplex(grpc::head(&[(path, by_path)], false));
    let mut stream = Stream::open(&channel).await.unwrap();
    open.protocol_config.as_mut().unwrap().response_body_mode = 2;
    stream.send(open).await;
    assert_eq!(decision(&stream.answer().await.unwrap().unwrap()), "override model_chain");
    stream.send(body()).await;
    assert!(is_body_answer(&stream.answer().await.unwrap().unwrap()));
    stream
        .send(ProcessingRequest { request: Some(Request::ResponseHeaders(HttpHeaders::default())), ..Default::default() })
        .await;
    assert!(matches!(stream.answer().await.unwrap().unwrap().response, Some(Response::ResponseHeaders(_))));
}

/// An upgrade is decided at its headers in every mode, and its body is switched off where Envoy lets that be said.
#[tokio::test]
async fn an_upgrade_is_decided_at_its_headers() {
    let home = Home::new();
    home.write("catalog.yaml", OPEN);
    let settings = [("SESSION__STICKY", "true"), ("EXTRACT__MODEL", "[{query: model}, {dialect: auto}]")];
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    for mode in 1..=4 {
        for headers in [
            [(":method", "GET"), ("upgrade", "websocket"), (":path", "/v1/realtime?model=m")],
            [(":method", "POST"), ("Upgrade", "websocket"), (":path", "/v1/chat/completions?model=m")],
            [(":method", "CONNECT"), (":protocol", "websocket"), (":path", "/v1/realtime?model=m")],
        ] {
            let mut head = grpc::head(&headers, false);
            head.protocol_config.as_mut().unwrap().request_body_mode = mode;
            let mut stream = Stream::open(&channel).await.unwrap();
            stream.send(head).await;
            let answer = stream.answer().await.unwrap().unwrap();
            assert_eq!(decision(&answer), "override model_chain", "mode {mode}: {headers:?}");
            let body_mode = answer.mode_override.map(|mode| mode.request_body_mode);
            assert_eq!(body_mode, (mode != FULL_DUPLEX_STREAMED).then_some(0), "mode {mode}: {headers:?}");
        }
    }
}
