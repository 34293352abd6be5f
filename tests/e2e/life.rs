//! Cascade's life beside a running Envoy: catalogs that change, processes that die and come back, clients that are slow or leave.
//! In all of it no request may fail that would not have failed without Cascade.

use std::fs;
use std::path::Path;
use std::time::Duration;

use cascade::lab::config::ProcessorWatch;
use cascade::lab::{BodyMode, Request, Serve, eventually};

use crate::cases::CASCADE;
use crate::gateway::{chat, chat_of, ok};
use crate::town::{Crowd, LIMIT, Town, leads_to, start};

const FAST: &str = "catalog: {refresh: 200ms}\n";

#[tokio::test]
async fn a_catalog_that_changes_under_load_fails_no_request_and_mixes_no_answer() {
    let town = Town::found(FAST, |_| ()).await;
    let first = town.revision().await;
    let crowd = Crowd::gather(&town.envoy);
    let mut second = String::new();
    for round in 0..6 {
        crowd.see(40).await;
        let cluster = if round % 2 == 0 { "b" } else { "a" };
        let before = town.revision().await;
        town.replace_catalog(&leads_to(cluster));
        let changed = || async { Some(town.revision().await).filter(|now| *now != before) };
        let revision = ok(eventually("the new revision", LIMIT, changed).await);
        if cluster == "b" {
            second = revision;
        } else {
            assert_eq!(revision, first, "equal content, equal revision");
        }
    }
    crowd.see(40).await;
    let answers = crowd.disperse().await;
    for answer in &answers {
        let (status, served_by, revision) = answer;
        let expected = if *revision == first { "a" } else { "b" };
        assert!(*revision == first || *revision == second, "{answer:?}");
        assert_eq!((*status, served_by.as_str()), (200, expected), "{answer:?}");
    }
    assert!(answers.iter().any(|(_, by, _)| by == "a") && answers.iter().any(|(_, by, _)| by == "b"));
}

