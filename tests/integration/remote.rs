//! A catalog behind a URL, served by a small HTTP server of the test.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::catalog::good;
use crate::process::{Cascade, eventually};

#[derive(Default)]
struct Shelf {
    status: u16,
    text: String,
    etag: Option<String>,
    /// What came back as `if-none-match`, request by request.
    asked: Vec<Option<String>>,
}

type Shared = Arc<Mutex<Shelf>>;

async fn serve(State(shelf): State<Shared>, headers: HeaderMap) -> impl IntoResponse {
    let mut shelf = shelf.lock().unwrap();
    let condition = headers.get("if-none-match").map(|value| value.to_str().unwrap().to_owned());
    shelf.asked.push(condition.clone());
    if condition.is_some() && condition == shelf.etag {
        return (StatusCode::NOT_MODIFIED, HeaderMap::new(), String::new());
    }
    let mut headers = HeaderMap::new();
    if let Some(etag) = &shelf.etag {
        headers.insert("etag", etag.parse().unwrap());
    }
    (StatusCode::from_u16(shelf.status).unwrap(), headers, shelf.text.clone())
}

async fn start(text: String, etag: Option<&str>) -> (Shared, String) {
    let shelf = Arc::new(Mutex::new(Shelf { status: 200, text, etag: etag.map(str::to_owned), asked: Vec::new() }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/catalog", listener.local_addr().unwrap());
    let router = Router::new().route("/catalog", get(serve)).with_state(shelf.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (shelf, url)
}

const QUICK: [(&str, &str); 1] = [("CATALOG__REFRESH", "100ms")];

#[tokio::test]
async fn a_url_is_polled_with_its_etag_and_a_change_comes_into_use() {
    let (shelf, url) = start(good("one"), Some("\"1\"")).await;
    let cascade = Cascade::ready(&["--catalog", &url], &QUICK).await;
    let conditional = async || shelf.lock().unwrap().asked.iter().filter(|asked| asked.as_deref() == Some("\"1\"")).count();
    eventually("conditional polls", async || (conditional().await >= 3).then_some(())).await;
    assert_eq!(cascade.metric(r#"cascade_catalog_reloads_total{result="success"}"#).await, Some(1.0));
    (shelf.lock().unwrap().text, shelf.lock().unwrap().etag) = (good("two"), Some("\"2\"".to_owned()));
    cascade.status_where("the change", |status| status["label"] == "two").await;
}

#[tokio::test]
async fn an_error_of_the_server_is_away_and_a_bad_text_is_refused() {
    let (shelf, url) = start(good("one"), None).await;
    let cascade = Cascade::ready(&["--catalog", &url], &QUICK).await;
    for status in [404, 500, 503] {
        shelf.lock().unwrap().status = status;
        let failed = cascade.status_where("a failure", |seen| seen["failures_since"].as_u64() >= Some(1)).await;
        assert!(failed["last_error"].as_str().unwrap().contains(&status.to_string()), "{failed}");
        shelf.lock().unwrap().status = 200;
        cascade.status_where("recovery", |seen| seen["failures_since"] == 0 && seen["stale"] == false).await;
    }
    shelf.lock().unwrap().text = "<html>please log in</html>".to_owned();
    let failed = cascade.status_where("a refusal", |seen| seen["stale"] == true).await;
    assert_eq!(failed["label"], "one");
}

#[tokio::test]
async fn json_is_a_catalog_too() {
    let text = r#"{"version": 1, "label": "json", "priority_groups": {"g": {}}, "models": {"m": {"chain": ["g"]}}}"#;
    let (_shelf, url) = start(text.to_owned(), None).await;
    let cascade = Cascade::ready(&["--catalog", &url], &QUICK).await;
    assert_eq!(cascade.status().await["label"], "json");
}

/// Answers every request with these bytes and closes the connection.
async fn start_raw(answer: Arc<Mutex<String>>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/catalog.yaml", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let _ = stream.read(&mut head).await;
            let bytes = answer.lock().unwrap().clone();
            let _ = stream.write_all(bytes.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    url
}

#[tokio::test]
async fn an_answer_that_could_be_cut_is_not_taken() {
    let text = good("one");
    let cut = &text[..text.find("tenants:").unwrap()];
    let plain = |text: &str| format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{text}");
    let chunked =
        |text: &str| format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
    let sized = |text: &str, length: usize| format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{text}");
    let answer = Arc::new(Mutex::new(plain(cut)));
    let url = start_raw(answer.clone()).await;
    let cascade = Cascade::start(&["--catalog", &url], &QUICK);
    let failed = cascade.status_where("a failure", |status| status["failures_since"].as_u64() >= Some(2)).await;
    assert!(failed["last_error"].as_str().unwrap().contains("content-length") && failed["revision"].is_null(), "{failed}");
    *answer.lock().unwrap() = plain(&format!("{text}...\n"));
    cascade.status_where("a document that shows its end", |status| status["label"] == "one").await;
    let bad = [
        plain(cut),
        sized(cut, text.len()),
        chunked(cut).trim_end_matches("0\r\n\r\n").to_owned(),
        format!("HTTP/1.0 200 OK\r\n\r\n{cut}"),
    ];
    for bad in bad {
        *answer.lock().unwrap() = bad;
        let failed = cascade.status_where("a failure", |status| status["stale"] == true).await;
        assert_eq!(failed["label"], "one");
        *answer.lock().unwrap() = chunked(&format!("{text}...\n"));
        cascade.status_where("recovery", |status| status["stale"] == false).await;
    }
    let catalog = cascade.get("/catalog").await.json();
    assert_eq!(catalog["tenants"].as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn a_loosening_from_a_server_must_be_answered_for_a_while() {
    let (shelf, url) = start(good("one"), None).await;
    let settings = [("CATALOG__REFRESH", "100ms"), ("CATALOG__SETTLE_LOOSENING", "1h")];
    let cascade = Cascade::ready(&["--catalog", &url], &settings).await;
    shelf.lock().unwrap().text = good("two").replace("require_tags: [eu]", "");
    let status = cascade.status_where("pending", |status| status["pending"]["loosens"].is_array()).await;
    assert_eq!(status["label"], "one");
    shelf.lock().unwrap().text = good("three");
    cascade.status_where("what loosens nothing", |status| status["label"] == "three" && status["pending"].is_null()).await;
}
