//! 100,000 sessions at a time: how they spread, and which of them a change moves.

use std::collections::HashMap;

use super::*;
use crate::catalog::compile::compile;
use crate::catalog::load::SourceFile;
use crate::explain::{Question, Rules, explain_with};
use crate::extract::{Facts, Found};
use crate::health::{Moment, Seen, View};
use crate::resolve::{Policy, resolve};
use crate::session::{Answer, State};

const SESSIONS: u64 = 100_000;

fn weighted(clusters: &[(&str, u32)]) -> Vec<(String, Weight)> {
    clusters.iter().map(|(name, weight)| ((*name).to_owned(), Weight::new(*weight).unwrap())).collect()
}

/// The session's first choice of a group.
fn choice(session: u64, group: &[(String, Weight)]) -> &str {
    let draw = Draw::new(session, Some("tenant"), Some("model"));
    let best = group.iter().min_by(|a, b| draw.score(&a.0, a.1).total_cmp(&draw.score(&b.0, b.1)));
    &best.unwrap().0
}

fn split(group: &[(String, Weight)]) -> HashMap<&str, u64> {
    let mut split = HashMap::new();
    (0..SESSIONS).for_each(|session| *split.entry(choice(session, group)).or_default() += 1);
    split
}

/// Every session that moves from one group to the other, as (from, to).
fn moves(before: &[(&str, u32)], after: &[(&str, u32)]) -> Vec<(String, String)> {
    let (before, after) = (weighted(before), weighted(after));
    let both = (0..SESSIONS).map(|session| (choice(session, &before).to_owned(), choice(session, &after).to_owned()));
    both.filter(|(from, to)| from != to).collect()
}

/// Within four standard deviations of what the weights say.
#[allow(clippy::cast_precision_loss)]
fn is_about(count: u64, share: f64) -> bool {
    let n = SESSIONS as f64;
    (count as f64 - n * share).abs() < 4.0 * (n * share * (1.0 - share)).sqrt()
}

#[test]
fn the_split_follows_the_weights_within_the_sampling_error() {
    for weights in
        [&[("a", 80), ("b", 20)][..], &[("openai_eu", 1), ("openai_us", 1), ("azure", 1)], &[("x", 997), ("y", 2), ("z", 1)]]
    {
        let group = weighted(weights);
        let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
        let split = split(&group);
        for (name, weight) in weights {
            assert!(is_about(split[name], f64::from(*weight) / f64::from(total)), "{weights:?}: {split:?}");
        }
    }
}

#[test]
fn raising_a_weight_moves_sessions_to_that_cluster_only() {
    let moves = moves(&[("a", 50), ("b", 30), ("c", 20)], &[("a", 50), ("b", 60), ("c", 20)]);
    assert!(moves.iter().all(|(_, to)| *to == "b"));
    assert!(is_about(moves.len() as u64, 60.0 / 130.0 - 0.3), "no more than the new share: {}", moves.len());
}

#[test]
fn a_cluster_that_leaves_moves_its_own_sessions_only_and_they_spread_by_weight() {
    let moves = moves(&[("a", 50), ("b", 30), ("c", 20)], &[("a", 50), ("c", 20)]);
    assert!(moves.iter().all(|(from, _)| *from == "b"));
    assert!(is_about(moves.len() as u64, 0.3));
    let to_a = moves.iter().filter(|(_, to)| *to == "a").count() as u64;
    assert!(is_about(to_a, 0.3 * 50.0 / 70.0), "{to_a}");
}

#[test]
fn a_cluster_that_joins_takes_its_share_and_nothing_else_moves() {
    let moves = moves(&[("a", 50), ("c", 20)], &[("a", 50), ("b", 30), ("c", 20)]);
    assert!(moves.iter().all(|(_, to)| *to == "b"));
    assert!(is_about(moves.len() as u64, 0.3));
}

/// The cluster of every session's first attempt, decided as requests are.
fn served(drained: &str, cooling: &str) -> Vec<String> {
    let text = format!(
        "version: 1\nclusters: {{a: {{}}, b: {{}}, c: {{}}, d: {{}}, {drained}: {{drained: true}}}}\npriority_groups:\n  g: {{clusters: \
         [{{cluster_name: a, weight: 50}}, {{cluster_name: b, weight: 30}}, {{cluster_name: c, weight: 20}}]}}\n  \
         h: {{clusters: [{{cluster_name: d, weight: 1}}, {{cluster_name: unused, weight: 1}}]}}\nmodels: {{m: {{chain: [g, h]}}}}\n"
    )
    .replacen(&format!("{drained}: {{}}, "), "", 1);
    let snapshot = compile(&[SourceFile::new("catalog.yaml", &text)]).unwrap_or_else(|found| panic!("{found:#?}")).snapshot;
    let mut view = View::default();
    view.add(cooling, None, Moment(1));
    let (facts, policy) =
        (Facts { model: Found::Value("m".to_owned()), ..Facts::default() }, Policy { sticky: true, ..Policy::default() });
    let first = |session| {
        let state = State { seed: Some(session), ..State::default() };
        let resolution = resolve(&snapshot, policy, &facts, &state, Seen::new(&view, Moment(0)), &mut ());
        snapshot.cluster(resolution.chain[0].clusters[0].0).name.to_string()
    };
    (0..SESSIONS).map(first).collect()
}

