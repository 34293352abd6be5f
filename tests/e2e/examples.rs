//! The shipped Envoy configurations, run as they are: only the ports are others, so that tests can run side by side, and Envoy waits
//! longer for an answer and for Cascade's health, since what is shown here is who serves, not how busy the machine is.

use std::fs;
use std::path::Path;

use cascade::catalog::compile::compile;
use cascade::catalog::load;
use cascade::lab::{Envoy, Provider, Reply, Request, Scratch, Serve, envoy, eventually};

use crate::answer::Answer;
use crate::cases::CASCADE;
use crate::gateway::{Gateway, chat, chat_of, ok};
use crate::processor::{Processor, Script, at_body, hold_headers};
use crate::town::LIMIT;

/// Provider clusters of the examples and the ports they have there.
const PROVIDERS: [(&str, u16); 4] =
    [("openai_primary", 9001), ("azure_backup", 9002), ("onprem_primary", 9003), ("anthropic_main", 9004)];

pub fn example(name: &str) -> String {
    ok(fs::read_to_string(format!("{}/examples/envoy/{name}.yaml", env!("CARGO_MANIFEST_DIR"))))
}

pub fn with_port(yaml: &str, from: u16, to: u16) -> String {
    let (from, to) = (format!("port_value: {from}}}"), format!("port_value: {to}}}"));
    assert_eq!(yaml.matches(&from).count(), 1, "{from} stands once in the example");
    yaml.replace(&from, &to)
}

/// The example with an Envoy that waits.
pub fn patient(name: &str) -> String {
    let yaml = example(name).replace("message_timeout: 0.5s", "message_timeout: 10s");
    ["0.2s", "0.5s"].into_iter().fold(yaml, |yaml, timeout| yaml.replace(&format!("- {{timeout: {timeout},"), "- {timeout: 10s,"))
}

/// The example on ports of Envoy's choice, with providers that all answer 200.
pub async fn prepare(name: &str) -> (String, Vec<Provider>) {
    let mut yaml = with_port(&with_port(&patient(name), 10000, 0), 9901, 0);
    let mut providers = Vec::new();
    for (cluster, port) in PROVIDERS {
        let provider = ok(Provider::answering(cluster, 200).await);
        yaml = with_port(&yaml, port, provider.address().port());
        providers.push(provider);
    }
    (yaml, providers)
}

async fn run(name: &str, script: Script) -> Gateway {
    let processor = Processor::start(script).await;
    let (yaml, providers) = prepare(name).await;
    let envoy = ok(Envoy::start_with(&with_port(&yaml, 50051, processor.address().port())).await);
    Gateway::of(envoy, processor, providers)
}

#[tokio::test]
async fn the_examples_are_accepted_by_envoy_as_they_are() {
    for name in ["buffered", "full-duplex", "full"] {
        ok(envoy::validate(&example(name)));
    }
}

/// What both examples must do, whatever the mode.
async fn falls_back(gateway: &Gateway, decide: impl Fn(Answer) -> Script) {
    let chain = Answer::clusters(&["onprem_primary", "anthropic_main", "openai_primary"]);
    gateway.provider("onprem_primary").answer_status(429);
    gateway.provider("anthropic_main").answer_status(529);

    let way = "onprem_primary(429) anthropic_main(529) openai_primary(200)";
    gateway.send_with(decide(chain.clone()), chat()).await.went(way);
    let large = chat_of(20 << 20);
    gateway.send(large.clone()).await.went(way);
    assert!(gateway.provider("openai_primary").seen()[1].body == large.body, "20 MB arrive whole on the third attempt");
    gateway.send(Request::get("/v1/models")).await.went(way);

    gateway.provider("openai_primary").answer_status(503);
    gateway.send_with(decide(Answer::empty()), chat()).await.went("openai_primary(503) azure_backup(200)");
}

#[tokio::test]
async fn the_buffered_example_falls_back_and_fails_open() {
    let mut gateway = run("buffered", at_body(Answer::empty())).await;
    falls_back(&gateway, at_body).await;

    gateway.processor.stop();
    gateway.send(chat()).await.went("openai_primary(503) azure_backup(200)");
}

