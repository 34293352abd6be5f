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

/// The fields of a decision as they are written.
fn published(publish: &Publish, requested_model: &str) -> (Answer, serde_json::Value) {
    let resolution = Resolution::of(Outcome::Reject, Reason::Internal);
    let requested = Found::Value(requested_model.to_owned());
    let decision = Decision {
        budget: Budget::default(),
        snapshot: None,
        resolution: &resolution,
        decision_id: "0123456789abcdef",
        request_id: Some("a\u{85}b"),
        requested: &requested,
        requested_model: Some(requested_model),
        session: None,
        api: Api::OpenAi,
        spoofed: &[],
        token: None,
    };
    let answer = answer(&decision, publish);
    let Answer::Refuse { metadata, .. } = &answer else { panic!("{answer:?}") };
    let fields = to_json(&Struct::decode(metadata.untyped.as_slice()).unwrap());
    (answer, fields["cascade.decision"].clone())
}

#[test]
fn the_page_names_every_field_of_a_decision_and_no_other() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/decision.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name);
    let mut documented: Vec<&str> = rows.collect();
    let (_, fields) = published(&Publish::default(), "m");
    let mut written: Vec<&str> = fields.as_object().unwrap().keys().map(String::as_str).collect();
    documented.sort_unstable();
    written.sort_unstable();
    assert_eq!(documented, written);
}

#[test]
fn control_characters_are_never_raw_in_what_is_published() {
    for harmful in ["a\nb", "a\u{1b}[2Jb", "a\u{7f}b", "a\u{9b}b", "a\u{2028}b", "a\u{202e}b", "a\0b"] {
        let (answer, fields) = published(&Publish::default(), harmful);
        let Answer::Refuse { refusal, .. } = answer else { panic!() };
        let shown = [fields["requested_model"].as_str().unwrap().to_owned(), fields["request_id"].as_str().unwrap().to_owned()];
        assert!(!shown.iter().any(|text| text.contains(crate::diagnostic::plain::is_harmful)), "{shown:?}");
        for reason in Reason::ALL {
            for api in [Api::OpenAi, Api::Anthropic, Api::Google] {
                let body = String::from_utf8(refusal::of(*reason, api, &Found::Value(harmful.to_owned())).body).unwrap();
                assert!(!body.contains(crate::diagnostic::plain::is_harmful), "{body:?}");
                let message: serde_json::Value = serde_json::from_str(&body).unwrap();
                let message = message["error"]["message"].as_str().unwrap();
                assert!(!message.contains(crate::diagnostic::plain::is_harmful), "{message:?}");
            }
        }
        assert!(refusal.headers.iter().all(|(_, value)| !value.contains(char::is_control)));
    }
}

#[test]
fn a_refusal_names_its_decision_where_that_is_asked_for() {
    for header in ["", "x-cascade-decision-id"] {
        let publish = Publish { decision_id_header: header.to_owned(), ..Publish::default() };
        let (answer, fields) = published(&publish, "m");
        let Answer::Refuse { refusal, .. } = answer else { panic!() };
        let named = refusal.headers.iter().find(|(name, _)| name == "x-cascade-decision-id").map(|(_, value)| value.as_str());
        assert_eq!(named, (!header.is_empty()).then_some(fields["decision_id"].as_str().unwrap()));
    }
}
