//! The compiled catalog: what a request is judged by. It cannot be invalid: every id points somewhere, every chain has an entry,
//! tiers are folded into their tenants. It is built by `compile` alone and never changes afterwards; it does not know files,
//! bytes or how it came to be, but for the [`Place`]s that `explain` shows.

mod ids;

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

pub use self::ids::{ClusterId, GroupId, ModelId, ProviderId, TagId, TagSet, TenantId};
use super::path_prefix::PathPrefix;
use super::pattern::{Pattern, PatternTable};
use crate::diagnostic::Place;
use crate::names::{ClusterName, GroupName, ModelName, ProviderName, TenantName, TierName};

/// A cluster that a group names. One without an entry under `clusters` has no provider, no tags, and serves every model.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub name: ClusterName,
    /// False if the catalog has no entry for it.
    pub listed: bool,
    pub provider: Option<ProviderId>,
    pub tags: TagSet,
    pub served: Served,
    /// How paths begin there, where that differs from the gateway.
    pub path_prefix: Option<PathPrefix>,
    /// Drained itself or by its provider.
    pub drain: Option<Drain>,
    pub place: Place,
}

/// Why a cluster is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drain {
    Cluster,
    Provider,
}

/// Which models a cluster serves.
#[derive(Debug, Clone)]
pub enum Served {
    /// No `models` key: every model, also one the catalog does not know.
    Every,
    /// Only these; the value is what the cluster calls the model, where that differs from the catalog's name.
    Only(HashMap<ModelId, Option<String>>),
}

/// A group of `priority_groups`, or one written inside a chain.
#[derive(Debug, Clone)]
pub struct Group {
    pub name: GroupName,
    /// In the catalog's order, weights as written (0 leaves the cluster out). Empty: Envoy's own configured group of that name.
    pub clusters: Vec<(ClusterId, u32)>,
    pub inline: bool,
    pub place: Place,
}

/// An entry of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Entry {
    Group(GroupId),
    /// The model's own chain, in place.
    ModelChain,
}

/// Attempt order; never empty.
#[derive(Debug, Clone)]
pub struct Chain {
    pub entries: Vec<Entry>,
    /// Where each entry stands.
    pub places: Vec<Place>,
    /// Where the chain's key stands, or the chain itself where it has no key of its own.
    pub place: Place,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub name: ModelName,
    /// As written: exact names and patterns.
    pub aliases: Vec<Pattern>,
    /// Holds no [`Entry::ModelChain`].
    pub chain: Chain,
    /// Complete entries for `envoy.lb`, best first: the model's `endpoint_metadata`, then `endpoint_fallbacks`. Empty: none.
    pub endpoint_metadata: Vec<serde_json::Map<String, serde_json::Value>>,
    /// How long one attempt may take, at least a millisecond; `None`: as the settings say.
    pub attempt_timeout: Option<Duration>,
    /// The same where the answer streams.
    pub stream_attempt_timeout: Option<Duration>,
    pub fail_closed: bool,
    pub place: Place,
}

/// A tenant with its tier folded in.
#[derive(Debug, Clone)]
pub struct Tenant {
    pub name: TenantName,
    pub tier: Option<TierName>,
    /// Shared by all tenants that are no more than a name in a tier: most of a large catalog.
    pub rules: Arc<TenantRules>,
    pub place: Place,
}

impl Deref for Tenant {
    type Target = TenantRules;

    fn deref(&self) -> &TenantRules {
        &self.rules
    }
}

/// What a tenant is judged by.
#[derive(Debug, Clone)]
pub struct TenantRules {
    /// `["*"]` allows everything.
    pub allowed_models: Vec<(Pattern, Place)>,
    pub denied_models: Vec<(Pattern, Place)>,
    pub chains: TenantChains,
    pub require_tags: TagSet,
    pub forbid_tags: TagSet,
    pub forbid_providers: Vec<ProviderId>,
    /// The same three with the place where each stands, for `explain`.
    pub restrictions: Vec<(Restriction, Place)>,
    /// Any restriction, or `fail: closed` on the tenant or its tier (rule 2).
    pub fail_closed: bool,
    pub mode: Mode,
}

impl TenantRules {
    /// All that the tenant is judged by, without places: equal for tenants that get equal answers.
    #[must_use]
    pub fn rules_text(&self) -> String {
        let patterns =
            |list: &[(Pattern, Place)]| list.iter().map(|(pattern, _)| pattern.as_str().to_owned()).collect::<Vec<_>>();
        let mut exact: Vec<_> = self.chains.exact.iter().map(|(key, chain)| (key, &chain.entries)).collect();
        exact.sort_by_key(|(key, _)| *key);
        let by_pattern: Vec<_> = self.chains.patterns.iter().map(|(key, chain)| (key.as_str(), &chain.entries)).collect();
        let chains = (exact, by_pattern, self.chains.any.as_ref().map(|chain| &chain.entries));
        let models = (patterns(&self.allowed_models), patterns(&self.denied_models));
        let clusters = (&self.require_tags, &self.forbid_tags, &self.forbid_providers);
        format!("{:?}", (models, chains, clusters, self.fail_closed, self.mode))
    }

