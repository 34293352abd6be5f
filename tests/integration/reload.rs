//! Changes of the catalog while Cascade serves: however they are written, the good ones come into use and the bad ones do not.
//! The poll is set to minutes where file events must do the work, and to little where they cannot.

use std::os::unix::fs::symlink;

use crate::catalog::{Home, good};
use crate::grpc::{self, Stream, decision};
use crate::process::{Cascade, eventually};

const EVENTS_ONLY: [(&str, &str); 1] = [("CATALOG__REFRESH", "10m")];

async fn in_use(cascade: &Cascade, label: &str) {
    cascade
        .status_where(&format!("{label} in use"), |status| {
            status["label"] == label && status["failures_since"] == 0 && status["stale"] == false
        })
        .await;
}

async fn refused(cascade: &Cascade, kept: &str) -> serde_json::Value {
    cascade
        .status_where("a failed load", |status| {
            status["label"] == kept && status["failures_since"].as_u64() >= Some(1) && status["stale"] == true
        })
        .await
}

#[tokio::test]
async fn a_file_replaced_by_rename_comes_into_use() {
    let home = Home::with_catalog("v0");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &EVENTS_ONLY).await;
    for version in ["v1", "v2", "v3"] {
        home.replace("catalog.yaml", &good(version));
        in_use(&cascade, version).await;
    }
}

