//! The law of attempts: whatever happens to Cascade between them, a provider gets the client's request or the renamed one, whole, and no
//! attempt finds another one's body length. Envoy is played by its rules: one set of headers for all attempts, the body anew for each.

use std::time::SystemTime;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::service::ext_proc::v3 as pb;
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::google::protobuf::{self, value};
use pb::processing_request::Request;
use pb::processing_response::Response;
use proptest::prelude::*;
use prost::Message;

use crate::catalog::compile::compile;
use crate::catalog::load::SourceFile;
use crate::catalog::store::Store;
use crate::extproc::upstream::Upstream;
use crate::feedback::Monitor;
use crate::feedback::token::Token;
use crate::health::Policy;
use crate::pipeline::affinity::Affinity;
use crate::pipeline::*;
use crate::proto::ProcessingRequest;
use crate::settings::read::{Flags, read};

const CATALOG: &str = "version: 1
clusters:
  one: {models: {m: vendor-with-a-much-longer-name, n: v}}
  two: {models: {m: v, n: vendor-with-a-much-longer-name}, path_prefix: {from: /v1, to: /api}}
  three: {}
priority_groups: {g: {clusters: [{cluster_name: one, weight: 1}, {cluster_name: two, weight: 1}, {cluster_name: three, weight: 1}]}}
models: {m: {aliases: [alias-m], chain: [g]}, n: {aliases: [n-*], chain: [g]}}
";
const SETTINGS: &str = "extract: {model: [{header: x-model}, {path: \"/v1/own/{model}/**\"}, {form: engine}, {body: /spec/engine}, {query: model}, {dialect: auto}]}\n";

fn pipeline(keys: &Keys) -> Arc<Pipeline> {
    let (settings, _) = read(Some(("cascade.yaml", SETTINGS)), std::iter::empty(), Flags::default()).unwrap();
    let accepted = compile(&[SourceFile::new("catalog.yaml", CATALOG)]).unwrap();
    let store = Arc::new(Store::new("catalog.yaml"));
    store.accept(&Arc::new(accepted.snapshot), SystemTime::UNIX_EPOCH);
    let affinity = Arc::new(Affinity::new(&settings, None, keys.clone()));
    let monitor = Arc::new(Monitor::new(Policy::default()));
    Arc::new(Pipeline::new(&settings, store, Arc::new(Metrics::new()), keys.clone(), monitor, affinity))
}

/// A request as somebody sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sight {
    headers: Vec<(String, String)>,
    body: String,
}

