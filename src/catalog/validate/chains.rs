//! Chains that do less than they say: entries that are never used, attempts beyond `max_attempts`, models whose clusters are all
//! drained, groups known only by name under a tenant's restrictions.

use std::collections::{HashMap, HashSet};

use super::reach::{allows, chain_for, groups_of, permits, serves, usable};
use super::{Context, Whose, Written};
use crate::catalog::compile::KeyedChain;
use crate::catalog::snapshot::{Chain, Entry, GroupId, Model, ModelId, Snapshot};
use crate::diagnostic::Place;

pub(super) fn check(context: &mut Context<'_>) {
    models(context);
    entries_of_models(context);
    let mut matches = Matches::default();
    let mut lengths = Lengths::new(context.snapshot);
    let by_name = models_with_groups_by_name(context.snapshot);
    for written in context.written {
        for keyed in &written.own.chains {
            let models = matches.of(keyed, context.snapshot);
            entries_of_rules(context, written, keyed, &models);
            lengths.check(context, &written.whose, keyed, &models);
        }
        left_out_by_name(context, written, &by_name);
    }
}

fn ids(snapshot: &Snapshot) -> impl Iterator<Item = (ModelId, &Model)> {
    (0..).map(ModelId).zip(&snapshot.models)
}

fn models(context: &mut Context<'_>) {
    let snapshot = context.snapshot;
    let max_attempts = snapshot.defaults.max_attempts;
    for (id, model) in ids(snapshot) {
        let any = |keep: &dyn Fn(&crate::catalog::snapshot::Cluster) -> bool| {
            groups_of(&model.chain).any(|(group, _)| usable(snapshot, snapshot.group(group), keep))
        };
        let name = &model.name;
        if !any(&|cluster| serves(cluster, Some(id))) {
            let message = format!("no cluster in the chain of `{name}` serves it: requests get `no_cluster_left`");
            context.warn(
                "model-without-cluster",
                &model.place,
                message,
                "add the model to `clusters.*.models`, or change its chain",
            );
        } else if !any(&|cluster| serves(cluster, Some(id)) && cluster.drain.is_none()) {
            let becomes = if snapshot.defaults.rejects_drained || snapshot.defaults.fail_closed || model.fail_closed {
                "requests are refused (`no_cluster_left`)"
            } else {
                "requests get `no_cluster_left` and now go to Envoy's static chain, which knows of no drain and may hold what is drained"
            };
            let message = format!("every cluster in the chain of `{name}` is drained: {becomes}");
            let hint = "put one of them back with `drained: false`; `defaults.on_drained: reject` refuses such requests";
            context.warn("model-drained", &model.place, message, hint);
        }
        let length = groups_of(&model.chain)
            .filter(|(group, _)| usable(snapshot, snapshot.group(*group), |cluster| serves(cluster, Some(id))))
            .count();
        if length > max_attempts {
            let message = format!(
                "the chain of `{name}` has {length} entries; only the first {max_attempts} are sent (`defaults.max_attempts`)"
            );
            context.warn("chain-too-long", &model.chain.place, message, "shorten it, or raise `max_attempts`");
        }
    }
}

/// A group may be empty for one model and not for another: only one that serves none of the models that name it is worth a word.
fn entries_of_models(context: &mut Context<'_>) {
    let snapshot = context.snapshot;
    let mut first: HashMap<GroupId, (&Model, &Place)> = HashMap::new();
    let mut useful: HashSet<GroupId> = HashSet::new();
    for (id, model) in ids(snapshot) {
        for (group, place) in groups_of(&model.chain) {
            first.entry(group).or_insert((model, place));
            if usable(snapshot, snapshot.group(group), |cluster| serves(cluster, Some(id))) {
                useful.insert(group);
            }
        }
    }
    for (group, (model, place)) in first {
        let group = if useful.contains(&group) { continue } else { snapshot.group(group) };
        if group.clusters.iter().any(|(_, weight)| *weight > 0) {
            let message = format!(
                "no cluster of `{}` serves `{}`, nor any other model that names it: it is always left out",
                group.name, model.name
            );
            context.warn("unreachable-entry", place, message, "add the model to `clusters.*.models`, or remove the entry");
        }
    }
}

fn entries_of_rules(context: &mut Context<'_>, written: &Written, keyed: &KeyedChain, models: &[Option<ModelId>]) {
    let snapshot = context.snapshot;
    for (group, place) in groups_of(&keyed.chain) {
        let group = snapshot.group(group);
        let served = |model: Option<ModelId>| {
            usable(snapshot, group, |cluster| serves(cluster, model) && permits(&written.folded, cluster))
        };
        if models.is_empty() || group.clusters.iter().all(|(_, weight)| *weight == 0) || models.iter().any(|model| served(*model))
        {
            continue;
        }
        let restricted = if written.folded.restricts_clusters() { " and is permitted by its rules" } else { "" };
        let message = format!(
            "no cluster of `{}` serves what `{}` stands for{restricted}: for {} it is always left out",
            group.name,
            keyed.key.as_str(),
            written.whose
        );
        context.warn("unreachable-entry", place, message, "remove the entry, or change the clusters' `models`, tags or provider");
    }
    let stands_for_nothing = keyed.key.is_exact() && models == [None];
    for (entry, place) in keyed.chain.entries.iter().zip(&keyed.chain.places) {
        if *entry == Entry::ModelChain && stands_for_nothing {
            let message =
                format!("`model_chain` adds nothing here: `{}` is no model of the catalog and has no chain", keyed.key.as_str());
            context.warn("needless-model-chain", place, message, "name the groups, or add the model under `models`");
        }
    }
}

