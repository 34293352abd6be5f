//! How an answer is written: JSON that people can read, or plain text for who asks with `?format=text`. What is answered is the
//! endpoints' business.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::error::Problem;

/// The parameters of a query, all of them known and each written once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters(Vec<(String, String)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Text,
}

impl Parameters {
    /// A parameter that is written wrong must not be one that nobody wrote: a cluster would cool for longer than was meant.
    /// `format` is known everywhere.
    pub(super) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let bad = |what: String, hint: String| Problem::new(StatusCode::BAD_REQUEST, what, hint);
        let pairs: Vec<(String, String)> = match axum::extract::Query::try_from_uri(uri) {
            Ok(axum::extract::Query(pairs)) => pairs,
            Err(_) => return Err(bad("the query cannot be read".to_owned(), "write name=value, joined by &".to_owned())),
        };
        for (at, (name, value)) in pairs.iter().enumerate() {
            if name != "format" && !known.contains(&name.as_str()) {
                let names: Vec<&str> = known.iter().copied().chain(["format"]).collect();
                return Err(bad(format!("there is no parameter `{name}`"), format!("the parameters are {}", names.join(", "))));
            }
            if pairs[..at].iter().any(|(before, _)| before == name) {
                return Err(bad(format!("the parameter `{name}` appears twice"), "write it once".to_owned()));
            }
            if name == "format" && Format::parse(value).is_none() {
                return Err(bad(format!("there is no format `{value}`"), "the formats are json and text".to_owned()));
            }
        }
        Ok(Self(pairs))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn format(&self) -> Format {
        self.get("format").and_then(Format::parse).unwrap_or(Format::Json)
    }
}

impl Format {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "json" => Some(Self::Json),
            "text" => Some(Self::Text),
            _ => None,
        }
    }

    pub(super) fn answer(self, value: &Value) -> Response {
        match self {
            Self::Json => json(value),
            Self::Text => text(outline(value)),
        }
    }
}

/// With lines and a newline at the end, so that a terminal shows it as it is.
pub(super) fn json(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}

pub(super) fn text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

/// A value as indented lines: `name: value`, `- item`. Lists of plain values take one line.
fn outline(value: &Value) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    if out.is_empty() {
        out.push_str(&word(value));
        out.push('\n');
    }
    out
}

fn write(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                out.push_str(&indent);
                out.push_str(&shown(name));
                out.push(':');
                inside(value, depth, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                let mut inner = String::new();
                write(item, depth + 1, &mut inner);
                let text = if inner.is_empty() { word(item) } else { inner.trim_start().trim_end_matches('\n').to_owned() };
                out.push_str(&format!("{indent}- {text}\n"));
            }
        }
        _ => {}
    }
}

fn inside(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            write(value, depth + 1, out);
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            out.push('\n');
            write(value, depth + 1, out);
        }
        _ => {
            out.push(' ');
            out.push_str(&word(value));
            out.push('\n');
        }
    }
}

/// What fits on one line.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => shown(text),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(word).collect::<Vec<_>>().join(", "),
        Value::Object(_) => "none".to_owned(),
    }
}

/// Control characters would act on the terminal.
fn shown(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_outline_reads_like_the_value() {
        let value = json!({
            "revision": "r1", "stale": false, "last_error": null, "none": [], "empty": {},
            "clusters": [{"name": "a", "tags": ["x", "y"]}, {"name": "b\u{1b}", "tags": []}],
            "models": {"m": {"chain": ["g"]}},
        });
        let lines = "revision: r1\nstale: no\nlast_error: -\nnone: none\nempty: none\nclusters:\n  - name: a\n    tags: x, y\n  \
                     - name: b\\u{1b}\n    tags: none\nmodels:\n  m:\n    chain: g\n";
        assert_eq!(outline(&value), lines);
        assert_eq!(outline(&json!("x")), "x\n");
    }

    #[test]
    fn parameters_are_known_and_written_once() {
        let read = |query: &str| Parameters::read(&format!("/x?{query}").parse().unwrap(), &["tenant"]);
        assert_eq!(read("tenant=a%20b&format=text").unwrap().get("tenant"), Some("a b"));
        assert_eq!(read("format=text").unwrap().format(), Format::Text);
        assert_eq!(read("").unwrap().format(), Format::Json);
        for bad in ["tenent=a", "tenant=a&tenant=b", "format=xml", "format=text&format=json", "pretty"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
