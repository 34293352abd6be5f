//! Crowds, slowness and silence.

use std::time::Instant;

use futures_util::future::join_all;

use super::*;

/// A directory that counts how many ask it at once.
#[derive(Debug)]
struct Crowd {
    remote: Http,
    /// One reference more than are under way.
    now: Arc<()>,
    most: AtomicUsize,
}

impl Remote for Crowd {
    fn ask(&self, key: &str) -> Asking {
        let seat = Arc::clone(&self.now);
        self.most.fetch_max(Arc::strong_count(&self.now) - 1, Ordering::Relaxed);
        let asked = self.remote.ask(key);
        Box::pin(async move {
            let answer = asked.await;
            drop(seat);
            answer
        })
    }
}

/// A directory that knows a session and holds its answer back, a cache before it, and the session's key.
async fn held() -> (Web, Arc<Cached>, String) {
    let (web, url) = Web::open().await;
    web.tell("/s", 200, r#"{"selected_backend":"b"}"#);
    web.hold();
    let cached = cached(Arc::new(Http::new(PATIENCE).unwrap()), &settings());
    (web, Arc::new(cached), format!("{url}/s"))
}

#[tokio::test]
async fn a_thousand_requests_for_one_cold_session_make_one_lookup() {
    let (web, cached, key) = held().await;
    let waiting: Vec<_> = (0..1000).map(|_| cached.look_up(None, &key)).collect();
    web.is_asked(1).await;
    web.release();
    let answers = join_all(waiting.into_iter().map(Lookup::answer)).await;
    assert!(answers.iter().all(|answer| matches!(answer, Answer::Placed(_))));
    assert!(matches!(cached.look_up(None, &key), Lookup::Ready(Answer::Placed(_))));
    assert_eq!(web.asked(), 1);
}

#[tokio::test]
async fn threads_with_runtimes_of_their_own_share_one_lookup() {
    let (web, cached, key) = held().await;
    let worker = |_| {
        let (cached, key) = (Arc::clone(&cached), key.clone());
        tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { join_all((0..100).map(|_| cached.look_up(None, &key).answer())).await })
        })
    };
    let workers: Vec<_> = (0..4).map(worker).collect();
    web.is_asked(1).await;
    web.release();
    for answers in join_all(workers).await {
        assert!(answers.unwrap().iter().all(|answer| matches!(answer, Answer::Placed(_))));
    }
    assert_eq!(web.asked(), 1);
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_any_more_still_fills_the_cache() {
    let (web, cached, key) = held().await;
    drop(cached.look_up(None, &key));
    web.is_asked(1).await;
    web.release();
    until("the late answer is remembered", async || matches!(cached.look_up(None, &key), Lookup::Ready(Answer::Placed(_)))).await;
    assert_eq!(web.asked(), 1);
}

