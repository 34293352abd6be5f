//! A URL with a password or a token, pasted into any field: it is never shown.

use super::document::TOP;
use crate::diagnostic::{Diagnostic, render};
use crate::document::shape::{Record, Shape};
use crate::settings::Settings;
use crate::settings::read::{Flags, read};

/// What begins with `zq` is secret.
const PASTED: &[&str] = &[
    "redis://user:zqhunter@h:6379/0",
    "redis://:zqhunter@zqtail@h",
    "redis://:zqhunter/zqtail@h/s/{session}",
    "redis://:zqhun zqter@zqtail@h",
    "redis://:{zqhunter}@h/{session}",
    "http://user:{zqhunter}@h/{session}",
    "redis://:zqhunter",
    "redis://user:zqhunter",
    "user:zqhunter@zqtail@h:6379",
    "http://h/s/{session}?password=zqhunter",
    "http://h/s?a=b&token=zqhunter=zqtail",
    "h:6379?token=zqhunter",
    "http://h/s#access_token=zqhunter",
];

/// What must stand around a value, so that it stands in a field: everywhere, in lists too.
fn around(record: &Record, before: &str, after: &str, found: &mut Vec<(String, String)>) {
    found.push((before.to_owned(), after.to_owned()));
    for field in record.fields {
        let (before, after) = (format!("{before}{{\"{}\": ", field.name), format!("}}{after}"));
        match field.shape {
            Shape::Record(inner) => around(inner, &before, &after, found),
            Shape::List(Shape::Record(inner)) => around(inner, &format!("{before}["), &format!("]{after}"), found),
            Shape::List(_) => found.push((format!("{before}["), format!("]{after}"))),
            _ => found.push((before, after)),
        }
    }
}

fn told(name: &str, text: &str, result: Result<(Settings, Vec<Diagnostic>), Vec<Diagnostic>>) {
    let found = result.map_or_else(|found| found, |(_, warnings)| warnings);
    let shown = render::text(&found, |source| (source == name).then_some(text), false, None) + &render::json(&found).to_string();
    assert!(!shown.contains("zq"), "{text}\n{shown}");
}

#[test]
fn what_is_pasted_into_a_field_is_never_shown() {
    let mut places = Vec::new();
    around(&TOP, "", "", &mut places);
    assert!(places.len() > 80, "{}", places.len());
    let directories = ["http", "redis", "memory"].map(|kind| format!("{{session: {{directory: {kind}, url: VALUE}}}}"));
    let keys = ["{VALUE: 1}", "{session: {VALUE: 1, VALUE: 2}}", "session: {directory: redis, url: \"redis://d\", key: VALUE}"];
    let lines = ["session: VALUE\nlisten: x\n", "session:\n  timeout: VALUE\n  url: VALUE\n"];
    let texts = places.iter().map(|(before, after)| format!("{before}VALUE{after}"));
    let texts: Vec<String> = texts.chain(directories).chain(keys.into_iter().chain(lines).map(str::to_owned)).collect();
    for value in PASTED {
        for text in &texts {
            for quoted in [format!("\"{value}\""), format!("'{value}'"), (*value).to_owned()] {
                let text = text.replace("VALUE", &quoted);
                told("cascade.yaml", &text, read(Some(("cascade.yaml", &text)), std::iter::empty(), Flags::default()));
            }
        }
    }
}

#[test]
fn what_is_pasted_into_a_variable_or_a_flag_is_never_shown() {
    let variables = super::document::variables();
    for value in PASTED {
        for name in &variables {
            let kind = [("CASCADE_SESSION__DIRECTORY", "redis"), (name.as_str(), *value)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
            told("", value, read(None, kind.into_iter(), Flags::default()));
        }
        let flag = || Some((*value).to_owned());
        let flags = Flags { catalog: flag(), listen: flag(), admin: flag() };
        told("", value, read(None, std::iter::empty(), flags));
    }
}
