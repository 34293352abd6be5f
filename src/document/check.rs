//! Judges a tree by a [`Shape`]: every field that is unknown, missing or of the wrong kind, all at once, each with its place. It
//! does not know what names stand for.

use std::fmt;

use super::shape::{Field, Record, Shape};
use super::suggest::nearest;
use super::units::{parse_duration, parse_size};
use super::{Entry, Node, Value};
use crate::diagnostic::mask::{may_be_secret, named};
use crate::diagnostic::{Diagnostic, Place};

const WHOLE: &str = "write a whole number in this range, without quotes";

/// All that is wrong with the shape of `node`.
#[must_use]
pub fn check(node: &Node, shape: &Shape) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    Check { found: &mut found }.node(node, shape, &Path::Root);
    found
}

/// Where in the document we are, as `tenants.acme.chains`.
enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => f.write_str("the document"),
            Path::Key(Path::Root, key) => f.write_str(key),
            Path::Key(parent, key) => write!(f, "{parent}.{key}"),
            Path::Item(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

struct Check<'f> {
    found: &'f mut Vec<Diagnostic>,
}

impl Check<'_> {
    fn node(&mut self, node: &Node, shape: &Shape, path: &Path<'_>) {
        match (shape, &node.value) {
            (Shape::Record(record), Value::Map(entries)) => self.record(record, entries, &node.place, path),
            (Shape::Record(record), Value::Null) => self.record(record, &[], &node.place, path),
            (Shape::Map(value), Value::Map(entries)) => {
                for entry in entries {
                    self.name(&entry.key, &entry.place, path);
                    self.node(&entry.value, value, &Path::Key(path, &entry.key));
                }
            }
            (Shape::List(item), Value::List(items)) => {
                for (at, node) in items.iter().enumerate() {
                    self.node(node, item, &Path::Item(path, at));
                }
            }
            (Shape::Object, Value::Map(_)) => {
                if node.to_json().is_none() {
                    self.error(
                        "bad-value",
                        node,
                        format!("`{path}` holds a number that is not finite"),
                        "metadata is JSON, which has none",
                    );
                }
            }
            (Shape::OneOf(shapes), value) if fits(shape, value) => {
                if let Some(shape) = shapes.iter().find(|shape| fits(shape, value)) {
                    self.node(node, shape, path);
                }
            }
            (Shape::Map(_), Value::Null) | (Shape::Text, Value::Text(_)) | (Shape::Bool, Value::Bool(_)) => {}
            (_, Value::Text(text)) if fits(shape, &node.value) => self.text(text, node, shape, path),
            (Shape::Integer(min, max), Value::Integer(integer)) => {
                if !u64::try_from(*integer).is_ok_and(|integer| (*min..=*max).contains(&integer)) {
                    let hint = match min == max {
                        true => format!("write {min}: it is all that this version of Cascade knows"),
                        false => WHOLE.to_owned(),
                    };
                    self.error("bad-number", node, format!("`{path}` must be {}, not {integer}", shape.words()), &hint);
                }
            }
            (Shape::Integer(..), Value::Float(float)) => {
                // With its point or exponent, as it was written: `1.0` is not 1 here.
                let hint = if float.fract() == 0.0 && float.abs() < 1e15 {
                    format!("write {float:.0}, without a point")
                } else {
                    WHOLE.to_owned()
                };
                self.error("bad-number", node, format!("`{path}` must be {}, not {float:?}", shape.words()), &hint);
            }
            _ => self.wrong_kind(node, shape, path),
        }
    }

    fn record(&mut self, record: &Record, entries: &[Entry], place: &Place, path: &Path<'_>) {
        for entry in entries {
            match record.fields.iter().find(|field| field.name == entry.key) {
                Some(field) => self.node(&entry.value, &field.shape, &Path::Key(path, &entry.key)),
                None => self.unknown_field(record, entry, path),
            }
        }
        for field in record.fields.iter().filter(|field| field.required) {
            if !entries.iter().any(|entry| entry.key == field.name) {
                let message = format!("`{path}` needs a field `{}`: {}", field.name, field.doc);
                self.found.push(Diagnostic::error("missing-field", place, message).hint(example_of(field)));
            }
        }
    }

    fn unknown_field(&mut self, record: &Record, entry: &Entry, path: &Path<'_>) {
        let names = record.fields.iter().map(|field| field.name);
        let near = nearest(&entry.key, names.clone());
        let hint = match near {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("{} has the fields {}", record.title, names.collect::<Vec<_>>().join(", ")),
        };
        let whose = if matches!(path, Path::Root) { String::new() } else { format!(" in `{path}`") };
        // Far from every field, it may be a key that slipped to the left of a colon.
        let message = if near.is_none() && may_be_secret(&entry.key) {
            format!("there is no such field{whose}; its name may be a key and is not shown")
        } else {
            format!("there is no field `{}`{whose}", entry.key)
        };
        self.found.push(Diagnostic::error("unknown-field", &entry.place, message).hint(hint));
    }

    fn text(&mut self, text: &str, node: &Node, shape: &Shape, path: &Path<'_>) {
        match shape {
            Shape::Name => self.name(text, &node.place, path),
            Shape::KeyHash if parse_key_hash(text).is_none() => {
                let fault = Diagnostic::error("bad-api-key", &node.place, format!("an entry of `{path}` is no hash of a key"));
                self.found.push(fault.hint(
                    "write sha256: and 64 hexadecimal digits, from `printf %s \"$KEY\" | sha256sum`; never the key itself",
                ));
            }
            Shape::Choice(words) if !words.contains(&text) => {
                let message = format!("`{path}` must be {}, not {}", shape.words(), named(text));
                let fault = Diagnostic::error("bad-choice", &node.place, message);
                self.found.push(match nearest(text, words.iter().copied()) {
                    Some(word) => fault.hint(format!("did you mean `{word}`?")),
                    None => fault.hint(format!("write {}", shape.words())),
                });
            }
            Shape::Duration => self.unit(parse_duration(text).err(), text, node, path),
            Shape::Size => self.unit(parse_size(text).err(), text, node, path),
            _ => {}
        }
    }

    fn unit(&mut self, fault: Option<&'static str>, text: &str, node: &Node, path: &Path<'_>) {
        if let Some(fault) = fault {
            self.error("bad-value", node, format!("`{path}` cannot be {}", named(text)), fault);
        }
    }

    /// Names become metric labels, header values and metadata: see [`crate::names`].
    fn name(&mut self, text: &str, place: &Place, path: &Path<'_>) {
        if let Err(fault) = crate::names::ModelName::parse(text) {
            let fault = Diagnostic::error("bad-name", place, format!("in `{path}`: {fault}"));
            self.found.push(fault.hint("names stand in metric labels, headers and logs; choose another one"));
        }
    }

    fn wrong_kind(&mut self, node: &Node, shape: &Shape, path: &Path<'_>) {
        let kind = kind(&node.value);
        let message = format!("`{path}` must be {}, not {kind}", shape.words());
        let fault = Diagnostic::error("wrong-type", &node.place, message);
        self.found.push(fault.hint(hint(shape, &node.value)));
    }

    fn error(&mut self, code: &'static str, node: &Node, message: String, hint: &str) {
        self.found.push(Diagnostic::error(code, &node.place, message).hint(hint));
    }
}

