//! Models, their aliases and their own chains.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::clusters::Clusters;
use super::findings::Findings;
use super::groups::{Groups, ModelChain};
use super::names::{Ids, in_order, number, section};
use crate::catalog::pattern::Pattern;
use crate::catalog::snapshot::{Model, ModelId};
use crate::diagnostic::Place;
use crate::document::units::parse_duration;
use crate::document::{Entry, Node};
use crate::metadata::{MAX_LEVELS, OWN_KEYS, is_too_deep};
use crate::names::ModelName;

/// The catalog's names of models, and which alias belongs to which.
pub(super) struct ModelNames {
    ids: Ids<ModelName>,
    /// Exact aliases, for hints.
    aliases: HashMap<String, String>,
}

/// Reads the names alone, since clusters speak of them.
pub(super) fn names(document: &Node) -> ModelNames {
    let models = section(document, "models");
    let ids = Ids::new(models.iter().filter_map(|entry| ModelName::parse(&entry.key).ok()).collect());
    let aliases = models
        .iter()
        .flat_map(|model| aliases(model).filter_map(|alias| Some((alias.text()?.to_owned(), model.key.clone()))))
        .collect();
    ModelNames { ids, aliases }
}

impl ModelNames {
    pub(super) fn get(&self, name: &str) -> Option<ModelId> {
        self.ids.get(name).map(ModelId)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.ids.names.iter().map(ModelName::as_str)
    }

    /// The model whose alias `name` is.
    pub(super) fn is_alias(&self, name: &str) -> Option<&str> {
        self.aliases.get(name).map(String::as_str)
    }
}

#[derive(Default)]
pub(super) struct Models {
    pub(super) all: Vec<Model>,
    /// Catalog names and exact aliases.
    pub(super) ids: HashMap<String, ModelId>,
    /// Aliases with `*`, best rank first.
    pub(super) patterns: Vec<(Pattern, ModelId)>,
}

impl Models {
    pub(super) fn read(
        document: &Node,
        names: &ModelNames,
        groups: &mut Groups,
        clusters: &mut Clusters,
        findings: &mut Findings<'_>,
    ) -> Self {
        let mut models = Self::default();
        let mut taken: HashMap<String, Place> = HashMap::new();
        for entry in section(document, "models") {
            let (Some(id), Ok(name)) = (names.get(&entry.key), ModelName::parse(&entry.key)) else { continue };
            let aliases = models.aliases(entry, id, names, &mut taken, findings);
            models.ids.insert(entry.key.clone(), id);
            let refused =
                ModelChain::Refused("`model_chain` stands for a model's own chain, and this is one: it would never end");
            let chain = entry.value.get("chain").and_then(|node| groups.chain(node, &node.place, refused, clusters, findings));
            let Some(chain) = chain else {
                models.push_placeholder(id, entry, name);
                continue;
            };
            check_metadata(entry, findings);
            models.all.push(Model {
                name,
                aliases,
                chain,
                endpoint_metadata: endpoint_metadata(entry),
                attempt_timeout: timeout(entry, "attempt_timeout", findings),
                stream_attempt_timeout: timeout(entry, "stream_attempt_timeout", findings),
                fail_closed: entry.value.get("fail").and_then(Node::text) == Some("closed"),
                place: entry.place.clone(),
            });
        }
        models.patterns.sort_by(|a, b| a.0.rank().cmp(&b.0.rank()));
        models
    }

    /// A model whose chain is wrong keeps its id, so that the search for faults can go on; the snapshot is not accepted.
    fn push_placeholder(&mut self, id: ModelId, entry: &Entry, name: ModelName) {
        debug_assert_eq!(number(self.all.len()), id.0);
        let chain = crate::catalog::snapshot::Chain { entries: Vec::new(), places: Vec::new(), place: entry.place.clone() };
        let place = entry.place.clone();
        self.all.push(Model {
            name,
            aliases: Vec::new(),
            chain,
            endpoint_metadata: Vec::new(),
            attempt_timeout: None,
            stream_attempt_timeout: None,
            fail_closed: true,
            place,
        });
    }

