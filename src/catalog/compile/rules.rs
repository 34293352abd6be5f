//! What a tier or a tenant writes: its rules, each with its place, before a tier is folded into its tenants.

use super::clusters::Clusters;
use super::findings::Findings;
use super::groups::{Groups, ModelChain};
use crate::catalog::pattern::Pattern;
use crate::catalog::snapshot::{Chain, Mode, ProviderId, TagId};
use crate::diagnostic::Place;
use crate::document::{Entry, Node};

/// What rules are read against.
pub(super) struct Ground<'g, 'f> {
    pub(super) groups: &'g mut Groups,
    pub(super) clusters: &'g mut Clusters,
    pub(super) findings: &'g mut Findings<'f>,
}

/// The rules of one tier or one tenant, as written.
#[derive(Clone, Default)]
pub(in crate::catalog) struct Rules {
    /// `None`: not written.
    pub(in crate::catalog) allowed: Option<Vec<(Pattern, Place)>>,
    pub(in crate::catalog) denied: Vec<(Pattern, Place)>,
    pub(in crate::catalog) chains: Vec<KeyedChain>,
    pub(in crate::catalog) require_tags: Vec<(TagId, Place)>,
    pub(in crate::catalog) forbid_tags: Vec<(TagId, Place)>,
    pub(in crate::catalog) forbid_providers: Vec<(ProviderId, Place)>,
    /// `true`: closed.
    pub(in crate::catalog) fail_closed: Option<(bool, Place)>,
    pub(in crate::catalog) mode: Option<Mode>,
}

/// A chain and the key it stands under.
#[derive(Clone)]
pub(in crate::catalog) struct KeyedChain {
    pub(in crate::catalog) key: Pattern,
    pub(in crate::catalog) chain: Chain,
}

impl Rules {
    pub(super) fn read(entry: &Entry, ground: &mut Ground<'_, '_>) -> Self {
        let value = &entry.value;
        let list = |name: &str| value.get(name).map(Node::items).unwrap_or_default();
        let who = &entry.key;
        let nobody = format!("nothing is left for `{who}`");
        let nothing = "the rule excludes nothing";
        let findings = &mut *ground.findings;
        let tags = |nodes: &[Node], what: &str, findings: &mut Findings<'_>| -> Vec<(TagId, Place)> {
            nodes.iter().filter_map(|node| Some((ground.clusters.tag(node, what, findings)?, node.place.clone()))).collect()
        };
        let require_tags = tags(list("require_tags"), &nobody, findings);
        let forbid_tags = tags(list("forbid_tags"), nothing, findings);
        let forbid_providers = list("forbid_providers")
            .iter()
            .filter_map(|node| Some((ground.clusters.provider(node, nothing, findings)?, node.place.clone())))
            .collect();
        Self {
            allowed: value.get("allowed_models").map(|node| patterns(node.items())),
            denied: patterns(list("denied_models")),
            chains: chains(value.get("chains"), ground),
            require_tags,
            forbid_tags,
            forbid_providers,
            fail_closed: value.get("fail").and_then(|node| Some((node.text()? == "closed", node.place.clone()))),
            mode: value.get("mode").and_then(Node::text).map(|mode| if mode == "shadow" { Mode::Shadow } else { Mode::Enforce }),
        }
    }

    /// True if nothing is written.
    pub(super) fn is_empty(&self) -> bool {
        let Self { allowed, denied, chains, require_tags, forbid_tags, forbid_providers, fail_closed, mode } = self;
        allowed.is_none()
            && denied.is_empty()
            && chains.is_empty()
            && require_tags.is_empty()
            && forbid_tags.is_empty()
            && forbid_providers.is_empty()
            && fail_closed.is_none()
            && mode.is_none()
    }

    /// These rules over those of a tier: own keys win, chains merge key by key, restrictions add up, the strictest `fail` counts.
    pub(super) fn over(&self, tier: &Self) -> Self {
        let mut folded = self.clone();
        folded.allowed = self.allowed.clone().or_else(|| tier.allowed.clone());
        folded.denied.extend(tier.denied.iter().cloned());
        let inherited = tier.chains.iter().filter(|chain| !self.chains.iter().any(|own| own.key == chain.key));
        folded.chains.extend(inherited.cloned());
        folded.require_tags.extend(tier.require_tags.iter().cloned());
        folded.forbid_tags.extend(tier.forbid_tags.iter().cloned());
        folded.forbid_providers.extend(tier.forbid_providers.iter().cloned());
        folded.fail_closed = match (&self.fail_closed, &tier.fail_closed) {
            (Some((false, _)) | None, Some((true, place))) => Some((true, place.clone())),
            (own, tier) => own.clone().or_else(|| tier.clone()),
        };
        folded.mode = self.mode.or(tier.mode);
        folded
    }

    /// True if anything that the tenant asks for could be refused: rule 2 then.
    pub(in crate::catalog) fn restricts(&self) -> bool {
        let allows_all = |allowed: &Vec<(Pattern, Place)>| matches!(allowed.as_slice(), [(pattern, _)] if pattern.is_any());
        !self.allowed.as_ref().is_none_or(allows_all) || !self.denied.is_empty() || self.restricts_clusters()
    }

    pub(in crate::catalog) fn restricts_clusters(&self) -> bool {
        !self.require_tags.is_empty() || !self.forbid_tags.is_empty() || !self.forbid_providers.is_empty()
    }
}

fn patterns(nodes: &[Node]) -> Vec<(Pattern, Place)> {
    nodes.iter().filter_map(|node| Some((Pattern::new(node.text()?), node.place.clone()))).collect()
}

fn chains(node: Option<&Node>, ground: &mut Ground<'_, '_>) -> Vec<KeyedChain> {
    let entries = node.map(Node::entries).unwrap_or_default();
    let read = |entry: &Entry| {
        let chain = ground.groups.chain(&entry.value, &entry.place, ModelChain::Allowed, ground.clusters, ground.findings)?;
        Some(KeyedChain { key: Pattern::new(&entry.key), chain })
    };
    entries.iter().filter_map(read).collect()
}
