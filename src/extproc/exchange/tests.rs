use bytes::Bytes;
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingResponse, processing_response::Response};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::encode::reply::{HeaderChanges, Metadata, Refusal};
use crate::proto::{HttpHeaders, Ignored, ProtocolConfiguration};

/// Reads until `wanted` bytes have come; `wanted` of 0 needs no body.
#[derive(Debug, Default)]
struct Counter {
    wanted: usize,
    read: usize,
    heads: usize,
    ended: bool,
    cut: Option<Cut>,
    refuse_after: Option<usize>,
    forged: Vec<&'static str>,
}

impl Intake for Counter {
    fn head(&mut self, _: &ProcessingRequest) {
        self.heads += 1;
    }
    fn body(&mut self, chunk: &[u8]) {
        self.read += chunk.len();
    }
    fn end(&mut self) {
        self.ended = true;
    }
    fn cut(&mut self, why: Cut) {
        self.cut = Some(why);
    }
    fn needs_no_body(&self) -> bool {
        self.wanted == 0
    }
    fn is_ready(&self) -> bool {
        self.ended || self.cut.is_some() || self.read >= self.wanted
    }
    fn must_refuse_late(&self) -> bool {
        self.refuse_after.is_some_and(|limit| self.read > limit)
    }
    fn forged(&self) -> Vec<String> {
        self.forged.iter().map(|name| (*name).to_owned()).collect()
    }
}

fn message(mode: i32, request: Request) -> ProcessingRequest {
    ProcessingRequest {
        protocol_config: Some(ProtocolConfiguration { request_body_mode: mode, response_body_mode: 0 }),
        request: Some(request),
        ..ProcessingRequest::default()
    }
}

fn head(end_of_stream: bool) -> Request {
    Request::RequestHeaders(HttpHeaders { headers: None, end_of_stream })
}

fn body(bytes: &[u8], end_of_stream: bool) -> Request {
    Request::RequestBody(HttpBody { body: Bytes::copy_from_slice(bytes), end_of_stream })
}

fn proceed() -> Answer {
    Answer::Proceed { reroute: true, headers: HeaderChanges::default(), metadata: Metadata::default() }
}

fn refuse() -> Answer {
    Answer::Refuse {
        refusal: Refusal { status: 403, headers: Vec::new(), body: Vec::new(), details: "" },
        metadata: Metadata::default(),
    }
}

