//! Who may ask at each listener, and who gets no room there: hosts and origins at the admin address, what the probe address keeps
//! back, gRPC connections that never speak, and the access log at an address of its own.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tonic::Code;

use crate::catalog::Home;
use crate::feedback;
use crate::grpc::{self, Stream, decision};
use crate::http;
use crate::process::{Cascade, LIMIT, eventually};

async fn ready(home: &Home, settings: &[(&str, &str)]) -> Cascade {
    Cascade::ready(&["--catalog", &home.text("catalog.yaml")], settings).await
}

/// Sends these bytes as they are and reads the status of what comes.
async fn raw(address: &str, request: &str) -> u16 {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap_or_default().parse().unwrap_or(0)
    };
    timeout(LIMIT, exchange).await.expect("an answer in time")
}

#[tokio::test]
async fn the_admin_address_answers_for_its_own_hosts_only_on_every_route() {
    let home = Home::with_catalog("one");
    let cascade = ready(&home, &[("ADMIN_HOSTS", "[cascade.internal]"), ("PROBE", "127.0.0.1:0")]).await;
    let (admin, probe) = (cascade.admin().await, cascade.logged("listening for probes on ").await);
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/livez"),
        ("GET", "/readyz"),
        ("GET", "/healthz"),
        ("GET", "/metrics"),
        ("GET", "/catalog"),
        ("GET", "/catalog/status"),
        ("GET", "/clusters"),
        ("GET", "/nothing"),
        ("HEAD", "/metrics"),
        ("OPTIONS", "/clusters"),
        ("POST", "/explain"),
        ("POST", "/clusters/left/cool"),
        ("POST", "/clusters/left/clear"),
    ] {
        for (host, refused) in
            [("evil.example:9091", true), ("localhost:9091", true), ("cascade.internal", false), (&admin, false)]
        {
            let request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            assert_eq!(raw(&admin, &request).await == 403, refused, "{method} {path} for {host}");
        }
        let page =
            format!("{method} {path} HTTP/1.1\r\nhost: {admin}\r\norigin: http://evil.example\r\nconnection: close\r\n\r\n");
        assert_eq!(raw(&admin, &page).await, 403, "{method} {path} from a page");
    }
    // A target that names a host counts as much as the header.
    for target in ["http://evil.example/clusters", "http://evil.example:9091/metrics"] {
        assert_eq!(raw(&admin, &format!("GET {target} HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n")).await, 403);
    }
    assert_eq!(raw(&admin, "GET /readyz HTTP/1.0\r\n\r\n").await, 200, "an old client names no host");
    let form = "content-type: text/plain\r\norigin: null\r\n";
    assert_eq!(http::send_with(&admin, "POST", "/clusters/left/cool", form, b"a=b").await.status, 403);
    assert_eq!(cascade.get("/clusters").await.json()["clusters"][0]["state"], "healthy", "nothing was cooled");
    // The page of the address itself may.
    let own = format!(
        "POST /clusters/left/cool HTTP/1.1\r\nhost: {admin}\r\norigin: http://{admin}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(raw(&admin, &own).await, 200);
    assert_eq!(raw(&probe, "GET /readyz HTTP/1.1\r\nhost: whatever.example\r\nconnection: close\r\n\r\n").await, 200);
}

