//! Runs `tests/cases/*` through the pure core: what a request becomes, as data.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::catalog::compile::compile;
use crate::catalog::load::SourceFile;
use crate::document::{Format, parse};
use crate::explain::{Question, Rules, explain};
use crate::extract::{Facts, Found, TenantClaim, Trouble};
use crate::health::Seen;
use crate::outcome::{Outcome, Reason};
use crate::resolve::resolve;
use crate::resolve::trace::Considered;
use crate::session::State;

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    folders.filter(|folder| folder.join("requests.yaml").exists()).collect()
}

fn yaml(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    let (node, found) = parse(&path.display().to_string(), &text, Format::of("x.yaml"));
    assert!(found.is_empty(), "{found:?}");
    node.unwrap().to_json().unwrap()
}

/// How requests are read and judged where a case has settings of its own.
fn rules(folder: &Path) -> Rules {
    let Ok(text) = fs::read_to_string(folder.join("cascade.yaml")) else { return Rules::default() };
    let read = crate::settings::read::read(Some(("cascade.yaml", &text)), std::iter::empty(), Default::default());
    read.unwrap().0.rules()
}

/// The answer in the words that cases use: the contract's JSON, with the long lists boiled down.
fn summary(answer: &Value) -> Value {
    let list = |value: &Value, item: &dyn Fn(&Value) -> Value| value.as_array().unwrap().iter().map(item).collect::<Value>();
    let mut summary = answer.clone();
    summary["groups"] = list(&answer["chain"], &|group| group["name"].clone());
    summary["clusters"] = list(&answer["chain"], &|group| list(&group["clusters"], &|cluster| cluster["cluster_name"].clone()));
    summary["picks"] = list(&answer["attempts"], &|attempt| attempt["pick"].clone());
    summary["left_out"] = list(&answer["left_out"], &|left| {
        let what = if left["cluster"].is_null() { &left["group"] } else { &left["cluster"] };
        json!(format!("{} {}", what.as_str().unwrap(), left["why"].as_str().unwrap()))
    });
    summary
}

#[test]
fn every_case_gets_the_answer_it_expects() {
    let mut count = 0;
    for folder in cases() {
        let catalog = fs::read_to_string(folder.join("catalog.yaml")).unwrap();
        let rules = rules(&folder);
        let accepted = compile(&[SourceFile::new("catalog.yaml", &catalog)]).unwrap();
        for case in yaml(&folder.join("requests.yaml"))["requests"].as_array().unwrap() {
            let name = format!("{}: {}", folder.file_name().unwrap().display(), case["name"].as_str().unwrap());
            let question = Question::from_json(&case["ask"]).expect(&name);
            let explanation = explain(&accepted.snapshot, &rules, &question, Seen::well(), &|_| "hidden".to_owned());
            let answer = summary(&explanation.to_json());
            for (key, expected) in case["expect"].as_object().unwrap() {
                assert_eq!(&answer[key], expected, "{name}: {key} in\n{}", explanation.to_text(false));
            }
            count += 1;
        }
    }
    assert!(count > 50, "the cases are missing");
}

