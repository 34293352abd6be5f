//! SIGTERM: not ready first, open streams finish, new ones are refused, and the deadline holds.

use std::time::{Duration, Instant};

use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::catalog::Home;
use crate::grpc::{self, SERVICE, Stream, decision};
use crate::process::{Cascade, eventually};

/// One that waits this long for its streams, and its files.
async fn with_drain(limit: &str) -> (Home, Cascade) {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[("SERVER__DRAIN", limit)]).await;
    (home, cascade)
}

#[tokio::test]
async fn an_open_stream_finishes_while_nothing_new_is_taken() {
    let (_home, mut cascade) = with_drain("15s").await;
    let listen = cascade.listen().await;
    let channel = grpc::connect(&listen).await;
    let mut open = Stream::begin(&channel, &[]).await;

    cascade.terminate();
    eventually("not ready", async || (cascade.get("/readyz").await.status == 503).then_some(())).await;
    assert_eq!(cascade.get("/livez").await.status, 200, "alive to the end");
    assert!(cascade.get("/healthz").await.text().contains("draining"));
    // Health is off before connections are refused; a connection that is refused already has been through that.
    match grpc::health(&channel, SERVICE).await {
        Ok(status) => assert_eq!(status, ServingStatus::NotServing),
        Err(code) => assert!(matches!(code, Code::Unavailable | Code::NotFound), "{code:?}"),
    }
    eventually("refused connections", async || tokio::net::TcpStream::connect(&listen).await.is_err().then_some(())).await;
    // A stream that crosses the GOAWAY on its way is still served.
    eventually("no new stream", async || Stream::open(&channel).await.is_err().then_some(())).await;

    open.send(grpc::whole_body(br#"{"model": "m"}"#.to_vec())).await;
    assert_eq!(decision(&open.answer().await.unwrap().unwrap()), "override model_chain");
    open.close();
    assert!(open.answer().await.unwrap().is_none(), "a clean end");
    assert_eq!(cascade.ended().await.0, Some(0));
}

#[tokio::test]
async fn a_stream_that_never_ends_is_cut_at_the_deadline() {
    let (_home, mut cascade) = with_drain("1s").await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut stuck = Stream::begin(&channel, &[]).await;
    let started = Instant::now();
    cascade.terminate();
    let (code, output) = cascade.ended().await;
    assert_eq!(code, Some(0), "{output}");
    assert!(started.elapsed() >= Duration::from_secs(1) && started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert!(output.contains("the drain is over"), "{output}");
    assert!(!matches!(stuck.answer().await, Ok(Some(_))), "the stream was cut");
}

#[tokio::test]
async fn an_idle_server_does_not_use_up_its_drain() {
    let (_home, mut cascade) = with_drain("30s").await;
    let started = Instant::now();
    cascade.terminate();
    assert_eq!(cascade.ended().await.0, Some(0));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_health_watch_does_not_hold_up_the_drain() {
    let (_home, mut cascade) = with_drain("30s").await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut client = tonic_health::pb::health_client::HealthClient::new(channel);
    let request = tonic_health::pb::HealthCheckRequest { service: SERVICE.to_owned() };
    let mut watch = client.watch(request).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let started = Instant::now();
    cascade.terminate();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert_eq!(cascade.ended().await.0, Some(0));
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (_home, mut cascade) = with_drain("60s").await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let _open = Stream::begin(&channel, &[]).await;
    cascade.terminate();
    eventually("not ready", async || (cascade.get("/readyz").await.status == 503).then_some(())).await;
    cascade.terminate();
    assert_eq!(cascade.ended().await.0, Some(1), "streams were cut: a failed run");
}
