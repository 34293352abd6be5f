//! What `benches/load.sh` needs beside `h2load`:
//!
//! - `load_kit catalog DIR` writes a catalog of 1,000 models and 10,000 tenants, and settings that take the tenant from a header;
//! - `load_kit exchange KIND BYTES FILE` writes the gRPC body of one BUFFERED exchange: request headers, then a body of BYTES;
//! - `load_kit check KIND ADDRESS BYTES` runs that exchange once and prints how many bytes of answers came back, failing unless there
//!   is an answer in kind to each message and the stream ends well.
//!
//! KIND is `decision`, or in the upstream role `rename` (the cluster calls the model otherwise) or `leave` (it does not: Envoy sends
//! the headers alone, as it does once it is told to).

#![allow(clippy::print_stdout, reason = "it is a command")]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    HttpBody, HttpHeaders, ProcessingRequest, ProcessingResponse, ProtocolConfiguration,
};
use envoy_types::pb::google::protobuf::{Struct, Value, value};
use prost::Message;

use cascade::feedback::token::Token;
use cascade::health::Moment;
use cascade::secret::Keys;

const HELP: &str = "\
What benches/load.sh needs beside h2load.

Usage: load_kit catalog DIR              writes a catalog of 1,000 models and 10,000 tenants, and settings
       load_kit exchange KIND BYTES FILE writes the gRPC body of one BUFFERED exchange
       load_kit check KIND ADDRESS BYTES runs that exchange once and checks its answers

  KIND   decision, or in the upstream role rename or leave
  BYTES  how large the request's body is";

type Failure = Box<dyn std::error::Error>;

const MODELS: usize = 1_000;
const TENANTS: usize = 10_000;
const CLUSTERS: usize = 50;
const PROVIDERS: usize = 10;
/// The model of every exchange.
const MODEL: &str = "model-0500";
/// What the server opens tokens with.
const SECRET: &str = "a-key-for-measurements";
/// A gRPC message is preceded by a flag and its length in four bytes.
const PREFIX: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["catalog", directory] => catalog(Path::new(directory)),
        ["exchange", kind, bytes, file] => write_exchange(kind, bytes, file),
        ["check", kind, address, bytes] => check(kind, address, bytes).await,
        ["-h" | "--help"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => Err(format!("wrong arguments\n\n{HELP}").into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load_kit: {error}");
            ExitCode::FAILURE
        }
    }
}

fn catalog(directory: &Path) -> Result<(), Failure> {
    fs::create_dir_all(directory.join("catalog"))?;
    let mut text = "version: 1\nlabel: load\nproviders:\n".to_owned();
    for provider in 0..PROVIDERS {
        writeln!(text, "  provider_{provider}: {{}}")?;
    }
    text.push_str("clusters:\n");
    for cluster in 0..CLUSTERS {
        writeln!(text, "  cluster_{cluster:02}: {{provider: provider_{}, tags: [region_{}]}}", cluster % PROVIDERS, cluster % 5)?;
    }
    text.push_str("  renaming: {models: {model-0500: vendor/model-0500-2025-04-16}}\npriority_groups:\n");
    for group in 0..CLUSTERS {
        let other = (group + 1) % CLUSTERS;
        let clusters =
            format!("{{cluster_name: cluster_{group:02}, weight: 80}}, {{cluster_name: cluster_{other:02}, weight: 20}}");
        writeln!(text, "  group_{group:02}: {{clusters: [{clusters}]}}")?;
    }
    text.push_str("models:\n");
    for model in 0..MODELS {
        let group = model % CLUSTERS;
        let (second, third) = ((group + 7) % CLUSTERS, (group + 21) % CLUSTERS);
        writeln!(
            text,
            "  model-{model:04}: {{aliases: [\"vendor/model-{model:04}-*\"], chain: [group_{group:02}, group_{second:02}, group_{third:02}]}}"
        )?;
    }
    text.push_str("tenants:\n");
    for tenant in 0..TENANTS {
        let (model, group) = (tenant % MODELS, tenant % CLUSTERS);
        let next = (group + 3) % CLUSTERS;
        writeln!(
            text,
            "  tenant-{tenant:05}: {{allowed_models: [\"model-*\"], chains: {{model-{model:04}: [group_{group:02}, group_{next:02}]}}}}"
        )?;
    }
    fs::write(directory.join("catalog/catalog.yaml"), text)?;
    let secret = directory.join("secret");
    fs::write(&secret, format!("{SECRET}\n"))?;
    let settings = format!(
        "extract: {{tenant: [{{header: x-tenant-id, trusted: true}}]}}\nsecret_file: {}\n",
        secret.to_str().ok_or("the directory's name is no text")?
    );
    fs::write(directory.join("cascade.yaml"), settings)?;
    Ok(())
}

fn write_exchange(kind: &str, bytes: &str, file: &str) -> Result<(), Failure> {
    let mut framed = Vec::new();
    for message in exchange(kind, bytes.parse()?)? {
        framed.push(0);
        framed.extend_from_slice(&u32::try_from(message.encoded_len())?.to_be_bytes());
        message.encode(&mut framed)?;
    }
    fs::write(file, framed)?;
    Ok(())
}

