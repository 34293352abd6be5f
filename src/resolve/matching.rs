//! Names to entries of the catalog: which tenant, which model, whether one may use the other, and which chain speaks for both.
//! It does not look at clusters.

use super::chain::Asked;
use super::trace::{Considered, Trace};
use crate::catalog::pattern::Pattern;
use crate::catalog::snapshot::{Chain, ModelId, Snapshot, StrangerPolicy, Tenant, TenantId};
use crate::diagnostic::Place;
use crate::extract::{Found, TenantClaim};
use crate::outcome::Reason;

/// The longest name that is looked up, in bytes: the longest of any provider, an ARN of Bedrock, stays far below it. Patterns are
/// compared with the whole name, so that a longer one would cost the more, the more patterns there are. It is a name nobody knows.
pub const MAX_NAME: usize = 512;

/// Why there is no tenant to judge by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stranger {
    Missing,
    Unknown,
}

/// The tenant of the request; `None` is anonymous. A catalog without tenants knows nobody and asks nobody.
///
/// # Errors
/// The catalog refuses requests without a tenant, or with one that it does not know.
pub fn find_tenant(
    snapshot: &Snapshot,
    claim: &Found<TenantClaim>,
    trace: &mut impl Trace,
) -> Result<Option<TenantId>, Stranger> {
    if snapshot.tenants.is_empty() {
        return Ok(None);
    }
    let known = match claim {
        Found::Value(TenantClaim::Name(name)) => snapshot.tenant_ids.get(name.as_str()),
        Found::Value(TenantClaim::ApiKey(hash)) => snapshot.api_keys.get(hash),
        Found::Nothing | Found::Unusable => None,
    };
    if let Some(id) = known {
        let tenant = snapshot.tenant(*id);
        trace.consider(|| {
            let tier = tenant.tier.as_ref().map(|tier| format!(" of tier {tier}")).unwrap_or_default();
            Considered::new(format!("tenants.{}", tenant.name), Some(&tenant.place), format!("the request's tenant{tier}"))
        });
        return Ok(Some(*id));
    }
    let (rule, policy, stranger) = match claim {
        Found::Nothing => ("defaults.missing_tenant", snapshot.defaults.missing_tenant, Stranger::Missing),
        Found::Value(_) | Found::Unusable => ("defaults.unknown_tenant", snapshot.defaults.unknown_tenant, Stranger::Unknown),
    };
    trace.consider(|| {
        let result = match policy {
            StrangerPolicy::Anonymous => "anonymous: no restrictions, the models' own chains".to_owned(),
            StrangerPolicy::Reject => "reject".to_owned(),
            StrangerPolicy::As(id) => format!("judged as tenant {}", snapshot.tenant(id).name),
        };
        Considered::new(rule, None, result)
    });
    match policy {
        StrangerPolicy::Anonymous => Ok(None),
        StrangerPolicy::Reject => Err(stranger),
        StrangerPolicy::As(id) => Ok(Some(id)),
    }
}

