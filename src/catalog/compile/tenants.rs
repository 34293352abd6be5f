//! Tiers, tenants with their tier folded in, their keys, and the defaults for requests without any of these.

use std::collections::HashMap;
use std::sync::Arc;

use super::groups::ModelChain;
use super::names::{in_order, number, section};
use super::rules::{Ground, Rules};
use crate::catalog::snapshot::{
    Defaults, Mode, Restriction, StrangerPolicy, TagSet, Tenant, TenantChains, TenantId, TenantRules, UnknownModelPolicy,
};
use crate::catalog::validate::Written;
use crate::diagnostic::Place;
use crate::document::check::parse_key_hash;
use crate::document::{Entry, Node};
use crate::names::{TenantName, TierName};

/// The longest chain that is sent when the catalog does not say.
const MAX_ATTEMPTS: usize = 8;

#[derive(Default)]
pub(super) struct Tenants {
    pub(super) all: Vec<Tenant>,
    pub(super) ids: HashMap<TenantName, TenantId>,
    pub(super) tiers: HashMap<TierName, Rules>,
    pub(super) api_keys: HashMap<[u8; 32], TenantId>,
    /// Every tier, then every tenant, as written.
    pub(super) written: Vec<Written>,
    key_places: HashMap<[u8; 32], Place>,
    shared: HashMap<Option<TierName>, Shared>,
}

/// The rules of all tenants of a tier that write none of their own.
#[derive(Clone)]
struct Shared {
    own: Arc<Rules>,
    folded: Arc<Rules>,
    compiled: Arc<TenantRules>,
}

impl Shared {
    fn new(own: Rules, tier: Option<&Rules>, place: &Place) -> Self {
        let folded = Arc::new(tier.map_or_else(|| own.clone(), |tier| own.over(tier)));
        Self { compiled: Arc::new(compiled(&folded, place)), folded, own: Arc::new(own) }
    }
}

pub(super) fn read(document: &Node, ground: &mut Ground<'_, '_>) -> Tenants {
    let mut tenants = Tenants::default();
    for entry in section(document, "tiers") {
        let Ok(name) = TierName::parse(&entry.key) else { continue };
        let rules = Rules::read(entry, ground);
        tenants.written.push(Written::tier(&name, Arc::new(rules.clone()), &entry.place));
        tenants.tiers.insert(name, rules);
    }
    for entry in section(document, "tenants") {
        tenants.add(entry, ground);
    }
    tenants
}

impl Tenants {
    fn add(&mut self, entry: &Entry, ground: &mut Ground<'_, '_>) {
        let Ok(name) = TenantName::parse(&entry.key) else { return };
        if matches!(entry.key.as_str(), "anonymous" | "reject") {
            let message = format!("no tenant can be called `{}`: `defaults` uses the word for something else", entry.key);
            ground.findings.error("reserved-name", &entry.place, message, "choose another name");
        }
        let own = Rules::read(entry, ground);
        let tier = self.tier(entry, ground);
        let of_tier = tier.as_ref().and_then(|tier| self.tiers.get(tier));
        let Shared { own, folded, compiled } = if own.is_empty() {
            let shared = self.shared.entry(tier.clone());
            shared.or_insert_with(|| Shared::new(own, of_tier, &entry.place)).clone()
        } else {
            Shared::new(own, of_tier, &entry.place)
        };
        let id = TenantId(number(self.all.len()));
        self.keys(entry, id, ground);
        self.ids.insert(name.clone(), id);
        self.written.push(Written::tenant(&name, own, folded, &entry.place));
        self.all.push(Tenant { name, tier, rules: compiled, place: entry.place.clone() });
    }

    fn tier(&self, entry: &Entry, ground: &mut Ground<'_, '_>) -> Option<TierName> {
        let node = entry.value.get("tier")?;
        let tier = node.text()?;
        if let Some((name, _)) = self.tiers.get_key_value(tier) {
            return Some(name.clone());
        }
        let hint = ground.findings.meant(tier, self.tiers.keys().map(TierName::as_str), "add it under `tiers`");
        let message = format!("there is no tier `{tier}`: `{}` would go without its rules", entry.key);
        ground.findings.error("unknown-tier", &node.place, message, hint);
        None
    }

    fn keys(&mut self, entry: &Entry, id: TenantId, ground: &mut Ground<'_, '_>) {
        for node in entry.value.get("api_keys").map(Node::items).unwrap_or_default() {
            let Some(hash) = node.text().and_then(parse_key_hash) else { continue };
            match (self.api_keys.get(&hash), self.key_places.get(&hash)) {
                (Some(other), Some(first)) if *other != id => {
                    let (first, second) = in_order(first, &node.place);
                    let message = format!("this key is also at {first}, of another tenant: a request could not tell whose it is");
                    ground.findings.error("key-taken", second, message, "give each tenant keys of its own");
                }
                (Some(_), _) => {
                    ground.findings.warning("repeated-key", &node.place, "this key is listed twice", "remove one of the two");
                }
                (None, _) => {
                    self.api_keys.insert(hash, id);
                    self.key_places.insert(hash, node.place.clone());
                }
            }
        }
    }
}

