//! What is JSON and what is not, and what is said of the latter.

use super::*;

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