#[tokio::test]
async fn a_file_truncated_and_written_slowly_is_never_seen_half() {
    let home = Home::with_catalog("v0");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &EVENTS_ONLY).await;
    for version in ["v1", "v2", "v3"] {
        let text = good(version);
        let (half, _) = text.split_at(text.len() / 2);
        home.write("catalog.yaml", "");
        home.write("catalog.yaml", half);
        home.write("catalog.yaml", &text);
        in_use(&cascade, version).await;
    }
    assert_eq!(cascade.metric(r#"cascade_catalog_reloads_total{result="failure"}"#).await, Some(0.0));
    assert_eq!(cascade.metric(r#"cascade_catalog_reloads_total{result="success"}"#).await, Some(4.0));
}

#[tokio::test]
async fn a_config_map_is_followed_through_its_swap_of_links() {
    let home = Home::new();
    home.write("..2024_1/catalog.yaml", &good("v1"));
    symlink("..2024_1", home.path("..data")).unwrap();
    symlink("..data/catalog.yaml", home.path("catalog.yaml")).unwrap();
    for source in ["catalog.yaml", "."] {
        let cascade = Cascade::ready(&["--catalog", &home.text(source)], &EVENTS_ONLY).await;
        for version in ["v2", "v3"] {
            let directory = format!("..2024_{source}_{version}").replace("/", "_");
            home.write(&format!("{directory}/catalog.yaml"), &good(version));
            symlink(&directory, home.path("..data_tmp")).unwrap();
            std::fs::rename(home.path("..data_tmp"), home.path("..data")).unwrap();
            in_use(&cascade, version).await;
        }
    }
}

#[tokio::test]
async fn a_bad_file_keeps_the_last_good_catalog_and_a_good_one_heals() {
    let home = Home::with_catalog("good");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &EVENTS_ONLY).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let bad = [
        ("a fault", good("bad").replace("chain: [both", "chain: [none")),
        ("no YAML", "version: 1\nmodels: {m: [".to_owned()),
        ("an empty file", String::new()),
        ("only blanks", "\n\n".to_owned()),
        ("half a catalog", good("bad").split_at(300).0.to_owned()),
        ("another kind of file", "\u{0}\u{1}\u{2}".to_owned()),
    ];
    for (what, text) in bad {
        home.write("catalog.yaml", &text);
        let status = refused(&cascade, "good").await;
        assert!(status["last_error"].as_str().unwrap().contains("catalog.yaml"), "{what}: {status}");
        assert_eq!(cascade.get("/readyz").await.status, 200, "{what}: the last good one serves");
        assert_eq!(cascade.metric("cascade_catalog_stale").await, Some(1.0), "{what}");
        let mut stream = Stream::open(&channel).await.unwrap();
        let [_, answer] = stream.buffered(&[], br#"{"model": "m"}"#.to_vec()).await;
        assert_eq!(decision(&answer), "override model_chain", "{what}");
        home.write("catalog.yaml", &good("good"));
        in_use(&cascade, "good").await;
        assert_eq!(cascade.metric("cascade_catalog_stale").await, Some(0.0), "{what}");
    }
}

#[tokio::test]
async fn a_bad_file_counts_once_however_often_it_is_polled() {
    let home = Home::with_catalog("good");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[("CATALOG__REFRESH", "100ms")]).await;
    home.replace("catalog.yaml", "version: 2");
    refused(&cascade, "good").await;
    home.replace("catalog.yaml", "version: 3");
    cascade.status_where("two failures", |status| status["failures_since"] == 2).await;
    // A good one that comes after many polls of the bad one: nothing was counted in between.
    home.replace("catalog.yaml", &good("better"));
    in_use(&cascade, "better").await;
    assert_eq!(cascade.metric(r#"cascade_catalog_reloads_total{result="failure"}"#).await, Some(2.0));
    assert_eq!(cascade.output().matches("the catalog is refused").count(), 2);
}

#[tokio::test]
async fn a_deleted_file_keeps_the_catalog_and_the_same_file_heals() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[("CATALOG__REFRESH", "100ms")]).await;
    let loaded = cascade.status().await;
    home.remove("catalog.yaml");
    let status = refused(&cascade, "one").await;
    assert_eq!(status["revision"], loaded["revision"]);
    assert_eq!(cascade.get("/readyz").await.status, 200);
    home.write("catalog.yaml", &good("one"));
    in_use(&cascade, "one").await;
    assert_eq!(cascade.status().await["revision"], loaded["revision"]);
}

#[tokio::test]
async fn a_directory_that_is_made_anew_is_watched_again() {
    let home = Home::new();
    home.write("catalogs/a.yaml", &good("v1"));
    let cascade = Cascade::ready(&["--catalog", &home.text("catalogs")], &[("CATALOG__REFRESH", "100ms")]).await;
    std::fs::rename(home.path("catalogs"), home.path("old")).unwrap();
    refused(&cascade, "v1").await;
    home.write("catalogs/a.yaml", &good("v2"));
    in_use(&cascade, "v2").await;
    home.write("catalogs/a.yaml", &good("v3"));
    in_use(&cascade, "v3").await;
}

#[tokio::test]
async fn a_second_file_in_a_directory_is_merged_and_its_removal_is_seen() {
    let home = Home::new();
    home.write("catalogs/a.yaml", &good("one"));
    let cascade = Cascade::ready(&["--catalog", &home.text("catalogs")], &EVENTS_ONLY).await;
    home.write("catalogs/b.yaml", "version: 1\nmodels: {n: {chain: [backup]}}\n");
    let models = async || cascade.get("/catalog").await.json()["models"].as_object().unwrap().len();
    eventually("two models", async || (models().await == 2).then_some(())).await;
    home.remove("catalogs/b.yaml");
    eventually("one model", async || (models().await == 1).then_some(())).await;
}

#[tokio::test]
async fn without_file_events_the_poll_finds_the_change() {
    let home = Home::new();
    // The link leads into a directory whose parent is swapped: no watched directory changes.
    home.write("releases/1/catalogs/catalog.yaml", &good("v1"));
    home.write("releases/2/catalogs/catalog.yaml", &good("v2"));
    symlink("1", home.path("releases/now")).unwrap();
    std::fs::create_dir(home.path("mount")).unwrap();
    symlink("../releases/now/catalogs/catalog.yaml", home.path("mount/catalog.yaml")).unwrap();
    let cascade = Cascade::ready(&["--catalog", &home.text("mount/catalog.yaml")], &[("CATALOG__REFRESH", "100ms")]).await;
    in_use(&cascade, "v1").await;
    symlink("2", home.path("releases/next")).unwrap();
    std::fs::rename(home.path("releases/next"), home.path("releases/now")).unwrap();
    in_use(&cascade, "v2").await;
}

#[tokio::test]
async fn a_stream_keeps_the_catalog_that_it_began_with() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &EVENTS_ONLY).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut old = Stream::begin(&channel, &[]).await;
    home.replace("catalog.yaml", &good("two").replace("m: {aliases: [alias], chain: [both, backup]}", "n: {chain: [both]}"));
    in_use(&cascade, "two").await;
    let mut new = Stream::open(&channel).await.unwrap();
    let [_, answer] = new.buffered(&[], br#"{"model": "m"}"#.to_vec()).await;
    assert_eq!(decision(&answer), "pass_through unknown_model");
    old.send(grpc::whole_body(br#"{"model": "m"}"#.to_vec())).await;
    assert_eq!(decision(&old.answer().await.unwrap().unwrap()), "override model_chain");
}

#[tokio::test]
async fn a_touch_and_a_copy_of_the_same_text_change_nothing() {
    let home = Home::with_catalog("one");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &EVENTS_ONLY).await;
    in_use(&cascade, "one").await;
    let before = cascade.status().await;
    // The same text again: in place, by rename, and with a new time.
    home.write("catalog.yaml", &good("one"));
    home.replace("catalog.yaml", &good("one"));
    let file = std::fs::File::options().append(true).open(home.path("catalog.yaml")).unwrap();
    file.set_modified(std::time::SystemTime::now()).unwrap();
    // What comes after it was read after it.
    home.replace("catalog.yaml", &good("two"));
    in_use(&cascade, "two").await;
    let after = cascade.status().await;
    assert_eq!((&before["failures_since"], &after["failures_since"]), (&0.into(), &0.into()));
    assert_eq!(cascade.metric("cascade_catalog_reloads_total{result=\"success\"}").await, Some(2.0));
}

#[tokio::test]
async fn a_link_that_is_turned_to_another_file_is_followed() {
    let home = Home::new();
    home.write("blue/catalog.yaml", &good("blue"));
    home.write("green/catalog.yaml", &good("green"));
    let turn = |to: &str| {
        symlink(home.path(to).join("catalog.yaml"), home.path(".turning")).unwrap();
        std::fs::rename(home.path(".turning"), home.path("catalog.yaml")).unwrap();
    };
    turn("blue");
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &EVENTS_ONLY).await;
    for name in ["green", "blue", "green"] {
        turn(name);
        in_use(&cascade, name).await;
    }
}
