//! The upstream role as a gRPC client sees it: every message gets one answer in its kind, and none is a refusal.

use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpHeaders, HttpTrailers, ProcessingRequest, ProcessingResponse};
use envoy_types::pb::google::protobuf::{Struct, Value, value};

use crate::catalog::Home;
use crate::grpc;
use crate::process::Cascade;

const CATALOG: &str = "version: 1
clusters: {a: {models: {m: vendor-name}}}
priority_groups: {one: {clusters: [{cluster_name: a, weight: 1}]}}
models: {m: {aliases: [alias], chain: [one]}}
";

async fn exchange(messages: Vec<ProcessingRequest>) -> Vec<ProcessingResponse> {
    let home = Home::new();
    home.write("catalog.yaml", CATALOG);
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let mut client = ExternalProcessorClient::new(grpc::connect(&cascade.listen().await).await);
    let mut request = tonic::Request::new(tokio_stream::iter(messages));
    request.metadata_mut().insert("x-cascade-role", "upstream".parse().unwrap());
    let mut answers = client.process(request).await.unwrap().into_inner();
    let mut all = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        all.push(answer);
    }
    all
}

fn head(cluster: &str, headers: &[(&str, &str)]) -> ProcessingRequest {
    let name = Value { kind: Some(value::Kind::StringValue(cluster.to_owned())) };
    let attributes = Struct { fields: [("xds.cluster_name".to_owned(), name)].into() };
    let attributes = [("envoy.filters.http.ext_proc".to_owned(), attributes)].into();
    ProcessingRequest { attributes, ..grpc::head(headers, false) }
}

fn new_body(answer: &ProcessingResponse) -> Option<String> {
    use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
    let Some(Response::RequestBody(body)) = &answer.response else { panic!("{answer:?}") };
    let mutation = body.response.as_ref()?.body_mutation.as_ref()?.mutation.as_ref()?;
    let Mutation::Body(bytes) = mutation else { panic!("{mutation:?}") };
    Some(String::from_utf8(bytes.clone()).unwrap())
}

#[tokio::test]
async fn a_body_is_renamed_and_everything_else_answered_as_it_is() {
    let body = r#"{"model":"alias","n":1.0}"#;
    let message = |request| ProcessingRequest { request: Some(request), ..ProcessingRequest::default() };
    let trailers = message(Request::RequestTrailers(HttpTrailers::default()));
    let response = message(Request::ResponseHeaders(HttpHeaders::default()));
    let head = head("a", &[("content-length", "25")]);
    let answers = exchange(vec![head, grpc::whole_body(body.into()), trailers, response]).await;
    assert_eq!(answers.len(), 4);
    assert!(answers[0].mode_override.is_none(), "the body is needed");
    assert_eq!(new_body(&answers[1]).as_deref(), Some(r#"{"model":"vendor-name","n":1.0}"#));
    assert!(format!("{:?}", answers[1]).contains("content-length"));
    assert!(matches!(answers[2].response, Some(Response::RequestTrailers(_))));
    assert!(matches!(answers[3].response, Some(Response::ResponseHeaders(_))));
}

#[tokio::test]
async fn what_cannot_be_read_goes_by_and_nothing_is_ever_refused() {
    for body in ["", "{", "[]", r#"{"model":7}"#, r#"{"model":"nobody"}"#] {
        let answers = exchange(vec![head("a", &[]), grpc::whole_body(body.into())]).await;
        assert_eq!(new_body(&answers[1]), None, "{body}");
    }
    for (cluster, headers) in [
        ("elsewhere", &[("x-envoy-attempt-count", "1")][..]),
        ("", &[("x-envoy-attempt-count", "1")]),
        ("a", &[("content-encoding", "gzip")]),
        ("a", &[("x-envoy-attempt-count", "1"), ("content-encoding", "gzip")]),
    ] {
        let answers = exchange(vec![head(cluster, headers)]).await;
        assert!(answers[0].mode_override.is_some(), "{cluster} {headers:?}: the body is not asked for");
    }
    assert!(exchange(vec![]).await.is_empty());
}

/// The headers that an attempt to `cluster` has after Cascade's answer, and whether its body is asked for.
async fn head_answer(
    channel: &tonic::transport::Channel,
    cluster: &str,
    headers: &[(String, String)],
) -> (Vec<(String, String)>, bool) {
    let given: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut request = tonic::Request::new(tokio_stream::once(head(cluster, &given)));
    request.metadata_mut().insert("x-cascade-role", "upstream".parse().unwrap());
    let mut answers = ExternalProcessorClient::new(channel.clone()).process(request).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let Some(Response::RequestHeaders(changes)) = answer.response else { panic!("{answer:?}") };
    let mut after = headers.to_vec();
    for option in changes.response.and_then(|common| common.header_mutation).unwrap_or_default().set_headers {
        let header = option.header.unwrap();
        after.retain(|(name, _)| *name != header.key);
        after.push((header.key, String::from_utf8(header.raw_value).unwrap()));
    }
    (after, answer.mode_override.is_none())
}

fn value<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

const PATHS: &str = "version: 1
clusters:
  a: {path_prefix: {from: /v1/, to: /openai/v1/}}
  b: {path_prefix: {from: /v1, to: /}}
  c: {}
priority_groups: {one: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: b, weight: 1}, {cluster_name: c, weight: 1}]}}
models: {m: {chain: [one]}}
";

