//! What becomes of a request when the processor fails, and when it says no.

use std::time::Duration;

use cascade::lab::config::ProcessorWatch;
use cascade::lab::{BodyMode, DeadPort, Endpoint, EnvoySetup};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Message;

use crate::answer::{Answer, reject};
use crate::gateway::{Gateway, chat, ok, providers};
use crate::processor::{Script, Step, at_body, hold_headers, script};

/// Lets the headers pass and does this upon the body.
fn upon_body(step: impl Fn() -> Vec<Step> + Send + Sync + 'static) -> Script {
    script(move |message| match message {
        Message::RequestHeaders(_) => vec![Answer::empty().to_headers().into()],
        _ => step(),
    })
}

// Fact 25
#[tokio::test]
async fn a_processor_that_closes_fails_or_falls_silent_leaves_the_request_to_the_static_chain() {
    let gateway = providers(&[("fixed", 429), ("spare", 200)]).with(|setup| setup.message_timeout = Duration::from_millis(200));
    let gateway = gateway.start(at_body(Answer::empty())).await;

    for step in [Step::Close, Step::Fail] {
        let at_once = step.clone();
        gateway.send_with(script(move |_| vec![at_once.clone()]), chat()).await.went("fixed(429) spare(200)");
        gateway.send_with(upon_body(move || vec![step.clone()]), chat()).await.went("fixed(429) spare(200)");
    }
    gateway.send_with(script(|_| Vec::new()), chat()).await.went("fixed(429) spare(200)");
    gateway.send_with(upon_body(Vec::new), chat()).await.went("fixed(429) spare(200)");
    assert_eq!(gateway.stat("http.ingress.ext_proc.message_timeouts").await, 2);
}

// Fact 26
#[tokio::test]
async fn an_immediate_response_in_either_phase_is_what_the_client_gets_and_nothing_goes_upstream() {
    let gateway = providers(&[("one", 200)]).start(script(|_| vec![reject(403, "not yours").into()])).await;

    for script in [script(|_| vec![reject(403, "not yours").into()]), upon_body(|| vec![reject(403, "not yours").into()])] {
        let told = gateway.send_with(script, chat()).await;
        told.went("");
        assert_eq!((told.response.status, told.response.text().as_str()), (403, "not yours"));
    }
    assert!(gateway.provider("one").seen().is_empty());
}

/// Twelve requests with a body while the processor refuses connections: the statuses that the clients saw.
async fn without_processor(mode: BodyMode, watch: ProcessorWatch) -> Vec<u16> {
    let dead = DeadPort::reserve().unwrap();
    let nobody = Endpoint::Tcp(dead.address());
    let gateway = providers(&[("fixed", 200)]).with(move |setup: &mut EnvoySetup| {
        setup.processor = nobody;
        setup.body_mode = mode;
        setup.processor_watch = watch;
    });
    let gateway = gateway.start(at_body(Answer::empty())).await;
    if watch == ProcessorWatch::HealthCheck {
        ok(gateway.envoy.stat_reaches("cluster.processor.health_check.failure", 1).await);
    }
    let mut statuses = Vec::new();
    for _ in 0..12 {
        let told = gateway.send(chat()).await;
        told.went(if told.response.status == 200 { "fixed(200)" } else { "" });
        statuses.push(told.response.status);
    }
    statuses
}

// Fact 32
#[tokio::test]
async fn full_duplex_without_a_processor_is_500_in_spite_of_failure_mode_allow() {
    assert_eq!(without_processor(BodyMode::FullDuplexStreamed, ProcessorWatch::Nothing).await, [500; 12]);
}

// Fact 32, the reason behind it: a client whose body comes after the stream has failed is not hurt.
#[tokio::test]
async fn full_duplex_without_a_processor_fails_open_while_no_chunk_has_come() {
    let dead = DeadPort::reserve().unwrap();
    let nobody = Endpoint::Tcp(dead.address());
    let gateway = providers(&[("fixed", 200)]).with(move |setup: &mut EnvoySetup| {
        setup.processor = nobody;
        setup.body_mode = BodyMode::FullDuplexStreamed;
    });
    let gateway = gateway.start(at_body(Answer::empty())).await;
    let body = chat().body;

    let (id, mut sending) = ok(gateway.envoy.begin(chat(), Some(body.len())).await);
    ok(gateway.envoy.stat_reaches("http.ingress.ext_proc.failure_mode_allowed", 1).await);
    sending.write(&body).await;
    let response = ok(sending.response().await);

    gateway.told(&id, response).await.went("fixed(200)");
}

