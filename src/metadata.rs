//! What an entry for `envoy.lb` may hold, whoever writes it: a catalog or a session directory. An answer that Envoy cannot
//! read is as good as none: the request goes on without its override.

use serde_json::{Map, Value};

/// How many levels of objects and lists an entry of `envoy.lb` may have. Envoy reads protobuf to a depth of 100 messages, and a level
/// is three of them.
pub const MAX_LEVELS: usize = 16;

/// Keys of an entry that the answer writes itself, beside and around what others write (facts 20, 22).
pub const OWN_KEYS: [&str; 2] = ["fallback_list", "selected_endpoint"];

/// True if the entry has more levels than that.
#[must_use]
pub fn is_too_deep(entry: &Map<String, Value>) -> bool {
    entry.values().any(|value| has_more_levels(value, MAX_LEVELS - 1))
}

fn has_more_levels(value: &Value, than: usize) -> bool {
    let further = |value: &Value| has_more_levels(value, than.saturating_sub(1));
    match value {
        Value::Object(fields) => than == 0 || fields.values().any(further),
        Value::Array(items) => than == 0 || items.iter().any(further),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn levels_are_counted_in_objects_and_lists() {
        let nested = |levels: usize, wrap: fn(Value) -> Value| (1..levels).fold(json!("x"), |inner, _| wrap(inner));
        let wraps: [fn(Value) -> Value; 2] = [|inner| json!({"k": inner}), |inner| json!([inner])];
        for wrap in wraps {
            for (levels, too_deep) in [(1, false), (2, false), (MAX_LEVELS, false), (MAX_LEVELS + 1, true), (100, true)] {
                let entry = json!({"flat": 1, "deep": nested(levels, wrap)});
                assert_eq!(is_too_deep(entry.as_object().unwrap()), too_deep, "{levels} levels");
            }
        }
        assert!(!is_too_deep(&Map::new()));
    }
}