impl Sight {
    fn new(path: &str, content_type: &str, body: String) -> Self {
        let headers = [(":method", "POST"), (":path", path), ("content-type", content_type)];
        Self { headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(), body }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn set(&mut self, name: &str, value: &str) {
        self.headers.retain(|(key, _)| key != name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    /// What a provider reads it by.
    fn read(&self) -> (Option<&str>, Option<&str>, &str) {
        (self.get(":path"), self.get("x-model"), &self.body)
    }
}

/// A request that names this model in one of many places, with other text around it.
fn named(way: usize, name: &str, around: &str) -> Sight {
    let json = "application/json";
    let part = |name: &str, text: &str| format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n");
    let text = serde_json::Value::from(around).to_string();
    let plain: String = around.chars().filter(char::is_ascii_alphanumeric).collect();
    match way {
        0 => Sight::new("/v1/chat/completions?a=%7e", json, format!("{{ \"x\":{text},\"model\" : \"{name}\", \"y\":{text}}}")),
        1 => Sight::new("/custom", json, format!("{{\"model\":\"no\",\"spec\":{{\"x\":{text},\"engine\":\"{name}\"}}}}")),
        2 => {
            let body = format!("{}{}--B--\r\n{around}", part("x", around), part("model", name));
            Sight::new("/v1/audio/transcriptions", "multipart/form-data; boundary=B", body)
        }
        3 => Sight::new("/custom", "application/x-www-form-urlencoded", format!("x={plain}+%7e&engine={name}&y={plain}")),
        4 => Sight::new(&format!("/v1/x?x={plain}&model={name}&y=%2f"), json, format!("{{\"x\":{text}}}")),
        5 => Sight::new(&format!("/v1/own/{name}/{plain}?x=%2f"), json, text),
        6 => Sight::new(&format!("/openai/deployments/{name}/chat/completions?x={plain}"), json, "{}".to_owned()),
        _ => {
            let mut sight = Sight::new(&format!("/v1/x?x={plain}"), json, format!("{{\"model\":{text}}}"));
            sight.set("x-model", name);
            sight
        }
    }
}

/// What the role comes to see of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Sees,
    /// The cluster skips it, or Cascade is away.
    Away,
    /// Cascade dies between head and body.
    Dies,
}

/// Lets the role change the shared head, and gives the body that goes out.
fn attempt(pipeline: &Arc<Pipeline>, cluster: &str, role: Role, shared: &mut Sight) -> String {
    let client = shared.body.clone();
    if role == Role::Away {
        return client;
    }
    let mut stream = Upstream::new(pipeline.attempt());
    let header = |(key, value): &(String, String)| core::HeaderValue {
        key: key.clone(),
        raw_value: value.clone().into_bytes(),
        ..Default::default()
    };
    let name = protobuf::Value { kind: Some(value::Kind::StringValue(cluster.to_owned())) };
    let attributes = protobuf::Struct { fields: [("xds.cluster_name".to_owned(), name)].into() };
    let headers = core::HeaderMap { headers: shared.headers.iter().map(header).collect() };
    let head = pb::ProcessingRequest {
        request: Some(Request::RequestHeaders(pb::HttpHeaders { headers: Some(headers), ..Default::default() })),
        protocol_config: Some(pb::ProtocolConfiguration { request_body_mode: 2, ..Default::default() }),
        attributes: [("envoy.filters.http.ext_proc".to_owned(), attributes)].into(),
        ..Default::default()
    };
    let answer = one(&mut stream, &head);
    let asks = answer.mode_override.is_none();
    let Some(Response::RequestHeaders(common)) = answer.response else { panic!("no answer to the head") };
    change(shared, common.response.unwrap_or_default().header_mutation);
    if !asks || role == Role::Dies {
        return client;
    }
    let body = pb::HttpBody { body: client.clone().into_bytes(), end_of_stream: true, ..Default::default() };
    let body = pb::ProcessingRequest { request: Some(Request::RequestBody(body)), ..Default::default() };
    let Some(Response::RequestBody(common)) = one(&mut stream, &body).response else { panic!("no answer to the body") };
    let common = common.response.unwrap_or_default();
    change(shared, common.header_mutation);
    match common.body_mutation.and_then(|body| body.mutation) {
        None => client,
        Some(Mutation::Body(bytes)) => String::from_utf8(bytes).unwrap(),
        Some(other) => panic!("{other:?}"),
    }
}

fn one(stream: &mut Upstream, message: &pb::ProcessingRequest) -> pb::ProcessingResponse {
    let message = ProcessingRequest::decode(message.encode_to_vec().as_slice()).unwrap();
    let mut replies = stream.on(message);
    while stream.reads_on() {
        replies.extend(stream.read_on());
    }
    let [reply] = &replies[..] else { panic!("one answer to each message") };
    pb::ProcessingResponse::decode(reply.to_bytes().as_slice()).unwrap()
}

fn change(shared: &mut Sight, mutation: Option<pb::HeaderMutation>) {
    let mutation = mutation.unwrap_or_default();
    for option in mutation.set_headers {
        let header = option.header.unwrap();
        shared.set(&header.key, std::str::from_utf8(&header.raw_value).unwrap());
    }
    shared.headers.retain(|(name, _)| !mutation.remove_headers.contains(name));
}

/// The catalog's model and what the cluster calls it.
fn name_at<'n>(cluster: &str, sent: &'n str, has_token: bool) -> &'n str {
    let long = "vendor-with-a-much-longer-name";
    match (cluster, sent) {
        (_, "nobody") => sent,
        ("one", "m" | "alias-m") | ("two", "n" | "n-1") => long,
        ("two", "m" | "alias-m") | ("one", "n" | "n-1") => "v",
        ("elsewhere", _) if !has_token => sent,
        (_, "m" | "alias-m") => "m",
        _ => "n",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_attempt_is_the_clients_or_the_renamed_one(
        way in 0..8_usize,
        sent in prop::sample::select(vec!["m", "alias-m", "n", "n-1", "nobody"]),
        around in "[a-z\"\\\\\r\n{}:é -]{0,40}",
        (has_length, has_token) in (any::<bool>(), any::<bool>()),
        attempts in prop::collection::vec((
            prop::sample::select(vec!["one", "two", "three", "elsewhere"]),
            prop::sample::select(vec![Role::Sees, Role::Sees, Role::Away, Role::Dies]),
        ), 1..7),
    ) {
        let keys = Keys::random().unwrap();
        let pipeline = pipeline(&keys);
        let client = named(way, sent, &around);
        let mut shared = client.clone();
        if has_length {
            shared.set("content-length", &client.body.len().to_string());
        }
        if has_token && sent != "nobody" {
            let model = if sent.contains('m') { "m" } else { "n" };
            let token = Token { model: Some(model.to_owned()), own_name: sent == model, sent: Token::mark_of(sent), session: None };
            shared.set("x-cascade-decision", &token.seal(&keys, pipeline.monitor.now()).unwrap());
        }
        for (number, (cluster, role)) in attempts.into_iter().enumerate() {
            shared.set("x-envoy-attempt-count", &(number + 1).to_string());
            let before = shared.clone();
            let body = attempt(&pipeline, cluster, role, &mut shared);
            let seen = Sight { body, ..shared.clone() };
            if let Some(length) = seen.get("content-length") {
                prop_assert_eq!(length, seen.body.len().to_string(), "another attempt's length");
            }
            let mut renamed = named(way, name_at(cluster, sent, has_token), &around);
            let mut restored = client.clone();
            for sight in [&mut renamed, &mut restored] {
                let path = sight.get(":path").unwrap().to_owned();
                if cluster == "two" && path.starts_with("/v1/") {
                    sight.set(":path", &path.replacen("/v1", "/api", 1));
                }
            }
            match role {
                Role::Sees => prop_assert_eq!(seen.read(), renamed.read(), "{} at {}", number + 1, cluster),
                Role::Away => {
                    prop_assert_eq!(&seen.body, &client.body);
                    prop_assert_eq!(&seen.headers, &before.headers);
                }
                Role::Dies => {
                    prop_assert_eq!(&seen.body, &client.body);
                    let head = (seen.get(":path"), seen.get("x-model"));
                    let whole = [&renamed, &restored].map(|sight| (sight.get(":path"), sight.get("x-model")));
                    prop_assert!(whole.contains(&head), "{head:?} is none of {whole:?}");
                }
            }
        }
    }
}
