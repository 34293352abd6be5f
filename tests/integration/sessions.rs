//! Requests of sessions while their directory is slow, silent, failing or mad: every one of them gets its decision, in time, and
//! nothing is left behind.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::{Barrier, Semaphore, oneshot};

use crate::catalog::Home;
use crate::grpc::{self, Stream, decision};
use crate::process::{Cascade, LIMIT, eventually};

const STREAMS: usize = 5000;
/// Below `server.max_concurrent_streams`.
const PER_CONNECTION: usize = 1000;
/// A slow directory is this many questions behind. Cascade asks up to 256 at once, so that it is never at a standstill.
const BEHIND: usize = 200;

/// For tests where the directory's answer counts, however busy the machine is.
const PATIENT: [(&str, &str); 2] = [("SESSION__TIMEOUT", "20s"), ("LIMITS__DECISION_DEADLINE", "20s")];

#[derive(Clone, Copy)]
enum Mood {
    /// Each answer waits until [`BEHIND`] more questions have come.
    Slow,
    /// No answer without a permit.
    Silent,
    Failing,
    Mad,
}

/// A directory that knows every session, in a mood.
struct Town {
    url: String,
    desk: Arc<Mutex<Desk>>,
    /// The permits of a silent one.
    speak: Arc<Semaphore>,
}

impl Town {
    fn asked(&self) -> usize {
        self.desk.lock().unwrap().asked
    }
}

/// How many have asked, and who of them has to wait if the directory is slow.
#[derive(Default)]
struct Desk {
    asked: usize,
    line: VecDeque<oneshot::Sender<()>>,
}

impl Desk {
    /// A question, and the turn to answer it.
    fn ask(&mut self) -> oneshot::Receiver<()> {
        let (comes, turn) = oneshot::channel();
        self.asked += 1;
        self.line.push_back(comes);
        // Nobody comes after the last one of a crowd.
        let behind = if self.asked < STREAMS { BEHIND } else { 0 };
        while self.line.len() > behind {
            let _ = self.line.pop_front().unwrap().send(());
        }
        turn
    }
}

async fn directory(mood: Mood) -> Town {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/{{tenant}}/{{model}}/{{session}}", listener.local_addr().unwrap());
    let (desk, speak) = (Arc::<Mutex<Desk>>::default(), Arc::new(Semaphore::new(0)));
    let (questions, permits) = (desk.clone(), speak.clone());
    let router = Router::new().fallback(move || answer(mood, questions.lock().unwrap().ask(), permits.clone()));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Town { url, desk, speak }
}

async fn answer(mood: Mood, turn: oneshot::Receiver<()>, speak: Arc<Semaphore>) -> Response {
    const PLACEMENT: &str = r#"{"selected_backend":"backup"}"#;
    match mood {
        Mood::Slow => {
            turn.await.unwrap();
            PLACEMENT.into_response()
        }
        Mood::Silent => {
            let _ = speak.acquire().await;
            PLACEMENT.into_response()
        }
        Mood::Failing => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Mood::Mad => "<html>".into_response(),
    }
}

async fn cascade(home: &Home, town: &Town, more: &[(&str, &str)]) -> Cascade {
    let settings = [("SESSION__DIRECTORY", "http"), ("SESSION__URL", &town.url)];
    Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &[&settings[..], more].concat()).await
}

fn body() -> Vec<u8> {
    br#"{"model": "m"}"#.to_vec()
}

