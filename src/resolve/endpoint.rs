//! What an override says to the load balancers inside clusters (`envoy.lb`). It is per request, not per attempt: it reaches every
//! cluster of the chain.

use serde_json::{Map, Value};

use super::Resolution;
use crate::catalog::snapshot::Snapshot;
use crate::outcome::Outcome;

/// What an override says: the session's entry first, then the model's and its fallbacks, and the session's endpoint beside them.
#[must_use]
pub fn of(snapshot: &Snapshot, resolution: &Resolution) -> Map<String, Value> {
    if resolution.outcome != Outcome::Override {
        return Map::new();
    }
    let model = resolution.model.map(|model| snapshot.model(model).endpoint_metadata.as_slice()).unwrap_or_default();
    let Some(placement) = &resolution.placement else { return endpoint_metadata(model) };
    let mut entries: Vec<Map<String, Value>> = Vec::with_capacity(model.len() + 1);
    entries.extend(placement.metadata.as_deref().cloned());
    entries.extend(model.iter().filter(|entry| placement.metadata.as_deref() != Some(*entry)).cloned());
    let mut fields = endpoint_metadata(&entries);
    // Nobody said that the learned one's cluster reads it. Beside entries it would become part of each, and a subset's own fallback
    // policy counts only where the keys are its selector's.
    if let Some(endpoint) = placement.endpoint.as_ref().filter(|_| !placement.learned || entries.is_empty()) {
        fields.insert("selected_endpoint".to_owned(), Value::String(endpoint.to_string()));
    }
    fields
}

/// What goes under `envoy.lb`: one entry bare; several as a `fallback_list` without bare keys (facts 20 and 20a).
#[must_use]
fn endpoint_metadata(entries: &[Map<String, Value>]) -> Map<String, Value> {
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