/// Cascade's own times for a change to settle, but for the one that a loosening takes: nothing here may come after it.
#[tokio::test]
async fn half_a_catalog_lets_no_tenant_past_its_restriction_and_a_file_moved_aside_takes_none_away() {
    let catalog = format!("{}tenants:\n  acme:\n    tier: free\n    denied_models: [m]\ntiers: {{free: {{}}}}\n", leads_to("a"));
    let half = |text: &str| text[..text.find("    denied_models").unwrap()].replace("    tier: free\n", "    fail: open\n");
    let settings = "extract: {tenant: [{header: x-tenant-id, trusted: true}]}\n";
    let mut town = Town::with_catalog(&catalog, settings, |_| ()).await;
    town.serve.kill();
    let file = town.scratch.path().join("catalog.yaml");
    let arguments = ["--config".to_owned(), text(&town.scratch.path().join("cascade.yaml")), "--catalog".to_owned(), text(&file)];
    let times = [("CASCADE_CATALOG__SETTLE_LOOSENING", "1h"), ("CASCADE_CATALOG__REFRESH", "200ms")];
    let arguments = arguments.each_ref().map(String::as_str);
    town.serve = ok(Serve::spawn_with(Path::new(CASCADE), town.scratch.path(), &arguments, &times));
    ok(town.serve.ready().await);

    let ask = async || town.send(chat().header("x-tenant-id", "acme")).await;
    let refused = || async { (ask().await.0 == 403).then_some(()) };
    ok(eventually("Envoy's connection to the new process", LIMIT, refused).await);
    let held = async |why: &str| {
        let pending = || async { Some(town.status().await).filter(|status| status["pending"].to_string().contains(why)) };
        ok(eventually(why, LIMIT, pending).await);
        let (status, trail) = ask().await;
        assert_eq!((status, trail.to_string().as_str()), (403, ""), "{why}: nobody but the gateway answered");
    };
    // Two halves with time between them, the first of which is a catalog without the restriction.
    fs::write(&file, half(&catalog)).unwrap();
    held("the models `m` are not denied").await;
    fs::write(&file, &catalog).unwrap();
    let settled = || async { town.status().await["pending"].is_null().then_some(()) };
    ok(eventually("the whole", LIMIT, settled).await);
    // Moved aside, and back.
    fs::rename(&file, town.scratch.path().join("catalog.yaml~")).unwrap();
    assert_eq!(ask().await.0, 403);
    fs::rename(town.scratch.path().join("catalog.yaml~"), &file).unwrap();
    ok(eventually("the file", LIMIT, settled).await);
    assert_eq!(ask().await.0, 403);
    assert_eq!(town.metric("cascade_catalog_reloads_total{result=\"success\"}").await, Some(1.0), "the halves were never taken");
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_bad_catalog_keeps_the_last_good_one_and_says_so() {
    let town = Town::found(FAST, |_| ()).await;
    let good = town.revision().await;
    for bad in ["", "version: 1\nmodels: {m: {chain: [nowhere]}}\n", "{", &leads_to("b").replace("weight: 1", "weight: -1")] {
        let before = town.status().await["failures_since"].as_u64().unwrap();
        town.replace_catalog(bad);
        let failed = || async { town.status().await["failures_since"].as_u64().filter(|now| *now > before) };
        ok(eventually("the failure at /catalog/status", LIMIT, failed).await);
        assert_eq!(town.revision().await, good);
        assert_eq!(town.way().await, "a(200)", "after {bad:?}");
    }
    assert_eq!(ok(town.serve.admin(Request::get("/readyz")).await).status, 200, "the last good one serves");
    town.replace_catalog(&leads_to("b"));
    town.goes_to("b(200)").await;
    assert_eq!(town.status().await["failures_since"], 0);
}

#[tokio::test]
async fn a_killed_processor_leaves_requests_to_the_static_chain_until_it_is_back() {
    let mut town = Town::found("", |setup| setup.processor_watch = ProcessorWatch::HealthCheck).await;
    let crowd = Crowd::gather(&town.envoy);
    crowd.see(40).await;
    town.serve.kill();
    town.goes_to("fixed(200)").await;
    crowd.see(40).await;
    town.serve = start(&town.scratch).await;
    town.goes_to("a(200)").await;
    crowd.see(40).await;

    let answers = crowd.disperse().await;
    let failed: Vec<_> = answers.iter().filter(|(status, ..)| *status != 200).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert!(answers.iter().all(|(_, by, _)| by == "a" || by == "fixed"));
}

#[tokio::test]
async fn a_full_duplex_gateway_comes_back_after_a_kill_as_well() {
    let mut town = Town::found("", |setup| {
        setup.body_mode = BodyMode::FullDuplexStreamed;
        setup.processor_watch = ProcessorWatch::HealthCheck;
    })
    .await;
    assert_eq!(town.way().await, "a(200)");
    town.serve.kill();
    town.goes_to("fixed(200)").await;
    town.serve = start(&town.scratch).await;
    town.goes_to("a(200)").await;
}

#[tokio::test]
async fn sigterm_under_load_ends_well_and_fails_no_request() {
    let mut town = Town::found("", |setup| setup.processor_watch = ProcessorWatch::HealthCheck).await;
    let crowd = Crowd::gather(&town.envoy);
    crowd.see(40).await;
    ok(town.serve.terminate());
    let status = ok(town.serve.ended(LIMIT).await);
    town.goes_to("fixed(200)").await;

    assert!(status.success(), "{status}");
    let answers = crowd.disperse().await;
    assert!(answers.iter().all(|(status, ..)| *status == 200));
}

#[tokio::test]
async fn a_stream_under_way_is_finished_before_the_process_ends() {
    let mut town = Town::found("", |_| ()).await;
    let body = chat().body;
    let (id, mut sending) = ok(town.envoy.begin(chat(), Some(body.len())).await);
    sending.write(&body[..10]).await;
    town.is_asked().await;
    ok(town.serve.terminate());
    let unready = || async {
        let state = town.serve.admin(Request::get("/readyz")).await.ok()?;
        (state.status == 503).then_some(())
    };
    ok(eventually("readiness that is off", LIMIT, unready).await);
    sending.write(&body[10..]).await;
    let response = ok(sending.response().await);

    assert_eq!(response.status, 200);
    assert_eq!(ok(town.envoy.trail(&id).await).to_string(), "a(200)");
    assert!(ok(town.serve.ended(LIMIT).await).success());
}

#[tokio::test]
async fn twenty_megabytes_arrive_whole_in_both_modes() {
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed] {
        let town = Town::found("", move |setup| {
            setup.body_mode = mode;
            setup.message_timeout = Duration::from_secs(10);
        })
        .await;
        let request = chat_of(20 << 20);
        let (status, trail) = town.send(request.clone()).await;
        assert_eq!((status, trail.to_string().as_str()), (200, "a(200)"), "{mode}");
        assert!(town.provider("a").seen()[0].body == request.body, "{mode}");
    }
}

#[tokio::test]
async fn a_slow_client_is_waited_for_in_both_modes() {
    let timeout = Duration::from_millis(300);
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed] {
        let town = Town::found("", move |setup| {
            setup.body_mode = mode;
            setup.message_timeout = timeout;
            setup.stopwatch = true;
        })
        .await;
        let body = chat().body;
        let (id, mut sending) = ok(town.envoy.begin(chat(), Some(body.len())).await);
        sending.write(&body[..5]).await;
        town.is_asked().await;
        ok(town.envoy.let_pass(timeout * 3).await);
        sending.write(&body[5..]).await;
        assert_eq!(ok(sending.response().await).status, 200, "{mode}");
        assert_eq!(ok(town.envoy.trail(&id).await).to_string(), "a(200)", "{mode}");
        assert_eq!(town.provider("a").seen()[0].body, body, "{mode}");
        assert_eq!(ok(town.envoy.stat("http.ingress.ext_proc.message_timeouts").await), 0, "{mode}");
    }
}

