//! What must hold for every catalog, every request and every session: no answer names a cluster that the tenant, the model or a drain excludes,
//! a restricted tenant never passes through, the same input gives the same answer, and the order of files does not matter. The
//! oracle reads the document that was generated, not the compiled snapshot.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::chain::Step;
use crate::catalog::compile::compile;
use crate::catalog::load::SourceFile;
use crate::catalog::snapshot::{ClusterId, GroupId, Snapshot};
use crate::explain::{Explanation, Question, Rules, explain, explain_with};
use crate::health::Seen;
use crate::outcome::Outcome;
use crate::session::{Answer, Placement, State};

const CLUSTERS: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "c5"];
const MODELS: [&str; 4] = ["m0", "m1", "m2", "m3"];
const GROUPS: [&str; 5] = ["g0", "g1", "g2", "g3", "g4"];
const PROVIDERS: [&str; 3] = ["p0", "p1", "p2"];
const TAGS: [&str; 3] = ["t0", "t1", "t2"];

fn some_of(all: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(all, 0..=most)
}

fn cluster() -> impl Strategy<Value = Value> {
    (
        proptest::sample::select(&PROVIDERS[..]),
        some_of(&TAGS, 3),
        proptest::option::of(some_of(&MODELS, 3)),
        prop::bool::weighted(0.15),
    )
        .prop_map(|(provider, tags, models, drained)| {
            let mut cluster = json!({"provider": provider, "tags": tags, "drained": drained});
            if let Some(models) = models.filter(|models| !models.is_empty()) {
                cluster["models"] = json!(models);
            }
            cluster
        })
}

fn group() -> impl Strategy<Value = Value> {
    let clusters = proptest::collection::vec((proptest::sample::select(&CLUSTERS[..]), 0..4_u32), 0..4);
    clusters.prop_map(|clusters| {
        let mut seen: Vec<&str> = Vec::new();
        let unique = clusters.into_iter().filter(|(name, _)| {
            let new = !seen.contains(name);
            seen.push(name);
            new
        });
        let clusters: Vec<Value> = unique.map(|(name, weight)| json!({"cluster_name": name, "weight": weight})).collect();
        if clusters.is_empty() { json!({}) } else { json!({"clusters": clusters}) }
    })
}

fn chain(with_own: bool) -> impl Strategy<Value = Value> {
    let entry = (proptest::sample::select(&GROUPS[..]), 0..6_u8)
        .prop_map(move |(group, kind)| if kind == 0 && with_own { json!("model_chain") } else { json!(group) });
    proptest::collection::vec(entry, 1..5).prop_map(Value::from)
}

fn rules() -> impl Strategy<Value = Value> {
    (
        (some_of(&TAGS, 1), some_of(&TAGS, 1), some_of(&PROVIDERS, 1), some_of(&MODELS, 1)),
        proptest::option::of(some_of(&MODELS, 3)),
        proptest::option::of((proptest::sample::select(&["m0", "m*", "*", "m1", "own"][..]), chain(true))),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.15),
    )
        .prop_map(|((require, forbid, providers, denied), allowed, chains, closed, shadow)| {
            let mut rules =
                json!({"require_tags": require, "forbid_tags": forbid, "forbid_providers": providers, "denied_models": denied});
            if let Some(allowed) = allowed {
                rules["allowed_models"] = json!(allowed);
            }
            if let Some((key, chain)) = chains {
                rules["chains"] = json!({key: chain});
            }
            rules["fail"] = json!(if closed { "closed" } else { "open" });
            rules["mode"] = json!(if shadow { "shadow" } else { "enforce" });
            rules
        })
}

fn catalog() -> impl Strategy<Value = Value> {
    let models = proptest::collection::vec((chain(false), prop::bool::weighted(0.2)), MODELS.len());
    let tenants = proptest::collection::vec((rules(), proptest::option::of(0..2_usize)), 1..4);
    let parts = (
        proptest::collection::vec(cluster(), CLUSTERS.len() - 1),
        proptest::collection::vec(group(), GROUPS.len()),
        models,
        proptest::collection::vec(rules(), 2),
        tenants,
        proptest::collection::vec(prop::bool::weighted(0.2), PROVIDERS.len()),
        1..6_u32,
    );
    parts.prop_map(|(clusters, groups, models, tiers, tenants, drained, max_attempts)| {
        // The last cluster has no entry; a cluster carries every tag and provider, so that every rule names something.
        let mut document = json!({"version": 1, "defaults": {"max_attempts": max_attempts, "missing_tenant": "anonymous"}});
        for (name, cluster) in CLUSTERS.iter().zip(clusters) {
            document["clusters"][name] = cluster;
        }
        for (index, provider) in PROVIDERS.iter().enumerate() {
            document["clusters"][format!("all{index}")] = json!({"provider": provider, "tags": TAGS});
            document["providers"][provider] = json!({"drained": drained[index]});
        }
        for (name, group) in GROUPS.iter().zip(groups) {
            document["priority_groups"][name] = group;
        }
        for (name, (chain, closed)) in MODELS.iter().zip(models) {
            document["models"][name] =
                json!({"chain": chain, "aliases": [format!("{name}-*")], "fail": if closed { "closed" } else { "open" }});
        }
        for (index, tier) in tiers.into_iter().enumerate() {
            document["tiers"][format!("tier{index}")] = tier;
        }
        for (index, (mut tenant, tier)) in tenants.into_iter().enumerate() {
            if let Some(tier) = tier {
                tenant["tier"] = json!(format!("tier{tier}"));
            }
            document["tenants"][format!("tenant{index}")] = tenant;
        }
        document
    })
}

