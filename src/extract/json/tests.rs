//! Documents and the values that are found in them.

mod grammar;
mod properties;

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
