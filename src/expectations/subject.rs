//! What invariants are proved for: every model, and requests that name none. It judges nothing.

use std::fmt;

use crate::catalog::pattern::Pattern;
use crate::catalog::snapshot::{Snapshot, Tenant};
use crate::extract::{Access, Facts, Found, TenantClaim};
use crate::names::ModelName;

/// What an invariant is proved for.
#[derive(Clone, Copy)]
pub(super) enum Subject<'a> {
    Model(&'a ModelName),
    /// A request that names no model by nature.
    NoModel,
}

/// Every model, and requests without one where the catalog says what becomes of them.
pub(super) fn subjects(snapshot: &Snapshot) -> impl Iterator<Item = Subject<'_>> {
    let without = snapshot.defaults.missing_model.as_ref().map(|_| Subject::NoModel);
    snapshot.models.iter().map(|model| Subject::Model(&model.name)).chain(without)
}

impl Subject<'_> {
    pub(super) fn is_meant_by(self, models: &Pattern) -> bool {
        match self {
            Self::Model(name) => models.matches(name.as_str()),
            Self::NoModel => models.is_any(),
        }
    }

    pub(super) fn facts(self, tenant: Option<&Tenant>) -> Facts {
        let tenant = tenant.map_or(Found::Nothing, |tenant| Found::Value(TenantClaim::Name(tenant.name.to_string())));
        match self {
            Self::Model(name) => Facts { model: Found::Value(name.to_string()), tenant, ..Facts::default() },
            Self::NoModel => Facts { tenant, without_model: Some(Access::Read), ..Facts::default() },
        }
    }
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(name) => write!(f, "model {name}"),
            Self::NoModel => f.write_str("without a model"),
        }
    }
}
