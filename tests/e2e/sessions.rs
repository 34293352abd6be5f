//! Sessions on a real Envoy: `examples/envoy/sessions.yaml` as it ships (but for its ports), its catalog, `cascade serve` and a
//! session directory over HTTP. Which endpoint served is what the endpoint itself says in `x-served-by`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cascade::lab::{Endpoint, Envoy, Provider, Reply, Request, Scratch, Serve, envoy};
use cascade::metadata::MAX_LEVELS;

use crate::cases::CASCADE;
use crate::examples::{example, patient, with_port};
use crate::gateway::ok;

/// Endpoints by cluster, and the ports they have in the example.
const ENDPOINTS: [(&str, u16); 6] =
    [("agent-1", 9001), ("agent-2", 9002), ("gpu-p1", 9003), ("gpu-p2", 9004), ("gpu-spare", 9005), ("cpu", 9006)];
const SELECTORS: &str =
    "            - {keys: [proc], fallback_policy: NO_FALLBACK}\n            - {keys: [tier], fallback_policy: NO_FALLBACK}\n";

pub struct Pool {
    envoy: Envoy,
    pub serve: Serve,
    pub endpoints: Vec<Provider>,
    directory: Provider,
    placements: Arc<Mutex<HashMap<String, String>>>,
    _scratch: Scratch,
}

impl Pool {
    /// `settings` are more of `session`, on one line, and whatever follows it on others.
    pub async fn open(settings: &str, change: impl Fn(String) -> String) -> Self {
        let placements: Arc<Mutex<HashMap<String, String>>> = Arc::default();
        let known = Arc::clone(&placements);
        let directory = Provider::start("directory", move |seen| match known.lock().unwrap().get(&seen.path) {
            Some(placement) => Reply::status(200).body(placement),
            None => Reply::status(404),
        });
        let directory = ok(directory.await);
        let scratch = ok(Scratch::new());
        let url = format!("http://{}/s/{{tenant}}/{{model}}/{{session}}", directory.address());
        let (session, others) = settings.split_once('\n').unwrap_or((settings, ""));
        let session = format!("session: {{directory: http, url: \"{url}\", timeout: 10s{session}}}\n");
        let settings = format!("{session}limits: {{decision_deadline: 1s}}\n{others}");
        let config = ok(scratch.write("cascade.yaml", &settings));
        let catalog = format!("{}/catalogs/sessions", env!("CARGO_MANIFEST_DIR"));
        let arguments = ["--config", config.to_str().unwrap(), "--catalog", &catalog];
        let serve = ok(Serve::start(Path::new(CASCADE), scratch.path(), &arguments).await);

        let mut yaml = with_port(&with_port(&patient("sessions"), 10000, 0), 9901, 0);
        let mut endpoints = Vec::new();
        for (name, port) in ENDPOINTS {
            let endpoint = ok(Provider::answering(name, 200).await);
            yaml = with_port(&yaml, port, endpoint.address().port());
            endpoints.push(endpoint);
        }
        let by_path = serve.grpc().to_string().replace("unix:", "{pipe: {path: ") + "}}";
        let yaml = yaml.replace("{socket_address: {address: 127.0.0.1, port_value: 50051}}", &by_path);
        let envoy = ok(Envoy::start_with(&change(yaml)).await);
        Self { envoy, serve, endpoints, directory, placements, _scratch: scratch }
    }

    pub fn endpoint(&self, name: &str) -> &Provider {
        self.endpoints.iter().find(|endpoint| endpoint.name() == name).unwrap()
    }

    fn address(&self, name: &str) -> String {
        self.endpoint(name).address().to_string()
    }

    /// The directory knows of the session from now on.
    fn place(&self, model: &str, session: &str, placement: &serde_json::Value) {
        self.placements.lock().unwrap().insert(format!("/s/-/{model}/{session}"), placement.to_string());
    }

    /// Status, the endpoint that served, and the way.
    pub async fn send(&self, model: &str, session: &str) -> (u16, String, String) {
        let request = Request::post("/v1/chat/completions", format!("{{\"model\":\"{model}\",\"messages\":[]}}"));
        let (response, trail) = ok(self.envoy.send(request.header("x-session-id", session)).await);
        (response.status, response.header("x-served-by").unwrap_or_default().to_owned(), trail.to_string())
    }

    /// Four requests of the session end here.
    pub async fn serves(&self, model: &str, session: &str, endpoint: &str) {
        for _ in 0..4 {
            assert_eq!(self.send(model, session).await.1, endpoint, "{session}");
        }
    }
}

/// Both orders of the subsets' selectors: complete entries must not depend on them (fact 20a).
async fn in_both_orders(check: impl AsyncFn(Pool)) {
    changed_in_both_orders(|yaml| yaml, check).await;
}

