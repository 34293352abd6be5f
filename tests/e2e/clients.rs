//! Real clients: every kind of call of the `openai` and `anthropic` SDKs through Envoy and Cascade, each to the cluster that its
//! model deserves, with the body as it left the SDK.
//!
//! The SDKs come from PyPI into the cache directory on first use; that they cannot be had is a failure that says what to do.

use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use cascade::lab::{BodyMode, Cluster, Envoy, EnvoySetup, Group, Provider, Scratch, Seen};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::gateway::ok;
use crate::town::start;

const PACKAGES: [&str; 2] = ["openai==3.57.0", "anthropic==2.14.0"];

const CATALOG: &str = "
version: 1
models:
  chat-model: {chain: [{name: chat, clusters: [{cluster_name: chat, weight: 1}]}]}
  embed-model: {chain: [{name: embed, clusters: [{cluster_name: embed, weight: 1}]}]}
  audio-model: {chain: [{name: audio, clusters: [{cluster_name: audio, weight: 1}]}]}
  image-model: {chain: [{name: image, clusters: [{cluster_name: image, weight: 1}]}]}
  claude-model: {chain: [{name: claude, clusters: [{cluster_name: claude, weight: 1}]}]}
  forbidden-model: {chain: [{name: chat, clusters: [{cluster_name: chat, weight: 1}]}]}
tenants:
  visitor: {denied_models: [forbidden-model]}
defaults: {missing_tenant: visitor}
";

/// The call, the cluster that serves it and what the client makes of the answer.
fn expected() -> [(&'static str, &'static str, Value); 9] {
    [
        ("chat", "chat", json!("hello from chat")),
        ("chat stream", "chat", json!("hello")),
        ("embeddings", "embed", json!(2)),
        ("transcription", "audio", json!("spoken")),
        ("image edit", "image", json!("cGljdHVyZQ==")),
        ("messages", "claude", json!("hello from claude")),
        ("count_tokens", "claude", json!(7)),
        ("refused by openai", "", json!("model_not_allowed")),
        ("refused by anthropic", "", json!("permission_error")),
    ]
}

/// An answer that the SDKs accept, by path.
fn answer(seen: &Seen) -> cascade::lab::Reply {
    let streamed = String::from_utf8_lossy(&seen.body).contains("\"stream\":true");
    let body = match seen.path.as_str() {
        "/v1/chat/completions" if streamed => {
            let piece = |text: &str| json!({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]});
            let events = format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", piece("hel"), piece("lo"));
            return cascade::lab::Reply::status(200).header("content-type", "text/event-stream").body(events);
        }
        "/v1/chat/completions" => {
            let message = json!({"role": "assistant", "content": "hello from chat"});
            json!({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]})
        }
        "/v1/embeddings" => {
            let one = |index: u32| json!({"object": "embedding", "index": index, "embedding": [0.5]});
            json!({"object": "list", "model": "m", "data": [one(0), one(1)], "usage": {"prompt_tokens": 1, "total_tokens": 1}})
        }
        "/v1/audio/transcriptions" => json!({"text": "spoken"}),
        "/v1/images/edits" => json!({"created": 1, "data": [{"b64_json": "cGljdHVyZQ=="}]}),
        "/v1/messages" => {
            json!({"id": "1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "hello from claude"}], "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}})
        }
        "/v1/messages/count_tokens" => json!({"input_tokens": 7}),
        other => panic!("no SDK was expected to ask for {other}"),
    };
    cascade::lab::Reply::status(200).header("content-type", "application/json").body(body.to_string())
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}; install Python 3 with its venv module"));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success(),
        "`{program} {}` failed; these tests need Python 3 with venv and pip:\n{said}",
        arguments.join(" ")
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A Python with the SDKs, made once for all test processes.
fn python() -> String {
    let cache =
        env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let cache = cache.unwrap_or_else(|| panic!("XDG_CACHE_HOME or HOME says where the SDKs may be installed")).join("cascade");
    fs::create_dir_all(&cache).unwrap();
    let home = cache.join(PACKAGES.join("-").replace("==", "-"));
    let lock = File::create(cache.join("clients.lock")).unwrap();
    lock.lock().unwrap();
    let python = home.join("bin/python3").display().to_string();
    let done = home.join("done");
    if !done.exists() {
        eprintln!("Installing {} into {} (once) ...", PACKAGES.join(" and "), home.display());
        drop(fs::remove_dir_all(&home));
        run("python3", &["-m", "venv", &home.display().to_string()]);
        run(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", PACKAGES[0], PACKAGES[1]]);
        fs::write(&done, "").unwrap();
    }
    python
}

async fn every_call_reaches_its_cluster_unchanged(mode: BodyMode) {
    let python = tokio::task::spawn_blocking(python).await.unwrap();
    let scratch = ok(Scratch::new());
    ok(scratch.write("catalog.yaml", CATALOG));
    ok(scratch.write("cascade.yaml", "extract: {tenant: [{header: x-tenant, trusted: true}]}\n"));
    let serve = start(&scratch).await;
    let mut providers = Vec::new();
    for name in ["chat", "embed", "audio", "image", "claude", "fixed"] {
        providers.push(ok(Provider::start(name, answer).await));
    }
    let clusters = providers.iter().map(|provider| Cluster::new(provider.name(), provider.address())).collect();
    let mut setup = EnvoySetup::new(serve.grpc().clone(), clusters);
    setup.static_chain = vec![Group::of("fixed", "fixed")];
    setup.body_mode = mode;
    let envoy = ok(Envoy::start(&setup).await);

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/clients/calls.py");
    let gateway = format!("http://{}", envoy.address());
    let printed = tokio::task::spawn_blocking(move || run(&python, &[script, &gateway])).await.unwrap();
    let calls: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();

    let mut served = vec![0; providers.len()];
    assert_eq!(calls.len(), expected().len(), "{printed}");
    for (call, (name, cluster, answer)) in calls.iter().zip(expected()) {
        assert_eq!((&call["call"], &call["answer"]), (&json!(name), &answer));
        let Some(at) = providers.iter().position(|provider| provider.name() == cluster) else { continue };
        let seen = &providers[at].seen()[served[at]];
        served[at] += 1;
        let received: String = Sha256::digest(&seen.body).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(call["sha256"], json!(received), "{name}: the body that {cluster} got is not the one that was sent");
    }
    for (provider, served) in providers.iter().zip(served) {
        assert_eq!(provider.seen().len(), served, "{} was asked for what is not its own", provider.name());
    }
}

#[tokio::test]
async fn the_sdks_are_served_through_a_buffered_envoy() {
    every_call_reaches_its_cluster_unchanged(BodyMode::Buffered).await;
}

#[tokio::test]
async fn the_sdks_are_served_through_a_full_duplex_envoy() {
    every_call_reaches_its_cluster_unchanged(BodyMode::FullDuplexStreamed).await;
}
