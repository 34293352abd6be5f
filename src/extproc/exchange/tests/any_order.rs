//! Any message after any other.

use proptest::prelude::*;

use super::*;

/// A message and the word for an answer in its kind.
fn any_request() -> impl Strategy<Value = (&'static str, Request)> {
    let response_body = |end_of_stream| Request::ResponseBody(HttpBody { body: Bytes::from_static(b"r"), end_of_stream });
    prop_oneof![
        any::<bool>().prop_map(|end| ("headers", head(end))),
        (proptest::collection::vec(b'a'..=b'z', 0..6), any::<bool>()).prop_map(|(bytes, end)| ("body", body(&bytes, end))),
        Just(("trailers", Request::RequestTrailers(Ignored {}))),
        Just(("response-headers", Request::ResponseHeaders(Ignored {}))),
        any::<bool>().prop_map(move |end| ("response-body", response_body(end))),
        Just(("response-trailers", Request::ResponseTrailers(Ignored {}))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_messages_gets_one_answer_in_kind(
        mode in 0..6_i32,
        wanted in 0..12_usize,
        refused: bool,
        requests in proptest::collection::vec(any_request(), 0..12),
    ) {
        prop_assume!(mode != DUPLEX);
        let answer = if refused { refuse() } else { proceed() };
        let (kinds, requests): (Vec<&str>, Vec<Request>) = requests.into_iter().unzip();
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
    fn a_duplex_body_comes_back_byte_for_byte_and_ends_once(
        wanted in 0..30_usize,
        chunks in proptest::collection::vec(proptest::collection::vec(b'a'..=b'z', 0..8), 0..8),
        trailers: bool,
    ) {
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