#[test]
fn draining_and_cooling_move_the_sessions_of_that_cluster_only_and_bring_them_back() {
    let well = served("unused", "nobody");
    assert_eq!(well, served("unused", "nobody"), "a replica that started later decides alike");
    for (what, after) in [("drained", served("b", "nobody")), ("cooling", served("unused", "b"))] {
        let moves: Vec<_> = well.iter().zip(&after).filter(|(from, to)| from != to).collect();
        assert!(moves.iter().all(|(from, to)| *from == "b" && ["a", "c"].contains(&to.as_str())), "{what}");
        assert!(is_about(moves.len() as u64, 0.3), "{what}: {} moved", moves.len());
        let to_a = moves.iter().filter(|(_, to)| *to == "a").count() as u64;
        assert!(is_about(to_a, 0.3 * 50.0 / 70.0), "{what}: by weight, {to_a}");
    }
}

#[test]
fn tenants_and_models_do_not_share_the_choices_of_a_session_id() {
    let group = weighted(&[("a", 1), ("b", 1)]);
    let pick = |draw: Draw| draw.score(&group[0].0, group[0].1) < draw.score(&group[1].0, group[1].1);
    let same = (0..SESSIONS).filter(|session| {
        pick(Draw::new(*session, Some("one"), Some("m"))) == pick(Draw::new(*session, Some("other"), Some("m")))
    });
    assert!(is_about(same.count() as u64, 0.5));
    let numbers: std::collections::HashSet<u64> = (0..SESSIONS).map(|session| Draw::new(session, None, None).number()).collect();
    assert_eq!(numbers.len() as u64, SESSIONS);
}

#[test]
fn the_header_number_splits_by_weight_too() {
    // Envoy picks by `value mod total` in the order of the clusters (fact 16).
    let low = (0..SESSIONS).filter(|session| Draw::new(*session, Some("t"), Some("m")).number() % 100 < 80).count() as u64;
    assert!(is_about(low, 0.8), "{low}");
}

#[test]
fn every_replica_draws_the_same() {
    // Written down, so that a change of the hash is seen: it would move every session.
    let group = weighted(&[("a", 1), ("b", 1), ("c", 1)]);
    let choices: String = (0..16).map(|session| choice(session, &group)).collect();
    assert_eq!(choices, "bbcabaabccbaacca");
}

#[test]
fn a_repeat_of_a_group_takes_the_next_choice_and_starts_over_in_the_end() {
    let text = "version: 1\npriority_groups: {g: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: b, weight: 1}]}}\n\
                models: {m: {chain: [g, g, g]}}\n";
    let snapshot = compile(&[SourceFile::new("catalog.yaml", text)]).unwrap().snapshot;
    let mut rules = Rules::default();
    rules.policy.sticky = true;
    let question = Question { model: Some("m".to_owned()), session: Some("s".to_owned()), ..Question::default() };
    let clusters = |seed, answer: Answer| {
        let state = State { answer, learned: None, seed: Some(seed) };
        let told = explain_with(&snapshot, &rules, &question, Seen::well(), &|_| String::new(), &|_| state.clone()).to_json();
        let name = |group: &serde_json::Value| group["clusters"][0]["cluster_name"].as_str().unwrap().to_owned();
        told["chain"].as_array().unwrap().iter().map(name).collect::<String>()
    };
    for seed in 0..100 {
        assert!(["aba", "bab"].contains(&clusters(seed, Answer::Unknown).as_str()));
        // The directory's cluster has had its turn when the chain follows.
        let placed = crate::session::parse(br#"{"selected_backend":"a"}"#);
        assert!(clusters(seed, placed).starts_with("ab"));
    }
}

#[test]
fn a_decision_draws_for_its_tenant_and_its_model() {
    let text = "version: 1\npriority_groups: {g: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: b, weight: 1}]}}\n\
                models: {m: {chain: [g], aliases: [alias]}, n: {chain: [g]}}\ntenants: {one: {}, other: {}}\n\
                defaults: {missing_tenant: anonymous}\n";
    let snapshot = compile(&[SourceFile::new("catalog.yaml", text)]).unwrap().snapshot;
    let mut rules = Rules::default();
    rules.policy.sticky = true;
    // The choices of 64 sessions, and their numbers for `sticky_header`.
    let choices = |tenant: &str, model: &str| {
        let (tenant, model) = (Some(tenant.to_owned()), Some(model.to_owned()));
        let question = Question { model, tenant, session: Some("s".to_owned()), ..Question::default() };
        let choice = |seed| {
            let state = State { seed: Some(seed), ..State::default() };
            let told = explain_with(&snapshot, &rules, &question, Seen::well(), &|_| String::new(), &|_| state.clone());
            (told.resolution.chain[0].clusters[0].0, told.resolution.number)
        };
        (0..64).map(choice).collect::<Vec<_>>()
    };
    let (own, split) = (choices("one", "m"), |list: &[_]| list.iter().map(|(cluster, _)| *cluster).collect::<Vec<ClusterId>>());
    assert_eq!(own, choices("one", "alias"), "a model is one model under all its names");
    for (tenant, model) in [("other", "m"), ("", "m"), ("one", "n")] {
        let others = choices(tenant, model);
        assert_ne!(split(&own), split(&others), "{tenant} {model}");
        assert!(own.iter().zip(&others).all(|(own, other)| own.1 != other.1), "{tenant} {model}");
    }
}