async fn changed_in_both_orders(change: impl Fn(String) -> String, check: impl AsyncFn(Pool)) {
    for order in [
        SELECTORS,
        "            - {keys: [tier], fallback_policy: NO_FALLBACK}\n            - {keys: [proc], fallback_policy: NO_FALLBACK}\n",
    ] {
        let pool = Pool::open("", |yaml| {
            assert_eq!(yaml.matches(SELECTORS).count(), 1);
            change(yaml.replace(SELECTORS, order))
        });
        check(pool.await).await;
    }
}

#[tokio::test]
async fn the_example_is_accepted_by_envoy_as_it_is() {
    ok(envoy::validate(&example("sessions")));
}

#[tokio::test]
async fn a_pinned_endpoint_serves_and_its_successor_when_it_is_down() {
    let pool = Pool::open("", |yaml| yaml).await;
    let both = format!("{},{}", pool.address("agent-2"), pool.address("agent-1"));
    pool.place("assistant", "s1", &serde_json::json!({"selected_backend": "agents", "selected_endpoint": both}));
    pool.serves("assistant", "s1", "agent-2").await;
    pool.endpoint("agent-2").answer_status(503);
    let (status, served, way) = pool.send("assistant", "s1").await;
    assert_eq!((status, served.as_str(), way.as_str()), (200, "agent-1", "agents(503) agents(200)"));
    // An address that the cluster does not have (any more): the fallback policy picks (fact 24).
    pool.endpoint("agent-2").answer_status(200);
    pool.place("assistant", "s2", &serde_json::json!({"selected_backend": "agents", "selected_endpoint": "127.0.0.1:9"}));
    let served: Vec<String> = vec![pool.send("assistant", "s2").await.1, pool.send("assistant", "s2").await.1];
    assert!(served.contains(&"agent-1".to_owned()) && served.contains(&"agent-2".to_owned()), "{served:?}");
}

#[tokio::test]
async fn a_pinned_subset_serves_and_without_it_the_models_own_and_its_fallbacks() {
    in_both_orders(async |pool| {
        pool.place("reasoner", "p2", &serde_json::json!({"endpoint_metadata": {"proc": "p2"}}));
        pool.serves("reasoner", "p2", "gpu-p2").await;
        // The pinned one is gone: what the model says. It has two endpoints, neither of which is the spare one.
        pool.place("reasoner", "gone", &serde_json::json!({"endpoint_metadata": {"proc": "gone"}}));
        for _ in 0..4 {
            assert!(["gpu-p1", "gpu-p2"].contains(&pool.send("reasoner", "gone").await.1.as_str()));
        }
        for _ in 0..4 {
            assert!(["gpu-p1", "gpu-p2"].contains(&pool.send("reasoner", "never-placed").await.1.as_str()));
        }
    })
    .await;
}

#[tokio::test]
async fn where_nothing_carries_what_session_and_model_ask_for_the_catalogs_fallbacks_serve() {
    let others = |yaml: String| yaml.replace("tier: gpu}", "tier: other}");
    changed_in_both_orders(others, async |pool| {
        pool.place("reasoner", "gone", &serde_json::json!({"endpoint_metadata": {"proc": "gone"}}));
        pool.serves("reasoner", "gone", "gpu-spare").await;
        pool.serves("reasoner", "never-placed", "gpu-spare").await;
    })
    .await;
    // Not even the spare one is left: the last entry fits every cluster, so that the chain does not end here.
    let none = |yaml: String| yaml.replace("tier: gpu}", "tier: other}").replace("tier: spare}", "tier: other}");
    changed_in_both_orders(none, async |pool| {
        pool.place("reasoner", "gone", &serde_json::json!({"endpoint_metadata": {"proc": "gone"}}));
        let (status, served, _) = pool.send("reasoner", "gone").await;
        assert!(status == 200 && served.starts_with("gpu"), "{status} {served}");
    })
    .await;
}

#[tokio::test]
async fn metadata_is_as_deep_as_envoy_reads_or_no_answer() {
    let pool = Pool::open("", |yaml| yaml).await;
    let deep = |levels: usize| (1..levels).fold(serde_json::json!({"k": 1}), |inner, _| serde_json::json!({"k": inner}));
    // The chain begins with gpu_pool; an answer that Envoy could not read would leave the static chain, which begins with the agents.
    for (levels, expected) in
        [(1, "cpu_pool(200)"), (MAX_LEVELS, "cpu_pool(200)"), (MAX_LEVELS + 1, "gpu_pool(200)"), (60, "gpu_pool(200)")]
    {
        let session = format!("{levels} levels");
        let placement = serde_json::json!({"selected_backend": "cpu_pool", "endpoint_metadata": deep(levels)});
        pool.place("reasoner", &session.replace(' ', "%20"), &placement);
        assert_eq!(pool.send("reasoner", &session).await.2, expected, "{session}");
    }
}

