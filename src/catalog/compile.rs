//! Makes a snapshot of a catalog's texts, or says all that is wrong with them. A pure function: it reads no file and knows no clock;
//! the order in which the texts come does not matter. The steps: parse each text, merge them, check the shape, then give every name
//! an id and find each name that stands for nothing, then look for what is allowed and yet may not do what its author thinks.

mod clusters;
mod expect;
mod findings;
mod groups;
mod models;
mod names;
#[cfg(test)]
mod properties;
mod rules;
#[cfg(test)]
mod semantics;
mod tenants;
#[cfg(test)]
mod tests;

use super::document::CATALOG;
use super::load::SourceFile;
use super::merge::merge;
use super::pattern::PatternTable;
use super::revision;
use super::snapshot::{Closed, Snapshot};
use super::validate;
use crate::diagnostic::{Diagnostic, Place, acceptable};
use crate::document::{self, Format, Node, Value, check};
use clusters::Clusters;
use findings::Findings;
use groups::Groups;
use models::Models;
pub(super) use rules::{KeyedChain, Rules};

/// A snapshot and what its author may want to know.
#[derive(Debug)]
pub struct Accepted {
    pub snapshot: Snapshot,
    pub warnings: Vec<Diagnostic>,
}

/// Compiles the files of one catalog.
///
/// # Errors
/// All that was found, warnings included, in the order of the files; at least one is an error.
pub fn compile(files: &[SourceFile]) -> Result<Accepted, Vec<Diagnostic>> {
    let mut found = Vec::new();
    let outcome = compile_into(files, &mut found);
    found.sort_by(|a, b| (&a.place, a.severity, a.code, &a.message).cmp(&(&b.place, b.severity, b.code, &b.message)));
    found.dedup();
    match outcome {
        Some(snapshot) if acceptable(&found) => Ok(Accepted { snapshot, warnings: found }),
        _ => Err(found),
    }
}

fn compile_into(files: &[SourceFile], found: &mut Vec<Diagnostic>) -> Option<Snapshot> {
    let mut files: Vec<&SourceFile> = files.iter().collect();
    files.sort_by(|a, b| (&a.name, &a.text).cmp(&(&b.name, &b.text)));
    let documents: Vec<Node> = files.iter().filter_map(|file| parse(file, found)).collect();
    let is_whole = documents.len() == files.len();
    let Some(document) = merge(documents, found) else {
        if files.is_empty() {
            let fault = Diagnostic::error("no-catalog-files", &Place::whole("catalog"), "there is no file to read");
            found.push(fault.hint("a catalog is a *.yaml, *.yml or *.json file, or a directory of such"));
        }
        return None;
    };
    let shape_faults = check::check(&document, &CATALOG);
    // A section that is missing or misspelt would make a fault of every name that stands in it.
    let is_complete = is_whole && !shape_faults.iter().any(|fault| is_about_a_section(fault, &document));
    found.extend(shape_faults);
    if !is_complete {
        return None;
    }
    Some(names_and_rules(&document, found))
}

/// Where a text begins.
fn start(source: &str) -> Place {
    Place { line: 1, column: 1, ..Place::whole(source) }
}

/// The document of one file; `None` if it cannot be read or says nothing.
fn parse(file: &SourceFile, found: &mut Vec<Diagnostic>) -> Option<Node> {
    let (node, faults) = document::parse(&file.name, &file.text, Format::of(&file.name));
    found.extend(faults);
    let node = node?;
    match node.value {
        Value::Map(_) => Some(node),
        Value::Null => {
            let fault = Diagnostic::error("empty-file", &start(&file.name), "the file is empty, as if it were being written");
            found.push(fault.hint("remove the file, or write `{}` if it is meant to say nothing"));
            None
        }
        _ => {
            let message = "a catalog is a mapping with fields such as `models` and `tenants`";
            found.push(Diagnostic::error("wrong-type", &node.place, message).hint("begin with `version: 1`"));
            None
        }
    }
}

fn is_about_a_section(fault: &Diagnostic, document: &Node) -> bool {
    document.entries().iter().any(|section| match fault.code {
        "unknown-field" => section.place == fault.place,
        "wrong-type" => section.value.place == fault.place,
        _ => false,
    })
}

fn names_and_rules(document: &Node, found: &mut Vec<Diagnostic>) -> Snapshot {
    let mut findings = Findings::new(found);
    let model_names = models::names(document);
    let mut clusters = Clusters::read(document, &model_names, &mut findings);
    let mut groups = Groups::read(document, &mut clusters, &mut findings);
    let models = Models::read(document, &model_names, &mut groups, &mut clusters, &mut findings);
    let mut ground = rules::Ground { groups: &mut groups, clusters: &mut clusters, findings: &mut findings };
    let tenants = tenants::read(document, &mut ground);
    let defaults = tenants::defaults(document, &tenants, &mut ground);
    let expectations = expect::read(document, &tenants, &models, &mut ground);
    let closed = Closed {
        anybody: defaults.fail_closed || tenants.all.iter().any(|tenant| tenant.fail_closed),
        any_model: models.all.iter().any(|model| model.fail_closed),
    };
    let limits_attempts =
        models.all.iter().any(|model| model.attempt_timeout.is_some() || model.stream_attempt_timeout.is_some());
    let snapshot = Snapshot {
        limits_attempts,
        revision: revision::of(document),
        label: document.get("label").and_then(Node::text).map(Into::into),
        clusters: clusters.all,
        groups: groups.all,
        models: models.all,
        limits_models: tenants.all.iter().any(|tenant| tenant.limits_models()),
        tenants: tenants.all,
        providers: clusters.providers.names,
        tags: clusters.tags.names,
        cluster_ids: clusters.ids,
        group_ids: groups.ids,
        model_ids: models.ids,
        model_patterns: PatternTable::new(models.patterns),
        tenant_ids: tenants.ids,
        api_keys: tenants.api_keys,
        closed,
        defaults,
        expectations,
    };
    if acceptable(found) {
        found.extend(validate::warnings(&snapshot, document, &tenants.written));
    }
    snapshot
}
