//! `cascade explain` from outside: what it says of sessions, cooldowns and bodies, and of what it cannot explain.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::catalog::{Home, good};
use crate::http;
use crate::process::run;

#[test]
fn explain_says_that_the_session_it_shows_is_a_hash() {
    let home = Home::with_catalog("one");
    let explain = |more: &[&str]| {
        let (code, out, _) = run(&[&["explain", "--catalog", &home.text("catalog.yaml"), "--model", "m"], more].concat());
        assert_eq!(code, Some(0), "{out}");
        out.lines().find_map(|line| line.trim_start().strip_prefix("session  ").map(str::to_owned)).unwrap()
    };
    let shown = explain(&["--session", "canary"]);
    let (hash, label) = shown.split_once(' ').unwrap();
    assert!(hash.bytes().all(|byte| byte.is_ascii_hexdigit()) && label.starts_with("(a keyed hash of its id)"), "{shown}");
    assert_eq!(explain(&[]), "-");
}

/// `examples/session_directory.rs`, started as its first lines say.
struct Directory {
    child: Child,
    address: String,
}

impl Directory {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--quiet", "--example", "session_directory", "127.0.0.1:0"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        // On Unix cargo becomes the program that it runs.
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut told = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut told).unwrap();
        let address = told.trim().strip_prefix("a session directory listens on http://").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn explain_asks_the_example_of_a_session_directory_and_shows_what_it_changed() {
    let directory = tokio::task::spawn_blocking(Directory::start).await.unwrap();
    let placement = br#"{"selected_backend":"backup","selected_endpoint":"10.0.0.1:80"}"#;
    for session in ["s", "other"] {
        assert_eq!(http::send(&directory.address, "PUT", &format!("/-/m/{session}"), placement).await.status, 204);
    }
    assert_eq!(http::send(&directory.address, "DELETE", "/-/m/other", b"").await.status, 204);
    let home = Home::with_catalog("one");
    let url = format!("http://{}/{{tenant}}/{{model}}/{{session}}", directory.address);
    home.write(
        "cascade.yaml",
        &format!("session: {{directory: http, url: \"{url}\", timeout: 20s}}\nlimits: {{decision_deadline: 20s}}\n"),
    );
    let (catalog, config) = (home.text("catalog.yaml"), home.text("cascade.yaml"));
    let explain = async |session: &'static str, format: &'static str| {
        let files = [catalog.clone(), config.clone()];
        let told = move || {
            let [catalog, config] = &files;
            run(&["explain", "--catalog", catalog, "--config", config, "--model", "m", "--session", session, "--format", format])
                .1
        };
        tokio::task::spawn_blocking(told).await.unwrap()
    };
    let told: serde_json::Value = serde_json::from_str(&explain("s", "json").await).unwrap();
    assert_eq!((&told["directory"]["answer"], &told["chain"][0]["name"]), (&"placed".into(), &"backup".into()), "{told}");
    assert_eq!(told["endpoint_metadata"]["selected_endpoint"], "10.0.0.1:80");
    let told = explain("s", "text").await;
    assert!(told.contains("1. backup") && told.contains("lives in group backup: first"), "{told}");
    let told = explain("other", "text").await;
    assert!(told.contains("1. both") && told.contains("nobody knows where it lives"), "{told}");
    drop(directory);
    assert!(explain("s", "text").await.contains("no answer from the directory (unreachable)"));
}

