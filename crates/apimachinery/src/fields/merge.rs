//! Merging an applied object into the live one, and taking fields out of an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::compare::{Mismatch, Parts, element_of, zip};
use super::element::Element;
use super::set::Set;
use super::shape::{Atom, ListKind, MapAtom, Shape};

/// The live object with the fields of the applied one. Nothing is removed.
pub(super) fn merge(
    shape: &Shape,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Result<Map<String, Value>, Mismatch> {
    shape.map().map_or_else(|| Ok(applied.clone()), |atom| fields(atom, Some(live), Some(applied)))
}

fn value(shape: &Shape, live: Option<&Value>, applied: Option<&Value>) -> Result<Option<Value>, Mismatch> {
    Ok(match Parts::of(shape.atom(applied.or(live)), live, applied) {
        Parts::Whole => applied.or(live).cloned(),
        Parts::List(kind, items, live, applied) => {
            Some(list(kind, items, live, applied)?).filter(|merged| !merged.is_empty()).map(Value::Array)
        }
        Parts::Map(atom, live, applied) => {
            Some(fields(atom, live, applied)?).filter(|merged| !merged.is_empty()).map(Value::Object)
        }
    })
}

fn fields(
    atom: MapAtom<'_>,
    live: Option<&Map<String, Value>>,
    applied: Option<&Map<String, Value>>,
) -> Result<Map<String, Value>, Mismatch> {
    let mut merged = Map::new();
    for (name, before, after) in zip(live, applied) {
        if let Some(value) = value(atom.known_field(name)?, before, after)? {
            merged.insert(name.to_owned(), value);
        }
    }
    Ok(merged)
}

/// Items of both: in the order of the applied ones, with the live ones that it does not name where they stood.
fn list(kind: &ListKind, shape: &Shape, live: &[Value], applied: &[Value]) -> Result<Vec<Value>, Mismatch> {
    let elements = |items: &[Value]| -> Result<Vec<Element>, Mismatch> {
        items.iter().map(|item| element_of(kind, shape, item)).collect()
    };
    let (left, right) = (elements(live)?, elements(applied)?);
    let mut in_applied: BTreeMap<&Element, &Value> = BTreeMap::new();
    for (element, item) in right.iter().zip(applied) {
        if in_applied.insert(element, item).is_some() {
            return Err(Mismatch(format!("duplicate entries for key {element}")));
        }
    }
    // An item that stands several times in the live list is replaced, not merged.
    let mut in_live: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
    for (element, item) in left.iter().zip(live) {
        in_live.entry(element).and_modify(|found| *found = None).or_insert(Some(item));
    }
    let mut shared = right.iter().filter(|element| in_live.contains_key(element)).peekable();
    let mut out = Vec::with_capacity(left.len().max(right.len()));
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let (mut at_live, mut at_applied) = (0, 0);
    while at_live < left.len() || at_applied < right.len() {
        let own = left.get(at_live);
        let wanted = right.get(at_applied);
        if let (Some(own), Some(wanted)) = (own, wanted) {
            // A shared item, but not the one whose turn it is.
            let later = own != wanted && in_applied.contains_key(own);
            if later && shared.peek().is_some_and(|next| *next != own) {
                at_live += 1;
                continue;
            }
        }
        if let Some(own) = own.filter(|own| !in_applied.contains_key(own)) {
            debug_assert!(Some(own) != wanted, "an applied item is known");
            out.extend(value(shape, live.get(at_live), None)?);
            at_live += 1;
            continue;
        }
        if own.is_some_and(|own| Some(own) == wanted || done.contains(own)) {
            at_live += 1;
        }
        if let Some(wanted) = wanted {
            let before = in_live.get(wanted).copied().flatten();
            out.extend(value(shape, before, in_applied.get(wanted).copied())?);
            done.insert(wanted);
            at_applied += 1;
            if own == Some(wanted) || shared.peek().is_some_and(|next| *next == wanted) {
                shared.next();
            }
        }
    }
    Ok(out)
}

/// The object without these fields. A map or list that loses all of its parts becomes null, as in the real one.
pub(super) fn without(shape: &Shape, object: &Map<String, Value>, gone: &Set) -> Map<String, Value> {
    shape.map().filter(|atom| !atom.atomic).map(|atom| map_without(atom, object, gone)).unwrap_or_default()
}

fn value_without(shape: &Shape, value: &Value, gone: &Set) -> Value {
    match (shape.atom(Some(value)), value) {
        (Atom::Scalar(_), value) => value.clone(),
        (Atom::List { kind, items }, Value::Array(list)) if *kind != ListKind::Atomic => {
            let mut kept = Vec::with_capacity(list.len());
            for item in list {
                let node = element_of(kind, items, item).ok().and_then(|element| gone.get(&element));
                match node {
                    None => kept.push(item.clone()),
                    Some(node) if node.member => {}
                    Some(node) => kept.push(value_without(items, item, &node.children)),
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Atom::Map(atom), Value::Object(map)) if !atom.atomic => {
            let kept = map_without(atom, map, gone);
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        _ => Value::Null,
    }
}

fn map_without(atom: MapAtom<'_>, map: &Map<String, Value>, gone: &Set) -> Map<String, Value> {
    let mut kept = Map::new();
    for (name, value) in map {
        match gone.get(&Element::field(name)) {
            None => kept.insert(name.clone(), value.clone()),
            Some(node) if node.member => None,
            Some(node) => {
                let value = match atom.field(name) {
                    Some(shape) => value_without(shape, value, &node.children),
                    None => value.clone(),
                };
                kept.insert(name.clone(), value)
            }
        };
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::compare::field_set;
    use super::*;

    fn shape() -> Shape {
        let item = json!({ "type": "object", "properties": {
            "name": { "type": "string" }, "port": { "type": "integer", "default": 80 }, "note": { "type": "string" } } });
        Shape::root(&json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
            "set": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "set" },
            "list": { "type": "array", "items": { "type": "string" } },
            "keyed": { "type": "array", "items": item, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name", "port"] },
            "map": { "type": "object", "additionalProperties": { "type": "string" } },
            "whole": { "type": "object", "additionalProperties": { "type": "string" }, "x-kubernetes-map-type": "atomic" },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } } } }))
    }

    fn object(spec: Value) -> Map<String, Value> {
        Map::from_iter([("spec".to_owned(), spec)])
    }

    fn check(live: Value, applied: Value, expected: &Value) {
        let merged = merge(&shape(), &object(live), &object(applied)).unwrap();
        assert_eq!(merged["spec"], *expected);
    }

    #[test]
    fn lists_merge_as_their_type_says() {
        check(
            json!({ "set": ["a", "b", "c"] }),
            json!({ "set": ["c", "d"] }),
            &json!({ "set": ["a", "b", "c", "d"] }),
        );
        check(
            json!({ "set": ["a", "b", "c"] }),
            json!({ "set": ["c", "a"] }),
            &json!({ "set": ["b", "c", "a"] }),
        );
        check(json!({ "list": ["a", "b"] }), json!({ "list": ["c"] }), &json!({ "list": ["c"] }));
        check(
            json!({ "keyed": [{ "name": "a", "port": 80, "note": "x" }, { "name": "b" }] }),
            json!({ "keyed": [{ "name": "b", "note": "y" }, { "name": "a" }] }),
            &json!({ "keyed": [{ "name": "b", "note": "y" }, { "name": "a", "port": 80, "note": "x" }] }),
        );
    }

    #[test]
    fn maps_merge_as_their_type_says() {
        check(
            json!({ "map": { "a": "1", "b": "2" } }),
            json!({ "map": { "b": "3" } }),
            &json!({ "map": { "a": "1", "b": "3" } }),
        );
        check(
            json!({ "whole": { "a": "1" } }),
            json!({ "whole": { "b": "3" } }),
            &json!({ "whole": { "b": "3" } }),
        );
        check(
            json!({ "free": { "a": { "b": 1 }, "l": [1] } }),
            json!({ "free": { "a": { "c": 2 }, "l": [2] } }),
            &json!({ "free": { "a": { "b": 1, "c": 2 }, "l": [2] } }),
        );
        assert!(merge(&shape(), &object(json!({})), &object(json!({ "unknown": 1 }))).is_err());
    }

    #[test]
    fn what_is_taken_out_is_gone() {
        let spec = json!({ "set": ["a", "b"], "keyed": [{ "name": "a", "port": 1 }], "map": { "a": "1", "b": "2" } });
        let gone = json!({ "set": ["a"], "keyed": [{ "name": "a", "port": 1 }], "map": { "b": "2" } });
        let gone = field_set(&shape(), &object(gone)).unwrap();
        let left = without(&shape(), &object(spec), &gone);
        assert_eq!(left["spec"], json!({ "set": ["b"], "keyed": null, "map": { "a": "1" } }));
    }

    #[test]
    fn an_item_twice_in_an_applied_list_is_refused() {
        let applied = object(json!({ "set": ["a", "a"] }));
        assert!(merge(&shape(), &object(json!({ "set": ["b"] })), &applied).is_err());
    }
}