/// [`STREAMS`] at once, and how their lookups ended.
async fn crowd(mood: Mood, settings: &[(&str, &str)], results: &[&str]) -> Cascade {
    let (home, town) = (Home::with_catalog("one"), directory(mood).await);
    let cascade = cascade(&home, &town, settings).await;
    let (mut clients, all_are_here) = (tokio::task::JoinSet::new(), Arc::new(Barrier::new(STREAMS + 1)));
    for connection in 0..STREAMS / PER_CONNECTION {
        let channel = grpc::connect(&cascade.listen().await).await;
        for stream in 0..PER_CONNECTION {
            let (channel, session, all_are_here) = (channel.clone(), format!("{connection}-{stream}"), all_are_here.clone());
            clients.spawn(async move {
                let mut stream = Stream::begin(&channel, &[("x-session-id", &session)]).await;
                all_are_here.wait().await;
                stream.send(grpc::whole_body(body())).await;
                decision(&stream.answer().await.unwrap().unwrap())
            });
        }
    }
    eventually("all at once", async || (cascade.metric("cascade_streams_in_flight").await == Some(STREAMS as f64)).then_some(()))
        .await;
    all_are_here.wait().await;
    let start = Instant::now();
    assert!(clients.join_all().await.iter().all(|decision| decision == "override model_chain"));
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    eventually("no stream is left", async || (cascade.metric("cascade_streams_in_flight").await == Some(0.0)).then_some(()))
        .await;
    assert_eq!(cascade.metric("cascade_abandoned_total").await, Some(0.0));
    assert_eq!(cascade.get("/readyz").await.status, 200);
    let mut ended = 0.0;
    for result in results {
        ended += cascade.metric(&format!("cascade_session_lookups_total{{result=\"{result}\"}}")).await.unwrap();
    }
    assert_eq!(ended, STREAMS as f64, "{results:?}");
    cascade
}

#[tokio::test]
async fn five_thousand_streams_before_a_slow_directory() {
    crowd(Mood::Slow, &PATIENT, &["placed"]).await;
}

#[tokio::test]
async fn five_thousand_streams_before_a_silent_directory() {
    let cascade = crowd(Mood::Silent, &[], &["timeout", "deadline"]).await;
    assert_eq!(cascade.get("/healthz").await.json()["sessions"]["state"], "failing");
}

#[tokio::test]
async fn five_thousand_streams_before_a_failing_directory() {
    crowd(Mood::Failing, &PATIENT, &["refused"]).await;
}

#[tokio::test]
async fn five_thousand_streams_before_a_mad_directory() {
    crowd(Mood::Mad, &PATIENT, &["garbage"]).await;
}

#[tokio::test]
async fn the_lookup_starts_at_the_headers_if_they_make_the_key() {
    let home = Home::with_catalog("one");
    for (key, asked_at_head) in [("/{session}", 1), ("/{model}/{session}", 0)] {
        let mut town = directory(Mood::Silent).await;
        town.url = town.url.replace("/{tenant}/{model}/{session}", key);
        let cascade = cascade(&home, &town, &[("SESSION__TIMEOUT", "20s")]).await;
        let channel = grpc::connect(&cascade.listen().await).await;
        let mut stream = Stream::begin(&channel, &[("x-session-id", "s")]).await;
        let is_asked = async |times| {
            eventually("the question", async || (town.asked() == times).then_some(())).await;
        };
        is_asked(asked_at_head).await;
        stream.send(grpc::whole_body(body())).await;
        is_asked(1).await;
        assert_eq!(decision(&stream.answer().await.unwrap().unwrap()), "override model_chain");
    }
}

#[tokio::test]
async fn a_late_answer_fills_the_cache_though_its_stream_is_gone() {
    let (home, town) = (Home::with_catalog("one"), directory(Mood::Silent).await);
    let cascade = cascade(&home, &town, &PATIENT).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let headers = [("x-session-id", "s")];
    let (mut gone, mut stays) = (Stream::begin(&channel, &headers).await, Stream::begin(&channel, &headers).await);
    for stream in [&mut gone, &mut stays] {
        stream.send(grpc::whole_body(body())).await;
    }
    eventually("the directory is asked", async || (town.asked() == 1).then_some(())).await;
    drop(gone);
    eventually("one stream", async || (cascade.metric("cascade_streams_in_flight").await == Some(1.0)).then_some(())).await;
    town.speak.add_permits(1);
    assert_eq!(decision(&stays.answer().await.unwrap().unwrap()), "override model_chain");
    let mut next = Stream::open(&channel).await.unwrap();
    next.buffered(&headers, body()).await;
    assert_eq!(town.asked(), 1);
    assert_eq!(cascade.metric("cascade_session_lookups_total{result=\"placed\"}").await, Some(2.0));
}

