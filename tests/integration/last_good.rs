//! `catalog.last_good`: a restart while the source is bad or away.

use crate::catalog::{Home, good};
use crate::grpc::{self, SERVICE};
use crate::process::{Cascade, eventually};

async fn run_once(home: &Home, saved: &str) {
    let mut cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[("CATALOG__LAST_GOOD", saved)]).await;
    cascade.terminate();
    assert_eq!(cascade.ended().await.0, Some(0));
}

#[tokio::test]
async fn the_last_good_catalog_serves_while_the_source_is_bad_or_away() {
    let home = Home::with_catalog("good");
    let saved = home.text("saved");
    run_once(&home, &saved).await;
    let settings = [("CATALOG__LAST_GOOD", saved.as_str()), ("CATALOG__REFRESH", "100ms")];
    for bad in [Some(""), Some("version: 1\nmodels: {m: {chain: [nowhere]}}"), None] {
        match bad {
            Some(text) => home.write("catalog.yaml", text),
            None => home.remove("catalog.yaml"),
        }
        let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
        let status = cascade.status().await;
        assert_eq!((&status["label"], &status["stale"]), (&"good".into(), &true.into()), "{bad:?}: {status}");
        assert!(status["last_error"].is_string() && status["failures_since"].as_u64() >= Some(1), "{bad:?}: {status}");
        assert_eq!(cascade.metric("cascade_catalog_stale").await, Some(1.0));
        let channel = grpc::connect(&cascade.listen().await).await;
        let serving = async || grpc::health(&channel, SERVICE).await.ok().filter(|status| status.as_str_name() == "SERVING");
        eventually("health", serving).await;
        home.write("catalog.yaml", &good("new"));
        cascade.status_where("the new catalog", |status| status["label"] == "new" && status["stale"] == false).await;
        home.write("catalog.yaml", &good("good"));
        // It comes into use first and is saved then: a crash in between would find the one before.
        let is_saved =
            || std::fs::read_to_string(home.path("saved/last-good.bundle")).is_ok_and(|text| text.contains("label: good"));
        eventually("the old catalog on disk", async || is_saved().then_some(())).await;
    }
}

#[tokio::test]
async fn a_refused_catalog_is_not_saved() {
    let home = Home::with_catalog("good");
    let saved = home.text("saved");
    let settings = [("CATALOG__LAST_GOOD", saved.as_str())];
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
    home.write("catalog.yaml", "version: 1\nmodels: {m: {chain: [nowhere]}}");
    cascade.status_where("a failed load", |status| status["failures_since"] == 1).await;
    drop(cascade);
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
    assert_eq!(cascade.status().await["label"], "good");
}

#[tokio::test]
async fn a_saved_file_that_is_damaged_does_not_help_and_does_not_harm() {
    let home = Home::with_catalog("good");
    let saved = home.text("saved");
    run_once(&home, &saved).await;
    let file = std::fs::read_dir(&saved).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&file, "{\"format\": 1").unwrap();
    home.write("catalog.yaml", "");
    let settings = [("CATALOG__LAST_GOOD", saved.as_str())];
    let (code, output) = Cascade::start(&["--catalog", &home.text("catalog.yaml")], &settings).ended().await;
    assert_eq!(code, Some(78), "{output}");
    home.write("catalog.yaml", &good("good"));
    run_once(&home, &saved).await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_does_not_keep_the_catalog_from_serving() {
    let home = Home::with_catalog("good");
    home.write("saved", "a file where a directory should be");
    let saved = home.text("saved");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[("CATALOG__LAST_GOOD", &saved)]).await;
    eventually("a warning", async || cascade.output().contains("catalog.last_good").then_some(())).await;
    assert_eq!(cascade.status().await["last_error"], serde_json::Value::Null);
}