/// One section a file.
fn files(document: &Value) -> Vec<SourceFile> {
    let sections = document.as_object().unwrap().iter().filter(|(name, _)| *name != "version");
    sections
        .map(|(name, section)| SourceFile::new(&format!("{name}.json"), &json!({"version": 1, name: section}).to_string()))
        .collect()
}

fn snapshot(files: &[SourceFile]) -> Snapshot {
    compile(files).unwrap_or_else(|found| panic!("{found:#?}")).snapshot
}

/// A list of the tenant and its tier together.
fn list(document: &Value, tenant: &str, key: &str) -> Vec<String> {
    let tenant = &document["tenants"][tenant];
    let tier = tenant["tier"].as_str().map(|tier| &document["tiers"][tier]);
    let lists = [Some(tenant), tier].into_iter().flatten().filter_map(|rules| rules[key].as_array());
    lists.flatten().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn is_restricted(document: &Value, tenant: &str) -> bool {
    let tier = document["tenants"][tenant]["tier"].as_str();
    let says = |rules: &Value| {
        rules["fail"] == "closed" || rules["allowed_models"].as_array().is_some_and(|list| *list != vec![json!("*")])
    };
    ["denied_models", "require_tags", "forbid_tags", "forbid_providers"].iter().any(|key| !list(document, tenant, key).is_empty())
        || says(&document["tenants"][tenant])
        || tier.is_some_and(|tier| document["tiers"][tier]["fail"] == "closed")
        || (document["tenants"][tenant]["allowed_models"].is_null() && tier.is_some_and(|tier| says(&document["tiers"][tier])))
}

fn check_cluster(document: &Value, tenant: Option<&str>, model: Option<&str>, name: &str) {
    let cluster = &document["clusters"][name];
    let provider = cluster["provider"].as_str();
    let tags: Vec<&str> = cluster["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_ne!(cluster["drained"], true, "{name} is drained");
    assert!(provider.is_none_or(|provider| document["providers"][provider]["drained"] != true), "{name}'s provider is drained");
    if let Some(models) = cluster["models"].as_array() {
        assert!(model.is_some_and(|model| models.contains(&json!(model))), "{name} does not serve {model:?}");
    }
    let Some(tenant) = tenant else { return };
    assert!(list(document, tenant, "require_tags").iter().all(|tag| tags.contains(&tag.as_str())), "{name} lacks a tag");
    assert!(!list(document, tenant, "forbid_tags").iter().any(|tag| tags.contains(&tag.as_str())), "{name} has a forbidden tag");
    assert!(
        !list(document, tenant, "forbid_providers").iter().any(|forbidden| provider == Some(forbidden)),
        "{name}'s provider is forbidden"
    );
}

fn check(document: &Value, answer: &Explanation<'_>, tenant: Option<&str>) {
    let json = answer.to_json();
    let restricts = |key| tenant.is_some_and(|tenant| !list(document, tenant, key).is_empty());
    let by_name_allowed = !restricts("require_tags") && !restricts("forbid_tags") && !restricts("forbid_providers");
    for group in json["chain"].as_array().unwrap() {
        let clusters = group["clusters"].as_array().unwrap();
        assert!(!clusters.is_empty() || by_name_allowed, "a group of unknown clusters for a restricted tenant");
        for cluster in clusters {
            assert_ne!(cluster["weight"], 0);
            check_cluster(document, tenant, json["model"].as_str(), cluster["cluster_name"].as_str().unwrap());
        }
    }
    let most = usize::try_from(document["defaults"]["max_attempts"].as_u64().unwrap()).unwrap();
    assert!(answer.resolution.chain.len() <= most);
    match answer.resolution.outcome {
        Outcome::Override => assert!(!answer.resolution.chain.is_empty()),
        Outcome::PassThrough => {
            let shadow = answer.resolution.reason == crate::outcome::Reason::Shadow;
            assert!(shadow || tenant.is_none_or(|tenant| !is_restricted(document, tenant)), "a restricted tenant passes through");
        }
        Outcome::Reject => assert!(json["chain"] == json!([])),
    }
}

/// What a directory may say, true or not: clusters, groups and strangers, learned or somebody's word.
fn placement() -> impl Strategy<Value = Answer> {
    let backends = [&CLUSTERS[..], &GROUPS, &["nobody"]].concat();
    (proptest::option::of(proptest::sample::select(backends)), prop::bool::ANY).prop_map(|(backend, learned)| {
        let endpoint = Some(Box::from("10.0.0.1:80"));
        Answer::Placed(Arc::new(Placement { backend: backend.map(Box::from), endpoint, learned, ..Placement::default() }))
    })
}

/// Groups and their clusters.
fn shape(answer: &Explanation<'_>) -> Vec<(GroupId, Vec<ClusterId>)> {
    let clusters = |step: &Step| step.clusters.iter().map(|(id, _)| *id).collect();
    answer.resolution.chain.iter().map(|step| (step.group, clusters(step))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_session_reorders_and_narrows_and_never_adds(document in catalog(), answer in placement(), other in placement(), seed in any::<u64>(), cooling in some_of(&CLUSTERS, 6)) {
        let snapshot = snapshot(&files(&document));
        let mut sticky = Rules::default();
        sticky.policy.sticky = true;
        let plain = Rules::default();
        let learned = if let Answer::Placed(other) = &other { Some(other) } else { None }.filter(|other| other.learned).cloned();
        let cooling: Vec<String> = cooling.into_iter().map(str::to_owned).collect();
        for tenant in document["tenants"].as_object().unwrap().keys().map(Some).chain([None]) {
            for model in MODELS.iter().chain(&["m1-x", "own", "nobody"]) {
                let question = Question { model: Some((*model).to_owned()), tenant: tenant.cloned(), cooling: cooling.clone(), ..Question::default() };
                let ask = |rules: &Rules, answer: &Answer| {
                    let state = State { answer: answer.clone(), learned: learned.clone(), seed: Some(seed) };
                    explain_with(&snapshot, rules, &question, Seen::well(), &|_| String::new(), &|_| state.clone())
                };
                let without = ask(&plain, &Answer::NotAsked);
                for answer in [&answer, &Answer::Unknown] {
                    let (placed, narrowed) = (ask(&plain, answer), ask(&sticky, answer));
                    for told in [&placed, &narrowed] {
                        check(&document, told, tenant.map(String::as_str));
                        prop_assert_eq!((told.resolution.outcome, told.resolution.reason), (without.resolution.outcome, without.resolution.reason));
                    }
                    // `sticky` keeps every group in its place and one of its clusters.
                    let (wide, narrow) = (shape(&placed), shape(&narrowed));
                    prop_assert_eq!(wide.len(), narrow.len());
                    for ((group, clusters), (same, one)) in wide.iter().zip(&narrow) {
                        prop_assert_eq!(group, same);
                        prop_assert_eq!(one.len(), clusters.len().min(1));
                        prop_assert!(one.iter().all(|id| clusters.contains(id)));
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_goes_beyond_what_the_catalog_allows(document in catalog(), shuffle in any::<prop::sample::Index>(), cooling in some_of(&CLUSTERS, 6)) {
        let mut files = files(&document);
        let first = snapshot(&files);
        let shift = shuffle.index(files.len());
        files.rotate_left(shift);
        let second = snapshot(&files);
        prop_assert_eq!(&first.revision, &second.revision);
        let rules = Rules::default();
        let tenants = document["tenants"].as_object().unwrap().keys().map(Some).chain([None]);
        for tenant in tenants {
            for model in MODELS.iter().map(|model| (*model).to_owned()).chain(["m1-x".to_owned(), "own".to_owned(), "nobody".to_owned(), String::new()]) {
                let question = Question { model: Some(model), tenant: tenant.cloned(), ..Question::default() };
                let answer = explain(&first, &rules, &question, Seen::well(), &|_| String::new());
                check(&document, &answer, tenant.map(String::as_str));
                let again = explain(&second, &rules, &question, Seen::well(), &|_| String::new());
                let (mut one, mut other) = (answer.to_json(), again.to_json());
                // Where a rule stands may differ, what it says may not.
                one["considered"] = Value::Null;
                other["considered"] = Value::Null;
                prop_assert_eq!(one, other);
                // Whatever cools, nobody may use more than before, and nobody is left with nothing.
                let cooling = cooling.iter().map(|name| (*name).to_owned()).collect();
                let sick = explain(&first, &rules, &Question { cooling, ..question }, Seen::well(), &|_| String::new());
                check(&document, &sick, tenant.map(String::as_str));
                prop_assert_eq!((sick.resolution.outcome, sick.resolution.reason), (answer.resolution.outcome, answer.resolution.reason));
                prop_assert_eq!(sick.resolution.chain.is_empty(), answer.resolution.chain.is_empty());
            }
        }
    }
}
