//! A gateway of one Envoy, its providers and a scripted processor, and the question all tests ask: which cluster served each
//! attempt? The answer is Envoy's, held against what the providers themselves recorded.

use std::fmt::Display;
use std::net::SocketAddr;

use cascade::lab::trail::ID_HEADER;
use cascade::lab::{
    Attempt, Cluster, DeadPort, Endpoint, Envoy, EnvoySetup, Group, Provider, Request, Response, Trail, eventually,
};

use crate::processor::{Processor, Script};
use crate::town::LIMIT;

/// A body that would be a chat completion.
const CHAT: &str = "/v1/chat/completions";

pub fn chat() -> Request {
    Request::post(CHAT, r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#)
}

/// A chat completion of about this many bytes.
pub fn chat_of(bytes: usize) -> Request {
    Request::post(CHAT, format!(r#"{{"messages":[{{"role":"user","content":"{}"}}],"model":"m"}}"#, "x".repeat(bytes)))
}

pub struct Gateway {
    pub envoy: Envoy,
    pub processor: Processor,
    providers: Vec<Provider>,
    _dead: Vec<DeadPort>,
}

/// What a request came to.
pub struct Told {
    pub response: Response,
    pub trail: Trail,
}

impl Told {
    /// Asserts the serving cluster of every attempt (`a(429) b(200)`) and with it the status that the client saw.
    #[track_caller]
    pub fn went(&self, attempts: &str) {
        assert_eq!(self.trail.to_string(), attempts, "the client got {} {}", self.response.status, self.response.text());
        if let Some(last) = self.trail.attempts.last().filter(|last| last.code != 0) {
            assert_eq!(self.response.status, last.code, "the last attempt's status is the client's");
        }
    }
}

/// A gateway to be. Providers answer with a fixed status until told otherwise; a `dead` one refuses connections.
pub struct Plan {
    providers: Vec<(String, u16)>,
    dead: Vec<String>,
    static_chain: Vec<String>,
    change: Box<dyn FnOnce(&mut EnvoySetup)>,
}

/// Providers with these names (which are their clusters' names) and statuses.
pub fn providers(list: &[(&str, u16)]) -> Plan {
    Plan {
        providers: list.iter().map(|(name, status)| ((*name).to_owned(), *status)).collect(),
        dead: Vec::new(),
        static_chain: Vec::new(),
        change: Box::new(|_| ()),
    }
}

impl Plan {
    pub fn dead(mut self, name: &str) -> Self {
        self.dead.push(name.to_owned());
        self
    }

    /// The static chain: these clusters, each a group of its own name. Default: all, in order.
    pub fn static_chain(mut self, clusters: &[&str]) -> Self {
        self.static_chain = clusters.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Changes the settings that the test is about.
    pub fn with(self, change: impl FnOnce(&mut EnvoySetup) + 'static) -> Self {
        Self { change: Box::new(|setup| ((self.change)(setup), change(setup)).1), ..self }
    }

    pub async fn start(self, script: Script) -> Gateway {
        let processor = Processor::start(script).await;
        let mut clusters = Vec::new();
        let mut providers = Vec::new();
        for (name, status) in &self.providers {
            let provider = Provider::answering(name, *status).await.unwrap();
            clusters.push(Cluster::new(name, provider.address()));
            providers.push(provider);
        }
        let mut dead = Vec::new();
        for name in &self.dead {
            let port = DeadPort::reserve().unwrap();
            clusters.push(Cluster::new(name, port.address()));
            dead.push(port);
        }
        let setup = self.finish(EnvoySetup::new(Endpoint::Tcp(processor.address()), clusters));
        let envoy = ok(Envoy::start(&setup).await);
        Gateway { envoy, processor, providers, _dead: dead }
    }

    /// The configuration alone, for one that is judged and not run.
    pub fn setup(self) -> EnvoySetup {
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        let clusters = self.providers.iter().map(|(name, _)| Cluster::new(name, nobody)).collect();
        self.finish(EnvoySetup::new(Endpoint::Tcp(nobody), clusters))
    }

    fn finish(self, mut setup: EnvoySetup) -> EnvoySetup {
        if !self.static_chain.is_empty() {
            setup.static_chain = self.static_chain.iter().map(|name| Group::of(name, name)).collect();
        }
        (self.change)(&mut setup);
        setup
    }
}

impl Gateway {
    /// A gateway of parts that were started elsewhere.
    pub fn of(envoy: Envoy, processor: Processor, providers: Vec<Provider>) -> Self {
        Self { envoy, processor, providers, _dead: Vec::new() }
    }

    pub fn provider(&self, name: &str) -> &Provider {
        self.providers.iter().find(|provider| provider.name() == name).unwrap()
    }

    /// Sends a request and tells its way, which Envoy's log and the providers' records must agree on.
    pub async fn send(&self, request: Request) -> Told {
        let id = self.envoy.next_id();
        let response = ok(request.header(ID_HEADER, &id).send(self.envoy.address()).await);
        self.told(&id, response).await
    }

    /// The same for a request that was sent by hand under this id.
    pub async fn told(&self, id: &str, response: Response) -> Told {
        let trail = ok(self.envoy.trail(id).await);
        let by_envoy: Vec<_> = trail.attempts.iter().filter(|attempt| attempt.code != 0).map(Attempt::to_string).collect();
        assert_eq!(by_envoy, self.recorded(id), "Envoy's log and the providers' records of request {id}");
        Told { response, trail }
    }

    /// Sends with another script from now on.
    pub async fn send_with(&self, script: Script, request: Request) -> Told {
        self.processor.follow(script);
        self.send(request).await
    }

    /// Waits until the processor has heard this many messages.
    pub async fn hears(&self, messages: usize) {
        let what = format!("{messages} messages at the processor");
        ok(eventually(&what, LIMIT, async || (self.processor.heard().len() >= messages).then_some(())).await);
    }

    pub async fn stat(&self, name: &str) -> u64 {
        ok(self.envoy.stat(name).await)
    }

    /// The attempts of a request as the providers themselves saw them.
    pub fn recorded(&self, id: &str) -> Vec<String> {
        let mut served: Vec<(u32, String)> = Vec::new();
        for provider in &self.providers {
            for seen in provider.seen().iter().filter(|seen| seen.header(ID_HEADER) == Some(id)) {
                let attempt = seen.header("x-envoy-attempt-count").and_then(|count| count.parse().ok()).unwrap();
                served.push((attempt, format!("{}({})", provider.name(), seen.answered)));
            }
        }
        served.sort();
        served.into_iter().map(|(_, served)| served).collect()
    }
}

/// Unwraps with the trouble's own words instead of its `Debug`.
#[track_caller]
pub fn ok<T, E: Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}
