//! What served a session, remembered: in memory, in Redis beside other people's words, and beside a directory over HTTP.

use super::*;
use crate::directory::learning::{Verdict, judge};
use crate::session::{Placement, parse};

const TTL: Duration = Duration::from_secs(1000);

pub(super) fn at(cluster: &str) -> Served {
    let names = vec![format!("group of {cluster}"), cluster.to_owned()];
    Served { tenant: None, cluster: cluster.to_owned(), endpoint: Some("10.0.0.1:80".to_owned()), names }
}

/// `session.learn` with this directory.
fn open(directory: settings::Directory, ttl: Duration) -> Sessions {
    let settings = Session { directory, learn: true, ttl, negative_ttl: PATIENCE, ..settings() };
    Sessions::open(&settings, &Arc::new(Metrics::new())).unwrap().unwrap()
}

fn template(text: &str) -> Template {
    Template::parse(text).unwrap()
}

fn in_redis(server: &RedisServer, ttl: Duration) -> Sessions {
    in_redis_at(&server.url(), ttl)
}

pub(super) fn in_redis_at(url: &str, ttl: Duration) -> Sessions {
    open(settings::Directory::Redis { url: url.to_owned(), key: template("{session}") }, ttl)
}

/// Nothing is being written.
pub(super) fn is_idle(sessions: &Sessions) -> bool {
    sessions.learning.as_ref().unwrap().is_idle()
}

fn in_memory(ttl: Duration) -> Sessions {
    open(settings::Directory::Memory(template("{session}")), ttl)
}

/// Where the session lives now, and the endpoint there.
async fn home(sessions: &Sessions, key: &str) -> Option<String> {
    let placement = match sessions.look_up(None, key).answer().await {
        Answer::Placed(placement) => Some(placement),
        _ => sessions.learned(key),
    };
    Some(placement?.backend.as_deref().unwrap_or_default().to_owned())
}

