//! Runs what the catalog says of itself: its `tests` are judged like requests, its `invariants` proved over every tenant and
//! model that they speak of, as written and with each provider drained in turn. A finding is a diagnostic; an error among them
//! keeps the snapshot from being accepted. A drain is a state, not an intent: it must take effect in an incident, so that a test that
//! fails by a drain alone is a warning, and no second drain is supposed on top of a real one.

pub mod drain;
mod subject;

use std::collections::HashMap;

use crate::catalog::compile::{Accepted, compile};
use crate::catalog::expectations::{Expect, Invariant, TenantSelector, Test};
use crate::catalog::load::SourceFile;
use crate::catalog::snapshot::{ClusterId, Drain, Snapshot, StrangerPolicy, Tenant};
use crate::diagnostic::{Diagnostic, Severity, acceptable};
use crate::explain::{Question, Rules, explain};
use crate::extract::Facts;
use crate::health::Seen;
use crate::outcome::Outcome;
use crate::resolve::chain::Step;
use crate::resolve::trace::Considered;
use crate::resolve::{Policy, Resolution, resolve};
use crate::session::State;
use subject::subjects;

/// Compiles a catalog and holds it to its own tests and invariants: what `check` and `serve` both ask before they say yes.
///
/// # Errors
/// All that was found, warnings included; at least one is an error.
pub fn accept(files: &[SourceFile], rules: &Rules) -> Result<Accepted, Vec<Diagnostic>> {
    let weighed = weigh(files, rules)?;
    if acceptable(&weighed.warnings) { Ok(weighed) } else { Err(weighed.warnings) }
}

/// The same for whoever wants to see what a catalog would decide whose own tests or invariants fail: those are errors among the
/// `warnings` then.
///
/// # Errors
/// All that keeps the files from being a catalog.
pub fn weigh(files: &[SourceFile], rules: &Rules) -> Result<Accepted, Vec<Diagnostic>> {
    let mut accepted = compile(files)?;
    let found = run(&accepted.snapshot, rules);
    accepted.warnings.extend(found);
    Ok(accepted)
}

/// Runs all tests and invariants of the snapshot.
#[must_use]
pub fn run(snapshot: &Snapshot, rules: &Rules) -> Vec<Diagnostic> {
    let undrained = undrained(snapshot);
    let judge = |test: &Test| {
        let fault = run_test(snapshot, rules, test)?;
        let by_drain = undrained.as_ref().is_some_and(|undrained| run_test(undrained, rules, test).is_none());
        Some(if by_drain { excused(fault) } else { fault })
    };
    let mut found: Vec<Diagnostic> = snapshot.expectations.tests.iter().filter_map(judge).collect();
    found.extend(run_invariants(snapshot, undrained.as_ref().unwrap_or(snapshot), rules.policy));
    found
}

fn excused(fault: Diagnostic) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        message: format!("{}; it would pass if nothing were drained", fault.message),
        ..fault
    }
}

/// The catalog without its drains; `None`: it has none.
fn undrained(snapshot: &Snapshot) -> Option<Snapshot> {
    snapshot.clusters.iter().any(|cluster| cluster.drain.is_some()).then(|| {
        let mut undrained = snapshot.clone();
        undrained.clusters.iter_mut().for_each(|cluster| cluster.drain = None);
        undrained
    })
}

fn run_test(snapshot: &Snapshot, rules: &Rules, test: &Test) -> Option<Diagnostic> {
    let question = Question {
        model: test.request.model.clone(),
        tenant: test.request.tenant.clone(),
        session: test.request.session.clone(),
        path: test.request.path.clone(),
        method: test.request.method.clone(),
        headers: test.request.headers.clone(),
        body: test.request.body.clone().map(String::into_bytes),
        ..Question::default()
    };
    let explanation = explain(snapshot, rules, &question, Seen::well(), &|_| String::new());
    let answer = &explanation.resolution;
    let holds = match &test.expect {
        Expect::Chain(groups) => answer.outcome == Outcome::Override && group_names(snapshot, &answer.chain) == *groups,
        Expect::Clusters(clusters) => answer.outcome == Outcome::Override && cluster_names(snapshot, &answer.chain) == *clusters,
        Expect::Reject(reason) => answer.outcome == Outcome::Reject && answer.reason == *reason,
        Expect::PassThrough(reason) => answer.outcome == Outcome::PassThrough && answer.reason == *reason,
    };
    (!holds).then(|| {
        let rules: Vec<String> =
            explanation.considered.iter().map(|considered| format!("{}: {}", considered.rule, considered.result)).collect();
        Diagnostic::error(
            "failing-test",
            &test.place,
            format!("the test `{}` fails: the answer is {}", test.name, describe(snapshot, answer)),
        )
        .hint(format!("how it was decided: {}", rules.join("; ")))
    })
}

