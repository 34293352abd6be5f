//! The upstream role as a gRPC client sees it: every message gets one answer in its kind, and none is a refusal.

use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpHeaders, HttpTrailers, ProcessingRequest, ProcessingResponse};
use envoy_types::pb::google::protobuf::{Struct, Value, value};

use crate::catalog::Home;
use crate::grpc;
use crate::process::Cascade;

const CATALOG: &str = "version: 1
clusters: {a: {models: {m: vendor-name}}}
priority_groups: {one: {clusters: [{cluster_name: a, weight: 1}]}}
models: {m: {aliases: [alias], chain: [one]}}
";

async fn exchange(messages: Vec<ProcessingRequest>) -> Vec<ProcessingResponse> {
    let home = Home::new();
    home.write("catalog.yaml", CATALOG);
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    converse(&grpc::connect(&cascade.listen().await).await, messages).await
}

/// All that is answered in the upstream role.
async fn converse(channel: &tonic::transport::Channel, messages: Vec<ProcessingRequest>) -> Vec<ProcessingResponse> {
    let mut client = ExternalProcessorClient::new(channel.clone());
    let mut request = tonic::Request::new(tokio_stream::iter(messages));
    request.metadata_mut().insert("x-cascade-role", "upstream".parse().unwrap());
    let mut answers = client.process(request).await.unwrap().into_inner();
    let mut all = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        all.push(answer);
    }
    all
}

fn head(cluster: &str, headers: &[(&str, &str)]) -> ProcessingRequest {
    let name = Value { kind: Some(value::Kind::StringValue(cluster.to_owned())) };
    let attributes = Struct { fields: [("xds.cluster_name".to_owned(), name)].into() };
    let attributes = [("envoy.filters.http.ext_proc".to_owned(), attributes)].into();
    ProcessingRequest { attributes, ..grpc::head(headers, false) }
}

/// The headers that an answer to a body removes.
fn removed(answer: &ProcessingResponse) -> Vec<String> {
    let Some(Response::RequestBody(body)) = &answer.response else { panic!("{answer:?}") };
    let changes = body.response.clone().and_then(|common| common.header_mutation).unwrap_or_default();
    assert!(changes.set_headers.iter().all(|option| option.header.as_ref().unwrap().key != "content-length"));
    changes.remove_headers
}

fn new_body(answer: &ProcessingResponse) -> Option<String> {
    use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
    let Some(Response::RequestBody(body)) = &answer.response else { panic!("{answer:?}") };
    let mutation = body.response.as_ref()?.body_mutation.as_ref()?.mutation.as_ref()?;
    let Mutation::Body(bytes) = mutation else { panic!("{mutation:?}") };
    Some(String::from_utf8(bytes.clone()).unwrap())
}

