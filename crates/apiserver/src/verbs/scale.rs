//! The scale of a custom object: how many there are to be of what it stands for, as a `Scale` of the group `autoscaling`,
//! whatever the object calls it.

use serde_json::{Map, Value, json};

use super::context::Context;
use crate::failure::Result;
use crate::kinds::{ScalePaths, count_error, find};
use crate::writer::{Owners, Writer, stored_owners};
use windlass_apimachinery::document;
use windlass_apimachinery::fields::Operation;
use windlass_apimachinery::metadata;

type Object = Map<String, Value>;

/// What is written for what was sent: that itself or, of a scale, the object with the number that it says. As on a real
/// server, nobody knows when that was changed.
pub(super) fn written(
    context: &Context,
    writer: &Writer,
    current: &windlass_store::Object,
    old: &Object,
    sent: Object,
    owners: Owners,
) -> Result<(Object, Owners)> {
    let Some(paths) = context.scale() else { return Ok((sent, owners)) };
    let replicas = sent.get("spec").and_then(|spec| spec["replicas"].as_i64()).unwrap_or_default();
    let errors = count_error(&paths.spec, &json!(replicas)).into_iter().collect();
    writer.fail_on(errors, metadata::text(old, "name"))?;
    let mut new = old.clone();
    set(&mut new, &paths.spec, json!(replicas));
    let update = writer.update_of(Operation::Update);
    let mut managers = update.update(old, &new, stored_owners(&current.value)).unwrap_or_default();
    managers.forget_time(&update.writer);
    Ok((new, Owners::Known(managers)))
}

/// The scale of an object, as it is stored, but for its version.
pub(super) fn encode(paths: &ScalePaths, object: &Object) -> Vec<u8> {
    let stored = |field: &str| Some((field.to_owned(), object.get("metadata")?.get(field)?.clone()));
    let meta: Object =
        ["name", "namespace", "uid", "creationTimestamp"].into_iter().filter_map(stored).collect();
    let number = |path: &[String]| find(object, path).and_then(Value::as_i64).unwrap_or_default();
    let (mut spec, mut status) = (Map::new(), Map::new());
    if number(&paths.spec) != 0 {
        spec.insert("replicas".to_owned(), json!(number(&paths.spec)));
    }
    status.insert("replicas".to_owned(), json!(number(&paths.status)));
    let selector = paths.selector.as_ref().and_then(|path| find(object, path)).and_then(Value::as_str);
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status.insert("selector".to_owned(), json!(selector));
    }
    let scale = [("metadata", meta), ("spec", spec), ("status", status)];
    let scale = scale.map(|(field, value)| (field.to_owned(), Value::Object(value)));
    document::encode(&paths.scale.served().head, &Map::from_iter(scale), b"")
}

fn set(object: &mut Object, path: &[String], value: Value) {
    let Some((last, above)) = path.split_last() else { return };
    let mut place = object;
    for name in above {
        let below = place.entry(name.as_str()).or_insert_with(|| json!({}));
        if !below.is_object() {
            *below = json!({});
        }
        let Value::Object(below) = below else { return };
        place = below;
    }
    place.insert(last.clone(), value);
}
