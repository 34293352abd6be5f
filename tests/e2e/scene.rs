//! The scene of everything about attempts: a real Envoy that tells Cascade of each and shows it each, `cascade serve` with feedback
//! on, and providers that do as they are told.

use std::path::Path;

use cascade::lab::{Cluster, Envoy, EnvoySetup, Group, Provider, Request, Response, Scratch, Serve, Trail, eventually};

use crate::cases::CASCADE;
use crate::gateway::{chat, ok};
use crate::town::LIMIT;

/// Settings under which cooldowns are short.
pub const FEEDBACK: &str = "feedback: {enabled: true, cooldown: 2s, max_cooldown: 4s, consecutive_failures: 3}\n";

/// A catalog whose model `m` goes to these clusters, each in a group of its own and of its own name.
pub fn catalog_of(names: &[&str]) -> String {
    let groups = names.iter().map(|name| format!("  {name}: {{clusters: [{{cluster_name: {name}, weight: 1}}]}}\n"));
    format!("version: 1\npriority_groups:\n{}models:\n  m: {{chain: [{}]}}\n", groups.collect::<String>(), names.join(", "))
}

/// Envoy with feedback and the upstream role, Cascade, and providers by their clusters' names.
pub struct Scene {
    pub envoy: Envoy,
    pub serve: Serve,
    providers: Vec<Provider>,
    _scratch: Scratch,
}

impl Scene {
    /// The chain of model `m` is `one`, `two` …: a group of its own for each provider and then each further cluster.
    pub async fn set(providers: &[(&str, u16)], others: Vec<Cluster>, first: &str) -> Self {
        let names = providers.iter().map(|(name, _)| *name).chain(others.iter().map(|cluster| cluster.name.as_str()));
        let mut names: Vec<&str> = names.collect();
        names.sort_by_key(|name| *name != first);
        Self::with_catalog(&catalog_of(&names), providers, others).await
    }

    pub async fn with_catalog(catalog: &str, providers: &[(&str, u16)], others: Vec<Cluster>) -> Self {
        Self::with_settings(FEEDBACK, catalog, providers, others).await
    }

    pub async fn with_settings(settings: &str, catalog: &str, providers: &[(&str, u16)], others: Vec<Cluster>) -> Self {
        Self::with_envoy(settings, catalog, providers, others, |_| {}).await
    }

    /// `change`: what is otherwise about this Envoy.
    pub async fn with_envoy(
        settings: &str,
        catalog: &str,
        providers: &[(&str, u16)],
        others: Vec<Cluster>,
        change: impl FnOnce(&mut EnvoySetup),
    ) -> Self {
        let scratch = ok(Scratch::new());
        let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
        let catalog = text(ok(scratch.write("catalog.yaml", catalog)));
        let settings = text(ok(scratch.write("cascade.yaml", settings)));
        let arguments = ["--config", &settings, "--catalog", &catalog];
        let serve = ok(Serve::start(Path::new(CASCADE), scratch.path(), &arguments).await);
        let mut started = Vec::new();
        for (name, status) in providers {
            started.push(ok(Provider::answering(name, *status).await));
        }
        let mut clusters: Vec<_> = started.iter().map(|provider| Cluster::new(provider.name(), provider.address())).collect();
        clusters.extend(others);
        let mut setup = EnvoySetup::new(serve.grpc().clone(), clusters);
        setup.static_chain = vec![Group::of("fixed", providers[0].0)];
        setup.feedback = true;
        setup.upstream_role = true;
        setup.allow_mode_override = true;
        change(&mut setup);
        let envoy = ok(Envoy::start(&setup).await);
        Self { envoy, serve, providers: started, _scratch: scratch }
    }

    pub fn provider(&self, name: &str) -> &Provider {
        self.providers.iter().find(|provider| provider.name() == name).unwrap()
    }

    pub async fn send(&self, request: Request) -> (Response, Trail) {
        ok(self.envoy.send(request).await)
    }

    pub async fn way(&self) -> String {
        self.send(chat()).await.1.to_string()
    }

    pub async fn goes(&self, way: &str) {
        let what = format!("requests that go {way}");
        ok(eventually(&what, LIMIT, || async { (self.way().await == way).then_some(()) }).await);
    }

    pub async fn metric(&self, line: &str) -> f64 {
        let page = ok(self.serve.admin(Request::get("/metrics")).await).text();
        page.lines().find_map(|text| text.strip_prefix(line)?.trim().parse().ok()).unwrap_or(0.0)
    }

    /// Waits until Cascade has taken in so many attempts of this class.
    pub async fn counts(&self, cluster: &str, class: &str, times: f64) {
        let line = format!("cascade_attempts_total{{cluster=\"{cluster}\",class=\"{class}\"}}");
        let reached = || async { (self.metric(&line).await >= times).then_some(()) };
        if let Err(trouble) = eventually(&line, LIMIT, reached).await {
            let page = ok(self.serve.admin(Request::get("/metrics")).await).text();
            let attempts: Vec<_> =
                page.lines().filter(|line| line.contains("attempts_total") || line.contains("ignored")).collect();
            panic!("{trouble}: {attempts:#?}");
        }
    }

    pub async fn cools(&self, cluster: &str) {
        let line = format!("cascade_cluster_cooling{{cluster=\"{cluster}\"}}");
        ok(eventually(&line, LIMIT, || async { (self.metric(&line).await > 0.0).then_some(()) }).await);
    }
}