/// The 32 bytes of `sha256:<64 hex>`, in either case.
#[must_use]
pub fn parse_key_hash(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("sha256:")?.as_bytes();
    let mut hash = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(hash)
}

/// What to do about a value of the wrong kind.
fn hint(shape: &Shape, value: &Value) -> String {
    let is_number = matches!(value, Value::Integer(_) | Value::Float(_));
    match (shape, value) {
        (_, Value::Null) => "nothing is written here; remove the key, or write the value".to_owned(),
        (Shape::Duration | Shape::Size, _) if is_number => "add the unit".to_owned(),
        (Shape::Bool, Value::Text(_)) => "only `true` and `false`, without quotes, are booleans".to_owned(),
        (Shape::Integer(..), Value::Text(text)) if text.trim().parse::<f64>().is_ok() => {
            "write the number without quotes".to_owned()
        }
        (Shape::Integer(..), Value::Text(text)) => match leading_number(text) {
            Some(number) => format!("write the number alone: {number}"),
            None => format!("write {}", shape.words()),
        },
        _ if (is_number || matches!(value, Value::Bool(_))) && fits(shape, &Value::Text(String::new())) => {
            format!("put it in quotes: without them it is {}", kind(value))
        }
        (Shape::List(_), Value::Text(_)) => "put it in brackets, as in `[a, b]`".to_owned(),
        (Shape::Record(record), _) => match record.fields.iter().find(|field| field.required).or(record.fields.first()) {
            Some(field) => format!("write a mapping, {}", example_of(field)),
            None => format!("write {}", shape.words()),
        },
        _ => format!("write {}", shape.words()),
    }
}

/// The whole number with which a text begins: of `95%` it is 95.
fn leading_number(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    // `4o` is a name, not a number with a unit.
    let rest = text[digits..].trim_start();
    (rest.starts_with('%') || rest.eq_ignore_ascii_case("percent")).then(|| text[..digits].parse().ok())?
}

fn example_of(field: &Field) -> String {
    match field.example {
        Some(example) => format!("for example {}: {example}", field.name),
        None => format!("add `{}:`", field.name),
    }
}

/// True if a value of this kind could have the shape; what is in it is judged afterwards.
fn fits(shape: &Shape, value: &Value) -> bool {
    match shape {
        Shape::Record(_) | Shape::Map(_) => matches!(value, Value::Map(_) | Value::Null),
        Shape::Object => matches!(value, Value::Map(_)),
        Shape::List(_) => matches!(value, Value::List(_)),
        Shape::Text | Shape::Name | Shape::KeyHash | Shape::Choice(_) | Shape::Duration | Shape::Size => {
            matches!(value, Value::Text(_))
        }
        Shape::Bool => matches!(value, Value::Bool(_)),
        Shape::Integer(..) => matches!(value, Value::Integer(_) | Value::Float(_)),
        // Nothing at all could be any of them, so it is none.
        Shape::OneOf(shapes) => *value != Value::Null && shapes.iter().any(|shape| fits(shape, value)),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "a boolean",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Text(_) => "a text",
        Value::List(_) => "a list",
        Value::Map(_) => "a mapping",
    }
}
