//! Documents as they come: places, formats, and texts made to hurt.

use proptest::prelude::*;

use super::{Format, MAX_BYTES, Node, Value, parse};
use crate::diagnostic::Diagnostic;

fn read(text: &str, format: Format) -> Node {
    let (node, found) = parse("f", text, format);
    assert_eq!(found, [], "{text}");
    node.unwrap()
}

fn yaml(text: &str) -> Node {
    read(text, Format::Yaml)
}

fn faults(text: &str, format: Format) -> Vec<String> {
    let (_, found) = parse("f", text, format);
    found.iter().map(|Diagnostic { code, place, .. }| format!("{code} {place}")).collect()
}

/// `path line:column` of every key and value, depth first.
fn places(node: &Node) -> Vec<String> {
    fn walk(node: &Node, path: &str, found: &mut Vec<String>) {
        found.push(format!("{path} {}:{}", node.place.line, node.place.column));
        for entry in node.entries() {
            let path = format!("{path}.{}", entry.key);
            found.push(format!("{path}: {}:{}", entry.place.line, entry.place.column));
            walk(&entry.value, &path, found);
        }
        for (at, item) in node.items().iter().enumerate() {
            walk(item, &format!("{path}[{at}]"), found);
        }
    }
    let mut found = Vec::new();
    walk(node, "", &mut found);
    found
}

#[test]
fn every_key_and_value_knows_its_place() {
    let expected = [
        " 1:1",
        ".a: 1:1",
        ".a 2:3",
        ".a.é: 2:3",
        ".a.é 2:8",
        ".a.b: 3:3",
        ".a.b 4:5",
        ".a.b[0] 4:5",
        ".a.b[1] 5:5",
        ".c: 6:1",
        ".c 6:4",
    ];
    let text = "a:\n  \"é\": 1 # x\n  b:\n  - é\n  - y\nc: {}\n";
    assert_eq!(places(&yaml(text)), expected);
    assert_eq!(places(&yaml(&text.replace('\n', "\r\n"))), expected, "CRLF");
    assert_eq!(places(&yaml(&format!("\u{feff}{text}"))), expected, "a byte order mark");
    assert_eq!(places(&yaml(&format!("---\n{text}...\n")))[0], " 2:1");
    let json = "{\n\t\"é\": {\"b\": [1,\r\n  2]}\n}";
    let expected = [" 1:1", ".é: 2:2", ".é 2:7", ".é.b: 2:8", ".é.b 2:13", ".é.b[0] 2:14", ".é.b[1] 3:3"];
    assert_eq!(places(&read(json, Format::Json)), expected);
    assert_eq!(places(&read(&format!("\u{feff}{json}"), Format::Json)), expected);
}

#[test]
fn json_is_read_as_json_whatever_the_file_is_called() {
    let text = r#"{"a": "\/\ud83d\ude00\u00e9\n", "b": [-1.5e3, 12, true, null], "": {}}"#;
    let value = |node: &Node| node.to_json().unwrap();
    let expected: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(value(&read(text, Format::Json)), serde_json::json!({"a": "/😀é\n", "b": [-1500.0, 12, true, null], "": {}}));
    assert_eq!(value(&yaml(text)), value(&read(text, Format::Json)));
    assert_eq!(value(&yaml(text))["a"], expected["a"]);
    let with_tabs = "\t{\n\t\t\"a\":\t1\n\t}\n";
    assert_eq!(value(&yaml(with_tabs)), serde_json::json!({"a": 1}));
    // What only looks like JSON is YAML.
    assert_eq!(value(&yaml("{a: [b], c: 'd'} # flow style")), serde_json::json!({"a": ["b"], "c": "d"}));
}