#[tokio::test]
async fn every_attempt_starts_from_the_path_that_the_client_sent() {
    let home = Home::new();
    home.write("catalog.yaml", PATHS);
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let sent = "/v1/chat/completions?q=/v1";
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut headers = vec![own(":path", sent)];
    // All attempts of a request share one set of headers: what one sets, the next one finds.
    for (count, cluster, path) in [
        ("1", "a", "/openai/v1/chat/completions?q=/v1"),
        ("2", "c", sent),
        ("3", "b", "/chat/completions?q=/v1"),
        ("4", "b", "/chat/completions?q=/v1"),
        ("5", "a", "/openai/v1/chat/completions?q=/v1"),
        ("6", "elsewhere", sent),
    ] {
        headers.retain(|(name, _)| name != "x-envoy-attempt-count");
        headers.push(own("x-envoy-attempt-count", count));
        let (after, asks) = head_answer(&channel, cluster, &headers).await;
        assert_eq!(value(&after, ":path"), Some(path), "{count}: {cluster}");
        // Without a decision's token nobody knows whether an earlier attempt has left its length behind.
        assert_eq!(asks, count != "1", "{count}: nothing in the body is to change");
        headers = after;
    }
    assert_eq!(cascade.metric("cascade_upstream_rewrites_total{result=\"path\"}").await, Some(4.0));
    // A sealed path that comes with the first attempt is none of this request.
    headers.retain(|(name, _)| name == "x-cascade-original-path");
    headers.extend([own(":path", "/v1/embeddings"), own("x-envoy-attempt-count", "1")]);
    let (after, _) = head_answer(&channel, "a", &headers).await;
    assert_eq!(value(&after, ":path"), Some("/openai/v1/embeddings"));
    // One that could not be remembered is not touched.
    let long = format!("/v1/{}", "x".repeat(5000));
    let (after, _) = head_answer(&channel, "a", &[own(":path", &long), own("x-envoy-attempt-count", "1")]).await;
    assert_eq!(value(&after, ":path"), Some(long.as_str()));
}

#[tokio::test]
async fn no_client_can_send_the_path_that_attempts_start_from() {
    let home = Home::new();
    home.write("catalog.yaml", PATHS);
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut stream = grpc::Stream::open(&channel).await.unwrap();
    let [_, answer] = stream.buffered(&[("x-cascade-original-path", "x")], br#"{"model":"m"}"#.to_vec()).await;
    let Some(Response::RequestBody(body)) = answer.response else { panic!("{answer:?}") };
    assert_eq!(body.response.unwrap().header_mutation.unwrap().remove_headers, ["x-cascade-original-path"]);
}
