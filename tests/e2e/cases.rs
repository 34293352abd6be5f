//! `tests/cases` against `cascade serve`: over raw gRPC in every manner a request can come, and through a real Envoy, where what
//! counts is which cluster served each attempt.

use std::path::Path;

use cascade::lab::{BodyMode, Cluster, DeadPort, Envoy, EnvoySetup, Group, Provider, Scratch, Serve};
use serde_json::Value;

use crate::case::{Ask, Case, all, texts_of};
use crate::gateway::ok;
use crate::wire::{Answered, Manner, Wire};

/// The program under test.
pub const CASCADE: &str = env!("CARGO_BIN_EXE_cascade");

async fn serve(case: &Case) -> (Scratch, Serve) {
    let scratch = ok(Scratch::new());
    let arguments = case.arguments(&scratch);
    let serve = ok(Serve::start(Path::new(CASCADE), scratch.path(), &arguments.each_ref().map(String::as_str)).await);
    (scratch, serve)
}

const MANNERS: [Manner; 4] = [
    Manner { mode: BodyMode::Buffered, chunk: usize::MAX, late_end: false },
    Manner { mode: BodyMode::FullDuplexStreamed, chunk: usize::MAX, late_end: false },
    Manner { mode: BodyMode::FullDuplexStreamed, chunk: 7, late_end: false },
    Manner { mode: BodyMode::FullDuplexStreamed, chunk: 1, late_end: true },
];

#[tokio::test]
async fn every_case_gets_the_cores_answer_over_raw_grpc_in_every_manner() {
    for case in all() {
        let (_scratch, serve) = serve(&case).await;
        let wire = Wire::connect(serve.grpc()).await;
        for ask in &case.requests {
            for manner in MANNERS {
                let answered = wire.ask(&ask.request, ask.has_body, manner).await;
                agrees(&case, ask, manner, &answered);
            }
        }
    }
}

/// The answer on the wire says what the core says.
fn agrees(case: &Case, ask: &Ask, manner: Manner, answered: &Answered) {
    let told = format!("{}: {} in {manner:?}: {answered:?}", case.name, ask.name);
    let (explained, decision) = (&ask.explained, &answered.decision);
    if ask.whole && manner.mode == BodyMode::FullDuplexStreamed && explained["outcome"] != "reject" {
        assert!(decision["outcome"] == "override" || decision["outcome"] == explained["outcome"], "{told}");
        return;
    }
    for field in ["outcome", "reason", "health", "tenant", "model", "revision", "label"] {
        assert_eq!(decision[field], explained[field], "{field} of {told}");
    }
    let groups = texts_of(&explained["chain"], "name");
    let published: Vec<_> = decision["chain"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(published, groups, "{told}");
    let outcome = explained["outcome"].as_str().unwrap();
    if outcome == "override" {
        assert_eq!(texts_of(&answered.chain, "name"), groups, "{told}");
        for (sent, meant) in answered.chain.as_array().unwrap().iter().zip(explained["chain"].as_array().unwrap()) {
            let clusters = |group: &Value| group["clusters"].as_array().cloned().unwrap_or_default();
            assert_eq!(clusters(sent), clusters(meant), "{told}");
        }
    } else {
        assert!(answered.chain.is_null(), "{told}");
    }
    let refusal = (outcome == "reject").then(|| {
        let status = explained["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap();
        (status, explained["reason"].as_str().unwrap().to_owned())
    });
    assert_eq!(answered.rejected, refusal, "{told}");
}

/// A gateway of the case's providers in front of its `cascade serve`.
async fn through_envoy(case: &Case, mode: BodyMode) {
    let (_scratch, serve) = serve(case).await;
    let (mut clusters, mut providers, mut dead) = (Vec::new(), Vec::new(), Vec::new());
    for (name, status) in &case.providers {
        if let Some(status) = status {
            let provider = ok(Provider::answering(name, *status).await);
            clusters.push(Cluster::new(name, provider.address()));
            providers.push(provider);
        } else {
            let port = ok(DeadPort::reserve());
            clusters.push(Cluster::new(name, port.address()));
            dead.push(port);
        }
    }
    let mut setup = EnvoySetup::new(serve.grpc().clone(), clusters);
    setup.static_chain = case.static_chain.iter().map(|name| Group::of(name, name)).collect();
    setup.typed = vec!["cascade".to_owned()];
    setup.body_mode = mode;
    let envoy = ok(Envoy::start(&setup).await);
    for ask in &case.requests {
        let (response, trail) = ok(envoy.send(ask.request.clone()).await);
        let told = format!("{}: {} in {mode}: {trail}, the client got {}", case.name, ask.name, response.status);
        if ask.whole && mode == BodyMode::FullDuplexStreamed && ask.explained["outcome"] != "reject" {
            assert_eq!(response.status, 200, "{told}");
            continue;
        }
        assert!(ask.served.contains(&trail.to_string()), "{told}, not {:?}", ask.served);
        let reason = ask.explained["reason"].as_str();
        if ask.explained["outcome"] == "reject" {
            assert_eq!(Some(u64::from(response.status)), ask.explained["status"].as_u64(), "{told}");
            assert_eq!(response.header("x-cascade-reason"), reason, "{told}");
        }
        assert_eq!(trail.decision["reason"].as_str(), reason, "{told}");
        let way: Vec<_> = trail.attempts.iter().filter(|attempt| attempt.code != 0).map(|one| one.cluster.clone()).collect();
        let recorded: usize = providers.iter().map(|provider| seen(provider, &trail.id)).sum();
        assert_eq!(recorded, way.len(), "{told}: what the providers recorded");
    }
}

fn seen(provider: &Provider, id: &str) -> usize {
    provider.seen().iter().filter(|seen| seen.header(cascade::lab::trail::ID_HEADER) == Some(id)).count()
}

#[tokio::test]
async fn every_case_is_served_as_it_says_by_a_buffered_envoy() {
    for case in all() {
        through_envoy(&case, BodyMode::Buffered).await;
    }
}

#[tokio::test]
async fn every_case_is_served_as_it_says_by_a_full_duplex_envoy() {
    for case in all() {
        through_envoy(&case, BodyMode::FullDuplexStreamed).await;
    }
}
