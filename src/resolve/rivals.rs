//! Several places of one request that each name a model. Which of them a provider reads is not known here: where a tenant may not use
//! every model, all of them have to be the same model, or models that the tenant may use.

use super::matching::{Named, find_model, find_tenant, is_allowed};
use crate::catalog::snapshot::{Snapshot, Tenant};
use crate::extract::{Facts, Found, TenantClaim, Trouble};

/// True if every place that names a model has to be read for this tenant.
#[must_use]
pub fn matter(snapshot: &Snapshot, tenant: &Found<TenantClaim>) -> bool {
    let tenant = find_tenant(snapshot, tenant, &mut ());
    tenant.is_ok_and(|id| id.is_some_and(|id| snapshot.tenant(id).limits_models()))
}

/// The same as [`disagreement`], for who does not know the tenant yet.
#[must_use]
pub fn disagreement_of(snapshot: &Snapshot, facts: &Facts) -> Option<Trouble> {
    if facts.rivals.is_empty() {
        return None;
    }
    let tenant = find_tenant(snapshot, &facts.tenant, &mut ()).ok().flatten();
    disagreement(snapshot, tenant.map(|id| snapshot.tenant(id)), facts)
}

/// Trouble if the request names different models, and one of them is not for this tenant.
#[must_use]
pub fn disagreement(snapshot: &Snapshot, tenant: Option<&Tenant>, facts: &Facts) -> Option<Trouble> {
    let tenant = tenant.filter(|tenant| tenant.limits_models() && !facts.rivals.is_empty())?;
    let name = |found: &'_ Found<String>| if let Found::Value(name) = found { Some(name.clone()) } else { None };
    let model = name(&facts.model);
    let read = find_model(snapshot, Some(tenant), model.as_deref(), &mut ());
    let allows = |named: Named<'_>| is_allowed(tenant, named.name(snapshot), &mut ());
    let agrees = |rival: &Found<String>| {
        let rival = name(rival);
        let rival = named(snapshot, tenant, rival.as_deref());
        let is_same = rival.name(snapshot).is_some_and(|name| read.name(snapshot) == Some(name));
        is_same || (allows(read) && allows(rival))
    };
    (!facts.rivals.iter().all(agrees)).then_some(Trouble::Malformed("the request names different models in two places"))
}

/// What a name stands for; one that nobody knows is tried without the resource names that Google's APIs write before it.
fn named<'a>(snapshot: &'a Snapshot, tenant: &'a Tenant, name: Option<&'a str>) -> Named<'a> {
    let found = find_model(snapshot, Some(tenant), name, &mut ());
    match (found, name) {
        (Named::Unknown(_), Some(name)) => {
            let bare = ["models/", "tunedModels/", "endpoints/"].iter().find_map(|word| {
                let (before, bare) = name.rsplit_once(word)?;
                (before.is_empty() || before.ends_with('/')).then_some(bare)
            });
            bare.map_or(found, |bare| find_model(snapshot, Some(tenant), Some(bare), &mut ()))
        }
        _ => found,
    }
}