#[test]
fn what_is_no_json_is_refused_where_it_goes_wrong() {
    for (text, expected) in [
        ("{\"a\": 1,}", "syntax f:1:9"),
        ("{\"a\" 1}", "syntax f:1:6"),
        ("{\"a\": 01}", "syntax f:1:7"),
        ("{\"a\": 1} x", "syntax f:1:10"),
        ("{\"a\": tru}", "syntax f:1:7"),
        ("{\"a\": \"\\ud800\"}", "syntax f:1:7"),
        ("{\"a\": \"\\x\"}", "syntax f:1:7"),
        ("{\"a\": \"x\ny\"}", "syntax f:1:7"),
        ("{\"a\": \"x", "syntax f:1:7"),
        ("{\"a\": \"\\", "syntax f:1:7"),
        ("[1, 2", "syntax f:1:6"),
        ("{'a': 1}", "syntax f:1:2"),
        ("# x\n{}", "syntax f:1:1"),
    ] {
        assert_eq!(faults(text, Format::Json), [expected], "{text}");
    }
}

#[test]
fn keys_that_are_no_text_are_taken_as_written() {
    let node = yaml("1.10: a\ntrue: b\n~: c\n2024-01-01: d\n");
    let keys: Vec<&str> = node.entries().iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["1.10", "true", "~", "2024-01-01"]);
}

#[test]
fn quotes_blocks_and_tags_make_text() {
    let node = yaml("a: '1'\nb: \"true\"\nc: |\n  1\nd: !!str 2\ne: 2\nf: !!int 3\n");
    let texts: Vec<Option<&str>> = node.entries().iter().map(|entry| entry.value.text()).collect();
    assert_eq!(texts, [Some("1"), Some("true"), Some("1\n"), Some("2"), None, None]);
    assert_eq!(faults("a: !secret x", Format::Yaml), ["unsupported-tag f:1:4"]);
    assert_eq!(faults("a: !secret [x]", Format::Yaml), ["unsupported-tag f:1:4"]);
}

#[test]
fn aliases_and_merge_keys_are_expanded() {
    let node = yaml("x: &x {a: 1, b: [2]}\ny: &y {b: 3, c: 4}\nz: {<<: [*x, *y], c: 5}\nw: *x\nv: {\"<<\": 1}\n&k key: *k\n");
    let expected = serde_json::json!({"x": {"a": 1, "b": [2]}, "y": {"b": 3, "c": 4}, "z": {"c": 5, "a": 1, "b": [2]},
        "w": {"a": 1, "b": [2]}, "v": {"<<": 1}, "key": "key"});
    assert_eq!(node.to_json().unwrap(), expected);
    // What is wrong in an alias is wrong where it is written.
    assert_eq!(node.get("w").unwrap().get("b").unwrap().place.line, 1);
}

#[test]
fn an_empty_text_is_nothing() {
    for text in ["", "\n\n", "# a\n", "---\n", "\u{feff}"] {
        assert_eq!(yaml(text).value, Value::Null, "{text:?}");
    }
    assert_eq!(read(" \n", Format::Json).value, Value::Null);
}