#[tokio::test]
async fn a_body_is_renamed_and_everything_else_answered_as_it_is() {
    let body = r#"{"model":"alias","n":1.0}"#;
    let message = |request| ProcessingRequest { request: Some(request), ..ProcessingRequest::default() };
    let trailers = message(Request::RequestTrailers(HttpTrailers::default()));
    let response = message(Request::ResponseHeaders(HttpHeaders::default()));
    let head = head("a", &[("content-length", "25")]);
    let answers = exchange(vec![head, grpc::whole_body(body.into()), trailers, response]).await;
    assert_eq!(answers.len(), 4);
    assert!(answers[0].mode_override.is_none(), "the body is needed");
    assert_eq!(new_body(&answers[1]).as_deref(), Some(r#"{"model":"vendor-name","n":1.0}"#));
    assert_eq!(removed(&answers[1]), ["content-length"], "a length that is set would meet the next attempt's body");
    assert!(matches!(answers[2].response, Some(Response::RequestTrailers(_))));
    assert!(matches!(answers[3].response, Some(Response::ResponseHeaders(_))));
}

#[tokio::test]
async fn what_cannot_be_read_goes_by_and_nothing_is_ever_refused() {
    for body in ["", "{", "[]", r#"{"model":7}"#, r#"{"model":"nobody"}"#] {
        let answers = exchange(vec![head("a", &[]), grpc::whole_body(body.into())]).await;
        assert_eq!(new_body(&answers[1]), None, "{body}");
    }
    for (cluster, headers) in [
        ("elsewhere", &[("x-envoy-attempt-count", "1")][..]),
        ("", &[("x-envoy-attempt-count", "1")]),
        ("a", &[("content-encoding", "gzip")]),
        ("a", &[("x-envoy-attempt-count", "1"), ("content-encoding", "gzip")]),
    ] {
        let answers = exchange(vec![head(cluster, headers)]).await;
        assert!(answers[0].mode_override.is_some(), "{cluster} {headers:?}: the body is not asked for");
    }
    assert!(exchange(vec![]).await.is_empty());
}

/// The headers of an attempt after Cascade's answers, its body, and whether that was asked for. All attempts of a request share one set
/// of headers: what one is given, the next one finds.
struct After {
    headers: Vec<(String, String)>,
    body: Option<String>,
    asks: bool,
}

async fn attempt(channel: &tonic::transport::Channel, cluster: &str, headers: &[(String, String)], body: &str) -> After {
    let given: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let answers = converse(channel, vec![head(cluster, &given), grpc::whole_body(body.into())]).await;
    let Some(Response::RequestHeaders(first)) = &answers[0].response else { panic!("{answers:?}") };
    let Some(Response::RequestBody(second)) = &answers[1].response else { panic!("{answers:?}") };
    let mut after = headers.to_vec();
    for changes in [&first.response, &second.response] {
        let changes = changes.clone().and_then(|common| common.header_mutation).unwrap_or_default();
        for option in changes.set_headers {
            let header = option.header.unwrap();
            after.retain(|(name, _)| *name != header.key);
            after.push((header.key, String::from_utf8(header.raw_value).unwrap()));
        }
        after.retain(|(name, _)| !changes.remove_headers.contains(name));
    }
    After { headers: after, body: new_body(&answers[1]), asks: answers[0].mode_override.is_none() }
}

/// [`attempt`] where nothing but the head matters.
async fn head_answer(
    channel: &tonic::transport::Channel,
    cluster: &str,
    headers: &[(String, String)],
) -> (Vec<(String, String)>, bool) {
    let After { headers, asks, .. } = attempt(channel, cluster, headers, "").await;
    (headers, asks)
}

fn value<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

const PATHS: &str = "version: 1
clusters:
  a: {path_prefix: {from: /v1/, to: /openai/v1/}}
  b: {path_prefix: {from: /v1, to: /}}
  c: {}
priority_groups: {one: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: b, weight: 1}, {cluster_name: c, weight: 1}]}}
models: {m: {chain: [one]}}
";

#[tokio::test]
async fn every_attempt_starts_from_the_path_that_the_client_sent() {
    let home = Home::new();
    home.write("catalog.yaml", PATHS);
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let sent = "/v1/chat/completions?q=/v1";
    let mut headers = vec![own(":path", sent)];
    // All attempts of a request share one set of headers: what one sets, the next one finds.
    for (count, cluster, path) in [
        ("1", "a", "/openai/v1/chat/completions?q=/v1"),
        ("2", "c", sent),
        ("3", "b", "/chat/completions?q=/v1"),
        ("4", "b", "/chat/completions?q=/v1"),
        ("5", "a", "/openai/v1/chat/completions?q=/v1"),
        ("6", "elsewhere", sent),
    ] {
        headers.retain(|(name, _)| name != "x-envoy-attempt-count");
        headers.push(own("x-envoy-attempt-count", count));
        let (after, asks) = head_answer(&channel, cluster, &headers).await;
        assert_eq!(value(&after, ":path"), Some(path), "{count}: {cluster}");
        assert!(!asks, "{count}: nothing in the body is to change");
        headers = after;
    }
    assert_eq!(cascade.metric("cascade_upstream_rewrites_total{result=\"path\"}").await, Some(4.0));
    // A sealed path that comes with the first attempt is none of this request.
    headers.retain(|(name, _)| name == "x-cascade-original-path");
    headers.extend([own(":path", "/v1/embeddings"), own("x-envoy-attempt-count", "1")]);
    let (after, _) = head_answer(&channel, "a", &headers).await;
    assert_eq!(value(&after, ":path"), Some("/openai/v1/embeddings"));
    // One that could not be remembered is not touched.
    let long = format!("/v1/{}", "x".repeat(2048));
    let (after, _) = head_answer(&channel, "a", &[own(":path", &long), own("x-envoy-attempt-count", "1")]).await;
    assert_eq!(value(&after, ":path"), Some(long.as_str()));
}

