//! A healthy Cascade: what probes, health checks and streams see over TCP and Unix sockets.

use tonic_health::pb::health_check_response::ServingStatus;

use crate::catalog::Home;
use crate::grpc::{self, SERVICE, Stream, decision};
use crate::http;
use crate::process::{Cascade, eventually};

#[tokio::test]
async fn a_stream_is_decided_over_tcp() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut stream = Stream::open(&channel).await.unwrap();
    let [_, answer] = stream.buffered(&[], br#"{"model": "alias"}"#.to_vec()).await;
    assert_eq!(decision(&answer), "override model_chain");
    stream.close();
    assert!(stream.answer().await.unwrap().is_none(), "the stream ends cleanly");
}

#[tokio::test]
async fn unix_sockets_serve_both_addresses_and_go_with_the_process() {
    let home = Home::with_catalog("one");
    let (listen, admin) = (format!("unix:{}", home.text("grpc.sock")), format!("unix:{}", home.text("admin.sock")));
    let arguments = ["--catalog", &home.text("catalog.yaml"), "--listen", &listen, "--admin", &admin];
    let mut cascade = Cascade::ready(&arguments, &[]).await;
    assert_eq!(cascade.listen().await, listen);
    let channel = grpc::connect(&listen).await;
    let mut stream = Stream::open(&channel).await.unwrap();
    let [_, answer] = stream.buffered(&[], br#"{"model": "m"}"#.to_vec()).await;
    assert_eq!(decision(&answer), "override model_chain");
    drop((stream, channel));
    cascade.terminate();
    assert_eq!(cascade.ended().await.0, Some(0));
    assert!(!home.path("grpc.sock").exists() && !home.path("admin.sock").exists());
}

#[tokio::test]
async fn a_socket_file_that_a_crash_left_behind_is_taken_over() {
    let home = Home::with_catalog("one");
    drop(std::os::unix::net::UnixListener::bind(home.path("grpc.sock")).unwrap());
    let listen = format!("unix:{}", home.text("grpc.sock"));
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml"), "--listen", &listen], &[]).await;
    let channel = grpc::connect(&listen).await;
    assert_eq!(grpc::health(&channel, "").await, Ok(ServingStatus::Serving));
    drop(cascade);
}

#[tokio::test]
async fn health_is_told_for_the_server_and_for_the_service() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    for service in ["", SERVICE] {
        assert_eq!(grpc::health(&channel, service).await, Ok(ServingStatus::Serving), "{service:?}");
    }
    assert_eq!(grpc::health(&channel, "other.Service").await, Err(tonic::Code::NotFound));
}

#[tokio::test]
async fn without_a_catalog_everything_answers_and_nothing_is_ready() {
    let home = Home::new();
    let cascade = Cascade::start(&["--catalog", &home.text("catalog.yaml")], &[("CATALOG__REFRESH", "100ms")]);
    let channel = grpc::connect(&cascade.listen().await).await;
    for service in ["", SERVICE] {
        assert_eq!(grpc::health(&channel, service).await, Ok(ServingStatus::NotServing), "{service:?}");
    }
    assert_eq!(cascade.get("/livez").await.status, 200);
    for path in ["/readyz", "/healthz", "/catalog", "/clusters"] {
        assert_eq!(cascade.get(path).await.status, 503, "{path}");
    }
    let status = cascade.status().await;
    assert!(status["last_error"].as_str().unwrap().contains("catalog.yaml"), "{status}");
    assert_eq!((status["stale"].as_bool(), status["revision"].as_str()), (Some(false), None));
    // Nothing is made up: Envoy decides by its own configuration.
    let mut stream = Stream::open(&channel).await.unwrap();
    stream.send(grpc::head(&[], false)).await;
    assert_eq!(stream.answer().await.unwrap_err().code(), tonic::Code::Unavailable);

    home.write("catalog.yaml", &crate::catalog::good("late"));
    cascade.status_where("the late catalog", |status| status["label"] == "late").await;
    eventually("health", async || (grpc::health(&channel, SERVICE).await == Ok(ServingStatus::Serving)).then_some(())).await;
    assert_eq!(cascade.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn the_probe_address_shows_probes_and_metrics_only() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[("PROBE", "127.0.0.1:0")]).await;
    let probe = cascade.logged("listening for probes on ").await;
    for path in ["/livez", "/readyz", "/healthz", "/metrics"] {
        assert_eq!(http::get(&probe, path).await.status, 200, "{path}");
    }
    for path in ["/catalog", "/catalog/status", "/clusters", "/explain"] {
        assert_eq!(http::get(&probe, path).await.status, 404, "{path}");
    }
}