/// What was answered, one word a reply: `headers`, `headers!` with the decision, `body`, `body:<bytes>` streamed, `.` for its end.
fn describe(reply: &Reply) -> String {
    let common = |response: Option<envoy_types::pb::envoy::service::ext_proc::v3::CommonResponse>, name: &str| {
        let Some(common) = response else { return name.to_owned() };
        match common.body_mutation.and_then(|mutation| mutation.mutation) {
            Some(Mutation::StreamedResponse(piece)) => {
                format!("{name}:{}{}", String::from_utf8_lossy(&piece.body), if piece.end_of_stream { "." } else { "" })
            }
            Some(other) => panic!("{other:?}"),
            None if common.clear_route_cache => format!("{name}!"),
            None => name.to_owned(),
        }
    };
    match ProcessingResponse::decode(reply.to_bytes().as_slice()).unwrap().response.expect("every reply has a kind") {
        Response::RequestHeaders(headers) => common(headers.response, "headers"),
        Response::RequestBody(body) => common(body.response, "body"),
        Response::RequestTrailers(_) => "trailers".to_owned(),
        Response::ResponseHeaders(_) => "response-headers".to_owned(),
        Response::ResponseBody(body) => common(body.response, "response-body"),
        Response::ResponseTrailers(_) => "response-trailers".to_owned(),
        Response::ImmediateResponse(_) => "refusal".to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Runs a conversation: per message what was answered, decisions made at once.
fn converse(mode: i32, intake: &mut Counter, answer: &Answer, requests: Vec<Request>) -> Vec<String> {
    let mut exchange = Exchange::default();
    let answers = requests.into_iter().map(|request| {
        let mut step = exchange.on(message(mode, request), intake);
        if step.decide {
            step.replies.extend(exchange.answer(answer));
        }
        step.replies.iter().map(describe).collect::<Vec<_>>().join(" ")
    });
    answers.collect()
}

const NONE: i32 = 0;
const STREAMED: i32 = 1;
const BUFFERED: i32 = 2;
const PARTIAL: i32 = 3;
const DUPLEX: i32 = 4;

fn after(wanted: usize) -> Counter {
    Counter { wanted, ..Counter::default() }
}

// One table, and the longer for it.
#[allow(clippy::too_many_lines)]
#[test]
fn each_mode_answers_in_its_own_way() {
    let trailers = || Request::RequestTrailers(Ignored {});
    for (name, mode, wanted, requests, expected) in [
        ("no body", BUFFERED, 9, vec![head(true)], vec!["headers!"]),
        ("no body, duplex", DUPLEX, 9, vec![head(true)], vec!["headers!"]),
        ("mode none", NONE, 9, vec![head(false)], vec!["headers!"]),
        ("buffered", BUFFERED, 9, vec![head(false), body(b"x", true)], vec!["headers", "body!"]),
        (
            "buffered with trailers",
            BUFFERED,
            9,
            vec![head(false), body(b"x", false), trailers()],
            vec!["headers", "body!", "trailers"],
        ),
        ("buffered, empty body", BUFFERED, 9, vec![head(false), body(b"", true)], vec!["headers", "body!"]),
        ("buffered, trailers only", BUFFERED, 9, vec![head(false), trailers()], vec!["headers", "trailers"]),
        ("buffered, head decides", BUFFERED, 0, vec![head(false), body(b"x", true)], vec!["headers!", "body"]),
        ("partial, cut", PARTIAL, 9, vec![head(false), body(b"x", false)], vec!["headers", "body!"]),
        ("streamed", STREAMED, 9, vec![head(false), body(b"x", false), body(b"y", true)], vec!["headers!", "body", "body"]),
        (
            "duplex, early",
            DUPLEX,
            3,
            vec![head(false), body(b"ab", false), body(b"cd", false), body(b"ef", true)],
            vec!["", "", "headers! body:ab body:cd", "body:ef."],
        ),
        (
            "duplex, at the end",
            DUPLEX,
            9,
            vec![head(false), body(b"ab", false), body(b"", true)],
            vec!["", "", "headers! body:ab."],
        ),
        ("duplex, empty body", DUPLEX, 9, vec![head(false), body(b"", true)], vec!["", "headers! body:."]),
        (
            "duplex, trailers",
            DUPLEX,
            9,
            vec![head(false), body(b"ab", false), trailers()],
            vec!["", "", "headers! body:ab trailers"],
        ),
        (
            "duplex, head decides",
            DUPLEX,
            0,
            vec![head(false), body(b"ab", false), body(b"", true)],
            vec!["headers!", "body:ab", "body:."],
        ),
        (
            "duplex, decided before trailers",
            DUPLEX,
            1,
            vec![head(false), body(b"ab", false), trailers()],
            vec!["", "headers! body:ab", "trailers"],
        ),
        ("unknown mode", 99, 9, vec![head(false), body(b"x", true)], vec!["headers!", "body"]),
        ("headers twice", BUFFERED, 9, vec![head(false), head(false), body(b"x", true)], vec!["headers", "headers", "body!"]),
        ("no headers", BUFFERED, 9, vec![body(b"x", true)], vec!["body!"]),
        ("trailers first", BUFFERED, 9, vec![trailers()], vec!["trailers"]),
        (
            "responses",
            BUFFERED,
            0,
            vec![
                head(true),
                Request::ResponseHeaders(Ignored {}),
                Request::ResponseBody(HttpBody::default()),
                Request::ResponseTrailers(Ignored {}),
            ],
            vec!["headers!", "response-headers", "response-body", "response-trailers"],
        ),
    ] {
        assert_eq!(converse(mode, &mut after(wanted), &proceed(), requests), expected, "{name}");
    }
}

#[test]
fn the_mode_says_why_a_body_is_not_seen() {
    for (mode, requests, cut) in [
        (STREAMED, vec![head(false)], Some(Cut::ModeTooLate)),
        (99, vec![head(false)], Some(Cut::ModeTooLate)),
        (PARTIAL, vec![head(false), body(b"x", false)], Some(Cut::TooLarge)),
        (PARTIAL, vec![head(false), body(b"x", true)], None),
        (BUFFERED, vec![head(false), Request::RequestTrailers(Ignored {})], Some(Cut::ModeTooLate)),
        (NONE, vec![head(false)], None),
        (STREAMED, vec![head(true)], None),
    ] {
        let mut intake = after(9);
        converse(mode, &mut intake, &proceed(), requests);
        assert_eq!((intake.cut, intake.heads), (cut, 1), "mode {mode}");
    }
}

#[test]
fn without_an_announced_mode_a_body_is_awaited_as_in_buffered() {
    let mut exchange = Exchange::default();
    let step = exchange.on(ProcessingRequest { request: Some(head(false)), ..ProcessingRequest::default() }, &mut after(9));
    assert_eq!((step.replies.len(), step.decide, exchange.is_undecided()), (1, false, true));
}

#[test]
fn after_a_refusal_nothing_is_answered() {
    for (mode, requests, expected) in [
        (BUFFERED, vec![head(false), body(b"x", true), Request::RequestTrailers(Ignored {})], vec!["headers", "refusal", ""]),
        (DUPLEX, vec![head(false), body(b"x", true), Request::ResponseHeaders(Ignored {})], vec!["", "refusal", ""]),
        (BUFFERED, vec![head(true), body(b"x", true)], vec!["refusal", ""]),
    ] {
        assert_eq!(converse(mode, &mut after(9), &refuse(), requests), expected);
    }
}

#[test]
fn a_late_decision_that_refuses_nothing_lets_the_body_go_on() {
    let mut exchange = Exchange::default();
    let mut intake = Counter { wanted: 1, refuse_after: Some(4), ..Counter::default() };
    for request in [head(false), body(b"abc", false)] {
        if exchange.on(message(DUPLEX, request), &mut intake).decide {
            exchange.answer(&proceed());
        }
    }
    assert!(exchange.on(message(DUPLEX, body(b"def", true)), &mut intake).decide);
    let replies: Vec<String> = exchange.answer(&proceed()).iter().map(describe).collect();
    assert_eq!(replies, ["body:def."]);
}

#[test]
fn a_late_refusal_is_possible_until_a_response_starts() {
    let conversation = |response_started: bool| {
        let mut exchange = Exchange::default();
        let mut intake = Counter { wanted: 1, refuse_after: Some(4), ..Counter::default() };
        for request in [head(false), body(b"abc", false)] {
            if exchange.on(message(DUPLEX, request), &mut intake).decide {
                exchange.answer(&proceed());
            }
        }
        if response_started {
            exchange.on(message(DUPLEX, Request::ResponseHeaders(Ignored {})), &mut intake);
        }
        let step = exchange.on(message(DUPLEX, body(b"def", true)), &mut intake);
        let replies = if step.decide { exchange.answer(&refuse()) } else { step.replies };
        replies.iter().map(describe).collect::<Vec<_>>()
    };
    assert_eq!(conversation(false), ["refusal"]);
    assert_eq!(conversation(true), ["body:def."]);
}

#[test]
fn the_body_clock_ends_a_wait_and_the_body_still_flows() {
    let mut exchange = Exchange::default();
    let mut intake = after(9);
    exchange.on(message(DUPLEX, head(false)), &mut intake);
    exchange.on(message(DUPLEX, body(b"ab", false)), &mut intake);
    assert!(exchange.waits_for_client());
    assert!(exchange.on_body_wait(&mut intake).decide);
    assert_eq!(intake.cut, Some(Cut::Deadline));
    let replies: Vec<String> = exchange.answer(&proceed()).iter().map(describe).collect();
    assert_eq!(replies, ["headers!", "body:ab"]);
    assert!(!exchange.waits_for_client());
    let step = exchange.on(message(DUPLEX, body(b"c", true)), &mut intake);
    assert_eq!(step.replies.iter().map(describe).collect::<Vec<_>>(), ["body:c."]);
}

#[test]
fn observability_mode_is_read_and_never_answered() {
    for mode in [NONE, STREAMED, BUFFERED, PARTIAL, DUPLEX] {
        let mut exchange = Exchange::default();
        let mut intake = after(2);
        let mut decisions = 0;
        for request in [head(false), body(b"abc", false), body(b"d", true), Request::ResponseHeaders(Ignored {})] {
            let step = exchange.on(ProcessingRequest { observability_mode: true, ..message(mode, request) }, &mut intake);
            assert!(step.replies.is_empty());
            if step.decide {
                decisions += 1;
                assert!(exchange.answer(&refuse()).is_empty());
            }
        }
        assert_eq!((decisions, exchange.held.is_empty()), (1, true), "mode {mode}");
    }
}

fn any_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        any::<bool>().prop_map(head),
        (proptest::collection::vec(b'a'..=b'z', 0..6), any::<bool>()).prop_map(|(bytes, end)| body(&bytes, end)),
        Just(Request::RequestTrailers(Ignored {})),
        Just(Request::ResponseHeaders(Ignored {})),
        any::<bool>().prop_map(|end_of_stream| Request::ResponseBody(HttpBody { body: Bytes::from_static(b"r"), end_of_stream })),
        Just(Request::ResponseTrailers(Ignored {})),
    ]
}

