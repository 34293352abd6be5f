//! Half-written files, files that are moved aside, and changes that take something away: what comes into use, and when. Where a half
//! must never come into use the time for it is an hour, so that nothing depends on how busy the machine is.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::catalog::{Home, good};
use crate::process::{Cascade, eventually, run};

const NEVER: [(&str, &str); 3] =
    [("CATALOG__SETTLE", "50ms"), ("CATALOG__SETTLE_LOOSENING", "1h"), ("CATALOG__REFRESH", "200ms")];
const SOON: [(&str, &str); 3] =
    [("CATALOG__SETTLE", "50ms"), ("CATALOG__SETTLE_LOOSENING", "400ms"), ("CATALOG__REFRESH", "200ms")];

/// The catalog of [`good`] up to the restriction of the tenant `eu`, with a tenant more: a catalog by itself.
fn half(label: &str) -> String {
    let text = good(label).replace("  eu: {require_tags: [eu]}", "  eu:\n    mode: enforce\n    require_tags: [eu]");
    text[..text.find("    require_tags").unwrap()].to_owned()
}

fn rest(label: &str) -> String {
    let text = good(label).replace("  eu: {require_tags: [eu]}", "  eu:\n    mode: enforce\n    require_tags: [eu]");
    text[half(label).len()..].to_owned()
}

async fn in_use(cascade: &Cascade, label: &str) -> Value {
    cascade.status_where(label, |status| status["label"] == label && status["pending"].is_null()).await
}

/// Waits until a change is held back, and shows that nothing came of it.
async fn held(cascade: &Cascade, label: &str, why: &str) {
    let status = cascade.status_where(why, |status| status["pending"].to_string().contains(why)).await;
    for field in ["why", "since", "until"] {
        assert!(status["pending"][field].is_string(), "{status}");
    }
    assert_eq!(
        (&status["label"], &status["stale"], &status["failures_since"]),
        (&label.into(), &false.into(), &0.into()),
        "{why}"
    );
    let catalog = cascade.get("/catalog").await.json();
    assert_eq!(catalog["tenants"]["eu"]["require_tags"], serde_json::json!(["eu"]), "{why}");
}

