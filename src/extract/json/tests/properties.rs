//! Any document, cut anywhere: serde_json is the judge.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn json() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["model|session|a|b|", "\\PC{0,12}", "[\\x00-\\x7f\"\\\\]{0,40}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.clone().prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((text.clone(), inner), 0..5).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn split(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
}

const POINTERS: [&str; 5] = ["/model", "/a/b", "/session", "/a/0", "/b/model"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_serde_json_on_valid_documents_split_anywhere(
        value in json(),
        pretty: bool,
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let document = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let chunks = split(document.as_bytes(), &cuts);
        let (result, scanner) = scan(&POINTERS, &chunks.iter().map(Vec::as_slice).collect::<Vec<_>>(), OnDuplicateKey::Reject);
        prop_assert_eq!(result, Ok(()));
        for (index, pointer) in POINTERS.iter().enumerate() {
            let expected = match value.pointer(pointer) {
                None => Slot::Absent,
                Some(Value::String(found)) => text(found),
                Some(_) => Slot::NotText,
            };
            prop_assert_eq!(scanner.slot(index), &expected, "{} in {}", pointer, document);
        }
    }

    #[test]
    fn agrees_with_serde_json_on_what_is_json(
        value in json(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..4),
    ) {
        let mut document = serde_json::to_vec(&value).unwrap();
        for (at, byte, remove) in edits {
            if document.is_empty() { break }
            let at = at.index(document.len());
            if remove { document.remove(at); } else { document[at] = byte; }
        }
        // serde_json refuses numbers that no f64 holds and, in strings it keeps, lone surrogates: grammar and value are two
        // things.
        let is_json = serde_json::from_slice::<&serde_json::value::RawValue>(&document).is_ok();
        let oracle = is_json && std::str::from_utf8(&document).is_ok();
        let whole = scan(&POINTERS, &[&document], OnDuplicateKey::Reject).0.is_ok();
        prop_assert_eq!(whole, oracle, "{}", String::from_utf8_lossy(&document));
    }

    #[test]
    fn chunk_borders_never_matter(
        document in "[{}\\[\\]:,\"\\\\model0-9eE+. tué-]{0,60}",
        noise in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..9),
    ) {
        let mut document = document.into_bytes();
        for (at, byte) in noise {
            if let Some(place) = document.len().checked_sub(1).map(|last| at.index(last + 1)) { document[place] = byte; }
        }
        let chunks = split(&document, &cuts);
        let (whole, one) = scan(&POINTERS, &[&document], OnDuplicateKey::Last);
        let (parts, many) = scan(&POINTERS, &chunks.iter().map(Vec::as_slice).collect::<Vec<_>>(), OnDuplicateKey::Last);
        prop_assert_eq!(whole, parts);
        for index in 0..POINTERS.len() {
            prop_assert_eq!(one.slot(index), many.slot(index));
        }
    }
}