#[test]
fn a_text_made_to_hurt_is_refused() {
    let laughs: String = (1..10).map(|i| format!("a{i}: &a{i} [{}]\n", format!("*a{},", i - 1).repeat(9))).collect();
    let long: String = (1..24).map(|i| format!("a{i}: &a{i} [*a{}, *a{}]\n", i - 1, i - 1)).collect();
    for (text, code) in [
        (format!("a0: &a0 [x]\n{laughs}"), "too-big"),
        (format!("a0: &a0 {}\n{long}", "x".repeat(1000)), "too-big"),
        ("[".repeat(10_000), "too-deep"),
        ("{a: ".repeat(10_000), "too-deep"),
        ("- ".repeat(10_000), "too-deep"),
        ((0..1000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect(), "too-deep"),
        ("x".repeat(MAX_BYTES + 1), "too-big"),
    ] {
        let found = faults(&text, Format::Yaml);
        assert!(found.len() == 1 && found[0].starts_with(code), "{found:?} for {}", &text[..40]);
    }
    for text in ["[".repeat(1_000_000), "{\"a\":".repeat(1_000_000)] {
        assert!(faults(&text, Format::Json)[0].starts_with("too-deep"));
    }
}

/// `&a1 [&a2 [&a3 […]]]`: what every level holds is kept once more for each level above it.
#[test]
fn anchors_copy_no_more_than_their_budget() {
    let inner = "x,".repeat(60_000);
    let nested = format!("{}{inner}{}", (0..50).map(|level| format!("&a{level} [")).collect::<String>(), "]".repeat(50));
    let text = "x".repeat(1_000_000);
    let scalars: String = (0..40).map(|at| format!("a{at}: &a{at} {text}\n")).collect();
    let merges: String = (0..2_000).map(|at| format!("m{at}: {{<<: *base}}\n")).collect();
    let fields: String = (0..1_000).map(|at| format!("  f{at}: 1\n")).collect();
    for text in [nested, scalars, format!("base: &base\n{fields}{merges}")] {
        let found = faults(&text, Format::Yaml);
        assert!(found.len() == 1 && found[0].starts_with("too-big"), "{found:?} for {}", &text[..40]);
    }
    // A field in common for each of many is what merge keys are for.
    let tenants: String = (0..20_000).map(|at| format!("t{at}: {{<<: *base}}\n")).collect();
    assert_eq!(yaml(&format!("base: &base {{a: 1, b: [x, y]}}\n{tenants}")).entries().len(), 20_001);
}

#[test]
fn an_alias_does_not_reach_deeper_than_what_is_written_out() {
    let tall: String = (1..9).map(|at| format!("a{at}: &a{at} {}*a{}{}\n", "[".repeat(9), at - 1, "]".repeat(9))).collect();
    assert_eq!(faults(&format!("a0: &a0 [x]\n{tall}"), Format::Yaml), ["too-deep f:8:18"]);
}

/// One line of many megabytes takes no longer than the same with line breaks: each place goes on from the one before.
#[test]
fn places_in_one_long_line_are_found_in_one_walk() {
    let entry = |at: usize| format!("\"é{at}\":[{at},{{\"x\":\"é\"}}]");
    let line = format!("{{{}}}", (0..100_000).map(entry).collect::<Vec<_>>().join(","));
    let node = read(&line, Format::Json);
    let last = node.entries().last().unwrap();
    let column = |part: &str| u32::try_from(line[..line.rfind(part).unwrap()].chars().count() + 1).unwrap();
    assert_eq!((last.place.line, last.place.column), (1, column("\"é99999\"")));
    assert_eq!(last.value.items()[1].place.column, column("{\"x\""));
    assert_eq!(yaml(&line), node);
}

#[test]
fn a_large_mapping_still_finds_its_duplicates() {
    let text: String = (0..100).map(|n| format!("k{n}: 1\n")).collect();
    assert_eq!(faults(&format!("{text}k3: 2\nk99: 2\n"), Format::Yaml), ["duplicate-key f:101:1", "duplicate-key f:102:1"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}|[-:{}\\[\\],&*!|>'\"%@`#?\\\\ \n\ta1é~<]{0,80}") {
        for format in [Format::Yaml, Format::Json] {
            let (node, found) = parse("f", &text, format);
            prop_assert!(node.is_some() || !found.is_empty());
        }
    }

    #[test]
    fn what_is_written_as_json_is_read_back(text in ".{0,20}", number in any::<i64>(), key in ".{0,10}") {
        let value = serde_json::json!({key: [text, number, {"x": null}]});
        for written in [value.to_string(), format!("{value:#}")] {
            let (node, found) = parse("f", &written, Format::Json);
            prop_assert_eq!(found, []);
            prop_assert_eq!(node.and_then(|node| node.to_json()), Some(value.clone()));
        }
    }
}
