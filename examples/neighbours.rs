//! What hostile bodies cost those who share a worker with them: bodies of each kind are sent at `cascade serve` on one connection
//! while another one asks small decisions, one after the other. For each kind it prints how the hostile body was judged, how long its
//! answer took, and the neighbour's median, 99th percentile and worst. `benches/neighbours.sh` builds it and gives it one worker.

#![allow(clippy::print_stdout, reason = "it is a command")]

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cascade::lab::{Endpoint, Scratch, Serve};
use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders, ProcessingRequest, ProtocolConfiguration};
use envoy_types::pb::google::protobuf::value::Kind;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const CATALOG: &str = "version: 1\npriority_groups: {g: {clusters: [{cluster_name: a, weight: 1}]}}\nmodels: {m: {chain: [g]}}\n";
const MIB: usize = 1 << 20;

#[tokio::main]
async fn main() -> ExitCode {
    let program = match std::env::args().nth(1) {
        Some(program) if program != "-h" && program != "--help" => program,
        asked => {
            eprintln!(
                "Usage: neighbours CASCADE\n\nMeasures what hostile bodies cost the neighbours of CASCADE, as target/release/cascade."
            );
            return if asked.is_some() { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    match measure(Path::new(&program)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("neighbours: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(program: &Path) -> Result<(), Failure> {
    println!("{:<44} {:>10} {:<26} {:>9} {:>9} {:>9} {:>9}", "", "its answer", "judged", "median", "p99", "worst", "peak RSS");
    for (title, coding, body, count) in hostile()? {
        let scratch = Scratch::new()?;
        let catalog = scratch.write("catalog.yaml", CATALOG)?;
        let serve = Serve::start(program, scratch.path(), &["--catalog", &catalog.display().to_string()]).await?;
        let (busy, quiet) = (connect(&serve).await?, connect(&serve).await?);
        let stop = Arc::new(AtomicBool::new(false));
        let neighbour = tokio::spawn(ask(quiet, Arc::clone(&stop)));
        let start = Instant::now();
        let mut hostile = tokio::task::JoinSet::new();
        for _ in 0..count {
            let (busy, body) = (busy.clone(), body.clone());
            hostile.spawn(async move { decide(&busy, coding, body).await });
        }
        let mut judged = String::new();
        while let Some(answer) = hostile.join_next().await {
            judged = answer??;
        }
        let took = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        let mut times = neighbour.await??;
        times.sort_unstable();
        let at = |part: usize| micros(times[(times.len() - 1) * part / 1000]);
        let name = format!("{count} x {title}, {:.1} MB", body.len() as f64 / 1e6);
        println!(
            "{name:<44} {:>10} {judged:<26} {:>9} {:>9} {:>9} {:>6} MB",
            micros(took),
            at(500),
            at(990),
            at(1000),
            peak(&serve)?
        );
    }
    Ok(())
}

fn micros(time: Duration) -> String {
    if time >= Duration::from_millis(10) { format!("{} ms", time.as_millis()) } else { format!("{} us", time.as_micros()) }
}

type Hostile = (&'static str, &'static str, Vec<u8>, usize);

fn hostile() -> Result<Vec<Hostile>, Failure> {
    let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    member.write_all(b"")?;
    let member = member.finish()?;
    let layers = (0..3).try_fold(vec![b' '; 40 * MIB], |text, _| -> std::io::Result<Vec<u8>> {
        let mut layer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        layer.write_all(&text)?;
        layer.finish()
    })?;
    let json = |piece: &str| format!("{{\"messages\":[{}1],\"model\":\"m\"}}", piece.repeat(24 * MIB / piece.len())).into_bytes();
    let keys = format!("{{{}\"model\":\"m\"}}", "\"a\":1,".repeat(4 * MIB)).into_bytes();
    Ok(vec![
        ("nothing hostile", "identity", br#"{"model":"m"}"#.to_vec(), 1),
        ("plain JSON of numbers", "identity", json("1,"), 4),
        ("plain JSON of brackets", "identity", json("[[[[]]]],"), 4),
        ("plain JSON of keys", "identity", keys, 4),
        ("empty fixed blocks of deflate", "deflate", 0x8020_0802_u64.to_le_bytes()[..5].repeat(4 * MIB), 4),
        ("empty stored blocks of deflate", "deflate", [0, 0, 0, 0xFF, 0xFF].repeat(4 * MIB), 4),
        ("empty members of gzip", "gzip", member.repeat(MIB), 4),
        ("empty frames of zstd", "zstd", zstd::stream::encode_all(&b""[..], 1)?.repeat(2 * MIB), 4),
        ("empty metadata of brotli", "br", [vec![0x0C], vec![0x06; 20 * MIB]].concat(), 4),
        ("40 MB of blanks under three gzips", "gzip, gzip, gzip", layers, 4),
        ("16 MB of empty fixed blocks", "deflate", 0x8020_0802_u64.to_le_bytes()[..5].repeat(16 * MIB / 5), 100),
    ])
}

/// The most memory that the process has had at a time, in MB.
fn peak(serve: &Serve) -> Result<u64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serve.id()))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(peak.ok_or("/proc says nothing of VmHWM")? * 1024 / 1_000_000)
}

async fn connect(serve: &Serve) -> Result<Channel, Failure> {
    let Endpoint::Unix(socket) = serve.grpc() else { return Err("a Unix socket was expected".into()) };
    let endpoint = tonic::transport::Endpoint::try_from(format!("unix://{}", socket.display()))?;
    Ok(endpoint.initial_stream_window_size(1 << 24).connect().await?)
}

async fn ask(channel: Channel, stop: Arc<AtomicBool>) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) || times.len() < 1000 {
        let start = Instant::now();
        decide(&channel, "identity", br#"{"model":"m"}"#.to_vec()).await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// One request in BUFFERED, and the reason it was judged for.
async fn decide(channel: &Channel, coding: &str, body: Vec<u8>) -> Result<String, Failure> {
    let header = |key: &str, value: &str| HeaderValue { key: key.to_owned(), value: value.to_owned(), ..HeaderValue::default() };
    let headers = HeaderMap {
        headers: vec![
            header(":method", "POST"),
            header(":path", "/v1/chat/completions"),
            header("content-type", "application/json"),
            header("content-encoding", coding),
        ],
    };
    let head = ProcessingRequest {
        request: Some(Request::RequestHeaders(HttpHeaders { headers: Some(headers), ..HttpHeaders::default() })),
        protocol_config: Some(ProtocolConfiguration { request_body_mode: 2, ..ProtocolConfiguration::default() }),
        ..ProcessingRequest::default()
    };
    let body = HttpBody { body, end_of_stream: true, ..HttpBody::default() };
    let body = ProcessingRequest { request: Some(Request::RequestBody(body)), ..ProcessingRequest::default() };
    let (sender, receiver) = mpsc::channel(4);
    let mut client = ExternalProcessorClient::new(channel.clone()).max_encoding_message_size(usize::MAX);
    let mut answers = client.process(ReceiverStream::new(receiver)).await?.into_inner();
    sender.send(head).await?;
    answers.message().await?.ok_or("no answer to the headers")?;
    sender.send(body).await?;
    let answer = answers.message().await?.ok_or("no answer to the body")?;
    // Cascade ends the stream by itself; whoever leaves first, a thousand times, is taken for an attacker by its own HTTP/2 library.
    while answers.message().await?.is_some() {}
    drop(sender);
    let metadata = answer.dynamic_metadata.unwrap_or_default();
    let Some(Kind::StructValue(decision)) = metadata.fields.get("cascade.decision").and_then(|value| value.kind.clone()) else {
        return Ok("without a decision".to_owned());
    };
    match decision.fields.get("reason").and_then(|value| value.kind.clone()) {
        Some(Kind::StringValue(reason)) => Ok(reason),
        _ => Ok("without a reason".to_owned()),
    }
}
