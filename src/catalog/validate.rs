//! What an accepted catalog may do that its author does not think: warnings only. It reads the compiled snapshot beside the rules as
//! they were written, and changes neither.

mod chains;
mod groups;
mod names;
mod overlap;
mod reach;

use super::compile::Rules;
use super::snapshot::Snapshot;
use crate::diagnostic::{Diagnostic, Place};
use crate::document::Node;
use crate::names::{TenantName, TierName};

/// The rules of one tier or tenant, for warnings about them.
pub(super) struct Written {
    /// "tier `eu`", "tenant `acme`".
    whose: String,
    kind: Kind,
    own: Rules,
    /// With the tier folded in.
    folded: Rules,
    place: Place,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Tier(TierName),
    Tenant,
}

impl Written {
    pub(super) fn tier(name: &TierName, rules: &Rules, place: &Place) -> Self {
        let (own, folded) = (rules.clone(), rules.clone());
        Self { whose: format!("tier `{name}`"), kind: Kind::Tier(name.clone()), own, folded, place: place.clone() }
    }

    pub(super) fn tenant(name: &TenantName, own: Rules, folded: &Rules, place: &Place) -> Self {
        Self { whose: format!("tenant `{name}`"), kind: Kind::Tenant, own, folded: folded.clone(), place: place.clone() }
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
