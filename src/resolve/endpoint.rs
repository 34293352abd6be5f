//! What an override says to the load balancers inside clusters (`envoy.lb`). It is per request, not per attempt: it reaches every
//! cluster of the chain.

use serde_json::{Map, Value};

/// What goes under `envoy.lb`: one entry bare; several as a `fallback_list` without bare keys (facts 20 and 20a).
#[must_use]
pub fn endpoint_metadata(entries: &[Map<String, Value>]) -> Map<String, Value> {
    match entries {
        [] => Map::new(),
        [only] => only.clone(),
        several => {
            let list = several.iter().cloned().map(Value::Object).collect();
            std::iter::once(("fallback_list".to_owned(), Value::Array(list))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn endpoint_entries_are_bare_or_a_list_but_never_both() {
        let entry = |key: &str| json!({"stage": key}).as_object().unwrap().clone();
        assert_eq!(json!(endpoint_metadata(&[])), json!({}));
        assert_eq!(json!(endpoint_metadata(&[entry("a")])), json!({"stage": "a"}));
        assert_eq!(
            json!(endpoint_metadata(&[entry("a"), entry("b")])),
            json!({"fallback_list": [{"stage": "a"}, {"stage": "b"}]})
        );
    }
}
