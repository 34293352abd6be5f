//! The demo's parts, started in order and stopped together.

use std::path::Path;

use super::scenario::{BUSY, CATALOG, Case, DEAD, PROVIDERS, SETTINGS, STATIC_CHAIN, Witness};
use crate::lab::trail::ID_HEADER;
use crate::lab::{Cluster, DeadPort, Envoy, EnvoySetup, Group, Provider, Reply, Result, Scratch, Serve, Trouble};

/// A running gateway. Fields are dropped in this order: Envoy first, so that nobody sees its parts go.
pub(super) struct Stage {
    envoy: Envoy,
    _serve: Serve,
    _providers: Vec<Provider>,
    _dead: DeadPort,
    scratch: Scratch,
}

impl Stage {
    pub(super) async fn set() -> Result<Self> {
        let scratch = Scratch::new()?;
        let program = std::env::current_exe().map_err(|error| Trouble::new("finding this program", error))?;
        let catalog = scratch.write("catalog.yaml", CATALOG)?;
        let settings = scratch.write("cascade.yaml", SETTINGS)?;
        let arguments = ["--config", &text(&settings), "--catalog", &text(&catalog)];
        let serve = Serve::start(&program, scratch.path(), &arguments).await?;

        let mut providers = Vec::new();
        for name in PROVIDERS {
            providers.push(Provider::start(name, answer_of(name)).await?);
        }
        let dead = DeadPort::reserve()?;
        let mut clusters: Vec<_> = providers.iter().map(|one| Cluster::new(one.name(), one.address())).collect();
        clusters.push(Cluster::new(DEAD, dead.address()));
        let mut setup = EnvoySetup::new(serve.grpc().clone(), clusters);
        setup.static_chain = STATIC_CHAIN.iter().map(|(name, cluster)| Group::of(name, cluster)).collect();
        setup.response_headers = response_headers();
        let envoy = Envoy::start(&setup).await?;
        Ok(Self { envoy, _serve: serve, _providers: providers, _dead: dead, scratch })
    }

    pub(super) async fn play(&self, case: &Case) -> Result<Witness> {
        let mut answers = Vec::new();
        for _ in 0..case.times {
            let id = self.envoy.next_id();
            let request = case.request.clone().header(ID_HEADER, &id);
            answers.push((id, request.send(self.envoy.address()).await?));
        }
        // Envoy writes its log a little later: asked for at the end, it is awaited once.
        let mut witness = Witness::new();
        for (id, response) in answers {
            witness.add(response.status, response.header("x-cascade-reason"), &self.envoy.trail(&id).await?);
        }
        Ok(witness)
    }

    /// What to try by hand while the demo stays up.
    pub(super) fn invitation(&self) -> String {
        let at = self.envoy.address();
        let chat = |model: &str, more: &str| {
            format!(
                "  curl -i {at}/v1/chat/completions -H 'content-type: application/json'{more} -d '{{\"model\":\"{model}\",\"messages\":[]}}'\n"
            )
        };
        format!(
            "\nIt stays up until ctrl-c. Try, and look at the headers x-served-by, x-attempts and x-reason:\n\n{}{}{}\n\
             The catalog is {}; edit it, it is read again within seconds.\n\
             Envoy's configuration is {}.\n",
            chat("gpt-4o", ""),
            chat("gpt-4o", " -H 'x-tenant-id: acme'"),
            chat("llama-3-70b", ""),
            self.scratch.path().join("catalog.yaml").display(),
            self.envoy.directory().join("envoy.yaml").display(),
        )
    }
}

fn answer_of(name: &'static str) -> impl Fn(&crate::lab::Seen) -> Reply + Send + Sync + 'static {
    move |_| {
        let reply = if name == BUSY { Reply::too_many(30) } else { Reply::status(200) };
        reply.header("content-type", "application/json").body(format!("{{\"served_by\":\"{name}\"}}\n"))
    }
}

fn response_headers() -> Vec<(String, String)> {
    [("x-attempts", "%UPSTREAM_REQUEST_ATTEMPT_COUNT%"), ("x-reason", "%DYNAMIC_METADATA(cascade.decision:reason)%")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
