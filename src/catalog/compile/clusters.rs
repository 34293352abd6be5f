//! Providers, tags and clusters: the facts that the catalog states about Envoy's clusters.

use std::collections::{BTreeSet, HashMap};

use super::findings::Findings;
use super::models::ModelNames;
use super::names::{Ids, first_places, number, section};
use crate::catalog::path_prefix::PathPrefix;
use crate::catalog::snapshot::{Cluster, ClusterId, Drain, ModelId, ProviderId, Served, TagId, TagSet};
use crate::diagnostic::Place;
use crate::document::{Entry, Node, Value};
use crate::names::{ClusterName, ProviderName};

pub(super) struct Clusters {
    pub(super) all: Vec<Cluster>,
    pub(super) ids: HashMap<ClusterName, ClusterId>,
    pub(super) providers: Ids<ProviderName>,
    pub(super) tags: Ids<String>,
    /// Providers that at least one cluster has.
    carried: BTreeSet<ProviderId>,
}

impl Clusters {
    pub(super) fn read(document: &Node, models: &ModelNames, findings: &mut Findings<'_>) -> Self {
        let entries = section(document, "clusters");
        let mut clusters = Self {
            all: Vec::new(),
            ids: HashMap::new(),
            providers: Ids::new(provider_names(document, &entries)),
            tags: Ids::new(first_places(tags_of(&entries)).into_keys().map(str::to_owned).collect()),
            carried: BTreeSet::new(),
        };
        let drained: BTreeSet<&str> = section(document, "providers")
            .into_iter()
            .filter(|entry| entry.value.get("drained").and_then(Node::flag) == Some(true))
            .map(|entry| entry.key.as_str())
            .collect();
        for entry in entries {
            clusters.add_listed(entry, models, &drained, findings);
        }
        clusters.check_providers(document, findings);
        clusters
    }

    fn add_listed(&mut self, entry: &Entry, models: &ModelNames, drained: &BTreeSet<&str>, findings: &mut Findings<'_>) {
        let Ok(name) = ClusterName::parse(&entry.key) else { return };
        let provider = entry.value.get("provider").and_then(Node::text);
        let provider_id = provider.and_then(|provider| self.providers.get(provider)).map(ProviderId);
        let drain = if entry.value.get("drained").and_then(Node::flag) == Some(true) {
            Some(Drain::Cluster)
        } else {
            provider.filter(|provider| drained.contains(provider)).map(|_| Drain::Provider)
        };
        let mut tags = TagSet::default();
        for tag in entry.value.get("tags").map(Node::items).unwrap_or_default() {
            if let Some(tag) = tag.text().and_then(|tag| self.tags.get(tag)) {
                tags.insert(TagId(tag));
            }
        }
        self.carried.extend(provider_id);
        self.ids.insert(name.clone(), ClusterId(number(self.all.len())));
        let served = served(entry, models, findings);
        let (path_prefix, place) = (path_prefix(entry, findings), entry.place.clone());
        self.all.push(Cluster { name, listed: true, provider: provider_id, tags, served, path_prefix, drain, place });
    }

    /// The id of a cluster that a group names; one without an entry gets its id here.
    pub(super) fn id_of(&mut self, name: &str, place: &Place) -> Option<ClusterId> {
        if let Some(id) = self.ids.get(name) {
            return Some(*id);
        }
        let name = ClusterName::parse(name).ok()?;
        let id = ClusterId(number(self.all.len()));
        self.ids.insert(name.clone(), id);
        self.all.push(Cluster {
            name,
            listed: false,
            provider: None,
            tags: TagSet::default(),
            served: Served::Every,
            path_prefix: None,
            drain: None,
            place: place.clone(),
        });
        Some(id)
    }

    /// The id of a tag in a rule; an error if no cluster carries it.
    pub(super) fn tag(&self, node: &Node, what_happens: &str, findings: &mut Findings<'_>) -> Option<TagId> {
        let tag = node.text()?;
        let id = self.tags.get(tag).map(TagId);
        if id.is_none() {
            let hint =
                findings.meant(tag, self.tags.names.iter().map(String::as_str), "add the tag to a cluster under `clusters`");
            findings.error("unknown-tag", &node.place, format!("no cluster has the tag `{tag}`: {what_happens}"), hint);
        }
        id
    }