fn kind_word(request: &Request) -> &'static str {
    match request {
        Request::RequestHeaders(_) => "headers",
        Request::RequestBody(_) => "body",
        Request::RequestTrailers(_) => "trailers",
        Request::ResponseHeaders(_) => "response-headers",
        Request::ResponseBody(_) => "response-body",
        Request::ResponseTrailers(_) => "response-trailers",
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_messages_gets_one_answer_in_kind(mode in 0..6_i32, wanted in 0..12_usize, refused: bool, requests in proptest::collection::vec(any_request(), 0..12)) {
        prop_assume!(mode != DUPLEX);
        let answer = if refused { refuse() } else { proceed() };
        let kinds: Vec<&str> = requests.iter().map(kind_word).collect();
        let answers = converse(mode, &mut after(wanted), &answer, requests);
        let mut closed = false;
        for (kind, answer) in kinds.iter().zip(&answers) {
            if closed {
                prop_assert_eq!(answer, "");
            } else if answer == "refusal" {
                closed = true;
            } else {
                prop_assert_eq!(&answer.trim_end_matches('!'), kind);
            }
        }
    }

    #[test]
    fn a_duplex_body_comes_back_byte_for_byte_and_ends_once(wanted in 0..30_usize, chunks in proptest::collection::vec(proptest::collection::vec(b'a'..=b'z', 0..8), 0..8), trailers: bool) {
        let mut requests = vec![head(false)];
        let count = chunks.len();
        requests.extend(chunks.iter().enumerate().map(|(index, chunk)| body(chunk, !trailers && index + 1 == count)));
        if trailers {
            requests.push(Request::RequestTrailers(Ignored {}));
        }
        let answers = converse(DUPLEX, &mut after(wanted), &proceed(), requests).join(" ");
        let words: Vec<&str> = answers.split(' ').filter(|word| !word.is_empty()).collect();
        if count > 0 || trailers {
            prop_assert_eq!(words.first(), Some(&"headers!"));
            let pieces: String = words.iter().filter_map(|word| word.strip_prefix("body:")).collect();
            let ends = usize::from(!trailers);
            prop_assert_eq!(pieces.matches('.').count(), ends);
            prop_assert_eq!(pieces.ends_with('.'), !trailers);
            prop_assert_eq!(pieces.trim_end_matches('.').as_bytes(), chunks.concat());
            prop_assert_eq!(words.last() == Some(&"trailers"), trailers);
        }
    }
}