/// The models that a key of `chains` stands for; `None` for an exact name that the catalog does not know.
#[derive(Default)]
struct Matches {
    by_key: HashMap<String, Vec<Option<ModelId>>>,
}

impl Matches {
    fn of(&mut self, keyed: &KeyedChain, snapshot: &Snapshot) -> Vec<Option<ModelId>> {
        let find = || {
            let known: Vec<Option<ModelId>> =
                ids(snapshot).filter(|(_, model)| keyed.key.matches(model.name.as_str())).map(|(id, _)| Some(id)).collect();
            if known.is_empty() && keyed.key.is_exact() { vec![None] } else { known }
        };
        self.by_key.entry(keyed.key.as_str().to_owned()).or_insert_with(find).clone()
    }
}

type Longest = (usize, ModelId);

/// How long chains are, with what no cluster serves taken out. Chains of tenants repeat each other, so each is counted once.
struct Lengths {
    models: Vec<usize>,
    longest: usize,
    /// By key and entries: the longest that the chain gets, and for which model.
    seen: HashMap<(String, Vec<Entry>), Option<Longest>>,
}

impl Lengths {
    fn new(snapshot: &Snapshot) -> Self {
        let models: Vec<usize> = ids(snapshot).map(|(id, model)| length(snapshot, &model.chain, Some(id), 0)).collect();
        Self { longest: models.iter().copied().max().unwrap_or(0), models, seen: HashMap::new() }
    }

    fn check(&mut self, context: &mut Context<'_>, whose: &Whose, keyed: &KeyedChain, models: &[Option<ModelId>]) {
        let (snapshot, chain) = (context.snapshot, &keyed.chain);
        let max_attempts = snapshot.defaults.max_attempts;
        let copies = chain.entries.iter().filter(|entry| **entry == Entry::ModelChain).count();
        if chain.entries.len() - copies + copies * self.longest <= max_attempts {
            return;
        }
        let key = (keyed.key.as_str().to_owned(), chain.entries.clone());
        let worst = *self.seen.entry(key).or_insert_with(|| {
            let known = models.iter().filter_map(|model| *model);
            known
                .map(|model| (length(snapshot, chain, Some(model), self.models[model.index()]), model))
                .max_by_key(|(length, _)| *length)
        });
        let (entries, example) = match worst {
            Some((entries, model)) => (entries, format!(" for `{}`", snapshot.model(model).name)),
            None => (length(snapshot, chain, None, 0), String::new()),
        };
        if entries > max_attempts {
            let message = format!(
                "this chain of {whose} has {entries} entries{example}; only the first {max_attempts} are sent (`defaults.max_attempts`)"
            );
            context.warn("chain-too-long", &chain.place, message, "shorten it, or raise `max_attempts`");
        }
    }
}

fn length(snapshot: &Snapshot, chain: &Chain, model: Option<ModelId>, model_chain: usize) -> usize {
    let entry = |entry: &Entry| match entry {
        Entry::Group(group) => usize::from(usable(snapshot, snapshot.group(*group), |cluster| serves(cluster, model))),
        Entry::ModelChain => model_chain,
    };
    chain.entries.iter().map(entry).sum()
}

fn models_with_groups_by_name<'s>(snapshot: &'s Snapshot) -> Vec<(&'s Model, GroupId)> {
    let known_by_name = |group: &GroupId| snapshot.group(*group).clusters.is_empty();
    let named =
        |model: &'s Model| groups_of(&model.chain).map(|(group, _)| group).filter(known_by_name).map(move |group| (model, group));
    let mut found = Vec::new();
    snapshot.models.iter().for_each(|model| found.extend(named(model)));
    found
}

fn left_out_by_name(context: &mut Context<'_>, written: &Written, by_name: &[(&Model, GroupId)]) {
    let snapshot = context.snapshot;
    if !written.folded.restricts_clusters() {
        return;
    }
    let hint = "list its clusters under `priority_groups`, with their tags and provider under `clusters`";
    let why = "has `require_tags` or `forbid_*`, and the clusters of a group known only by name are unknown to Cascade";
    for (group, place) in written.own.chains.iter().flat_map(|keyed| groups_of(&keyed.chain)) {
        let group = snapshot.group(group);
        if group.clusters.is_empty() {
            context.warn(
                "by-name-left-out",
                place,
                format!("`{}` is always left out here: {} {why}", group.name, written.whose),
                hint,
            );
        }
    }
    // What a tier's rules do to the models' own chains is said once, at the tier.
    if matches!(written.whose, Whose::Tenant(_)) && !written.own.restricts_clusters() {
        return;
    }
    let mut said = HashSet::new();
    for (model, group) in by_name {
        let name = model.name.as_str();
        let uses_own_chain = chain_for(&written.folded, name).is_none_or(|chain| chain.entries.contains(&Entry::ModelChain));
        if uses_own_chain && !said.contains(group) && allows(&written.folded, name) {
            said.insert(*group);
            let group = &snapshot.group(*group).name;
            let message = format!("`{group}`, in the chain of `{name}`, is always left out: {} {why}", written.whose);
            context.warn("by-name-left-out", &written.place, message, hint);
        }
    }
}
