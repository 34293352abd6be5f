//! What a session's placement makes of a chain: the group or cluster that holds the session goes first, and everything else
//! follows, so that a dead owner costs one attempt. It never adds a cluster that the chain does not hold.

use std::fmt::Arguments;

use super::chain::{self, Asked, Step};
use super::matching::{choose_chain, find_model, find_tenant};
use super::trace::{Considered, Trace};
use crate::catalog::snapshot::{Chain, Snapshot, UnknownModelPolicy};
use crate::extract::{Facts, Found};
use crate::session::template::{Part, Template};
use crate::session::{Answer, Placement};

/// Whether a key is made of the model, and of the tenant: a name may stand for a model that exists for the tenant alone.
#[must_use]
pub fn made_of(template: &Template) -> (bool, bool) {
    let model = template.names(Part::Model);
    (model, model || template.names(Part::Tenant))
}

/// The session's key for the directory, made of the catalog's names. `None`: the request has no session, or one that is not
/// looked up.
#[must_use]
pub fn key(snapshot: &Snapshot, template: &Template, facts: &Facts) -> Option<String> {
    let session = facts.session.as_deref()?;
    let (with_model, with_tenant) = made_of(template);
    let tenant = match with_tenant {
        true => find_tenant(snapshot, &facts.tenant, &mut ()).ok()?.map(|id| snapshot.tenant(id)),
        false => None,
    };
    let model = match &facts.model {
        Found::Value(name) if with_model => find_model(snapshot, tenant, Some(name), &mut ()).known(snapshot),
        Found::Value(_) | Found::Nothing | Found::Unusable => None,
    };
    template.fill(tenant.map(|tenant| tenant.name.as_str()), model, session)
}

/// What a placement may call this cluster for the tenant and the model: its own name, unless a group is meant by it, and the
/// groups that hold it. `None`: their chain does not hold the cluster now, drains and restrictions considered.
#[must_use]
pub fn names_of(snapshot: &Snapshot, tenant: Option<&str>, model: Option<&str>, cluster: &str) -> Option<Vec<String>> {
    let tenant = match tenant {
        Some(name) => Some(snapshot.tenant(*snapshot.tenant_ids.get(name)?)),
        None => None,
    };
    let named = find_model(snapshot, tenant, model, &mut ());
    let steps_of = |chain: &Chain, asked| chain::narrow(snapshot, chain, tenant, asked, &mut Vec::new()).steps;
    let of_policy = |policy: Option<&UnknownModelPolicy>, asked| match policy {
        Some(UnknownModelPolicy::Chain(chain)) => steps_of(chain, asked),
        Some(UnknownModelPolicy::PassThrough | UnknownModelPolicy::Reject) | None => Vec::new(),
    };
    let defaults = &snapshot.defaults;
    let steps = match choose_chain(snapshot, tenant, named, &mut ()) {
        Some((_, chain)) => steps_of(chain, named.asked()),
        // Nothing is known of the model: the request named an unknown one, or none.
        None => {
            [of_policy(Some(&defaults.unknown_model), Asked::Unknown), of_policy(defaults.missing_model.as_ref(), Asked::Nothing)]
                .concat()
        }
    };
    let holds = |step: &&Step| step.clusters.iter().any(|(id, _)| snapshot.cluster(*id).name.as_str() == cluster);
    let name = |step: &Step| snapshot.group(step.group).name.to_string();
    let mut names: Vec<String> = steps.iter().filter(holds).map(name).collect();
    if names.is_empty() {
        return None;
    }
    if !steps.iter().any(|step| name(step) == cluster) {
        names.push(cluster.to_owned());
    }
    Some(names)
}

/// Puts the placement's backend first. False if it names one that the chain does not hold: then nothing of the placement counts,
/// since its endpoints are of that backend.
pub fn place(snapshot: &Snapshot, steps: &mut Vec<Step>, placement: &Placement, trace: &mut impl Trace) -> bool {
    let Some(backend) = placement.backend.as_deref() else {
        trace.consider(|| {
            said(placement, format_args!("names no group and no cluster: the chain as it is, with its endpoint or metadata"))
        });
        return true;
    };
    let is_named = |step: &Step| !placement.learned && snapshot.group(step.group).name.as_str() == backend;
    if let Some(at) = steps.iter().position(is_named) {
        move_to_front(steps, at);
        trace.consider(|| said(placement, format_args!("lives in group {backend}: first")));
        return true;
    }
    let holds = |step: &Step| step.clusters.iter().position(|(id, _)| snapshot.cluster(*id).name.as_str() == backend);
    let Some((at, index)) = steps.iter().enumerate().find_map(|(at, step)| Some((at, holds(step)?))) else {
        trace.consider(|| said(placement, format_args!("lives at {backend}, which the chain does not hold: ignored")));
        return false;
    };
    let id = steps[at].group;
    let group = &snapshot.group(id).name;
    if steps[at].clusters.len() == 1 {
        move_to_front(steps, at);
        trace.consider(|| said(placement, format_args!("lives at {backend}, all that group {group} has: the group first")));
    } else {
        let alone = Step { group: id, clusters: vec![steps[at].clusters[index]] };
        steps.insert(0, alone);
        trace.consider(|| said(placement, format_args!("lives at {backend} of group {group}: first, the chain follows")));
    }
    true
}

fn move_to_front(steps: &mut [Step], at: usize) {
    steps[..=at].rotate_right(1);
}

/// What the directory said, where it has no say in the chain.
pub(super) fn trace_answer(answer: &Answer, trace: &mut impl Trace) {
    match answer {
        Answer::NotAsked | Answer::Placed(_) => {}
        Answer::Unknown => trace.consider(|| Considered::new("session", None, "nobody knows where it lives")),
        Answer::Unavailable(fault) => trace.consider(|| {
            let result = format!("no answer from the directory ({})", fault.as_str());
            Considered::new("session", None, result)
        }),
    }
}

fn said(placement: &Placement, what: Arguments<'_>) -> Considered {
    let rule = if placement.learned { "session.learn" } else { "session" };
    Considered::new(rule, None, what.to_string())
}

#[cfg(test)]
mod tests;