fn group_names(snapshot: &Snapshot, chain: &[Step]) -> Vec<String> {
    chain.iter().map(|step| snapshot.group(step.group).name.to_string()).collect()
}

fn cluster_names(snapshot: &Snapshot, chain: &[Step]) -> Vec<Vec<String>> {
    let names = |step: &Step| step.clusters.iter().map(|(id, _)| snapshot.cluster(*id).name.to_string()).collect();
    chain.iter().map(names).collect()
}

fn describe(snapshot: &Snapshot, answer: &Resolution) -> String {
    match answer.outcome {
        Outcome::Override => {
            let groups = chain_text(snapshot, &answer.chain);
            format!("{groups} ({})", answer.reason.as_str())
        }
        Outcome::PassThrough | Outcome::Reject => format!("{} ({})", answer.outcome.as_str(), answer.reason.as_str()),
    }
}

fn chain_text(snapshot: &Snapshot, chain: &[Step]) -> String {
    let names = cluster_names(snapshot, chain);
    let groups =
        group_names(snapshot, chain).into_iter().zip(names).map(|(group, clusters)| format!("{group} [{}]", clusters.join(", ")));
    groups.collect::<Vec<_>>().join(" → ")
}

/// A catalog as written, or with one provider drained.
struct Variant {
    drained: Option<String>,
    snapshot: Snapshot,
}

