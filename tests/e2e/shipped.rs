//! What the shipped Envoy configurations promise beside the way of a request: a provider that hangs costs one attempt, upgrades are
//! decided, paths are made plain, and a log line tells a request that nobody was asked about from one that was served. The files are
//! run as they are, but for ports and for limits that a test does not wait for.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use cascade::lab::{Envoy, Provider, Reply, Request, Scratch, Serve, Then, eventually};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::cases::CASCADE;
use crate::examples::{example, prepare};
use crate::gateway::ok;
use crate::town::LIMIT;

const ALL: [&str; 5] = ["buffered", "full-duplex", "full", "headers-only", "sessions"];
const BY_PORT: &str = "{socket_address: {address: 127.0.0.1, port_value: 50051}}";

/// An example in front of `cascade serve` with its settings.
struct Scene {
    envoy: Envoy,
    serve: Serve,
    providers: Vec<Provider>,
    _scratch: Scratch,
}

impl Scene {
    async fn set(name: &str, catalog: &str, change: impl FnOnce(String) -> String) -> Self {
        let root = env!("CARGO_MANIFEST_DIR");
        let settings = format!("{root}/examples/envoy/{name}.cascade.yaml");
        let scratch = ok(Scratch::new());
        let mut arguments = vec!["--catalog", catalog];
        if Path::new(&settings).exists() {
            arguments.extend(["--config", settings.as_str()]);
        }
        let serve = ok(Serve::start(Path::new(CASCADE), scratch.path(), &arguments).await);
        let (yaml, providers) = prepare(name).await;
        let by_path = serve.grpc().to_string().replace("unix:", "{pipe: {path: ") + "}}";
        let envoy = ok(Envoy::start_with(&change(yaml.replace(BY_PORT, &by_path))).await);
        Self { envoy, serve, providers, _scratch: scratch }
    }

    async fn quickstart(name: &str, change: impl FnOnce(String) -> String) -> Self {
        Self::set(name, &format!("{}/catalogs/quickstart", env!("CARGO_MANIFEST_DIR")), change).await
    }

    fn provider(&self, name: &str) -> &Provider {
        self.providers.iter().find(|provider| provider.name() == name).unwrap()
    }

    async fn way(&self) -> String {
        let request = Request::post("/v1/chat/completions", r#"{"model":"gpt-4o","messages":[]}"#);
        let (response, trail) = ok(self.envoy.send(request).await);
        assert_eq!(response.status, 200, "{trail}");
        trail.to_string()
    }

    /// The example's own line about a request.
    async fn line(&self, id: &str) -> Value {
        let path = self.envoy.directory().join("access.log");
        let find = || async {
            let log = fs::read_to_string(&path).ok()?;
            let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines.into_iter().find(|line| line["id"] == id && line["kind"] == "request")
        };
        ok(eventually("the line of the request", LIMIT, find).await)
    }
}

/// The same limit, as short as a test waits.
fn short(yaml: &str) -> String {
    let limit = "per_try_idle_timeout: 60s";
    assert_eq!(yaml.matches(limit).count(), 1);
    yaml.replace(limit, "per_try_idle_timeout: 0.7s")
}

// Facts 40 to 48
#[tokio::test]
async fn every_example_limits_attempts_and_names_clusters_by_their_own_name() {
    for name in ALL {
        let yaml = example(name);
        for line in
            ["per_try_timeout: 60s", "per_try_idle_timeout: 60s", "timeout: 0s", "max_retries: 1000", "normalize_path: true"]
        {
            assert!(yaml.contains(line), "{name}: {line}");
        }
        assert!(yaml.lines().all(|line| line.trim_start().starts_with('#') || !line.contains("hedge")), "{name}");
        assert!(!yaml.contains("'%UPSTREAM_CLUSTER%'"), "{name}: a cluster's name for statistics");
        let feedback = yaml.matches("envoy.access_loggers.http_grpc").count();
        assert!(feedback == 0 || feedback == 2 && !yaml.contains("response_flag_filter"), "{name}: the log is whole");
    }
}

// Facts 40 and 41
#[tokio::test]
async fn with_any_example_a_provider_that_never_answers_costs_one_attempt() {
    for name in ["buffered", "full-duplex", "full"] {
        let scene = Scene::quickstart(name, |yaml| short(&yaml)).await;
        scene.provider("openai_primary").answer(|_| Reply::silence());
        for _ in 0..3 {
            let way = scene.way().await;
            assert!(way.starts_with("openai_primary(") && way.ends_with(" azure_backup(200)"), "{name}: {way}");
        }
        if name == "full" {
            let past_it = || async { (scene.way().await == "azure_backup(200)").then_some(()) };
            ok(eventually("requests that go past the hanging provider", LIMIT, past_it).await);
            let metrics = ok(scene.serve.admin(Request::get("/metrics")).await).text();
            assert!(metrics.contains(r#"cascade_attempts_total{cluster="openai_primary",class="timeout"}"#), "{metrics}");
        }
    }
}

// Fact 44
#[tokio::test]
async fn with_the_full_example_a_provider_that_stalls_cools_after_its_third_cut_answer() {
    let scene = Scene::quickstart("full", |yaml| short(&yaml)).await;
    scene.provider("openai_primary").answer(|_| Reply::status(200).body("data: {}\n\n").then(Then::Stall));
    for _ in 0..3 {
        let request = Request::post("/v1/chat/completions", r#"{"model":"gpt-4o","messages":[]}"#);
        assert!(request.send(scene.envoy.address()).await.is_err(), "the answer is cut short");
    }
    let past_it = || async {
        let request = Request::post("/v1/chat/completions", r#"{"model":"gpt-4o","messages":[]}"#);
        let answer = request.send(scene.envoy.address()).await.ok()?;
        (answer.header("x-served-by") == Some("azure_backup")).then_some(())
    };
    ok(eventually("requests that go past the stalling provider", LIMIT, past_it).await);
}

/// A provider that takes upgrades and sends back what comes.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let answer = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes()).await;
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
            });
        }
    });
    address
}

