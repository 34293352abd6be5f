//! JSON Schema (draft 7, which editors know best) from a [`Shape`]: what lets an editor complete and explain every field. It says
//! as much as a schema can; what names stand for is judged by `cascade check`.

use serde_json::{Map, Value, json};

use super::shape::{Field, Record, Shape};
use crate::names::MAX_NAME;

/// The schema of a whole document.
#[must_use]
pub fn of(shape: &Shape, title: &str) -> Value {
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
    schema.insert("title".to_owned(), json!(title));
    schema.extend(node(shape));
    Value::Object(schema)
}

fn node(shape: &Shape) -> Map<String, Value> {
    let schema = match shape {
        Shape::Record(record) => return object(record),
        Shape::Map(value) => {
            json!({"type": ["object", "null"], "propertyNames": {"minLength": 1, "maxLength": MAX_NAME}, "additionalProperties": node(value)})
        }
        Shape::List(item) => json!({"type": "array", "items": node(item)}),
        Shape::Text => json!({"type": "string"}),
        Shape::Name => json!({"type": "string", "minLength": 1, "maxLength": MAX_NAME}),
        Shape::KeyHash => json!({"type": "string", "pattern": "^sha256:[0-9a-fA-F]{64}$"}),
        Shape::Choice(words) => json!({"type": "string", "enum": words}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Integer(min, max) => json!({"type": "integer", "minimum": min, "maximum": max}),
        Shape::Duration => json!({"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}),
        Shape::Size => json!({"type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB)$"}),
        Shape::Object => json!({"type": "object"}),
        Shape::OneOf(shapes) => json!({"anyOf": shapes.iter().map(node).collect::<Vec<_>>()}),
    };
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn object(record: &Record) -> Map<String, Value> {
    let mut schema = Map::new();
    let required: Vec<&str> = record.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    // A record may be written as nothing at all, unless that lacks a field.
    schema.insert("type".to_owned(), if required.is_empty() { json!(["object", "null"]) } else { json!("object") });
    let properties: Map<String, Value> = record.fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    schema.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

fn property(field: &Field) -> Value {
    let mut schema = Map::new();
    schema.insert("description".to_owned(), json!(field.doc));
    schema.extend(node(&field.shape));
    let value = |json: &str| serde_json::from_str::<Value>(json).unwrap_or(Value::Null);
    if let Some(default) = field.default {
        schema.insert("default".to_owned(), value(default));
    }
    if let Some(example) = field.example {
        schema.insert("examples".to_owned(), json!([value(example)]));
    }
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Format, check, parse};

    fn each_field(shape: &Shape, path: &str, judge: &mut dyn FnMut(&Field, &str)) {
        match shape {
            Shape::Record(record) => {
                for field in record.fields {
                    let path = format!("{path}.{}", field.name);
                    judge(field, &path);
                    each_field(&field.shape, &path, judge);
                }
            }
            Shape::Map(inner) | Shape::List(inner) => each_field(inner, path, judge),
            Shape::OneOf(shapes) => shapes.iter().for_each(|shape| each_field(shape, path, judge)),
            _ => {}
        }
    }

    #[test]
    fn every_field_is_described_and_its_examples_have_its_shape() {
        let mut count = 0;
        let mut judge = |field: &Field, path: &str| {
            count += 1;
            assert!(field.doc.ends_with('.') && field.doc.len() >= 9, "{path}: {}", field.doc);
            for json in [field.default, field.example].into_iter().flatten() {
                let (node, found) = parse(path, json, Format::Json);
                assert_eq!(found, [], "{path}");
                assert_eq!(check::check(&node.unwrap(), &field.shape), [], "{path}: {json}");
            }
        };
        each_field(&crate::catalog::document::CATALOG, "catalog", &mut judge);
        #[cfg(feature = "server")]
        each_field(&crate::settings::SETTINGS, "settings", &mut judge);
        assert!(count > 60);
    }
}
