//! Decisions that refuse, that come late, or that the clock forces.

use super::*;

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

/// A duplex exchange, decided after three bytes, that has to be judged anew after four.
fn decided() -> (Exchange, Counter) {
    let mut exchange = Exchange::default();
    let mut intake = Counter { wanted: 1, trouble_after: Some(4), ..Counter::default() };
    for request in [head(false), body(b"abc", false)] {
        if hear(&mut exchange, message(DUPLEX, request), &mut intake).next == Next::Decide {
            exchange.answer(&proceed());
        }
    }
    (exchange, intake)
}

#[test]
fn a_late_decision_that_refuses_nothing_lets_the_body_go_on() {
    let (mut exchange, mut intake) = decided();
    assert_eq!(hear(&mut exchange, message(DUPLEX, body(b"def", true)), &mut intake).next, Next::Decide);
    let replies: Vec<String> = exchange.answer(&proceed()).iter().map(describe).collect();
    assert_eq!(replies, ["body:def."]);
}

#[test]
fn the_end_of_a_body_that_was_decided_before_is_judged_as_well() {
    for (last, passed) in [(body(b"", true), "body:."), (Request::RequestTrailers(Ignored {}), "trailers")] {
        for (answer, expected) in [(refuse(), "refusal"), (proceed(), passed)] {
            let mut exchange = Exchange::default();
            let mut intake = Counter { wanted: 1, trouble_at_end: true, ..Counter::default() };
            for request in [head(false), body(b"abc", false)] {
                if hear(&mut exchange, message(DUPLEX, request), &mut intake).next == Next::Decide {
                    exchange.answer(&proceed());
                }
            }
            assert_eq!(hear(&mut exchange, message(DUPLEX, last.clone()), &mut intake).next, Next::Decide);
            let replies: Vec<String> = exchange.answer(&answer).iter().map(describe).collect();
            assert_eq!(replies, [expected]);
        }
    }
}

#[test]
fn a_late_refusal_is_possible_until_a_response_starts() {
    let conversation = |response_started: bool| {
        let (mut exchange, mut intake) = decided();
        if response_started {
            exchange.on(message(DUPLEX, Request::ResponseHeaders(Ignored {})), &mut intake);
        }
        let step = hear(&mut exchange, message(DUPLEX, body(b"def", true)), &mut intake);
        let replies = if step.next == Next::Decide { exchange.answer(&refuse()) } else { step.replies };
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
    hear(&mut exchange, message(DUPLEX, body(b"ab", false)), &mut intake);
    assert!(exchange.waits_for_client());
    assert_eq!(exchange.on_body_wait(&mut intake).next, Next::Decide);
    assert_eq!(intake.cut, Some(Cut::Deadline));
    let replies: Vec<String> = exchange.answer(&proceed()).iter().map(describe).collect();
    assert_eq!(replies, ["headers!", "body:ab"]);
    assert!(!exchange.waits_for_client());
    let step = hear(&mut exchange, message(DUPLEX, body(b"c", true)), &mut intake);
    assert_eq!(step.replies.iter().map(describe).collect::<Vec<_>>(), ["body:c."]);
}
