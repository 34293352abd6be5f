use super::*;
use crate::catalog::load::SourceFile;

const CATALOG: &str = r#"
version: 1
providers: {alpha: {}, beta: {}}
clusters:
  eu1: {provider: alpha, tags: [eu]}
  eu2: {provider: beta, tags: [eu]}
  us1: {provider: beta, tags: [us]}
priority_groups:
  europe: {clusters: [{cluster_name: eu1, weight: 1}]}
  both: {clusters: [{cluster_name: eu1, weight: 1}, {cluster_name: us1, weight: 1}]}
  envoys: {}
models:
  m: {chain: [europe], aliases: ["m-*"]}
  mixed: {chain: [europe, both]}
  hidden: {chain: [europe, envoys]}
tiers: {eu: {require_tags: [eu]}, lax: {}}
tenants:
  strict-1: {tier: eu}
  strict-2: {tier: eu}
  lax-1: {tier: lax}
defaults: {unknown_model: pass_through}
"#;

fn outcome(expectations: &str) -> Vec<Diagnostic> {
    match accept(&[SourceFile::new("catalog.yaml", &format!("{CATALOG}{expectations}\n"))], &Rules::default()) {
        Ok(_) => Vec::new(),
        Err(found) => found.into_iter().filter(|found| matches!(found.code, "failing-test" | "violated-invariant")).collect(),
    }
}

fn message(expectations: &str) -> String {
    let found = outcome(expectations);
    assert_eq!(found.len(), 1, "{expectations}: {found:?}");
    found[0].message.clone()
}

#[test]
fn a_test_that_holds_says_nothing() {
    for test in [
        "{request: {model: m-x, tenant: lax-1}, expect: {chain: [europe]}}",
        "{request: {model: mixed, tenant: strict-1}, expect: {clusters: [[eu1], [eu1]]}}",
        "{request: {model: nobody, tenant: lax-1}, expect: {pass_through: unknown_model}}",
        "{request: {model: nobody, tenant: strict-1}, expect: {reject: unknown_model}}",
        "{request: {model: m}, expect: {reject: missing_tenant}}",
        "{request: {tenant: lax-1, path: /v1/responses, body: {model: m}}, expect: {chain: [europe]}}",
        "{request: {tenant: lax-1, path: \"/v1beta/models/m:generateContent\"}, expect: {chain: [europe]}}",
    ] {
        assert_eq!(outcome(&format!("tests: [{test}]")), [], "{test}");
    }
}

#[test]
fn a_failing_test_says_what_the_answer_is_and_how_it_came_about() {
    let found = outcome("tests: [{name: all of it, request: {model: mixed, tenant: lax-1}, expect: {chain: [europe]}}]");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message, "the test `all of it` fails: the answer is europe [eu1] → both [eu1, us1] (model_chain)");
    let hint = found[0].hint.clone().unwrap();
    assert!(hint.contains("tenants.lax-1") && hint.contains("models.mixed.chain"), "{hint}");
    for (expect, answer) in [
        ("{reject: model_not_allowed}", "pass_through (unknown_model)"),
        ("{pass_through: missing_model}", "pass_through (unknown_model)"),
        ("{clusters: [[eu1]]}", "pass_through (unknown_model)"),
    ] {
        let message = message(&format!("tests: [{{name: t, request: {{model: nobody, tenant: lax-1}}, expect: {expect}}}]"));
        assert!(message.ends_with(answer), "{message}");
    }
}

#[test]
fn an_invariant_that_holds_says_nothing() {
    for invariant in [
        "{tenants: \"tier:eu\", only_tags: [eu], never: [pass_through]}",
        "{tenants: \"strict-*\", never_tags: [us]}",
        "{tenants: lax-1, models: m, only_providers: [alpha]}",
        "{models: \"m*\", tenants: \"tier:eu\", never_providers: [beta]}",
    ] {
        assert_eq!(outcome(&format!("invariants: [{invariant}]")), [], "{invariant}");
    }
}