/// What the name in a request stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named<'a> {
    /// A model of the catalog.
    Catalog(ModelId),
    /// A model that exists for this tenant alone: its `chains` name it exactly.
    TenantOnly(&'a str),
    /// Nothing. `None`: a value that is no name.
    Unknown(Option<&'a str>),
}

impl<'a> Named<'a> {
    #[must_use]
    pub const fn id(self) -> Option<ModelId> {
        match self {
            Self::Catalog(id) => Some(id),
            Self::TenantOnly(_) | Self::Unknown(_) => None,
        }
    }

    /// What a chain is narrowed for.
    #[must_use]
    pub fn asked(self) -> Asked {
        self.id().map_or(Asked::Unknown, Asked::Model)
    }

    /// The name by which the catalog knows the model, if it does.
    #[must_use]
    pub fn known(self, snapshot: &'a Snapshot) -> Option<&'a str> {
        match self {
            Self::Catalog(_) | Self::TenantOnly(_) => self.name(snapshot),
            Self::Unknown(_) => None,
        }
    }

    /// The name that patterns are matched against: the catalog's, else the one that was sent.
    #[must_use]
    pub fn name(self, snapshot: &'a Snapshot) -> Option<&'a str> {
        match self {
            Self::Catalog(id) => Some(snapshot.model(id).name.as_str()),
            Self::TenantOnly(name) => Some(name),
            Self::Unknown(name) => name,
        }
    }
}

/// Catalog name, else a key of the tenant's chains, else an exact alias, else the closest alias pattern.
pub fn find_model<'a>(
    snapshot: &'a Snapshot,
    tenant: Option<&'a Tenant>,
    name: Option<&'a str>,
    trace: &mut impl Trace,
) -> Named<'a> {
    let Some(name) = name.filter(|name| name.len() <= MAX_NAME) else {
        trace.consider(|| Considered::new("models", None, "the request's model is no name, or one of more than 512 bytes"));
        return Named::Unknown(None);
    };
    let exact = snapshot.model_ids.get(name).copied();
    let is_catalog_name = exact.is_some_and(|id| snapshot.model(id).name.as_str() == name);
    if !is_catalog_name
        && let Some(tenant) = tenant
        && let Some(chain) = tenant.chains.exact.get(name)
    {
        trace.consider(|| {
            Considered::new(
                format!("tenants.{}.chains", tenant.name),
                Some(&chain.place),
                "names the model: it exists for this tenant",
            )
        });
        return Named::TenantOnly(name);
    }
    let (id, how) = match exact {
        Some(id) if is_catalog_name => (id, None),
        Some(id) => (id, Some(name)),
        None => match snapshot.model_patterns.find(name) {
            Some((pattern, id)) => (*id, Some(pattern.as_str())),
            None => {
                trace.consider(|| Considered::new("models", None, "no name and no alias matches"));
                return Named::Unknown(Some(name));
            }
        },
    };
    trace.consider(|| {
        let model = snapshot.model(id);
        let result = how.map_or_else(|| "the catalog's name".to_owned(), |alias| format!("matched by alias {alias}"));
        Considered::new(format!("models.{}", model.name), Some(&model.place), result)
    });
    Named::Catalog(id)
}

/// Whether the tenant may use a model of this name. A value that is no name is allowed only where everything is.
pub fn is_allowed(tenant: &Tenant, name: Option<&str>, trace: &mut impl Trace) -> bool {
    let matches = |pattern: &Pattern| name.map_or_else(|| pattern.is_any(), |name| pattern.matches(name));
    let rule = |list: &str| format!("tenants.{}.{list}", tenant.name);
    // What is no name could be any: where something is denied, it is.
    let denies = |pattern: &Pattern| name.is_none() || matches(pattern);
    if let Some((pattern, place)) = tenant.denied_models.iter().find(|(pattern, _)| denies(pattern)) {
        trace
            .consider(|| Considered::new(rule("denied_models"), Some(place), format!("`{}` denies the model", pattern.as_str())));
        return false;
    }
    match tenant.allowed_models.iter().find(|(pattern, _)| matches(pattern)) {
        Some((pattern, place)) => {
            trace.consider(|| {
                Considered::new(rule("allowed_models"), Some(place), format!("`{}` allows the model", pattern.as_str()))
            });
            true
        }
        None => {
            let place = tenant.allowed_models.first().map_or(&tenant.place, |(_, place)| place);
            trace.consider(|| Considered::new(rule("allowed_models"), Some(place), "no pattern allows the model"));
            false
        }
    }
}

/// The chain for this tenant and model and the word for where it came from; `None` for a model that is unknown.
pub fn choose_chain<'a>(
    snapshot: &'a Snapshot,
    tenant: Option<&'a Tenant>,
    named: Named<'_>,
    trace: &mut impl Trace,
) -> Option<(Reason, &'a Chain)> {
    let name = match named {
        Named::Catalog(id) => snapshot.model(id).name.as_str(),
        Named::TenantOnly(name) => name,
        Named::Unknown(_) => return None,
    };
    if let Some(found) = tenant.and_then(|tenant| tenant_chain(tenant, name, trace)) {
        return Some(found);
    }
    let Named::Catalog(id) = named else { return None };
    let model = snapshot.model(id);
    trace.consider(|| Considered::new(format!("models.{}.chain", model.name), Some(&model.chain.place), "used"));
    Some((Reason::ModelChain, &model.chain))
}

fn tenant_chain<'a>(tenant: &'a Tenant, name: &str, trace: &mut impl Trace) -> Option<(Reason, &'a Chain)> {
    let mut consider = |key: &str, place: &Place, used: bool| {
        trace.consider(|| {
            let result = if used { "used" } else { "does not match the model" };
            Considered::new(format!("tenants.{}.chains.{key}", tenant.name), Some(place), result)
        });
    };
    if let Some((key, chain)) = tenant.chains.exact.get_key_value(name) {
        consider(key, &chain.place, true);
        return Some((Reason::TenantChain, chain));
    }
    for (pattern, chain) in &tenant.chains.patterns {
        let used = pattern.matches(name);
        consider(pattern.as_str(), &chain.place, used);
        if used {
            return Some((Reason::TenantChain, chain));
        }
    }
    let chain = tenant.chains.any.as_ref()?;
    consider("*", &chain.place, true);
    Some((Reason::TenantDefaultChain, chain))
}
