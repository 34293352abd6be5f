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

/// A document of keys that are nearly wanted ones, in the order given; a map would forget some.
#[derive(Debug, Clone)]
enum Nearly {
    Text(&'static str),
    Object(Vec<(&'static str, Nearly)>),
}

impl Nearly {
    fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(&format!("\"{text}\"")),
            Self::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    out.push_str(&format!("{}\"{key}\":", if index > 0 { "," } else { "" }));
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Every text that a parser which ignores case may find at the pointer.
    fn lenient(&self, segments: &[&str], found: &mut Vec<&'static str>) {
        match (self, segments) {
            (Self::Text(text), []) => found.push(text),
            (Self::Object(members), [first, rest @ ..]) => {
                // Go's way: the same under upper and lower case of every character.
                let same = |key: &str| key.replace("\\u004d", "M").to_uppercase() == first.to_uppercase();
                members.iter().filter(|(key, _)| same(key)).for_each(|(_, value)| value.lenient(rest, found));
            }
            _ => {}
        }
    }
}

fn nearly() -> impl Strategy<Value = Nearly> {
    let key = proptest::sample::select(
        &["model", "Model", "MODEL", "\\u004dodel", "x", "a", "A", "ſtep", "step", "\u{212a}ey", "key"][..],
    );
    let leaf = proptest::sample::select(&["m", "n", "o"][..]).prop_map(Nearly::Text);
    leaf.prop_recursive(3, 12, 4, move |inner| proptest::collection::vec((key.clone(), inner), 0..5).prop_map(Nearly::Object))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a parser that ignores case may read is what the scanner read, or it is doubted or refused.
    #[test]
    fn no_parser_that_ignores_case_reads_another_value_unnoticed(document in nearly(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4)) {
        const GUARDED: [(&str, &[&str]); 4] =
            [("/model", &["model"]), ("/a/model", &["a", "model"]), ("/step/key", &["step", "key"]), ("/x/a/key", &["x", "a", "key"])];
        let mut text = String::new();
        document.write(&mut text);
        for (pointer, segments) in GUARDED {
            let pointer = Pointer::parse(pointer).unwrap();
            let mut scanner = Scanner::new([&pointer], 16, OnDuplicateKey::Reject);
            scanner.guard(0);
            split(text.as_bytes(), &cuts).iter().for_each(|chunk| scanner.push(chunk).unwrap());
            scanner.finish().unwrap();
            let mut found = Vec::new();
            document.lenient(segments, &mut found);
            let read = match scanner.slot(0) { Slot::Text(text) => Some(text.as_str()), _ => None };
            let noticed = scanner.spellings().other || scanner.has_duplicate();
            prop_assert!(noticed || found.iter().all(|value| Some(*value) == read), "{text}: {found:?} beside {read:?}");
            prop_assert!(scanner.spellings().other || !scanner.spellings().twice);
        }
    }
}
