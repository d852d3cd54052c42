//! Merge patches between two documents.

use serde_json::{Map, Value};

/// The smallest JSON merge patch (RFC 7386) that turns `before` into `after`, or `None` when there is nothing
/// to change.
///
/// With the documents that a typed value gives before and after a change, the patch touches only what was
/// changed, so that fields which the type does not know survive. A merge patch cannot set a member to `null`:
/// `null` and absent count as the same here.
pub fn merge_diff(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let patch = object_diff(before, after);
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (before, after) if before == after => None,
        // A patch that is an object is merged into nothing: its own nulls would say "remove".
        (_, after) => Some(without_nulls(after)),
    }
}

fn object_diff(before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, old) in before {
        if !old.is_null() && after.get(key).is_none_or(Value::is_null) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    for (key, new) in after.iter().filter(|(_, new)| !new.is_null()) {
        let change = match before.get(key) {
            Some(old) => merge_diff(old, new),
            None => Some(without_nulls(new)),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    patch
}

/// Leaves out members that are `null`, at every depth of objects; lists are values and stay as they are.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
