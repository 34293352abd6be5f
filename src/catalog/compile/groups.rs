//! Priority groups, under `priority_groups` and inside chains, and the chains that name them.

use std::collections::HashMap;

use super::clusters::Clusters;
use super::findings::Findings;
use super::names::{number, section};
use crate::catalog::document::MODEL_CHAIN;
use crate::catalog::snapshot::{Chain, ClusterId, Entry, Group, GroupId};
use crate::diagnostic::Place;
use crate::document::{Node, Value};
use crate::names::GroupName;

pub(super) struct Groups {
    pub(super) all: Vec<Group>,
    pub(super) ids: HashMap<GroupName, GroupId>,
}

/// Whether a chain may hold `model_chain`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelChain {
    Allowed,
    /// There is no other chain that it could stand for; says why.
    Refused(&'static str),
}

impl Groups {
    pub(super) fn read(document: &Node, clusters: &mut Clusters, findings: &mut Findings<'_>) -> Self {
        let mut groups = Self { all: Vec::new(), ids: HashMap::new() };
        for entry in section(document, "priority_groups") {
            let Ok(name) = GroupName::parse(&entry.key) else { continue };
            if entry.key == MODEL_CHAIN {
                let message =
                    format!("no group can be called `{MODEL_CHAIN}`: in a chain the word stands for the model's own chain");
                findings.error("reserved-name", &entry.place, message, "choose another name");
            }
            let members = members(&entry.value, &entry.key, clusters, findings);
            let id = groups.add(name.clone(), members, false, &entry.place);
            groups.ids.insert(name, id);
        }
        groups
    }

    fn add(&mut self, name: GroupName, clusters: Vec<(ClusterId, u32)>, inline: bool, place: &Place) -> GroupId {
        let id = GroupId(number(self.all.len()));
        self.all.push(Group { name, clusters, inline, place: place.clone() });
        id
    }

    /// A chain; `None` if nothing of it can be used, which is an error that was reported.
    pub(super) fn chain(
        &mut self,
        node: &Node,
        place: &Place,
        model_chain: ModelChain,
        clusters: &mut Clusters,
        findings: &mut Findings<'_>,
    ) -> Option<Chain> {
        let Value::List(items) = &node.value else { return None };
        if items.is_empty() {
            let hint = "name at least one group, or remove the key";
            findings.error("empty-chain", &node.place, "the chain is empty: there is nothing to try", hint);
        }
        let (mut entries, mut places) = (Vec::new(), Vec::new());
        for item in items {
            if let Some(entry) = self.entry(item, model_chain, clusters, findings) {
                entries.push(entry);
                places.push(item.place.clone());
            }
        }
        (!entries.is_empty()).then(|| Chain { entries, places, place: place.clone() })
    }

    fn entry(
        &mut self,
        item: &Node,
        model_chain: ModelChain,
        clusters: &mut Clusters,
        findings: &mut Findings<'_>,
    ) -> Option<Entry> {
        let Some(name) = item.text() else { return self.inline(item, clusters, findings) };
        if name == MODEL_CHAIN {
            if let ModelChain::Refused(why) = model_chain {
                findings.error("misplaced-model-chain", &item.place, why, "name the groups themselves");
                return None;
            }
            return Some(Entry::ModelChain);
        }
        if let Some(id) = self.ids.get(name) {
            return Some(Entry::Group(*id));
        }
        let message = format!("there is no priority group `{name}`: the attempt would have nowhere to go");
        if clusters.ids.contains_key(name) {
            // An empty group of this name would send the model to whatever Envoy has under it.
            let hint = format!(
                "`{name}` is a cluster, and a chain names groups: write `{{name: {name}, clusters: [{{cluster_name: {name}, weight: 1}}]}}`"
            );
            findings.error("unknown-group", &item.place, message, hint);
            return None;
        }
        if clusters.providers.get(name).is_some() {
            let hint =
                format!("`{name}` is a provider, and a chain names groups: add a group of its clusters under `priority_groups`");
            findings.error("unknown-group", &item.place, message, hint);
            return None;
        }
        let names = self.ids.keys().map(GroupName::as_str).chain((model_chain == ModelChain::Allowed).then_some(MODEL_CHAIN));
        let otherwise =
            format!("add `{name}` under `priority_groups`; `{name}: {{}}` is a group that Envoy's own configuration holds");
        let hint = findings.meant(name, names, &otherwise);
        findings.error("unknown-group", &item.place, message, hint);
        None
    }

    fn inline(&mut self, item: &Node, clusters: &mut Clusters, findings: &mut Findings<'_>) -> Option<Entry> {
        let node = item.get("name")?;
        let name = GroupName::parse(node.text()?).ok()?;
        if name.as_str() == MODEL_CHAIN {
            let message = format!("no group can be called `{MODEL_CHAIN}`: in a chain the word stands for the model's own chain");
            findings.error("reserved-name", &node.place, message, "choose another name");
        }
        if self.ids.contains_key(&name) {
            let message =
                format!("this group is called `{name}`, as one under `priority_groups` is; here the one written here is used");
            findings.warning(
                "same-group-name",
                &node.place,
                message,
                format!("write `{name}` alone to mean that one, or rename this one"),
            );
        }
        let members = members(item, name.as_str(), clusters, findings);
        Some(Entry::Group(self.add(name, members, true, &item.place)))
    }
}

fn members(group: &Node, name: &str, clusters: &mut Clusters, findings: &mut Findings<'_>) -> Vec<(ClusterId, u32)> {
    let mut members: Vec<(ClusterId, u32)> = Vec::new();
    for item in group.get("clusters").map(Node::items).unwrap_or_default() {
        let Some(node) = item.get("cluster_name") else { continue };
        let weight = item.get("weight").and_then(Node::integer).and_then(|weight| u32::try_from(weight).ok());
        let (Some(cluster), Some(weight)) = (node.text(), weight) else { continue };
        let Some(id) = clusters.id_of(cluster, &node.place) else { continue };
        if members.iter().any(|(other, _)| *other == id) {
            let message = format!("`{cluster}` appears twice in the group `{name}`; it gets the sum of its weights");
            findings.warning("repeated-cluster", &node.place, message, "write it once");
        }
        members.push((id, weight));
    }
    members
}
