//! Strategic merge patch for the core kinds.
//!
//! A merge patch in which some lists merge by a key instead of being replaced, and in which `$patch`,
//! `$deleteFromPrimitiveList` and `$setElementOrder` are directives. Only the lists of the kinds that are served
//! are known.

use serde_json::{Map, Value};

/// Lists that merge, by field name: objects by a key, or (no key) plain values as a set.
const MERGING: [(&str, Option<&str>); 3] =
    [("ownerReferences", Some("uid")), ("conditions", Some("type")), ("finalizers", None)];

/// Merges `patch` into `document`.
pub(crate) fn merge(document: &mut Value, patch: &Value) -> Result<(), String> {
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => merge_object(document, patch),
        (document, patch) => {
            *document = without_directives(patch);
            Ok(())
        }
    }
}

fn merge_object(document: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), String> {
    match patch.get("$patch").and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => {
            *document = patch.iter().filter(|(name, _)| *name != "$patch").map(owned).collect();
            return Ok(());
        }
        Some("delete") => {
            document.clear();
            return Ok(());
        }
        Some(other) => return Err(format!("Unknown patch type found: {other}")),
    }
    if let Some(Value::Array(retained)) = patch.get("$retainKeys") {
        document.retain(|name, _| retained.iter().any(|one| one == name));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(items)), Value::Array(gone)) = (document.get_mut(list), value) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if name.starts_with('$') {
            continue;
        }
        if value.is_null() {
            document.remove(name);
            continue;
        }
        let merging = MERGING.iter().find(|(list, _)| list == name);
        match (document.get_mut(name), value, merging) {
            (Some(Value::Array(items)), Value::Array(changes), Some((_, key))) => {
                let order = patch.get(&format!("$setElementOrder/{name}")).and_then(Value::as_array);
                let live = items.clone();
                merge_list(items, changes, *key)?;
                sort_list(items, &live, order.unwrap_or(changes), *key);
            }
            (Some(present @ Value::Object(_)), Value::Object(_), _) => merge(present, value)?,
            _ => {
                document.insert(name.clone(), without_directives(value));
            }
        }
    }
    Ok(())
}

fn merge_list(items: &mut Vec<Value>, changes: &[Value], key: Option<&str>) -> Result<(), String> {
    let replaces = |change: &Value| change.get("$patch").and_then(Value::as_str) == Some("replace");
    if changes.iter().any(replaces) {
        *items = changes.iter().filter(|change| !replaces(change)).map(without_directives).collect();
        return Ok(());
    }
    for change in changes {
        let Some(key) = key else {
            if !items.contains(change) {
                items.push(change.clone());
            }
            continue;
        };
        let wanted = change
            .get(key)
            .ok_or_else(|| format!("map: {change} does not contain declared merge key: {key}"))?;
        let at = items.iter().position(|item| item.get(key) == Some(wanted));
        let deletes = change.get("$patch").and_then(Value::as_str) == Some("delete");
        match at {
            Some(at) if deletes => {
                items.remove(at);
            }
            Some(at) => merge(&mut items[at], change)?,
            None if deletes => {}
            None => items.push(without_directives(change)),
        }
    }
    Ok(())
}

/// Brings a merged list into its order: what the patch names stands as `order` has it, and the rest as it stood in
/// `live`, each of it as early as that allows.
fn sort_list(items: &mut Vec<Value>, live: &[Value], order: &[Value], key: Option<&str>) {
    let id = |item: &Value| key.map_or_else(|| item.clone(), |key| item[key].clone());
    let place = |list: &[Value], item: &Value| list.iter().position(|other| id(other) == id(item));
    let (mut named, mut rest): (Vec<Value>, Vec<Value>) =
        std::mem::take(items).into_iter().partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    rest.sort_by_key(|item| place(live, item));
    let (mut named, mut rest) = (named.into_iter().peekable(), rest.into_iter().peekable());
    while let Some(other) = rest.peek() {
        let earlier = named.peek().is_none_or(|one| match (place(live, other), place(live, one)) {
            (Some(other), Some(one)) => other < one,
            _ => false,
        });
        items.extend(if earlier { rest.next() } else { named.next() });
    }
    items.extend(named);
}

/// A value that nothing is merged into: without nulls and directives.
fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(
            object
                .iter()
                .filter(|(name, value)| !name.starts_with('$') && !value.is_null())
                .map(|(name, value)| (name.clone(), without_directives(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_directives).collect()),
        other => other.clone(),
    }
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(mut document: Value, patch: &Value, expected: &Value) {
        merge(&mut document, patch).unwrap();
        assert_eq!(document, *expected, "{patch}");
    }

    #[test]
    fn maps_merge_and_null_removes() {
        check(
            json!({ "data": { "a": "1", "b": "2" } }),
            &json!({ "data": { "b": null, "c": "3" }, "type": "x" }),
            &json!({ "data": { "a": "1", "c": "3" }, "type": "x" }),
        );
    }

    #[test]
    fn known_lists_merge_by_their_key() {
        check(
            json!({ "metadata": { "finalizers": ["a"], "ownerReferences": [{ "uid": "1", "name": "x" }] } }),
            &json!({ "metadata": { "finalizers": ["b", "a"],
                "ownerReferences": [{ "uid": "1", "name": "y" }, { "uid": "2" }] } }),
            &json!({ "metadata": { "finalizers": ["b", "a"],
                "ownerReferences": [{ "uid": "1", "name": "y" }, { "uid": "2" }] } }),
        );
    }

    #[test]
    fn directives_delete_and_replace() {
        check(
            json!({ "ownerReferences": [{ "uid": "1" }, { "uid": "2" }], "finalizers": ["a", "b"], "data": { "a": 1 } }),
            &json!({ "ownerReferences": [{ "uid": "1", "$patch": "delete" }],
                "$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b"],
                "data": { "$patch": "replace", "b": 2 } }),
            &json!({ "ownerReferences": [{ "uid": "2" }], "finalizers": ["b"], "data": { "b": 2 } }),
        );
        assert!(
            merge(&mut json!({ "conditions": [] }), &json!({ "conditions": [{ "status": "x" }] })).is_err()
        );
    }
}
