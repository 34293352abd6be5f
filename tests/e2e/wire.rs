//! Cascade over raw gRPC, without Envoy: this client sends what Envoy would and holds every answer to what Envoy demands.

use cascade::lab::{BodyMode, Endpoint, Request as HttpRequest};
use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    CommonResponse, HttpBody, HttpHeaders, ImmediateResponse, ProcessingRequest, ProcessingResponse, ProtocolConfiguration,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value as ProtoValue};
use prost::Message;
use serde_json::{Value, json};
use tonic::transport::Channel;

use crate::answer::priority_group::PriorityGroupsOverride;
use crate::gateway::ok;

/// The largest chunk that may be returned in FULL_DUPLEX_STREAMED, in bytes.
const MAX_CHUNK: usize = 62 * 1024;

/// How a request reaches the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    pub mode: BodyMode,
    /// Bytes per body message, for the streamed modes.
    pub chunk: usize,
    /// The end comes as an empty message of its own.
    pub late_end: bool,
}

/// What the answers to one request came to.
#[derive(Debug)]
pub struct Answered {
    /// `cascade.decision`.
    pub decision: Value,
    /// Groups and clusters of the override, as `explain` writes a chain; `Null` without one.
    pub chain: Value,
    /// The status and the `x-cascade-reason` of a reject.
    pub rejected: Option<(u16, String)>,
}

pub async fn channel(to: &Endpoint) -> Channel {
    let uri = match to {
        Endpoint::Tcp(address) => format!("http://{address}"),
        Endpoint::Unix(path) => format!("unix://{}", path.display()),
    };
    ok(ok(tonic::transport::Endpoint::try_from(uri)).connect().await)
}

/// A connection to a processor.
#[derive(Debug, Clone)]
pub struct Wire(ExternalProcessorClient<Channel>);

impl Wire {
    pub async fn connect(to: &Endpoint) -> Self {
        let channel = channel(to).await;
        Self(ExternalProcessorClient::new(channel).max_decoding_message_size(64 << 20).max_encoding_message_size(64 << 20))
    }

    /// Sends these messages and collects the answers until the stream ends.
    pub async fn converse(&self, messages: Vec<ProcessingRequest>) -> Vec<ProcessingResponse> {
        let mut answers = ok(self.0.clone().process(tokio_stream::iter(messages)).await).into_inner();
        let mut received = Vec::new();
        while let Some(answer) = ok(answers.message().await) {
            received.push(answer);
        }
        received
    }

    /// Sends a request and holds the answers to the protocol.
    pub async fn ask(&self, request: &HttpRequest, has_body: bool, manner: Manner) -> Answered {
        let messages = messages(request, has_body, manner);
        let answers = self.converse(messages.clone()).await;
        for answer in &answers {
            clears_only_with_a_mutation(answer);
        }
        let rejected = answers.iter().find_map(immediate);
        if rejected.is_some() {
            assert_eq!(answers.iter().filter(|answer| immediate(answer).is_some()).count(), 1, "one refusal");
            assert!(answers.last().is_some_and(|answer| immediate(answer).is_some()), "nothing after a refusal");
        } else if manner.mode == BodyMode::FullDuplexStreamed && has_body {
            headers_then_the_same_bytes(&answers, &request.body);
        } else {
            one_answer_each(&messages, &answers);
        }
        answered(&answers, rejected)
    }
}

fn answered(answers: &[ProcessingResponse], rejected: Option<&ImmediateResponse>) -> Answered {
    let deciding: Vec<_> = answers.iter().filter(|answer| decision(answer).is_some()).collect();
    // A late refusal (fact 28c) comes after a decision that let the request go.
    assert!(deciding.len() == 1 || deciding.len() == 2 && rejected.is_some(), "one answer carries the decision: {answers:?}");
    let last = deciding[deciding.len() - 1];
    let decision = decision(last).unwrap_or_default();
    let untyped = last.dynamic_metadata.as_ref().and_then(|metadata| metadata.fields.get("cascade")).map(to_json);
    let typed = last.typed_dynamic_metadata.get("cascade").map(|any| typed_chain(&any.value));
    assert!(untyped.is_none() || typed.is_none(), "typed or untyped, never both");
    let chain = untyped.map(|value| value["priority_groups"].clone()).or(typed).unwrap_or(Value::Null);
    let common = last.response.as_ref().and_then(common);
    assert_eq!(common.is_some_and(|common| common.clear_route_cache), !chain.is_null(), "the route is cleared for an override");
    let rejected = rejected.map(|immediate| {
        let headers = immediate.headers.as_ref().map(|headers| headers.set_headers.as_slice()).unwrap_or_default();
        let reason = headers.iter().filter_map(|option| option.header.as_ref()).find(|header| header.key == "x-cascade-reason");
        let reason = reason.map(|header| String::from_utf8_lossy(&header.raw_value).into_owned()).unwrap_or_default();
        assert!(serde_json::from_slice::<Value>(&immediate.body).is_ok(), "a refusal has a JSON body");
        let status = immediate.status.as_ref().map(|status| status.code).unwrap_or_default();
        (u16::try_from(status).unwrap(), reason)
    });
    Answered { decision, chain, rejected }
}

/// The messages of a request as Envoy sends them in this manner.
pub fn messages(request: &HttpRequest, has_body: bool, manner: Manner) -> Vec<ProcessingRequest> {
    let mode = match manner.mode {
        BodyMode::None => BodySendMode::None,
        BodyMode::Buffered => BodySendMode::Buffered,
        BodyMode::BufferedPartial => BodySendMode::BufferedPartial,
        BodyMode::Streamed => BodySendMode::Streamed,
        BodyMode::FullDuplexStreamed => BodySendMode::FullDuplexStreamed,
    };
    let head = HttpHeaders { headers: Some(headers(request)), end_of_stream: !has_body, ..Default::default() };
    let protocol = ProtocolConfiguration { request_body_mode: mode.into(), ..Default::default() };
    let mut messages = vec![ProcessingRequest {
        request: Some(Request::RequestHeaders(head)),
        protocol_config: Some(protocol),
        ..Default::default()
    }];
    if has_body {
        messages.extend(bodies(&request.body, manner));
    }
    messages
}

