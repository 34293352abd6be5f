//! Each body mode answers in its own way.

use super::*;

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
    for (mode, requests, cut, lost) in [
        (STREAMED, vec![head(false)], Some(Cut::ModeTooLate), false),
        (99, vec![head(false)], Some(Cut::ModeTooLate), false),
        (STREAMED, vec![body(b"x", true)], Some(Cut::ModeTooLate), true),
        (PARTIAL, vec![head(false), body(b"x", false)], Some(Cut::TooLarge), false),
        (PARTIAL, vec![head(false), body(b"x", true)], None, false),
        (BUFFERED, vec![head(false), Request::RequestTrailers(Ignored {})], Some(Cut::ModeTooLate), true),
        (NONE, vec![head(false)], None, false),
        (STREAMED, vec![head(true)], None, false),
    ] {
        let mut intake = after(9);
        converse(mode, &mut intake, &proceed(), requests);
        assert_eq!((intake.cut, intake.lost, intake.heads), (cut, lost, 1), "mode {mode}");
    }
}

#[test]
fn what_can_be_done_while_a_body_comes_is_started_only_where_one_is_waited_for() {
    for (mode, requests, waits) in [
        (BUFFERED, vec![head(false), body(b"0123456789", true)], 1),
        (PARTIAL, vec![head(false), body(b"x", false)], 1),
        (DUPLEX, vec![head(false), body(b"x", false), body(b"y", false), body(b"0123456789", false), body(b"z", true)], 3),
        (STREAMED, vec![head(false), body(b"x", true)], 0),
        (NONE, vec![head(false)], 0),
        (BUFFERED, vec![head(true)], 0),
    ] {
        let mut intake = after(9);
        converse(mode, &mut intake, &proceed(), requests);
        assert_eq!(intake.waits, waits, "mode {mode}");
    }
}

#[test]
fn without_an_announced_mode_a_body_is_awaited_as_in_buffered() {
    let mut exchange = Exchange::default();
    let step = exchange.on(ProcessingRequest { request: Some(head(false)), ..ProcessingRequest::default() }, &mut after(9));
    assert_eq!((step.replies.len(), step.next, exchange.is_undecided()), (1, Next::Message, true));
}

#[test]
fn observability_mode_is_read_and_never_answered() {
    for mode in [NONE, STREAMED, BUFFERED, PARTIAL, DUPLEX] {
        let mut exchange = Exchange::default();
        let mut intake = after(2);
        let mut decisions = 0;
        for request in [head(false), body(b"abc", false), body(b"d", true), Request::ResponseHeaders(Ignored {})] {
            let message = ProcessingRequest { observability_mode: true, ..message(mode, request) };
            let step = hear(&mut exchange, message, &mut intake);
            assert!(step.replies.is_empty());
            if step.next == Next::Decide {
                decisions += 1;
                assert!(exchange.answer(&refuse()).is_empty());
            }
        }
        assert_eq!((decisions, exchange.held.is_empty()), (1, true), "mode {mode}");
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
