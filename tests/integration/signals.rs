//! SIGHUP has everything read again that is read again anyway, and ends nothing; a log that nobody reads holds up neither that nor
//! the end.

use std::process::Stdio;

use tokio::net::TcpListener;

use crate::catalog::{Home, good};
use crate::grpc::{self, Stream, decision};
use crate::http;
use crate::process::{Cascade, LIMIT, command, eventually, signal};

#[tokio::test]
async fn a_hangup_has_the_catalog_and_the_secrets_read_at_once_and_ends_nothing() {
    let home = Home::with_catalog("one");
    home.write("cascade.yaml", "catalog: {refresh: 1h}\n");
    home.write("tokens", "the-first-token-of-all\n");
    let arguments = ["--catalog", &home.text("catalog.yaml"), "--config", &home.text("cascade.yaml")];
    let mut cascade = Cascade::ready(&arguments, &[("ADMIN_TOKEN_FILE", &home.text("tokens"))]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut stream = Stream::begin(&channel, &[]).await;
    home.write("tokens", "the-second-token-of-all\n");
    home.replace("catalog.yaml", &good("two"));
    cascade.hang_up();
    cascade.status_where("the new catalog", |status| status["label"] == "two").await;
    let admin = cascade.admin().await;
    let cool = async || {
        let line = "authorization: Bearer the-second-token-of-all\r\n";
        http::send_with(&admin, "POST", "/clusters/left/cool", line, b"").await.status
    };
    eventually("the new token", async || (cool().await == 200).then_some(())).await;
    stream.send(grpc::whole_body(br#"{"model": "m"}"#.to_vec())).await;
    assert_eq!(decision(&stream.answer().await.unwrap().unwrap()), "override model_chain", "streams go on");
    assert!(!cascade.output().contains("needs a restart"));
    home.write("cascade.yaml", "catalog: {refresh: 2h}\n");
    cascade.hang_up();
    eventually("a word about the settings", async || cascade.output().contains("needs a restart").then_some(())).await;
    assert!(cascade.is_running());
    drop((stream, channel));
    cascade.terminate();
    assert_eq!(cascade.ended().await.0, Some(0));
}

#[tokio::test]
async fn a_hangup_before_the_catalog_is_there_or_while_draining_ends_nothing() {
    let home = Home::new();
    let mut cascade = Cascade::start(&["--catalog", &home.text("catalog.yaml")], &[("CATALOG__REFRESH", "1h")]);
    cascade.admin().await;
    cascade.hang_up();
    eventually("it is noticed", async || cascade.output().contains("SIGHUP").then_some(())).await;
    home.write("catalog.yaml", &good("late"));
    cascade.hang_up();
    eventually("readiness", async || (cascade.get("/readyz").await.status == 200).then_some(())).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let mut stream = Stream::begin(&channel, &[]).await;
    cascade.terminate();
    eventually("the drain", async || cascade.output().contains("draining").then_some(())).await;
    cascade.hang_up();
    stream.send(grpc::whole_body(br#"{"model": "m"}"#.to_vec())).await;
    assert_eq!(decision(&stream.answer().await.unwrap().unwrap()), "override model_chain");
    drop((stream, channel));
    assert_eq!(cascade.ended().await.0, Some(0));
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_neither_a_reload_nor_the_end() {
    let home = Home::with_catalog("one");
    // A free port: nobody tells where it listens, since that would be in the log.
    let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
    let (listen, admin) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let (listen_at, admin_at) = (address(&listen), address(&admin));
    drop((listen, admin));
    let catalog = home.text("catalog.yaml");
    let mut serve = command(&["serve", "--catalog", &catalog, "--listen", &listen_at, "--admin", &admin_at]);
    serve.env("CASCADE_TELEMETRY__LOG", "trace").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = serve.spawn().unwrap();
    eventually("readiness", async || (http::get(&admin_at, "/readyz").await.status == 200).then_some(())).await;
    let channel = grpc::connect(&listen_at).await;
    let dropped = async || {
        let text = http::get(&admin_at, "/metrics").await.text();
        let line = text.lines().find_map(|line| line.strip_prefix("cascade_log_lines_dropped_total "))?.parse::<u64>().ok()?;
        (line > 0).then_some(())
    };
    eventually("a full log", async || {
        for _ in 0..200 {
            let mut stream = Stream::open(&channel).await.unwrap();
            stream.buffered(&[], br#"{"model": "m"}"#.to_vec()).await;
        }
        dropped().await
    })
    .await;
    home.replace("catalog.yaml", &good("two"));
    signal(&child, "-HUP");
    eventually("the new catalog", async || {
        (http::get(&admin_at, "/catalog/status").await.json()["label"] == "two").then_some(())
    })
    .await;
    drop(channel);
    signal(&child, "-TERM");
    let ended = cascade::lab::eventually("the end", LIMIT, async || child.try_wait().unwrap()).await;
    let _ = child.kill();
    assert_eq!(ended.unwrap().code(), Some(0));
}
