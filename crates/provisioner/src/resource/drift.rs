//! Whether an object still is as it was applied.

use serde_json::Value;

/// Whether `live` holds everything that `desired` says; servers add defaults, and others their own fields.
pub(super) fn is_held_by(desired: &Value, live: &Value) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => {
            desired.iter().all(|(field, value)| match live.get(field) {
                Some(found) => is_held_by(value, found),
                None => is_nothing(value),
            })
        }
        (Value::Array(desired), Value::Array(live)) => {
            desired.len() == live.len() && desired.iter().zip(live).all(|(one, other)| is_held_by(one, other))
        }
        (desired, live) => desired == live || (is_nothing(desired) && is_nothing(live)),
    }
}

/// A server may leave out what is empty.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_the_server_and_fields_of_others_are_no_drift() {
        let desired = json!({"spec": {"ports": [{"port": 80}], "labels": {}}});
        assert!(is_held_by(
            &desired,
            &json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}], "more": 1}})
        ));
        assert!(!is_held_by(&desired, &json!({"spec": {"ports": [{"port": 81}]}})));
        assert!(!is_held_by(&desired, &json!({"spec": {"ports": [{"port": 80}, {"port": 81}]}})));
        assert!(!is_held_by(&desired, &json!({"spec": {}})));
    }
}
