//! `/metrics`: what is counted, under which names, and that no client can make a series.

use crate::catalog::{Home, good};
use crate::grpc::{self, Stream};
use crate::http;
use crate::process::{Cascade, eventually};

/// Tenants by header, and models that the catalog does not know, are clients' words.
const BY_HEADER: &str = "extract: {tenant: [{header: x-tenant, trusted: true}]}\n";

#[tokio::test]
async fn decisions_are_counted_by_outcome_reason_model_and_tenant() {
    let home = Home::with_catalog("one");
    home.write("cascade.yaml", BY_HEADER);
    let arguments = ["--catalog", &home.text("catalog.yaml"), "--config", &home.text("cascade.yaml")];
    let cascade = Cascade::ready(&arguments, &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    for (tenant, model) in [("acme", "m"), ("acme", "alias"), ("eu", "m"), ("nobody", "m"), ("", "m"), ("acme", "zzz")] {
        let mut stream = Stream::open(&channel).await.unwrap();
        stream.buffered(&[("x-tenant", tenant)], format!(r#"{{"model": "{model}"}}"#).into_bytes()).await;
    }
    for (series, expected) in [
        (r#"cascade_requests_total{outcome="override",reason="model_chain"}"#, 4.0),
        (r#"cascade_requests_total{outcome="reject",reason="unknown_tenant"}"#, 1.0),
        (r#"cascade_requests_total{outcome="pass_through",reason="unknown_model"}"#, 1.0),
        (r#"cascade_model_requests_total{model="m",outcome="override"}"#, 4.0),
        (r#"cascade_model_requests_total{model="other",outcome="pass_through"}"#, 1.0),
        (r#"cascade_tenant_requests_total{tenant="acme",outcome="override"}"#, 2.0),
        (r#"cascade_tenant_requests_total{tenant="anonymous",outcome="override"}"#, 1.0),
        (r#"cascade_tenant_requests_total{tenant="other",outcome="reject"}"#, 1.0),
        ("cascade_decision_seconds_count", 6.0),
        ("cascade_catalog_stale", 0.0),
    ] {
        assert_eq!(cascade.metric(series).await, Some(expected), "{series}\n{}", cascade.get("/metrics").await.text());
    }
    let text = cascade.get("/metrics").await.text();
    assert!(!text.contains("zzz") && !text.contains("nobody") && !text.contains("alias"), "a client's word is no label:\n{text}");
    let revision = cascade.status().await["revision"].as_str().unwrap().to_owned();
    assert!(text.contains(&format!(r#"cascade_catalog_info{{revision="{revision}",label="one"}} 1"#)), "{text}");
}

#[tokio::test]
async fn the_info_of_the_catalog_has_one_series_whatever_is_loaded() {
    let home = Home::with_catalog("v0");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    for version in ["v1", "v2"] {
        home.replace("catalog.yaml", &good(version));
        cascade.status_where(version, |status| status["label"] == version).await;
    }
    let text = cascade.get("/metrics").await.text();
    assert_eq!(text.matches("cascade_catalog_info{").count(), 1, "{text}");
    assert!(cascade.metric("cascade_catalog_last_success_timestamp_seconds").await > Some(1_600_000_000.0));
}

#[tokio::test]
async fn a_stream_that_breaks_before_its_decision_is_abandoned() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let stream = Stream::begin(&channel, &[]).await;
    assert_eq!(cascade.metric("cascade_streams_in_flight").await, Some(1.0));
    drop(stream);
    eventually("an abandoned stream", async || cascade.metric("cascade_abandoned_total").await.filter(|count| *count == 1.0))
        .await;
    assert_eq!(cascade.metric("cascade_streams_in_flight").await, Some(0.0));
    assert_eq!(cascade.metric("cascade_decision_seconds_count").await, Some(0.0));
}

#[tokio::test]
async fn openmetrics_is_given_to_those_who_ask() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let plain = http::get(&cascade.admin().await, "/metrics").await;
    assert!(plain.head.contains("content-type: text/plain; version=0.0.4"), "{}", plain.head);
    assert!(plain.text().contains("# TYPE cascade_requests_total counter"), "{}", plain.text());
}
