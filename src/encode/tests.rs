use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingResponse, processing_response::Response};
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind as ValueKind};
use prost::Message;
use serde_json::json;

use super::reply::{self, Answer, HeaderChanges, Kind, Metadata};
use super::*;
use crate::outcome::Reason;

pub(crate) fn to_json(decoded: &Struct) -> serde_json::Value {
    fn plain(value: &Value) -> serde_json::Value {
        match value.kind.as_ref().expect("every value has a kind") {
            ValueKind::NullValue(_) => serde_json::Value::Null,
            ValueKind::NumberValue(number) => json!(number),
            ValueKind::StringValue(text) => json!(text),
            ValueKind::BoolValue(flag) => json!(flag),
            ValueKind::StructValue(fields) => to_json(fields),
            ValueKind::ListValue(list) => list.values.iter().map(plain).collect(),
        }
    }
    decoded.fields.iter().map(|(name, field)| (name.clone(), plain(field))).collect()
}

fn decode(reply: &reply::Reply) -> ProcessingResponse {
    ProcessingResponse::decode(reply.to_bytes().as_slice()).unwrap()
}

#[test]
fn an_answer_that_clears_the_route_cache_also_mutates_headers() {
    for headers in [HeaderChanges::default(), HeaderChanges { set: vec![("a".into(), "b".into())], remove: vec!["c".into()] }] {
        for kind in [Kind::RequestHeaders, Kind::RequestBody] {
            let answer = Answer::Proceed { reroute: true, headers: headers.clone(), metadata: Metadata::default() };
            let decoded = decode(&reply::deciding(kind, &answer, None));
            let common = match decoded.response.unwrap() {
                Response::RequestHeaders(headers) => headers.response.unwrap(),
                Response::RequestBody(body) => body.response.unwrap(),
                other => panic!("{other:?}"),
            };
            assert!(common.clear_route_cache);
            let mutation = common.header_mutation.expect("without a mutation Envoy ignores the flag");
            assert_eq!(mutation.remove_headers, headers.remove);
            for (option, (name, value)) in mutation.set_headers.iter().zip(&headers.set) {
                let header = option.header.clone().unwrap();
                assert_eq!(
                    (header.key, header.value, header.raw_value),
                    (name.clone(), String::new(), value.clone().into_bytes())
                );
                assert_eq!(option.append_action, 2);
            }
            assert_eq!(mutation.set_headers.len(), headers.set.len());
        }
    }
}

#[test]
fn unchanged_answers_are_in_kind() {
    for (kind, expected) in [
        (Kind::RequestHeaders, Response::RequestHeaders(Default::default())),
        (Kind::ResponseHeaders, Response::ResponseHeaders(Default::default())),
        (Kind::RequestBody, Response::RequestBody(Default::default())),
        (Kind::ResponseBody, Response::ResponseBody(Default::default())),
        (Kind::RequestTrailers, Response::RequestTrailers(Default::default())),
        (Kind::ResponseTrailers, Response::ResponseTrailers(Default::default())),
    ] {
        assert_eq!(decode(&reply::unchanged(kind)), ProcessingResponse { response: Some(expected), ..Default::default() });
    }
}

#[test]
fn a_refusal_speaks_the_clients_api() {
    let requested = Found::Value("gpt-9".to_owned());
    let body = |reason, api| serde_json::from_slice::<serde_json::Value>(&refusal::of(reason, api, &requested).body).unwrap();
    assert_eq!(
        body(Reason::UnknownModel, Api::OpenAi),
        json!({"error": {"message": "The model `gpt-9` does not exist.", "type": "invalid_request_error", "param": "model", "code": "unknown_model"}})
    );
    assert_eq!(
        body(Reason::ModelNotAllowed, Api::Anthropic),
        json!({"type": "error", "error": {"type": "permission_error", "message": "The model `gpt-9` is not allowed for this tenant."}})
    );
    assert_eq!(
        body(Reason::MissingTenant, Api::Google),
        json!({"error": {"code": 401, "message": "The request carries no credential of a tenant.", "status": "UNAUTHENTICATED"}})
    );
    let answer = Answer::Refuse {
        refusal: refusal::of(Reason::BodyTooLarge, Api::OpenAi, &Found::Nothing),
        metadata: Metadata::default(),
    };
    let Some(Response::ImmediateResponse(response)) = decode(&reply::deciding(Kind::RequestBody, &answer, None)).response else {
        panic!("a refusal is an immediate response")
    };
    assert_eq!(response.status.unwrap().code, 413);
    let headers: Vec<(String, Vec<u8>)> = response
        .headers
        .unwrap()
        .set_headers
        .into_iter()
        .filter_map(|option| option.header)
        .map(|header| (header.key, header.raw_value))
        .collect();
    assert_eq!(
        headers,
        [("content-type".to_owned(), b"application/json".to_vec()), ("x-cascade-reason".to_owned(), b"body_too_large".to_vec())]
    );
}

#[test]
fn every_reason_has_a_refusal_in_every_api() {
    for reason in Reason::ALL {
        for api in [Api::OpenAi, Api::Anthropic, Api::Google] {
            let refusal = refusal::of(*reason, api, &Found::Unusable);
            assert!(serde_json::from_slice::<serde_json::Value>(&refusal.body).is_ok() && refusal.status >= 400, "{reason:?}");
        }
    }
}