#[tokio::test]
async fn the_deadline_ends_the_wait_and_the_late_answer_fills_the_cache() {
    let (home, town) = (Home::with_catalog("one"), directory(Mood::Silent).await);
    // Nothing but the deadline ends this wait in time.
    let cascade = cascade(&home, &town, &[("SESSION__TIMEOUT", "1m"), ("LIMITS__DECISION_DEADLINE", "50ms")]).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let ask = async || {
        let [_, answer] = Stream::open(&channel).await.unwrap().buffered(&[("x-session-id", "s")], body()).await;
        assert_eq!(decision(&answer), "override model_chain");
    };
    let lookups = async |result| cascade.metric(&format!("cascade_session_lookups_total{{result=\"{result}\"}}")).await;
    ask().await;
    assert_eq!(lookups("deadline").await, Some(1.0));
    town.speak.add_permits(1);
    let remembered = async || cascade.metric("cascade_session_cache_entries").await == Some(1.0);
    eventually("the late answer", async || remembered().await.then_some(())).await;
    assert_eq!(cascade.get("/healthz").await.json()["sessions"]["cached"], 1);
    ask().await;
    assert_eq!((lookups("placed").await, town.asked()), (Some(1.0), 1));
    assert_eq!(cascade.metric("cascade_session_lookup_seconds_count").await, Some(1.0));
    assert!(cascade.metric("cascade_session_lookup_seconds_sum").await >= Some(0.05), "the whole time that it took");
}

#[tokio::test]
async fn replicas_with_one_secret_file_stick_alike() {
    let home = Home::new();
    home.write("secret", "a-key-that-all-replicas-share\n");
    home.write(
        "catalog.yaml",
        "version: 1\npriority_groups: {g: {clusters: [{cluster_name: a, weight: 1}, {cluster_name: b, weight: 1}]}}\nmodels: {m: {chain: [g]}}\n",
    );
    let secret = home.text("secret");
    let settings = [("SESSION__STICKY", "true"), ("SECRET_FILE", secret.as_str())];
    let arguments = ["--catalog", &home.text("catalog.yaml")];
    let replicas = [Cascade::ready(&arguments, &settings).await, Cascade::ready(&arguments, &settings).await];
    let mut chosen = std::collections::BTreeSet::new();
    for session in 0..50 {
        let question = format!(r#"{{"model": "m", "session": "s{session}"}}"#);
        let mut choices = Vec::new();
        for replica in &replicas {
            let told = crate::http::post(&replica.admin().await, "/explain", &question).await.json();
            assert_eq!(told["chain"][0]["clusters"].as_array().unwrap().len(), 1, "{told}");
            choices.push(told["chain"][0]["clusters"][0]["cluster_name"].to_string());
        }
        assert_eq!(choices[0], choices[1], "{session}");
        chosen.extend(choices);
    }
    assert_eq!(chosen.len(), 2, "both clusters have sessions");
}

#[tokio::test]
async fn the_sticky_header_is_the_sessions_own_number_and_never_the_clients() {
    use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response::RequestBody;
    let home = Home::with_catalog("one");
    let settings = [("PUBLISH__STICKY_HEADER", "x-pick")];
    let cascade = Cascade::ready(&["--catalog", &home.text("catalog.yaml")], &settings).await;
    let channel = grpc::connect(&cascade.listen().await).await;
    let pick = async |headers: &[(&str, &str)]| {
        let [_, answer] = Stream::open(&channel).await.unwrap().buffered(headers, body()).await;
        let Some(RequestBody(answer)) = answer.response else { panic!("{answer:?}") };
        let mutation = answer.response.unwrap().header_mutation.unwrap();
        let set = mutation.set_headers.iter().filter_map(|option| option.header.as_ref()).find(|header| header.key == "x-pick");
        let number = set.map(|header| String::from_utf8(header.raw_value.clone()).unwrap().parse::<u64>().unwrap());
        (number, mutation.remove_headers)
    };
    let first = pick(&[("x-session-id", "s1")]).await;
    assert!(first.0.is_some() && first.1.is_empty());
    assert_eq!(pick(&[("x-session-id", "s1"), ("x-pick", "7")]).await, first);
    assert_ne!(pick(&[("x-session-id", "s2")]).await, first);
    assert_eq!(pick(&[("x-pick", "7")]).await, (None, vec!["x-pick".to_owned()]), "without a session there is none to set");
}
