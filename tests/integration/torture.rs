//! Every way a catalog changes, one after the other, while requests never stop: each ends in the catalog that was written last, no
//! answer mixes two, and what memory the old ones took comes back.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::catalog::Home;
use crate::grpc::{self, Stream, decision};
use crate::process::{Cascade, eventually};

const FILE: &str = "catalogs/catalog.yaml";

/// A catalog that says its version in every name, so that an answer made from two shows it.
fn named(version: &str) -> String {
    format!(
        "version: 1
label: {version}.
clusters:
  left-{version}.: {{tags: [eu]}}
priority_groups:
  both-{version}.: {{clusters: [{{cluster_name: left-{version}., weight: 80}}, {{cluster_name: right-{version}., weight: 20}}]}}
  backup-{version}.: {{clusters: [{{cluster_name: spare-{version}., weight: 1}}]}}
models:
  m: {{chain: [both-{version}., backup-{version}.]}}
"
    )
}

/// The versions (`v7.`) that a text speaks of.
fn versions(text: &str) -> BTreeSet<&str> {
    let ends = text.match_indices('.').map(|(at, _)| &text[..at]);
    let is_version = |word: &&str| word.len() > 1 && word.starts_with('v') && word[1..].bytes().all(|byte| byte.is_ascii_digit());
    ends.filter_map(|before| before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next()).filter(is_version).collect()
}

/// Asks until it is told to stop; every answer is an override from one version. Gives the number of answers.
async fn ask(address: String, stop: Arc<AtomicBool>) -> usize {
    let channel = grpc::connect(&address).await;
    let mut answers = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut stream = Stream::open(&channel).await.unwrap();
        let [_, answer] = stream.buffered(&[], br#"{"model": "m"}"#.to_vec()).await;
        assert_eq!(decision(&answer), "override model_chain");
        let text = format!("{:?}", answer.dynamic_metadata);
        assert_eq!(versions(&text).len(), 1, "an answer from more than one catalog: {text}");
        answers += 1;
    }
    answers
}

async fn in_use(cascade: &Cascade, version: &str) {
    let what = format!("{version} in use");
    let label = format!("{version}.");
    cascade.status_where(&what, |status| status["label"] == label.as_str() && status["stale"] == false).await;
    assert_eq!(cascade.metric("cascade_catalog_stale").await, Some(0.0), "{what}");
    let metrics = cascade.get("/metrics").await.text();
    let info: Vec<&str> = metrics.lines().filter(|line| line.starts_with("cascade_catalog_info{")).collect();
    assert!(info.len() == 1 && info[0].contains(&format!("label=\"{label}\"")), "{what}: {info:?}");
}

async fn stale(cascade: &Cascade, what: &str) {
    cascade.status_where(what, |status| status["stale"] == true && status["failures_since"].as_u64() >= Some(1)).await;
    assert_eq!(cascade.metric("cascade_catalog_stale").await, Some(1.0), "{what}");
    assert_eq!(cascade.get("/readyz").await.status, 200, "{what}: the last good one serves");
}

fn append(home: &Home, text: &str) {
    fs::OpenOptions::new().append(true).open(home.path(FILE)).unwrap().write_all(text.as_bytes()).unwrap();
}

async fn by_hand(home: &Home, cascade: &Cascade) {
    home.write(FILE, "");
    named("v1").lines().for_each(|line| append(home, &format!("{line}\n")));
    in_use(cascade, "v1").await;

    append(home, "  n: {chain: [backup-v1.]}\n");
    let models = async || cascade.get("/catalog").await.json()["models"].as_object().unwrap().len();
    eventually("the appended model", async || (models().await == 2).then_some(())).await;

    home.remove(FILE);
    home.write(FILE, &named("v2"));
    in_use(cascade, "v2").await;

    // As editors do: what was there becomes the backup, a swap file stands beside it.
    home.write("catalogs/.catalog.yaml.swp", "no catalog");
    fs::rename(home.path(FILE), home.path("catalogs/catalog.yaml~")).unwrap();
    home.write(FILE, &named("v3"));
    home.remove("catalogs/.catalog.yaml.swp");
    in_use(cascade, "v3").await;

    home.write("catalogs/more.yaml", "version: 1\nmodels: {n: {chain: [backup-v3.]}}\n");
    eventually("the model of a second file", async || (models().await == 2).then_some(())).await;
    home.remove("catalogs/more.yaml");
    eventually("one file again", async || (models().await == 1).then_some(())).await;
}

