//! Holds `docs/request-reading.md` to what the reader does: every row of its tables is a path or a body, and is read here as the
//! page says, as a whole and byte by byte.

use std::fs;
use std::path::Path;

use crate::extract::dialect::{Dialect, ModelPlace, TABLE, VERSIONS};
use crate::extract::path::split_target;
use crate::extract::reader::{Needs, Reader};
use crate::extract::request::Request;
use crate::extract::source::Plan;
use crate::extract::{Access, Facts, Found, Limits, Trouble};
use crate::outcome::Reason;

/// The rows of the table whose head starts with this cell, below the first line that contains `after`.
fn table(after: &str, head: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/request-reading.md");
    let page = fs::read_to_string(path).unwrap();
    let below = page.split_once(after).unwrap_or_else(|| panic!("the page has no `{after}`")).1;
    let lines = below.lines().skip_while(|line| !line.starts_with(&format!("| {head} |")));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line[1..].split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}

/// What a cell shows as code, its notation undone.
fn bytes(cell: &str) -> Vec<u8> {
    let code = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`')).unwrap_or_else(|| panic!("no code: {cell}"));
    let code = code.replace('⏎', "\r\n");
    let mut bytes = Vec::new();
    let mut rest = code.as_str();
    while let Some((before, marked)) = rest.split_once('⟨') {
        bytes.extend_from_slice(before.as_bytes());
        let (mark, after) = marked.split_once('⟩').unwrap();
        match mark.split_once('×') {
            Some((what, times)) => bytes.extend(what.repeat(times.parse().unwrap()).bytes()),
            None if mark.is_empty() => {}
            None => bytes.push(u8::from_str_radix(mark, 16).unwrap()),
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// A finding in the page's words, with what it is for who fails closed where that is something else.
fn finding(facts: &Facts) -> String {
    match (&facts.trouble, &facts.doubt) {
        (None, Some(doubt)) => format!("{}, or `{}`", plain_finding(facts), doubt.as_str()),
        _ => plain_finding(facts),
    }
}

fn plain_finding(facts: &Facts) -> String {
    let reason = match (&facts.trouble, &facts.model) {
        (Some(Trouble::Malformed(_)), _) => Reason::MalformedBody,
        (Some(Trouble::TooLarge), _) => Reason::BodyTooLarge,
        (Some(Trouble::DuplicateKey), _) => Reason::DuplicateKey,
        (Some(other), _) => panic!("{other:?}"),
        (None, Found::Value(model)) => return format!("model `{model}`"),
        (None, Found::Nothing) => Reason::MissingModel,
        (None, Found::Unusable) => Reason::UnknownModel,
    };
    format!("`{}`", reason.as_str())
}

fn whole(head: &Request, body: &[u8]) -> String {
    let mut reader = Reader::new(head, &Plan::default(), Needs::default(), &Limits::default());
    reader.push(body);
    reader.finish();
    finding(&reader.facts().0)
}

/// What is known when everything needed is, and what trouble shows up later.
fn early(head: &Request, body: &[u8]) -> String {
    let mut reader = Reader::new(head, &Plan::default(), Needs::default(), &Limits::default());
    let mut rest = body;
    while let (false, Some((byte, after))) = (reader.is_ready(), rest.split_first()) {
        reader.push(&[*byte]);
        rest = after;
    }
    if !reader.is_ready() {
        reader.finish();
    }
    let facts = reader.facts().0;
    rest.chunks(1).for_each(|byte| reader.push(byte));
    reader.finish();
    let later = reader.trouble().cloned().or_else(|| reader.doubt()).filter(|_| facts.trouble.is_none() && facts.doubt.is_none());
    finding(&facts) + &later.map_or_else(String::new, |later| format!(", then `{}`", later.as_str()))
}

#[test]
fn odd_and_broken_bodies_are_read_as_the_page_says() {
    for (title, path, content_type, at_least) in [
        ("\nJSON, at", "/v1/chat/completions", "application/json", 35),
        ("\nMultipart, at", "/v1/audio/transcriptions", "multipart/form-data; boundary=b", 10),
        ("\nA form, at", "/custom/predict", "application/x-www-form-urlencoded", 10),
    ] {
        let rows = table(title, "body");
        assert!(rows.len() >= at_least, "{title}: {} rows", rows.len());
        for row in rows {
            let (body, expected) = (bytes(&row[0]), &row[1]);
            let mut head = Request::new(path);
            head.add_header("content-type", content_type);
            assert_eq!(whole(&head, &body), *expected, "{} as a whole", row[0]);
            let expected = if row[2].is_empty() { expected } else { &row[2] };
            assert_eq!(early(&head, &body), *expected, "{} byte by byte", row[0]);
        }
    }
}

#[test]
fn paths_name_their_model_where_the_page_says_with_and_without_a_prefix() {
    let rows = table("`dialect: auto`", "API");
    assert!(rows.len() > 20);
    for row in rows {
        let target = String::from_utf8(bytes(&row[1])).unwrap().replace("{model}", "m%3A1");
        let path = split_target(&target).0;
        for prefix in ["", "/team-a", "/eu/v1/openai"] {
            let place = match Dialect::of(&format!("{prefix}{path}"), "POST").model {
                ModelPlace::Path(model) => {
                    assert_eq!(model.as_deref(), Some("m:1"), "{prefix}{path}");
                    "the path"
                }
                ModelPlace::KnownBody => "the body",
                ModelPlace::AnyBody => "what the content type says",
                ModelPlace::Query(name) => {
                    assert!(row[1].contains(&format!("?{name}=")), "{row:?}");
                    "the query"
                }
                ModelPlace::Nowhere => "nowhere",
            };
            assert_eq!(place, row[2], "{prefix}{path}");
        }
    }
}

#[test]
fn requests_without_a_model_are_those_of_the_page() {
    let rows = table("\n## Requests without a model", "methods");
    let told: Vec<(String, String)> =
        rows.iter().map(|row| (row[0].replace(", ", " "), String::from_utf8(bytes(&row[1])).unwrap())).collect();
    let known: Vec<(String, String)> = TABLE.iter().map(|(methods, path)| ((*methods).to_owned(), (*path).to_owned())).collect();
    assert_eq!(told, known);
    for (methods, path) in told {
        let path = path.replace("**", "x/y").replace('*', "x");
        for method in ["GET", "HEAD", "POST", "DELETE", "PATCH", "PUT"] {
            let asked = if method == "HEAD" { "GET" } else { method };
            // What one row leaves out another may hold.
            if methods.split(' ').any(|known| known == asked) {
                let expected = if asked == "GET" { Access::Read } else { Access::Write };
                assert_eq!(Dialect::of(&path, method).by_nature, Some(expected), "{method} {path}");
            }
        }
        if let Some(rest) = path.strip_prefix("/v1/") {
            for version in VERSIONS {
                let method = methods.split(' ').next().unwrap_or_default();
                assert!(Dialect::of(&format!("/team/{version}/{rest}"), method).by_nature.is_some(), "{version} {rest}");
            }
        }
    }
}

#[test]
fn refusals_have_the_status_that_the_page_says() {
    let rows = table("What each finding leads to", "finding");
    assert_eq!(rows.len(), 8);
    for row in rows {
        let reason = Reason::parse(row[0].trim_matches('`')).unwrap();
        assert!(reason.can_reject(), "{row:?}");
        assert_eq!(reason.status().to_string(), row[2], "{row:?}");
    }
}

#[test]
fn the_limits_of_the_page_are_the_defaults() {
    let limits = Limits::default();
    let mebibytes = |bytes: u64| format!("({} MiB)", bytes >> 20);
    let rows = table("\n## Sizes", "limit");
    for (name, value) in [
        ("limits.max_body", mebibytes(limits.max_body)),
        ("limits.max_decompressed", mebibytes(limits.max_decompressed)),
        ("limits.max_depth", format!("({})", limits.max_depth)),
    ] {
        let row = rows.iter().find(|row| row[0].contains(&format!("`{name}`"))).unwrap();
        assert!(row[0].ends_with(&value), "{row:?}");
    }
}
