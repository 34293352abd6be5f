//! A document an operator wrote, YAML or JSON, as a tree whose every node knows its [`Place`]. Reading is bounded: depth, nodes
//! (after aliases are expanded) and bytes have limits, so that no text can take the process down. It knows neither the catalog nor
//! the settings; what may stand where is said by a [`shape::Shape`] and judged by [`check`].

pub mod check;
mod json;
mod mapping;
pub mod reference;
mod scalar;
pub mod schema;
pub mod shape;
pub mod suggest;
#[cfg(test)]
mod tests;
pub mod units;
mod yaml;

use crate::diagnostic::{Diagnostic, Place};

/// The largest text that is read, in bytes. A catalog of 10,000 tenants takes about 3 MB.
pub const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The deepest nesting; a catalog needs nine levels, metadata a few more.
pub const MAX_DEPTH: usize = 64;
/// The most nodes a document may have once aliases are expanded: what keeps "a billion laughs" from filling the memory.
pub const MAX_NODES: usize = 2_000_000;
/// The most nodes and bytes that YAML's anchors and aliases may copy: a catalog of 100,000 tenants that all merge the same five
/// fields takes half of it. A copied node takes about a hundred bytes.
pub const MAX_COPIED_NODES: usize = 1_000_000;
pub const MAX_COPIED_BYTES: usize = 16 * 1024 * 1024;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub value: Value,
    pub place: Place,
}

/// A value, typed as the core schema of YAML 1.2 has it: only what is not quoted can be a number, a boolean or null.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    /// Also integers that fit no `i64`.
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// In the order written; no key twice.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Keys that are no text (numbers, booleans) are taken as they are written.
    pub key: String,
    pub place: Place,
    pub value: Node,
}

/// How a text is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Yaml,
    Json,
}

impl Format {
    /// By the ending of the name: `.json` is JSON, everything else YAML.
    #[must_use]
    pub fn of(name: &str) -> Self {
        if name.ends_with(".json") { Self::Json } else { Self::Yaml }
    }
}

impl Node {
    /// The value under `key`; `None` too if this is no mapping.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The entries of a mapping; none if it is something else.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none if it is something else.
    #[must_use]
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        match self.value {
            Value::Bool(flag) => Some(flag),
            _ => None,
        }
    }

    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self.value {
            Value::Integer(integer) => Some(integer),
            _ => None,
        }
    }

    /// As JSON, without places; `None` if a number is not finite.
    #[must_use]
    pub fn to_json(&self) -> Option<serde_json::Value> {
        Some(match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(flag) => (*flag).into(),
            Value::Integer(integer) => (*integer).into(),
            Value::Float(float) => serde_json::Number::from_f64(*float)?.into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect::<Option<Vec<_>>>()?.into(),
            Value::Map(entries) => serde_json::Value::Object(
                entries
                    .iter()
                    .map(|entry| Some((entry.key.clone(), entry.value.to_json()?)))
                    .collect::<Option<serde_json::Map<_, _>>>()?,
            ),
        })
    }
}

/// The value of a text that stands alone and without quotes, as `80`, `true` or `some words`.
#[must_use]
pub fn plain(text: &str) -> Value {
    scalar::resolve(text)
}

/// True if the text says itself where it ends, so that nothing of it can be cut off without a trace: JSON and other documents in
/// braces, and YAML whose last line is `...`.
#[must_use]
pub fn shows_its_end(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim();
    text.starts_with('{') && text.ends_with('}') || text.lines().next_back() == Some("...")
}

/// Reads one document. An empty text, or one of comments only, is a null node at the source as a whole. The node is `None` if the
/// text cannot be read; there is at least one error then. Duplicate keys are errors beside a node that holds the first of each.
#[must_use]
pub fn parse(source: &str, text: &str, format: Format) -> (Option<Node>, Vec<Diagnostic>) {
    if text.len() > MAX_BYTES {
        let message = format!("is larger than {} MiB", MAX_BYTES / 1024 / 1024);
        return (None, vec![Diagnostic::error("too-big", &Place::whole(source), message).hint("split the catalog")]);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        Format::Json => json::parse(source, text),
        // YAML 1.2 takes all JSON but its surrogate pairs (`\ud83d\ude00`), so what looks like JSON is tried as JSON first.
        Format::Yaml if text.trim_start().starts_with('{') => match json::parse(source, text) {
            (Some(node), found) => (Some(node), found),
            (None, _) => yaml::parse(source, text),
        },
        Format::Yaml => yaml::parse(source, text),
    }
}