/// What was considered of the session.
fn considered(home: &Home, settings: &str, session: &str) -> Vec<String> {
    home.write("cascade.yaml", settings);
    let (config, catalog) = (home.text("cascade.yaml"), home.text("catalog.yaml"));
    let question = ["--model", "m", "--session", session, "--format", "json"];
    let (code, out, error) = run(&[&["explain", "--config", &config, "--catalog", &catalog], &question[..]].concat());
    assert_eq!(code, Some(0), "{out}{error}");
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    let of_session =
        answer["considered"].as_array().unwrap().iter().filter(|it| it["rule"].as_str().unwrap().starts_with("session"));
    of_session.map(|it| it["result"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn explain_says_that_a_pick_under_a_random_key_is_nobody_elses() {
    let home = Home::with_catalog("one");
    home.write("secret", "long enough to be a key");
    let told = |settings: &str, session: &str| considered(&home, settings, session).iter().any(|it| it.contains("random key"));
    assert!(told("session: {sticky: true}\n", "s") && told("publish: {sticky_header: x-pick}\n", "s"));
    assert!(!told("session: {sticky: true}\n", "") && !told("", "s"), "nothing is picked by a session");
    assert!(!told(&format!("session: {{sticky: true}}\nsecret_file: {}\n", home.text("secret")), "s"));
}

#[test]
fn explain_says_who_was_asked_for_the_session() {
    let home = Home::with_catalog("one");
    let learn = "feedback: {enabled: true}\nsession: {learn: true}\n";
    assert_eq!(considered(&home, learn, "s"), ["nobody knows where it lives"]);
    let away =
        "session: {directory: http, url: \"http://127.0.0.1:1/{session}\", timeout: 10s}\nlimits: {decision_deadline: 10s}\n";
    assert_eq!(considered(&home, away, "s"), ["no answer from the directory (unreachable)"]);
}

#[test]
fn explain_reads_a_body_from_standard_input() {
    use std::io::Write;
    let home = Home::with_catalog("one");
    let source = home.text("catalog.yaml");
    let mut child = crate::process::command(&["explain", "--catalog", &source, "--body", "-", "--format", "json"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(br#"{"model": "alias"}"#).unwrap();
    let output = child.wait_with_output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["outcome"], &answer["model"]), (&"override".into(), &"m".into()), "{answer}");
}

#[test]
fn explain_without_a_good_catalog_says_why_and_ends_with_1() {
    let home = Home::new();
    home.write("catalog.yaml", "version: 1\nmodels: {m: {chain: [nowhere]}}");
    let (code, out, error) = run(&["explain", "--catalog", &home.text("catalog.yaml"), "--model", "m"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(error.contains("nowhere"), "{error}");
}

#[test]
fn explain_shows_what_a_catalog_would_decide_whose_own_test_fails() {
    let home = Home::new();
    let failing = "tests: [{name: wrong, request: {model: m}, expect: {chain: [backup]}}]\n";
    home.write("catalog.yaml", &format!("{}{failing}", good("one")));
    let source = home.text("catalog.yaml");
    let arguments = ["explain", "--catalog", &source, "--model", "m"];
    let (code, out, error) = run(&arguments);
    assert!(code == Some(0) && out.contains("override"), "{code:?} {out}{error}");
    assert!(error.contains("failing-test") && error.contains("not accepted"), "{error}");
    let (_, out, _) = run(&[&arguments[..], &["--format", "json"]].concat());
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&answer["outcome"], &answer["accepted"]), (&"override".into(), &false.into()), "{answer}");
    assert_eq!(answer["diagnostics"][0]["code"], "failing-test", "{answer}");
    let (code, _, _) = run(&["check", "--catalog", &source]);
    assert_eq!(code, Some(1), "`check` still refuses it");
}

#[test]
fn explain_says_that_nothing_reads_a_header() {
    let home = Home::with_catalog("one");
    let source = home.text("catalog.yaml");
    let (_, out, _) = run(&["explain", "--catalog", &source, "--model", "m", "--header", "x-tenant-id: acme"]);
    assert!(out.contains("no source reads the header `x-tenant-id`"), "{out}");
}

#[test]
fn check_takes_warnings_for_errors_where_asked() {
    let home = Home::new();
    home.write("catalog.yaml", &format!("{}tiers: {{unused: {{}}}}\n", good("one")));
    let source = home.text("catalog.yaml");
    assert_eq!(run(&["check", "--catalog", &source]).0, Some(0));
    let (code, out, _) = run(&["check", "--catalog", &source, "--strict"]);
    assert!(code == Some(1) && out.contains("unused-tier") && out.contains("not good"), "{out}");
    let (code, out, _) = run(&["check", "--catalog", &source, "--strict", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["ok"]), (Some(1), &false.into()), "{report}");
}

#[test]
fn explain_gives_programs_one_json_document_whatever_is_wrong() {
    let home = Home::with_catalog("one");
    home.write("bad.yaml", "version: 1\nmodels: {m: {chain: [nowhere]}}");
    home.write("settings.yaml", "limits: {max_body: 1}\n");
    let (good, bad, settings) = (home.text("catalog.yaml"), home.text("bad.yaml"), home.text("settings.yaml"));
    for (arguments, code, told) in [
        (&["--catalog", &bad][..], "unknown-group", "nothing is explained"),
        (&["--catalog", &good, "--config", &settings], "wrong-type", "nothing is explained"),
        (&["--catalog", "/nowhere"], "unreachable", "nothing is explained"),
        (&["--catalog", &good, "--body", "/nowhere"], "", "--body /nowhere: "),
    ] {
        let (exit, out, error) = run(&[&["explain", "--model", "m", "--format", "json"], arguments].concat());
        let report: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{error}"));
        assert_eq!((exit, &report["ok"], error.as_str()), (Some(1), &false.into(), ""), "{report}");
        assert!(report["error"].as_str().unwrap().contains(told), "{report}");
        assert_eq!(report["diagnostics"][0]["code"].as_str().unwrap_or_default(), code, "{report}");
    }
}

#[test]
fn explain_supposes_that_clusters_cool_and_says_what_that_changes() {
    let home = Home::with_catalog("one");
    home.write("catalog.yaml", &good("one").replace(", drained: true", ""));
    let source = home.text("catalog.yaml");
    let explain = |cooling: &[&str], format: &str| {
        let more: Vec<&str> = cooling.iter().flat_map(|cluster| ["--cooling", cluster]).collect();
        let (code, out, _) = run(&[&["explain", "--catalog", &source, "--model", "m", "--format", format], &more[..]].concat());
        assert_eq!(code, Some(0), "{out}");
        out
    };
    for (cooling, health, first, told) in [
        (&[][..], "as_written", "both", ""),
        (&["left"], "reordered", "both", "cooling: left, so each leaves its group"),
        (&["left", "right"], "reordered", "backup", "cooling: left, right, so each leaves its group"),
        (&["left=alias", "right"], "reordered", "backup", "cooling: left, right"),
        (&["left", "right", "spare"], "all_cooling", "both", "the chain stays as written"),
        (&["spare"], "as_written", "both", ""),
        (&["nobody"], "as_written", "both", "nobody, which is no cluster of the catalog"),
        (&["left=nothing"], "as_written", "both", "nothing on left, which is no model of the catalog"),
    ] {
        let answer: serde_json::Value = serde_json::from_str(&explain(cooling, "json")).unwrap();
        assert_eq!((&answer["health"], &answer["chain"][0]["name"]), (&health.into(), &first.into()), "{cooling:?}: {answer}");
        let said: Vec<&str> = answer["considered"].as_array().unwrap().iter().filter_map(|it| it["result"].as_str()).collect();
        assert!(said.iter().any(|said| said.contains(told)), "{cooling:?}: {said:?}");
        assert!(explain(cooling, "text").contains(told), "{cooling:?}");
    }
}
