//! What goes on beside the requests must not be felt by them. Runs a `cascade serve` and a Redis and measures
//!
//! - how long decisions take whose session is looked up in Redis, without and with scrapers of `/metrics`, the catalog having 1,000
//!   tenants and models that all have series;
//! - what the process holds, and how long a probe takes, while hundreds of admin connections idle or do not take their answers.
//!
//!   cargo build --release && cargo run --release --example beside [PROGRAM]

#![allow(clippy::print_stdout, reason = "it is a command")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cascade::lab::{Endpoint, RedisServer, Request, Scratch, Serve};
use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpHeaders, ProcessingRequest, processing_request};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tonic::transport::Channel;

const HELP: &str = "\
Measures what scrapers and slow admin connections cost the requests and the probes.

Usage: beside [PROGRAM]

  PROGRAM  a cascade, target/release/cascade if none is given";

type Failure = Box<dyn std::error::Error>;

const NAMES: usize = 1_000;
const DECISIONS: usize = 4_000;
const SCRAPERS: usize = 4;
/// More than the admin address keeps open.
const SLOW: usize = 400;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let program = std::env::args().nth(1).unwrap_or_else(|| "target/release/cascade".to_owned());
    if program == "-h" || program == "--help" {
        println!("{HELP}");
        return Ok(());
    }
    let (redis, scratch) = (RedisServer::start().await?, Scratch::new()?);
    scratch.write("catalog.yaml", &catalog())?;
    scratch.write("cascade.yaml", &settings(&redis.url()))?;
    let at = |name: &str| scratch.path().join(name).display().to_string();
    let arguments = ["--catalog", &at("catalog.yaml"), "--config", &at("cascade.yaml")];
    let serve = Serve::start(&PathBuf::from(program), scratch.path(), &arguments).await?;
    let admin = scratch.path().join("admin.sock");
    let channel = tonic::transport::Endpoint::try_from(serve.grpc().to_string())?.connect().await?;
    for name in 0..NAMES {
        decide(&channel, name, "warm").await?;
    }
    let page = serve.admin(Request::get("/metrics")).await?.body.len();
    println!("/metrics has {page} bytes");
    println!("alone:          {}", run(&channel, "alone").await?);
    let scrapers: Vec<_> = (0..SCRAPERS).map(|_| tokio::spawn(scrape(Endpoint::Unix(admin.clone())))).collect();
    println!("{SCRAPERS} scrapers:     {}", run(&channel, "scraped").await?);
    scrapers.iter().for_each(tokio::task::JoinHandle::abort);
    crowd(&serve, &admin).await
}

fn catalog() -> String {
    let names = |prefix: &str, rest: &str| (0..NAMES).map(|at| format!("  {prefix}{at}: {{{rest}}}\n")).collect::<String>();
    let groups = "priority_groups:\n  g: {clusters: [{cluster_name: c, weight: 1}]}\n";
    format!("version: 1\n{groups}models:\n{}tenants:\n{}", names("m", "chain: [g]"), names("t", ""))
}

fn settings(redis: &str) -> String {
    let extract = "{model: [{header: x-model}], tenant: [{header: x-tenant, trusted: true}]}";
    format!(
        "extract: {extract}\nsession: {{directory: redis, url: \"{redis}\", timeout: 1s}}\nlimits: {{decision_deadline: 1s}}\n"
    )
}

/// One decision at the headers, with a session that nobody has asked for before.
async fn decide(channel: &Channel, name: usize, session: &str) -> Result<Duration, Failure> {
    let header =
        |key: &str, value: String| HeaderValue { key: key.to_owned(), raw_value: value.into_bytes(), ..Default::default() };
    let headers = vec![
        header(":method", "GET".to_owned()),
        header(":path", "/v1/chat/completions".to_owned()),
        header("x-model", format!("m{}", name % NAMES)),
        header("x-tenant", format!("t{}", name % NAMES)),
        header("x-session-id", format!("{session}-{name}")),
    ];
    let headers = HttpHeaders { headers: Some(HeaderMap { headers }), end_of_stream: true, ..Default::default() };
    let request = ProcessingRequest { request: Some(processing_request::Request::RequestHeaders(headers)), ..Default::default() };
    let start = Instant::now();
    let mut client = ExternalProcessorClient::new(channel.clone());
    let mut answers = client.process(tokio_stream::iter([request])).await?.into_inner();
    answers.message().await?.ok_or("no answer")?;
    let took = start.elapsed();
    // To its end: a client that resets stream after stream is taken for a hostile one.
    while answers.message().await?.is_some() {}
    Ok(took)
}

async fn run(channel: &Channel, session: &str) -> Result<String, Failure> {
    let mut times = Vec::with_capacity(DECISIONS);
    for name in 0..DECISIONS {
        times.push(decide(channel, name, session).await?);
    }
    times.sort();
    let at = |part: usize| times[(times.len() * part / 1000).min(times.len() - 1)];
    Ok(format!("p50 {:?}, p99 {:?}, p99.9 {:?}, slowest {:?}", at(500), at(990), at(999), times[times.len() - 1]))
}

async fn scrape(admin: Endpoint) {
    loop {
        let _ = Request::get("/metrics").send(&admin).await;
    }
}

/// Opens connections that do nothing, send half a request, or do not read what they asked for.
async fn crowd(serve: &Serve, admin: &PathBuf) -> Result<(), Failure> {
    println!("before the crowd: {} MB", resident(serve.id()) / 1_000_000);
    let (mut crowd, mut slowest, mut failed, mut most) = (Vec::new(), Duration::ZERO, 0, 0);
    let said = ["", "GET /met", "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", "GET /catalog HTTP/1.1\r\nhost: x\r\n\r\n"];
    for at in 0..SLOW {
        if let Ok(Ok(mut client)) = tokio::time::timeout(Duration::from_secs(1), UnixStream::connect(admin)).await {
            // Several answers that nobody reads.
            let _ = client.write_all(said[at % said.len()].repeat(4).as_bytes()).await;
            crowd.push(client);
        }
        if at % 20 == 0 {
            let start = Instant::now();
            let probe = tokio::time::timeout(Duration::from_secs(2), serve.admin(Request::get("/readyz"))).await;
            failed += usize::from(!matches!(probe, Ok(Ok(answer)) if answer.status == 200));
            slowest = slowest.max(start.elapsed());
        }
        most = most.max(resident(serve.id()));
    }
    println!(
        "{SLOW} idle or slow connections: {} MB at most, slowest probe {slowest:?}, {failed} probes failed",
        most / 1_000_000
    );
    Ok(())
}

fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or_default() * 1024
}
