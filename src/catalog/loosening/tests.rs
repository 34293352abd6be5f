//! What counts as taken away or opened, each change by itself.

use super::*;
use crate::catalog::compile::compile;

const CATALOG: &str = r#"version: 1
providers: {p: {}, q: {}}
clusters:
  a: {provider: p, tags: [eu]}
  b: {provider: q, tags: [us], models: [m, n], drained: true, path_prefix: {from: /v1, to: /x/v1}}
priority_groups:
  g: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: c, weight: 1}]}
  h: {clusters: [{cluster_name: b, weight: 1}]}
models:
  m: {aliases: [x, "y-*"], chain: [g, h], fail: closed, endpoint_metadata: {s: 1}}
  n: {chain: [h]}
tiers:
  t: {forbid_providers: [q]}
tenants:
  acme: {tier: t, allowed_models: ["m*", n], denied_models: [n], require_tags: [eu], forbid_tags: [us], chains: {m: [g, h], "*": [h, g]}, fail: closed}
  beta: {api_keys: ["sha256:0000000000000000000000000000000000000000000000000000000000000000"]}
defaults: {missing_tenant: reject, unknown_tenant: beta, unknown_model: reject, fail: closed}
tests:
- {name: one, request: {model: m, tenant: beta}, expect: {chain: [g]}}
"#;

fn found(old: &str, new: &str) -> Vec<String> {
    let read = |text: &str| {
        let file = SourceFile::new("a.yaml", text);
        let snapshot = compile(std::slice::from_ref(&file)).map_err(|found| format!("{found:?}")).unwrap().snapshot;
        (snapshot, [FileEnd::of(&file)])
    };
    let (old, new) = (read(old), read(new));
    between((&old.0, &old.1), (&new.0, &new.1)).words()
}

#[test]
fn each_thing_that_is_taken_away_or_opened_is_said() {
    let cases: &[(&str, &str, &[&str])] = &[
        (", require_tags: [eu]", "", &["the tenant `acme` does not require the tag `eu` any more"]),
        (", forbid_tags: [us]", "", &["the tag `us` is not forbidden to the tenant `acme` any more"]),
        ("forbid_providers: [q]", "", &["the provider `q` is not forbidden to the tenant `acme` any more"]),
        ("tier: t, ", "", &["the provider `q` is not forbidden to the tenant `acme` any more"]),
        (", denied_models: [n]", "", &["the models `n` are not denied to the tenant `acme` any more"]),
        ("allowed_models: [\"m*\", n], ", "", &["the tenant `acme` may use the models `*` now"]),
        ("[\"m*\", n]", "[\"m*\", \"n*\"]", &["the tenant `acme` may use the models `n*` now"]),
        (", fail: closed}\n  beta", ", mode: shadow}\n  beta", &["the tenant `acme` is in shadow mode now"]),
        (", \"*\": [h, g]", "", &["the tenant `acme` has lost its chain for `*`"]),
        ("\"*\": [h, g]", "\"*\": [g]", &["the chain of the tenant `acme` for `*` is shorter"]),
        (
            "api_keys: [\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"]",
            "",
            &["a key of the tenant `beta` is gone"],
        ),
        ("  beta: {", "  gamma: {}\n  beta: {", &["the tenant `gamma` is new"]),
        ("  n: {chain: [h]}\n", "  n: {chain: [h]}\n  o: {chain: [h]}\n", &["the model `o` is new"]),
        ("chain: [g, h], fail: closed", "chain: [g, h]", &["the model `m` does not fail closed any more"]),
        ("chain: [g, h], fail", "chain: [g], fail", &["the chain of the model `m` is shorter"]),
        ("[x, \"y-*\"]", "[x]", &["the model `m` has lost an alias"]),
        (", endpoint_metadata: {s: 1}", "", &["the model `m` has lost metadata"]),
        (", {cluster_name: c, weight: 1}", "", &["the group `g` has lost the cluster `c`"]),
        ("a: {provider: p, tags: [eu]}", "a: {provider: q, tags: [eu]}", &["the cluster `a` has another provider"]),
        ("tags: [eu]}", "tags: [eu, us]}", &["the cluster `a` has got the tag `us`"]),
        (", tags: [us], models", ", tags: [us, eu], models", &["the cluster `b` has got the tag `eu`"]),
        (", models: [m, n]", "", &["the cluster `b` serves every model now"]),
        ("models: [m, n]", "models: [n]", &["the cluster `b` does not serve `m` any more"]),
        (", drained: true", "", &["the cluster `b` is not drained any more"]),
        (", path_prefix: {from: /v1, to: /x/v1}", "", &["the cluster `b` has lost its path prefix"]),
        ("missing_tenant: reject", "missing_tenant: anonymous", &["`defaults.missing_tenant` is anonymous now"]),
        ("unknown_tenant: beta", "unknown_tenant: anonymous", &["`defaults.unknown_tenant` is anonymous now"]),
        ("unknown_model: reject", "unknown_model: [g]", &["`defaults.unknown_model` lets more through"]),
        ("unknown_model: reject", "unknown_model: reject, missing_model: [g]", &["`defaults.missing_model` lets more through"]),
        ("unknown_model: reject, fail: closed", "unknown_model: reject", &["`defaults.fail` is not closed any more"]),
        ("tests:\n- {name: one, request: {model: m, tenant: beta}, expect: {chain: [g]}}\n", "", &["1 tests fewer"]),
    ];
    for (from, to, expected) in cases {
        assert_eq!(CATALOG.matches(from).count(), 1, "{from}");
        let said = found(CATALOG, &CATALOG.replace(from, to));
        assert_eq!(said, *expected, "{from} → {to}");
    }
}

