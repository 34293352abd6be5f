//! Parsers that disagree: real ones behind a real Envoy read every request of `tests/differentials/corpus`, and whatever any of them
//! takes for a model that the tenant may not use was refused before it arrived (`tests/differentials/README.md`).
//!
//! Go, Node and nginx come from the system's packages, the Python and npm packages go into the cache directory on first use; what
//! cannot be had is a failure that says what to do.

mod corpus;
mod parsers;

use std::sync::Arc;

use cascade::lab::{BodyMode, Cluster, Envoy, EnvoySetup, Group, Provider, Scratch, Serve};
use tokio::task::JoinSet;

use self::corpus::Sample;
use self::parsers::Parser;
use crate::gateway::ok;
use crate::town::start;

const SETTINGS: &str = "extract: {tenant: [{header: x-tenant, trusted: true}]}\n";

/// A tenant for each parser, who may use one model, there.
fn catalog(parsers: &[Parser]) -> String {
    let group = |parser: &Parser| format!("  {0}: {{clusters: [{{cluster_name: {0}, weight: 1}}]}}\n", parser.name);
    let tenant = |parser: &Parser| format!("  {0}: {{allowed_models: [allowed], chains: {{\"*\": [{0}]}}}}\n", parser.name);
    format!(
        "version: 1\npriority_groups:\n{}models: {{allowed: {{chain: [go]}}, forbidden: {{chain: [go]}}}}\ntenants:\n{}",
        parsers.iter().map(group).collect::<String>(),
        parsers.iter().map(tenant).collect::<String>(),
    )
}

struct Stage {
    parsers: Vec<Parser>,
    envoy: Envoy,
    _serve: Serve,
    _fixed: Provider,
    _scratch: Scratch,
}

async fn stage(mode: BodyMode) -> Stage {
    let parsers = parsers::start().await;
    let scratch = ok(Scratch::new());
    ok(scratch.write("catalog.yaml", &catalog(&parsers)));
    ok(scratch.write("cascade.yaml", SETTINGS));
    let serve = start(&scratch).await;
    let fixed = ok(Provider::answering("fixed", 200).await);
    let mut clusters = vec![Cluster::new("fixed", fixed.address())];
    clusters.extend(parsers.iter().map(|parser| Cluster::new(parser.name, parser.address)));
    let mut setup = EnvoySetup::new(serve.grpc().clone(), clusters);
    setup.static_chain = vec![Group::of("fixed", "fixed")];
    setup.body_mode = mode;
    let envoy = ok(Envoy::start(&setup).await);
    Stage { parsers, envoy, _serve: serve, _fixed: fixed, _scratch: scratch }
}

/// What is wrong with what one sample came to; `None`: nothing.
async fn trouble(sample: &Sample, parser: &str, envoy: std::net::SocketAddr) -> Option<String> {
    let response = match sample.request.clone().header("x-tenant", parser).send(envoy).await {
        Ok(response) => response,
        // Envoy closes without an answer what is no request: it arrived nowhere.
        Err(error) if !sample.passes => return error.to_string().contains("no answer").then(|| error.to_string()),
        Err(error) => return Some(error.to_string()),
    };
    let must_pass = sample.passes && sample.read_by.iter().any(|name| name == parser);
    let Some(by) = response.header("x-parser") else {
        return match response.header("x-cascade-reason") {
            Some(reason) if must_pass => Some(format!("an ordinary request was refused: {reason}")),
            Some(_) => None,
            // Envoy's own refusals of what is no request to it, and those of a server in front of the parser.
            None if matches!(response.status, 400..=499) && !must_pass => None,
            None => Some(format!("reached the static chain, or nobody: {} {}", response.status, response.text())),
        };
    };
    let answer: serde_json::Value = match serde_json::from_slice(&response.body) {
        Ok(answer) => answer,
        Err(error) => return Some(format!("{by} answered {:?}: {error}", response.text())),
    };
    let models: Vec<&str> = answer["models"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str).collect();
    if must_pass {
        return (models != ["allowed"]).then(|| format!("{by} read {models:?} in an ordinary request"));
    }
    models.contains(&"forbidden").then(|| format!("{by} read {models:?}"))
}

async fn no_parser_reads_a_model_that_its_tenant_may_not_use(mode: BodyMode) {
    let stage = stage(mode).await;
    let samples = Arc::new(corpus::read());
    assert!(samples.len() > 500, "the corpus is missing: {}", samples.len());
    let mut runs = JoinSet::new();
    for parser in &stage.parsers {
        let (samples, name, envoy) = (Arc::clone(&samples), parser.name, stage.envoy.address());
        runs.spawn(async move {
            let mut found = Vec::new();
            for sample in samples.iter() {
                if let Some(trouble) = trouble(sample, name, envoy).await {
                    found.push(format!("{name}: {}: {trouble}", sample.name));
                }
            }
            found
        });
    }
    let found = runs.join_all().await.concat();
    assert!(found.is_empty(), "{} of {} in {mode}:\n{}", found.len(), samples.len() * stage.parsers.len(), found.join("\n"));
}

#[tokio::test]
async fn no_parser_behind_a_buffered_envoy_reads_a_model_that_its_tenant_may_not_use() {
    no_parser_reads_a_model_that_its_tenant_may_not_use(BodyMode::Buffered).await;
}

#[tokio::test]
async fn no_parser_behind_a_full_duplex_envoy_reads_a_model_that_its_tenant_may_not_use() {
    no_parser_reads_a_model_that_its_tenant_may_not_use(BodyMode::FullDuplexStreamed).await;
}
