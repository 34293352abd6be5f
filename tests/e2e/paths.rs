//! Paths of attempts on a real Envoy, where all attempts of a request share one set of headers: each provider gets the path that is
//! its own, whatever the attempt before it was sent with.

use cascade::lab::Request;

use crate::gateway::ok;
use crate::scene::Scene;

const CATALOG: &str = "version: 1
clusters:
  one: {path_prefix: {from: /v1, to: /openai/v1}, models: {m: \"vendor/one\", n: n}}
  two: {}
  three: {path_prefix: {from: /v1, to: /api/paas/v4}, models: {m: vendor-three}}
  four: {path_prefix: {from: /openai, to: /azure}, models: {m: vendor-four}}
priority_groups:
  first: {clusters: [{cluster_name: one, weight: 1}]}
  second: {clusters: [{cluster_name: two, weight: 1}]}
  third: {clusters: [{cluster_name: three, weight: 1}]}
  fourth: {clusters: [{cluster_name: four, weight: 1}]}
  fixed: {}
models:
  m: {aliases: [alias], chain: [first, second, third, fourth]}
  n: {aliases: [other], chain: [first, fixed]}
";

/// The catalog does not know the first one; Envoy's static chain leads there.
const PROVIDERS: [&str; 5] = ["elsewhere", "one", "two", "three", "four"];

/// What the providers saw of one request, in the order of its chain: the path and the body.
async fn seen(scene: &Scene, request: Request) -> Vec<(String, String)> {
    for cluster in &PROVIDERS[1..] {
        // A failure of the request before must not change the order of this one.
        ok(scene.serve.admin(Request::post(&format!("/clusters/{cluster}/clear"), "")).await);
    }
    let before = PROVIDERS.map(|name| scene.provider(name).seen().len());
    scene.send(request).await;
    let mut told = Vec::new();
    for (name, before) in PROVIDERS.into_iter().zip(before) {
        for seen in scene.provider(name).seen().split_off(before) {
            // It leaves with the first changed body (fact 70); what stays is right.
            let length = seen.header("content-length");
            assert!(length.is_none_or(|length| length == seen.body.len().to_string()), "{name}: {length:?}");
            let attempt = seen.header("x-envoy-attempt-count").map(str::to_owned);
            told.push((attempt, seen.path, String::from_utf8(seen.body).unwrap()));
        }
    }
    told.sort();
    told.into_iter().map(|(_, path, body)| (path, body)).collect()
}

/// All but the last provider of each chain fail.
async fn scene() -> Scene {
    let providers = [("elsewhere", 200), ("one", 503), ("two", 503), ("three", 503), ("four", 200)];
    Scene::with_catalog(CATALOG, &providers, vec![]).await
}

fn paths(seen: &[(String, String)]) -> Vec<&str> {
    seen.iter().map(|(path, _)| path.as_str()).collect()
}

// Facts 27 and 28b
#[tokio::test]
async fn each_attempt_has_the_path_of_its_own_provider() {
    let scene = scene().await;
    let body = |model: &str| format!("{{\"n\": 1.0, \"model\":\"{model}\"}}");
    let chat = Request::post("/v1/chat/completions?api-version=2024&x=/v1", body("alias"));
    let told = seen(&scene, chat).await;
    assert_eq!(
        paths(&told),
        [
            "/openai/v1/chat/completions?api-version=2024&x=/v1",
            "/v1/chat/completions?api-version=2024&x=/v1",
            "/api/paas/v4/chat/completions?api-version=2024&x=/v1",
            "/v1/chat/completions?api-version=2024&x=/v1",
        ]
    );
    let bodies: Vec<&str> = told.iter().map(|(_, body)| body.as_str()).collect();
    assert_eq!(bodies, ["vendor/one", "m", "vendor-three", "vendor-four"].map(body), "and the model too");
    assert!(scene.metric("cascade_upstream_rewrites_total{result=\"path\"}").await >= 2.0);
}

#[tokio::test]
async fn a_model_in_the_path_changes_with_the_prefix_before_it() {
    let scene = scene().await;
    let told = seen(&scene, Request::post("/v1/openai/deployments/alias/chat/completions?x=1", "{}")).await;
    assert_eq!(
        paths(&told),
        [
            "/openai/v1/openai/deployments/vendor%2Fone/chat/completions?x=1",
            "/v1/openai/deployments/m/chat/completions?x=1",
            "/api/paas/v4/openai/deployments/vendor-three/chat/completions?x=1",
            "/v1/openai/deployments/vendor-four/chat/completions?x=1",
        ]
    );
    let told = seen(&scene, Request::post("/openai/deployments/alias/chat/completions", "{}")).await;
    assert_eq!(
        paths(&told),
        [
            "/openai/deployments/vendor%2Fone/chat/completions",
            "/openai/deployments/m/chat/completions",
            "/openai/deployments/vendor-three/chat/completions",
            "/azure/deployments/vendor-four/chat/completions",
        ]
    );
}

#[tokio::test]
async fn other_paths_are_left_alone_and_no_client_can_name_another_path() {
    let scene = scene().await;
    let body = r#"{"model":"m"}"#;
    for path in ["/v10/chat/completions", "/x/v1/chat/completions"] {
        let told = seen(&scene, Request::post(path, body)).await;
        assert_eq!(paths(&told), [path; 4]);
    }
    let sealed =
        scene.provider("one").seen().into_iter().find_map(|seen| seen.header("x-cascade-original-path").map(str::to_owned));
    assert_eq!(sealed, None, "nothing was rewritten so far");
    seen(&scene, Request::post("/v1/secret", body)).await;
    let sealed = scene.provider("one").seen().pop().unwrap().header("x-cascade-original-path").unwrap().to_owned();
    assert!(!sealed.contains("secret"));
    // A provider that has seen a sealed path and is a client as well gets nowhere with it.
    let replayed = Request::post("/v1/public", body);
    let told = seen(&scene, replayed.header("x-cascade-original-path", &sealed)).await;
    assert_eq!(paths(&told), ["/openai/v1/public", "/v1/public", "/api/paas/v4/public", "/v1/public"]);
}

#[tokio::test]
async fn a_cluster_that_the_catalog_does_not_know_gets_the_path_as_it_was_sent() {
    let scene = scene().await;
    let body = |model: &str| format!("{{\"model\":\"{model}\"}}");
    let request = Request::post("/v1/chat/completions?x=1", body("other"));
    let told = seen(&scene, request).await;
    let expected = ["/openai/v1/chat/completions?x=1", "/v1/chat/completions?x=1"].map(|path| (path.to_owned(), body("n")));
    assert_eq!(told, expected);
    let told = seen(&scene, Request::post("/v1/chat/completions", body("unheard-of"))).await;
    assert_eq!(told, [("/v1/chat/completions".to_owned(), body("unheard-of"))], "the static chain");
}