#[test]
fn what_restricts_more_or_changes_the_way_only_is_no_loosening() {
    for (from, to) in [
        ("require_tags: [eu]", "require_tags: [eu], mode: enforce"),
        ("[\"m*\", n]", "[m]"),
        ("denied_models: [n]", "denied_models: [\"n*\"]"),
        ("chain: [g, h], fail", "chain: [h, g], fail"),
        ("chain: [g, h], fail", "chain: [g, h, h], fail"),
        ("weight: 1}]}\n  h", "weight: 7}]}\n  h"),
        ("n: {chain: [h]}", "n: {chain: [h], aliases: [z], fail: closed}"),
        ("providers: {p: {}, q: {}}", "providers: {p: {drained: true}, q: {}}"),
        ("unknown_tenant: beta", "unknown_tenant: reject"),
        ("version: 1", "version: 1\nlabel: next"),
        ("  beta: {", "  beta: {forbid_tags: [us], "),
    ] {
        assert_eq!(CATALOG.matches(from).count(), 1, "{from}");
        assert_eq!(found(CATALOG, &CATALOG.replace(from, to)), [""; 0], "{from} → {to}");
    }
}

/// However a file is cut, if it is a catalog at all it is one that takes something away.
#[test]
fn a_catalog_cut_anywhere_loosens() {
    let mut accepted = 0;
    for at in 0..CATALOG.len() {
        let cut = SourceFile::new("a.yaml", &CATALOG[..at]);
        let Ok(catalog) = compile(std::slice::from_ref(&cut)) else { continue };
        let whole = compile(&[SourceFile::new("a.yaml", CATALOG)]).unwrap().snapshot;
        let ends = [FileEnd::of(&SourceFile::new("a.yaml", CATALOG))];
        let change = between((&whole, &ends), (&catalog.snapshot, &[FileEnd::of(&cut)]));
        assert!(!change.is_nothing(), "cut at {at}: {:?}", &CATALOG[at.saturating_sub(40)..at]);
        accepted += 1;
    }
    assert!(accepted > 5, "the cuts that parse are what this is about: {accepted}");
}

#[test]
fn files_that_are_gone_or_without_their_end_are_said_and_many_changes_are_counted() {
    let end = |name: &str, text: &str| FileEnd::of(&SourceFile::new(name, text));
    let snapshot = |text: &str| compile(&[SourceFile::new("a.yaml", text)]).unwrap().snapshot;
    let same = snapshot(CATALOG);
    let words = |old: &[FileEnd], new: &[FileEnd]| between((&same, old), (&same, new)).words();
    let old = [end("a", "x\n"), end("b", "x\n...\n"), end("c", "{}"), end("d", "x")];
    assert_eq!(words(&old, &old), [""; 0]);
    assert_eq!(words(&old, &old[1..]), ["the file a is gone"]);
    let cut = [end("a", "x"), end("b", "x\n"), end("c", "{}"), end("d", "y"), end("e", "z")];
    assert_eq!(
        words(&old, &cut),
        [
            "the file a ends in the middle of a line",
            "the file b does not show its end any more",
            "the new file e ends in the middle of a line"
        ]
    );
    let many: String = (0..100).map(|at| format!("  t{at}: {{}}\n")).collect();
    let (old, new) = (snapshot(&CATALOG.replace("  beta: {", &format!("{many}  beta: {{"))), snapshot(CATALOG));
    let change = between((&old, &[]), (&new, &[]));
    assert_eq!((change.words().len(), change.words().last().unwrap().as_str()), (9, "and 92 more"));
    assert_eq!(change.marks(), between((&old, &[]), (&new, &[])).marks());
}
