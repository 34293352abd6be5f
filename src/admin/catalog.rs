//! `/catalog` and `/catalog/status`: the snapshot in use in the words of the catalog file, names instead of ids. API keys are left
//! out, hashes included.

use axum::extract::State as Given;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::State;
use super::answer::Parameters;
use super::error::Problem;
use crate::catalog::pattern::Pattern;
use crate::catalog::snapshot::{
    Chain, Cluster, ClusterId, Drain, Entry, Group, Mode, Model, ProviderId, Served, Snapshot, StrangerPolicy, TagSet, Tenant,
    UnknownModelPolicy,
};
use crate::catalog::store::Status;
use crate::document::suggest::nearest;
use crate::telemetry::time::rfc3339;

pub(super) async fn status(Given(state): Given<State>, uri: Uri) -> Response {
    match Parameters::read(&uri, &[]) {
        Ok(parameters) => parameters.format().answer(&status_json(&state.readiness.store.status())),
        Err(problem) => problem.into_response(),
    }
}

pub(super) fn status_json(status: &Status) -> Value {
    json!({
        "revision": status.revision.as_ref().map(ToString::to_string),
        "label": status.label.as_deref(),
        "source": &*status.source,
        "loaded_at": status.loaded_at.map(rfc3339),
        "last_error": status.last_error.as_deref(),
        "failures_since": status.failures_since,
        "stale": status.stale,
        "pending": status.pending.as_ref().map(|pending| json!({
            "why": &*pending.why,
            "since": rfc3339(pending.since),
            "until": rfc3339(pending.until),
            "loosens": pending.loosens,
        })),
        "last_good_error": status.last_good_error.as_deref(),
    })
}

/// Written on a thread that may be busy for a while: catalogs of 10,000 tenants take milliseconds.
pub(super) async fn compiled(Given(state): Given<State>, uri: Uri) -> Response {
    let parameters = match Parameters::read(&uri, &["tenant", "model"]) {
        Ok(parameters) => parameters,
        Err(problem) => return problem.into_response(),
    };
    let Some(snapshot) = state.readiness.store.current() else { return Problem::no_catalog().into_response() };
    let write = move || match compiled_json(&snapshot, &parameters) {
        Ok(catalog) => parameters.format().answer(&catalog),
        Err(problem) => problem.into_response(),
    };
    tokio::task::spawn_blocking(write).await.unwrap_or_else(|_| Problem::internal().into_response())
}

/// The catalog, or of its tenants and models the one that was asked for.
fn compiled_json(snapshot: &Snapshot, parameters: &Parameters) -> Result<Value, Problem> {
    let view = View(snapshot);
    let groups = snapshot.groups.iter().filter(|group| !group.inline);
    let models = snapshot.models.iter().map(|model| (model.name.as_str(), model));
    let tenants = snapshot.tenants.iter().map(|tenant| (tenant.name.as_str(), tenant));
    let (models, tenants) = (one("model", models, parameters)?, one("tenant", tenants, parameters)?);
    Ok(json!({
        "revision": snapshot.revision.to_string(),
        "label": snapshot.label.as_deref(),
        "clusters": keyed(snapshot.clusters.iter().map(|cluster| (cluster.name.as_str(), view.cluster(cluster)))),
        "priority_groups": keyed(groups.map(|group| (group.name.as_str(), json!({"clusters": view.weights(group)})))),
        "models": keyed(models.into_iter().map(|(name, model)| (name, view.model(model)))),
        "tenants": keyed(tenants.into_iter().map(|(name, tenant)| (name, view.tenant(tenant)))),
        "defaults": view.defaults(),
    }))
}

/// All, or the one that the parameter `what` names.
fn one<'s, T>(
    what: &str,
    all: impl Iterator<Item = (&'s str, &'s T)>,
    parameters: &Parameters,
) -> Result<Vec<(&'s str, &'s T)>, Problem> {
    let mut all: Vec<_> = all.collect();
    if let Some(wanted) = parameters.get(what) {
        let near = nearest(wanted, all.iter().map(|(name, _)| *name)).map(|near| format!("did you mean `{near}`?"));
        all.retain(|(name, _)| *name == wanted);
        if all.is_empty() {
            let hint = near.unwrap_or_else(|| format!("GET /catalog lists each {what}"));
            return Err(Problem::new(StatusCode::NOT_FOUND, format!("the catalog has no {what} `{wanted}`"), hint));
        }
    }
    Ok(all)
}

struct View<'a>(&'a Snapshot);

