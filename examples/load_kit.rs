//! What `benches/load.sh` needs beside `h2load`:
//!
//! - `load_kit catalog DIR` writes a catalog of 1,000 models and 10,000 tenants, and settings that take the tenant from a header;
//! - `load_kit exchange BYTES FILE` writes the gRPC body of one BUFFERED exchange: request headers, then a body of BYTES;
//! - `load_kit check ADDRESS BYTES` runs that exchange once and prints how many bytes of answers came back, failing unless there
//!   is an answer in kind to each message and the stream ends well.

#![allow(clippy::print_stdout, reason = "it is a command")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    HttpBody, HttpHeaders, ProcessingRequest, ProcessingResponse, ProtocolConfiguration,
};
use prost::Message;

type Failure = Box<dyn std::error::Error>;

const MODELS: usize = 1_000;
const TENANTS: usize = 10_000;
const CLUSTERS: usize = 50;
const PROVIDERS: usize = 10;
/// A gRPC message is preceded by a flag and its length in four bytes.
const PREFIX: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["catalog", directory] => catalog(Path::new(directory)),
        ["exchange", bytes, file] => write_exchange(bytes, file),
        ["check", address, bytes] => check(address, bytes).await,
        _ => Err("usage: load_kit catalog DIR | exchange BYTES FILE | check ADDRESS BYTES".into()),
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
    text.push_str("priority_groups:\n");
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
    fs::write(directory.join("cascade.yaml"), "extract: {tenant: [{header: x-tenant-id, trusted: true}]}\n")?;
    Ok(())
}

fn write_exchange(bytes: &str, file: &str) -> Result<(), Failure> {
    let mut framed = Vec::new();
    for message in exchange(bytes.parse()?) {
        framed.push(0);
        framed.extend_from_slice(&u32::try_from(message.encoded_len())?.to_be_bytes());
        message.encode(&mut framed)?;
    }
    fs::write(file, framed)?;
    Ok(())
}

/// The two messages of a BUFFERED exchange as Envoy sends them.
fn exchange(bytes: usize) -> [ProcessingRequest; 2] {
    let body = body(bytes);
    let protocol = ProtocolConfiguration { request_body_mode: BodySendMode::Buffered.into(), ..Default::default() };
    let headers = HttpHeaders { headers: Some(headers(body.len())), ..Default::default() };
    let body = HttpBody { body, end_of_stream: true, ..Default::default() };
    [
        ProcessingRequest {
            request: Some(Request::RequestHeaders(headers)),
            protocol_config: Some(protocol),
            ..Default::default()
        },
        ProcessingRequest { request: Some(Request::RequestBody(body)), ..Default::default() },
    ]
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
    let header = |(name, value): (&str, &str)| HeaderValue {
        key: name.to_owned(),
        raw_value: value.as_bytes().to_vec(),
        ..Default::default()
    };
    HeaderMap { headers: pairs.into_iter().map(header).collect() }
}

/// A chat completion of exactly this many bytes, if that is enough for one.
fn body(bytes: usize) -> Vec<u8> {
    const START: &str = r#"{"messages":[{"role":"user","content":""#;
    const END: &str = r#""}],"model":"model-0500","temperature":0.2,"stream":true}"#;
    let text = "The quick brown fox jumps over the lazy dog. ";
    let filler: String = text.chars().cycle().take(bytes.saturating_sub(START.len() + END.len())).collect();
    format!("{START}{filler}{END}").into_bytes()
}

async fn check(address: &str, bytes: &str) -> Result<(), Failure> {
    let mut client = ExternalProcessorClient::connect(format!("http://{address}"))
        .await?
        .max_encoding_message_size(64 << 20)
        .max_decoding_message_size(64 << 20);
    let mut answers = client.process(tokio_stream::iter(exchange(bytes.parse()?))).await?.into_inner();
    let mut received = Vec::new();
    while let Some(answer) = answers.message().await? {
        received.push(answer);
    }
    let [to_headers, to_body] = &received[..] else {
        return Err(format!("{} answers instead of 2", received.len()).into());
    };
    let kinds = (to_headers.response.as_ref(), to_body.response.as_ref());
    let (Some(Response::RequestHeaders(_)), Some(Response::RequestBody(_))) = kinds else {
        return Err(format!("answers of the wrong kind: {received:?}").into());
    };
    println!("{}", received.iter().map(|answer| answer.encoded_len() + PREFIX).sum::<usize>());
    eprintln!("{}", describe(to_body));
    Ok(())
}

fn describe(answer: &ProcessingResponse) -> String {
    let namespaces: Vec<_> = answer.dynamic_metadata.iter().flat_map(|metadata| metadata.fields.keys()).collect();
    format!("the answer to the body carries {} bytes, metadata {namespaces:?}", answer.encoded_len())
}
