//! A street of three providers that each record exactly what they were sent: a real Envoy with the upstream role, `cascade serve` that
//! can freeze or die between two attempts, and a chain in which the first two fail.

use std::net::SocketAddr;

use cascade::lab::serve::signal;
use cascade::lab::{Cluster, Envoy, EnvoySetup, Group, Provider, Reply, Request, Scratch, Seen, Serve, Tap};

use crate::gateway::ok;
use crate::town;

/// `m` has a longer and then a shorter name than its alias, `n` the other way round; the third cluster has no names.
const CATALOG: &str = "version: 1
clusters:
  one: {models: {m: vendor-one-with-a-much-longer-name, n: v}}
  two: {models: {m: v, n: vendor-two-with-a-much-longer-name}}
  three: {}
priority_groups:
  first: {clusters: [{cluster_name: one, weight: 1}]}
  second: {clusters: [{cluster_name: two, weight: 1}]}
  third: {clusters: [{cluster_name: three, weight: 1}]}
models:
  m: {aliases: [alias-m], chain: [first, second, third]}
  n: {aliases: [alias-n], chain: [first, second, third]}
";
const SETTINGS: &str = "feedback: {enabled: true, consecutive_failures: 100}
secret_file: SECRET
extract: {model: [{header: x-model}, {query: model}, {form: engine}, {body: /spec/engine}, {dialect: auto}]}
";

/// What happens to Cascade while the first provider thinks about its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Lives,
    Freezes,
    Dies,
}

pub struct Street {
    pub envoy: Envoy,
    pub serve: Serve,
    stubs: [Stub; 3],
    scratch: Scratch,
}

pub const NAMES: [&str; 3] = ["one", "two", "three"];

impl Street {
    /// The first two providers fail, the third answers.
    pub async fn build(change: impl FnOnce(&mut [Cluster])) -> Self {
        let scratch = ok(Scratch::new());
        ok(scratch.write("catalog.yaml", CATALOG));
        let secret = ok(scratch.write("secret", "a-key-that-outlives-a-restart\n"));
        ok(scratch.write("cascade.yaml", &SETTINGS.replace("SECRET", secret.to_str().unwrap())));
        let serve = town::start(&scratch).await;
        let mut clusters: Vec<_> = NAMES.iter().map(|name| Cluster::empty(name)).collect();
        change(&mut clusters);
        let mut stubs = Vec::new();
        for (cluster, status) in clusters.iter_mut().zip([503, 503, 200]) {
            let stub = Stub::start(&cluster.name, cluster.http2, status).await;
            cluster.hosts = vec![stub.address()];
            stubs.push(stub);
        }
        let mut setup = EnvoySetup::new(serve.grpc().clone(), clusters);
        setup.websockets = true;
        setup.static_chain = vec![Group::of("fixed", "three")];
        setup.feedback = true;
        setup.upstream_role = true;
        setup.allow_mode_override = true;
        let envoy = ok(Envoy::start(&setup).await);
        let stubs = stubs.try_into().unwrap_or_else(|_| unreachable!("three providers"));
        Self { envoy, serve, stubs, scratch }
    }

    /// Sends it, and gives what each provider saw of it. Nothing may be left on any connection.
    pub async fn send(&mut self, what: &str, request: &Request, fate: Fate) -> [Seen; 3] {
        let before = self.seen();
        let id = self.serve.id();
        self.stubs[0].answer(move |_| {
            match fate {
                Fate::Lives => {}
                Fate::Freezes => ok(signal(id, "STOP")),
                Fate::Dies => ok(signal(id, "KILL")),
            }
            Reply::status(503)
        });
        let (response, trail) = ok(self.envoy.send(request.clone()).await);
        match fate {
            Fate::Lives => {}
            Fate::Freezes => ok(self.serve.thaw()),
            Fate::Dies => {
                self.serve.kill();
                self.serve = town::start(&self.scratch).await;
            }
        }
        assert_eq!((trail.to_string().as_str(), response.status), ("one(503) two(503) three(200)", 200), "{what} {fate:?}");
        self.since(before, &format!("{what} {fate:?}"))
    }

    /// How many requests each provider has seen.
    pub fn seen(&self) -> [usize; 3] {
        self.stubs.each_ref().map(|stub| stub.seen().len())
    }

    /// What the provider with this number has seen.
    pub fn requests(&self, number: usize) -> Vec<Seen> {
        self.stubs[number].seen()
    }

    /// The one request that each provider has seen since then.
    pub fn since(&self, before: [usize; 3], what: &str) -> [Seen; 3] {
        let mut before = before.into_iter();
        self.stubs.each_ref().map(|stub| {
            let rest = stub.rest();
            assert!(rest.is_empty(), "{what}: left on a connection: {:?}", String::from_utf8_lossy(&rest));
            let seen = stub.seen();
            assert_eq!(Some(seen.len() - 1), before.next(), "{what}: one request each, {seen:?}");
            seen.into_iter().next_back().unwrap()
        })
    }

    /// From now on the provider with this number answers by `script`.
    pub fn answer(&self, number: usize, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        self.stubs[number].answer(script);
    }

    pub async fn metric(&self, line: &str) -> f64 {
        let page = ok(self.serve.admin(Request::get("/metrics")).await).text();
        page.lines().find_map(|text| text.strip_prefix(line)?.trim().parse().ok()).unwrap_or(0.0)
    }
}

/// A provider in one of two protocols.
enum Stub {
    Http1(Tap),
    Http2(Provider),
}

impl Stub {
    async fn start(name: &str, http2: bool, status: u16) -> Self {
        if http2 {
            Self::Http2(ok(Provider::start_http2(name, move |_| Reply::status(status)).await))
        } else {
            Self::Http1(ok(Tap::start(name, move |_| Reply::status(status)).await))
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Http1(tap) => tap.address(),
            Self::Http2(provider) => provider.address(),
        }
    }

    fn answer(&self, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        match self {
            Self::Http1(tap) => tap.answer(script),
            Self::Http2(provider) => provider.answer(script),
        }
    }

    fn seen(&self) -> Vec<Seen> {
        match self {
            Self::Http1(tap) => tap.seen(),
            Self::Http2(provider) => provider.seen(),
        }
    }

    /// What is left on its connections. HTTP/2 has frames: nothing can be.
    fn rest(&self) -> Vec<u8> {
        match self {
            Self::Http1(tap) => tap.rest(),
            Self::Http2(_) => Vec::new(),
        }
    }
}