#[tokio::test]
async fn a_client_slower_than_body_wait_goes_to_the_static_chain_and_its_bytes_arrive() {
    let town = Town::found("limits: {body_wait: 300ms}\n", |setup| setup.body_mode = BodyMode::FullDuplexStreamed).await;
    let body = chat_of(1000).body;
    let (id, mut sending) = ok(town.envoy.begin(chat(), Some(body.len())).await);
    sending.write(&body[..100]).await;
    // The decision is made while the client is silent: Envoy goes upstream before the rest is sent.
    ok(town.envoy.stat_reaches("cluster.fixed.upstream_rq_total", 1).await);
    sending.write(&body[100..]).await;
    let response = ok(sending.response().await);

    let trail = ok(town.envoy.trail(&id).await);
    assert_eq!((response.status, trail.to_string().as_str()), (200, "fixed(200)"));
    assert_eq!(trail.decision["reason"], "deadline");
    assert_eq!(town.provider("fixed").seen()[0].body, body);
}

#[tokio::test]
async fn a_slow_client_whose_model_is_known_is_decided_without_the_session_that_did_not_come() {
    let settings = "session: {sticky: true}\nlimits: {body_wait: 300ms}\n";
    let town = Town::found(settings, |setup| setup.body_mode = BodyMode::FullDuplexStreamed).await;
    let request = Request::post("/v1/chat/completions", r#"{"model":"m","messages":[]}"#);
    let body = request.body.clone();
    let (id, mut sending) = ok(town.envoy.begin(request, Some(body.len())).await);
    let (model, rest) = body.split_at(body.len() - 5);
    sending.write(model).await;
    ok(town.envoy.stat_reaches("cluster.a.upstream_rq_total", 1).await);
    sending.write(rest).await;
    let response = ok(sending.response().await);

    let trail = ok(town.envoy.trail(&id).await);
    assert_eq!((response.status, trail.to_string().as_str()), (200, "a(200)"));
    assert_eq!(trail.decision["reason"], "model_chain");
}

#[tokio::test]
async fn a_client_that_leaves_is_counted_and_leaves_nothing_behind() {
    for mode in [BodyMode::Buffered, BodyMode::FullDuplexStreamed] {
        let town = Town::found("", move |setup| setup.body_mode = mode).await;
        let body = chat().body;
        let (_, mut sending) = ok(town.envoy.begin(chat(), Some(body.len())).await);
        sending.write(&body[..10]).await;
        town.is_asked().await;
        drop(sending);
        let gone = || async { town.metric("cascade_streams_in_flight").await.filter(|open| *open == 0.0) };
        ok(eventually("the stream's end", LIMIT, gone).await);
        assert_eq!(town.metric("cascade_abandoned_total").await, Some(1.0), "{mode}");
        assert_eq!(town.way().await, "a(200)", "{mode}");
    }
}

// Fact 28c
#[tokio::test]
async fn a_model_named_again_after_the_decision_is_refused_while_no_answer_has_begun() {
    let town = Town::found("", |setup| setup.body_mode = BodyMode::FullDuplexStreamed).await;
    let (first, second) = (r#"{"model":"m","messages":[],"#, r#""model":"other"}"#);
    let (id, mut sending) = ok(town.envoy.begin(chat(), Some(first.len() + second.len())).await);
    sending.write(first.as_bytes()).await;
    ok(town.envoy.stat_reaches("cluster.a.upstream_rq_total", 1).await);
    sending.write(second.as_bytes()).await;
    let response = ok(sending.response().await);

    assert_eq!((response.status, response.header("x-cascade-reason")), (400, Some("duplicate_key")));
    let trail = ok(town.envoy.trail(&id).await);
    assert_eq!(trail.decision["reason"], "duplicate_key");
    assert!(trail.attempts.iter().all(|attempt| attempt.code != 200), "{trail}");
}

#[tokio::test]
async fn headers_that_are_ours_never_reach_a_provider_from_outside() {
    let town = Town::found("", |_| ()).await;
    let (status, _) = town.send(chat().header("x-cascade-decision", "forged")).await;
    assert_eq!(status, 200);
    assert_eq!(town.provider("a").seen()[0].header("x-cascade-decision"), None);
    // Nothing is decided for this one, and it is cleaned all the same.
    town.send(Request::get("/v1/models").header("x-cascade-decision", "forged")).await;
    assert_eq!(town.provider("fixed").seen()[0].header("x-cascade-decision"), None);
}
