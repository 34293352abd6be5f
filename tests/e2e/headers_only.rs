//! The shipped headers-only example on a real Envoy: the model comes out of Envoy's own AI filters (fact 30), no body reaches Cascade,
//! and what the filters do not read is answered as a request without a model. And the mix: bodies come where nothing else decides.

use std::path::Path;

use cascade::lab::{Envoy, Provider, Request, Scratch, Serve, Trail, envoy};

use crate::cases::CASCADE;
use crate::examples::{example, prepare};
use crate::gateway::ok;

struct Scene {
    envoy: Envoy,
    providers: Vec<Provider>,
    serve: Serve,
    _scratch: Scratch,
}

impl Scene {
    /// The example, with one more change to its text.
    async fn set(change: impl FnOnce(String) -> String) -> Self {
        let root = env!("CARGO_MANIFEST_DIR");
        let (catalog, settings) =
            (format!("{root}/catalogs/quickstart"), format!("{root}/examples/envoy/headers-only.cascade.yaml"));
        let scratch = ok(Scratch::new());
        let serve = ok(Serve::start(Path::new(CASCADE), scratch.path(), &["--catalog", &catalog, "--config", &settings]).await);
        let (yaml, providers) = prepare("headers-only").await;
        let by_port = "{socket_address: {address: 127.0.0.1, port_value: 50051}}";
        let by_path = serve.grpc().to_string().replace("unix:", "{pipe: {path: ") + "}}";
        let envoy = ok(Envoy::start_with(&change(yaml.replace(by_port, &by_path))).await);
        Self { envoy, providers, serve, _scratch: scratch }
    }

    /// The way of a request, why it went there, and whether the provider that served it has the body as it was sent.
    async fn way(&self, request: Request) -> (String, String) {
        let body = request.body.clone();
        let (response, trail): (_, Trail) = ok(self.envoy.send(request).await);
        if let Some(last) = trail.attempts.last() {
            let provider = self.providers.iter().find(|provider| provider.name() == last.cluster).unwrap();
            assert!(provider.seen().pop().unwrap().body == body, "{trail}: the body arrived changed");
        }
        let reason = trail.decision["reason"].as_str().map_or(response.status.to_string(), str::to_owned);
        (trail.to_string(), reason)
    }

    /// How many bytes Envoy has sent to Cascade.
    async fn bytes_to_cascade(&self) -> u64 {
        ok(self.envoy.stat("cluster.cascade.upstream_cx_tx_bytes_total").await)
    }
}

fn chat(body: &str) -> Request {
    Request::post("/v1/chat/completions", body)
}

/// White space, an exponent and a number that no double holds: what a filter that writes JSON anew would change.
fn odd(model: &str, rest: &str) -> String {
    format!(
        r#" {{ "messages" : [ {{"role":"user","content":"hi"}} ], "seed":12345678901234567890123, "x":1.0e2{rest}, "model" : "{model}" }} "#
    )
}

fn went(way: &str, reason: &str) -> (String, String) {
    (way.to_owned(), reason.to_owned())
}

#[tokio::test]
async fn the_example_is_accepted_by_envoy_as_it_is() {
    ok(envoy::validate(&example("headers-only")));
}