fn bodies(body: &[u8], manner: Manner) -> Vec<ProcessingRequest> {
    let whole = [body];
    let chunks: Vec<&[u8]> =
        if manner.mode == BodyMode::FullDuplexStreamed { body.chunks(manner.chunk).collect() } else { whole.to_vec() };
    let mut bodies: Vec<_> = chunks.into_iter().map(|chunk| HttpBody { body: chunk.to_vec(), ..Default::default() }).collect();
    match bodies.last_mut() {
        Some(last) if !manner.late_end => last.end_of_stream = true,
        _ => bodies.push(HttpBody { end_of_stream: true, ..Default::default() }),
    }
    bodies.into_iter().map(|body| ProcessingRequest { request: Some(Request::RequestBody(body)), ..Default::default() }).collect()
}

fn headers(request: &HttpRequest) -> HeaderMap {
    let pseudo = [(":authority", "gateway.test"), (":method", &request.method), (":path", &request.path), (":scheme", "http")];
    let own = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let header = |(name, value): (&str, &str)| HeaderValue {
        key: name.to_owned(),
        raw_value: value.as_bytes().to_vec(),
        ..Default::default()
    };
    HeaderMap { headers: pseudo.into_iter().chain(own).map(header).collect() }
}

// Fact 1
fn clears_only_with_a_mutation(answer: &ProcessingResponse) {
    if let Some(common) = answer.response.as_ref().and_then(common) {
        assert!(!common.clear_route_cache || common.header_mutation.is_some(), "{answer:?}");
    }
}

fn common(response: &Response) -> Option<&CommonResponse> {
    match response {
        Response::RequestHeaders(answer) | Response::ResponseHeaders(answer) => answer.response.as_ref(),
        Response::RequestBody(answer) | Response::ResponseBody(answer) => answer.response.as_ref(),
        _ => None,
    }
}

fn immediate(answer: &ProcessingResponse) -> Option<&ImmediateResponse> {
    match &answer.response {
        Some(Response::ImmediateResponse(immediate)) => Some(immediate),
        _ => None,
    }
}

/// Exactly one answer per message, in the same oneof. An answer to the headers that switches the body off ends the exchange.
fn one_answer_each(messages: &[ProcessingRequest], answers: &[ProcessingResponse]) {
    let is_over = answers.first().is_some_and(|answer| answer.mode_override.is_some());
    let messages = if is_over { &messages[..1] } else { messages };
    let asked: Vec<_> = messages.iter().map(|message| matches!(message.request, Some(Request::RequestHeaders(_)))).collect();
    let said: Vec<_> = answers.iter().map(|answer| matches!(answer.response, Some(Response::RequestHeaders(_)))).collect();
    assert_eq!(asked, said, "{answers:?}");
}

/// FULL_DUPLEX_STREAMED: the answer to the headers, then the body as it came, in chunks that end once.
fn headers_then_the_same_bytes(answers: &[ProcessingResponse], body: &[u8]) {
    assert!(matches!(answers[0].response, Some(Response::RequestHeaders(_))), "{answers:?}");
    let chunks: Vec<_> = answers[1..]
        .iter()
        .map(|answer| match answer.response.as_ref().and_then(common).and_then(|common| common.body_mutation.as_ref()) {
            Some(mutation) => match &mutation.mutation {
                Some(Mutation::StreamedResponse(chunk)) => chunk,
                other => panic!("not a streamed response: {other:?}"),
            },
            None => panic!("not a body: {answer:?}"),
        })
        .collect();
    assert!(chunks.iter().all(|chunk| chunk.body.len() <= MAX_CHUNK));
    assert_eq!(chunks.iter().filter(|chunk| chunk.end_of_stream).count(), 1);
    assert!(chunks.last().is_some_and(|chunk| chunk.end_of_stream));
    let bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.body.iter().copied()).collect();
    assert!(bytes == body, "{} bytes instead of {}", bytes.len(), body.len());
}

fn decision(answer: &ProcessingResponse) -> Option<Value> {
    answer.dynamic_metadata.as_ref()?.fields.get("cascade.decision").map(to_json)
}

fn typed_chain(bytes: &[u8]) -> Value {
    let groups = PriorityGroupsOverride::decode(bytes).unwrap().priority_groups;
    let clusters = |group: &crate::answer::priority_group::PriorityGroup| -> Value {
        group
            .clusters
            .iter()
            .map(|one| json!({"cluster_name": one.cluster_name, "weight": one.weight.unwrap_or_default()}))
            .collect()
    };
    groups.iter().map(|group| json!({"name": group.name, "clusters": clusters(group)})).collect()
}

/// As JSON; whole numbers as integers.
fn to_json(value: &ProtoValue) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => json!(flag),
        #[allow(clippy::cast_possible_truncation)]
        Some(Kind::NumberValue(number)) if number.fract() == 0.0 => json!(*number as i64),
        Some(Kind::NumberValue(number)) => json!(number),
        Some(Kind::StringValue(text)) => json!(text),
        Some(Kind::ListValue(list)) => list.values.iter().map(to_json).collect(),
        Some(Kind::StructValue(fields)) => struct_json(fields),
    }
}

fn struct_json(fields: &Struct) -> Value {
    Value::Object(fields.fields.iter().map(|(name, value)| (name.clone(), to_json(value))).collect())
}
