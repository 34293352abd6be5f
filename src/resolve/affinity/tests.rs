//! What each answer of a directory makes of a chain.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::catalog::compile::compile;
use crate::catalog::load::SourceFile;
use crate::catalog::snapshot::Snapshot;
use crate::explain::{Question, Rules, explain_with};
use crate::extract::{Facts, Found, TenantClaim};
use crate::health::Seen;
use crate::outcome::OnTrouble;
use crate::session::template::Template;
use crate::session::{Answer, Fault, Placement, State, parse};

const CATALOG: &str = r#"
version: 1
clusters:
  a: {tags: [eu]}
  b: {tags: [us]}
  c: {tags: [eu]}
  both: {tags: [eu]}
priority_groups:
  ab: {clusters: [{cluster_name: a, weight: 80}, {cluster_name: b, weight: 20}]}
  only_c: {clusters: [{cluster_name: c, weight: 1}]}
  both: {clusters: [{cluster_name: c, weight: 1}, {cluster_name: a, weight: 1}]}
  last: {}
models:
  m: {chain: [ab, only_c, last], aliases: ["m-*"], endpoint_metadata: {stage: prod}, endpoint_fallbacks: [{stage: canary}]}
  plain: {chain: [ab, only_c]}
  shared: {chain: [only_c, ab, both]}
tenants:
  eu: {require_tags: [eu]}
  free: {}
defaults: {missing_tenant: anonymous, max_attempts: 3}
"#;

fn catalog() -> Snapshot {
    compile(&[SourceFile::new("catalog.yaml", CATALOG)]).unwrap_or_else(|found| panic!("{found:#?}")).snapshot
}

fn ask(model: &str, tenant: Option<&str>, answer: Answer) -> Value {
    let question = Question {
        model: Some(model.to_owned()),
        tenant: tenant.map(str::to_owned),
        session: Some("s".to_owned()),
        ..Question::default()
    };
    let state = State { answer, ..State::default() };
    explain_with(&catalog(), &Rules::default(), &question, Seen::well(), &|_| String::new(), &|_| state.clone()).to_json()
}

fn at(backend: &str) -> Answer {
    Answer::Placed(Arc::new(Placement { backend: Some(backend.into()), ..Placement::default() }))
}

/// `group(cluster cluster) ...`
fn chain(answer: &Value) -> String {
    let group = |group: &Value| {
        let clusters: Vec<&str> =
            group["clusters"].as_array().unwrap().iter().map(|cluster| cluster["cluster_name"].as_str().unwrap()).collect();
        format!("{}({})", group["name"].as_str().unwrap(), clusters.join(" "))
    };
    answer["chain"].as_array().unwrap().iter().map(group).collect::<Vec<_>>().join(" ")
}

fn said(answer: &Value) -> String {
    let considered = answer["considered"].as_array().unwrap().iter();
    considered.filter(|entry| entry["rule"] == "session").map(|entry| entry["result"].as_str().unwrap()).collect()
}

#[test]
fn a_named_backend_goes_first_and_the_chain_follows() {
    for (model, backend, expected) in [
        ("plain", "only_c", "only_c(c) ab(a b)"),
        ("plain", "ab", "ab(a b) only_c(c)"),
        ("plain", "b", "ab(b) ab(a b) only_c(c)"),
        ("plain", "c", "only_c(c) ab(a b)"),
        ("m", "last", "last() ab(a b) only_c(c)"),
        // max_attempts cuts at the end.
        ("m", "a", "ab(a) ab(a b) only_c(c)"),
        // A group and a cluster of one name: the group is meant.
        ("shared", "both", "both(c a) only_c(c) ab(a b)"),
    ] {
        assert_eq!(chain(&ask(model, None, at(backend))), expected, "{backend}");
    }
}

