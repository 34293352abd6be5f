//! Names that clients send are data: whatever they hold, an answer, a metric, a log line and metadata stay whole.

use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::google::protobuf::value::Kind;
use serde_json::{Value, json};

use crate::catalog::Home;
use crate::grpc::{self, Stream};
use crate::process::{Cascade, eventually};

const CATALOG: &str = r#"
version: 1
priority_groups: {g: {clusters: [{cluster_name: a, weight: 1}]}}
models:
  'q"uo\te{x="1"} 1': {chain: [g]}
  "ünï/ço:dé 模型 😀": {chain: [g]}
tenants: {'te"n\ant': {}}
defaults: {missing_tenant: anonymous, unknown_model: reject}
"#;

fn text(fields: &Kind, name: &str) -> Option<String> {
    let Kind::StructValue(fields) = fields else { return None };
    match fields.fields.get(name)?.kind.as_ref()? {
        Kind::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

/// One decision in the words of `cascade.decision`, and the body of a refusal.
async fn decide(stream: &mut Stream, tenant: &str, model: &str) -> (Kind, Option<Value>) {
    let body = json!({"messages": [], "model": model}).to_string();
    let [_, answer] = stream.buffered(&[("x-tenant", tenant), ("x-session-id", model)], body.into_bytes()).await;
    let decision = answer.dynamic_metadata.unwrap().fields.remove("cascade.decision").unwrap().kind.unwrap();
    let refusal = match answer.response {
        Some(Response::ImmediateResponse(refusal)) => Some(refusal),
        _ => None,
    };
    let body = refusal.map(|refusal| {
        let headers = refusal.headers.unwrap().set_headers;
        let values = headers.into_iter().flat_map(|option| option.header.unwrap().raw_value);
        assert!(values.into_iter().all(|byte| (0x20..0x7f).contains(&byte)), "a header holds what a header cannot");
        serde_json::from_slice(&refusal.body).unwrap()
    });
    (decision, body)
}

#[tokio::test]
async fn no_name_breaks_an_answer_a_metric_or_a_log_line() {
    let home = Home::new();
    home.write("catalog.yaml", CATALOG);
    home.write("cascade.yaml", "extract: {tenant: [{header: x-tenant, trusted: true}]}\n");
    let arguments = ["--catalog", &home.text("catalog.yaml"), "--config", &home.text("cascade.yaml")];
    let settings = [("TELEMETRY__LOG", "debug"), ("TELEMETRY__LOG_FORMAT", "json")];
    let cascade = Cascade::ready(&arguments, &settings).await;
    let channel = grpc::connect(&cascade.listen().await).await;

    let known = ["q\"uo\\te{x=\"1\"} 1", "ünï/ço:dé 模型 😀"];
    for model in known {
        let mut stream = Stream::open(&channel).await.unwrap();
        let (decision, refusal) = decide(&mut stream, "te\"n\\ant", model).await;
        assert_eq!((text(&decision, "model").as_deref(), refusal), (Some(model), None));
        assert_eq!(text(&decision, "tenant").as_deref(), Some("te\"n\\ant"));
    }

    let strangers = [
        "a\r\nx-injected: 1\r\n\r\n",
        "a\nb\u{0}c\u{1b}[31m\u{7f}",
        "\"},\"injected\":{\"",
        "x\"} 1\ncascade_injected{y=\"",
        "\u{202e}gnp.\u{feff}\u{2028}",
        "{tenant}/../../%2e%2e",
        &"長".repeat(2_700),
        &"y".repeat(100_000),
    ];
    for model in strangers {
        let mut stream = Stream::open(&channel).await.unwrap();
        let (decision, refusal) = decide(&mut stream, "te\"n\\ant", model).await;
        let told = model.chars().take(20).collect::<String>();
        assert_eq!(text(&decision, "reason").as_deref(), Some("unknown_model"), "{told:?}");
        assert_eq!(text(&decision, "model"), None, "{told:?}");
        let shown = text(&decision, "requested_model").unwrap_or_default();
        assert!(shown.len() <= 16 && shown.bytes().all(|byte| byte.is_ascii_hexdigit()), "{told:?} is shown as {shown:?}");
        let refusal = refusal.expect("a refusal");
        let message = refusal["error"]["message"].as_str().unwrap();
        assert!(message.chars().count() < 200, "{told:?}: {message}");
        assert_eq!(refusal["error"].as_object().unwrap().len(), 4, "{told:?}: {refusal}");
    }

    let metrics = cascade.get("/metrics").await.text();
    assert!(metrics.contains(r#"{model="q\"uo\\te{x=\"1\"} 1",outcome="override"} 1"#), "{metrics}");
    assert!(metrics.contains(r#"{tenant="te\"n\\ant",outcome="override"} 2"#), "{metrics}");
    assert!(metrics.contains(r#"cascade_model_requests_total{model="other",outcome="reject"} 8"#), "{metrics}");
    let lines = metrics.lines().filter(|line| !line.is_empty());
    assert!(lines.into_iter().all(|line| line.starts_with("# ") || line.starts_with("cascade_")), "{metrics}");
    assert!(!metrics.contains("injected") && !metrics.contains("yyy"), "{metrics}");

    let decisions = || cascade.output().matches("\"event\":\"decision\"").count();
    eventually("a log line of each decision", async || (decisions() == known.len() + strangers.len()).then_some(())).await;
    let output = cascade.output();
    assert!(output.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{output}");
    assert!(!output.contains("injected") && !output.contains("yyy"), "{output}");
}