/// The messages of a BUFFERED exchange as Envoy sends them.
fn exchange(kind: &str, bytes: usize) -> Result<Vec<ProcessingRequest>, Failure> {
    let body = body(bytes);
    let protocol = ProtocolConfiguration { request_body_mode: BodySendMode::Buffered.into(), ..Default::default() };
    let mut map = headers(body.len());
    let cluster = match kind {
        "decision" => None,
        "rename" => Some("renaming"),
        "leave" => Some("cluster_00"),
        _ => return Err(format!("{kind} is no kind of exchange").into()),
    };
    if cluster.is_some() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let token = Token { model: Some(MODEL.to_owned()), own_name: true, sent: Token::mark_of(MODEL), session: None };
        let keys = Keys::parse(SECRET).map_err(|error| error.0)?;
        let token = token.seal(&keys, Moment::default().after(now)).ok_or("no randomness for a token")?;
        map.headers.extend([("x-cascade-decision", token.as_str()), ("x-envoy-attempt-count", "1")].map(header));
    }
    let headers = HttpHeaders { headers: Some(map), ..Default::default() };
    let head = ProcessingRequest {
        request: Some(Request::RequestHeaders(headers)),
        protocol_config: Some(protocol),
        attributes: cluster.map(attributes).unwrap_or_default(),
        ..Default::default()
    };
    let body = HttpBody { body, end_of_stream: true, ..Default::default() };
    let body = ProcessingRequest { request: Some(Request::RequestBody(body)), ..Default::default() };
    Ok(if kind == "leave" { vec![head] } else { vec![head, body] })
}

/// Which cluster an attempt goes to.
fn attributes(cluster: &str) -> HashMap<String, Struct> {
    let name = Value { kind: Some(value::Kind::StringValue(cluster.to_owned())) };
    let attributes = Struct { fields: [("xds.cluster_name".to_owned(), name)].into() };
    [("envoy.filters.http.ext_proc".to_owned(), attributes)].into()
}

fn header((name, value): (&str, &str)) -> HeaderValue {
    HeaderValue { key: name.to_owned(), raw_value: value.as_bytes().to_vec(), ..Default::default() }
}

/// What an SDK sends and what Envoy adds.
fn headers(length: usize) -> HeaderMap {
    let length = length.to_string();
    let pairs = [
        (":authority", "gateway.example.com"),
        (":path", "/v1/chat/completions"),
        (":method", "POST"),
        (":scheme", "https"),
        ("accept", "application/json"),
        ("accept-encoding", "gzip, deflate, br"),
        ("content-type", "application/json"),
        ("content-length", &length),
        ("user-agent", "OpenAI/Python 1.99.1"),
        ("x-stainless-lang", "python"),
        ("x-stainless-package-version", "1.99.1"),
        ("x-stainless-os", "Linux"),
        ("x-stainless-arch", "x64"),
        ("x-stainless-runtime", "CPython"),
        ("x-stainless-runtime-version", "3.12.4"),
        ("x-stainless-async", "false"),
        ("x-stainless-retry-count", "0"),
        ("x-stainless-read-timeout", "600"),
        ("authorization", "Bearer not-a-real-token-0123456789abcdef0123456789abcdef"),
        ("x-tenant-id", "tenant-05500"),
        ("x-session-id", "7c0cb6b2-52ff-4b8e-9a4b-1b1a2a0d6f10"),
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-proto", "https"),
        ("x-request-id", "f3a9d0c2-6d3a-4f43-8a5c-6c0f3a2e9b11"),
    ];
    HeaderMap { headers: pairs.into_iter().map(header).collect() }
}

/// A chat completion of exactly this many bytes, if that is enough for one.
fn body(bytes: usize) -> Vec<u8> {
    const START: &str = r#"{"messages":[{"role":"user","content":""#;
    let end = format!(r#""}}],"model":"{MODEL}","temperature":0.2,"stream":true}}"#);
    let text = "The quick brown fox jumps over the lazy dog. ";
    let filler: String = text.chars().cycle().take(bytes.saturating_sub(START.len() + end.len())).collect();
    format!("{START}{filler}{end}").into_bytes()
}

async fn check(kind: &str, address: &str, bytes: &str) -> Result<(), Failure> {
    let mut client = ExternalProcessorClient::connect(format!("http://{address}"))
        .await?
        .max_encoding_message_size(64 << 20)
        .max_decoding_message_size(64 << 20);
    let messages = exchange(kind, bytes.parse()?)?;
    let expected = messages.len();
    let mut request = tonic::Request::new(tokio_stream::iter(messages));
    if kind != "decision" {
        request.metadata_mut().insert("x-cascade-role", "upstream".parse()?);
    }
    let mut answers = client.process(request).await?.into_inner();
    let mut received = Vec::new();
    while let Some(answer) = answers.message().await? {
        received.push(answer);
    }
    let kinds: Vec<_> = received.iter().map(|answer| answer.response.as_ref()).collect();
    match &kinds[..] {
        [Some(Response::RequestHeaders(_)), Some(Response::RequestBody(_))] if expected == 2 => {}
        [Some(Response::RequestHeaders(_))] if expected == 1 => {}
        _ => return Err(format!("{expected} answers in kind are due, not {received:?}").into()),
    }
    println!("{}", received.iter().map(|answer| answer.encoded_len() + PREFIX).sum::<usize>());
    eprintln!("{}", received.last().map(describe).unwrap_or_default());
    Ok(())
}

fn describe(answer: &ProcessingResponse) -> String {
    let namespaces: Vec<_> = answer.dynamic_metadata.iter().flat_map(|metadata| metadata.fields.keys()).collect();
    let keeps = if answer.mode_override.is_some() { ", the body stays with Envoy" } else { "" };
    format!("the last answer carries {} bytes, metadata {namespaces:?}{keeps}", answer.encoded_len())
}
