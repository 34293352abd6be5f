//! Who is left without a cluster: models, and tiers and tenants whose rules leave them fewer clusters than others, now and with each
//! provider drained. A look ahead for `cascade check`, made before the incident; it drains nothing and judges by the same core as
//! requests.

use std::collections::HashMap;

use super::drained;
use crate::catalog::snapshot::{Defaults, ModelId, Snapshot, StrangerPolicy, Tenant};
use crate::diagnostic::Diagnostic;
use crate::extract::{Access, Facts, Found, TenantClaim};
use crate::health::Seen;
use crate::names::{ModelName, ProviderName, TenantName, TierName};
use crate::outcome::Reason;
use crate::resolve::{Policy, resolve};
use crate::session::State;

/// How many requests are judged for one report; a judgement takes about a microsecond.
const JUDGEMENTS: usize = 2_000_000;

/// What draining one provider does beyond what is drained already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainEffect {
    pub provider: ProviderName,
    /// Models without a cluster for whoever has no rules of its own, in the order of their names.
    pub models: Vec<ModelName>,
    /// Nor is there one for requests that name no model by nature, though the catalog has a chain for them.
    pub missing_model: bool,
    /// What tiers and restricted tenants lose beside that.
    pub losses: Vec<Loss>,
}

/// Tenants that are judged alike, and the models for which they have no cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    pub tier: Option<TierName>,
    /// One of them.
    pub tenant: TenantName,
    pub count: usize,
    pub models: Vec<ModelName>,
}

/// The whole report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Models without a cluster even now.
    pub lost_already: Vec<ModelName>,
    /// One for each provider, in the order of their names.
    pub effects: Vec<DrainEffect>,
    /// Tenants with rules that were not looked at, because there are too many kinds of them.
    pub not_looked_at: usize,
}

/// Looks ahead at the drain of each provider.
#[must_use]
pub fn report(snapshot: &Snapshot, policy: Policy) -> Report {
    let kinds = restricted(snapshot);
    let most = (JUDGEMENTS / (snapshot.models.len().max(1) * (snapshot.providers.len() + 1))).max(1);
    let looked_at = &kinds[..kinds.len().min(most)];
    let open = open_to_all(snapshot.clone());
    let now = Now {
        all: lost(&open, None, policy),
        own: looked_at.iter().map(|kind| lost(snapshot, Some(kind.tenant), policy)).collect(),
    };
    let effect = |(at, provider): (usize, &ProviderName)| {
        let variant = open_to_all(drained(snapshot, at).snapshot);
        let all: Vec<ModelId> = lost(&variant, None, policy);
        let losses = looked_at.iter().zip(&now.own).filter_map(|(kind, before)| {
            let own = lost(&variant, Some(kind.tenant), policy);
            let models: Vec<ModelId> = own.into_iter().filter(|id| !before.contains(id) && !all.contains(id)).collect();
            (!models.is_empty()).then(|| kind.loss(names(snapshot, &models)))
        });
        let losses = losses.collect();
        let models: Vec<ModelId> = all.into_iter().filter(|id| !now.all.contains(id)).collect();
        let missing_model = loses_missing_model(&variant, policy) && !loses_missing_model(&open, policy);
        DrainEffect { provider: provider.clone(), models: names(snapshot, &models), missing_model, losses }
    };
    let effects = snapshot.providers.iter().enumerate().map(effect).collect();
    let not_looked_at = kinds[looked_at.len()..].iter().map(|kind| kind.count).sum();
    Report { lost_already: names(snapshot, &now.all), effects, not_looked_at }
}