    /// The id of a provider in a rule; an error if no cluster carries it.
    pub(super) fn provider(&self, node: &Node, what_happens: &str, findings: &mut Findings<'_>) -> Option<ProviderId> {
        let provider = node.text()?;
        let id = self.providers.get(provider).map(ProviderId).filter(|id| self.carried.contains(id));
        if id.is_none() {
            let hint = findings.meant(provider, self.carried_names(), "add `provider` to a cluster under `clusters`");
            findings.error(
                "unknown-provider",
                &node.place,
                format!("no cluster has the provider `{provider}`: {what_happens}"),
                hint,
            );
        }
        id
    }

    fn carried_names(&self) -> impl Iterator<Item = &str> {
        self.carried.iter().map(|id| self.providers.names[id.index()].as_str())
    }

    fn check_providers(&self, document: &Node, findings: &mut Findings<'_>) {
        let listed = section(document, "providers");
        for entry in &listed {
            if self.providers.get(entry.key.as_str()).is_none_or(|id| self.carried.contains(&ProviderId(id))) {
                continue;
            }
            let hint = findings.meant(&entry.key, self.carried_names(), "add `provider` to a cluster under `clusters`");
            if entry.value.get("drained").and_then(Node::flag) == Some(true) {
                let message = format!("no cluster has the provider `{}`: draining it drains nothing", entry.key);
                findings.error("unknown-provider", &entry.place, message, hint);
            } else {
                findings.warning("unused-provider", &entry.place, format!("no cluster has the provider `{}`", entry.key), hint);
            }
        }
        let clusters = section(document, "clusters");
        for (provider, place) in first_places(clusters.iter().filter_map(|cluster| cluster.value.get("provider"))) {
            if !listed.iter().any(|entry| entry.key == provider) {
                let message =
                    format!("the provider `{provider}` is not listed under `providers`; it cannot be drained as a whole");
                let names = listed.iter().map(|entry| entry.key.as_str());
                let hint = findings.meant(provider, names, &format!("add `{provider}: {{}}` under `providers`"));
                findings.warning("unlisted-provider", place, message, hint);
            }
        }
    }
}

fn provider_names(document: &Node, clusters: &[&Entry]) -> Vec<ProviderName> {
    let listed = section(document, "providers").into_iter().map(|entry| entry.key.as_str());
    let carried = clusters.iter().filter_map(|entry| entry.value.get("provider")?.text());
    let names: BTreeSet<&str> = listed.chain(carried).collect();
    names.into_iter().filter_map(|name| ProviderName::parse(name).ok()).collect()
}

fn tags_of<'d>(clusters: &[&'d Entry]) -> impl Iterator<Item = &'d Node> {
    clusters.iter().flat_map(|entry| entry.value.get("tags").map(Node::items).unwrap_or_default())
}

fn path_prefix(cluster: &Entry, findings: &mut Findings<'_>) -> Option<PathPrefix> {
    let node = cluster.value.get("path_prefix")?;
    let mut text = |name: &str| {
        let node = node.get(name)?;
        let text = node.text()?;
        let Some(fault) = PathPrefix::fault(text) else { return Some(text) };
        findings.error("bad-value", &node.place, format!("`{name}` {fault}"), "write it as in {from: /v1, to: /openai/v1}");
        None
    };
    let (from, to) = (text("from"), text("to"));
    let rule = PathPrefix::new(from?, to?);
    if rule.from() == rule.to() {
        let message = format!("`path_prefix` of `{}` changes nothing: both ends are the same", cluster.key);
        findings.warning("needless-path-prefix", &node.place, message, "remove it");
        return None;
    }
    Some(rule)
}

fn served(cluster: &Entry, models: &ModelNames, findings: &mut Findings<'_>) -> Served {
    let mut served: HashMap<ModelId, Option<String>> = HashMap::new();
    let Some(node) = cluster.value.get("models") else { return Served::Every };
    let mut add = |name: &str, place: &Place, own: Option<&str>| match models.get(name) {
        Some(id) => {
            served.insert(id, own.filter(|own| *own != name).map(str::to_owned));
        }
        None => {
            let message =
                format!("`{}` serves a model `{name}`, which is not under `models`: no request would ever reach it", cluster.key);
            let hint = models.is_alias(name).map_or_else(
                || findings.meant(name, models.names(), "add it under `models`, or remove it here"),
                |model| format!("it is an alias; write the catalog's name, `{model}`"),
            );
            findings.error("unknown-model", place, message, hint);
        }
    };
    match &node.value {
        Value::List(items) => {
            items.iter().filter_map(|item| Some((item.text()?, item))).for_each(|(name, item)| add(name, &item.place, None));
        }
        Value::Map(entries) => entries.iter().for_each(|entry| add(&entry.key, &entry.place, entry.value.text())),
        _ => return Served::Every,
    }
    Served::Only(served)
}
