//! The commands that end by themselves: their output and exit codes.

use crate::catalog::{Home, good};
use crate::process::run;

#[test]
fn check_says_good_with_0_and_what_is_wrong_with_1() {
    let home = Home::with_catalog("one");
    let source = home.text("catalog.yaml");
    let (code, out, _) = run(&["check", "--catalog", &source]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("good: revision ") && out.contains("1 model, 2 tenants"), "{out}");
    home.write("catalog.yaml", &good("one").replace("chain: [both", "chain: [bot"));
    let (code, out, _) = run(&["check", "--catalog", &source]);
    assert_eq!(code, Some(1));
    assert!(out.contains("catalog.yaml:10:") && out.contains("hint: ") && out.contains("not good: 1 error"), "{out}");
    assert!(!out.contains('\u{1b}'), "no colour into a pipe");
}

#[test]
fn check_gives_programs_one_json_document() {
    let home = Home::with_catalog("one");
    let source = home.text("catalog.yaml");
    for (text, ok, code) in [(good("one"), true, 0), (good("one").replace("[both", "[bot"), false, 1), (String::new(), false, 1)]
    {
        home.write("catalog.yaml", &text);
        let (exit, out, _) = run(&["check", "--catalog", &source, "--format", "json"]);
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((exit, &report["ok"]), (Some(code), &ok.into()), "{report}");
        let names: Vec<&String> = report.as_object().unwrap().keys().collect();
        assert_eq!(names, ["ok", "diagnostics", "revision", "label", "drains"]);
        assert_eq!((report["revision"].is_string(), report["label"] == "one"), (ok, ok), "{report}");
        for diagnostic in report["diagnostics"].as_array().unwrap() {
            let keys: Vec<&String> = diagnostic.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["severity", "code", "file", "line", "column", "message", "hint"]);
        }
    }
}

#[test]
fn check_warns_of_secrets_that_serve_could_not_start_with() {
    let home = Home::with_catalog("one");
    home.write("short", "too-short");
    home.write("good", "long enough to be a key");
    let warned = |keys: &str, tokens: &str| {
        let settings = format!("secret_file: {}\nadmin_token_file: {}\n", home.text(keys), home.text(tokens));
        home.write("cascade.yaml", &settings);
        let (config, catalog) = (home.text("cascade.yaml"), home.text("catalog.yaml"));
        let (code, out, _) = run(&["check", "--config", &config, "--catalog", &catalog, "--format", "json"]);
        assert_eq!(code, Some(0), "they may be elsewhere than `check` is: {out}");
        assert!(!out.contains("too-short"), "{out}");
        out.matches("unreadable-secret").count()
    };
    assert_eq!((warned("good", "good"), warned("short", "good"), warned("missing", "short")), (0, 1, 2));
}

#[test]
fn check_warns_of_models_that_no_provider_gets_under_its_own_name() {
    let home = Home::new();
    let catalog = |models: &str| {
        format!(
            "version: 1\nclusters: {{a: {{{models}}}}}\npriority_groups: {{g: {{clusters: [{{cluster_name: a, weight: 1}}]}}}}\n\
             models: {{m: {{chain: [g]}}}}\n"
        )
    };
    let fixed = "{attribute: request.host}, {metadata: {namespace: x, path: [m]}}, {value: m}, {cookie: m}";
    let renamed =
        "{metadata: {namespace: envoy.ai.request_info, path: [model]}}, {header: x}, {query: m}, {body: /m}, {dialect: auto}";
    for (sources, models, named) in [
        (fixed, "models: {m: n}", &["attribute request.host", "metadata x:m", "value m", "cookie m"][..]),
        (fixed, "models: [m]", &[]),
        (renamed, "models: {m: n}", &[]),
    ] {
        home.write("catalog.yaml", &catalog(models));
        home.write("cascade.yaml", &format!("extract: {{model: [{sources}]}}\n"));
        let arguments = ["check", "--config", &home.text("cascade.yaml"), "--catalog", &home.text("catalog.yaml")];
        let (code, out, _) = run(&arguments);
        assert_eq!(code, Some(0), "{out}");
        assert_eq!(out.contains("model-not-renamed"), !named.is_empty(), "{sources} {models}: {out}");
        assert!(named.iter().all(|source| out.contains(source)), "{out}");
    }
}