#[tokio::test]
async fn no_client_can_send_the_path_that_attempts_start_from() {
    let home = Home::new();
    home.write("catalog.yaml", PATHS);
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut stream = grpc::Stream::open(&channel).await.unwrap();
    let [_, answer] = stream.buffered(&[("x-cascade-original-path", "x")], br#"{"model":"m"}"#.to_vec()).await;
    let Some(Response::RequestBody(body)) = answer.response else { panic!("{answer:?}") };
    assert_eq!(body.response.unwrap().header_mutation.unwrap().remove_headers, ["x-cascade-original-path"]);
}

fn own(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The attempt's number takes the place of the one before.
fn counted(headers: &[(String, String)], count: &str) -> Vec<(String, String)> {
    let others = headers.iter().filter(|(name, _)| name != "x-envoy-attempt-count").cloned();
    others.chain([own("x-envoy-attempt-count", count)]).collect()
}

const NAMES: &str = "version: 1
clusters: {a: {models: {m: vendor/a name}}, b: {}, c: {models: {m: c}}}
priority_groups: {one: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: b, weight: 1}, {cluster_name: c, weight: 1}]}}
models: {m: {aliases: [alias], chain: [one]}, other: {chain: [one]}}
";

/// A Cascade whose models are read from `sources`, and what keeps it.
async fn reading(sources: &str) -> (Home, Cascade, tonic::transport::Channel) {
    let home = Home::new();
    home.write("catalog.yaml", NAMES);
    home.write("cascade.yaml", &format!("extract: {{model: [{sources}]}}\n"));
    let arguments = ["--catalog", &home.text("catalog.yaml"), "--config", &home.text("cascade.yaml")];
    let cascade = Cascade::ready(&arguments, &[]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    (home, cascade, channel)
}

#[tokio::test]
async fn a_model_is_renamed_in_the_place_where_the_settings_find_it() {
    let json = "application/json";
    let form = "application/x-www-form-urlencoded";
    let multipart = "multipart/form-data; boundary=B";
    let part = |model: &str| format!("--B\r\nContent-Disposition: form-data; name=\"engine\"\r\n\r\n{model}\r\n--B--\r\n");
    for (sources, path, content_type, body, new_path, new_body) in [
        (
            "{body: /spec/engine}",
            "/x",
            json,
            r#"{ "model":"alias", "spec": {"engine" : "alias", "n": 1.0} }"#.to_owned(),
            "/x",
            Some(r#"{ "model":"alias", "spec": {"engine" : "vendor/a name", "n": 1.0} }"#.to_owned()),
        ),
        ("{query: model}", "/x?a=%7e&model=al%69as&b=+", json, "{}".to_owned(), "/x?a=%7e&model=vendor%2Fa%20name&b=+", None),
        ("{path: \"/m/{model}/**\"}", "/m/alias/x%2fy?q", json, "{}".to_owned(), "/m/vendor%2Fa%20name/x%2fy?q", None),
        ("{multipart: engine}", "/x", multipart, part("alias"), "/x", Some(part("vendor/a name"))),
        (
            "{form: engine}",
            "/x",
            form,
            "a=%7e&engine=alias&b=+".to_owned(),
            "/x",
            Some("a=%7e&engine=vendor%2Fa%20name&b=+".to_owned()),
        ),
        // The first source with a value, and no other.
        (
            "{body: /engine}, {query: model}",
            "/x?model=alias",
            json,
            r#"{"engine":"alias"}"#.to_owned(),
            "/x?model=alias",
            Some(r#"{"engine":"vendor/a name"}"#.to_owned()),
        ),
        (
            "{body: /engine}, {query: model}",
            "/x?model=alias",
            json,
            r#"{"engine":7}"#.to_owned(),
            "/x?model=vendor%2Fa%20name",
            None,
        ),
        (
            "{query: model}, {dialect: auto}",
            "/x?model=alias",
            json,
            r#"{"model":"alias"}"#.to_owned(),
            "/x?model=vendor%2Fa%20name",
            None,
        ),
        // What no decision would take, or nobody can rename, goes by.
        ("{value: alias}, {dialect: auto}", "/x", json, r#"{"model":"alias"}"#.to_owned(), "/x", None),
        ("{dialect: auto}", "/x", json, r#"{"model":"alias","model":"alias"}"#.to_owned(), "/x", None),
        ("{query: model}", "/x?model=alias&model=m", json, "{}".to_owned(), "/x?model=alias&model=m", None),
    ] {
        let (_home, _cascade, channel) = reading(sources).await;
        let sent = [
            own(":path", path),
            own("content-type", content_type),
            own("content-length", "1"),
            own("x-envoy-attempt-count", "1"),
        ];
        let first = attempt(&channel, "a", &sent, &body).await;
        assert_eq!(value(&first.headers, ":path"), Some(new_path), "{sources} {path}");
        assert_eq!(first.body, new_body, "{sources}");
        assert_eq!(
            value(&first.headers, "content-length").is_some(),
            new_body.is_none(),
            "{sources}: no length but the client's"
        );
        // The next provider gets what the client sent, under its own name.
        let second = attempt(&channel, "c", &counted(&first.headers, "2"), &body).await;
        let renamed = |text: &str| text.replace("vendor%2Fa%20name", "c").replace("vendor/a name", "c");
        assert_eq!(value(&second.headers, ":path"), Some(renamed(new_path).as_str()), "{sources} {path}");
        assert_eq!(second.body, new_body.as_deref().map(renamed), "{sources}");
        let third = attempt(&channel, "elsewhere", &counted(&second.headers, "3"), &body).await;
        assert_eq!((value(&third.headers, ":path"), third.body), (Some(path), None), "{sources}: the client's");
    }
}

#[tokio::test]
async fn a_header_that_names_the_model_starts_anew_with_every_attempt() {
    let (_home, cascade, channel) = reading("{header: x-model}").await;
    let mut headers = vec![own("x-model", "alias"), own("x-request-id", "1")];
    for (count, cluster, name) in
        [("1", "a", "vendor/a name"), ("2", "b", "m"), ("3", "elsewhere", "alias"), ("4", "c", "c"), ("5", "c", "c")]
    {
        let after = attempt(&channel, cluster, &counted(&headers, count), "").await;
        assert_eq!(value(&after.headers, "x-model"), Some(name), "{count}: {cluster}");
        assert!(!after.asks);
        headers = after.headers;
    }
    assert_eq!(cascade.metric("cascade_upstream_rewrites_total{result=\"header\"}").await, Some(4.0));
    // Another request learns nothing from it.
    headers.retain(|(name, _)| name == "x-cascade-original-path");
    headers.extend([own("x-model", "m"), own("x-request-id", "2")]);
    let after = attempt(&channel, "a", &counted(&headers, "2"), "").await;
    assert_eq!(value(&after.headers, "x-model"), Some("m"), "what cannot be taken back is not done");
    assert_eq!(cascade.metric("cascade_upstream_rewrites_total{result=\"unreadable\"}").await, Some(1.0));
}

#[tokio::test]
async fn an_empty_value_and_a_compressed_body_hide_no_later_source() {
    let gzip = "gzip";
    for (sources, headers, path, result) in [
        ("{header: x-model}, {query: model}", [("x-model", ""), ("x", "")], "/x?model=c", "query"),
        ("{path: \"/{model}\"}, {query: model}", [("x", ""), ("y", "")], "/x?model=alias", "unchanged"),
        ("{body: /engine}, {query: model}", [("x", ""), ("y", "")], "/x?model=c", "query"),
        // The decision looks into compressed bodies, and so does the role; but it changes none.
        ("{body: /engine}, {query: model}", [("content-encoding", gzip), ("y", "")], "/x?model=c", "query"),
        ("{body: /model}, {query: model}", [("content-encoding", gzip), ("y", "")], "/x?model=alias", "compressed"),
        ("{body: /model}", [("content-encoding", gzip), ("y", "")], "/x?model=alias", "compressed"),
    ] {
        let (_home, cascade, channel) = reading(sources).await;
        let mut sent = vec![own(":path", "/x?model=alias"), own("content-type", "application/json")];
        sent.extend(headers.iter().map(|(name, value)| own(name, value)));
        let given: Vec<(&str, &str)> = sent.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let body = br#"{"model":"alias","n":1}"#;
        let body = if sent.iter().any(|(_, value)| value == gzip) { compressed(body) } else { body.to_vec() };
        let answers = converse(&channel, vec![head("c", &given), grpc::whole_body(body)]).await;
        let set = format!("{answers:?}");
        let shown = path.strip_prefix("/x").unwrap();
        let is_set = set.contains(":path");
        assert_eq!(is_set, shown != "?model=alias", "{sources}: {set}");
        assert_eq!(new_body(&answers[1]), None, "{sources}");
        let series = format!("cascade_upstream_rewrites_total{{result=\"{result}\"}}");
        assert_eq!(cascade.metric(&series).await, Some(1.0), "{sources}");
    }
}

fn compressed(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, body).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn an_upgrade_never_waits_for_a_body() {
    let (_home, _cascade, channel) = reading("{query: model}, {dialect: auto}").await;
    for upgrade in [own("upgrade", "websocket"), own(":method", "CONNECT"), own(":protocol", "websocket")] {
        for (path, new_path) in [
            ("/v1/realtime?model=alias", "/v1/realtime?model=vendor%2Fa%20name"),
            ("/v1/chat/completions", "/v1/chat/completions"),
        ] {
            let after = attempt(&channel, "a", &[own(":path", path), upgrade.clone()], "").await;
            assert!(!after.asks, "{upgrade:?} {path}");
            assert_eq!(value(&after.headers, ":path"), Some(new_path));
        }
    }
}

#[tokio::test]
async fn a_filter_that_lacks_what_the_role_needs_is_told_of_with_its_cure() {
    let (_home, cascade, channel) = reading("{dialect: auto}").await;
    attempt(&channel, "", &[], "").await;
    cascade.logged("no_cluster_name").await;
    assert!(cascade.output().contains("xds.cluster_name"));
    let mut shy = head("a", &[]);
    shy.protocol_config = None;
    let config = envoy_types::pb::envoy::service::ext_proc::v3::ProtocolConfiguration::default();
    shy.protocol_config = Some(config);
    converse(&channel, vec![shy]).await;
    cascade.logged("body_not_shown").await;
    // A decision that was taken already is most likely the filter of an attempt without the role.
    for (id, twice) in [("1", 0.0), ("2", 0.0), ("1", 1.0), ("1", 2.0)] {
        let mut stream = grpc::Stream::open(&channel).await.unwrap();
        stream.buffered(&[("x-request-id", id)], br#"{"model":"m"}"#.to_vec()).await;
        assert_eq!(cascade.metric("cascade_decided_twice_total").await, Some(twice), "{id}");
    }
    cascade.logged("decided_twice").await;
    assert!(cascade.output().contains("{key: x-cascade-role, value: upstream}"));
    assert_eq!(cascade.output().matches("decided_twice").count(), 1, "once a minute");
}

#[tokio::test]
async fn an_attempt_reads_what_another_cascade_has_kept_if_they_share_a_key() {
    let sent = [own(":path", "/x?model=alias"), own("x-request-id", "1"), own("x-envoy-attempt-count", "1")];
    let cascade = async |keys: Option<&str>| {
        let home = Home::new();
        home.write("catalog.yaml", NAMES);
        home.write("keys", keys.unwrap_or_default());
        let secret = keys.map_or(String::new(), |_| format!("secret_file: {}\n", home.text("keys")));
        home.write("cascade.yaml", &format!("extract: {{model: [{{query: model}}]}}\n{secret}"));
        let arguments = ["--catalog", &home.text("catalog.yaml"), "--config", &home.text("cascade.yaml")];
        let cascade = Cascade::ready(&arguments, &[]).await;
        let channel = grpc::connect(&cascade.listen().await).await;
        (home, cascade, channel)
    };
    let [old, new] = ["the-old-key-of-16-bytes\n", "the-new-key-of-16-bytes\n"];
    let rotated = format!("{new}{old}");
    for (first, second, path, unreadable) in [
        (Some(old), Some(rotated.as_str()), "/x?model=c", None),
        (Some(rotated.as_str()), Some(new), "/x?model=c", None),
        (Some(old), Some(new), "/x?model=vendor%2Fa%20name", Some(1.0)),
        // A Cascade without a file makes its own key at every start.
        (None, None, "/x?model=vendor%2Fa%20name", Some(1.0)),
    ] {
        let (_home, _cascade, channel) = cascade(first).await;
        let one = attempt(&channel, "a", &sent, "{}").await;
        assert_eq!(value(&one.headers, ":path"), Some("/x?model=vendor%2Fa%20name"));
        let (_home, cascade, channel) = cascade(second).await;
        let two = attempt(&channel, "c", &counted(&one.headers, "2"), "{}").await;
        assert_eq!(value(&two.headers, ":path"), Some(path), "{first:?} {second:?}");
        assert_eq!(cascade.metric("cascade_upstream_rewrites_total{result=\"unreadable\"}").await, unreadable);
    }
}
