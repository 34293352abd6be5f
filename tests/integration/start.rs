//! The start: what is refused with 78, what is waited for, what fails with 1.

use crate::catalog::{Home, good};
use crate::process::{Cascade, eventually};

#[tokio::test]
async fn an_invalid_catalog_is_explained_and_ends_with_78() {
    let home = Home::new();
    home.write("catalog.yaml", &good("one").replace("chain: [both, backup]", "chain: [bot, backup]"));
    let mut cascade = Cascade::start(&["--catalog", &home.text("catalog.yaml")], &[]);
    let (code, output) = cascade.ended().await;
    assert_eq!(code, Some(78), "{output}");
    assert!(output.contains("catalog.yaml:10:") && output.contains("bot") && output.contains("hint"), "{output}");
    assert!(!output.contains("listening"), "no address is taken for a catalog that cannot be served: {output}");
}

#[tokio::test]
async fn an_empty_file_is_an_invalid_catalog() {
    let home = Home::new();
    home.write("catalog.yaml", "");
    let (code, output) = Cascade::start(&["--catalog", &home.text("catalog.yaml")], &[]).ended().await;
    assert_eq!(code, Some(78), "{output}");
}

#[tokio::test]
async fn a_catalog_whose_own_test_fails_is_invalid() {
    let home = Home::new();
    home.write(
        "catalog.yaml",
        &format!("{}tests: [{{name: t, request: {{model: m}}, expect: {{chain: [backup]}}}}]\n", good("one")),
    );
    let (code, output) = Cascade::start(&["--catalog", &home.text("catalog.yaml")], &[]).ended().await;
    assert_eq!(code, Some(78), "{output}");
    assert!(output.contains("failing-test"), "{output}");
}

#[tokio::test]
async fn invalid_settings_end_with_78_and_say_where() {
    let home = Home::with_catalog("one");
    home.write("cascade.yaml", "catalog:\n  refesh: 1s\n");
    let arguments = ["--catalog", &home.text("catalog.yaml"), "--config", &home.text("cascade.yaml")];
    let (code, output) = Cascade::start(&arguments, &[]).ended().await;
    assert_eq!(code, Some(78), "{output}");
    assert!(output.contains("cascade.yaml:2:3") && output.contains("refresh"), "{output}");
}

#[tokio::test]
async fn a_settings_file_that_is_missing_ends_with_78() {
    let home = Home::with_catalog("one");
    let arguments = ["--catalog", &home.text("catalog.yaml"), "--config", &home.text("cascade.yaml")];
    let (code, output) = Cascade::start(&arguments, &[]).ended().await;
    assert_eq!(code, Some(78), "{output}");
    assert!(output.contains("cascade.yaml"), "{output}");
}

#[tokio::test]
async fn a_log_filter_that_is_none_ends_with_78() {
    let home = Home::with_catalog("one");
    let settings = [("TELEMETRY__LOG", "cascade=loud")];
    let (code, output) = Cascade::start(&["--catalog", &home.text("catalog.yaml")], &settings).ended().await;
    assert_eq!(code, Some(78), "{output}");
    assert!(output.contains("telemetry.log") && output.contains("try `info`"), "{output}");
}

#[tokio::test]
async fn a_secret_file_that_is_missing_ends_with_78() {
    let home = Home::with_catalog("one");
    let secret = home.text("secret");
    let (code, output) = Cascade::start(&["--catalog", &home.text("catalog.yaml")], &[("SECRET_FILE", &secret)]).ended().await;
    assert_eq!(code, Some(78), "{output}");
    assert!(output.contains("secret_file"), "{output}");
}

#[tokio::test]
async fn a_port_in_use_ends_with_1_and_names_the_setting() {
    let home = Home::with_catalog("one");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--listen", "--admin"] {
        let (code, output) = Cascade::start(&["--catalog", &home.text("catalog.yaml"), flag, &address], &[]).ended().await;
        assert_eq!(code, Some(1), "{output}");
        assert!(output.contains(&address) && output.contains(&flag[2..]), "{output}");
    }
}

#[tokio::test]
async fn a_socket_that_someone_listens_on_is_not_taken() {
    let home = Home::with_catalog("one");
    let _living = std::os::unix::net::UnixListener::bind(home.path("grpc.sock")).unwrap();
    let listen = format!("unix:{}", home.text("grpc.sock"));
    let (code, output) = Cascade::start(&["--catalog", &home.text("catalog.yaml"), "--listen", &listen], &[]).ended().await;
    assert_eq!(code, Some(1), "{output}");
    assert!(home.path("grpc.sock").exists());
}

#[tokio::test]
async fn a_refused_url_is_waited_for_and_its_secrets_are_not_told() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://user:hunter2@{closed}/catalog.yaml?sig=hunter3");
    let mut cascade = Cascade::start(&["--catalog", &url], &[("CATALOG__REFRESH", "100ms")]);
    let status = cascade.status_where("several failures", |status| status["failures_since"].as_u64() > Some(2)).await;
    assert_eq!(status["source"], format!("http://{closed}/catalog.yaml"));
    assert_eq!(cascade.get("/readyz").await.status, 503);
    assert!(cascade.is_running());
    let output = cascade.output();
    assert_eq!(output.matches("cannot be reached").count(), 1, "one line per change of state: {output}");
    cascade.terminate();
    let (code, output) = cascade.ended().await;
    assert_eq!(code, Some(0));
    assert!(!output.contains("hunter") && !status.to_string().contains("hunter"), "{output}");
}

#[tokio::test]
async fn a_relative_path_that_leads_nowhere_is_waited_for_and_the_log_says_what_to_set() {
    let mut cascade = Cascade::start(&["--catalog", "nowhere/catalog"], &[]);
    cascade.status_where("the failure", |status| status["failures_since"].as_u64() > Some(0)).await;
    cascade.terminate();
    let (code, output) = cascade.ended().await;
    let line = output.lines().find(|line| line.contains("cannot be reached")).unwrap_or_else(|| panic!("{output}"));
    assert_eq!(code, Some(0));
    for word in ["nowhere/catalog: ", "--catalog", "CASCADE_CATALOG__SOURCE", "catalog.source", "working directory"] {
        assert!(line.contains(word), "{word}: {line}");
    }
}

#[tokio::test]
async fn a_slow_url_does_not_keep_the_probes_unanswered() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/catalog.yaml", listener.local_addr().unwrap());
    let silent = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let mut cascade = Cascade::start(&["--catalog", &url], &[]);
    eventually("the probes", async || (cascade.get("/livez").await.status == 200).then_some(())).await;
    assert_eq!(cascade.get("/readyz").await.status, 503);
    // It can be stopped even now.
    cascade.terminate();
    assert_eq!(cascade.ended().await.0, Some(0));
    silent.abort();
}
