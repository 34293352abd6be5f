//! Tenants that are gone, new, or less restricted, and keys that are gone or belong to another tenant.

use std::collections::HashSet;
use std::sync::Arc;

use super::Loosening;
use crate::catalog::pattern::Pattern;
use crate::catalog::snapshot::{Chain, Mode, Snapshot, Tenant, TenantChains};

pub(super) fn compare(old: &Snapshot, new: &Snapshot, found: &mut Loosening) {
    // Tenants share their rules: two that were compared and loosen nothing need not be compared again.
    let mut clean = HashSet::new();
    for before in &old.tenants {
        match new.tenant_ids.get(&before.name) {
            None => found.say(format!("the tenant `{}` is gone", before.name)),
            Some(id) => {
                let after = new.tenant(*id);
                let rules = (Arc::as_ptr(&before.rules), Arc::as_ptr(&after.rules));
                if !clean.contains(&rules) {
                    let said = found.marks.len();
                    tenant((old, before), (new, after), found);
                    if found.marks.len() == said {
                        clean.insert(rules);
                    }
                }
            }
        }
    }
    for after in new.tenants.iter().filter(|tenant| !old.tenant_ids.contains_key(&tenant.name)) {
        found.say(format!("the tenant `{}` is new", after.name));
    }
    for (key, owner) in &old.api_keys {
        let before = &old.tenant(*owner).name;
        match new.api_keys.get(key).map(|owner| &new.tenant(*owner).name) {
            None => found.say(format!("a key of the tenant `{before}` is gone")),
            Some(after) => found.say_if(before != after, || format!("a key of the tenant `{before}` is one of `{after}` now")),
        }
    }
}

fn tenant(old: (&Snapshot, &Tenant), new: (&Snapshot, &Tenant), found: &mut Loosening) {
    let name = &old.1.name;
    if let Some(pattern) = new.1.allowed_models.iter().find(|(pattern, _)| !is_covered(pattern, &old.1.allowed_models)) {
        found.say(format!("the tenant `{name}` may use the models `{}` now", pattern.0.as_str()));
    }
    if let Some(pattern) = old.1.denied_models.iter().find(|(pattern, _)| !is_covered(pattern, &new.1.denied_models)) {
        found.say(format!("the models `{}` are not denied to the tenant `{name}` any more", pattern.0.as_str()));
    }
    for tag in tags(old.0, &old.1.require_tags).filter(|tag| tags(new.0, &new.1.require_tags).all(|kept| kept != *tag)) {
        found.say(format!("the tenant `{name}` does not require the tag `{tag}` any more"));
    }
    for tag in tags(old.0, &old.1.forbid_tags).filter(|tag| tags(new.0, &new.1.forbid_tags).all(|kept| kept != *tag)) {
        found.say(format!("the tag `{tag}` is not forbidden to the tenant `{name}` any more"));
    }
    for provider in &old.1.forbid_providers {
        let provider = &old.0.providers[provider.index()];
        let is_kept = new.1.forbid_providers.iter().any(|kept| new.0.providers[kept.index()] == *provider);
        found.say_if(!is_kept, || format!("the provider `{provider}` is not forbidden to the tenant `{name}` any more"));
    }
    found.say_if(old.1.fail_closed && !new.1.fail_closed, || format!("the tenant `{name}` does not fail closed any more"));
    let is_shadow = old.1.mode == Mode::Enforce && new.1.mode == Mode::Shadow;
    found.say_if(is_shadow, || format!("the tenant `{name}` is in shadow mode now"));
    for (key, before) in keyed(&old.1.chains) {
        match keyed(&new.1.chains).find(|(other, _)| *other == key) {
            None => found.say(format!("the tenant `{name}` has lost its chain for `{key}`")),
            Some((_, after)) => found.say_if(after.entries.len() < before.entries.len(), || {
                format!("the chain of the tenant `{name}` for `{key}` is shorter")
            }),
        }
    }
}

fn tags<'s>(snapshot: &'s Snapshot, tags: &'s crate::catalog::snapshot::TagSet) -> impl Iterator<Item = &'s str> {
    tags.iter().map(|tag| snapshot.tags[tag.index()].as_str())
}

fn keyed(chains: &TenantChains) -> impl Iterator<Item = (&str, &Chain)> {
    let exact = chains.exact.iter().map(|(key, chain)| (key.as_str(), chain));
    let patterns = chains.patterns.iter().map(|(key, chain)| (key.as_str(), chain));
    exact.chain(patterns).chain(chains.any.iter().map(|chain| ("*", chain)))
}

/// True if every name that the pattern matches is matched by one of the others, as far as one of them alone shows it.
fn is_covered<P>(pattern: &Pattern, others: &[(Pattern, P)]) -> bool {
    others.iter().any(|(other, _)| other.matches(pattern.as_str()))
}