    fn aliases(
        &mut self,
        model: &Entry,
        id: ModelId,
        names: &ModelNames,
        taken: &mut HashMap<String, Place>,
        findings: &mut Findings<'_>,
    ) -> Vec<Pattern> {
        let mut patterns = Vec::new();
        for node in aliases(model) {
            let Some(alias) = node.text() else { continue };
            if let Some(first) = taken.get(alias) {
                let (first, second) = in_order(first, &node.place);
                let message =
                    format!("the alias `{alias}` is taken already, at {first}: a request could not tell which is meant");
                findings.error("alias-taken", second, message, "remove one of the two");
                continue;
            }
            taken.insert(alias.to_owned(), node.place.clone());
            match names.get(alias) {
                Some(other) if other == id => {
                    let message = format!("`{alias}` is the model's own name; as an alias it adds nothing");
                    findings.warning("needless-alias", &node.place, message, "remove it");
                    continue;
                }
                Some(_) => {
                    let message =
                        format!("the alias `{alias}` is the name of another model: a request could not tell which is meant");
                    findings.error("alias-is-model", &node.place, message, "remove the alias, or rename that model");
                    continue;
                }
                None => {}
            }
            let pattern = Pattern::new(alias);
            if pattern.is_exact() {
                self.ids.insert(alias.to_owned(), id);
            } else {
                self.patterns.push((pattern.clone(), id));
            }
            patterns.push(pattern);
        }
        patterns
    }
}

fn aliases<'d>(model: &'d Entry) -> impl Iterator<Item = &'d Node> + use<'d> {
    model.value.get("aliases").map(Node::items).unwrap_or_default().iter()
}

/// A limit for attempts. Envoy counts milliseconds, and takes 0 for no limit at all.
fn timeout(model: &Entry, field: &str, findings: &mut Findings<'_>) -> Option<Duration> {
    let node = model.value.get(field)?;
    let timeout = parse_duration(node.text()?).ok()?;
    if timeout.as_millis() == 0 {
        let hint = "write how long an attempt may take, or remove the field for no limit of the model's own";
        findings.error("bad-value", &node.place, format!("`{field}` must be at least 1ms"), hint);
    }
    Some(timeout)
}

/// The model's `endpoint_metadata`, and its fallbacks.
fn metadata(model: &Entry) -> (Option<&Node>, &[Node]) {
    let fallbacks = model.value.get("endpoint_fallbacks").map(Node::items).unwrap_or_default();
    (model.value.get("endpoint_metadata"), fallbacks)
}

/// Envoy must be able to read it, and the answer writes keys of its own.
fn check_metadata(model: &Entry, findings: &mut Findings<'_>) {
    let (own, fallbacks) = metadata(model);
    for node in own.into_iter().chain(fallbacks) {
        if let Some(Json::Object(map)) = node.to_json()
            && is_too_deep(&map)
        {
            let message = format!("the metadata has more than {MAX_LEVELS} levels, which Envoy could not read");
            findings.error("deep-metadata", &node.place, message, "subset selectors read the first level alone");
        }
        for entry in node.entries().iter().filter(|entry| OWN_KEYS.contains(&entry.key.as_str())) {
            let message = format!("the answer writes `{}` itself; what stands here may be overwritten", entry.key);
            let hint = "write fallbacks as entries of `endpoint_fallbacks`";
            findings.warning("reserved-metadata-key", &entry.place, message, hint);
        }
    }
}

/// Complete entries, best first. An empty `endpoint_metadata` asks for nothing, so it is none; an empty fallback means "any endpoint".
fn endpoint_metadata(model: &Entry) -> Vec<Map<String, Json>> {
    let (own, fallbacks) = metadata(model);
    let object = |node: &Node| if let Some(Json::Object(map)) = node.to_json() { Some(map) } else { None };
    own.into_iter().filter(|node| !node.entries().is_empty()).chain(fallbacks).filter_map(object).collect()
}