#[tokio::test]
async fn the_full_duplex_example_falls_back_and_fails_open_once_the_health_check_has_noticed() {
    let mut gateway = run("full-duplex", hold_headers(Answer::empty(), 1)).await;
    falls_back(&gateway, |answer| hold_headers(answer, 1)).await;

    gateway.processor.stop();
    ok(gateway.envoy.stat_reaches("cluster.cascade.health_check.failure", 1).await);
    gateway.send(chat()).await.went("openai_primary(503) azure_backup(200)");
}

/// What the head of both examples tells the reader to do: `cascade serve --catalog catalogs/quickstart`, this Envoy, and a request.
#[tokio::test]
async fn the_examples_and_the_quickstart_catalog_belong_together() {
    let catalog = format!("{}/catalogs/quickstart", env!("CARGO_MANIFEST_DIR"));
    for name in ["buffered", "full-duplex", "full"] {
        let scratch = ok(Scratch::new());
        let serve = ok(Serve::start(Path::new(CASCADE), scratch.path(), &["--catalog", &catalog]).await);
        let (yaml, providers) = prepare(name).await;
        let by_port = "{socket_address: {address: 127.0.0.1, port_value: 50051}}";
        assert!(yaml.contains(by_port));
        let by_path = serve.grpc().to_string().replace("unix:", "{pipe: {path: ") + "}}";
        let envoy = ok(Envoy::start_with(&yaml.replace(by_port, &by_path)).await);
        let way = async |model: &str| {
            let request = Request::post("/v1/chat/completions", format!("{{\"model\":\"{model}\",\"messages\":[]}}"));
            ok(envoy.send(request).await).1.to_string()
        };

        assert_eq!(way("gpt-4o").await, "openai_primary(200)", "{name}");
        assert_eq!(way("claude-sonnet").await, "anthropic_main(200)", "{name}");
        assert_eq!(way("not-in-the-catalog").await, "openai_primary(200)", "{name}");
        providers[0].answer_status(429);
        assert_eq!(way("gpt-4o").await, "openai_primary(429) azure_backup(200)", "{name}");
    }
}

/// full.yaml in front of `cascade serve` with its settings and the quickstart catalog, on a Unix socket.
async fn full() -> (Serve, String, Vec<Provider>, Scratch) {
    let root = env!("CARGO_MANIFEST_DIR");
    let (catalog, settings) = (format!("{root}/catalogs/quickstart"), format!("{root}/examples/envoy/full.cascade.yaml"));
    let scratch = ok(Scratch::new());
    let serve = ok(Serve::start(Path::new(CASCADE), scratch.path(), &["--catalog", &catalog, "--config", &settings]).await);
    let (yaml, providers) = prepare("full").await;
    let by_port = "{socket_address: {address: 127.0.0.1, port_value: 50051}}";
    let by_path = serve.grpc().to_string().replace("unix:", "{pipe: {path: ") + "}}";
    (serve, yaml.replace(by_port, &by_path), providers, scratch)
}

/// Feedback, the providers' own names and a cluster with filters of its own (fact 38), as shipped.
#[tokio::test]
async fn the_full_example_learns_from_attempts_and_renames_models_beside_a_credential() {
    let (serve, yaml, providers, _scratch) = full().await;
    let envoy = ok(Envoy::start_with(&yaml).await);
    let way = async |model: &str| {
        let request = Request::post("/v1/chat/completions", format!("{{\"model\":\"{model}\",\"messages\":[]}}"));
        ok(envoy.send(request).await).1.to_string()
    };

    assert_eq!(way("claude-sonnet").await, "anthropic_main(200)");
    let seen = providers.iter().find(|provider| provider.name() == "anthropic_main").unwrap().seen().pop().unwrap();
    assert_eq!(seen.model().as_deref(), Some("claude-sonnet-4-5-20250929"));
    assert_eq!(seen.header("content-length"), None, "no length that the next attempt could find (fact 70)");
    assert_eq!(seen.header("x-api-key"), Some("replace-me"), "the filters of the cluster itself still run");

    assert_eq!(way("gpt-4o").await, "openai_primary(200)");
    providers[0].answer(|_| Reply::too_many(3600));
    assert_eq!(way("gpt-4o").await, "openai_primary(429) azure_backup(200)");
    let past_it = || async { (way("gpt-4o").await == "azure_backup(200)").then_some(()) };
    ok(eventually("requests that go past the limited provider", LIMIT, past_it).await);
    let clusters = ok(serve.admin(Request::get("/clusters")).await).text();
    assert!(clusters.contains("rate_limited") && clusters.contains("gpt-4o"), "the token came back: {clusters}");
}