fn run_invariants(snapshot: &Snapshot, undrained: &Snapshot, policy: Policy) -> Vec<Diagnostic> {
    let invariants = &snapshot.expectations.invariants;
    if invariants.is_empty() {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = invariants.iter().map(|_| Finding::default()).collect();
    let drains = (0..snapshot.providers.len()).map(Some);
    for provider in std::iter::once(None).chain(drains) {
        let variant = provider.map(|index| drained(undrained, index));
        let (judged, drained) = match &variant {
            None => (snapshot, None),
            Some(variant) => (&variant.snapshot, variant.drained.as_deref()),
        };
        prove(judged, drained, policy, &mut findings);
    }
    invariants.iter().zip(findings).filter_map(|(invariant, finding)| finding.into_diagnostic(invariant)).collect()
}

fn drained(snapshot: &Snapshot, provider: usize) -> Variant {
    let mut variant = snapshot.clone();
    for cluster in &mut variant.clusters {
        if cluster.provider.is_some_and(|id| id.index() == provider) {
            cluster.drain.get_or_insert(Drain::Provider);
        }
    }
    Variant { drained: snapshot.providers.get(provider).map(ToString::to_string), snapshot: variant }
}

/// Violations of one invariant: the first in words, the others counted.
#[derive(Debug, Default)]
struct Finding {
    first: Option<String>,
    count: usize,
}

impl Finding {
    fn into_diagnostic(self, invariant: &Invariant) -> Option<Diagnostic> {
        let first = self.first?;
        let more = if self.count > 1 { format!(" ({} more like it)", self.count - 1) } else { String::new() };
        let message = format!("the invariant `{}` does not hold: {first}{more}", invariant.name);
        Some(Diagnostic::error("violated-invariant", &invariant.place, message).hint(
            "restrict the tenant or its tier, change the chain, or change the invariant; `cascade explain` shows each step",
        ))
    }
}

fn prove(snapshot: &Snapshot, drained: Option<&str>, policy: Policy, findings: &mut [Finding]) {
    let anonymous = snapshot.tenants.is_empty() || snapshot.defaults.missing_tenant == StrangerPolicy::Anonymous;
    let tenants = alike(snapshot).into_iter().map(|(tenant, count)| (Some(tenant), count));
    for (tenant, count) in tenants.chain(anonymous.then_some((None, 1))) {
        for asked in subjects(snapshot) {
            let speaks = |invariant: &Invariant| speaks_of(invariant, tenant) && asked.is_meant_by(&invariant.models);
            let invariants = snapshot.expectations.invariants.iter().enumerate();
            let speaking: Vec<usize> = invariants.filter(|(_, invariant)| speaks(invariant)).map(|(index, _)| index).collect();
            if speaking.is_empty() {
                continue;
            }
            let facts = asked.facts(tenant);
            let answer = resolve(snapshot, policy, &facts, &State::default(), Seen::well(), &mut ());
            for index in speaking {
                let Some(why) = violation(snapshot, &snapshot.expectations.invariants[index], &answer) else { continue };
                findings[index].count += count;
                findings[index].first.get_or_insert_with(|| {
                    let who =
                        tenant.map_or_else(|| "a request without tenant".to_owned(), |tenant| format!("tenant {}", tenant.name));
                    let when = drained.map(|provider| format!(" with provider {provider} drained")).unwrap_or_default();
                    let rule = decisive_rule(snapshot, policy, &facts);
                    format!("{who}, {asked}{when} gets {}: {why}{rule}", describe(snapshot, &answer))
                });
            }
        }
    }
}

/// The rule that led to the answer, and where it stands: the chain that was used, else the last rule that was looked at.
fn decisive_rule(snapshot: &Snapshot, policy: Policy, facts: &Facts) -> String {
    let mut considered: Vec<Considered> = Vec::new();
    resolve(snapshot, policy, facts, &State::default(), Seen::well(), &mut considered);
    let used = considered.iter().rfind(|considered| considered.result.starts_with("used"));
    let decisive = used.or_else(|| considered.iter().rfind(|considered| considered.place.is_some()));
    decisive.map_or_else(String::new, |considered| match &considered.place {
        Some(place) => format!("; by {} at {place}", considered.rule),
        None => format!("; by {}", considered.rule),
    })
}

/// The tenants that are judged differently, each with how many are judged like it: with the same rules, and spoken of by the same
/// invariants. Most tenants are a name and a tier, and judging one of them says all about the others.
fn alike(snapshot: &Snapshot) -> Vec<(&Tenant, usize)> {
    let mut classes: Vec<(&Tenant, usize)> = Vec::new();
    let mut known: HashMap<(Vec<bool>, String), usize> = HashMap::new();
    for tenant in &snapshot.tenants {
        let spoken_of = snapshot.expectations.invariants.iter().map(|invariant| speaks_of(invariant, Some(tenant))).collect();
        let class = *known.entry((spoken_of, tenant.rules_text())).or_insert_with(|| {
            classes.push((tenant, 0));
            classes.len() - 1
        });
        classes[class].1 += 1;
    }
    classes
}

fn speaks_of(invariant: &Invariant, tenant: Option<&Tenant>) -> bool {
    match (&invariant.tenants, tenant) {
        (TenantSelector::Named(pattern), Some(tenant)) => pattern.matches(tenant.name.as_str()),
        (TenantSelector::Named(pattern), None) => pattern.is_any(),
        (TenantSelector::Tier(pattern), tenant) => {
            tenant.and_then(|tenant| tenant.tier.as_ref()).is_some_and(|tier| pattern.matches(tier.as_str()))
        }
    }
}

/// Why the answer breaks the invariant, if it does.
fn violation(snapshot: &Snapshot, invariant: &Invariant, answer: &Resolution) -> Option<String> {
    match answer.outcome {
        Outcome::PassThrough if invariant.never_pass_through => {
            return Some(format!("the static chain stands ({})", answer.reason.as_str()));
        }
        Outcome::Reject if invariant.never_reject => return Some(format!("it is rejected ({})", answer.reason.as_str())),
        Outcome::Override | Outcome::PassThrough | Outcome::Reject => {}
    }
    let about_clusters = !invariant.only_tags.is_empty()
        || !invariant.never_tags.is_empty()
        || !invariant.only_providers.is_empty()
        || !invariant.never_providers.is_empty();
    answer.chain.iter().find_map(|step| {
        if step.clusters.is_empty() && about_clusters {
            let name = &snapshot.group(step.group).name;
            return Some(format!("the clusters of the group {name} are known to Envoy alone"));
        }
        step.clusters.iter().find_map(|(cluster, _)| wrong_cluster(snapshot, invariant, *cluster))
    })
}

fn wrong_cluster(snapshot: &Snapshot, invariant: &Invariant, id: ClusterId) -> Option<String> {
    let cluster = snapshot.cluster(id);
    let tags: Vec<&str> = cluster.tags.iter().filter_map(|tag| snapshot.tags.get(tag.index())).map(String::as_str).collect();
    let provider = cluster.provider.and_then(|id| snapshot.providers.get(id.index())).map(|name| name.as_str());
    let name = &cluster.name;
    if !invariant.only_tags.is_empty() && !invariant.only_tags.iter().any(|tag| tags.contains(&tag.as_str())) {
        return Some(format!("the cluster {name} carries none of the tags {}", invariant.only_tags.join(", ")));
    }
    if let Some(tag) = invariant.never_tags.iter().find(|tag| tags.contains(&tag.as_str())) {
        return Some(format!("the cluster {name} carries the tag {tag}"));
    }
    let is_provider = |wanted: &&String| provider == Some(wanted.as_str());
    if !invariant.only_providers.is_empty() && !invariant.only_providers.iter().any(|wanted| is_provider(&wanted)) {
        return Some(format!("the cluster {name} belongs to none of the providers {}", invariant.only_providers.join(", ")));
    }
    invariant
        .never_providers
        .iter()
        .find(is_provider)
        .map(|provider| format!("the cluster {name} belongs to the provider {provider}"))
}

#[cfg(test)]
mod tests;
