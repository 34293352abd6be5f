//! Which messages Envoy sends in each body mode, and until when an answer still counts.

use cascade::lab::{BodyMode, EnvoySetup, Request, Response, envoy};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Message;

use crate::answer::{Answer, trailers};
use crate::gateway::{Gateway, chat, chat_of, ok, providers};
use crate::processor::{Script, Step, at_body, at_headers, hold_headers, script};

const MIB: usize = 1 << 20;

fn in_mode(mode: BodyMode) -> impl FnOnce(&mut EnvoySetup) {
    move |setup| setup.body_mode = mode
}

/// Waits until Envoy has sent a request to this cluster.
async fn sent_upstream(gateway: &Gateway, cluster: &str) {
    ok(gateway.envoy.stat_reaches(&format!("cluster.{cluster}.upstream_rq_total"), 1).await);
}

// Fact 4
#[tokio::test]
async fn buffered_sends_the_whole_body_and_the_body_answer_decides() {
    let gateway = providers(&[("fixed", 200), ("one", 429), ("two", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.start(at_body(Answer::clusters(&["one", "two"]))).await;
    let request = chat_of(200_000);

    gateway.send(request.clone()).await.went("one(429) two(200)");
    let bodies = gateway.processor.bodies();
    assert_eq!(bodies.len(), 1);
    assert!(bodies[0].body == request.body && bodies[0].end_of_stream);
    assert!(gateway.provider("two").seen()[0].body == request.body);
}

// Fact 4
#[tokio::test]
async fn buffered_with_a_body_over_the_buffer_limit_is_413_from_envoy_itself() {
    let gateway = providers(&[("one", 200)]).with(|setup| setup.buffer_limit = 1 << 20);
    let gateway = gateway.start(at_body(Answer::clusters(&["one"]))).await;

    let told = gateway.send(chat_of(2 * MIB)).await;
    told.went("");
    assert_eq!(told.response.status, 413);
    assert!(gateway.processor.bodies().is_empty());
}

// Fact 5
#[tokio::test]
async fn buffered_partial_cuts_a_large_body_and_never_sends_the_rest() {
    let gateway = providers(&[("one", 200)]).with(|setup| {
        setup.body_mode = BodyMode::BufferedPartial;
        setup.buffer_limit = 1 << 20;
    });
    let gateway = gateway.start(at_body(Answer::clusters(&["one"]))).await;
    let request = chat_of(3 * MIB);

    gateway.send(request.clone()).await.went("one(200)");
    let bodies = gateway.processor.bodies();
    assert_eq!(bodies.len(), 1);
    assert!(!bodies[0].end_of_stream);
    // The limit, and what one more read of the socket brought: 1 to 2 MiB.
    assert!((MIB..=2 * MIB).contains(&bodies[0].body.len()), "{} bytes", bodies[0].body.len());
    assert!(gateway.provider("one").seen()[0].body == request.body, "the provider still gets all of it");
}

/// A STREAMED gateway whose client sends the body only after Envoy has gone on: the id of the request and its response.
async fn stream_late(answer: Answer) -> (Gateway, String, Response) {
    let gateway = providers(&[("fixed", 429), ("one", 200), ("two", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.with(in_mode(BodyMode::Streamed)).with(|setup| setup.num_retries = 2);
    let gateway = gateway.start(at_body(answer)).await;
    let body = chat().body;

    let (id, mut sending) = ok(gateway.envoy.begin(chat(), Some(body.len())).await);
    sent_upstream(&gateway, "fixed").await;
    sending.write(&body).await;
    let response = ok(sending.response().await);
    (gateway, id, response)
}

// Fact 6: the override comes too late for attempt 1, and nothing says so.
#[tokio::test]
async fn streamed_with_a_late_body_has_left_for_the_static_chain_before_the_body_is_seen() {
    let (gateway, id, response) = stream_late(Answer::clusters(&["one", "two"]).without_header_mutation()).await;

    gateway.told(&id, response).await.went("fixed(429) two(200)");
}

// Fact 6, and worse than it says: an answer that does clear the route cache when the router has already gone on takes the retries
// away as well. They stay on the first cluster, while Envoy's own log names the override's.
#[tokio::test]
async fn clearing_the_route_cache_too_late_pins_every_retry_to_the_first_cluster() {
    let (gateway, id, response) = stream_late(Answer::clusters(&["one", "two"])).await;

    assert_eq!(gateway.recorded(&id), ["fixed(429)"; 3]);
    assert_eq!(response.status, 429);
    let logged = ok(gateway.envoy.trail(&id).await).to_string();
    assert_eq!(logged, "fixed(429) two(429) two(429)");
}

// Fact 6: the mode is told in the first message, so a server need not guess.
#[tokio::test]
async fn the_first_message_says_which_body_mode_is_configured() {
    for (mode, sent) in [
        (BodyMode::None, BodySendMode::None),
        (BodyMode::Buffered, BodySendMode::Buffered),
        (BodyMode::BufferedPartial, BodySendMode::BufferedPartial),
        (BodyMode::Streamed, BodySendMode::Streamed),
        (BodyMode::FullDuplexStreamed, BodySendMode::FullDuplexStreamed),
    ] {
        let gateway = providers(&[("one", 200)]).with(in_mode(mode)).start(hold_headers(Answer::empty(), 0)).await;
        if matches!(mode, BodyMode::None | BodyMode::Buffered | BodyMode::BufferedPartial | BodyMode::Streamed) {
            gateway.processor.follow(at_headers(Answer::empty()));
        }
        gateway.send(chat()).await.went("one(200)");
        let messages = gateway.processor.heard();
        let configured = messages[0].protocol_config.as_ref().map(|config| config.request_body_mode());
        assert_eq!(configured, Some(sent));
        assert!(messages[1..].iter().all(|message| message.protocol_config.is_none()), "{mode}: only the first says it");
    }
}

// Fact 7
#[tokio::test]
async fn full_duplex_decides_before_the_body_has_ended_and_passes_any_size() {
    let gateway = providers(&[("fixed", 200), ("one", 429), ("two", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.with(in_mode(BodyMode::FullDuplexStreamed));
    let gateway = gateway.start(hold_headers(Answer::clusters(&["one", "two"]), 1)).await;
    let request = chat_of(3 * MIB);

    let (id, mut sending) = ok(gateway.envoy.begin(request.clone(), None).await);
    sending.write(&request.body[..100]).await;
    sent_upstream(&gateway, "one").await;
    sending.write(&request.body[100..]).await;
    let response = ok(sending.response().await);

    gateway.told(&id, response).await.went("one(429) two(200)");
    assert!(gateway.provider("two").seen()[0].body == request.body, "every byte arrives, on the retry too");
    assert!(gateway.processor.bodies().last().is_some_and(|last| last.end_of_stream));
}

// Fact 7
#[tokio::test]
async fn full_duplex_tells_the_end_of_a_chunked_body_in_an_empty_message() {
    let gateway = providers(&[("one", 200)]).with(in_mode(BodyMode::FullDuplexStreamed));
    let gateway = gateway.start(hold_headers(Answer::clusters(&["one"]), 1)).await;
    let body = chat().body;

    let (id, mut sending) = ok(gateway.envoy.begin(chat(), None).await);
    sending.write(&body).await;
    sent_upstream(&gateway, "one").await;
    let response = ok(sending.response().await);

    gateway.told(&id, response).await.went("one(200)");
    let bodies = gateway.processor.bodies();
    assert!(bodies.last().is_some_and(|last| last.end_of_stream && last.body.is_empty()), "{bodies:?}");
    assert!(gateway.provider("one").seen()[0].body == body);
}

// Fact 7
#[tokio::test]
async fn full_duplex_without_request_trailers_is_refused_by_envoy() {
    let gateway = providers(&[("one", 200)]).with(in_mode(BodyMode::FullDuplexStreamed)).setup();
    let yaml = gateway.to_yaml();
    ok(envoy::validate(&yaml));

    let refused = envoy::validate(&yaml.replace("request_trailer_mode: SEND", "request_trailer_mode: SKIP")).unwrap_err();
    assert!(refused.0.contains("trailer"), "{refused}");
}

// Fact 8
#[tokio::test]
async fn a_request_without_a_body_has_no_body_message_and_the_header_answer_decides() {
    for mode in [BodyMode::Buffered, BodyMode::Streamed, BodyMode::FullDuplexStreamed] {
        let gateway = providers(&[("fixed", 200), ("one", 429), ("two", 200)]).static_chain(&["fixed"]);
        let gateway = gateway.with(in_mode(mode)).start(at_body(Answer::clusters(&["one", "two"]))).await;

        gateway.send(Request::get("/v1/models")).await.went("one(429) two(200)");
        let messages = gateway.processor.heard();
        assert_eq!(messages.len(), 1, "{mode}");
        assert!(matches!(&messages[0].request, Some(Message::RequestHeaders(headers)) if headers.end_of_stream));
    }
}

fn with_mode_override(mode: BodyMode) -> impl FnOnce(&mut EnvoySetup) {
    move |setup| {
        setup.body_mode = mode;
        setup.allow_mode_override = true;
    }
}

// Fact 9
#[tokio::test]
async fn mode_override_none_spares_the_body() {
    let gateway = providers(&[("fixed", 200), ("one", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.with(with_mode_override(BodyMode::Buffered));
    let headers_decide = Answer::clusters(&["one"]).body_mode(BodySendMode::None.into());
    let gateway = gateway.start(at_headers(headers_decide)).await;

    gateway.send(chat()).await.went("one(200)");
    assert_eq!(gateway.processor.heard().len(), 1);
    assert_eq!(gateway.provider("one").seen()[0].body, chat().body);
}

// Fact 9: without `allow_mode_override` the answer's wish is not heard.
#[tokio::test]
async fn mode_override_without_permission_leaves_the_body_coming() {
    let gateway = providers(&[("one", 200)]);
    let headers_decide = Answer::clusters(&["one"]).body_mode(BodySendMode::None.into());
    let gateway = gateway.start(at_headers(headers_decide)).await;

    gateway.send(chat()).await.went("one(200)");
    assert_eq!(gateway.processor.bodies().len(), 1);
}

// Fact 9a
#[tokio::test]
async fn mode_override_none_in_full_duplex_is_ignored_and_the_chunks_must_be_answered() {
    let gateway = providers(&[("fixed", 200), ("one", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.with(with_mode_override(BodyMode::FullDuplexStreamed));
    let headers_decide = Answer::clusters(&["one"]).body_mode(BodySendMode::None.into());
    let gateway = gateway.start(hold_headers(headers_decide, 1)).await;
    let body = chat().body;

    let (id, mut sending) = ok(gateway.envoy.begin(chat(), Some(body.len())).await);
    sending.write(&body[..10]).await;
    gateway.hears(2).await;
    sending.write(&body[10..]).await;
    let response = ok(sending.response().await);

    gateway.told(&id, response).await.went("one(200)");
    let bytes: Vec<u8> = gateway.processor.bodies().into_iter().flat_map(|chunk| chunk.body).collect();
    assert_eq!(bytes, body);
}

// Fact 10
#[tokio::test]
async fn a_second_answer_to_one_message_is_spurious_and_the_request_goes_on() {
    let gateway = providers(&[("fixed", 200), ("one", 200)]).static_chain(&["fixed"]);
    let twice = script(|message| match message {
        Message::RequestHeaders(_) => {
            let empty = Answer::empty().to_headers();
            vec![Step::from(empty.clone()), empty.into()]
        }
        Message::RequestBody(_) => vec![Answer::clusters(&["one"]).to_body().into()],
        _ => vec![trailers().into()],
    });
    let gateway = gateway.start(twice).await;

    gateway.send(chat()).await.went("fixed(200)");
    assert_eq!(gateway.stat("http.ingress.ext_proc.spurious_msgs_received").await, 1);
}

/// Answers the headers twice.
fn twice(first: Answer, second: Answer) -> Script {
    script(move |message| match message {
        Message::RequestHeaders(_) => vec![first.to_headers().into(), second.to_headers().into()],
        _ => vec![Answer::empty().to_body().into()],
    })
}

// Fact 10, and a trap in it: the metadata of an answer is taken before the answer is found spurious.
#[tokio::test]
async fn a_spurious_answer_is_dropped_but_its_metadata_overwrites_the_override() {
    let gateway = providers(&[("fixed", 200), ("one", 429), ("two", 200)]).static_chain(&["fixed"]);
    let gateway = gateway.start(twice(Answer::clusters(&["one", "two"]), Answer::empty())).await;

    gateway.send(chat()).await.went("one(429) two(200)");
    let overwritten = twice(Answer::clusters(&["one", "two"]), Answer::clusters(&["two"]));
    gateway.send_with(overwritten, chat()).await.went("two(200)");
    assert_eq!(gateway.stat("http.ingress.ext_proc.spurious_msgs_received").await, 2);
}