// Fact 32
#[tokio::test]
async fn a_health_check_of_the_processor_lets_full_duplex_fail_open() {
    assert_eq!(without_processor(BodyMode::FullDuplexStreamed, ProcessorWatch::HealthCheck).await, [200; 12]);
}

// Fact 32
#[tokio::test]
async fn outlier_detection_costs_full_duplex_the_first_request_only() {
    let statuses = without_processor(BodyMode::FullDuplexStreamed, ProcessorWatch::OutlierDetection).await;
    assert_eq!((statuses[0], &statuses[1..]), (500, &[200; 11][..]));
}

// Fact 32
#[tokio::test]
async fn buffered_fails_open_by_itself() {
    assert_eq!(without_processor(BodyMode::Buffered, ProcessorWatch::Nothing).await, [200; 12]);
}

const TIMEOUT: Duration = Duration::from_millis(200);

fn impatient(mode: BodyMode) -> impl FnOnce(&mut EnvoySetup) {
    move |setup| {
        setup.body_mode = mode;
        setup.message_timeout = TIMEOUT;
        setup.stopwatch = true;
    }
}

/// Lets the message timeout pass several times over: it would have ended a wait that it is set for.
async fn outlast_the_timeout(gateway: &Gateway) {
    ok(gateway.envoy.let_pass(TIMEOUT * 3).await);
    assert_eq!(gateway.stat("http.ingress.ext_proc.message_timeouts").await, 0);
}

// Fact 39
#[tokio::test]
async fn envoy_waits_for_a_slow_client_beyond_the_message_timeout() {
    let chain = Answer::clusters(&["one", "two"]);
    for (mode, script) in
        [(BodyMode::Buffered, at_body(chain.clone())), (BodyMode::FullDuplexStreamed, hold_headers(chain, usize::MAX))]
    {
        let gateway = providers(&[("fixed", 200), ("one", 429), ("two", 200)]).static_chain(&["fixed"]);
        let gateway = gateway.with(impatient(mode)).start(script).await;
        let body = chat().body;

        let (id, mut sending) = ok(gateway.envoy.begin(chat(), Some(body.len())).await);
        sending.write(&body[..10]).await;
        gateway.hears(1).await;
        outlast_the_timeout(&gateway).await;
        sending.write(&body[10..]).await;
        let response = ok(sending.response().await);

        gateway.told(&id, response).await.went("one(429) two(200)");
    }
}

// Fact 39: so the processor needs a limit of its own.
#[tokio::test]
async fn full_duplex_has_no_message_timeout_while_the_header_answer_is_held() {
    let gateway = providers(&[("fixed", 200)]).with(impatient(BodyMode::FullDuplexStreamed));
    let gateway = gateway.start(script(|_| Vec::new())).await;
    let body = chat().body;

    let (_, mut sending) = ok(gateway.envoy.begin(chat(), Some(body.len())).await);
    sending.write(&body).await;
    gateway.hears(2).await;
    outlast_the_timeout(&gateway).await;
    assert!(!sending.is_answered());
}

// What the two tests above go by: where the timeout is set, it has gone off when Envoy has let that time pass.
#[tokio::test]
async fn buffered_has_a_message_timeout_that_ends_a_silent_processors_wait() {
    let gateway = providers(&[("fixed", 200)]).with(impatient(BodyMode::Buffered));
    let gateway = gateway.start(script(|_| Vec::new())).await;
    let body = chat().body;

    let (id, mut sending) = ok(gateway.envoy.begin(chat(), Some(body.len())).await);
    gateway.hears(1).await;
    ok(gateway.envoy.let_pass(TIMEOUT).await);
    assert_eq!(gateway.stat("http.ingress.ext_proc.message_timeouts").await, 1);
    sending.write(&body).await;
    let response = ok(sending.response().await);

    gateway.told(&id, response).await.went("fixed(200)");
}