impl View<'_> {
    fn cluster(&self, cluster: &Cluster) -> Value {
        let models = match &cluster.served {
            Served::Every => Value::Null,
            Served::Only(models) => keyed(models.iter().map(|(model, called)| {
                let name = self.0.model(*model).name.as_str();
                (name, json!(called.as_deref().unwrap_or(name)))
            })),
        };
        json!({
            "listed": cluster.listed,
            "provider": cluster.provider.map(|provider| self.provider(provider)),
            "tags": self.tags(&cluster.tags),
            "models": models,
            "path_prefix": cluster.path_prefix.as_ref().map(|rule| json!({"from": rule.from(), "to": rule.to()})),
            "drained": cluster.drain.is_some(),
            "drained_by": cluster.drain.map(drained_by),
        })
    }

    fn weights(&self, group: &Group) -> Vec<Value> {
        let weigh = |(cluster, weight): &(ClusterId, u32)| json!({"cluster_name": self.0.cluster(*cluster).name.as_str(), "weight": weight});
        group.clusters.iter().map(weigh).collect()
    }

    fn chain(&self, chain: &Chain) -> Value {
        let entry = |entry: &Entry| match entry {
            Entry::ModelChain => json!("model_chain"),
            Entry::Group(id) => {
                let group = self.0.group(*id);
                if group.inline {
                    json!({"name": group.name.as_str(), "clusters": self.weights(group)})
                } else {
                    json!(group.name.as_str())
                }
            }
        };
        chain.entries.iter().map(entry).collect()
    }

    fn model(&self, model: &Model) -> Value {
        json!({
            "aliases": model.aliases.iter().map(Pattern::as_str).collect::<Vec<_>>(),
            "chain": self.chain(&model.chain),
            "endpoint_metadata": model.endpoint_metadata,
            "fail": fail(model.fail_closed),
        })
    }

    fn tenant(&self, tenant: &Tenant) -> Value {
        let patterns = |patterns: &[(Pattern, _)]| patterns.iter().map(|(pattern, _)| json!(pattern.as_str())).collect::<Value>();
        let chains = tenant.chains.exact.iter().map(|(key, chain)| (key.as_str(), chain));
        let chains = chains.chain(tenant.chains.patterns.iter().map(|(key, chain)| (key.as_str(), chain)));
        let chains = chains.chain(tenant.chains.any.iter().map(|chain| ("*", chain)));
        json!({
            "tier": tenant.tier.as_ref().map(ToString::to_string),
            "allowed_models": patterns(&tenant.allowed_models),
            "denied_models": patterns(&tenant.denied_models),
            "chains": keyed(chains.map(|(key, chain)| (key, self.chain(chain)))),
            "require_tags": self.tags(&tenant.require_tags),
            "forbid_tags": self.tags(&tenant.forbid_tags),
            "forbid_providers": tenant.forbid_providers.iter().map(|id| self.provider(*id)).collect::<Vec<_>>(),
            "fail": fail(tenant.fail_closed),
            "mode": match tenant.mode { Mode::Enforce => "enforce", Mode::Shadow => "shadow" },
        })
    }

    fn defaults(&self) -> Value {
        let defaults = &self.0.defaults;
        let stranger = |policy: StrangerPolicy| match policy {
            StrangerPolicy::Anonymous => "anonymous",
            StrangerPolicy::Reject => "reject",
            StrangerPolicy::As(tenant) => self.0.tenant(tenant).name.as_str(),
        };
        let policy = |policy: &UnknownModelPolicy| match policy {
            UnknownModelPolicy::PassThrough => json!("pass_through"),
            UnknownModelPolicy::Reject => json!("reject"),
            UnknownModelPolicy::Chain(chain) => self.chain(chain),
        };
        json!({
            "missing_tenant": stranger(defaults.missing_tenant),
            "unknown_tenant": stranger(defaults.unknown_tenant),
            "unknown_model": policy(&defaults.unknown_model),
            "missing_model": defaults.missing_model.as_ref().map(policy),
            "on_drained": if defaults.rejects_drained { "reject" } else { "pass_through" },
            "fail": fail(defaults.fail_closed),
            "max_attempts": defaults.max_attempts,
        })
    }

    fn tags(&self, tags: &TagSet) -> Vec<&str> {
        tags.iter().filter_map(|tag| self.0.tags.get(tag.index())).map(String::as_str).collect()
    }

    fn provider(&self, id: ProviderId) -> &str {
        self.0.providers[id.index()].as_str()
    }
}

/// In the order of the names, whatever order the compiler kept.
fn keyed<'a>(entries: impl Iterator<Item = (&'a str, Value)>) -> Value {
    let mut entries: Vec<(&str, Value)> = entries.collect();
    entries.sort_by_key(|(name, _)| *name);
    Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>())
}

const fn drained_by(drain: Drain) -> &'static str {
    match drain {
        Drain::Cluster => "cluster",
        Drain::Provider => "provider",
    }
}

const fn fail(closed: bool) -> &'static str {
    if closed { "closed" } else { "open" }
}
