//! The admin address: what it shows, and what it says to mistakes.

use crate::catalog::Home;
use crate::http;
use crate::process::{Cascade, field};

async fn cascade(home: &Home) -> Cascade {
    Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[]).await
}

#[tokio::test]
async fn the_catalog_is_shown_compiled_and_without_keys() {
    let home = Home::with_catalog("one");
    let cascade = cascade(&home).await;
    let answer = cascade.get("/catalog").await;
    let catalog = answer.json();
    assert_eq!(catalog["revision"], cascade.status().await["revision"]);
    assert_eq!(catalog["models"]["m"]["chain"], serde_json::json!(["both", "backup"]));
    assert_eq!(catalog["models"]["m"]["aliases"], serde_json::json!(["alias"]));
    assert_eq!(catalog["tenants"]["eu"]["fail"], "closed", "a restriction closes (rule 2)");
    assert_eq!(catalog["clusters"]["right"]["drained_by"], "cluster");
    assert!(!answer.text().contains("5ec4e7") && !answer.text().contains("sha256"), "{}", answer.text());
}

#[tokio::test]
async fn the_clusters_are_listed_with_their_state() {
    let home = Home::with_catalog("one");
    let cascade = cascade(&home).await;
    let clusters = cascade.get("/clusters").await.json();
    let names: Vec<&str> =
        clusters["clusters"].as_array().unwrap().iter().map(|it| field(it, "name", |it| it.as_str())).collect();
    assert_eq!(names, ["left", "right", "spare"]);
    let right = &clusters["clusters"][1];
    assert_eq!((&right["provider"], &right["drained"], &right["state"]), (&"p".into(), &true.into(), &"healthy".into()));
}

#[tokio::test]
async fn a_request_is_explained_as_the_command_line_explains_it() {
    let home = Home::with_catalog("one");
    let cascade = cascade(&home).await;
    let admin = cascade.admin().await;
    let answer =
        http::post(&admin, "/explain", r#"{"model": "alias", "tenant": "acme", "random": 3, "attempts": 2}"#).await.json();
    assert_eq!(
        (&answer["outcome"], &answer["reason"], &answer["model"]),
        (&"override".into(), &"model_chain".into(), &"m".into())
    );
    let source = home.text("catalog.yaml");
    let command = ["explain", "--catalog", &source, "--model", "alias", "--tenant", "acme", "--random", "3", "--attempts", "2"];
    let (code, out, _) = crate::process::run(&[&command[..], &["--format", "json"]].concat());
    assert_eq!(code, Some(0));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap(), answer);
    // A state of health may be given along; without one it is that of the moment.
    let supposed = r#"{"model": "m", "tenant": "acme", "cooling": ["left"]}"#;
    let answer = http::post(&admin, "/explain", supposed).await.json();
    assert_eq!((&answer["health"], &answer["chain"][0]["name"]), (&"reordered".into(), &"backup".into()), "{answer}");
    // What is not given is read from headers and body.
    let body = r#"{"headers": {"x-session-id": "secret-session"}, "body": {"model": "m"}}"#;
    let answer = http::post(&admin, "/explain", body).await;
    assert_eq!(answer.json()["model"], "m");
    assert!(answer.json()["session"].is_string() && !answer.text().contains("secret-session"), "a session is hashed");
}

#[tokio::test]
async fn mistakes_are_answered_in_json_with_what_to_do() {
    let home = Home::with_catalog("one");
    let cascade = cascade(&home).await;
    let admin = cascade.admin().await;
    for (method, path, body, status, told) in [
        ("GET", "/nothing", "", 404, "/catalog/status"),
        ("POST", "/catalog", "", 405, "GET"),
        ("GET", "/explain", "", 405, "POST"),
        ("DELETE", "/clusters", "", 405, "GET"),
        ("POST", "/explain", "{", 400, "JSON"),
        ("POST", "/explain", "[]", 400, "object"),
        ("POST", "/explain", r#"{"modle": "m"}"#, 400, "modle"),
        ("POST", "/explain", r#"{"model": 1}"#, 400, "model"),
        ("POST", "/explain", r#"{"attempts": -1}"#, 400, "attempts"),
        ("POST", "/explain", r#"{"headers": {"a": 1}}"#, 400, "headers"),
        ("POST", "/explain?model=m", "{}", 400, "no parameter `model`"),
        ("POST", "/clusters/left/cool?second=5", "", 400, "no parameter `second`"),
        ("POST", "/clusters/left/cool?seconds=5&why=x", "", 400, "the parameters are seconds"),
        ("POST", "/clusters/left/clear?seconds=5", "", 400, "no parameter `seconds`"),
        ("POST", "/clusters/left/cool?seconds=0", "", 400, "seconds must be a whole number from 1 to"),
    ] {
        let answer = http::send(&admin, method, path, body.as_bytes()).await;
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        assert!(answer.head.contains("content-type: application/json"), "{answer:?}");
        assert!(answer.json()["error"].is_string() && answer.text().contains(told), "{method} {path}: {}", answer.text());
    }
    assert_eq!(cascade.get("/clusters").await.json()["clusters"][0]["state"], "healthy", "nothing was cooled");
    let large = format!(r#"{{"body": "{}"}}"#, "x".repeat(9 * 1024 * 1024));
    let answer = http::post(&admin, "/explain", &large).await;
    assert!(answer.status == 413 || answer.status == 0, "{answer:?}");
}

#[tokio::test]
async fn every_endpoint_can_be_asked_for_its_head_alone() {
    let home = Home::with_catalog("one");
    let cascade = cascade(&home).await;
    let admin = cascade.admin().await;
    for path in ["/", "/livez", "/readyz", "/healthz", "/metrics", "/catalog", "/catalog/status", "/clusters"] {
        let head = http::send(&admin, "HEAD", path, b"").await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert!(head.head.contains("cache-control: no-store"), "{path}: {}", head.head);
    }
}

#[tokio::test]
async fn clients_that_do_not_send_their_bodies_do_not_keep_the_probes_away() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let home = Home::with_catalog("one");
    let cascade = cascade(&home).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut client = tokio::net::TcpStream::connect(cascade.admin().await).await.unwrap();
        client.write_all(b"POST /explain HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{").await.unwrap();
        slow.push(client);
    }
    assert_eq!(cascade.get("/livez").await.status, 200);
    let mut answer = String::new();
    slow[0].read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

/// Prometheus, a kubelet or a person that comes now goes before those who do nothing or take nothing.
#[tokio::test]
async fn idle_and_slow_connections_make_room_for_the_next_one() {
    use tokio::io::AsyncWriteExt;
    let home = Home::with_catalog("one");
    let cascade = cascade(&home).await;
    let admin = cascade.admin().await;
    let said = [
        "",
        "GET /metr",
        "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /explain HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{",
    ];
    let mut open = Vec::new();
    for at in 0..600 {
        let mut client = tokio::net::TcpStream::connect(&admin).await.unwrap();
        let _ = client.write_all(said[at % said.len()].as_bytes()).await;
        open.push(client);
        if at % 50 == 0 {
            assert_eq!(cascade.get("/readyz").await.status, 200, "after {at}");
        }
    }
    assert_eq!(cascade.get("/metrics").await.status, 200);
}
