//! How soon a request with a large body is answered, and how much memory that takes: a body of 50 MB whose model comes first, in
//! FULL_DUPLEX_STREAMED with messages of several sizes and in BUFFERED, once over raw gRPC and once through a real Envoy. Each line
//! is a process of its own, so that its peak memory is that line's. `benches/first_answer.sh` builds and runs it.

#![allow(clippy::print_stdout, reason = "it is a command")]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cascade::lab::{BodyMode, Cluster, Endpoint, Envoy, EnvoySetup, Provider, Request as HttpRequest, Scratch, Serve};
use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders, ProcessingRequest, ProtocolConfiguration};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

const HELP: &str = "\
Measures how soon a request with a large body is answered, and how much memory that takes, over raw gRPC and
through a real Envoy. benches/first_answer.sh builds and runs it.

Usage: first_answer CASCADE

  CASCADE  the program to measure, as target/release/cascade";

type Failure = Box<dyn std::error::Error>;

const SIZE: usize = 50_000_000;
const MIB: usize = 1 << 20;
const CATALOG: &str = "version: 1\npriority_groups: {g: {clusters: [{cluster_name: a, weight: 1}]}}\nmodels: {m: {chain: [g]}}\n";
const SETTINGS: &str = "limits: {max_body: 64MiB}\nserver: {max_message: 128MiB}\n";
/// The first request warms up, and its time is not counted.
const ROUNDS: usize = 11;

