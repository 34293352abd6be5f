use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn scan(pointers: &[&str], chunks: &[&[u8]], on_duplicate: OnDuplicateKey) -> (Result<(), Malformed>, Scanner) {
    let pointers: Vec<Pointer> = pointers.iter().map(|text| Pointer::parse(text).unwrap()).collect();
    let mut scanner = Scanner::new(&pointers, 16, on_duplicate);
    for chunk in chunks {
        if let Err(error) = scanner.push(chunk) {
            return (Err(error), scanner);
        }
    }
    (scanner.finish(), scanner)
}

fn model(document: &str) -> Slot {
    let (result, scanner) = scan(&["/model"], &[document.as_bytes()], OnDuplicateKey::Reject);
    assert_eq!(result, Ok(()), "{document}");
    scanner.slot(0).clone()
}

fn text(value: &str) -> Slot {
    Slot::Text(value.to_owned())
}

#[test]
fn finds_the_string_whatever_the_order_spelling_and_nesting() {
    for (document, expected) in [
        (r#"{"model":"gpt"}"#, text("gpt")),
        (r#" { "messages" : [ {"model":"no"} ] , "model" : "gpt" } "#, text("gpt")),
        (r#"{"mod\u0065l":"g\u0070t\n"}"#, text("gpt\n")),
        (r#"{"model":"\ud83d\ude00/é"}"#, text("😀/é")),
        (r#"{"model":"\ud83d"}"#, Slot::Unusable),
        (r#"{"model":"\ud83dx"}"#, Slot::Unusable),
        (r#"{"model":"\ude00"}"#, Slot::Unusable),
        (r#"{"model":null}"#, Slot::NotText),
        (r#"{"model":{"model":"x"}}"#, Slot::NotText),
        (r#"{"model":["x"]}"#, Slot::NotText),
        (r#"{"model":-1.5e+3,"x":[]}"#, Slot::NotText),
        (r#"{"x":{"model":"x"}}"#, Slot::Absent),
        (r#"{"modelx":"x","mode":"y"}"#, Slot::Absent),
        (r#"["model","x"]"#, Slot::Absent),
        (r#""model""#, Slot::Absent),
        ("\u{FEFF}{\"model\":\"gpt\"}", text("gpt")),
        (r#"{"model":""}"#, text("")),
    ] {
        assert_eq!(model(document), expected, "{document}");
    }
    assert_eq!(model(&format!(r#"{{"model":"{}"}}"#, "x".repeat(MAX_VALUE + 1))), Slot::Unusable);
}

#[test]
fn pointers_reach_into_objects_and_arrays() {
    let document = br#"{"a":{"b":"1","c":{"b":"2"}},"items":["x",{"id":"y"},["z"]],"a/b":"3"}"#;
    let (result, scanner) = scan(
        &["/a/b", "/a/c/b", "/items/0", "/items/1/id", "/items/2/0", "/a~1b", "/items/id"],
        &[document],
        OnDuplicateKey::Reject,
    );
    assert_eq!(result, Ok(()));
    let found: Vec<Slot> = (0..7).map(|index| scanner.slot(index).clone()).collect();
    assert_eq!(found, [text("1"), text("2"), text("x"), text("y"), text("z"), text("3"), Slot::Absent]);
}

/// One answer each, wherever the document is cut.
// One table, and the longer for it.
#[allow(clippy::too_many_lines)]
#[test]
fn every_kind_of_what_is_not_json_is_refused_and_says_why() {
    const CUT: &str = "the JSON ends too early";
    const KEY: &str = "a key is missing its quotes";
    const COLON: &str = "a key is not followed by a colon";
    const VALUE: &str = "a value is missing or is not JSON";
    const END: &str = "a comma or a closing bracket is missing";
    const MORE: &str = "something follows the JSON";
    const NUMBER: &str = "a number is not written as JSON has it";
    const WORD: &str = "a word is not true, false or null";
    const ESCAPE: &str = "a string holds an unknown escape";
    const HEX: &str = "a \\u escape needs four hexadecimal digits";
    const CONTROL: &str = "a string holds a control character";
    const UTF8: &str = "the body is not UTF-8";
    const MARK: &str = "the body starts with half a byte order mark";
    const DEEP: &str = "the JSON is nested too deeply";
    let kinds: [(&str, &[&[u8]]); 14] = [
        (
            CUT,
            &[
                b"",
                b" ",
                b"{",
                b"{\"a\"",
                b"{\"a\":",
                b"{\"a\":1",
                b"[[",
                b"\"a",
                b"\"a\\",
                b"\"\\u00",
                b"tru",
                b"\"\xc3",
                b"\xef\xbb",
            ],
        ),
        (CUT, &[b"-", b"1.", b"1e", b"1e+"]),
        (KEY, &[b"{a:1}", b"{\"a\":1,}", b"{'a':1}", b"{1:2}", b"{,}", b"{\"x\":{a:1}}", b"{\"x\":{\"a\":1,}}"]),
        (COLON, &[b"{\"a\" 1}", b"{\"a\",1}", b"{\"a\"}", b"{\"x\":{\"a\"=1}}"]),
        (
            VALUE,
            &[
                b",",
                b"]",
                b"[1,]",
                b"[,1]",
                b"'a'",
                b"NaN",
                b"Infinity",
                b"+1",
                b".5",
                b"hello",
                b"/*x*/{}",
                b"\xff",
                b"\xc2\xa0{}",
            ],
        ),
        (END, &[b"[1 2]", b"{\"a\":1]", b"[\"a\":1]", b"[1}", b"[01]", b"[-01]", b"[1.5.2]", b"[0x1]", b"{\"x\":[1\"a\"]}"]),
        (MORE, &[b"{} {}", b"{}x", b"{\"a\":1}}", b"[]]", b"\"a\"\"b\"", b"nulll", b"01", b"1,", b"{}\0"]),
        (NUMBER, &[b"[1.]", b"[-]", b"[1e]", b"[1e+]", b"[-x]", b"[1.e5]", b"{\"x\":[-,1]}"]),
        (WORD, &[b"[tru]", b"[nul]", b"[fals,1]", b"{\"x\":{\"y\":nope}}"]),
        (ESCAPE, &[b"\"\\x\"", b"{\"\\'\":1}", b"{\"model\":\"\\0\"}", b"[[\"\\U0041\"]]"]),
        (HEX, &[b"\"\\u12g4\"", b"\"\\u12\"", b"[\"\\u{41}\"]", b"{\"model\":\"\\u+123\"}"]),
        (
            CONTROL,
            &[b"\"\x01\"", b"{\"model\":\"a\nb\"}", b"{\"x\":[\"\ttab\"]}", b"{\"mo\0del\":1}", b"[\"0123456789abcdef\x1f\"]"],
        ),
        (
            UTF8,
            &[
                b"\"\xff\"",
                b"[\"\xe2\x82\"]",
                b"{\"\xed\xa0\x80\":1}",
                b"{\"model\":\"\xc0\xaf\"}",
                b"\"\xf4\x90\x80\x80\"",
                b"\"\xc3\\n\"",
            ],
        ),
        (MARK, &[b"\xef\xbb{}", b"\xef{}"]),
    ];
    let deep = ["[".repeat(17) + &"]".repeat(17), "{\"a\":".repeat(17) + "1" + &"}".repeat(17)];
    let deep: Vec<&[u8]> = deep.iter().map(String::as_bytes).collect();
    for (why, documents) in kinds.into_iter().chain([(DEEP, deep.as_slice())]) {
        for document in documents {
            let text = String::from_utf8_lossy(document);
            assert_eq!(scan(&["/model"], &[document], OnDuplicateKey::Reject).0, Err(Malformed(why)), "{text}");
            let bytes: Vec<&[u8]> = document.chunks(1).collect();
            assert_eq!(scan(&["/model"], &bytes, OnDuplicateKey::Reject).0, Err(Malformed(why)), "{text} byte by byte");
        }
    }
}

#[test]
fn what_is_odd_and_still_json_is_read() {
    for document in [
        "[1e999,-0,1E-7,123456789012345678901234567890.5e+0001]",
        "[\"\\ud800\",\"\\udc00\\ud800\",\"\\u0000\",\"\u{7f}\u{2028}\"]",
        "{\"\":{\"\":\"\"},\"y\":1,\"y\":2}",
        "\u{feff}\t\r\n [ ] ",
        "0",
        "\"\"",
        "null",
    ] {
        assert_eq!(model(document), Slot::Absent, "{document}");
    }
    assert_eq!(model(&("[".repeat(16) + &"]".repeat(16))), Slot::Absent);
    assert_eq!(model(r#"{"model":"a\u0000\"\nü\\/"}"#), text("a\0\"\nü\\/"));
}

#[test]
fn nesting_is_kept_through_many_levels_and_chunks() {
    let levels = 1000;
    let opened: String = (0..levels).map(|level| if level % 3 == 0 { r#"{"k":"# } else { "[" }).collect();
    let closed: String = (0..levels).rev().map(|level| if level % 3 == 0 { "}" } else { "]" }).collect();
    let document = format!(r#"{{"x":{opened}1{closed},"model":"m"}}"#);
    for step in [1, 7, document.len()] {
        for (max_depth, result) in [(levels + 1, Ok(())), (levels, Err(Malformed("the JSON is nested too deeply")))] {
            let mut scanner = Scanner::new([&Pointer::to_key("model")], max_depth, OnDuplicateKey::Reject);
            let scanned =
                document.as_bytes().chunks(step).try_for_each(|chunk| scanner.push(chunk)).and_then(|()| scanner.finish());
            assert_eq!(scanned, result, "{max_depth} levels in steps of {step}");
        }
    }
    // One bracket of the wrong kind, at every level.
    for level in 0..levels {
        let mut wrong = document.clone();
        let at = document.len() - r#","model":"m"}"#.len() - 1 - level;
        let other = if &document[at..=at] == "]" { "}" } else { "]" };
        wrong.replace_range(at..=at, other);
        let mut scanner = Scanner::new([&Pointer::to_key("model")], levels + 1, OnDuplicateKey::Reject);
        assert_eq!(scanner.push(wrong.as_bytes()), Err(Malformed("a comma or a closing bracket is missing")), "{level}");
    }
}

#[test]
fn a_key_that_is_read_may_stand_once() {
    for (document, pointer, duplicate, last) in [
        (r#"{"model":"a","model":"b"}"#, "/model", true, text("b")),
        (r#"{"model":"a","m\u006fdel":"b"}"#, "/model", true, text("b")),
        (r#"{"model":"a","model":null}"#, "/model", true, Slot::NotText),
        (r#"{"x":{"s":"a"},"x":{"s":"b"}}"#, "/x/s", true, text("b")),
        (r#"{"x":{"s":"a"},"x":{}}"#, "/x/s", true, Slot::Absent),
        (r#"{"x":{"s":"a","s":"b"}}"#, "/x/s", true, text("b")),
        (r#"{"x":{"model":"a"},"model":"b"}"#, "/model", false, text("b")),
        (r#"{"y":1,"y":2,"model":"b"}"#, "/model", false, text("b")),
        (r#"{"messages":[{"model":"a","model":"b"}],"model":"c"}"#, "/model", false, text("c")),
    ] {
        let (result, scanner) = scan(&[pointer], &[document.as_bytes()], OnDuplicateKey::Reject);
        assert_eq!((result, scanner.has_duplicate()), (Ok(()), duplicate), "{document}");
        let (result, scanner) = scan(&[pointer], &[document.as_bytes()], OnDuplicateKey::Last);
        assert_eq!((result, scanner.has_duplicate(), scanner.slot(0)), (Ok(()), false, &last), "{document}");
    }
}

#[test]
fn a_value_is_settled_as_soon_as_nothing_can_change_it() {
    let settled_after = |document: &str, pointer: &str, on_duplicate| {
        let pointer = Pointer::parse(pointer).unwrap();
        let mut scanner = Scanner::new([&pointer], 16, on_duplicate);
        document.bytes().position(|byte| {
            scanner.push(&[byte]).unwrap();
            scanner.is_settled(0)
        })
    };
    let document = r#"{"model":"a","x":{"s":"b"},"z":1}"#;
    assert_eq!(settled_after(document, "/model", OnDuplicateKey::Reject), document.find(r#","x"#).map(|at| at - 1));
    assert_eq!(settled_after(document, "/model", OnDuplicateKey::Last), Some(document.len() - 1));
    assert_eq!(settled_after(document, "/x/s", OnDuplicateKey::Reject), document.find(r#""},"z"#));
    assert_eq!(settled_after(document, "/x/t", OnDuplicateKey::Reject), document.find(r#"},"z"#));
    assert_eq!(settled_after(document, "/x/t", OnDuplicateKey::Last), Some(document.len() - 1));
    assert_eq!(settled_after(document, "/none", OnDuplicateKey::Reject), Some(document.len() - 1));
}

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
    fn agrees_with_serde_json_on_valid_documents_split_anywhere(value in json(), pretty: bool, cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6)) {
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
    fn agrees_with_serde_json_on_what_is_json(value in json(), edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..4)) {
        let mut document = serde_json::to_vec(&value).unwrap();
        for (at, byte, remove) in edits {
            if document.is_empty() { break }
            let at = at.index(document.len());
            if remove { document.remove(at); } else { document[at] = byte; }
        }
        // serde_json refuses numbers that no f64 holds and, in strings it keeps, lone surrogates: grammar and value are two things.
        let oracle = serde_json::from_slice::<&serde_json::value::RawValue>(&document).is_ok() && std::str::from_utf8(&document).is_ok();
        let whole = scan(&POINTERS, &[&document], OnDuplicateKey::Reject).0.is_ok();
        prop_assert_eq!(whole, oracle, "{}", String::from_utf8_lossy(&document));
    }

    #[test]
    fn chunk_borders_never_matter(document in "[{}\\[\\]:,\"\\\\model0-9eE+. tué-]{0,60}", noise in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..9)) {
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