async fn successes(cascade: &Cascade) -> Option<f64> {
    cascade.metric(r#"cascade_catalog_reloads_total{result="success"}"#).await
}

#[tokio::test]
async fn half_a_file_is_never_in_use_however_it_is_written() {
    let home = Home::with_catalog("v0");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &NEVER).await;
    let lost = "does not require the tag `eu`";
    let path = home.path("catalog.yaml");

    // Truncated, half written and closed; the rest is appended seconds later.
    home.write("catalog.yaml", &half("v1"));
    held(&cascade, "v0", lost).await;
    OpenOptions::new().append(true).open(&path).unwrap().write_all(rest("v1").as_bytes()).unwrap();
    in_use(&cascade, "v1").await;

    // Under a temporary name, which a rename puts there too early.
    home.replace("catalog.yaml", &half("v2"));
    held(&cascade, "v1", lost).await;
    home.replace("catalog.yaml", &good("v2"));
    in_use(&cascade, "v2").await;

    // Over the old text, which is cut afterwards, as `rsync --inplace` does it.
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all(half("v3").as_bytes()).unwrap();
    file.set_len(half("v3").len() as u64).unwrap();
    drop(file);
    held(&cascade, "v2", lost).await;
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(rest("v3").as_bytes()).unwrap();
    drop(file);
    in_use(&cascade, "v3").await;

    // Back to what was there: as if nothing had been.
    home.write("catalog.yaml", &half("v3"));
    held(&cascade, "v3", lost).await;
    home.write("catalog.yaml", &(half("v3") + &rest("v3")));
    in_use(&cascade, "v3").await;
    assert_eq!(successes(&cascade).await, Some(4.0), "the halves never came into use");
    assert_eq!(cascade.metric(r#"cascade_catalog_reloads_total{result="failure"}"#).await, Some(0.0));
}

#[tokio::test]
async fn a_file_that_is_open_for_writing_is_waited_for() {
    let home = Home::with_catalog("v0");
    let settings = [("CATALOG__SETTLE", "50ms"), ("CATALOG__SETTLE_LOOSENING", "50ms"), ("CATALOG__REFRESH", "100ms")];
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
    let mut file = File::create(home.path("catalog.yaml")).unwrap();
    file.write_all(half("v1").as_bytes()).unwrap();
    file.flush().unwrap();
    held(&cascade, "v0", "is open for writing").await;
    // It is looked at again and again, and stays as it is.
    for _ in 0..20 {
        held(&cascade, "v0", "is open for writing").await;
    }
    file.write_all(rest("v1").as_bytes()).unwrap();
    drop(file);
    in_use(&cascade, "v1").await;
    assert_eq!(successes(&cascade).await, Some(2.0));
}

fn in_a_directory() -> Home {
    let home = Home::new();
    let text = good("one");
    let (models, tenants) = text.split_at(text.find("tenants:").unwrap());
    home.write("catalogs/models.yaml", models);
    home.write("catalogs/tenants.yaml", &format!("version: 1\n{tenants}"));
    home
}

#[tokio::test]
async fn a_file_that_is_moved_aside_and_comes_back_changes_nothing() {
    let home = in_a_directory();
    let cascade = Cascade::ready(&["--catalog", &home.text("catalogs")], &NEVER).await;
    for aside in ["catalogs/tenants.yaml~", "catalogs/.tenants.yaml.swp", "elsewhere.yaml", "catalogs/tenants.yaml.bak"] {
        fs::rename(home.path("catalogs/tenants.yaml"), home.path(aside)).unwrap();
        held(&cascade, "one", "tenants.yaml is gone").await;
        fs::rename(home.path(aside), home.path("catalogs/tenants.yaml")).unwrap();
        in_use(&cascade, "one").await;
    }
    // A directory where the file was.
    fs::rename(home.path("catalogs/tenants.yaml"), home.path("elsewhere.yaml")).unwrap();
    fs::create_dir(home.path("catalogs/tenants.yaml")).unwrap();
    held(&cascade, "one", "tenants.yaml is gone").await;
    fs::remove_dir(home.path("catalogs/tenants.yaml")).unwrap();
    fs::rename(home.path("elsewhere.yaml"), home.path("catalogs/tenants.yaml")).unwrap();
    in_use(&cascade, "one").await;
    assert_eq!(successes(&cascade).await, Some(1.0));
}

#[tokio::test]
async fn what_stays_away_is_taken_after_its_time_and_the_log_says_what_it_was() {
    let home = in_a_directory();
    let cascade = Cascade::ready(&["--catalog", &home.text("catalogs")], &SOON).await;
    home.remove("catalogs/tenants.yaml");
    let gone = async || (cascade.get("/catalog").await.json()["tenants"] == serde_json::json!({})).then_some(());
    eventually("no tenants", gone).await;
    let status = in_use(&cascade, "one").await;
    assert_eq!(status["stale"], false);
    let output = cascade.output();
    for word in ["has to stay so for 400ms", "tenants.yaml is gone", "the tenant `eu` is gone"] {
        assert!(output.contains(word), "{word}: {output}");
    }
    let taken = output.lines().rfind(|line| line.contains("catalog in use")).unwrap();
    assert!(taken.contains("loosened=") && taken.contains("the tenant `eu` is gone"), "{taken}");
}

#[tokio::test]
async fn a_change_that_takes_nothing_away_does_not_wait_for_that() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &NEVER).await;
    let drained = good("two").replace("left: {provider: p, ", "left: {provider: p, drained: true, ");
    home.write("catalog.yaml", &drained);
    in_use(&cascade, "two").await;
    home.write("catalog.yaml", &drained.replace("label: two", "label: three").replace("eu: {", "eu: {forbid_tags: [eu], "));
    in_use(&cascade, "three").await;
}

#[tokio::test]
async fn a_half_written_first_catalog_is_waited_for() {
    let home = Home::new();
    home.write("catalog.yaml", &half("v1"));
    let settings = [("CATALOG__SETTLE", "2s"), ("CATALOG__SETTLE_LOOSENING", "1h"), ("TELEMETRY__LOG", "cascade=debug")];
    let cascade = Cascade::start(&["--catalog", &home.text("catalog.yaml")], &settings);
    let path = home.path("catalog.yaml");
    // It is looked at before it is whole.
    eventually("a first look", async || cascade.output().contains("watching for changes").then_some(())).await;
    OpenOptions::new().append(true).open(path).unwrap().write_all(rest("v1").as_bytes()).unwrap();
    in_use(&cascade, "v1").await;
    let catalog = cascade.get("/catalog").await.json();
    assert_eq!(catalog["tenants"]["eu"]["require_tags"], serde_json::json!(["eu"]));
    assert_eq!(successes(&cascade).await, Some(1.0));
}

#[tokio::test]
async fn after_a_restart_the_last_good_catalog_is_in_use_until_a_fresh_removal_has_settled() {
    let home = Home::with_catalog("v0");
    let saved = home.text("saved");
    let with = |settings: [(&'static str, &'static str); 3]| [settings.as_slice(), &[("CATALOG__LAST_GOOD", "")]].concat();
    let start = async |settings: [(&'static str, &'static str); 3]| {
        let mut settings: Vec<(&str, &str)> = with(settings);
        settings[3].1 = &saved;
        Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await
    };
    drop(start(NEVER).await);
    // While it is down the restriction goes, or half of the file is there.
    home.write("catalog.yaml", &half("v1"));
    let cascade = start(NEVER).await;
    let status = cascade.status_where("pending", |status| status["pending"]["loosens"].is_array()).await;
    assert_eq!((&status["label"], &status["stale"]), (&"v0".into(), &true.into()), "{status}");
    assert!(status["pending"]["loosens"].to_string().contains("does not require the tag `eu`"), "{status}");
    drop(cascade);
    // The same as was saved needs no time, whatever its age.
    home.write("catalog.yaml", &good("v0"));
    let cascade = start([("CATALOG__SETTLE", "1h"), ("CATALOG__SETTLE_LOOSENING", "1h"), ("CATALOG__REFRESH", "1s")]).await;
    assert_eq!(in_use(&cascade, "v0").await["stale"], false);
    drop(cascade);
    home.write("catalog.yaml", &half("v1"));
    in_use(&start(SOON).await, "v1").await;
}

