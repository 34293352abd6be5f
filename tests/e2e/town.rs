//! Envoy, `cascade serve` and three providers, and a crowd of clients that never stops asking: the scene of everything about
//! Cascade's life.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cascade::lab::{Cluster, Envoy, EnvoySetup, Group, Provider, Request, Scratch, Serve, Trail, eventually};
use tokio::task::JoinSet;

use crate::cases::CASCADE;
use crate::gateway::{chat, ok};

pub const LIMIT: Duration = Duration::from_secs(20);

/// A catalog whose model `m` goes to this cluster.
pub fn leads_to(cluster: &str) -> String {
    format!(
        "version: 1\npriority_groups: {{g: {{clusters: [{{cluster_name: {cluster}, weight: 1}}]}}}}\nmodels: {{m: {{chain: [g]}}}}\n"
    )
}

/// Envoy, Cascade and the providers `fixed` (the static chain), `a` and `b`.
pub struct Town {
    pub envoy: Envoy,
    pub serve: Serve,
    providers: [Provider; 3],
    pub scratch: Scratch,
}

impl Town {
    pub async fn found(settings: &str, change: impl FnOnce(&mut EnvoySetup)) -> Self {
        Self::with_catalog(&leads_to("a"), settings, change).await
    }

    pub async fn with_catalog(catalog: &str, settings: &str, change: impl FnOnce(&mut EnvoySetup)) -> Self {
        let scratch = ok(Scratch::new());
        ok(scratch.write("catalog.yaml", catalog));
        ok(scratch.write("cascade.yaml", settings));
        let serve = start(&scratch).await;
        let providers = [
            ok(Provider::answering("fixed", 200).await),
            ok(Provider::answering("a", 200).await),
            ok(Provider::answering("b", 200).await),
        ];
        let clusters = providers.iter().map(|provider| Cluster::new(provider.name(), provider.address())).collect();
        let mut setup = EnvoySetup::new(serve.grpc().clone(), clusters);
        setup.static_chain = vec![Group::of("fixed", "fixed")];
        setup.response_headers = vec![("x-revision".to_owned(), "%DYNAMIC_METADATA(cascade.decision:revision)%".to_owned())];
        change(&mut setup);
        let envoy = ok(Envoy::start(&setup).await);
        Self { envoy, serve, providers, scratch }
    }

    pub fn provider(&self, name: &str) -> &Provider {
        self.providers.iter().find(|provider| provider.name() == name).unwrap()
    }

    pub async fn send(&self, request: Request) -> (u16, Trail) {
        let (response, trail) = ok(self.envoy.send(request).await);
        (response.status, trail)
    }

    pub async fn way(&self) -> String {
        self.send(chat()).await.1.to_string()
    }

    pub async fn goes_to(&self, way: &str) {
        let what = format!("requests that go {way}");
        ok(eventually(&what, LIMIT, || async { (self.way().await == way).then_some(()) }).await);
    }

    /// Replaces the catalog as editors and orchestrators do: a new file is renamed over the old one.
    pub fn replace_catalog(&self, text: &str) {
        let new = ok(self.scratch.write(".new", text));
        fs::rename(new, self.scratch.path().join("catalog.yaml")).unwrap();
    }

    pub async fn status(&self) -> serde_json::Value {
        let page = ok(self.serve.admin(Request::get("/catalog/status")).await);
        serde_json::from_slice(&page.body).unwrap()
    }

    pub async fn revision(&self) -> String {
        self.status().await["revision"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until Envoy has begun to ask Cascade about a request.
    pub async fn is_asked(&self) {
        let open = async || self.metric("cascade_streams_in_flight").await.filter(|open| *open >= 1.0);
        ok(eventually("the open stream", LIMIT, open).await);
    }

    pub async fn metric(&self, line: &str) -> Option<f64> {
        let page = ok(self.serve.admin(Request::get("/metrics")).await).text();
        page.lines().find_map(|text| text.strip_prefix(line)?.trim().parse().ok())
    }
}

pub async fn start(scratch: &Scratch) -> Serve {
    let text = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let arguments = ["--config".to_owned(), text("cascade.yaml"), "--catalog".to_owned(), text("catalog.yaml")];
    ok(Serve::start(Path::new(CASCADE), scratch.path(), &arguments.each_ref().map(String::as_str)).await)
}

/// Clients that send one request after the other until told to stop; every answer is kept as (status, served by, revision).
pub struct Crowd {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    clients: JoinSet<Vec<(u16, String, String)>>,
}

impl Crowd {
    pub fn gather(envoy: &Envoy) -> Self {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut clients = JoinSet::new();
        for _ in 0..8 {
            let (address, stop, answers) = (envoy.address(), Arc::clone(&stop), Arc::clone(&answers));
            clients.spawn(async move {
                let mut seen = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let response = ok(chat().send(address).await);
                    let header = |name| response.header(name).unwrap_or_default().to_owned();
                    seen.push((response.status, header("x-served-by"), header("x-revision")));
                    answers.fetch_add(1, Ordering::Relaxed);
                }
                seen
            });
        }
        Self { stop, answers, clients }
    }

    /// Waits until this many more answers have come.
    pub async fn see(&self, more: usize) {
        let goal = self.answers.load(Ordering::Relaxed) + more;
        ok(eventually("more answers", LIMIT, || async { (self.answers.load(Ordering::Relaxed) >= goal).then_some(()) }).await);
    }

    pub async fn disperse(self) -> Vec<(u16, String, String)> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.join_all().await.concat()
    }
}
