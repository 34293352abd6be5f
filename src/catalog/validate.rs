//! What an accepted catalog may do that its author does not think: warnings only. It reads the compiled snapshot beside the rules as
//! they were written, and changes neither.

use super::compile::Rules;
use super::snapshot::{Snapshot, TenantId};
use crate::diagnostic::{Diagnostic, Place};
use crate::document::Node;
use crate::names::{TenantName, TierName};

/// The rules of one tier or tenant, for warnings about them.
pub(super) struct Written {
    /// `tier eu`, `tenant acme`.
    pub(super) whose: String,
    /// `None` for a tier.
    pub(super) tenant: Option<TenantId>,
    pub(super) own: Rules,
    /// With the tier folded in.
    pub(super) folded: Rules,
    pub(super) place: Place,
}

impl Written {
    pub(super) fn tier(name: &TierName, rules: &Rules, place: &Place) -> Self {
        Self { whose: format!("tier `{name}`"), tenant: None, own: rules.clone(), folded: rules.clone(), place: place.clone() }
    }

    pub(super) fn tenant(id: TenantId, name: &TenantName, own: Rules, folded: &Rules, place: &Place) -> Self {
        Self { whose: format!("tenant `{name}`"), tenant: Some(id), own, folded: folded.clone(), place: place.clone() }
    }
}

pub(super) fn warnings(_snapshot: &Snapshot, _document: &Node, _written: &[Written]) -> Vec<Diagnostic> {
    Vec::new()
}