#[tokio::test]
async fn a_pipe_or_a_socket_is_refused_and_what_replaces_it_heals() {
    let home = Home::new();
    let fifo = || assert!(std::process::Command::new("mkfifo").arg(home.path("catalog.yaml")).status().unwrap().success());
    fifo();
    let (code, output) = Cascade::start(&["--catalog", &home.text("catalog.yaml")], &[]).ended().await;
    assert!(code == Some(78) && output.contains("special-file"), "{output}");
    let (code, out, _) = run(&["check", &home.text("catalog.yaml")]);
    assert!(code == Some(1) && out.contains("special-file"), "{out}");
    home.remove("catalog.yaml");
    home.write("catalog.yaml", &good("one"));
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    home.remove("catalog.yaml");
    fifo();
    cascade.status_where("refused", |status| status["last_error"].to_string().contains("special-file")).await;
    home.remove("catalog.yaml");
    home.write("catalog.yaml", &good("two"));
    in_use(&cascade, "two").await;
}

#[tokio::test]
async fn a_directory_link_that_is_turned_is_noticed_without_the_poll() {
    let home = Home::new();
    home.write("releases/1/sub/catalog.yaml", &good("v1"));
    home.write("releases/2/sub/catalog.yaml", &good("v2"));
    symlink("releases/1", home.path("current")).unwrap();
    for source in ["current/sub", "current/sub/catalog.yaml"] {
        let turn = |to: &str| {
            symlink(to, home.path("next")).unwrap();
            fs::rename(home.path("next"), home.path("current")).unwrap();
        };
        turn("releases/1");
        let cascade = Cascade::ready(&["--catalog", &home.text(source)], &[("CATALOG__REFRESH", "10m")]).await;
        turn("releases/2");
        in_use(&cascade, "v2").await;
        assert!(cascade.output().contains("lead elsewhere now"), "{}", cascade.output());
    }
}

#[tokio::test]
async fn a_last_good_catalog_that_cannot_be_replaced_is_set_aside_and_said() {
    let home = Home::with_catalog("one");
    home.write("saved/last-good.bundle/in-the-way", "a directory cannot be replaced by a file");
    let saved = home.text("saved");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[("CATALOG__LAST_GOOD", &saved)]).await;
    let status = cascade.status_where("the error", |status| status["last_good_error"].is_string()).await;
    assert!(status["last_good_error"].to_string().contains("set aside"), "{status}");
    assert_eq!((&status["label"], &status["last_error"]), (&"one".into(), &Value::Null));
    assert!(home.path("saved/last-good.bundle.stale/in-the-way").exists());
    assert!(cascade.output().contains("ERROR") && cascade.output().contains("could not be saved to catalog.last_good"));
    // The next one is saved, and nothing is left to say.
    home.write("catalog.yaml", &good("two"));
    in_use(&cascade, "two").await;
    cascade.status_where("saved", |status| status["last_good_error"].is_null()).await;
    assert!(fs::read_to_string(home.path("saved/last-good.bundle")).unwrap().contains("label: two"));
}

#[tokio::test]
async fn a_file_whose_name_is_not_quite_a_catalogs_is_warned_of() {
    let home = in_a_directory();
    home.write("catalogs/B.YAML", "version: 1\n");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalogs")], &[("CATALOG__REFRESH", "100ms")]).await;
    let warned = async |name: &str| {
        let line = |output: String| output.lines().any(|line| line.contains("file-not-read") && line.contains(name));
        eventually(name, async || line(cascade.output()).then_some(())).await;
    };
    warned("B.YAML").await;
    home.write("catalogs/c.ymal", "version: 1\n");
    warned("c.ymal").await;
    let (code, out, _) = run(&["check", &home.text("catalogs"), "--format", "json"]);
    assert!(code == Some(0) && out.matches("file-not-read").count() == 2, "{out}");
}

#[tokio::test]
async fn the_catalog_may_be_named_without_its_flag() {
    let home = Home::with_catalog("one");
    for command in ["check", "explain"] {
        let (code, out, errors) = run(&[command, &home.text("catalog.yaml")]);
        assert_eq!(code, Some(0), "{out}{errors}");
    }
    let cascade = Cascade::ready(&[&home.text("catalog.yaml")], &[]).await;
    in_use(&cascade, "one").await;
    let (code, _, errors) = run(&["check", "a.yaml", "--catalog", "b.yaml"]);
    assert!(code == Some(2) && errors.contains("cannot be used with"), "{errors}");
}
