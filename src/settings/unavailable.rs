//! Settings of features that this version does not have. Turned on, they are errors: ignoring them would let an operator believe
//! that replicas tell each other or connections are encrypted.

use crate::diagnostic::Diagnostic;
use crate::document::{Node, Value};

pub(super) fn check(root: &Node, found: &mut Vec<Diagnostic>) {
    let at = |path: &str| path.split('.').try_fold(root, Node::get);
    let mut refuse = |path: &str, off: &str, is_off: &dyn Fn(&Node) -> bool| {
        if let Some(node) = at(path).filter(|node| !is_off(node)) {
            let message = format!("`{path}` cannot be used: this version of Cascade does not have the feature yet");
            found.push(Diagnostic::error("not-available", &node.place, message).hint(format!("remove it, or write {off}")));
        }
    };
    let text = |off: &'static str| move |node: &Node| node.text().is_none_or(|text| text == off);
    refuse("tls", "`{}`", &|node| node.entries().is_empty() || !matches!(node.value, Value::Map(_)));
    let flag = |node: &Node| node.flag() != Some(true);
    refuse("attempts.hold_first_byte", "`false`", &flag);
    refuse("telemetry.otlp_endpoint", "`\"\"`", &text(""));
}
