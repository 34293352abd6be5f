//! The files of a catalog as one document: mappings merge, `tests` and `invariants` are strung together, and any other value may be
//! written once. What the values mean is not known here.

use std::collections::HashMap;

use crate::diagnostic::Diagnostic;
use crate::document::{Entry, Node, Value};

/// One document out of many, and every value that is written twice. `None` without documents.
pub(super) fn merge(documents: Vec<Node>, found: &mut Vec<Diagnostic>) -> Option<Node> {
    Merge { found }.nodes(documents, &mut Vec::new())
}

struct Merge<'f> {
    found: &'f mut Vec<Diagnostic>,
}

impl Merge<'_> {
    fn nodes(&mut self, mut nodes: Vec<Node>, path: &mut Vec<String>) -> Option<Node> {
        if nodes.len() > 1 {
            // `acme:` with nothing after it says nothing that another file could contradict.
            nodes = says_something(nodes);
        }
        if nodes.len() < 2 {
            return nodes.pop();
        }
        let place = nodes.first()?.place.clone();
        if nodes.iter().all(|node| matches!(node.value, Value::Map(_))) {
            return Some(Node { value: Value::Map(self.mappings(nodes, path)), place });
        }
        let is = |name: &str| path.as_slice() == [name];
        if (is("tests") || is("invariants")) && nodes.iter().all(|node| matches!(node.value, Value::List(_))) {
            return Some(Node { value: Value::List(nodes.into_iter().flat_map(items).collect()), place });
        }
        if is("$schema") {
            return nodes.pop();
        }
        self.once(nodes, path)
    }

    fn mappings(&mut self, nodes: Vec<Node>, path: &mut Vec<String>) -> Vec<Entry> {
        let mut order: Vec<(Entry, Vec<Node>)> = Vec::new();
        let mut index: HashMap<String, usize> = HashMap::new();
        for entry in nodes.into_iter().flat_map(entries) {
            if let Some(at) = index.get(&entry.key) {
                order[*at].1.push(entry.value);
            } else {
                index.insert(entry.key.clone(), order.len());
                order.push((entry, Vec::new()));
            }
        }
        order
            .into_iter()
            .map(|(mut first, others)| {
                if !others.is_empty() {
                    path.push(first.key.clone());
                    let nodes = std::iter::once(first.value.clone()).chain(others).collect();
                    first.value = self.nodes(nodes, path).unwrap_or(first.value);
                    path.pop();
                }
                first
            })
            .collect()
    }

    /// Keeps the first and reports the others.
    fn once(&mut self, nodes: Vec<Node>, path: &[String]) -> Option<Node> {
        let mut nodes = nodes.into_iter();
        let first = nodes.next()?;
        let what = path.join(".");
        let is_version = what == "version";
        for other in nodes.filter(|other| !(is_version && other.value == first.value)) {
            let fault = if is_version {
                let message = format!("`version` differs from the one at {}", first.place);
                Diagnostic::error("version-differs", &other.place, message)
                    .hint("write the same version in every file, or in one only")
            } else {
                let message = format!("`{what}` is written a second time; first at {}", first.place);
                Diagnostic::error("written-twice", &other.place, message)
                    .hint("keep one of the two; files of one catalog add to each other and never override")
            };
            self.found.push(fault);
        }
        Some(first)
    }
}

fn says_something(nodes: Vec<Node>) -> Vec<Node> {
    let (silent, mut rest): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(|node| node.value == Value::Null);
    if rest.is_empty() {
        rest.extend(silent.into_iter().take(1));
    }
    rest
}

fn items(node: Node) -> Vec<Node> {
    match node.value {
        Value::List(items) => items,
        _ => Vec::new(),
    }
}

fn entries(node: Node) -> Vec<Entry> {
    match node.value {
        Value::Map(entries) => entries,
        _ => Vec::new(),
    }
}
