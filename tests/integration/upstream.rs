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
    let mut trailers = ProcessingRequest::default();
    trailers.request = Some(Request::RequestTrailers(HttpTrailers::default()));
    let mut response = ProcessingRequest::default();
    response.request = Some(Request::ResponseHeaders(HttpHeaders::default()));
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