#[tokio::test]
async fn the_probe_address_keeps_details_and_tenants_back() {
    let home = Home::with_catalog("one");
    home.write("cascade.yaml", "extract: {tenant: [{header: x-tenant, trusted: true}]}\n");
    let config = home.text("cascade.yaml");
    let arguments = ["--catalog", &home.text("catalog.yaml"), "--config", &config];
    let cascade = Cascade::ready(&arguments, &[("PROBE", "127.0.0.1:0")]).await;
    let probe = cascade.logged("listening for probes on ").await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut stream = Stream::open(&channel).await.unwrap();
    stream.buffered(&[("x-tenant", "acme")], br#"{"model": "m"}"#.to_vec()).await;
    home.write("catalog.yaml", "models: [a secret mistake\n");
    cascade.status_where("the mistake is noticed", |status| status["stale"] == true).await;
    let health = http::get(&probe, "/healthz").await;
    assert_eq!((health.status, health.json()), (200, serde_json::json!({"ready": true, "reason": null})));
    let (inside, outside) = (cascade.get("/metrics").await.text(), http::get(&probe, "/metrics").await.text());
    assert!(inside.contains(r#"tenant="acme""#) && !outside.contains("acme") && !outside.contains("tenant=\""), "{outside}");
    assert!(outside.contains("cascade_requests_total{") && outside.contains("cascade_catalog_stale 1"), "{outside}");
    for path in ["/", "/livez", "/readyz", "/healthz", "/metrics", "/nothing"] {
        let text = http::get(&probe, path).await.text();
        assert!(!text.contains("mistake") && !text.contains("catalog.yaml"), "{path}: {text}");
    }
}

#[tokio::test]
async fn grpc_connections_that_never_speak_are_closed() {
    let home = Home::with_catalog("one");
    let (listen, log) = (format!("unix:{}", home.text("grpc.sock")), "127.0.0.1:0");
    let arguments = ["--catalog", &home.text("catalog.yaml"), "--listen", &listen];
    let cascade = Cascade::ready(&arguments, &[("FEEDBACK__ENABLED", "true"), ("FEEDBACK__LISTEN", log)]).await;
    let log = cascade.logged("listening for the access log on ").await;
    let channel = grpc::connect(&listen).await;
    assert_eq!(grpc::health(&channel, "").await, Ok(tonic_health::pb::health_check_response::ServingStatus::Serving));
    let mut silent: Vec<Box<dyn AsyncRead + Unpin>> = Vec::new();
    for said in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r"] {
        let (mut unix, mut tcp) =
            (UnixStream::connect(home.path("grpc.sock")).await.unwrap(), TcpStream::connect(&log).await.unwrap());
        unix.write_all(said.as_bytes()).await.unwrap();
        tcp.write_all(said.as_bytes()).await.unwrap();
        silent.push(Box::new(unix));
        silent.push(Box::new(tcp));
    }
    eventually("all are accepted", async || (cascade.metric("cascade_connections_open").await == Some(7.0)).then_some(())).await;
    for stream in &mut silent {
        let mut rest = Vec::new();
        let _ = timeout(LIMIT, stream.read_to_end(&mut rest)).await.expect("a silent connection is closed");
    }
    eventually("one connection is left", async || (cascade.metric("cascade_connections_open").await == Some(1.0)).then_some(()))
        .await;
    assert_eq!(grpc::health(&channel, "").await, Ok(tonic_health::pb::health_check_response::ServingStatus::Serving));
}

#[tokio::test]
async fn connections_over_the_limit_are_closed_at_once_and_counted() {
    let home = Home::with_catalog("one");
    let cascade = ready(&home, &[("SERVER__MAX_CONNECTIONS", "2")]).await;
    let listen = cascade.listen().await;
    let channel = grpc::connect(&listen).await;
    let mut stream = Stream::begin(&channel, &[]).await;
    let held = TcpStream::connect(&listen).await.unwrap();
    eventually("two are open", async || (cascade.metric("cascade_connections_open").await == Some(2.0)).then_some(())).await;
    let mut over = TcpStream::connect(&listen).await.unwrap();
    assert_eq!(timeout(LIMIT, over.read(&mut [0])).await.expect("it is closed").unwrap_or(0), 0);
    assert_eq!(cascade.metric("cascade_connections_refused_total").await, Some(1.0));
    stream.send(grpc::whole_body(br#"{"model": "m"}"#.to_vec())).await;
    let answer = stream.answer().await.unwrap().unwrap();
    assert_eq!(decision(&answer), "override model_chain", "those that are open go on");
    drop(held);
    eventually("there is room again", async || {
        let mut next = TcpStream::connect(&listen).await.unwrap();
        next.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        timeout(LIMIT, next.read(&mut [0])).await.unwrap().is_ok_and(|read| read == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn with_an_address_of_its_own_the_access_log_is_taken_nowhere_else() {
    let scene = feedback::Scene::set(&[("FEEDBACK__LISTEN", "127.0.0.1:0"), ("FEEDBACK__CONSECUTIVE_FAILURES", "1")]).await;
    let log = grpc::connect(&scene.cascade.logged("listening for the access log on ").await).await;
    assert_eq!(scene.try_log(feedback::refused("a")).await, Err(Code::Unimplemented));
    assert_eq!(scene.cluster("a").await["state"], "healthy");
    assert_eq!(Stream::open(&log).await.err().map(|status| status.code()), Some(Code::Unimplemented), "and nothing else there");
    feedback::try_log(&log, feedback::refused("a")).await.unwrap();
    assert_eq!(scene.cluster("a").await["state"], "cooling");
    assert!(!scene.cascade.output().contains("anyone who reaches"), "this machine alone reaches it");
}

#[tokio::test]
async fn that_others_reach_a_port_without_tls_is_said() {
    let home = Home::with_catalog("one");
    for (feedback, said) in
        [("true", "can ask for decisions, and send log entries"), ("false", "can ask for decisions: there is no TLS")]
    {
        let arguments = ["--catalog", &home.text("catalog.yaml"), "--listen", "0.0.0.0:0"];
        let cascade = Cascade::ready(&arguments, &[("FEEDBACK__ENABLED", feedback)]).await;
        eventually("the warning", async || cascade.output().contains(said).then_some(())).await;
    }
    let settings = [("FEEDBACK__ENABLED", "true"), ("FEEDBACK__LISTEN", "0.0.0.0:0")];
    let cascade = ready(&home, &settings).await;
    eventually("the warning", async || cascade.output().contains("(feedback.listen) can send log entries").then_some(())).await;
}

#[tokio::test]
async fn answers_can_be_read_by_people_and_asked_for_in_part() {
    let home = Home::with_catalog("one");
    let cascade = ready(&home, &[]).await;
    for path in ["/", "/healthz", "/catalog", "/catalog/status", "/clusters", "/nothing", "/clusters?x=1"] {
        let text = cascade.get(path).await.text();
        assert!(text.starts_with("{\n  \"") && text.ends_with("}\n"), "{path}: {text:?}");
    }
    for (path, line) in [
        ("/healthz?format=text", "ready: yes\n"),
        ("/catalog/status?format=text", "stale: no\n"),
        ("/clusters?format=text", "  - name: left\n"),
        ("/catalog?format=text", "\nmodels:\n  m:\n"),
    ] {
        let answer = cascade.get(path).await;
        assert!(answer.head.contains("content-type: text/plain") && answer.text().contains(line), "{path}: {}", answer.text());
    }
    let explained = http::post(&cascade.admin().await, "/explain?format=text", r#"{"model": "m"}"#).await.text();
    assert!(explained.contains("model_chain") && !explained.starts_with('{'), "{explained}");
    let one = cascade.get("/catalog?tenant=acme").await.json();
    let names = |section: &str| one[section].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!((names("tenants"), names("models").is_empty()), (vec!["acme".to_owned()], false));
    assert_eq!(cascade.get("/catalog?model=m&tenant=acme").await.json()["models"].as_object().unwrap().len(), 1);
    for (path, status, told) in [
        ("/catalog?tenant=acne", 404, "did you mean `acme`?"),
        ("/catalog?tennant=acme", 400, "the parameters are tenant, model, format"),
        ("/catalog?tenant=acme&tenant=eu", 400, "appears twice"),
        ("/clusters?format=yaml", 400, "json and text"),
        ("/catalog/status?verbose", 400, "no parameter `verbose`"),
    ] {
        let answer = cascade.get(path).await;
        assert!(answer.status == status && answer.text().contains(told), "{path}: {answer:?}");
    }
    assert_eq!(cascade.get("/readyz?verbose").await.status, 200, "a probe does not fail for a query");
}
