//! The revision of a catalog: a hash of what it says. Names and order of files, order of keys, comments, quotes and indentation do
//! not change it; the order within a list does, but for `tests` and `invariants`, which are strung together from all files.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::snapshot::Revision;
use crate::document::{Entry, Node, Value};

/// Hex digits of a revision: 64 bits, enough that two catalogs of one company never share one.
const DIGITS: usize = 16;

pub(super) fn of(document: &Node) -> Revision {
    let mut out = Sha256::new();
    let mut entries: Vec<&Entry> = document.entries().iter().filter(|entry| entry.key != "$schema").collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    for entry in entries {
        text(&entry.key, &mut out);
        match (entry.key.as_str(), &entry.value.value) {
            ("tests" | "invariants", Value::List(items)) => {
                let mut items: Vec<Vec<u8>> = items.iter().map(bytes).collect();
                items.sort();
                items.iter().for_each(|item| out.take(item));
            }
            _ => node(&entry.value, &mut out),
        }
    }
    let digits: String = out.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Revision(Arc::from(&digits[..DIGITS]))
}

/// Where bytes go: into the hash as they come, since the bytes of a large catalog are another copy of it.
trait Out {
    fn take(&mut self, bytes: &[u8]);
}

impl Out for Sha256 {
    fn take(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

impl Out for Vec<u8> {
    fn take(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

fn bytes(item: &Node) -> Vec<u8> {
    let mut out = Vec::new();
    node(item, &mut out);
    out
}

/// Each value with its kind and length, so that no two documents give the same bytes.
fn node(item: &Node, out: &mut impl Out) {
    match &item.value {
        Value::Null => out.take(b"n"),
        Value::Bool(flag) => out.take(&[b'b', u8::from(*flag)]),
        Value::Integer(integer) => {
            out.take(b"i");
            out.take(&integer.to_be_bytes());
        }
        Value::Float(float) => {
            out.take(b"f");
            out.take(&float.to_bits().to_be_bytes());
        }
        Value::Text(value) => text(value, out),
        Value::List(items) => {
            out.take(b"l");
            out.take(&items.len().to_be_bytes());
            items.iter().for_each(|item| node(item, out));
        }
        Value::Map(entries) => {
            out.take(b"m");
            out.take(&entries.len().to_be_bytes());
            let mut entries: Vec<&Entry> = entries.iter().collect();
            entries.sort_by(|a, b| a.key.cmp(&b.key));
            for entry in entries {
                text(&entry.key, out);
                node(&entry.value, out);
            }
        }
    }
}

fn text(value: &str, out: &mut impl Out) {
    out.take(b"t");
    out.take(&value.len().to_be_bytes());
    out.take(value.as_bytes());
}
