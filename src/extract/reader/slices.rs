//! What is found does not depend on how the bytes are cut.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;

use super::*;
use crate::extract::request::Request;
use crate::extract::source::{Pointer, Source};

fn plan() -> Plan {
    let pointer = |key: &str| Source::Body(Pointer::to_key(key));
    Plan { tenant: vec![pointer("tenant")], session: vec![pointer("session")], ..Plan::default() }
}

fn document() -> impl Strategy<Value = String> {
    let member = prop_oneof![
        (0..200_usize).prop_map(|length| format!("\"x\":\"{}\"", "y".repeat(length))),
        Just("\"model\":\"m\"".to_owned()),
        Just("\"tenant\":\"t\"".to_owned()),
        Just("\"session\":\"s\"".to_owned()),
        Just("\"z\":[1,{\"model\":2}]".to_owned()),
        Just("\"broken\":nan".to_owned()),
    ];
    proptest::collection::vec(member, 0..8).prop_map(|members| format!("{{{}}}", members.join(",")))
}

fn facts(coded: bool, body: &[u8], cut: usize) -> Facts {
    let mut request = Request::new("/v1/responses");
    request.add_header("content-type", "application/json");
    if coded {
        request.add_header("content-encoding", "gzip");
    }
    let mut reader =
        Reader::new(&request, &plan(), Needs { tenant: true, session: true, rivals: false, stream: false }, &Limits::default());
    body.chunks(cut).for_each(|chunk| reader.push(chunk));
    reader.finish();
    let mut facts = reader.facts().0;
    // A key that stands twice ends the search: what its value is then means nothing.
    if facts.trouble == Some(Trouble::DuplicateKey) {
        facts = Facts { trouble: facts.trouble, api: facts.api, ..Facts::default() };
    }
    facts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_gives_the_same_facts(text in document(), coded: bool, cut in 1..300_usize) {
        let mut body = text.into_bytes();
        if coded {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&body).unwrap();
            body = encoder.finish().unwrap();
        }
        prop_assert_eq!(facts(coded, &body, cut), facts(coded, &body, usize::MAX));
    }
}