#[test]
fn a_source_that_cannot_be_reached_is_an_error_of_check() {
    let (code, out, _) = run(&["check", "--catalog", "/nowhere/catalog.yaml", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let diagnostic = &report["diagnostics"][0];
    assert_eq!((code, &report["ok"], &diagnostic["code"]), (Some(1), &false.into(), &"unreachable".into()));
    assert!(diagnostic["line"].is_null() && diagnostic["column"].is_null(), "a file that is not there has no line: {diagnostic}");
    let hint = diagnostic["hint"].as_str().unwrap();
    assert!(hint.contains("--catalog") && hint.contains("CASCADE_CATALOG__SOURCE"), "{hint}");
}

#[test]
fn every_example_answers_help() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let sources = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources: Vec<_> = sources.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect();
    assert!(sources.len() >= 5, "{sources:?}");
    for path in sources {
        let source = std::fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().display().to_string();
        assert!(source.contains("--help") && source.contains(&format!("Usage: {name} ")), "{name}");
    }
}

#[test]
fn a_wrong_argument_ends_with_2_and_help_with_0() {
    for arguments in
        [&["serve", "--lissen", "x"][..], &["check", "--format", "xml"], &["explain", "--header", "x"], &["frobnicate"], &[]]
    {
        assert_eq!(run(arguments).0, Some(2), "{arguments:?}");
    }
    for command in ["serve", "check", "explain", "envoy-config", "schema", "demo", "completions"] {
        let (code, out, _) = run(&[command, "--help"]);
        assert_eq!(code, Some(0), "{command}");
        assert!(out.contains("Usage: cascade"), "{out}");
    }
    let (_, help, _) = run(&["--help"]);
    assert!(help.contains("explain") && !help.contains("envoy-config"), "{help}");
    let (_, help, _) = run(&["check", "--help"]);
    assert!(help.contains("--format") && !help.contains("--envoy"), "{help}");
    for command in ["serve", "check", "explain"] {
        assert!(run(&[command, "--help"]).1.contains("Exit codes: 0 "), "{command}");
    }
    // What this version does not have is not offered, and says so where it is used.
    for arguments in [&["envoy-config"][..], &["check", "--envoy", "envoy.yaml"]] {
        let (code, out, error) = run(arguments);
        assert_eq!((code, out.as_str()), (Some(1), ""));
        assert!(error.contains("is not available yet in this version"), "{error}");
    }
    let (code, out, _) = run(&["--version"]);
    assert_eq!((code, out.trim()), (Some(0), concat!("cascade ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn completions_are_made_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = run(&["completions", shell]);
        assert_eq!(code, Some(0));
        assert!(out.contains("cascade") && out.contains("catalog"), "{shell}");
    }
}

#[test]
fn check_says_what_a_drain_of_each_provider_would_cost() {
    let home = Home::with_catalog("one");
    let source = home.text("catalog.yaml");
    let catalog = "version: 1\nproviders: {alpha: {}, beta: {}}\nclusters: {a: {provider: alpha}, b: {provider: beta}}\n\
                   priority_groups: {one: {clusters: [{cluster_name: a, weight: 1}]}, two: {clusters: [{cluster_name: b, weight: 1}]}}\n\
                   models: {lonely: {chain: [one]}, safe: {chain: [one, two]}}\n";
    home.write("catalog.yaml", catalog);
    let (code, out, _) = run(&["check", "--catalog", &source]);
    assert_eq!(code, Some(0), "{out}");
    assert!(
        out.contains("if alpha is drained, nothing is left for lonely\nif beta is drained, every model keeps a cluster\n"),
        "{out}"
    );
    home.write("catalog.yaml", &catalog.replace("a: {provider: alpha}", "a: {provider: alpha, drained: true}"));
    let (_, out, _) = run(&["check", "--catalog", &source]);
    assert!(out.contains("if alpha is drained, every model that has a cluster now keeps one\n"), "lonely has none: {out}");
    assert!(out.contains("if beta is drained, nothing is left for safe\n"), "{out}");
    home.write("catalog.yaml", catalog);
    let (_, out, _) = run(&["check", "--catalog", &source, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let expected = serde_json::json!([
        {"provider": "alpha", "models_without_cluster": ["lonely"], "restricted": []},
        {"provider": "beta", "models_without_cluster": [], "restricted": []},
    ]);
    assert_eq!(report["drains"], expected);
}

#[test]
fn the_schema_of_the_catalog_is_the_committed_one_and_that_of_the_settings_describes_each_section() {
    let (code, out, _) = run(&["schema", "catalog"]);
    let committed = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/catalogs/catalog.schema.json")).unwrap();
    assert_eq!(code, Some(0));
    assert!(out == committed, "run `cascade schema catalog > catalogs/catalog.schema.json`");
    let (code, out, _) = run(&["schema", "settings"]);
    let schema: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, Some(0));
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&serde_json::json!({"catalog": {"refresh": "1m"}})), "{out}");
    assert!(!jsonschema::validator_for(&schema).unwrap().is_valid(&serde_json::json!({"catalogue": {}})), "{out}");
}