// Fact 99
#[tokio::test]
async fn with_any_example_an_upgrade_is_decided_and_goes_through() {
    for name in ["buffered", "full-duplex", "full"] {
        let provider = echo().await;
        // The model's chain begins elsewhere than the static one.
        let scene = Scene::quickstart(name, |yaml| {
            let from =
                yaml.split("cluster_name: anthropic_main").nth(1).and_then(|rest| rest.split("port_value: ").nth(1)).unwrap();
            let port = from.split('}').next().unwrap().to_owned();
            yaml.replace(&format!("port_value: {port}}}"), &format!("port_value: {}}}", provider.port()))
        })
        .await;
        let mut stream = TcpStream::connect(scene.envoy.address()).await.unwrap();
        let head = "GET /v1/realtime?model=claude-sonnet HTTP/1.1\r\nhost: e\r\nconnection: upgrade\r\nupgrade: websocket";
        stream.write_all(format!("{head}\r\nx-request-id: ws\r\n\r\n").as_bytes()).await.unwrap();
        let mut seen = Vec::new();
        let talk = async {
            while !seen.ends_with(b"\r\n\r\n") {
                assert!(stream.read_buf(&mut seen).await.unwrap() > 0, "{name}: {}", String::from_utf8_lossy(&seen));
            }
            stream.write_all(b"ping").await.unwrap();
            while !seen.ends_with(b"ping") {
                assert!(stream.read_buf(&mut seen).await.unwrap() > 0, "{name}: {}", String::from_utf8_lossy(&seen));
            }
        };
        tokio::time::timeout(LIMIT, talk).await.expect(name);
        assert!(seen.starts_with(b"HTTP/1.1 101"), "{name}: {}", String::from_utf8_lossy(&seen));
        drop(stream);
        let line = scene.line("ws").await;
        assert_eq!((&line["cluster"], &line["decision"]["outcome"]), (&"anthropic_main".into(), &"override".into()), "{line}");
    }
}

#[tokio::test]
async fn the_log_line_of_a_refusal_says_that_nobody_was_asked() {
    let scratch = ok(Scratch::new());
    let catalog = "version: 1\npriority_groups: {g: {clusters: [{cluster_name: azure_backup, weight: 1}]}}\n\
                   models: {m: {chain: [g]}}\ndefaults: {unknown_model: reject}\n";
    let catalog = ok(scratch.write("catalog.yaml", catalog));
    let scene = Scene::set("full", catalog.to_str().unwrap(), |yaml| yaml).await;
    let send = async |model: &str| {
        let request = Request::post("/v1/chat/completions", format!("{{\"model\":\"{model}\",\"messages\":[]}}"));
        let (response, trail) = ok(scene.envoy.send(request).await);
        (response.status, scene.line(&trail.id).await)
    };
    let (status, refused) = send("unknown").await;
    assert_eq!(status, 404);
    // Envoy names the cluster of the route all the same.
    assert_eq!((&refused["attempts"], &refused["details"]), (&0.into(), &"unknown_model".into()), "{refused}");
    assert_eq!(refused["decision"]["outcome"], "reject");
    let (status, served) = send("m").await;
    assert_eq!((status, &served["attempts"], &served["details"]), (200, &1.into(), &"via_upstream".into()), "{served}");
    assert_eq!((&served["cluster"], &served["path"]), (&"azure_backup".into(), &"/v1/chat/completions".into()));
}

#[tokio::test]
async fn with_the_examples_a_path_is_made_plain_before_anybody_reads_it() {
    let scene = Scene::quickstart("buffered", |yaml| yaml).await;
    let send = async |path: &str| {
        let request = Request::post(path, r#"{"model":"gpt-4o","messages":[]}"#);
        ok(request.send(scene.envoy.address()).await).status
    };
    assert_eq!(send("/openai/deployments/x/../../../v1//chat/completions").await, 200);
    assert_eq!(scene.provider("openai_primary").seen()[0].path, "/v1/chat/completions");
    for path in ["/openai%2fdeployments/x/chat/completions", "/v1/chat%5Ccompletions"] {
        assert_eq!(send(path).await, 400, "{path}");
    }
    assert_eq!(scene.provider("openai_primary").seen().len(), 1, "nobody else saw them");
}

/// The counters that the README says to watch exist in an Envoy with the full example.
#[tokio::test]
async fn envoy_has_every_counter_that_the_readme_says_to_watch() {
    let readme = fs::read_to_string(format!("{}/README.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let table = readme
        .split("In Envoy watch these")
        .nth(1)
        .and_then(|rest| rest.split("The filter of the upstream role").next())
        .unwrap();
    let scene = Scene::quickstart("full", |yaml| yaml).await;
    scene.way().await;
    let stats = ok(Request::get("/stats").send(scene.envoy.admin()).await).text();
    let (mut names, mut before) = (0, String::new());
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        for name in row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2) {
            // `.name` stands beside the one before it.
            let name = match name.strip_prefix('.') {
                Some(last) => format!("{}.{last}", before.rsplit_once('.').unwrap().0),
                None => name.replace("<prefix>", "ingress").replace("<provider>", "openai_primary"),
            };
            assert!(stats.lines().any(|line| line.starts_with(&format!("{name}: "))), "{name}");
            (names, before) = (names + 1, name);
        }
    }
    assert!(names > 12, "{names} of the table were read");
}