#[test]
fn a_backend_that_the_chain_does_not_hold_changes_nothing_and_the_trace_says_so() {
    let stranger = parse(br#"{"selected_backend":"nobody","selected_endpoint":"10.0.0.1:1","endpoint_metadata":{"p":"1"}}"#);
    let answer = ask("m", None, stranger);
    assert_eq!(chain(&answer), "ab(a b) only_c(c) last()");
    assert!(said(&answer).contains("does not hold"), "{answer}");
    assert_eq!(answer["endpoint_metadata"], json!({"fallback_list": [{"stage": "prod"}, {"stage": "canary"}]}));
    // What the tenant may not use is not in its chain.
    let answer = ask("plain", Some("eu"), at("b"));
    assert_eq!(chain(&answer), "ab(a) only_c(c)");
    assert!(said(&answer).contains("does not hold"), "{answer}");
}

#[test]
fn endpoint_entries_are_complete_and_best_first() {
    let answer = |text: &str| ask("m", None, parse(text.as_bytes()))["endpoint_metadata"].clone();
    assert_eq!(
        answer(r#"{"selected_backend":"ab","selected_endpoint":"10.0.0.1:1","endpoint_metadata":{"proc":"p1"}}"#),
        json!({"fallback_list": [{"proc": "p1"}, {"stage": "prod"}, {"stage": "canary"}], "selected_endpoint": "10.0.0.1:1"})
    );
    let alone = ask("plain", None, parse(br#"{"endpoint_metadata":{"proc":"p1"},"selected_endpoint":"[::1]:1"}"#));
    assert_eq!(alone["endpoint_metadata"], json!({"proc": "p1", "selected_endpoint": "[::1]:1"}));
    assert_eq!(ask("plain", None, Answer::Unknown)["endpoint_metadata"], json!({}));
}

#[test]
fn without_an_answer_the_chain_stands_unless_the_operator_refuses() {
    for answer in [Answer::Unknown, Answer::Unavailable(Fault::Timeout)] {
        let answer = ask("plain", None, answer);
        assert_eq!((chain(&answer).as_str(), &answer["outcome"]), ("ab(a b) only_c(c)", &json!("override")));
        assert!(!said(&answer).is_empty());
    }
    let mut rules = Rules::default();
    rules.policy.on_session_unavailable = OnTrouble::Reject;
    let question = Question { model: Some("plain".to_owned()), ..Question::default() };
    for (answer, reason) in [(Answer::Unavailable(Fault::Garbage), "session_unavailable"), (Answer::Unknown, "model_chain")] {
        let state = State { answer, ..State::default() };
        let told = explain_with(&catalog(), &rules, &question, Seen::well(), &|_| String::new(), &|_| state.clone()).to_json();
        assert_eq!(told["reason"], reason);
    }
}

#[test]
fn what_was_learned_is_a_cluster_even_if_a_group_is_called_the_same() {
    let learned = |cluster| Answer::Placed(Arc::new(Placement::learned(cluster, None, Duration::from_secs(1))));
    assert_eq!(chain(&ask("shared", None, learned("b"))), "ab(b) only_c(c) ab(a b)");
    assert_eq!(chain(&ask("shared", None, learned("both"))), "only_c(c) ab(a b) both(c a)", "no cluster of that name here");
    assert_eq!(chain(&ask("plain", Some("eu"), learned("b"))), "ab(a) only_c(c)", "not for this tenant");
}

#[test]
fn what_was_learned_stands_in_for_a_directory_whose_word_does_not_count() {
    let mut rules = Rules::default();
    rules.policy.on_session_unavailable = OnTrouble::Reject;
    let learned = |cluster| Some(Arc::new(Placement::learned(cluster, None, Duration::from_secs(1))));
    let away = Answer::Unavailable(Fault::Timeout);
    for (answer, learned, expected) in [
        (at("c"), learned("b"), "model_chain: only_c(c) ab(a b)"),
        (Answer::Unknown, learned("b"), "model_chain: ab(b) ab(a b) only_c(c)"),
        (away.clone(), learned("b"), "model_chain: ab(b) ab(a b) only_c(c)"),
        // What the directory names is not in the chain, or drained.
        (at("nobody"), learned("b"), "model_chain: ab(b) ab(a b) only_c(c)"),
        (at("nobody"), learned("nobody"), "model_chain: ab(a b) only_c(c)"),
        (at("nobody"), None, "model_chain: ab(a b) only_c(c)"),
        (Answer::Unknown, learned("nobody"), "model_chain: ab(a b) only_c(c)"),
        // Nobody says where it lives.
        (away.clone(), learned("nobody"), "session_unavailable: "),
        (away, None, "session_unavailable: "),
    ] {
        let question = Question { model: Some("plain".to_owned()), session: Some("s".to_owned()), ..Question::default() };
        let state = State { answer, learned, seed: None };
        let told = explain_with(&catalog(), &rules, &question, Seen::well(), &|_| String::new(), &|_| state.clone()).to_json();
        assert_eq!(format!("{}: {}", told["reason"].as_str().unwrap(), chain(&told)), expected, "{state:?}");
    }
    let question = Question { model: Some("plain".to_owned()), ..Question::default() };
    let state = State { answer: Answer::Unavailable(Fault::Timeout), learned: learned("b"), seed: None };
    let told = explain_with(&catalog(), &rules, &question, Seen::well(), &|_| String::new(), &|_| state.clone()).to_json();
    let results: Vec<&str> = told["considered"].as_array().unwrap().iter().filter_map(|it| it["result"].as_str()).collect();
    let both = ["no answer from the directory (timeout)", "lives at b of group ab: first, the chain follows"];
    assert!(results.windows(2).any(|pair| pair == both), "explain says both: {results:?}");
}

#[test]
fn a_placement_at_what_cools_costs_nothing_and_is_not_forgotten() {
    let ask = |placement: Answer, cooling: &[&str]| {
        let cooling = cooling.iter().map(|name| (*name).to_owned()).collect();
        let question = Question { model: Some("plain".to_owned()), cooling, ..Question::default() };
        let state = State { answer: placement, ..State::default() };
        let rules = Rules::default();
        let told = explain_with(&catalog(), &rules, &question, Seen::well(), &|_| String::new(), &|_| state.clone()).to_json();
        format!("{}: {}", told["health"].as_str().unwrap(), chain(&told))
    };
    for (backend, cooling, expected) in [
        ("b", &["b"][..], "reordered: ab(a) only_c(c) ab(b)"),
        ("b", &["b=plain"], "reordered: ab(a) only_c(c) ab(b)"),
        ("b", &["b=m"], "as_written: ab(b) ab(a b) only_c(c)"),
        ("b", &["a"], "reordered: ab(b) ab(b) only_c(c)"),
        ("c", &["c"], "reordered: ab(a b) only_c(c)"),
        ("ab", &["a", "b"], "reordered: only_c(c) ab(a b)"),
        // Everything cools: the session's own place is as good as any, and has its state.
        ("b", &["a", "b", "c"], "all_cooling: ab(b) ab(a b) only_c(c)"),
    ] {
        assert_eq!(ask(at(backend), cooling), expected, "{backend} {cooling:?}");
    }
}

#[test]
fn a_learned_endpoint_stands_alone_or_not_at_all() {
    let learned = |cluster| Answer::Placed(Arc::new(Placement::learned(cluster, Some("10.0.0.1:1"), Duration::from_secs(1))));
    assert_eq!(ask("plain", None, learned("a"))["endpoint_metadata"], json!({"selected_endpoint": "10.0.0.1:1"}));
    let entries = json!({"fallback_list": [{"stage": "prod"}, {"stage": "canary"}]});
    assert_eq!(ask("m", None, learned("a"))["endpoint_metadata"], entries, "beside entries it would become part of them");
    assert_eq!(ask("plain", None, learned("gone"))["endpoint_metadata"], json!({}), "without its cluster it means nothing");
}

#[test]
fn a_cluster_is_learned_only_where_the_chain_holds_it_now() {
    let catalog = catalog();
    let names = |tenant, model, cluster| super::names_of(&catalog, tenant, model, cluster).map(|names| names.join(" "));
    assert_eq!(names(None, Some("plain"), "b").as_deref(), Some("ab b"));
    assert_eq!(names(Some("free"), Some("m"), "c").as_deref(), Some("only_c c"));
    // A group of the chain is called so: a placement of that name means the group.
    assert_eq!(names(None, Some("shared"), "a").as_deref(), Some("ab both a"));
    assert_eq!(names(Some("eu"), Some("plain"), "b"), None, "not for this tenant");
    assert_eq!(names(None, Some("plain"), "both"), None, "not of this chain");
    assert_eq!(names(Some("gone"), Some("plain"), "a"), None, "no tenant of this catalog");
    assert_eq!((names(None, Some("unknown"), "a"), names(None, None, "a")), (None, None));
}

#[test]
fn the_key_is_made_of_the_catalogs_names() {
    let (catalog, template) = (catalog(), Template::parse("{tenant}/{model}/{session}").unwrap());
    let key = |model: &str, tenant: Option<&str>, session: Option<&str>| {
        let tenant = tenant.map_or(Found::Nothing, |name| Found::Value(TenantClaim::Name(name.to_owned())));
        let facts =
            Facts { model: Found::Value(model.to_owned()), tenant, session: session.map(str::to_owned), ..Facts::default() };
        super::key(&catalog, &template, &facts)
    };
    assert_eq!(key("m-large", Some("free"), Some("s")).as_deref(), Some("free/m/s"));
    assert_eq!(key("m", None, Some("s")).as_deref(), Some("-/m/s"));
    assert_eq!(key("m", Some("stranger"), Some("s")), None);
    assert_eq!(key("unknown", Some("free"), Some("s")), None);
    assert_eq!(key("m", Some("free"), None), None);
}
