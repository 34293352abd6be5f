//! A mapping while it is read: finds keys that stand twice, and folds in YAML's merge keys (`<<`).

use std::collections::HashMap;

use super::{Entry, Node, Value};
use crate::diagnostic::mask::blacked_out;
use crate::diagnostic::{Diagnostic, Place};

/// From this many entries on, keys are found by hash.
const SMALL: usize = 16;

#[derive(Default)]
pub(super) struct Mapping {
    entries: Vec<Entry>,
    index: HashMap<String, usize>,
    merged: Vec<Entry>,
}

impl Mapping {
    pub(super) fn insert(&mut self, key: String, place: Place, value: Node, found: &mut Vec<Diagnostic>) {
        if let Some(first) = self.position(&key) {
            let message =
                format!("`{}` appears twice in this mapping; first at {}", blacked_out(&key), self.entries[first].place);
            found.push(Diagnostic::error("duplicate-key", &place, message).hint("remove one of the two"));
            return;
        }
        if self.entries.len() >= SMALL {
            if self.index.is_empty() {
                self.index = self.entries.iter().enumerate().map(|(at, entry)| (entry.key.clone(), at)).collect();
            }
            self.index.insert(key.clone(), self.entries.len());
        }
        self.entries.push(Entry { key, place, value });
    }

    fn position(&self, key: &str) -> Option<usize> {
        if self.index.is_empty() { self.entries.iter().position(|entry| entry.key == key) } else { self.index.get(key).copied() }
    }

    /// Takes the value of `<<`: a mapping, or a list of mappings of which earlier ones win.
    pub(super) fn merge(&mut self, place: &Place, value: Node, found: &mut Vec<Diagnostic>) {
        let sources = match value.value {
            Value::List(items) => items,
            _ => vec![value],
        };
        for source in sources {
            match source.value {
                Value::Map(entries) => self.merged.extend(entries),
                _ => found.push(
                    Diagnostic::error("bad-merge", place, "`<<` takes a mapping, or a list of mappings")
                        .hint("write `<<: *name`, where `&name` marks a mapping further up"),
                ),
            }
        }
    }

    /// The entries; own keys win over merged ones, wherever `<<` stands.
    pub(super) fn finish(mut self) -> Vec<Entry> {
        for entry in std::mem::take(&mut self.merged) {
            if self.position(&entry.key).is_none() {
                self.insert(entry.key, entry.place, entry.value, &mut Vec::new());
            }
        }
        // Most mappings have one or two entries, and a vector begins with room for four.
        self.entries.shrink_to_fit();
        self.entries
    }
}
