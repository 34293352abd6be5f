//! Large bodies, and models that come early, late or twice, through a real Envoy: when a request leaves for its provider, what it
//! brings there, and what happens beyond the limits.

use std::net::SocketAddr;

use cascade::lab::{BodyMode, Cluster, EnvoySetup, Request, Response, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::gateway::{chat, ok};
use crate::town::{LIMIT, Town};

const MIB: usize = 1 << 20;
const MODES: [BodyMode; 2] = [BodyMode::Buffered, BodyMode::FullDuplexStreamed];

/// The open model `m` and the tenant `strict`, who may use nothing else, on provider `a`.
const CATALOG: &str = "
version: 1
priority_groups: {g: {clusters: [{cluster_name: a, weight: 1}]}}
models: {m: {chain: [g]}}
tenants: {strict: {allowed_models: [m]}}
defaults: {missing_tenant: anonymous}
";
const TENANT: &str = "extract: {tenant: [{header: x-tenant-id, trusted: true}]}\n";

async fn town(settings: &str, mode: BodyMode, change: impl FnOnce(&mut EnvoySetup)) -> Town {
    let settings = format!("{TENANT}{settings}");
    Town::with_catalog(CATALOG, &settings, |setup| {
        setup.body_mode = mode;
        setup.message_timeout = LIMIT;
        change(setup);
    })
    .await
}

fn post(body: impl Into<Vec<u8>>) -> Request {
    Request::post("/v1/chat/completions", body)
}

async fn begins(town: &Town, provider: &str) {
    let what = format!("a request's head at {provider}");
    ok(eventually(&what, LIMIT, || async { (town.provider(provider).begun() > 0).then_some(()) }).await);
}

/// The provider has the head before the client has sent more than the first piece, and in the end every byte.
#[tokio::test]
async fn a_body_of_50_mb_is_routed_by_its_first_piece() {
    let town = town("", BodyMode::FullDuplexStreamed, |_| ()).await;
    let mut body = br#"{"model":"m","messages":[{"role":"user","content":""#.to_vec();
    let first = body.len();
    body.resize(50 * MIB, b'x');
    body.extend_from_slice(br#""}]}"#);
    let (id, mut sending) = ok(town.envoy.begin(post(""), Some(body.len())).await);
    sending.write(&body[..first]).await;
    begins(&town, "a").await;
    sending.write(&body[first..]).await;
    let response = ok(sending.response().await);

    assert_eq!((response.status, response.header("x-served-by")), (200, Some("a")));
    let seen = town.provider("a").seen();
    assert!(seen[0].body == body, "{} bytes arrived", seen[0].body.len());
    assert_eq!(ok(town.envoy.trail(&id).await).decision["reason"], "model_chain");
}

fn with_the_model_at_the_end(bytes: usize) -> Vec<u8> {
    let (start, end) = (r#"{"messages":[{"role":"user","content":""#, r#""}],"model":"m"}"#);
    format!("{start}{}{end}", "x".repeat(bytes - start.len() - end.len())).into_bytes()
}

#[tokio::test]
async fn a_model_at_the_end_is_found_up_to_max_body_and_the_rest_is_not_judged() {
    for mode in MODES {
        let town = town("limits: {max_body: 2MiB}\n", mode, |_| ()).await;
        for (size, way, reason) in [(2 * MIB, "a(200)", "model_chain"), (2 * MIB + 1, "fixed(200)", "body_too_large")] {
            let request = post(with_the_model_at_the_end(size));
            let (_, trail) = town.send(request.clone()).await;
            assert_eq!((trail.to_string().as_str(), &trail.decision["reason"]), (way, &reason.into()), "{size} in {mode}");
            let seen = town.provider(&way[..way.len() - 5]).seen().pop().unwrap();
            assert!(seen.body == request.body, "{size} in {mode}: {} bytes arrived", seen.body.len());
        }
        // Who may not use the static chain is told.
        let strict = post(with_the_model_at_the_end(2 * MIB + 1)).header("x-tenant-id", "strict");
        let (response, trail) = ok(town.envoy.send(strict).await);
        assert_eq!((response.status, response.header("x-cascade-reason")), (413, Some("body_too_large")), "{mode}");
        assert_eq!(trail.to_string(), "", "{mode}");
    }
}

/// Fact 28c, and the second model is more than `max_body` away.
#[tokio::test]
async fn a_second_model_far_behind_the_first_still_ends_the_attempt() {
    let town = town("limits: {max_body: 1MiB}\n", BodyMode::FullDuplexStreamed, |_| ()).await;
    let (first, second) = (br#"{"model":"m","x":""#, br#"","model":"other"}"#);
    let filler = vec![b'x'; 3 * MIB];
    let length = first.len() + filler.len() + second.len();
    let (id, mut sending) = ok(town.envoy.begin(post("").header("x-tenant-id", "strict"), Some(length)).await);
    sending.write(first).await;
    begins(&town, "a").await;
    sending.write(&filler).await;
    sending.write(second).await;
    let response = ok(sending.response().await);

    assert_eq!((response.status, response.header("x-cascade-reason")), (400, Some("duplicate_key")));
    let trail = ok(town.envoy.trail(&id).await);
    assert_eq!(trail.decision["reason"], "duplicate_key");
    assert!(trail.attempts.iter().all(|attempt| attempt.code != 200), "{trail}");
    // The provider saw a request that broke off.
    let broken = || async { town.provider("a").seen().pop().filter(|seen| seen.body.is_empty()) };
    ok(eventually("the end of the attempt", LIMIT, broken).await);
}

/// A provider that answers a head at once, and ends its answer when it has the body's end.
async fn eager(end: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        for (awaited, said) in [
            (b"\r\n\r\n".as_slice(), b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nearly\r\n".as_slice()),
            (end, b"4\r\nlate\r\n0\r\n\r\n"),
        ] {
            while !seen.windows(awaited.len()).any(|bytes| bytes == awaited) {
                if connection.read_buf(&mut seen).await.is_ok_and(|read| read > 0) {
                    continue;
                }
                return;
            }
            connection.write_all(said).await.unwrap();
        }
    });
    address
}

/// A second model that comes when the client has the head of the response: what it gets, and how often it was refused.
async fn named_again_while_the_answer_flows(shows_responses: bool) -> (cascade::lab::Result<Response>, f64) {
    let (first, second) = (br#"{"model":"m","messages":[],"#, br#""model":"other"}"#);
    let address = eager(second).await;
    let town = town("", BodyMode::FullDuplexStreamed, |setup| {
        setup.shows_responses = shows_responses;
        setup.clusters.retain(|cluster| cluster.name != "a");
        setup.clusters.push(Cluster::new("a", address));
    })
    .await;
    let (_, mut sending) = ok(town.envoy.begin(chat(), Some(first.len() + second.len())).await);
    sending.write(first).await;
    ok(town.envoy.stat_reaches("http.ingress.downstream_rq_2xx", 1).await);
    sending.write(second).await;
    let response = sending.response().await;
    let refused = town.metric(r#"cascade_requests_total{outcome="reject",reason="duplicate_key"}"#).await;
    (response, refused.unwrap_or_default())
}

#[tokio::test]
async fn a_second_model_after_the_response_has_started_changes_nothing_where_cascade_sees_responses() {
    let (response, refused) = named_again_while_the_answer_flows(true).await;
    let response = ok(response);
    assert_eq!((response.status, response.text().as_str(), refused), (200, "earlylate", 0.0));
}

#[tokio::test]
async fn a_second_model_after_the_response_has_started_ends_it_where_envoy_alone_sees_responses() {
    let (response, refused) = named_again_while_the_answer_flows(false).await;
    let cut = response.unwrap_err().0;
    assert!(cut.contains("HTTP/1.1 200 OK") && cut.contains("early") && !cut.contains("late\\r"), "{cut}");
    assert_eq!(refused, 1.0);
}

/// Bytes that are nobody's text, of any length.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[tokio::test]
async fn a_model_behind_a_large_file_is_found_and_the_upload_arrives_as_it_was() {
    let part = |disposition: &str| format!("--up-load\r\ncontent-disposition: form-data; {disposition}\r\n\r\n");
    let mut body = part("name=\"file\"; filename=\"model\"").into_bytes();
    body.extend_from_slice(&noise(5 * MIB));
    body.extend_from_slice(format!("\r\n{}m\r\n--up-load--\r\n", part("name=\"model\"")).as_bytes());
    for mode in MODES {
        let town = town("", mode, |_| ()).await;
        for path in ["/v1/audio/transcriptions", "/team-a/v1/images/edits", "/elsewhere"] {
            let mut request = Request { body: body.clone(), ..Request::get(path) };
            request.method = "POST".to_owned();
            let (status, trail) = town.send(request.header("content-type", "multipart/form-data; boundary=up-load")).await;
            assert_eq!((status, trail.to_string().as_str()), (200, "a(200)"), "{path} in {mode}");
            assert!(town.provider("a").seen().pop().unwrap().body == body, "{path} in {mode} arrived changed");
        }
    }
}

/// What comes out may be 200 times what went in; a kilobyte for a megabyte is more.
#[tokio::test]
async fn a_body_that_unpacks_to_too_much_is_not_read_to_its_end_and_arrives_as_it_was() {
    let bomb = |bytes: usize| zstd::stream::encode_all(with_the_model_at_the_end(bytes).as_slice(), 3).unwrap();
    for mode in MODES {
        let town = town("limits: {max_decompressed: 4MiB}\n", mode, |_| ()).await;
        for body in [bomb(3 * MIB), bomb(5 * MIB), [noise(MIB), noise(10)].concat()] {
            let request = post(body.clone()).header("content-encoding", "zstd");
            let (_, trail) = town.send(request.clone()).await;
            let reason = trail.decision["reason"].as_str().unwrap();
            assert_eq!(trail.to_string(), "fixed(200)", "{reason} in {mode}");
            assert!(["body_too_large", "malformed_body"].contains(&reason), "{reason}");
            assert!(town.provider("fixed").seen().pop().unwrap().body == body, "{reason} in {mode} arrived changed");
            let (response, _) = ok(town.envoy.send(request.header("x-tenant-id", "strict")).await);
            assert_eq!(response.header("x-cascade-reason"), Some(reason), "{mode}");
        }
    }
}
