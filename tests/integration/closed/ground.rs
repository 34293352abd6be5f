//! Random catalogs and bodies, and who may do what in them, said without the code that is tested.

use proptest::prelude::*;

/// By the header `x-tenant`; all but the first are restricted.
pub const TENANTS: [&str; 7] = ["open", "eu", "nous", "noprov", "allow", "deny", "closed"];

pub fn is_restricted(tenant: &str) -> bool {
    tenant != "open"
}

/// Whether the tenant's restrictions let it use the model of that name.
pub fn may_name(tenant: &str, model: &str) -> bool {
    match tenant {
        "allow" => model == "m" || model.starts_with("m-"),
        "deny" => model != "n",
        _ => true,
    }
}

#[derive(Debug, Clone)]
pub struct Cluster {
    eu: bool,
    us: bool,
    provider: u8,
}

#[derive(Debug, Clone)]
pub struct Ground {
    clusters: Vec<Cluster>,
    /// Clusters of each group; none: known to Envoy alone.
    groups: Vec<Vec<usize>>,
    chains: [Vec<usize>; 2],
    missing_tenant: &'static str,
    unknown_model: &'static str,
}

impl Ground {
    pub fn plain() -> Self {
        let cluster = Cluster { eu: true, us: false, provider: 2 };
        Self {
            clusters: vec![cluster],
            groups: vec![vec![0]],
            chains: [vec![0], vec![0]],
            missing_tenant: "reject",
            unknown_model: "reject",
        }
    }

    pub fn catalog(&self) -> String {
        let mut text = "version: 1\nclusters:\n  anchor: {provider: p1, tags: [eu, us]}\n".to_owned();
        for (index, Cluster { eu, us, provider }) in self.clusters.iter().enumerate() {
            let tags: Vec<&str> = [("eu", *eu), ("us", *us)].iter().filter(|(_, on)| *on).map(|(tag, _)| *tag).collect();
            text.push_str(&format!("  c{index}: {{provider: p{provider}, tags: [{}]}}\n", tags.join(", ")));
        }
        text.push_str("priority_groups:\n  anchor: {clusters: [{cluster_name: anchor, weight: 1}]}\n");
        for (index, group) in self.groups.iter().enumerate() {
            let clusters: Vec<String> = group.iter().map(|id| format!("{{cluster_name: c{id}, weight: 1}}")).collect();
            text.push_str(&format!("  g{index}: {{clusters: [{}]}}\n", clusters.join(", ")));
        }
        let chain = |chain: &[usize]| chain.iter().map(|id| format!("g{id}")).collect::<Vec<_>>().join(", ");
        text.push_str(&format!(
            "models:\n  m: {{aliases: [\"m-*\"], chain: [{}]}}\n  n: {{chain: [{}]}}\n  anchored: {{chain: [anchor]}}\n",
            chain(&self.chains[0]),
            chain(&self.chains[1])
        ));
        text.push_str(&format!(
            "tenants:\n  open: {{}}\n  eu: {{require_tags: [eu]}}\n  nous: {{forbid_tags: [us]}}\n  noprov: {{forbid_providers: [p1]}}\n  \
             allow: {{allowed_models: [m]}}\n  deny: {{denied_models: [n]}}\n  closed: {{fail: closed}}\n\
             defaults: {{missing_tenant: {}, unknown_tenant: {}, unknown_model: {}}}\n",
            self.missing_tenant, self.missing_tenant, self.unknown_model
        ));
        text
    }

    /// Whether the tenant may use a group as it is sent: its clusters by name, none of a group that only Envoy knows.
    pub fn may_use(&self, tenant: &str, group: &[String]) -> bool {
        let is_restricted = matches!(tenant, "eu" | "nous" | "noprov");
        if group.is_empty() {
            return !is_restricted;
        }
        group.iter().all(|name| {
            let anchor = Cluster { eu: true, us: true, provider: 1 };
            let cluster = name.strip_prefix('c').map_or(&anchor, |id| &self.clusters[id.parse::<usize>().unwrap()]);
            match tenant {
                "eu" => cluster.eu,
                "nous" => !cluster.us,
                "noprov" => cluster.provider != 1,
                _ => true,
            }
        })
    }
}

pub fn grounds() -> impl Strategy<Value = Ground> {
    let cluster = (any::<bool>(), any::<bool>(), 1..3_u8).prop_map(|(eu, us, provider)| Cluster { eu, us, provider });
    let group = proptest::collection::btree_set(0..4_usize, 0..3).prop_map(|ids| ids.into_iter().collect());
    let chain = || proptest::collection::vec(0..3_usize, 1..4);
    (
        proptest::collection::vec(cluster, 4),
        proptest::collection::vec(group, 3),
        (chain(), chain()),
        proptest::sample::select(vec!["reject", "anonymous", "open"]),
        proptest::sample::select(vec!["reject", "pass_through", "[anchor]"]),
    )
        .prop_map(|(clusters, groups, (m, n), missing_tenant, unknown_model)| Ground {
            clusters,
            groups,
            chains: [m, n],
            missing_tenant,
            unknown_model,
        })
}

/// A body in parts, with the models that any parser may find in it.
#[derive(Debug, Clone)]
pub struct Body {
    members: Vec<(&'static str, String)>,
    /// How many bytes are missing at its end.
    cut: usize,
}

impl Body {
    pub fn naming(model: &str) -> Self {
        Self { members: vec![("model", format!("\"{model}\""))], cut: 0 }
    }

    pub fn text(&self) -> String {
        let members: Vec<String> = self.members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        let text = format!("{{{}}}", members.join(","));
        text[..text.len().saturating_sub(self.cut)].to_owned()
    }

    pub fn models(&self) -> impl Iterator<Item = &str> {
        let named = self.members.iter().filter(|(key, _)| key.eq_ignore_ascii_case("model"));
        named.filter_map(|(_, value)| value.strip_prefix('"')?.strip_suffix('"'))
    }
}

pub fn body() -> impl Strategy<Value = Body> {
    let model = || proptest::sample::select(vec!["\"m\"", "\"n\"", "\"m-1\"", "\"strange\"", "7", "null"]);
    let member = prop_oneof![
        4 => model().prop_map(|value| ("model", value.to_owned())),
        1 => model().prop_map(|value| ("Model", value.to_owned())),
        2 => (0..40_usize).prop_map(|length| ("prompt", format!("\"{}\"", "x".repeat(length)))),
        1 => Just(("deep", format!("{}{}", "[".repeat(129), "]".repeat(129)))),
        1 => Just(("odd", "NaN".to_owned())),
    ];
    (proptest::collection::vec(member, 0..5), prop_oneof![4 => Just(0_usize), 1 => 1..5_usize])
        .prop_map(|(members, cut)| Body { members, cut })
}