/// A warning for each kind of tenant whose rules leave no cluster for any model: every request of theirs is refused.
#[must_use]
pub fn without_any_cluster(snapshot: &Snapshot, policy: Policy) -> Vec<Diagnostic> {
    let most = (JUDGEMENTS / snapshot.models.len().max(1)).max(1);
    let kinds = restricted(snapshot).into_iter().take(most);
    let has_nothing = |kind: &Kind<'_>| {
        let is_lost = |reason| matches!(reason, Reason::NoClusterAllowed | Reason::NoClusterLeft | Reason::ModelNotAllowed);
        let mut reasons = models(snapshot).map(|id| reason(snapshot, Some(kind.tenant), id, policy));
        !snapshot.models.is_empty() && reasons.all(is_lost)
    };
    let warning = |kind: Kind<'_>| {
        let others = if kind.count > 1 { format!(" (and {} with the same rules)", kind.count - 1) } else { String::new() };
        let message = format!(
            "the rules of tenant `{}`{others} leave no cluster for any model: every request is refused",
            kind.tenant.name
        );
        let hint = "loosen `require_tags`, `forbid_tags`, `forbid_providers` or `allowed_models`, or remove the tenant";
        Diagnostic::warning("tenant-without-cluster", &kind.tenant.place, message).hint(hint)
    };
    kinds.filter(has_nothing).map(warning).collect()
}

/// The same catalog where a request without a tenant is judged by the models' own chains.
fn open_to_all(snapshot: Snapshot) -> Snapshot {
    let defaults = Defaults { missing_tenant: StrangerPolicy::Anonymous, ..snapshot.defaults };
    Snapshot { defaults, ..snapshot }
}

struct Now {
    all: Vec<ModelId>,
    own: Vec<Vec<ModelId>>,
}

/// Tenants with the same rules.
struct Kind<'s> {
    tenant: &'s Tenant,
    count: usize,
}

impl Kind<'_> {
    fn loss(&self, models: Vec<ModelName>) -> Loss {
        Loss { tier: self.tenant.tier.clone(), tenant: self.tenant.name.clone(), count: self.count, models }
    }
}

/// The kinds of tenants whose rules can take a cluster or a model away, in the order of their names.
fn restricted(snapshot: &Snapshot) -> Vec<Kind<'_>> {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for tenant in &snapshot.tenants {
        if !tenant.restricts_clusters() && tenant.allowed_models.iter().any(|(pattern, _)| pattern.as_str() == "*") {
            continue;
        }
        let at = *known.entry(tenant.rules_text()).or_insert_with(|| {
            kinds.push(Kind { tenant, count: 0 });
            kinds.len() - 1
        });
        kinds[at].count += 1;
    }
    kinds
}

/// The models for which a tenant has no cluster; without a tenant: those that nobody has, by their own chains.
fn lost(snapshot: &Snapshot, tenant: Option<&Tenant>, policy: Policy) -> Vec<ModelId> {
    let is_lost =
        |id: &ModelId| matches!(reason(snapshot, tenant, *id, policy), Reason::NoClusterLeft | Reason::NoClusterAllowed);
    models(snapshot).filter(is_lost).collect()
}

/// True if the chain for requests without a model has no cluster for who has no rules of its own.
fn loses_missing_model(snapshot: &Snapshot, policy: Policy) -> bool {
    let facts = Facts { without_model: Some(Access::Read), ..Facts::default() };
    let reason = resolve(snapshot, policy, &facts, &State::default(), Seen::well(), &mut ()).reason;
    matches!(reason, Reason::NoClusterLeft | Reason::NoClusterAllowed)
}

fn models(snapshot: &Snapshot) -> impl Iterator<Item = ModelId> {
    (0..).map(ModelId).zip(&snapshot.models).map(|(id, _)| id)
}

fn reason(snapshot: &Snapshot, tenant: Option<&Tenant>, model: ModelId, policy: Policy) -> Reason {
    let tenant = tenant.map_or(Found::Nothing, |tenant| Found::Value(TenantClaim::Name(tenant.name.to_string())));
    let facts = Facts { model: Found::Value(snapshot.model(model).name.to_string()), tenant, ..Facts::default() };
    resolve(snapshot, policy, &facts, &State::default(), Seen::well(), &mut ()).reason
}