// Facts 22 and 23
#[tokio::test]
async fn a_pinned_endpoint_that_refuses_connections_gives_way_to_the_next_one() {
    let mut pool = Pool::open("", |yaml| yaml).await;
    let both = format!("{},{}", pool.address("agent-2"), pool.address("agent-1"));
    pool.place("assistant", "s1", &serde_json::json!({"selected_backend": "agents", "selected_endpoint": both}));
    pool.serves("assistant", "s1", "agent-2").await;
    pool.endpoints.retain(|endpoint| endpoint.name() != "agent-2");
    let (status, served, way) = pool.send("assistant", "s1").await;
    assert_eq!((status, served.as_str()), (200, "agent-1"), "{way}");
    assert!(way.starts_with("agents(") && way.ends_with("agents(200)"), "{way}");
}

// Fact 24
#[tokio::test]
async fn a_pin_of_another_clusters_endpoint_does_not_stand_in_the_way_of_the_chain() {
    let pool = Pool::open("", |yaml| yaml).await;
    // The address is of the cluster that failed; `envoy.lb` reaches the next one as well.
    pool.place(
        "assistant",
        "s",
        &serde_json::json!({"selected_backend": "agents", "selected_endpoint": pool.address("agent-1")}),
    );
    ["agent-1", "agent-2"].iter().for_each(|name| pool.endpoint(name).answer_status(503));
    let (status, served, way) = pool.send("assistant", "s").await;
    assert_eq!((status, served.as_str(), way.as_str()), (200, "cpu", "agents(503) agents(503) cpu_pool(200)"));
}

#[tokio::test]
async fn a_pin_reaches_the_next_cluster_too_and_does_not_end_the_chain_there() {
    in_both_orders(async |pool| {
        pool.place("reasoner", "p1", &serde_json::json!({"selected_backend": "gpu_pool", "endpoint_metadata": {"proc": "p1"}}));
        pool.endpoint("gpu-p1").answer_status(503);
        let (status, served, way) = pool.send("reasoner", "p1").await;
        assert_eq!((status, served.as_str(), way.as_str()), (200, "cpu", "gpu_pool(503) cpu_pool(200)"));
        // A backend that the directory names goes first.
        pool.place("reasoner", "moved", &serde_json::json!({"selected_backend": "cpu_pool"}));
        pool.serves("reasoner", "moved", "cpu").await;
    })
    .await;
}

#[tokio::test]
async fn the_answer_is_remembered_and_shown() {
    let pool = Pool::open("", |yaml| yaml).await;
    pool.place("reasoner", "s", &serde_json::json!({"selected_backend": "cpu_pool"}));
    pool.serves("reasoner", "s", "cpu").await;
    assert_eq!(pool.directory.seen().len(), 1);
    let json =
        async |request: Request| serde_json::from_slice::<serde_json::Value>(&ok(pool.serve.admin(request).await).body).unwrap();
    let told = json(Request::post("/explain", r#"{"model":"reasoner","session":"s"}"#)).await;
    assert_eq!((&told["directory"]["answer"], &told["chain"][0]["name"]), (&"placed".into(), &"cpu_pool".into()));
    let told = json(Request::post("/explain", r#"{"model":"reasoner","session":"other"}"#)).await;
    assert_eq!(told["directory"]["answer"], "unknown");
    assert_eq!(json(Request::get("/healthz")).await["sessions"]["state"], "ok");
    let metrics = ok(pool.serve.admin(Request::get("/metrics")).await).text();
    assert!(metrics.contains("cascade_session_lookups_total{result=\"placed\"} 4"), "{metrics}");
}

/// A slow directory holds a thread, which must not be the one of the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_in_trouble_costs_a_request_its_affinity_and_nothing_else() {
    let pool = Pool::open(", on_unavailable: continue", |yaml| yaml).await;
    pool.directory.answer_status(500);
    assert_eq!(pool.send("reasoner", "a").await.0, 200);
    pool.directory.answer(|_| Reply::status(200).body("<html>"));
    assert_eq!(pool.send("reasoner", "b").await.0, 200);
    // It says nothing until the request has been answered without it.
    let (speak, silence) = std::sync::mpsc::channel::<()>();
    let silence = std::sync::Mutex::new(silence);
    pool.directory.answer(move |_| {
        let _ = tokio::task::block_in_place(|| silence.lock().unwrap().recv());
        Reply::status(404)
    });
    assert_eq!(pool.send("reasoner", "c").await.0, 200);
    drop(speak);
    assert_eq!(ok(pool.serve.admin(Request::get("/readyz")).await).status, 200, "it stays ready");
}

#[tokio::test]
async fn an_operator_may_refuse_what_cannot_be_looked_up() {
    let pool = Pool::open(", on_unavailable: reject", |yaml| yaml).await;
    assert_eq!(pool.send("reasoner", "known").await.0, 200);
    pool.directory.answer_status(500);
    let request = Request::post("/v1/chat/completions", r#"{"model":"reasoner"}"#).header("x-session-id", "new");
    let response = ok(request.send(&Endpoint::Tcp(pool.envoy.address())).await);
    assert_eq!((response.status, response.header("x-cascade-reason")), (503, Some("session_unavailable")));
    assert_eq!(pool.send("reasoner", "known").await.0, 200, "a remembered answer needs no directory");
}
