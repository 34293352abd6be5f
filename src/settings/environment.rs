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
            None => found.push(unknown(&name, &text)),
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

fn unknown(name: &str, text: &str) -> Diagnostic {
    let names = variables();
    let near = nearest(name, names.iter().map(String::as_str));
    let hint = match (service_of(name, text), near) {
        (Some(service), _) => format!(
            "Kubernetes sets it in each pod for a Service called `{service}`; `enableServiceLinks: false` in the pod's spec stops \
             that. Where Cascade listens is the setting `listen` (CASCADE_LISTEN)"
        ),
        (None, Some(near)) => format!("did you mean `{near}`?"),
        (None, None) => {
            format!("variables are {PREFIX} and the path of a setting in capitals, joined by __, as in CASCADE_CATALOG__SOURCE")
        }
    };
    Diagnostic::warning("unknown-variable", &Place::whole(name), format!("there is no setting for `{name}`; it is ignored"))
        .hint(hint)
}

/// The Service that a variable speaks of, if it is one of those that Kubernetes makes for each Service of a namespace:
/// `X_SERVICE_HOST`, `X_SERVICE_PORT[_NAME]`, `X_PORT` with an address, `X_PORT_80_TCP[_PROTO|_PORT|_ADDR]`.
fn service_of(name: &str, text: &str) -> Option<String> {
    let is_address = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| text.starts_with(scheme));
    let named = |end: &str| name.find(end).map(|at| &name[..at]);
    let numbered = || {
        let (service, rest) = name.split_once("_PORT_")?;
        let (number, protocol) = rest.split_once('_')?;
        let is_link = number.bytes().all(|byte| byte.is_ascii_digit())
            && ["TCP", "UDP", "SCTP"].iter().any(|known| protocol == *known || protocol.starts_with(&format!("{known}_")));
        is_link.then_some(service)
    };
    let service = named("_SERVICE_HOST")
        .or_else(|| named("_SERVICE_PORT"))
        .or_else(numbered)
        .or_else(|| name.strip_suffix("_PORT").filter(|_| is_address))?;
    Some(service.to_lowercase().replace('_', "-"))
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
