//! What the demo shows: its catalog, its settings, its requests and what must become of each. Nothing here runs anything.

use std::collections::BTreeMap;

use crate::lab::{Request, Trail};

/// The providers' clusters: four that answer, one that refuses connections.
pub(super) const PROVIDERS: [&str; 4] = ["openai_primary", "azure_backup", "onprem_primary", "anthropic_main"];
pub(super) const DEAD: &str = "gpu_closet";
/// The provider that says 429 to everything.
pub(super) const BUSY: &str = "onprem_primary";
/// Envoy's static chain.
pub(super) const STATIC_CHAIN: [(&str, &str); 2] = [("primary", "openai_primary"), ("backup", "azure_backup")];

pub(super) const CATALOG: &str = r#"# The catalog of `cascade demo`: change it while the demo runs, it is read again.
version: 1
label: demo
priority_groups:
  split:
    clusters:
    - {cluster_name: openai_primary, weight: 80}
    - {cluster_name: azure_backup, weight: 20}
  azure: {clusters: [{cluster_name: azure_backup, weight: 100}]}
  on_premise: {clusters: [{cluster_name: onprem_primary, weight: 100}]}
  anthropic: {clusters: [{cluster_name: anthropic_main, weight: 100}]}
  closet: {clusters: [{cluster_name: gpu_closet, weight: 100}]}
models:
  gpt-4o: {aliases: ["gpt-4o-2024-*"], chain: [split, anthropic]}
  llama-3-70b: {chain: [on_premise, azure]}
  claude-sonnet: {chain: [closet, anthropic]}
tenants:
  acme: {chains: {gpt-4o: [azure, split]}}
  intern: {denied_models: ["claude-*"]}
defaults: {missing_tenant: anonymous, unknown_model: pass_through}
"#;

/// The demo's Envoy listens on loopback for this demo alone, so the tenant may stand in a header.
pub(super) const SETTINGS: &str = "extract:\n  tenant: [{header: x-tenant-id, trusted: true}]\n";

/// One thing to show.
#[derive(Debug)]
pub(super) struct Case {
    /// What is sent, in words.
    pub title: &'static str,
    pub request: Request,
    /// How often it is sent.
    pub times: usize,
    outcome: &'static str,
    reason: &'static str,
    /// Every way that the request may go. All of them must be seen, and no other.
    ways: &'static [&'static str],
    status: u16,
}

/// What became of a case.
#[derive(Debug)]
pub(super) struct Witness {
    /// Ways (`a(429) b(200)`) and how often each was gone.
    pub ways: BTreeMap<String, usize>,
    pub outcome: String,
    pub reason: String,
    /// The names of the groups sent.
    pub chain: Vec<String>,
    /// Of the last response.
    pub status: u16,
}

impl Witness {
    pub(super) fn new() -> Self {
        Self { ways: BTreeMap::new(), outcome: String::new(), reason: String::new(), chain: Vec::new(), status: 0 }
    }

    /// Adds one response and its way. `reason` is what the response itself says, for rejects.
    pub(super) fn add(&mut self, status: u16, reason: Option<&str>, trail: &Trail) {
        let fact = |name: &str| trail.decision.get(name).and_then(|value| value.as_str());
        let groups = trail.decision.get("chain").and_then(|chain| chain.as_array()).into_iter().flatten();
        *self.ways.entry(trail.to_string()).or_default() += 1;
        fact("outcome").unwrap_or(if reason.is_some() { "reject" } else { "" }).clone_into(&mut self.outcome);
        fact("reason").or(reason).unwrap_or_default().clone_into(&mut self.reason);
        self.chain = groups.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        self.status = status;
    }
}

impl Case {
    pub(super) fn is_met_by(&self, witness: &Witness) -> bool {
        witness.outcome == self.outcome
            && witness.reason == self.reason
            && witness.status == self.status
            && witness.ways.keys().map(String::as_str).eq(self.ways.iter().copied())
    }

    fn new(title: &'static str, request: Request) -> Self {
        Self { title, request, times: 1, outcome: "override", reason: "model_chain", ways: &[], status: 200 }
    }

    fn decided(self, outcome: &'static str, reason: &'static str) -> Self {
        Self { outcome, reason, ..self }
    }

    /// In the order of the alphabet.
    fn goes(self, ways: &'static [&'static str]) -> Self {
        Self { ways, ..self }
    }
}

/// A chat completion for a model.
pub(super) fn chat(model: &str) -> Request {
    let body = serde_json::json!({"model": model, "messages": [{"role": "user", "content": "Say hello."}]});
    Request::post("/v1/chat/completions", body.to_string())
}

/// Often enough that a fifth of it is missed once in 10^9 runs.
const MANY: usize = 100;

pub(super) fn cases() -> Vec<Case> {
    const EITHER: &[&str] = &["azure_backup(200)", "openai_primary(200)"];
    let acme = |request: Request| request.header("x-tenant-id", "acme");
    vec![
        Case { times: MANY, ..Case::new("gpt-4o, a hundred times: weights 80 and 20", chat("gpt-4o")) }.goes(EITHER),
        Case::new("gpt-4o for tenant acme, which has a chain of its own", acme(chat("gpt-4o")))
            .decided("override", "tenant_chain")
            .goes(&["azure_backup(200)"]),
        Case::new("llama-3-70b, whose first provider says 429", chat("llama-3-70b"))
            .goes(&["onprem_primary(429) azure_backup(200)"]),
        Case::new("claude-sonnet, whose first provider is dead", chat("claude-sonnet"))
            .goes(&["gpu_closet(UF) anthropic_main(200)"]),
        Case { times: MANY, ..Case::new("gpt-4o-2024-08-06, an alias of gpt-4o", chat("gpt-4o-2024-08-06")) }.goes(EITHER),
        Case { status: 403, ..Case::new("claude-sonnet for tenant intern, to whom it is denied", chat("claude-sonnet")) }
            .with_tenant("intern")
            .decided("reject", "model_not_allowed")
            .goes(&[""]),
        Case::new("mystery-model, which the catalog does not know", chat("mystery-model"))
            .decided("pass_through", "unknown_model")
            .goes(&["openai_primary(200)"]),
        Case::new("a GET without a body", Request::get("/v1/models"))
            .decided("pass_through", "missing_model")
            .goes(&["openai_primary(200)"]),
    ]
}

impl Case {
    fn with_tenant(self, tenant: &str) -> Self {
        Self { request: self.request.header("x-tenant-id", tenant), ..self }
    }
}