#[tokio::main]
async fn main() -> ExitCode {
    let Some(program) = std::env::args().nth(1) else {
        eprintln!("{HELP}");
        return ExitCode::FAILURE;
    };
    if program == "-h" || program == "--help" {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match measure(Path::new(&program)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("first_answer: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(program: &Path) -> Result<(), Failure> {
    println!("a body of {} MB with its model first; medians of {} requests", SIZE / 1_000_000, ROUNDS - 1);
    println!("{:<58} {:>12} {:>12} {:>12} {:>9}", "", "answer", "peak RSS", "over idle", "CPU each");
    for message in [64 * 1024, MIB, 32 * MIB] {
        over_grpc(program, BodyMode::FullDuplexStreamed, message).await?;
    }
    over_grpc(program, BodyMode::Buffered, SIZE).await?;
    for buffer in [MIB, 32 * MIB] {
        through_envoy(program, BodyMode::FullDuplexStreamed, buffer).await?;
    }
    through_envoy(program, BodyMode::Buffered, 64 * MIB).await
}

async fn serve(program: &Path) -> Result<(Scratch, Serve, Usage), Failure> {
    let scratch = Scratch::new()?;
    let text = |path: &Path| path.display().to_string();
    let (catalog, settings) = (scratch.write("catalog.yaml", CATALOG)?, scratch.write("cascade.yaml", SETTINGS)?);
    let arguments = ["--catalog", &text(&catalog), "--config", &text(&settings)];
    let serve = Serve::start(program, scratch.path(), &arguments).await?;
    let idle = Usage::of(&serve)?;
    Ok((scratch, serve, idle))
}

/// What a process has taken so far.
struct Usage {
    /// The most memory it has had at a time (`VmHWM`), in MiB.
    peak: f64,
    /// Its processor time, in seconds.
    cpu: f64,
}

impl Usage {
    fn of(serve: &Serve) -> Result<Self, Failure> {
        /// `USER_HZ` on every Linux.
        const TICKS_PER_SECOND: f64 = 100.0;
        let file = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", serve.id()));
        let (status, stat) = (file("status")?, file("stat")?);
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        // Behind the name, which is in parentheses, the 12th and the 13th field are user and system time.
        let times = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(11).take(2));
        let ticks: f64 = times.into_iter().flatten().filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        Ok(Self { peak: peak.ok_or("/proc says nothing of VmHWM")? / 1024.0, cpu: ticks / TICKS_PER_SECOND })
    }
}

fn report(title: &str, mut times: Vec<Duration>, serve: &Serve, idle: &Usage) -> Result<(), Failure> {
    let (count, now) = (times.len(), Usage::of(serve)?);
    times.remove(0);
    times.sort();
    let (median, cpu) = (times[times.len() / 2].as_secs_f64() * 1e3, (now.cpu - idle.cpu) * 1e3 / count as f64);
    println!("{title:<58} {median:>9.2} ms {:>8.1} MiB {:>8.1} MiB {cpu:>6.0} ms", now.peak, now.peak - idle.peak);
    Ok(())
}

fn body() -> Vec<u8> {
    let mut body = br#"{"model":"m","messages":[{"role":"user","content":""#.to_vec();
    body.resize(SIZE - 4, b'x');
    body.extend_from_slice(br#""}]}"#);
    body
}

async fn over_grpc(program: &Path, mode: BodyMode, message: usize) -> Result<(), Failure> {
    let (_scratch, serve, idle) = serve(program).await?;
    let Endpoint::Unix(socket) = serve.grpc() else { return Err("a Unix socket was expected".into()) };
    let channel = tonic::transport::Endpoint::try_from(format!("unix://{}", socket.display()))?;
    let channel = channel.initial_stream_window_size(1 << 24).initial_connection_window_size(1 << 24).connect().await?;
    let body = body();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(exchange(&channel, mode, &body, message).await?);
    }
    report(&format!("raw gRPC, {mode}, messages of {} KiB", message / 1024), times, &serve, &idle)
}

/// One request: the time from the first piece of its body to the answer that decides. The rest of the body follows.
async fn exchange(channel: &Channel, mode: BodyMode, body: &[u8], message: usize) -> Result<Duration, Failure> {
    let (requests, receiver) = mpsc::channel(1);
    let mut client = ExternalProcessorClient::new(channel.clone()).max_encoding_message_size(usize::MAX);
    let mut answers = client.process(ReceiverStream::new(receiver)).await?.into_inner();
    requests.send(head(mode)).await?;
    if mode == BodyMode::Buffered {
        answers.message().await?.ok_or("no answer to the headers")?;
    }
    let chunks: Vec<_> = body.chunks(message).map(<[u8]>::to_vec).collect();
    let count = chunks.len();
    let mut pieces = chunks.into_iter().enumerate().map(move |(index, body)| piece(body, index + 1 == count));
    let start = Instant::now();
    requests.send(pieces.next().ok_or("no body")?).await?;
    answers.message().await?.ok_or("no decision")?;
    let time = start.elapsed();
    tokio::spawn(async move {
        for piece in pieces {
            // A stream that has ended shows below.
            let _ = requests.send(piece).await;
        }
    });
    while answers.message().await?.is_some() {}
    Ok(time)
}

fn head(mode: BodyMode) -> ProcessingRequest {
    let header = |(key, value): (&str, &str)| HeaderValue {
        key: key.to_owned(),
        raw_value: value.as_bytes().to_vec(),
        ..HeaderValue::default()
    };
    let headers = [(":method", "POST"), (":path", "/v1/chat/completions"), ("content-type", "application/json")].map(header);
    let headers = HttpHeaders { headers: Some(HeaderMap { headers: headers.to_vec() }), ..HttpHeaders::default() };
    let mode = if mode == BodyMode::Buffered { BodySendMode::Buffered } else { BodySendMode::FullDuplexStreamed };
    ProcessingRequest {
        request: Some(Request::RequestHeaders(headers)),
        protocol_config: Some(ProtocolConfiguration { request_body_mode: mode.into(), ..ProtocolConfiguration::default() }),
        ..ProcessingRequest::default()
    }
}

fn piece(body: Vec<u8>, end_of_stream: bool) -> ProcessingRequest {
    let body = HttpBody { body, end_of_stream, ..HttpBody::default() };
    ProcessingRequest { request: Some(Request::RequestBody(body)), ..ProcessingRequest::default() }
}

/// The time from the first piece of the body, which the client sends as fast as it is taken, to the head at the provider.
async fn through_envoy(program: &Path, mode: BodyMode, buffer: usize) -> Result<(), Failure> {
    let (_scratch, serve, idle) = serve(program).await?;
    let provider = Provider::answering("a", 200).await?;
    let mut setup = EnvoySetup::new(serve.grpc().clone(), vec![Cluster::new("a", provider.address())]);
    setup.body_mode = mode;
    setup.buffer_limit = u32::try_from(buffer)?;
    setup.message_timeout = Duration::from_secs(20);
    let envoy = Envoy::start(&setup).await?;
    let body = body();
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let mut sending = HttpRequest::post("/v1/chat/completions", "").begin(envoy.address(), Some(body.len())).await?;
        let start = Instant::now();
        let (sent, time) = tokio::join!(
            async {
                for piece in body.chunks(64 * 1024) {
                    sending.write(piece).await;
                }
                sending.response().await
            },
            async {
                while provider.begun() <= round {
                    tokio::task::yield_now().await;
                }
                start.elapsed()
            }
        );
        if sent?.status != 200 {
            return Err("Envoy did not let the request through".into());
        }
        times.push(time);
    }
    report(&format!("Envoy, {mode}, buffer limit {} MiB", buffer / MIB), times, &serve, &idle)
}
