//! Answers of the scripted processor, written by hand field by field: nothing here comes from Cascade, so that a fact about Envoy
//! does not lean on the code that relies on it.

use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::ProcessingMode;
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, HttpBody, ImmediateResponse, ProcessingResponse,
    StreamedBodyResponse, TrailersResponse,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Any, ListValue, Struct, Value};
use prost::Message;

/// The messages of `priority_group`, compiled from the vendored proto by the build script.
pub mod priority_group {
    include!(concat!(env!("OUT_DIR"), "/envoy.extensions.router.cluster_specifiers.priority_group.v3.rs"));
}

const NAMESPACE: &str = "cascade";

/// A group of an override: its name, its clusters with weights. A weight is what is written, sensible or not.
#[derive(Debug, Clone)]
pub struct Group {
    name: String,
    clusters: Vec<(String, f64)>,
}

/// A group of that name with one cluster.
pub fn group(name: &str, cluster: &str) -> Group {
    weighted(name, &[(cluster, 100.0)])
}

pub fn weighted(name: &str, clusters: &[(&str, f64)]) -> Group {
    Group { name: name.to_owned(), clusters: clusters.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect() }
}

/// A group that is only a name.
pub fn named(name: &str) -> Group {
    Group { name: name.to_owned(), clusters: Vec::new() }
}

/// What to say about a request; [`Answer::empty`] says nothing.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    untyped: Option<Struct>,
    typed: Option<Any>,
    headers: Option<HeaderMutation>,
    clear_route_cache: bool,
    body_mode: Option<i32>,
}

impl Answer {
    pub fn empty() -> Self {
        Self::default()
    }

    /// An override as it has to be: untyped, the route cache cleared, a header mutation that is empty but present (fact 2).
    pub fn chain(groups: &[Group]) -> Self {
        Self {
            untyped: Some(untyped(groups)),
            clear_route_cache: true,
            headers: Some(HeaderMutation::default()),
            ..Self::default()
        }
    }

    /// The clusters in this order, each a group of its own.
    pub fn clusters(names: &[&str]) -> Self {
        Self::chain(&names.iter().map(|name| group(name, name)).collect::<Vec<_>>())
    }

    /// The same override as typed metadata.
    pub fn typed_chain(groups: &[Group]) -> Self {
        Self { untyped: None, typed: Some(typed(groups)), ..Self::chain(&[]) }
    }

    /// This answer with the typed override of another one beside its own.
    pub fn and_typed(self, other: Self) -> Self {
        Self { typed: other.typed, ..self }
    }

    /// An override whose `priority_groups` is this, well formed or not.
    pub fn raw(groups: Value) -> Self {
        Self { untyped: Some(in_namespace(groups)), ..Self::chain(&[]) }
    }

    pub fn without_header_mutation(self) -> Self {
        Self { headers: None, ..self }
    }

    pub fn set_header(mut self, name: &str, value: &str) -> Self {
        let value = HeaderValue { key: name.to_owned(), raw_value: value.as_bytes().to_vec(), ..Default::default() };
        let option = HeaderValueOption {
            header: Some(value),
            append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
            ..Default::default()
        };
        self.headers.get_or_insert_default().set_headers.push(option);
        self
    }

    /// `mode_override.request_body_mode`.
    pub fn body_mode(self, mode: i32) -> Self {
        Self { body_mode: Some(mode), ..self }
    }

    pub fn to_headers(&self) -> ProcessingResponse {
        self.to_message(Response::RequestHeaders(HeadersResponse { response: Some(self.common()) }))
    }

    pub fn to_body(&self) -> ProcessingResponse {
        self.to_message(Response::RequestBody(BodyResponse { response: Some(self.common()) }))
    }

    fn common(&self) -> CommonResponse {
        CommonResponse { header_mutation: self.headers.clone(), clear_route_cache: self.clear_route_cache, ..Default::default() }
    }

    fn to_message(&self, response: Response) -> ProcessingResponse {
        let mode = self.body_mode.map(|mode| ProcessingMode { request_body_mode: mode, ..Default::default() });
        ProcessingResponse {
            response: Some(response),
            dynamic_metadata: self.untyped.clone(),
            typed_dynamic_metadata: self.typed.iter().map(|any| (NAMESPACE.to_owned(), any.clone())).collect(),
            mode_override: mode,
            ..Default::default()
        }
    }
}

/// Returns a chunk of a FULL_DUPLEX_STREAMED body as it came.
pub fn echo(chunk: &HttpBody) -> ProcessingResponse {
    let streamed = StreamedBodyResponse { body: chunk.body.clone(), end_of_stream: chunk.end_of_stream, ..Default::default() };
    let common = CommonResponse {
        body_mutation: Some(BodyMutation { mutation: Some(Mutation::StreamedResponse(streamed)) }),
        ..Default::default()
    };
    let response = Some(Response::RequestBody(BodyResponse { response: Some(common) }));
    ProcessingResponse { response, ..Default::default() }
}

pub fn trailers() -> ProcessingResponse {
    let response = Some(Response::RequestTrailers(TrailersResponse::default()));
    ProcessingResponse { response, ..Default::default() }
}

/// An ImmediateResponse.
pub fn reject(status: i32, body: &str) -> ProcessingResponse {
    let immediate =
        ImmediateResponse { status: Some(HttpStatus { code: status }), body: body.as_bytes().to_vec(), ..Default::default() };
    ProcessingResponse { response: Some(Response::ImmediateResponse(immediate)), ..Default::default() }
}

fn untyped(groups: &[Group]) -> Struct {
    let groups = groups.iter().map(|group| {
        let clusters = group
            .clusters
            .iter()
            .map(|(name, weight)| object(fields([("cluster_name", text(name)), ("weight", number(*weight))])));
        let name = ("name", text(&group.name));
        if group.clusters.is_empty() { object(fields([name])) } else { object(fields([name, ("clusters", list(clusters))])) }
    });
    in_namespace(list(groups))
}

fn in_namespace(groups: Value) -> Struct {
    fields([(NAMESPACE, object(fields([("priority_groups", groups)])))])
}

fn typed(groups: &[Group]) -> Any {
    let groups = groups.iter().map(|group| priority_group::PriorityGroup {
        name: group.name.clone(),
        clusters: group.clusters.iter().map(|(name, weight)| typed_cluster(name, *weight)).collect(),
    });
    let message = priority_group::PriorityGroupsOverride { priority_groups: groups.collect() };
    Any {
        type_url: "type.googleapis.com/envoy.extensions.router.cluster_specifiers.priority_group.v3.PriorityGroupsOverride"
            .to_owned(),
        value: message.encode_to_vec(),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn typed_cluster(name: &str, weight: f64) -> priority_group::ClusterWeight {
    priority_group::ClusterWeight { cluster_name: name.to_owned(), weight: Some(weight as u32) }
}

pub fn fields<const N: usize>(fields: [(&str, Value); N]) -> Struct {
    Struct { fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect() }
}

pub fn object(fields: Struct) -> Value {
    Value { kind: Some(Kind::StructValue(fields)) }
}

pub fn text(value: &str) -> Value {
    Value { kind: Some(Kind::StringValue(value.to_owned())) }
}

pub fn number(value: f64) -> Value {
    Value { kind: Some(Kind::NumberValue(value)) }
}

pub fn list(values: impl IntoIterator<Item = Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values: values.into_iter().collect() })) }
}
