//! Envoy's access log as it reaches Cascade, what it makes of the clusters' health, and what a person can do about it. What Envoy
//! itself writes is tested in `tests/e2e`.

use std::collections::HashMap;

use envoy_types::pb::envoy::data::accesslog::v3::{
    AccessLogCommon, HttpAccessLogEntry, HttpRequestProperties, HttpResponseProperties, ResponseFlags,
};
use envoy_types::pb::envoy::service::accesslog::v3::StreamAccessLogsMessage;
use envoy_types::pb::envoy::service::accesslog::v3::access_log_service_client::AccessLogServiceClient;
use envoy_types::pb::envoy::service::accesslog::v3::stream_access_logs_message::{HttpAccessLogEntries, Identifier, LogEntries};
use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingResponse, processing_response};
use envoy_types::pb::google::protobuf::UInt32Value;
use serde_json::Value;
use tonic::Code;
use tonic::transport::Channel;

use crate::catalog::Home;
use crate::grpc::{self, Stream};
use crate::http;
use crate::process::{Cascade, eventually};

pub const CATALOG: &str = "version: 1
priority_groups:
  one: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: b, weight: 1}]}
  two: {clusters: [{cluster_name: c, weight: 1}]}
models:
  m: {aliases: [alias], chain: [one, two]}
  n: {chain: [one, two]}
";
const HEADER: &str = "x-cascade-decision";

pub struct Scene {
    pub cascade: Cascade,
    channel: Channel,
    _home: Home,
}

impl Scene {
    pub async fn set(settings: &[(&str, &str)]) -> Self {
        Self::with_catalog(CATALOG, settings).await
    }