#[test]
fn only_news_is_learned_and_somebody_elses_word_stays_while_it_is_of_the_same_cluster() {
    let foreign = |text: &str| parse(text.as_bytes());
    let learned = |cluster: &str| Answer::Placed(Arc::new(Placement::learned(cluster, None, TTL)));
    let learned_at = |cluster: &str, at: &str| Answer::Placed(Arc::new(Placement::learned(cluster, Some(at), TTL)));
    for (known, left, verdict) in [
        (Answer::Unknown, TTL, Verdict::Learn),
        (learned("a"), TTL, Verdict::Keep),
        (learned("a"), TTL / 2, Verdict::Renew),
        (learned("b"), TTL, Verdict::Move),
        // Another address of the cluster, and the same one.
        (learned_at("a", "10.0.0.2:80"), TTL, Verdict::Keep),
        (learned_at("a", "10.0.0.2:80"), TTL - Duration::from_secs(9), Verdict::Keep),
        (learned_at("a", "10.0.0.2:80"), TTL - Duration::from_secs(10), Verdict::Readdress),
        (learned_at("a", "10.0.0.1:80"), TTL - Duration::from_secs(10), Verdict::Keep),
        (learned("a"), TTL - Duration::from_secs(10), Verdict::Readdress),
        // What is learned is a cluster, whatever groups are called.
        (learned("group of a"), TTL, Verdict::Move),
        (foreign(r#"{"selected_backend":"a","selected_endpoint":"10.0.0.2:80"}"#), Duration::ZERO, Verdict::Keep),
        (foreign(r#"{"selected_backend":"group of a","endpoint_metadata":{"p":"1"}}"#), TTL, Verdict::Keep),
        (foreign(r#"{"selected_backend":"b"}"#), TTL, Verdict::Move),
        // It speaks of no cluster, so that it does not speak of another one.
        (foreign(r#"{"endpoint_metadata":{"p":"1"}}"#), TTL, Verdict::Keep),
    ] {
        assert_eq!(judge(&known, left, &at("a"), TTL), verdict, "{known:?} for {left:?}");
    }
}

#[tokio::test]
async fn a_session_lives_where_it_was_served_last_until_its_time_is_over() {
    let sessions = in_memory(Duration::from_millis(300));
    assert_eq!(home(&sessions, "s").await, None);
    sessions.learn("s", at("a"));
    assert!(sessions.knows("s", "a", None) && !sessions.knows("s", "b", None) && !sessions.knows("other", "a", None));
    assert_eq!(home(&sessions, "s").await.as_deref(), Some("a"));
    sessions.learn("s", at("b"));
    assert_eq!(home(&sessions, "s").await.as_deref(), Some("b"));
    until("half the time is over", async || !sessions.knows("s", "b", None)).await;
    sessions.learn("s", at("b"));
    assert!(sessions.knows("s", "b", None), "a session that goes on stays");
    until("its time is over", async || home(&sessions, "s").await.is_none()).await;
}

#[tokio::test]
async fn what_is_not_to_be_learned_is_not() {
    let settings = Session { directory: settings::Directory::Memory(template("{session}")), ..settings() };
    let sessions = Sessions::open(&settings, &Arc::new(Metrics::new())).unwrap().unwrap();
    assert!(!sessions.learns() && sessions.knows("s", "a", None));
    sessions.learn("s", at("a"));
    assert_eq!(home(&sessions, "s").await, None);
}

#[tokio::test]
async fn replicas_share_what_they_learn_through_redis() {
    let server = RedisServer::start().await.unwrap();
    let (one, other) = (in_redis(&server, TTL), in_redis(&server, TTL));
    assert_eq!(home(&one, "s").await, None);
    one.learn("s", at("a"));
    assert_eq!(home(&one, "s").await.as_deref(), Some("a"), "at once, though it was unknown a moment ago");
    until("it is written", async || server.ask(&["EXISTS", "s"]).await.unwrap()).await;
    let value: String = server.ask(&["GET", "s"]).await.unwrap();
    assert_eq!(value, r#"{"selected_backend":"a","selected_endpoint":"10.0.0.1:80","learned":true}"#);
    let left: u64 = server.ask(&["PTTL", "s"]).await.unwrap();
    assert!((1..=1_000_000).contains(&left), "{left}");
    assert_eq!(home(&other, "s").await.as_deref(), Some("a"));
    assert!(other.knows("s", "a", None), "and need not write it again");
    // The other one sees it served elsewhere.
    other.learn("s", at("b"));
    until("it has moved", async || server.ask::<String>(&["GET", "s"]).await.unwrap().contains(r#""selected_backend":"b""#))
        .await;
}

#[tokio::test]
async fn what_served_a_session_last_counts_however_fast_it_moves() {
    let server = RedisServer::start().await.unwrap();
    let sessions = in_redis(&server, TTL);
    let keys: Vec<String> = (0..50).map(|session| format!("s{session}")).collect();
    for key in &keys {
        ["a", "b", "a", "c"].into_iter().for_each(|cluster| sessions.learn(key, at(cluster)));
    }
    until("all are written", async || sessions.learning.as_ref().unwrap().is_idle()).await;
    for key in &keys {
        let value: String = server.ask(&["GET", key]).await.unwrap();
        assert!(value.contains(r#""selected_backend":"c""#), "{key}: {value}");
        assert_eq!(home(&sessions, key).await.as_deref(), Some("c"));
    }
}

#[tokio::test]
async fn a_session_that_goes_on_is_written_once_in_a_while() {
    let server = RedisServer::start().await.unwrap();
    let sessions = in_redis(&server, TTL);
    for _ in 0..1000 {
        if !sessions.knows("s", "a", None) {
            sessions.learn("s", at("a"));
        }
    }
    until("it is written", async || server.ask(&["EXISTS", "s"]).await.unwrap()).await;
    let stats: String = server.ask(&["INFO", "commandstats"]).await.unwrap();
    assert!(stats.contains("cmdstat_set:calls=1,"), "{stats}");
}

#[tokio::test]
async fn somebody_elses_word_in_redis_stays_and_is_taken_over() {
    let server = RedisServer::start().await.unwrap();
    let (metrics, directory) =
        (Arc::new(Metrics::new()), settings::Directory::Redis { url: server.url(), key: template("{session}") });
    let settings = Session { directory, learn: true, ttl: TTL, ..settings() };
    let sessions = Sessions::open(&settings, &metrics).unwrap().unwrap();
    server.ask::<()>(&["RPUSH", "list", "mine, too"]).await.unwrap();
    sessions.learn("list", at("a"));
    let word = r#"{"selected_backend":"group of a","selected_endpoint":"10.0.0.9:1","endpoint_metadata":{"p":"1"}}"#;
    for (key, value) in
        [("kept", word), ("elsewhere", r#"{"selected_backend":"b"}"#), ("garbage", "mine, not yours"), ("empty", "{}")]
    {
        server.ask::<()>(&["SET", key, value]).await.unwrap();
        sessions.learn(key, at("a"));
    }
    until("all are written", async || sessions.learning.as_ref().unwrap().is_idle()).await;
    let get = async |key: &str| server.ask::<String>(&["GET", key]).await.unwrap();
    assert_eq!((get("kept").await.as_str(), get("garbage").await.as_str()), (word, "mine, not yours"));
    assert_eq!(server.ask::<String>(&["LINDEX", "list", "0"]).await.unwrap(), "mine, too");
    let (page, _) = metrics.text(false);
    for (result, times) in [("learned", 2), ("kept", 1), ("left_alone", 2), ("failed", 0)] {
        let line = format!("cascade_session_learned_total{{result=\"{result}\"}} {times}\n");
        assert!(page.contains(&line), "{line}{page}");
    }
    assert!(get("elsewhere").await.contains("learned") && get("empty").await.contains("learned"));
    assert_eq!(sessions.look_up(None, "kept").answer().await, parse(word.as_bytes()), "we remember theirs");
    assert_eq!(sessions.status()["learned"]["failures_since"], 0, "the last write went well");
}

#[tokio::test]
async fn a_replica_with_an_old_copy_takes_over_where_the_session_has_moved_to() {
    let server = RedisServer::start().await.unwrap();
    let ttl = Duration::from_secs(6);
    let (here, there) = (in_redis(&server, ttl), in_redis(&server, ttl));
    here.learn("s", at("a"));
    until("it is written", async || server.ask::<bool>(&["EXISTS", "s"]).await.unwrap()).await;
    assert_eq!(home(&there, "s").await.as_deref(), Some("a"));
    here.learn("s", at("b"));
    until("it has moved", async || is_idle(&here)).await;
    // The other one still goes by its copy, and is served where that says.
    until("half the copy's time is over", async || !there.knows("s", "a", None)).await;
    there.learn("s", at("a"));
    until("it has looked", async || is_idle(&there)).await;
    assert_eq!((home(&here, "s").await.as_deref(), home(&there, "s").await.as_deref()), (Some("b"), Some("b")));
    // A move that the other one has seen itself counts.
    there.learn("s", at("c"));
    until("it has moved on", async || is_idle(&there)).await;
    assert!(server.ask::<String>(&["GET", "s"]).await.unwrap().contains(r#""selected_backend":"c""#));
}

#[tokio::test]
async fn a_word_that_is_not_to_be_remembered_is_asked_for_each_time() {
    let server = RedisServer::start().await.unwrap();
    let sessions = in_redis(&server, TTL);
    server.ask::<()>(&["SET", "s", r#"{"selected_backend":"group of a","ttl_seconds":0}"#]).await.unwrap();
    assert_eq!(home(&sessions, "s").await.as_deref(), Some("group of a"));
    sessions.learn("s", at("a"));
    until("it has looked", async || sessions.learning.as_ref().unwrap().is_idle()).await;
    assert_eq!(home(&sessions, "s").await.as_deref(), Some("group of a"));
}

#[tokio::test]
async fn an_answer_is_not_remembered_longer_than_redis_keeps_it() {
    let server = RedisServer::start().await.unwrap();
    server.ask::<()>(&["SET", "s", r#"{"selected_backend":"a"}"#, "PX", "300"]).await.unwrap();
    let sessions = in_redis(&server, TTL);
    assert_eq!(home(&sessions, "s").await.as_deref(), Some("a"));
    until("it is over", async || home(&sessions, "s").await.is_none()).await;
}

#[tokio::test]
async fn redis_that_is_away_costs_the_other_replicas_and_nobody_else() {
    let mut server = RedisServer::start().await.unwrap();
    let sessions = in_redis(&server, TTL);
    server.stop();
    for session in 0..2000 {
        sessions.learn(&format!("s{session}"), at("a"));
    }
    assert!(sessions.learning.as_ref().unwrap().writing() <= 256);
    assert_eq!(home(&sessions, "s1999").await.as_deref(), Some("a"));
    until("they are given up", async || sessions.learning.as_ref().unwrap().is_idle()).await;
    assert!(sessions.status()["learned"]["failures_since"].as_u64().unwrap() > 0);
    server.run().await.unwrap();
    until("a write succeeds", async || {
        sessions.learn(&format!("{:?}", std::time::Instant::now()), at("a"));
        sessions.status()["learned"]["failures_since"] == 0
    })
    .await;
}

#[tokio::test]
async fn a_lookup_that_lands_late_does_not_undo_what_was_learned_meanwhile() {
    let (web, url) = Web::open().await;
    web.hold();
    let (key, settings) = (format!("{url}/s"), Session { ttl: TTL, ..settings() });
    let memory = memory(&settings);
    let cached = Cached::new(Arc::new(Http::new(PATIENCE).unwrap()), Arc::clone(&memory), &settings, Arc::new(Metrics::new()));
    let waiting = [cached.look_up(None, &key), cached.look_up(None, &key)];
    web.is_asked(1).await;
    Learning::new(memory, TTL, Arc::new(Metrics::new())).learn(&key, at("a"));
    assert!(matches!(cached.look_up(None, &key), Lookup::Ready(Answer::Placed(_))), "at once");
    web.release();
    for answer in futures_util::future::join_all(waiting.map(Lookup::answer)).await {
        assert!(matches!(answer, Answer::Placed(_)), "those who waited hear the news too: {answer:?}");
    }
    assert!(matches!(cached.look_up(None, &key), Lookup::Ready(Answer::Placed(_))));
    assert_eq!(web.asked(), 1);
}

#[tokio::test]
async fn a_directory_over_http_has_the_first_word_and_what_was_learned_the_second() {
    let (web, url) = Web::open().await;
    web.tell("/said", 200, r#"{"selected_backend":"b"}"#);
    web.tell("/broken", 500, "");
    let sessions = open(settings::Directory::Http(template(&format!("{url}/{{session}}"))), TTL);
    for (session, expected) in [("said", Some("b")), ("unknown", Some("a")), ("broken", Some("a")), ("never-served", None)] {
        let key = format!("{url}/{session}");
        if session != "never-served" {
            sessions.learn(&key, at("a"));
        }
        assert_eq!(home(&sessions, &key).await.as_deref(), expected, "{session}");
    }
    assert_eq!(sessions.status()["learned"]["remembered"], 3);
}
