//! Strategic merge patch for the core kinds.
//!
//! A merge patch in which some lists merge by a key instead of being replaced, and in which `$patch`,
//! `$deleteFromPrimitiveList` and `$setElementOrder` are directives. Only the lists of the kinds that are served
//! are known.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

/// Lists that merge, by field name: objects by a key, or (no key) plain values as a set.
const MERGING: [(&str, Option<&str>); 3] =
    [("ownerReferences", Some("uid")), ("conditions", Some("type")), ("finalizers", None)];

/// Merges `patch` into `document`.
pub fn merge(document: &mut Value, patch: &Value) -> Result<(), String> {
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
                let gone: HashSet<&Value> = gone.iter().collect();
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
    let Some(key) = key else {
        let mut present: HashSet<&Value> = items.iter().collect();
        let added: Vec<Value> = changes.iter().filter(|change| present.insert(change)).cloned().collect();
        items.extend(added);
        return Ok(());
    };
    // Where items of each key stand, the first one first; those that are deleted leave a gap.
    let mut slots: Vec<Option<Value>> = std::mem::take(items).into_iter().map(Some).collect();
    let mut places: HashMap<Value, VecDeque<usize>> = HashMap::with_capacity(slots.len());
    for (at, item) in slots.iter().enumerate() {
        if let Some(id) = item.as_ref().and_then(|item| item.get(key)) {
            places.entry(id.clone()).or_default().push_back(at);
        }
    }
    for change in changes {
        let wanted = change
            .get(key)
            .ok_or_else(|| format!("map: {change} does not contain declared merge key: {key}"))?;
        let found = places.entry(wanted.clone()).or_default();
        let deletes = change.get("$patch").and_then(Value::as_str) == Some("delete");
        match found.front().copied() {
            Some(at) if deletes => {
                found.pop_front();
                slots[at] = None;
            }
            Some(at) => {
                if let Some(item) = &mut slots[at] {
                    merge(item, change)?;
                }
            }
            None if deletes => {}
            None => {
                found.push_back(slots.len());
                slots.push(Some(without_directives(change)));
            }
        }
    }
    *items = slots.into_iter().flatten().collect();
    Ok(())
}

/// Brings a merged list into its order: what the patch names stands as `order` has it, and the rest as it stood in
/// `live`, each of it as early as that allows.
fn sort_list(items: &mut Vec<Value>, live: &[Value], order: &[Value], key: Option<&str>) {
    let (in_order, in_live) = (places(order, key), places(live, key));
    let place = |places: &HashMap<&Value, usize>, item: &Value| places.get(id(item, key)).copied();
    let (mut named, mut rest): (Vec<Value>, Vec<Value>) =
        std::mem::take(items).into_iter().partition(|item| place(&in_order, item).is_some());
    named.sort_by_key(|item| place(&in_order, item));
    rest.sort_by_key(|item| place(&in_live, item));
    let (mut named, mut rest) = (named.into_iter().peekable(), rest.into_iter().peekable());
    while let Some(other) = rest.peek() {
        let earlier = named.peek().is_none_or(|one| match (place(&in_live, other), place(&in_live, one)) {
            (Some(other), Some(one)) => other < one,
            _ => false,
        });
        items.extend(if earlier { rest.next() } else { named.next() });
    }
    items.extend(named);
}

/// What tells an item of a list from the others.
fn id<'a>(item: &'a Value, key: Option<&str>) -> &'a Value {
    key.map_or(item, |key| &item[key])
}

/// Where each item of a list stands first.
fn places<'a>(list: &'a [Value], key: Option<&str>) -> HashMap<&'a Value, usize> {
    let mut places = HashMap::with_capacity(list.len());
    for (at, item) in list.iter().enumerate() {
        places.entry(id(item, key)).or_insert(at);
    }
    places
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