/// All attempts share one set of headers: without the example's filter the key of one cluster would go along to the next.
#[tokio::test]
async fn the_full_example_shows_no_provider_the_clients_credential_or_that_of_the_provider_before_it() {
    let scratch = ok(Scratch::new());
    let catalog = "version: 1\npriority_groups:\n  a: {clusters: [{cluster_name: anthropic_main, weight: 1}]}\n  \
                   o: {clusters: [{cluster_name: openai_primary, weight: 1}]}\nmodels: {m: {chain: [a, o]}}\n";
    let catalog = ok(scratch.write("catalog.yaml", catalog));
    let serve = ok(Serve::start(Path::new(CASCADE), scratch.path(), &["--catalog", catalog.to_str().unwrap()]).await);
    let (yaml, providers) = prepare("full").await;
    let by_path = serve.grpc().to_string().replace("unix:", "{pipe: {path: ") + "}}";
    let yaml = yaml.replace("{socket_address: {address: 127.0.0.1, port_value: 50051}}", &by_path);
    let envoy = ok(Envoy::start_with(&yaml).await);
    let provider = |name: &str| providers.iter().find(|provider| provider.name() == name).unwrap();
    provider("anthropic_main").answer_status(503);

    let mut request = Request::post("/v1/chat/completions", r#"{"model":"m"}"#).header("authorization", "Bearer client");
    for name in ["x-api-key", "api-key", "x-goog-api-key"] {
        request = request.header(name, "client");
    }
    assert_eq!(ok(envoy.send(request).await).1.to_string(), "anthropic_main(503) openai_primary(200)");
    for (name, key) in [("anthropic_main", Some("replace-me")), ("openai_primary", None)] {
        let seen = provider(name).seen().pop().unwrap();
        assert_eq!(seen.header("x-api-key"), key, "{name}");
        for gone in ["authorization", "api-key", "x-goog-api-key"] {
            assert_eq!(seen.header(gone), None, "{name} saw {gone}");
        }
    }
}

// Fact 38
#[tokio::test]
async fn a_cluster_with_filters_of_its_own_that_does_not_list_the_upstream_role_is_skipped_by_it() {
    let (_serve, yaml, providers, _scratch) = full().await;
    let own = "        http_filters:\n        - *rename\n";
    assert_eq!(yaml.matches(own).count(), 1, "the example lists it");
    let yaml = yaml.replace(own, "        http_filters:\n");
    let envoy = ok(Envoy::start_with(&yaml).await);
    let request = Request::post("/v1/chat/completions", r#"{"model":"claude-sonnet","messages":[]}"#);
    assert_eq!(ok(envoy.send(request).await).1.to_string(), "anthropic_main(200)");
    let seen = providers.iter().find(|provider| provider.name() == "anthropic_main").unwrap().seen().pop().unwrap();
    assert_eq!(seen.header("x-api-key"), Some("replace-me"));
    assert_eq!(seen.model().as_deref(), Some("claude-sonnet"), "not renamed, and without a word");
}

/// A cluster that Envoy lacks ends requests with 503 (fact 14), so no shipped catalog may name one that the examples lack.
#[test]
fn every_shipped_catalog_for_these_examples_names_only_their_clusters() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogs");
    for name in ["quickstart", "fallback-80-20", "two-attempts", "onprem-overflow", "tenant-chains"] {
        let files = load::read(&root.join(name)).unwrap().texts;
        let snapshot = compile(&files).unwrap().snapshot;
        for cluster in &snapshot.clusters {
            assert!(PROVIDERS.iter().any(|(known, _)| *known == cluster.name.as_str()), "{name}: {}", cluster.name);
        }
    }
}