#[tokio::test]
async fn the_model_of_a_json_body_is_known_and_the_body_never_leaves_envoy() {
    let scene = Scene::set(|yaml| yaml).await;
    let body = |path: &str, model: &str| Request::post(path, odd(model, ""));
    assert_eq!(scene.way(body("/v1/chat/completions", "gpt-4o")).await, went("openai_primary(200)", "model_chain"));
    assert_eq!(scene.way(body("/team-a/v1/chat/completions?x=1", "gpt-4o")).await, went("openai_primary(200)", "model_chain"));
    assert_eq!(scene.way(body("/v1/messages", "claude-sonnet")).await, went("anthropic_main(200)", "model_chain"));
    assert_eq!(scene.way(body("/v1/responses", "gpt-4o")).await, went("openai_primary(200)", "model_chain"));
    assert_eq!(scene.way(body("/v1/chat/completions", "nobody")).await, went("openai_primary(200)", "unknown_model"));

    let before = scene.bytes_to_cascade().await;
    let large = odd("gpt-4o", &format!(r#","y":"{}""#, "x".repeat(5 << 20)));
    assert_eq!(scene.way(chat(&large)).await, went("openai_primary(200)", "model_chain"));
    let sent = scene.bytes_to_cascade().await - before;
    assert!(sent < 4096, "{sent} bytes for a body of 5 MiB");

    // A retry sends the body again.
    scene.providers[0].answer_status(429);
    assert_eq!(scene.way(chat(&large)).await, went("openai_primary(429) azure_backup(200)", "model_chain"));
    assert_eq!(scene.serve.log().matches("ERROR").count(), 0);
}

#[tokio::test]
async fn envoy_itself_refuses_what_is_not_json_or_names_a_key_twice() {
    let scene = Scene::set(|yaml| yaml).await;
    let deep = format!(r#"{{"model":"gpt-4o","x":{}{}}}"#, "[".repeat(17), "]".repeat(17));
    for body in [
        r#"{"model":"gpt-4o","#,
        r#"{"model":"gpt-4o","model":"b"}"#,
        r#"{"model":"gpt-4o","mod\u0065l":"b"}"#,
        r#"{"model":"gpt-4o","user":"a","user":"b"}"#,
        "\u{feff}{\"model\":\"gpt-4o\"}",
        "hello",
        &deep,
    ] {
        assert_eq!(scene.way(chat(body)).await, went("", "400"), "{body}");
    }
}

#[tokio::test]
async fn what_the_filters_do_not_read_has_no_model_unless_its_path_names_one() {
    let scene = Scene::set(|yaml| yaml).await;
    let static_chain = |reason: &str| went("openai_primary(200)", reason);
    for request in [
        Request::post("/v1/embeddings", r#"{"model":"gpt-4o"}"#),
        Request::post("/v1/images/generations", "{broken"),
        Request::post("/v1/messages/count_tokens", r#"{"model":"claude-sonnet"}"#),
        chat("compressed").header("content-encoding", "gzip"),
        chat(r#"{"model":7}"#),
        chat(r#"{"model":""}"#),
        chat("{}"),
        chat(""),
        Request::get("/v1/models"),
    ] {
        let told = format!("{} {}", request.path, String::from_utf8_lossy(&request.body));
        assert_eq!(scene.way(request).await, static_chain("missing_model"), "{told}");
    }
    let path = Request::post("/openai/deployments/claude-sonnet/chat/completions", "{broken");
    assert_eq!(scene.way(path).await, went("anthropic_main(200)", "model_chain"));
}

/// Bodies come, but only where metadata and path say nothing: everywhere else the answer to the headers switches them off.
#[tokio::test]
async fn with_bodies_allowed_cascade_reads_only_those_that_the_filters_leave_alone() {
    let scene = Scene::set(|yaml| {
        let none = "request_body_mode: NONE\n                response_header_mode: SKIP\n";
        assert_eq!(yaml.matches(none).count(), 1);
        yaml.replace(none, &(none.replace("NONE", "BUFFERED") + "              allow_mode_override: true\n"))
    })
    .await;
    let filler = "x".repeat(1 << 20);
    let large = |path: &str| Request::post(path, format!(r#"{{"input":"{filler}","model":"claude-sonnet"}}"#));
    for (path, comes) in [
        ("/v1/messages", false),
        ("/openai/deployments/claude-sonnet/chat/completions", false),
        ("/v1/embeddings", true),
        ("/v1/messages/count_tokens", true),
    ] {
        let before = scene.bytes_to_cascade().await;
        assert_eq!(scene.way(large(path)).await, went("anthropic_main(200)", "model_chain"), "{path}");
        let sent = scene.bytes_to_cascade().await - before;
        assert_eq!(sent > 1 << 20, comes, "{path}: {sent} bytes");
    }
    let compressed = zstd::stream::encode_all(odd("claude-sonnet", "").as_bytes(), 3).unwrap();
    let compressed = Request::post("/v1/messages", compressed).header("content-encoding", "zstd");
    assert_eq!(scene.way(compressed).await, went("anthropic_main(200)", "model_chain"));
}