fn compiled(rules: &Rules, place: &Place) -> TenantRules {
    let fail_closed = rules.restricts() || matches!(rules.fail_closed, Some((true, _)));
    let any = || vec![(crate::catalog::pattern::Pattern::new("*"), place.clone())];
    let tags = |rules: &[(crate::catalog::snapshot::TagId, Place)]| {
        let mut tags = TagSet::default();
        rules.iter().for_each(|(tag, _)| tags.insert(*tag));
        tags
    };
    let require = rules.require_tags.iter().map(|(tag, place)| (Restriction::RequireTag(*tag), place.clone()));
    let forbid = rules.forbid_tags.iter().map(|(tag, place)| (Restriction::ForbidTag(*tag), place.clone()));
    let providers =
        rules.forbid_providers.iter().map(|(provider, place)| (Restriction::ForbidProvider(*provider), place.clone()));
    let restrictions = require.chain(forbid).chain(providers).collect();
    let mut chains = TenantChains::default();
    for keyed in &rules.chains {
        let chain = keyed.chain.clone();
        if keyed.key.is_any() {
            chains.any = Some(chain);
        } else if keyed.key.is_exact() {
            chains.exact.insert(keyed.key.as_str().to_owned(), chain);
        } else {
            chains.patterns.push((keyed.key.clone(), chain));
        }
    }
    chains.patterns.sort_by(|a, b| a.0.rank().cmp(&b.0.rank()));
    TenantRules {
        require_tags: tags(&rules.require_tags),
        forbid_tags: tags(&rules.forbid_tags),
        forbid_providers: rules.forbid_providers.iter().map(|(provider, _)| *provider).collect(),
        restrictions,
        allowed_models: rules.allowed.clone().unwrap_or_else(any),
        denied_models: rules.denied.clone(),
        chains,
        fail_closed,
        mode: rules.mode.unwrap_or(Mode::Enforce),
    }
}

/// `defaults`, with what stands for what is not written.
pub(super) fn defaults(document: &Node, tenants: &Tenants, ground: &mut Ground<'_, '_>) -> Defaults {
    let node = document.get("defaults");
    let get = |name: &str| node.and_then(|node| node.get(name));
    let without = if tenants.all.is_empty() { StrangerPolicy::Anonymous } else { StrangerPolicy::Reject };
    let max_attempts = get("max_attempts").and_then(Node::integer).and_then(|attempts| usize::try_from(attempts).ok());
    Defaults {
        missing_tenant: get("missing_tenant").and_then(|node| stranger(node, tenants, ground)).unwrap_or(without),
        unknown_tenant: get("unknown_tenant").and_then(|node| stranger(node, tenants, ground)).unwrap_or(StrangerPolicy::Reject),
        unknown_model: get("unknown_model").map_or(UnknownModelPolicy::PassThrough, |node| {
            without_known_model(node, "`model_chain` stands for a model's own chain, and an unknown model has none", ground)
        }),
        missing_model: get("missing_model").map(|node| {
            without_known_model(node, "`model_chain` stands for a model's own chain, and these requests name no model", ground)
        }),
        rejects_drained: get("on_drained").and_then(Node::text) == Some("reject"),
        fail_closed: get("fail").and_then(Node::text) == Some("closed"),
        max_attempts: max_attempts.unwrap_or(MAX_ATTEMPTS),
    }
}

fn stranger(node: &Node, tenants: &Tenants, ground: &mut Ground<'_, '_>) -> Option<StrangerPolicy> {
    match node.text()? {
        "anonymous" => Some(StrangerPolicy::Anonymous),
        "reject" => Some(StrangerPolicy::Reject),
        name => {
            if let Some(id) = tenants.ids.get(name) {
                return Some(StrangerPolicy::As(*id));
            }
            let names = ["anonymous", "reject"].into_iter().chain(tenants.ids.keys().map(TenantName::as_str));
            let hint = ground.findings.meant(name, names, "write `anonymous`, `reject`, or a name under `tenants`");
            ground.findings.error("unknown-tenant", &node.place, format!("there is no tenant `{name}`"), hint);
            None
        }
    }
}

fn without_known_model(node: &Node, no_model_chain: &'static str, ground: &mut Ground<'_, '_>) -> UnknownModelPolicy {
    match node.text() {
        Some("reject") => UnknownModelPolicy::Reject,
        Some(_) => UnknownModelPolicy::PassThrough,
        None => {
            let refused = ModelChain::Refused(no_model_chain);
            ground
                .groups
                .chain(node, &node.place, refused, ground.clusters, ground.findings)
                .map_or(UnknownModelPolicy::Reject, UnknownModelPolicy::Chain)
        }
    }
}