    /// True if the tenant may not use every model.
    #[must_use]
    pub fn limits_models(&self) -> bool {
        !self.denied_models.is_empty() || !self.allowed_models.iter().any(|(pattern, _)| pattern.is_any())
    }

    /// True if the tenant's tags or providers can exclude a cluster; groups known only by name are then left out.
    #[must_use]
    pub fn restricts_clusters(&self) -> bool {
        !self.require_tags.is_empty() || !self.forbid_tags.is_empty() || !self.forbid_providers.is_empty()
    }
}

/// A rule that keeps clusters from a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restriction {
    RequireTag(TagId),
    ForbidTag(TagId),
    ForbidProvider(ProviderId),
}

/// `chains` of a tenant merged over those of its tier.
#[derive(Debug, Clone, Default)]
pub struct TenantChains {
    /// Keys without `*`.
    pub exact: HashMap<String, Chain>,
    /// Keys with `*` but not `*` itself, best rank first.
    pub patterns: Vec<(Pattern, Chain)>,
    /// The key `*`.
    pub any: Option<Chain>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Enforce,
    Shadow,
}

/// What to do about a tenant that is missing or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrangerPolicy {
    /// No tenant: no restrictions, the models' own chains.
    Anonymous,
    Reject,
    As(TenantId),
}

/// What to do about a model that is unknown, or about a request that names none by nature.
#[derive(Debug, Clone)]
pub enum UnknownModelPolicy {
    PassThrough,
    Reject,
    /// Holds no [`Entry::ModelChain`].
    Chain(Chain),
}

#[derive(Debug, Clone)]
pub struct Defaults {
    pub missing_tenant: StrangerPolicy,
    pub unknown_tenant: StrangerPolicy,
    pub unknown_model: UnknownModelPolicy,
    /// A chain that a drain has emptied is refused, for everybody.
    pub rejects_drained: bool,
    /// For requests that name no model by nature. `None`: as for any other request without a model.
    pub missing_model: Option<UnknownModelPolicy>,
    pub fail_closed: bool,
    /// The longest chain that is sent; at least 1.
    pub max_attempts: usize,
}

/// Whether a restriction or `fail: closed` keeps anybody from the static chain: the strictest rule of the catalog, for a request of
/// which nobody knows whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Closed {
    /// Some tenant, or everybody by `defaults.fail`.
    pub anybody: bool,
    pub any_model: bool,
}

/// Hash of the catalog's content: equal content, equal revision, whatever the files' names and times.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision(pub Arc<str>);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A whole accepted catalog.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// A model limits its attempts.
    pub limits_attempts: bool,
    pub revision: Revision,
    pub label: Option<Arc<str>>,
    pub clusters: Vec<Cluster>,
    pub groups: Vec<Group>,
    pub models: Vec<Model>,
    pub tenants: Vec<Tenant>,
    pub providers: Vec<ProviderName>,
    pub tags: Vec<String>,
    pub cluster_ids: HashMap<ClusterName, ClusterId>,
    /// Groups of `priority_groups`, not inline ones.
    pub group_ids: HashMap<GroupName, GroupId>,
    /// Catalog names and exact aliases.
    pub model_ids: HashMap<String, ModelId>,
    /// Aliases with `*`.
    pub model_patterns: PatternTable<ModelId>,
    /// Some tenant may not use every model.
    pub limits_models: bool,
    pub tenant_ids: HashMap<TenantName, TenantId>,
    /// SHA-256 of an API key → whose it is.
    pub api_keys: HashMap<[u8; 32], TenantId>,
    pub closed: Closed,
    pub defaults: Defaults,
    /// `tests` and `invariants`: run before a snapshot is accepted.
    pub expectations: super::expectations::Expectations,
}

impl Snapshot {
    #[must_use]
    pub fn cluster(&self, id: ClusterId) -> &Cluster {
        &self.clusters[id.index()]
    }

    #[must_use]
    pub fn group(&self, id: GroupId) -> &Group {
        &self.groups[id.index()]
    }

    #[must_use]
    pub fn model(&self, id: ModelId) -> &Model {
        &self.models[id.index()]
    }

    #[must_use]
    pub fn tenant(&self, id: TenantId) -> &Tenant {
        &self.tenants[id.index()]
    }
}
