//! The name of the model on each attempt, on a real Envoy: every provider gets the one that it knows, and nothing else changes.

use cascade::lab::{Reply, Request};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::gateway::ok;
use crate::scene::Scene;

const NAMES: &str = "version: 1
clusters:
  one: {models: {m: vendor-a-model}}
  two: {models: {m: \"vendor-b:0\"}}
  three: {}
priority_groups:
  first: {clusters: [{cluster_name: one, weight: 1}]}
  second: {clusters: [{cluster_name: two, weight: 1}]}
  third: {clusters: [{cluster_name: three, weight: 1}]}
models:
  m: {aliases: [alias, \"m-*\"], chain: [first, second, third]}
";

/// Answers only what it knows by this name; everybody is limited but the last.
fn picky(scene: &Scene, name: &str, accepts: &'static str, then: u16) {
    scene.provider(name).answer(move |seen| {
        let is_known = seen.model().as_deref() == Some(accepts) || seen.path.contains(&format!("/{accepts}/"));
        Reply::status(if is_known { then } else { 404 })
    });
}

// Facts 27 and 28b
#[tokio::test]
async fn each_provider_gets_the_model_under_its_own_name_and_nothing_else_changes() {
    let scene = Scene::with_catalog(NAMES, &[("one", 503), ("two", 503), ("three", 200)], vec![]).await;
    picky(&scene, "one", "vendor-a-model", 503);
    picky(&scene, "two", "vendor-b:0", 503);
    picky(&scene, "three", "m", 200);
    for sent in ["m", "alias", "m-2025"] {
        let body = |model: &str| {
            format!("{{ \"messages\":[{{\"content\":\"\\u00e9 {sent}\"}}], \"n\" : 1.0e2,\n \"model\" : \"{model}\" }}")
        };
        let request = Request::post("/v1/chat/completions", body(sent)).header("content-type", "application/json");
        let (response, trail) = scene.send(request).await;
        let way = trail.to_string();
        assert!(way.ends_with("three(200)") && !way.contains("404"), "{sent}: {way} {response:?} {trail:?}");
        for (name, model) in [("one", "vendor-a-model"), ("two", "vendor-b:0"), ("three", "m")] {
            let Some(seen) = scene.provider(name).seen().pop() else { continue };
            if !String::from_utf8_lossy(&seen.body).contains(&format!("\\u00e9 {sent}\"")) {
                continue; // it cooled and was not asked
            }
            assert_eq!(String::from_utf8(seen.body.clone()).unwrap(), body(model), "{name}");
            // An attempt whose body is changed has no length that the next one could find (fact 70).
            assert_eq!(seen.header("content-length"), None, "{name}");
        }
    }
    // The path of an API that names the model there.
    ok(scene.serve.admin(Request::post("/clusters/one/clear", "")).await);
    let (_, trail) = scene.send(Request::post("/openai/deployments/alias/chat/completions?x=1", "{}")).await;
    assert!(trail.to_string().starts_with("one(503)"), "{trail}");
    assert_eq!(scene.provider("one").seen().pop().unwrap().path, "/openai/deployments/vendor-a-model/chat/completions?x=1");
}

#[tokio::test]
async fn what_has_its_name_already_is_not_even_shown_and_the_rest_passes_untouched() {
    let scene = Scene::with_catalog(NAMES, &[("one", 503), ("two", 503), ("three", 200)], vec![]).await;
    for cluster in ["one", "two"] {
        ok(scene.serve.admin(Request::post(&format!("/clusters/{cluster}/cool"), "")).await);
    }
    assert!(scene.way().await.starts_with("three(200)"));
    assert_eq!(scene.metric("cascade_upstream_rewrites_total{result=\"unchanged\"}").await, 1.0);
    let compressed = Request::post("/v1/chat/completions", "\u{1f}garbage").header("content-encoding", "gzip");
    let (response, _) = scene.send(compressed).await;
    assert_ne!(response.status, 500);
    assert_eq!(scene.provider("one").seen().pop().unwrap().body, "\u{1f}garbage".as_bytes(), "the static chain, as it came");
    assert!(scene.metric("cascade_upstream_rewrites_total{result=\"compressed\"}").await >= 1.0);
}

// Fact 27
#[tokio::test]
async fn a_form_has_each_providers_name_and_its_file_byte_for_byte() {
    let scene = Scene::with_catalog(NAMES, &[("one", 503), ("two", 503), ("three", 200)], vec![]).await;
    let body = |model: &str| {
        let file =
            "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\n\r\n\u{1}\r\n-B\r\n--\u{fffd}\r\n";
        let name = format!("--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n");
        format!("{file}{name}--B\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n 1.0 \r\n--B--\r\n")
    };
    let mut request = Request::post("/v1/audio/transcriptions", body("alias"));
    request.headers.clear();
    let (response, trail) = scene.send(request.header("content-type", "multipart/form-data; boundary=B")).await;
    assert_eq!((response.status, trail.to_string().as_str()), (200, "one(503) two(503) three(200)"));
    for (name, model) in [("one", "vendor-a-model"), ("two", "vendor-b:0"), ("three", "m")] {
        let seen = scene.provider(name).seen().pop().unwrap();
        assert_eq!(String::from_utf8(seen.body.clone()).unwrap(), body(model), "{name}");
        assert_eq!(seen.header("content-length"), None, "{name}");
    }
}

#[tokio::test]
async fn a_compressed_body_decides_and_passes_untouched_and_is_counted() {
    use std::io::Write;
    let scene = Scene::with_catalog(NAMES, &[("one", 503), ("two", 503), ("three", 200)], vec![]).await;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(br#"{"model":"alias","messages":[]}"#).unwrap();
    let sent = gzip.finish().unwrap();
    let request = Request::post("/v1/chat/completions", sent.clone()).header("content-encoding", "gzip");
    let (_, trail) = scene.send(request).await;
    assert_eq!(trail.to_string(), "one(503) two(503) three(200)", "decided by the model inside");
    for name in ["one", "two", "three"] {
        assert_eq!(scene.provider(name).seen().pop().unwrap().body, sent, "{name}");
    }
    assert_eq!(scene.metric("cascade_upstream_rewrites_total{result=\"compressed\"}").await, 3.0);
}
