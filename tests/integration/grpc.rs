//! A gRPC client as Envoy is one: ext_proc streams and health checks.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    HttpBody, HttpHeaders, ProcessingRequest, ProcessingResponse, ProtocolConfiguration, processing_response,
};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::process::LIMIT;

pub const SERVICE: &str = "envoy.service.ext_proc.v3.ExternalProcessor";
/// `ProcessingMode.BodySendMode.BUFFERED`.
const BUFFERED: i32 = 2;
/// `ProcessingMode.BodySendMode.FULL_DUPLEX_STREAMED`.
pub const FULL_DUPLEX_STREAMED: i32 = 4;

/// A connection to `host:port` or `unix:/path`.
pub async fn connect(address: &str) -> Channel {
    let uri = if address.starts_with("unix:") { address.to_owned() } else { format!("http://{address}") };
    let endpoint = Endpoint::try_from(uri).unwrap().connect_timeout(Duration::from_secs(5));
    endpoint.initial_stream_window_size(1 << 24).initial_connection_window_size(1 << 24).connect().await.unwrap()
}

/// What a health check says; an error for a service that is not known (any more), or no connection.
pub async fn health(channel: &Channel, service: &str) -> Result<ServingStatus, Code> {
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer = timeout(LIMIT, HealthClient::new(channel.clone()).check(request)).await.expect("a health answer in time");
    answer.map(|answer| answer.into_inner().status()).map_err(|status| status.code())
}

/// An ext_proc stream.
pub struct Stream {
    requests: Option<mpsc::Sender<ProcessingRequest>>,
    answers: Streaming<ProcessingResponse>,
}

impl Stream {
    pub async fn open(channel: &Channel) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::channel(16);
        let mut client = ExternalProcessorClient::new(channel.clone()).max_encoding_message_size(usize::MAX);
        let opened = timeout(LIMIT, client.process(ReceiverStream::new(receiver))).await.expect("a stream in time");
        Ok(Self { requests: Some(requests), answers: opened?.into_inner() })
    }

    /// One that is under way in BUFFERED mode: the headers are answered, and the body is yet to come.
    pub async fn begin(channel: &Channel, headers: &[(&str, &str)]) -> Self {
        let mut stream = Self::open(channel).await.unwrap();
        stream.send_headers(headers).await;
        stream
    }

    pub async fn send(&mut self, request: ProcessingRequest) {
        self.requests.as_ref().unwrap().send(request).await.unwrap();
    }

    /// The next answer; `None` is a clean end.
    pub async fn answer(&mut self) -> Result<Option<ProcessingResponse>, Status> {
        timeout(LIMIT, self.answers.message()).await.expect("an answer in time")
    }

    /// No more requests: Envoy is done with the stream.
    pub fn close(&mut self) {
        self.requests = None;
    }

    async fn send_headers(&mut self, headers: &[(&str, &str)]) -> ProcessingResponse {
        self.send(head(headers, false)).await;
        self.answer().await.unwrap().expect("an answer to the headers")
    }

    /// A whole exchange of BUFFERED mode: the answer to the headers and that to the body.
    pub async fn buffered(&mut self, headers: &[(&str, &str)], body: Vec<u8>) -> [ProcessingResponse; 2] {
        let first = self.send_headers(headers).await;
        self.send(whole_body(body)).await;
        let second = self.answer().await.unwrap().expect("an answer to the body");
        [first, second]
    }
}

/// The first message of a stream, in BUFFERED mode. What is not given is that of a chat completion.
pub fn head(headers: &[(&str, &str)], end_of_stream: bool) -> ProcessingRequest {
    let own = [(":method", "POST"), (":path", "/v1/chat/completions"), ("content-type", "application/json")];
    let own = own.iter().filter(|(name, _)| !headers.iter().any(|(given, _)| given == name));
    let headers = own.chain(headers).map(|(key, value)| HeaderValue {
        key: (*key).to_owned(),
        raw_value: value.as_bytes().to_vec(),
        ..HeaderValue::default()
    });
    ProcessingRequest {
        request: Some(Request::RequestHeaders(HttpHeaders {
            headers: Some(HeaderMap { headers: headers.collect() }),
            end_of_stream,
            ..HttpHeaders::default()
        })),
        protocol_config: Some(ProtocolConfiguration { request_body_mode: BUFFERED, ..ProtocolConfiguration::default() }),
        ..ProcessingRequest::default()
    }
}

pub fn whole_body(body: Vec<u8>) -> ProcessingRequest {
    let body = HttpBody { body, end_of_stream: true, ..HttpBody::default() };
    ProcessingRequest { request: Some(Request::RequestBody(body)), ..ProcessingRequest::default() }
}

/// `outcome` and `reason` of the decision that an answer carries, as `override model_chain`.
pub fn decision(answer: &ProcessingResponse) -> String {
    let text = |name: &str| {
        let fields = answer.dynamic_metadata.as_ref()?.fields.get("cascade.decision")?.kind.as_ref()?;
        let envoy_types::pb::google::protobuf::value::Kind::StructValue(decision) = fields else { return None };
        match decision.fields.get(name)?.kind.as_ref()? {
            envoy_types::pb::google::protobuf::value::Kind::StringValue(text) => Some(text.clone()),
            _ => None,
        }
    };
    match (text("outcome"), text("reason")) {
        (Some(outcome), Some(reason)) => format!("{outcome} {reason}"),
        _ => format!("no decision in {answer:?}"),
    }
}

/// True for an answer to a body message.
pub fn is_body_answer(answer: &ProcessingResponse) -> bool {
    matches!(answer.response, Some(processing_response::Response::RequestBody(_)))
}
