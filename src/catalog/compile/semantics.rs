//! What a good catalog becomes: folding of tiers, what restricts, defaults, the revision.

use super::{Accepted, compile};
use crate::catalog::expectations::{Expect, TenantSelector};
use crate::catalog::load::SourceFile;
use crate::catalog::snapshot::{Drain, Entry, Mode, Served, Snapshot, StrangerPolicy, Tenant, UnknownModelPolicy};

pub(super) const GROUND: &str = r#"
version: 1
providers: {openai: {}, azure: {}, vllm: {drained: true}}
clusters:
  a: {provider: openai, tags: [eu, paid], models: {gpt: gpt-at-a, llama: llama}}
  b: {provider: azure, tags: [us], models: [gpt]}
  c: {provider: vllm, tags: [us]}
  d: {provider: azure, drained: true}
priority_groups:
  first: {clusters: [{cluster_name: a, weight: 80}, {cluster_name: b, weight: 0}]}
  second: {clusters: [{cluster_name: c, weight: 1}, {cluster_name: d, weight: 1}, {cluster_name: unlisted, weight: 1}]}
  envoy: {}
models:
  gpt: {aliases: [o3, "o3-*", "o3-mini-*"], chain: [first, envoy]}
  llama: {chain: [first, second, first], endpoint_metadata: {stage: prod}, endpoint_fallbacks: [{}, {stage: canary}], fail: closed}
"#;

fn files(texts: &[&str]) -> Vec<SourceFile> {
    texts.iter().zip('a'..).map(|(text, name)| SourceFile::new(&format!("{name}.yaml"), text)).collect()
}

pub(super) fn accepted(texts: &[&str]) -> Accepted {
    compile(&files(texts)).unwrap()
}

fn snapshot(more: &str) -> Snapshot {
    accepted(&[GROUND, more]).snapshot
}

fn tenant<'s>(snapshot: &'s Snapshot, name: &str) -> &'s Tenant {
    snapshot.tenant(snapshot.tenant_ids[name])
}

fn groups(snapshot: &Snapshot, entries: &[Entry]) -> String {
    let name = |entry: &Entry| match entry {
        Entry::Group(id) => snapshot.group(*id).name.to_string(),
        Entry::ModelChain => "model_chain".to_owned(),
    };
    entries.iter().map(name).collect::<Vec<_>>().join(" ")
}

#[test]
fn clusters_groups_and_models_are_what_they_say() {
    let snapshot = snapshot("label: now");
    let cluster = |name: &str| snapshot.cluster(snapshot.cluster_ids[name]);
    assert_eq!((cluster("c").drain, cluster("d").drain, cluster("a").drain), (Some(Drain::Provider), Some(Drain::Cluster), None));
    let Served::Only(served) = &cluster("a").served else { panic!() };
    assert_eq!(served[&snapshot.model_ids["gpt"]].as_deref(), Some("gpt-at-a"));
    assert_eq!(served[&snapshot.model_ids["llama"]], None, "the same name needs no mapping");
    assert!(matches!(&cluster("b").served, Served::Only(served) if served.len() == 1));
    assert!(!cluster("unlisted").listed && matches!(cluster("unlisted").served, Served::Every));
    let first = snapshot.group(snapshot.group_ids["first"]);
    assert_eq!(first.clusters.iter().map(|(_, weight)| *weight).collect::<Vec<_>>(), [80, 0]);
    assert!(snapshot.group(snapshot.group_ids["envoy"]).clusters.is_empty());
    assert_eq!(snapshot.model_ids["o3"], snapshot.model_ids["gpt"]);
    assert_eq!(snapshot.model_patterns.iter().map(|(pattern, _)| pattern.as_str()).collect::<Vec<_>>(), ["o3-mini-*", "o3-*"]);
    let llama = snapshot.model(snapshot.model_ids["llama"]);
    assert_eq!(groups(&snapshot, &llama.chain.entries), "first second first");
    assert_eq!(serde_json::json!(llama.endpoint_metadata), serde_json::json!([{"stage": "prod"}, {}, {"stage": "canary"}]));
    assert!(llama.fail_closed && !snapshot.model(snapshot.model_ids["gpt"]).fail_closed);
    assert_eq!(
        (llama.place.to_string(), llama.chain.places[1].to_string()),
        ("a.yaml:15:3".to_owned(), "a.yaml:15:26".to_owned())
    );
    assert_eq!(snapshot.label.as_deref(), Some("now"));
}