#[tokio::test]
async fn a_directory_that_hangs_holds_nobody_longer_than_its_timeout_and_leaves_nothing() {
    let (web, url) = Web::open().await;
    web.hold();
    let timeout = Duration::from_millis(100);
    let crowd = Arc::new(Crowd { remote: Http::new(PATIENCE).unwrap(), now: Arc::default(), most: AtomicUsize::new(0) });
    let cached = cached(crowd.clone(), &Session { timeout, ..settings() });
    let start = Instant::now();
    let keys: Vec<String> = (0..5000).map(|session| format!("{url}/{session}")).collect();
    let answers = join_all(keys.iter().map(|key| cached.look_up(None, key).answer())).await;
    assert!(answers.iter().all(|answer| *answer == Answer::Unavailable(Fault::Timeout)));
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    let most = crowd.most.load(Ordering::Relaxed);
    assert!(most <= 256, "{most} sockets at once for one tenant");
    assert_eq!((cached.trouble(), cached.flights.under_way()), ((5000, Some(Fault::Timeout)), 0));
    // And it is asked again, since nothing of this was remembered.
    web.release();
    web.tell("/1", 200, r#"{"selected_backend":"b"}"#);
    until("it answers again", async || matches!(cached.look_up(None, &keys[1]).answer().await, Answer::Placed(_))).await;
    assert_eq!(cached.trouble(), (0, Some(Fault::Timeout)));
}

#[tokio::test]
async fn a_tenant_that_asks_for_thousands_keeps_no_other_one_waiting() {
    let (web, url) = Web::open().await;
    web.hold();
    web.tell("/mine", 200, r#"{"selected_backend":"b"}"#);
    let cached = cached(Arc::new(Http::new(PATIENCE).unwrap()), &settings());
    let crowd: Vec<_> = (0..20_000).map(|session| cached.look_up(Some("crowd"), &format!("{url}/{session}"))).collect();
    web.is_asked(256).await;
    let mine = cached.look_up(Some("other"), &format!("{url}/mine"));
    web.is_asked(257).await;
    let answers = join_all(crowd.into_iter().take(20_000).rev().take(1000).map(Lookup::answer)).await;
    assert!(
        answers.iter().all(|answer| *answer == Answer::Unavailable(Fault::Busy)),
        "those over what can wait are told at once"
    );
    assert_eq!(cached.trouble(), (0, None), "which is no fault of the directory");
    web.release();
    assert!(matches!(mine.answer().await, Answer::Placed(_)));
}

#[test]
fn a_tenants_random_sessions_displace_nobody_elses() {
    let memory = Memory::new(1000, PATIENCE, PATIENCE);
    (0..200).for_each(|session| memory.put(Some("other"), &format!("mine {session}"), &Answer::Unknown));
    (0..50_000).for_each(|session| memory.put(Some("crowd"), &format!("{session}"), &Answer::Unknown));
    assert!((0..200).all(|session| memory.get(&format!("mine {session}")).is_some()));
    assert_eq!(memory.len(), 1000);
}

#[tokio::test]
async fn nobody_at_the_address_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let http = Http::new(PATIENCE).unwrap();
    assert_eq!(http.look_up(None, &format!("http://{address}/s")).answer().await, Answer::Unavailable(Fault::Unreachable));
    let redis = Redis::new(&format!("redis://{address}"), Duration::from_secs(2), PATIENCE).unwrap();
    assert_eq!(redis.look_up(None, "s").answer().await, Answer::Unavailable(Fault::Unreachable));
}

#[tokio::test]
async fn each_answer_holds_for_its_own_time() {
    let memory = Memory::new(100, PATIENCE, Duration::from_millis(20));
    memory.put(None, "short", &crate::session::parse(br#"{"selected_backend":"b","ttl_seconds":0}"#));
    memory.put(None, "long", &crate::session::parse(br#"{"selected_backend":"b"}"#));
    memory.put(None, "unknown", &Answer::Unknown);
    until("what is unknown is asked again soon", async || memory.get("unknown").is_none()).await;
    assert_eq!(memory.get("short"), None);
    assert!(matches!(memory.get("long"), Some(Answer::Placed(_))));
}

#[tokio::test]
async fn the_settings_make_the_directory() {
    let metrics = Arc::new(Metrics::new());
    assert!(Sessions::open(&settings(), &metrics).unwrap().is_none());
    let (web, url) = Web::open().await;
    web.tell("/t/m/s", 500, "");
    let template = Template::parse(&format!("{url}/{{tenant}}/{{model}}/{{session}}")).unwrap();
    let key = template.fill(Some("t"), Some("m"), "s").unwrap();
    let settings = Session { directory: settings::Directory::Http(template), ..settings() };
    let sessions = Sessions::open(&settings, &metrics).unwrap().unwrap();
    assert_eq!(sessions.status()["state"], "ok");
    assert_eq!(sessions.look_up(None, &key).answer().await, Answer::Unavailable(Fault::Refused));
    let status = sessions.status();
    assert_eq!(
        (&status["directory"], &status["state"], &status["last_error"]),
        (&json!("http"), &json!("failing"), &json!("refused"))
    );
}

/// The address of a server that answers everything like this.
async fn answering(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(move || std::future::ready(answer()));
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}/s")
}

#[tokio::test]
async fn an_answer_over_the_limit_is_not_read_to_its_end() {
    use axum::body::{Body, Bytes};
    use futures_util::stream;
    // A little more than is read, and then nothing: whoever waits for the rest hears of no garbage, but of a timeout.
    let chunks = || stream::iter(std::iter::repeat_n(Ok::<_, std::convert::Infallible>(Bytes::from_static(&[b' '; 4096])), 17));
    let url = answering(move || Body::from_stream(stream::StreamExt::chain(chunks(), stream::pending())).into_response()).await;
    let http = Http::new(PATIENCE).unwrap();
    assert_eq!(http.look_up(None, &url).answer().await, Answer::Unavailable(Fault::Garbage));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (web, url) = Web::open().await;
    web.tell("/s", 200, r#"{"selected_backend":"b"}"#);
    let elsewhere = format!("{url}/s");
    let moved = answering(move || (StatusCode::FOUND, [("location", elsewhere.clone())]).into_response()).await;
    let http = Http::new(PATIENCE).unwrap();
    assert_eq!(http.look_up(None, &moved).answer().await, Answer::Unavailable(Fault::Refused));
    assert_eq!(web.asked(), 0);
}

#[tokio::test]
async fn that_nobody_knows_a_session_is_remembered_for_a_while() {
    let (web, url) = Web::open().await;
    let http = Arc::new(Http::new(PATIENCE).unwrap());
    let patient = cached(http.clone(), &Session { negative_ttl: PATIENCE, ..settings() });
    for _ in 0..3 {
        assert_eq!(patient.look_up(None, &url).answer().await, Answer::Unknown);
    }
    assert_eq!(web.asked(), 1);
    let hasty = cached(http, &Session { negative_ttl: Duration::from_millis(20), ..settings() });
    until("it is asked for again", async || {
        hasty.look_up(None, &url).answer().await;
        web.asked() == 3
    })
    .await;
}

#[test]
fn no_more_is_remembered_than_there_is_room_for() {
    for capacity in [1, 100, 1000] {
        let memory = Memory::new(capacity, PATIENCE, PATIENCE);
        (0..10_000).for_each(|session| memory.put(None, &format!("s{session}"), &Answer::Unknown));
        assert!((1..=capacity).contains(&memory.len()), "{} of {capacity}", memory.len());
    }
}