/// In FULL_DUPLEX_STREAMED the model decides before the rest of the body is seen, so that this is no case for every mode.
#[test]
fn a_broken_body_is_no_way_out_of_a_model_that_fails_closed() {
    let text = "version: 1\npriority_groups: {g: {}}\nmodels: {shut: {chain: [g], fail: closed}, open: {chain: [g]}}\n";
    let snapshot = compile(&[SourceFile::new("catalog.yaml", text)]).unwrap().snapshot;
    for (body, outcome) in [
        (r#"{"model":"shut"}x"#, "reject"),
        (r#"{"model":"shut""#, "reject"),
        (r#"{"model":"shut","x":NaN}"#, "reject"),
        (r#"{"model":"open"}x"#, "pass_through"),
    ] {
        let question = Question { body: Some(body.as_bytes().to_vec()), ..Question::default() };
        let answer = explain(&snapshot, &Rules::default(), &question, Seen::well(), &|_| String::new()).to_json();
        assert_eq!((&answer["outcome"], &answer["reason"]), (&json!(outcome), &json!("malformed_body")), "{body}");
    }
}

/// A doubt never hides that a tenant is unknown, comes before the model's permission, and counts only for who fails closed.
#[test]
fn a_doubt_is_trouble_for_who_fails_closed() {
    let text = "
version: 1
priority_groups: {g: {}}
models: {shut: {chain: [g], fail: closed}, open: {chain: [g]}}
tenants: {free: {}, only_open: {allowed_models: [open]}, trial: {denied_models: [x], mode: shadow}}
defaults: {missing_tenant: anonymous}
";
    let snapshot = compile(&[SourceFile::new("catalog.yaml", text)]).unwrap().snapshot;
    let ask = |tenant: Option<&str>, model: Option<&str>, doubt: Trouble| {
        let facts = Facts {
            model: model.map_or(Found::Nothing, |model| Found::Value(model.to_owned())),
            tenant: tenant.map_or(Found::Nothing, |tenant| Found::Value(TenantClaim::Name(tenant.to_owned()))),
            doubt: Some(doubt),
            ..Facts::default()
        };
        let mut considered: Vec<Considered> = Vec::new();
        let answer = resolve(&snapshot, Rules::default().policy, &facts, &State::default(), Seen::well(), &mut considered);
        assert!(answer.reason == Reason::UnknownTenant || considered.iter().any(|step| step.rule == "body"), "{considered:?}");
        (answer.outcome, answer.reason)
    };
    use Outcome::{Override, PassThrough, Reject};
    for (tenant, model, expected) in [
        (Some("nobody"), Some("open"), (Reject, Reason::UnknownTenant)),
        (Some("free"), Some("open"), (Override, Reason::ModelChain)),
        (Some("free"), None, (PassThrough, Reason::MissingModel)),
        (None, Some("open"), (Override, Reason::ModelChain)),
        (None, Some("shut"), (Reject, Reason::MalformedBody)),
        (Some("only_open"), Some("open"), (Reject, Reason::MalformedBody)),
        (Some("only_open"), Some("shut"), (Reject, Reason::MalformedBody)),
        (Some("only_open"), None, (Reject, Reason::MalformedBody)),
        (Some("trial"), Some("open"), (Reject, Reason::MalformedBody)),
    ] {
        assert_eq!(ask(tenant, model, Trouble::Malformed("x")), expected, "{tenant:?} {model:?}");
    }
    assert_eq!(ask(Some("only_open"), Some("open"), Trouble::DuplicateKey), (Reject, Reason::DuplicateKey));
}

/// A tenant that may not use every model has all places of a request compared; who decides early hears of the others late.
#[test]
fn two_places_that_disagree_are_trouble_for_who_may_not_use_every_model() {
    let text = "
version: 1
priority_groups: {g: {}}
models: {mini: {aliases: [small], chain: [g]}, next: {chain: [g]}, max: {chain: [g]}}
tenants: {narrow: {allowed_models: [mini, next]}, free: {}}
";
    let snapshot = compile(&[SourceFile::new("catalog.yaml", text)]).unwrap().snapshot;
    let value = |name: &str| Found::Value(name.to_owned());
    let reason = |tenant: &str, model: &str, rivals: Vec<Found<String>>| {
        let tenant = Found::Value(TenantClaim::Name(tenant.to_owned()));
        let facts = Facts { model: value(model), tenant, rivals, ..Facts::default() };
        resolve(&snapshot, Rules::default().policy, &facts, &State::default(), Seen::well(), &mut ()).reason
    };
    use Reason::{MalformedBody, ModelChain, ModelNotAllowed};
    for (model, rivals, expected) in [
        ("mini", vec![], ModelChain),
        ("max", vec![], ModelNotAllowed),
        ("mini", vec![value("small")], ModelChain),
        ("mini", vec![value("models/mini")], ModelChain),
        ("mini", vec![value("next"), value("publishers/google/models/small")], ModelChain),
        ("mini", vec![value("max")], MalformedBody),
        ("mini", vec![value("next"), value("tunedModels/max")], MalformedBody),
        ("max", vec![value("mini")], MalformedBody),
        ("mini", vec![value("notmodels/mini")], MalformedBody),
        ("mini", vec![Found::Unusable], MalformedBody),
        ("max", vec![value("max")], ModelNotAllowed),
    ] {
        assert_eq!(reason("narrow", model, rivals.clone()), expected, "{model} beside {rivals:?}");
        assert_eq!(reason("free", model, rivals.clone()), ModelChain, "{model} beside {rivals:?}");
    }
}
