//! What an accepted catalog may do that its author does not think: warnings only. It reads the compiled snapshot beside the rules as
//! they were written, and changes neither.

mod chains;
mod groups;
mod names;
mod overlap;
mod reach;

use std::fmt;
use std::sync::Arc;

use super::compile::Rules;
use super::snapshot::Snapshot;
use crate::diagnostic::{Diagnostic, Place};
use crate::document::Node;
use crate::names::{TenantName, TierName};

/// The rules of one tier or tenant, for warnings about them.
pub(super) struct Written {
    whose: Whose,
    own: Arc<Rules>,
    /// With the tier folded in.
    folded: Arc<Rules>,
    place: Place,
}

/// Displayed as "tier `eu`" or "tenant `acme`".
#[derive(Clone, PartialEq, Eq)]
enum Whose {
    Tier(TierName),
    Tenant(TenantName),
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tier(name) => write!(f, "tier `{name}`"),
            Self::Tenant(name) => write!(f, "tenant `{name}`"),
        }
    }
}

impl Written {
    pub(super) fn tier(name: &TierName, rules: Arc<Rules>, place: &Place) -> Self {
        Self { whose: Whose::Tier(name.clone()), own: rules.clone(), folded: rules, place: place.clone() }
    }

    pub(super) fn tenant(name: &TenantName, own: Arc<Rules>, folded: Arc<Rules>, place: &Place) -> Self {
        Self { whose: Whose::Tenant(name.clone()), own, folded, place: place.clone() }
    }
}

/// What the checks look at, and what they found.
struct Context<'c> {
    snapshot: &'c Snapshot,
    written: &'c [Written],
    found: Vec<Diagnostic>,
}

impl Context<'_> {
    fn warn(&mut self, code: &'static str, place: &Place, message: impl Into<String>, hint: impl Into<String>) {
        self.found.push(Diagnostic::warning(code, place, message).hint(hint));
    }
}

pub(super) fn warnings(snapshot: &Snapshot, document: &Node, written: &[Written]) -> Vec<Diagnostic> {
    let mut context = Context { snapshot, written, found: Vec::new() };
    groups::check(&mut context);
    chains::check(&mut context);
    names::check(&mut context);
    overlap::check(&mut context, document);
    decides_nothing(&mut context, document);
    context.found
}

fn decides_nothing(context: &mut Context<'_>, document: &Node) {
    let empty = |section: &str| document.get(section).is_none_or(|section| section.entries().is_empty());
    if ["models", "tenants", "defaults"].into_iter().all(empty) {
        let message = "the catalog holds no model and no tenant: every request passes through to Envoy's static chain";
        context.warn("decides-nothing", &document.place, message, "add `models`");
    }
}
