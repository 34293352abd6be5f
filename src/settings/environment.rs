//! The environment and flags, laid over the document of the file: `CASCADE_` and the path in capitals, joined by `__`. The shapes of
//! the settings say how a variable's text is read; lists and mappings are written as YAML or JSON.

use super::document::{find, variables};
use crate::diagnostic::{Diagnostic, Place};
use crate::document::shape::Shape;
use crate::document::suggest::nearest;
use crate::document::{self, Entry, Format, Node, Value};

pub(super) const PREFIX: &str = "CASCADE_";

/// Lays the variables over `root`, those of inner fields over those of whole sections.
pub(super) fn overlay(root: &mut Node, variables: impl Iterator<Item = (String, String)>, found: &mut Vec<Diagnostic>) {
    let mut ours: Vec<(String, String)> = variables.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    ours.sort();
    for (name, text) in ours {
        let path: Vec<String> = name[PREFIX.len()..].split("__").map(str::to_lowercase).collect();
        match find(&path) {
            Some(field) => {
                if let Some(node) = value(&name, &text, &field.shape, found) {
                    put(root, &path, node, &Place::whole(&name));
                }
            }
            None => found.push(unknown(&name)),
        }
    }
}

/// Puts the value of a flag, as `--catalog`, under a path.
pub(super) fn overlay_flag(root: &mut Node, flag: &str, path: &[&str], text: Option<String>) {
    if let Some(text) = text {
        let place = Place::whole(flag);
        let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
        put(root, &path, Node { value: Value::Text(text), place: place.clone() }, &place);
    }
}

fn unknown(name: &str) -> Diagnostic {
    let names = variables();
    let near = nearest(name, names.iter().map(String::as_str));
    // Kubernetes describes a Service called `cascade` to every pod of its namespace in just such variables.
    let is_kubernetes = ["SERVICE_HOST", "SERVICE_PORT", "PORT"].iter().any(|part| name[PREFIX.len()..].starts_with(part));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if is_kubernetes => {
            "Kubernetes sets this for a Service called cascade; `enableServiceLinks: false` stops it".to_owned()
        }
        None => {
            format!("variables are {PREFIX} and the path of a setting in capitals, joined by __, as in CASCADE_CATALOG__SOURCE")
        }
    };
    Diagnostic::warning("unknown-variable", &Place::whole(name), format!("there is no setting for `{name}`; it is ignored"))
        .hint(hint)
}

fn value(name: &str, text: &str, shape: &Shape, found: &mut Vec<Diagnostic>) -> Option<Node> {
    let place = Place::whole(name);
    let value = match shape {
        Shape::Record(_) | Shape::Map(_) | Shape::List(_) | Shape::Object | Shape::OneOf(_) => {
            let (node, faults) = document::parse(name, text, Format::Yaml);
            found.extend(faults.into_iter().map(|fault| Diagnostic { place: place.clone(), ..fault }));
            let mut node = node?;
            relocate(&mut node, &place);
            return Some(node);
        }
        Shape::Bool | Shape::Integer(..) => document::plain(text),
        Shape::Text | Shape::Name | Shape::KeyHash | Shape::Choice(_) | Shape::Duration | Shape::Size => {
            Value::Text(text.to_owned())
        }
    };
    Some(Node { value, place })
}

fn relocate(node: &mut Node, place: &Place) {
    node.place = place.clone();
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| relocate(item, place)),
        Value::Map(entries) => entries.iter_mut().for_each(|entry| {
            entry.place = place.clone();
            relocate(&mut entry.value, place);
        }),
        _ => {}
    }
}

fn put(node: &mut Node, path: &[String], value: Node, place: &Place) {
    let [name, rest @ ..] = path else {
        *node = value;
        return;
    };
    if !matches!(node.value, Value::Map(_)) {
        *node = Node { value: Value::Map(Vec::new()), place: place.clone() };
    }
    let Value::Map(entries) = &mut node.value else { return };
    if !entries.iter().any(|entry| entry.key == *name) {
        let empty = Node { value: Value::Null, place: place.clone() };
        entries.push(Entry { key: name.clone(), place: place.clone(), value: empty });
    }
    if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *name) {
        put(&mut entry.value, rest, value, place);
    }
}