async fn by_accident(home: &Home, cascade: &Cascade) {
    // For who may read everything the permissions change nothing; what counts is what comes after them.
    fs::set_permissions(home.path(FILE), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(home.path(FILE)).is_err() {
        stale(cascade, "no permission").await;
    }
    fs::set_permissions(home.path(FILE), fs::Permissions::from_mode(0o600)).unwrap();
    home.write(FILE, &named("v4"));
    in_use(cascade, "v4").await;

    home.remove(FILE);
    fs::create_dir(home.path(FILE)).unwrap();
    stale(cascade, "a directory where the file was").await;
    fs::remove_dir(home.path(FILE)).unwrap();
    home.write(FILE, &named("v5"));
    in_use(cascade, "v5").await;

    home.write(FILE, &named("v6").replace("chain: [both", "chain: [none"));
    stale(cascade, "a group that is not there").await;
    home.replace(FILE, &named("v7"));
    in_use(cascade, "v7").await;

    home.write("fresh/catalog.yaml", &named("v8"));
    fs::rename(home.path("catalogs"), home.path("old")).unwrap();
    fs::rename(home.path("fresh"), home.path("catalogs")).unwrap();
    in_use(cascade, "v8").await;
    home.replace(FILE, &named("v9"));
    in_use(cascade, "v9").await;
}

#[tokio::test]
async fn however_the_catalog_changes_under_load_no_answer_mixes_two() {
    assert_eq!(versions("a-v1. b \"v22.\" v. 80.0 v3"), BTreeSet::from(["v1", "v22"]));
    let home = Home::new();
    home.write(FILE, &named("v0"));
    let cascade = Cascade::ready(&["--catalog", &home.text("catalogs")], &[("CATALOG__REFRESH", "100ms")]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let address = cascade.listen().await;
    let clients: Vec<_> = (0..4).map(|_| tokio::spawn(ask(address.clone(), stop.clone()))).collect();
    by_hand(&home, &cascade).await;
    by_accident(&home, &cascade).await;
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.await.unwrap() > 0, "every client got answers");
    }
    let requests = cascade.metric(r#"cascade_requests_total{outcome="pass_through",reason="internal"}"#).await;
    assert!(requests.is_none_or(|count| count == 0.0));
    // Twelve good catalogs and two bad states were waited for; a step that was read halfway may add to either.
    let reloads = async |result| cascade.metric(&format!("cascade_catalog_reloads_total{{result=\"{result}\"}}")).await;
    let (good, bad) = (reloads("success").await, reloads("failure").await);
    assert!(good >= Some(12.0) && bad >= Some(2.0), "{good:?} good, {bad:?} bad");
}

/// A catalog of 600 models and 300 tenants.
fn large(label: usize) -> String {
    let mut text =
        format!("version: 1\nlabel: n{label}\npriority_groups: {{g: {{clusters: [{{cluster_name: c, weight: 1}}]}}}}\nmodels:\n");
    (0..600).for_each(|at| {
        let _ = writeln!(text, "  model-{at}: {{aliases: [alias-{at}, \"model-{at}-*\"], chain: [g, g]}}");
    });
    text.push_str("tenants:\n");
    (0..300).for_each(|at| {
        let _ = writeln!(text, "  tenant-{at}: {{allowed_models: [\"model-*\"], chains: {{\"model-{at}\": [g]}}}}");
    });
    text
}

/// That the store lets go of a thousand old snapshots is shown where it is made; here it is the process that gives the memory back.
#[tokio::test]
async fn memory_does_not_grow_with_the_number_of_reloads() {
    const WARM: usize = 10;
    const ROUNDS: usize = 40;
    let home = Home::new();
    home.write("catalog.yaml", &large(0));
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[("CATALOG__REFRESH", "10m")]).await;
    let mut warm = 0;
    for round in 1..=WARM + ROUNDS {
        home.replace("catalog.yaml", &large(round));
        let label = format!("n{round}");
        cascade.status_where(&label, |status| status["label"] == label.as_str()).await;
        if round == WARM {
            warm = cascade.resident_kilobytes();
        }
    }
    let grown = cascade.resident_kilobytes().saturating_sub(warm);
    println!("after {WARM} reloads {warm} kB, {ROUNDS} later {grown} kB more");
    // Were one catalog's text kept at each reload, and a snapshot is larger, it would be this much.
    let leak = ROUNDS * large(0).len() / 1024;
    assert!(grown < leak, "from {warm} kB by {grown} kB; a leak of the text alone is {leak} kB");
}