fn names(snapshot: &Snapshot, models: &[ModelId]) -> Vec<ModelName> {
    models.iter().map(|id| snapshot.model(*id).name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::compile::compile;
    use crate::catalog::load::SourceFile;

    fn snapshot(text: &str) -> Snapshot {
        compile(&[SourceFile::new("a.yaml", text)]).unwrap().snapshot
    }

    fn joined(models: &[ModelName]) -> String {
        models.iter().map(ModelName::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_drain_is_weighed_before_it_happens() {
        let text = r"
providers: {openai: {}, azure: {}, vllm: {}, gone: {drained: true}}
clusters:
  a: {provider: openai}
  b: {provider: azure, models: [both]}
  c: {provider: vllm}
  d: {provider: gone}
priority_groups:
  a: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: c, weight: 0}]}
  b: {clusters: [{cluster_name: b, weight: 1}]}
  c: {clusters: [{cluster_name: c, weight: 1}]}
  d: {clusters: [{cluster_name: d, weight: 1}]}
  envoy: {}
models:
  both: {chain: [a, b]}
  one: {chain: [a, b]}
  house: {chain: [c]}
  known: {chain: [a, envoy]}
  lost: {chain: [d]}
defaults: {missing_model: [b]}
";
        let report = report(&snapshot(text), Policy::default());
        let effects: Vec<String> =
            report.effects.iter().map(|effect| format!("{}: {}", effect.provider, joined(&effect.models))).collect();
        assert_eq!(effects, ["azure: ", "gone: ", "openai: one", "vllm: house"]);
        assert_eq!(joined(&report.lost_already), "lost");
        let missing: Vec<&str> =
            report.effects.iter().filter(|effect| effect.missing_model).map(|effect| effect.provider.as_str()).collect();
        assert_eq!(missing, ["azure"]);
    }

    #[test]
    fn tiers_and_restricted_tenants_are_weighed_by_their_own_rules() {
        let text = r"
providers: {openai: {}, azure: {}}
clusters: {us: {provider: openai, tags: [us]}, eu: {provider: azure, tags: [eu]}}
priority_groups:
  us: {clusters: [{cluster_name: us, weight: 1}]}
  eu: {clusters: [{cluster_name: eu, weight: 1}]}
models: {m: {chain: [us, eu]}, n: {chain: [us]}}
tiers: {eu: {require_tags: [eu]}}
tenants:
  one: {tier: eu}
  two: {tier: eu}
  own: {forbid_providers: [azure]}
  own_chain: {tier: eu, chains: {n: [eu]}}
  free: {}
";
        let report = report(&snapshot(text), Policy::default());
        let losses = |effect: &DrainEffect| {
            let each = |loss: &Loss| format!("{}+{}: {}", loss.tenant, loss.count - 1, joined(&loss.models));
            effect.losses.iter().map(each).collect::<Vec<_>>()
        };
        let effects: Vec<(&str, String, Vec<String>)> =
            report.effects.iter().map(|effect| (effect.provider.as_str(), joined(&effect.models), losses(effect))).collect();
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            effects,
            [
                ("azure", String::new(), texts(&["one+1: m", "own_chain+0: m n"])),
                ("openai", "n".to_owned(), texts(&["own+0: m"]))
            ]
        );
        assert_eq!((report.lost_already.len(), report.not_looked_at), (0, 0));
    }

    #[test]
    fn a_tenant_whose_rules_leave_nothing_is_a_warning() {
        let text = r"
clusters: {us: {provider: openai, tags: [us]}}
priority_groups: {us: {clusters: [{cluster_name: us, weight: 1}]}}
models: {m: {chain: [us]}, n: {chain: [us]}}
tiers: {eu: {forbid_providers: [openai]}}
tenants:
  none: {tier: eu}
  neither: {tier: eu}
  no_models: {allowed_models: [other]}
  some: {allowed_models: [m]}
  free: {}
";
        let found = without_any_cluster(&snapshot(text), Policy::default());
        let texts: Vec<_> = found.iter().map(|fault| (fault.code, fault.place.line, fault.message.as_str())).collect();
        let refused = "leave no cluster for any model: every request is refused";
        assert_eq!(
            texts,
            [
                ("tenant-without-cluster", 8, &*format!("the rules of tenant `neither` (and 1 with the same rules) {refused}")),
                ("tenant-without-cluster", 9, &*format!("the rules of tenant `no_models` {refused}")),
            ]
        );
    }
}