#[test]
fn defaults_depend_on_whether_there_are_tenants() {
    for (text, missing) in [("{}", StrangerPolicy::Anonymous), ("tenants: {acme: {}}", StrangerPolicy::Reject)] {
        let defaults = snapshot(text).defaults;
        assert_eq!((defaults.missing_tenant, defaults.unknown_tenant), (missing, StrangerPolicy::Reject));
        assert!(matches!(defaults.unknown_model, UnknownModelPolicy::PassThrough) && defaults.missing_model.is_none());
        assert!(!defaults.fail_closed && defaults.max_attempts == 8);
    }
    let with = snapshot(
        "tenants: {acme: {}}\ndefaults: {missing_tenant: acme, unknown_tenant: anonymous, unknown_model: [envoy], missing_model: [first], fail: closed, max_attempts: 2}",
    );
    assert_eq!(with.defaults.missing_tenant, StrangerPolicy::As(with.tenant_ids["acme"]));
    assert_eq!(with.defaults.unknown_tenant, StrangerPolicy::Anonymous);
    assert!(matches!(&with.defaults.unknown_model, UnknownModelPolicy::Chain(chain) if groups(&with, &chain.entries) == "envoy"));
    assert!(
        matches!(&with.defaults.missing_model, Some(UnknownModelPolicy::Chain(chain)) if groups(&with, &chain.entries) == "first")
    );
    assert!(with.defaults.fail_closed && with.defaults.max_attempts == 2);
}