    pub async fn with_catalog(catalog: &str, settings: &[(&str, &str)]) -> Self {
        let home = Home::new();
        home.write("catalog.yaml", catalog);
        let all = [&[("FEEDBACK__ENABLED", "true")], settings].concat();
        let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &all).await;
        let channel = grpc::connect(&cascade.listen().await).await;
        Self { cascade, channel, _home: home }
    }

    /// One stream of Envoy's, to its end: all entries are taken in when this returns.
    pub async fn log(&self, name: &str, entries: Vec<HttpAccessLogEntry>) {
        let message = StreamAccessLogsMessage {
            identifier: Some(Identifier { log_name: name.to_owned(), ..Default::default() }),
            log_entries: Some(LogEntries::HttpLogs(HttpAccessLogEntries { log_entry: entries })),
        };
        AccessLogServiceClient::new(self.channel.clone()).stream_access_logs(tokio_stream::once(message)).await.unwrap();
    }

    /// The same for one entry, where it may be refused.
    pub async fn try_log(&self, entry: HttpAccessLogEntry) -> Result<(), Code> {
        try_log(&self.channel, entry).await
    }

    pub async fn decide(&self, headers: &[(&str, &str)], model: &str) -> ProcessingResponse {
        let mut stream = Stream::open(&self.channel).await.unwrap();
        let body = format!(r#"{{"model": "{model}"}}"#).into_bytes();
        let [_, answer] = stream.buffered(headers, body).await;
        answer
    }

    /// The token of a decision for this model.
    pub async fn token(&self, model: &str) -> String {
        token(&self.decide(&[], model).await).expect("a token")
    }

    /// What a decision sends, as `health: group(cluster …) …`.
    pub async fn way(&self, model: &str) -> String {
        let admin = self.cascade.admin().await;
        let answer = http::post(&admin, "/explain", &format!(r#"{{"model": "{model}"}}"#)).await.json();
        let names = |list: &Value| {
            let names: Vec<_> = list.as_array().unwrap().iter().map(|it| it["cluster_name"].as_str().unwrap()).collect();
            names.join(" ")
        };
        let groups = answer["chain"].as_array().unwrap().iter();
        let groups = groups.map(|group| format!("{}({})", group["name"].as_str().unwrap(), names(&group["clusters"])));
        format!("{}: {}", answer["health"].as_str().unwrap(), groups.collect::<Vec<_>>().join(" "))
    }

    pub async fn cluster(&self, name: &str) -> Value {
        let list = self.cascade.get("/clusters").await.json();
        list["clusters"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone()
    }

    pub async fn metric(&self, line: &str) -> Option<String> {
        let text = self.cascade.get("/metrics").await.text();
        text.lines().find_map(|it| it.strip_prefix(line).map(|value| value.trim().to_owned()))
    }

    pub async fn post(&self, path: &str) -> http::Response {
        http::post(&self.cascade.admin().await, path, "").await
    }
}

/// Sends one entry of Envoy's log.
pub async fn try_log(channel: &Channel, entry: HttpAccessLogEntry) -> Result<(), Code> {
    let message = StreamAccessLogsMessage {
        identifier: Some(Identifier { log_name: "cascade".to_owned(), ..Default::default() }),
        log_entries: Some(LogEntries::HttpLogs(HttpAccessLogEntries { log_entry: vec![entry] })),
    };
    let sent = AccessLogServiceClient::new(channel.clone()).stream_access_logs(tokio_stream::once(message)).await;
    sent.map(|_| ()).map_err(|status| status.code())
}

pub fn entry(cluster: &str, status: u32, flags: ResponseFlags) -> HttpAccessLogEntry {
    HttpAccessLogEntry {
        common_properties: Some(AccessLogCommon {
            upstream_cluster: cluster.to_owned(),
            response_flags: Some(flags),
            ..Default::default()
        }),
        request: Some(HttpRequestProperties::default()),
        response: Some(HttpResponseProperties { response_code: Some(UInt32Value { value: status }), ..Default::default() }),
        ..Default::default()
    }
}

pub fn answered(cluster: &str, status: u32) -> HttpAccessLogEntry {
    entry(cluster, status, ResponseFlags::default())
}

pub fn refused(cluster: &str) -> HttpAccessLogEntry {
    entry(cluster, 0, ResponseFlags { upstream_connection_failure: true, ..Default::default() })
}

pub fn with_token(mut entry: HttpAccessLogEntry, token: &str) -> HttpAccessLogEntry {
    let request = entry.request.get_or_insert_default();
    request.request_headers = HashMap::from([(HEADER.to_owned(), token.to_owned())]);
    entry
}

fn named(mut entry: HttpAccessLogEntry, id: &str) -> HttpAccessLogEntry {
    entry.request.get_or_insert_default().request_id = id.to_owned();
    entry
}

pub fn retry_after(mut entry: HttpAccessLogEntry, text: &str) -> HttpAccessLogEntry {
    let response = entry.response.get_or_insert_default();
    response.response_headers = HashMap::from([("retry-after".to_owned(), text.to_owned())]);
    entry
}

/// The token that an answer sets for Envoy, and how.
pub fn token(answer: &ProcessingResponse) -> Option<String> {
    let Some(processing_response::Response::RequestBody(body)) = &answer.response else { return None };
    let mutation = body.response.as_ref()?.header_mutation.as_ref()?;
    assert!(!mutation.remove_headers.iter().any(|name| name == HEADER), "set, not removed");
    let option = mutation.set_headers.iter().find(|option| option.header.as_ref().is_some_and(|it| it.key == HEADER))?;
    assert_eq!(option.append_action, 2, "overwrites what a client sent");
    Some(String::from_utf8(option.header.as_ref()?.raw_value.clone()).unwrap())
}

#[tokio::test]
async fn a_429_cools_the_model_that_the_token_names_on_the_cluster_that_said_it() {
    let scene = Scene::set(&[]).await;
    let sealed = token(&scene.decide(&[], "alias").await).expect("a token");
    scene.log("cascade", vec![retry_after(with_token(answered("a", 429), &sealed), "30")]).await;
    assert_eq!(scene.way("m").await, "reordered: one(b) two(c)");
    assert_eq!(scene.way("n").await, "as_written: one(a b) two(c)");
    let cluster = scene.cluster("a").await;
    assert_eq!((&cluster["state"], &cluster["models"]["m"]["reason"]), (&"cooling".into(), &"rate_limited".into()));
    assert_eq!(scene.metric("cascade_attempts_total{cluster=\"a\",class=\"rate_limited\"}").await.as_deref(), Some("1"));
    assert_eq!(scene.metric("cascade_cluster_cooling{cluster=\"a\"}").await.as_deref(), Some("1"));
    assert_eq!(scene.metric("cascade_cluster_cooling{cluster=\"b\"}").await.as_deref(), Some("0"));
}

#[tokio::test]
async fn a_429_without_a_token_that_we_made_cools_the_whole_cluster() {
    let scene = Scene::set(&[]).await;
    scene.log("cascade", vec![with_token(answered("c", 429), "forged")]).await;
    scene.log("cascade", vec![answered("a", 429)]).await;
    assert_eq!(scene.way("n").await, "reordered: one(b) two(c)");
    assert_eq!(scene.cluster("c").await["reason"], "rate_limited");
}

#[tokio::test]
async fn failures_in_a_row_cool_and_a_repeated_entry_is_one() {
    let scene = Scene::set(&[("FEEDBACK__CONSECUTIVE_FAILURES", "3")]).await;
    let again = named(answered("c", 503), "r1");
    scene.log("cascade", vec![again.clone(), again.clone(), again]).await;
    assert_eq!(scene.cluster("c").await["failures_in_a_row"], 1);
    scene.log("cascade", vec![refused("a"), refused("a"), answered("a", 200), refused("a"), refused("a")]).await;
    assert_eq!(scene.cluster("a").await["state"], "healthy");
    scene.log("cascade", vec![refused("a")]).await;
    let cluster = scene.cluster("a").await;
    assert_eq!((&cluster["state"], &cluster["reason"]), (&"cooling".into(), &"failures".into()));
    assert_eq!(scene.way("m").await, "reordered: one(b) two(c)");
}

#[tokio::test]
async fn all_cooling_leaves_the_chain_as_written() {
    let scene = Scene::set(&[]).await;
    let no_host = || ResponseFlags { no_healthy_upstream: true, ..Default::default() };
    scene.log("cascade", ["a", "b"].map(|name| entry(name, 503, no_host())).to_vec()).await;
    assert_eq!(scene.way("m").await, "reordered: two(c) one(a b)");
    scene.log("cascade", vec![entry("c", 503, no_host())]).await;
    assert_eq!(scene.way("m").await, "all_cooling: one(a b) two(c)");
}

#[tokio::test]
async fn other_logs_and_strangers_mean_nothing() {
    let scene = Scene::set(&[("FEEDBACK__LOG_NAME", "attempts")]).await;
    scene.log("cascade", vec![answered("a", 429)]).await;
    scene.log("", vec![answered("a", 429)]).await;
    scene.log("attempts", vec![answered("nobody", 429), answered("", 429), HttpAccessLogEntry::default()]).await;
    assert_eq!(scene.way("m").await, "as_written: one(a b) two(c)");
    assert!(!scene.cascade.get("/metrics").await.text().contains("nobody"));
    scene.log("attempts", vec![answered("a", 429)]).await;
    assert_eq!(scene.way("m").await, "reordered: one(b) two(c)");
}

#[tokio::test]
async fn the_token_overwrites_the_clients_and_never_looks_the_same() {
    let scene = Scene::set(&[]).await;
    let first = token(&scene.decide(&[(HEADER, "forged")], "m").await).unwrap();
    assert_ne!(first, "forged");
    assert_ne!(first, token(&scene.decide(&[], "m").await).unwrap());
    // What passes through carries none, and the client's own is removed.
    let answer = scene.decide(&[(HEADER, "forged")], "unknown").await;
    let Some(processing_response::Response::RequestBody(body)) = answer.response else { panic!("a body answer") };
    let mutation = body.response.unwrap().header_mutation.unwrap();
    assert!(mutation.set_headers.is_empty() && mutation.remove_headers == [HEADER]);
}

#[tokio::test]
async fn without_feedback_there_is_no_log_and_no_token() {
    let scene = Scene::set(&[("FEEDBACK__ENABLED", "false")]).await;
    let log = tokio_stream::once(StreamAccessLogsMessage::default());
    let status = AccessLogServiceClient::new(scene.channel.clone()).stream_access_logs(log).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("feedback.enabled"));
    assert_eq!(token(&scene.decide(&[], "m").await), None);
}

#[tokio::test]
async fn a_person_cools_a_cluster_and_clears_it() {
    let scene = Scene::set(&[("FEEDBACK__ENABLED", "false")]).await;
    let answer = scene.post("/clusters/a/cool?seconds=3600").await;
    assert_eq!((answer.status, &answer.json()["reason"]), (200, &"operator".into()));
    assert_eq!(scene.way("m").await, "reordered: one(b) two(c)");
    assert_eq!(scene.post("/clusters/a/clear").await.json()["state"], "healthy");
    assert_eq!(scene.way("m").await, "as_written: one(a b) two(c)");
    let log = scene.cascade.output();
    assert!(log.contains("a cluster cools") && log.contains("a cluster has cooled"), "{log}");
    for (path, status) in [
        ("/clusters/a/cool?seconds=0", 400),
        ("/clusters/a/cool?seconds=x", 400),
        ("/clusters/a/cool?seconds=999999", 400),
        ("/clusters/nope/cool", 404),
        ("/clusters/nope/clear", 404),
    ] {
        assert_eq!(scene.post(path).await.status, status, "{path}");
    }
    assert_eq!(scene.post("/clusters/b/cool?seconds=1").await.status, 200);
    eventually("the end of the cooldown", async || (scene.cluster("b").await["state"] == "healthy").then_some(())).await;
}

#[tokio::test]
async fn an_admin_address_that_others_reach_changes_nothing() {
    let home = Home::new();
    home.write("catalog.yaml", CATALOG);
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml"), "--admin", "0.0.0.0:0"], &[]).await;
    let answer = http::post(&cascade.admin().await, "/clusters/a/cool", "").await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(answer.json()["hint"].as_str().unwrap().contains("loopback"));
}

#[tokio::test]
async fn a_log_that_stays_open_does_not_hold_up_the_drain() {
    let mut scene = Scene::set(&[("SERVER__DRAIN", "60s")]).await;
    let message = StreamAccessLogsMessage {
        identifier: Some(Identifier { log_name: "cascade".to_owned(), ..Default::default() }),
        log_entries: Some(LogEntries::HttpLogs(HttpAccessLogEntries {
            log_entry: vec![entry("b", 200, ResponseFlags::default())],
        })),
    };
    // As Envoy's: one message, and no end.
    let messages = tokio_stream::StreamExt::chain(tokio_stream::once(message), tokio_stream::pending());
    let mut client = AccessLogServiceClient::new(scene.channel.clone());
    let open = tokio::spawn(async move { client.stream_access_logs(messages).await });
    let counted = async || scene.metric("cascade_attempts_total{cluster=\"b\",class=\"success\"}").await;
    eventually("the entry is taken in", counted).await;
    scene.cascade.terminate();
    let (code, output) = scene.cascade.ended().await;
    assert_eq!(code, Some(0), "{output}");
    assert!(!output.contains("the drain is over"), "{output}");
    assert!(open.await.unwrap().is_ok(), "a clean end");
}
