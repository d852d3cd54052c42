//! Events: one storage behind two groups, which ask for different things.

use serde_json::{Map, Value, json};

use crate::failure::FieldError;
use windlass_apimachinery::metadata;
use windlass_apimachinery::names;

type Object = Map<String, Value>;

/// The group whose events are judged strictly.
const STRICT: &str = "events.k8s.io";

/// At most this many characters in a reason, an action or a reporter's instance.
const SHORT: usize = 128;
/// At most this many characters in a message.
const LONG: usize = 1024;

/// Fields that every Event has, whatever its writer left out.
pub(super) fn fill_in(object: &mut Object) {
    for (field, zero) in [
        ("involvedObject", json!({})),
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ] {
        object.entry(field).or_insert(zero);
    }
}

fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// What is wrong with an Event that is written through this group.
pub(crate) fn validate(group: &str, old: Option<&Object>, new: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let place = metadata::text(new, "namespace");
    let involved = new.get("involvedObject").map_or(&Value::Null, |object| &object["namespace"]);
    let involved = involved.as_str().unwrap_or_default();
    let timed = !text(new, "eventTime").is_empty();
    let fits = match involved {
        "" if timed => matches!(place, "default" | "kube-system"),
        "" => matches!(place, "" | "default"),
        other => timed || other == place,
    };
    if !fits {
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", &json!(involved), detail));
    }
    if timed {
        report(group, new, &mut errors);
    }
    if group == STRICT {
        match old {
            None => strict_create(new, &mut errors),
            Some(old) => strict_update(old, new, &mut errors),
        }
    }
    errors
}

/// Who reports what: asked for of every Event that has a time.
fn report(group: &str, new: &Object, errors: &mut Vec<FieldError>) {
    let reporter = if group == STRICT { "reportingController" } else { "reportingComponent" };
    let controller = text(new, "reportingComponent");
    if controller.is_empty() {
        errors.push(FieldError::required(reporter, ""));
    }
    for problem in names::qualified_problems(controller) {
        errors.push(FieldError::invalid(reporter, &json!(controller), &problem));
    }
    for (field, most, required) in [
        ("reportingInstance", SHORT, true),
        ("action", SHORT, true),
        ("reason", SHORT, true),
        ("message", LONG, false),
    ] {
        let value = text(new, field);
        if value.is_empty() && required {
            errors.push(FieldError::required(field, ""));
        }
        if value.len() > most {
            let detail = format!("can have at most {most} characters");
            errors.push(FieldError::invalid(field, &json!(""), &detail));
        }
    }
}

fn check_series(new: &Object, errors: &mut Vec<FieldError>) {
    let Some(series) = new.get("series") else { return };
    if series["count"].as_i64().unwrap_or_default() < 2 {
        errors.push(FieldError::invalid("series.count", &json!(""), "should be at least 2"));
    }
    if series["lastObservedTime"].as_str().unwrap_or_default().is_empty() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}

fn strict_create(new: &Object, errors: &mut Vec<FieldError>) {
    check_series(new, errors);
    if text(new, "eventTime").is_empty() {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(new, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", &json!(""), &format!("has invalid value: {kind}")));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        let empty = match new.get(field) {
            None | Some(Value::Null) => true,
            Some(Value::Number(number)) => number.as_i64() == Some(0),
            Some(Value::Object(source)) => source.values().all(|part| *part == ""),
            Some(_) => false,
        };
        if !empty {
            errors.push(FieldError::invalid(field, &json!(""), "needs to be unset"));
        }
    }
}

fn strict_update(old: &Object, new: &Object, errors: &mut Vec<FieldError>) {
    if old.get("series") != new.get("series") {
        check_series(new, errors);
    }
    for (field, shown) in [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        if old.get(field) != new.get(field) {
            let found = new.get(field).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(shown, &found, "field is immutable"));
        }
    }
}