#[test]
fn a_tier_is_folded_into_its_tenants() {
    let snapshot = snapshot(
        r#"
tiers:
  t:
    allowed_models: ["gpt*"]
    denied_models: [llama]
    chains: {gpt: [first], "l*": [second], "*": [envoy]}
    require_tags: [eu]
    forbid_tags: [us]
    forbid_providers: [vllm]
    mode: shadow
tenants:
  plain: {tier: t}
  own:
    tier: t
    allowed_models: ["*"]
    denied_models: [gpt]
    chains: {gpt: [second, {name: inline, clusters: [{cluster_name: a, weight: 3}]}], "ll*": [first]}
    require_tags: [paid]
    forbid_providers: [azure]
    mode: enforce
"#,
    );
    let patterns = |rules: &[(crate::catalog::pattern::Pattern, _)]| {
        rules.iter().map(|(pattern, _)| pattern.as_str().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let tags = |set: &crate::catalog::snapshot::TagSet| {
        set.iter().map(|tag| snapshot.tags[tag.index()].clone()).collect::<Vec<_>>().join(" ")
    };
    let plain = tenant(&snapshot, "plain");
    assert_eq!((patterns(&plain.allowed_models), patterns(&plain.denied_models)), ("gpt*".into(), "llama".into()));
    assert_eq!((plain.mode, plain.fail_closed, plain.tier.as_ref().unwrap().as_str()), (Mode::Shadow, true, "t"));
    assert_eq!(plain.allowed_models[0].1.to_string(), "b.yaml:4:22", "a tier's rule keeps the tier's place");
    assert_eq!(plain.chains.exact["gpt"].place.to_string(), "b.yaml:6:14");
    let own = tenant(&snapshot, "own");
    assert_eq!((patterns(&own.allowed_models), patterns(&own.denied_models)), ("*".into(), "gpt llama".into()));
    assert_eq!((tags(&own.require_tags), tags(&own.forbid_tags)), ("eu paid".into(), "us".into()));
    assert_eq!(
        own.forbid_providers.iter().map(|id| snapshot.providers[id.index()].as_str()).collect::<Vec<_>>(),
        ["azure", "vllm"]
    );
    assert_eq!(own.mode, Mode::Enforce);
    assert_eq!(groups(&snapshot, &own.chains.exact["gpt"].entries), "second inline");
    let keys: Vec<String> = own
        .chains
        .patterns
        .iter()
        .map(|(key, chain)| format!("{} {}", key.as_str(), groups(&snapshot, &chain.entries)))
        .collect();
    assert_eq!(keys, ["ll* first", "l* second"]);
    assert_eq!(groups(&snapshot, &own.chains.any.as_ref().unwrap().entries), "envoy");
}

#[test]
fn restrictions_and_the_strictest_fail_close_a_tenant() {
    for (rules, tier, closed) in [
        ("", "", false),
        ("allowed_models: [\"*\"]", "", false),
        ("fail: open", "", false),
        ("mode: shadow", "", false),
        ("chains: {gpt: [envoy]}", "", false),
        ("denied_models: []", "require_tags: []", false),
        ("fail: closed", "", true),
        ("allowed_models: [gpt]", "", true),
        ("allowed_models: []", "", true),
        ("allowed_models: [\"*\", gpt]", "", true),
        ("denied_models: [gpt]", "", true),
        ("require_tags: [eu]", "", true),
        ("forbid_tags: [eu]", "", true),
        ("forbid_providers: [azure]", "", true),
        ("fail: open, forbid_providers: [azure]", "", true),
        ("fail: open", "fail: closed", true),
        ("fail: closed", "fail: open", true),
        ("", "fail: closed", true),
        ("allowed_models: [\"*\"]", "allowed_models: [gpt]", false),
        ("denied_models: []", "denied_models: [gpt]", true),
    ] {
        let snapshot = snapshot(&format!("tiers: {{t: {{{tier}}}}}\ntenants: {{acme: {{tier: t, {rules}}}}}"));
        assert_eq!(tenant(&snapshot, "acme").fail_closed, closed, "{rules} over {tier}");
    }
}

#[test]
fn keys_are_known_by_their_hash_in_either_case() {
    let snapshot =
        snapshot(&format!("tenants: {{acme: {{api_keys: [sha256:{}, \"sha256:{}\"]}}}}", "aB".repeat(32), "00".repeat(32)));
    assert_eq!(snapshot.api_keys[&[0xab; 32]], snapshot.tenant_ids["acme"]);
    assert_eq!(snapshot.api_keys.len(), 2);
}

#[test]
fn tests_and_invariants_become_data() {
    let snapshot = snapshot(
        r#"
tests:
- {request: {model: o3, headers: {X-A: b}, body: {model: o3}}, expect: {clusters: [[a], [b, c]]}}
- {name: n, request: {body: text}, expect: {reject: no_cluster_left}}
invariants:
- {never: [pass_through, reject]}
- {name: i, tenants: "tier:*", models: "gp*", only_tags: [eu], never_tags: [us], only_providers: [azure], never_providers: [vllm]}
tiers: {t: {}}
tenants: {acme: {tier: t}}
"#,
    );
    let [first, second] = snapshot.expectations.tests.as_slice() else { panic!() };
    assert_eq!((first.name.as_str(), second.name.as_str(), first.place.to_string()), ("test 1", "n", "b.yaml:3:3".to_owned()));
    assert_eq!(first.request.headers, [("x-a".to_owned(), "b".to_owned())]);
    assert_eq!((first.request.body.as_deref(), second.request.body.as_deref()), (Some("{\"model\":\"o3\"}"), Some("text")));
    assert!(matches!(&first.expect, Expect::Clusters(clusters) if clusters[1] == ["b", "c"]));
    let [never, rules] = snapshot.expectations.invariants.as_slice() else { panic!() };
    assert!(
        never.never_pass_through && never.never_reject && matches!(&never.tenants, TenantSelector::Named(all) if all.is_any())
    );
    assert!(matches!(&rules.tenants, TenantSelector::Tier(pattern) if pattern.is_any()));
    assert_eq!(
        (rules.only_tags.len(), rules.never_tags.len(), rules.only_providers.len(), rules.never_providers.len()),
        (1, 1, 1, 1)
    );
}

#[test]
fn nothing_written_is_an_empty_mapping() {
    let snapshot = snapshot("tenants:\n  acme:\n  globex: {tier: t, chains: }\ntiers:\n  t:\n");
    assert_eq!(snapshot.tenants.len(), 2);
    let drained = accepted(&[GROUND, "providers: {openai: }", "providers: {openai: {drained: true}}", "tests: []"]).snapshot;
    assert_eq!(drained.cluster(drained.cluster_ids["a"]).drain, Some(Drain::Provider));
}

#[test]
fn the_revision_is_that_of_what_is_said() {
    let revision = |texts: &[&str]| accepted(texts).snapshot.revision;
    let same = [
        vec!["version: 1\nproviders: {a: {}, b: {drained: true}}\nclusters: {c: {provider: a}, d: {provider: b}}\ntests: []\n"],
        vec![
            "# other words\nclusters:\n  \"d\": {'provider': b}\n  c: {provider: a}\nproviders: {b: {drained: true}, a: {}}\ntests:\n  []\nversion: 1",
        ],
        vec![
            "version: 1\nproviders: {b: {drained: true}}\ntests: []",
            "version: 1\nproviders: {a: {}}\nclusters: {d: {provider: b}}",
            "clusters: {c: {provider: a}}",
        ],
        vec![
            "{\"$schema\": \"x\", \"version\": 1, \"tests\": [], \"providers\": {\"a\": {}, \"b\": {\"drained\": true}}, \"clusters\": {\"c\": {\"provider\": \"a\"}, \"d\": {\"provider\": \"b\"}}}",
        ],
    ];
    let first = revision(&same[0]);
    assert!(first.0.len() == 16 && first.0.bytes().all(|digit| digit.is_ascii_hexdigit()));
    for texts in &same {
        assert_eq!(revision(texts), first, "{texts:?}");
    }
    for other in [
        "label: x",
        "version: 1\nlabel: x",
        "providers: {}",
        "clusters: {c: {tags: [x, y]}}",
        "clusters: {c: {tags: [y, x]}}",
        "clusters: {c: {tags: [xy]}}",
    ] {
        assert_ne!(revision(&[other]), first, "{other}");
    }
    assert_ne!(revision(&["clusters: {c: {tags: [x, y]}}"]), revision(&["clusters: {c: {tags: [y, x]}}"]));
    let test = |name: &str| format!("tests: [{{name: {name}, request: {{}}, expect: {{reject: missing_tenant}}}}]");
    assert_eq!(revision(&[&test("a"), &test("b")]), revision(&[&test("b"), &test("a")]), "tests of several files have no order");
}