#[test]
fn where_the_head_decides_envoy_is_told_to_keep_the_body_and_nothing_else_changes() {
    use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::{BodySendMode, HeaderSendMode};

    let first = |request_mode: i32, response_mode: i32, wanted: usize, ended: bool, answer: &Answer| {
        let mut message = message(request_mode, head(ended));
        message.protocol_config =
            Some(ProtocolConfiguration { request_body_mode: request_mode, response_body_mode: response_mode });
        let mut exchange = Exchange::default();
        let mut step = exchange.on(message, &mut after(wanted));
        step.replies.extend(exchange.answer(answer));
        step.replies.first().and_then(|reply| ProcessingResponse::decode(reply.to_bytes().as_slice()).unwrap().mode_override)
    };
    for (request, response, headers) in [
        (BUFFERED, NONE, HeaderSendMode::Skip),
        (STREAMED, NONE, HeaderSendMode::Skip),
        (PARTIAL, BUFFERED, HeaderSendMode::Send),
        (BUFFERED, STREAMED, HeaderSendMode::Send),
    ] {
        let mode = first(request, response, 0, false, &proceed()).expect("a mode_override");
        assert_eq!(mode.request_body_mode(), BodySendMode::None);
        assert_eq!(mode.response_body_mode, response, "as announced");
        assert_eq!((mode.request_header_mode(), mode.response_header_mode()), (HeaderSendMode::Send, headers));
        assert_eq!((mode.request_trailer_mode(), mode.response_trailer_mode()), (HeaderSendMode::Skip, HeaderSendMode::Skip));
    }
    for (request, response, wanted, ended, answer) in [
        (DUPLEX, NONE, 0, false, proceed()),
        (BUFFERED, DUPLEX, 0, false, proceed()),
        (BUFFERED, 77, 0, false, proceed()),
        (NONE, NONE, 0, false, proceed()),
        (BUFFERED, NONE, 0, true, proceed()),
        (BUFFERED, NONE, 1, false, proceed()),
        (STREAMED, NONE, 1, false, proceed()),
        (BUFFERED, NONE, 0, false, refuse()),
    ] {
        assert_eq!(first(request, response, wanted, ended, &answer), None, "{request} {response} {wanted} {ended}");
    }
}

#[test]
fn a_body_that_comes_though_nobody_asked_is_answered() {
    for mode in [BUFFERED, PARTIAL, STREAMED] {
        assert_eq!(
            converse(mode, &mut after(0), &proceed(), vec![head(false), body(b"x", true)]),
            ["headers!", "body"],
            "{mode}"
        );
    }
}

#[test]
fn forged_headers_go_with_the_first_answer_even_if_trailers_alone_follow() {
    let mut intake = Counter { wanted: 9, forged: vec!["x-ours"], ..Counter::default() };
    let mut exchange = Exchange::default();
    let step = exchange.on(message(BUFFERED, head(false)), &mut intake);
    let response = ProcessingResponse::decode(step.replies[0].to_bytes().as_slice()).unwrap().response;
    let Some(Response::RequestHeaders(answer)) = response else { panic!("{response:?}") };
    let common = answer.response.unwrap();
    assert_eq!(common.header_mutation.unwrap().remove_headers, ["x-ours"]);
    assert!(!common.clear_route_cache);
}