#[test]
fn a_violated_invariant_names_tenant_model_chain_and_rule() {
    for (invariant, words) in [
        (
            "{name: n, models: mixed, only_tags: [eu]}",
            &[
                "tenant lax-1, model mixed gets europe [eu1] → both [eu1, us1]",
                "us1 carries none of the tags eu; by models.mixed.chain at catalog.yaml:14:",
            ][..],
        ),
        ("{name: n, models: mixed, never_tags: [us]}", &["tenant lax-1", "us1 carries the tag us"]),
        ("{name: n, models: mixed, never_providers: [beta]}", &["us1 belongs to the provider beta"]),
        ("{name: n, models: mixed, only_providers: [alpha]}", &["us1 belongs to none of the providers alpha"]),
        (
            "{name: n, models: hidden, tenants: lax-1, only_tags: [eu]}",
            &["the clusters of the group envoys are known to Envoy alone"],
        ),
        (
            "{name: n, models: m, tenants: lax-1, never: [pass_through]}",
            &["model m with provider alpha drained gets pass_through (no_cluster_left)"],
        ),
        (
            "{name: n, models: m, tenants: \"tier:eu\", never: [reject]}",
            &["tenant strict-1", "with provider alpha drained", "it is rejected (no_cluster_left)"],
        ),
    ] {
        let message = message(&format!("invariants: [{invariant}]"));
        assert!(message.starts_with("the invariant `n` does not hold: "), "{message}");
        words.iter().for_each(|word| assert!(message.contains(word), "{message} lacks {word}"));
    }
}

#[test]
fn tenants_that_are_judged_alike_are_judged_once_and_counted() {
    let accepted = accept(&[SourceFile::new("catalog.yaml", CATALOG)], &Rules::default()).unwrap();
    let classes: Vec<(&str, usize)> =
        alike(&accepted.snapshot).iter().map(|(tenant, count)| (tenant.name.as_str(), *count)).collect();
    assert_eq!(classes, [("lax-1", 1), ("strict-1", 2)]);
    let message = message("invariants: [{name: n, models: m, tenants: \"tier:eu\", never: [reject]}]");
    assert!(message.ends_with("(1 more like it)"), "{message}");
}

#[test]
fn a_drain_takes_effect_whatever_the_tests_expect_of_the_chain_without_it() {
    let of = |expectations: &str| {
        let text = format!("{CATALOG}{expectations}\n").replace("alpha: {}", "alpha: {drained: true}");
        accept(&[SourceFile::new("catalog.yaml", &text)], &Rules::default())
    };
    let test =
        |expect: &str| format!("tests: [{{name: t, request: {{model: mixed, tenant: lax-1}}, expect: {{clusters: {expect}}}}}]");
    let told = |accepted: Accepted| accepted.warnings.into_iter().find(|found| found.code == "failing-test");
    let warning = told(of(&test("[[eu1], [eu1, us1]]")).unwrap()).unwrap();
    assert_eq!(
        warning.message,
        "the test `t` fails: the answer is both [us1] (model_chain); it would pass if nothing were drained"
    );
    assert_eq!(told(of(&test("[[us1]]")).unwrap()), None, "a test of the drain itself");
    assert!(of(&test("[[eu1]]")).is_err(), "it fails with and without the drain");
    // What is proved must hold as things are; but a second drain is not supposed on top of the real one.
    let invariant = |model: &str| format!("invariants: [{{name: i, tenants: lax-1, models: {model}, never: [pass_through]}}]");
    assert!(of(&invariant("mixed")).is_ok());
    assert!(of(&invariant("m")).is_err());
}

#[test]
fn each_provider_of_each_shipped_catalog_can_be_drained() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/catalogs");
    let mut drained = 0;
    for catalog in std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let files = crate::catalog::load::read(&catalog).unwrap().texts;
        let snapshot = compile(&files).unwrap().snapshot;
        for provider in 0..snapshot.providers.len() {
            let Variant { drained: name, snapshot } = super::drained(&snapshot, provider);
            let found = run(&snapshot, &Rules::default());
            assert!(acceptable(&found), "{} without {name:?}: {found:#?}", catalog.display());
            drained += 1;
        }
    }
    assert!(drained > 10, "{drained}");
}
