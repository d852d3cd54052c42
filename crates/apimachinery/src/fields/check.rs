//! Whether an applied object fits its shape, with the words of the real server.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::compare::{Mismatch, element_of};
use super::element::Element;
use super::shape::{Atom, ListKind, MapAtom, Scalar, Shape};

/// What is wrong, each with the path to it.
type Problems = Vec<(String, String)>;

/// Nothing more is looked for once so much is wrong.
const MOST: usize = 100;

/// How it starts what is said of items that stand twice.
const TWICE: &str = "duplicate entries for key";

/// Refuses an object that has undeclared fields, values of a wrong type, or an item twice in a keyed list.
pub fn check(shape: &Shape, object: &Map<String, Value>) -> Result<(), Mismatch> {
    let problems = problems_of(shape, object);
    let shown: Vec<String> = problems
        .iter()
        .map(|(path, what)| if path.is_empty() { what.clone() } else { format!("{path}: {what}") })
        .collect();
    match shown.as_slice() {
        [] => Ok(()),
        [one] => Err(Mismatch(one.clone())),
        many => Err(Mismatch(format!("errors:\n  {}", many.join("\n  ")))),
    }
}

/// Whether an object fits its shape; items may stand there twice.
pub fn fits(shape: &Shape, object: &Map<String, Value>) -> bool {
    problems_of(shape, object).iter().all(|(_, what)| what.starts_with(TWICE))
}

fn problems_of(shape: &Shape, object: &Map<String, Value>) -> Problems {
    let mut problems = Vec::new();
    if let Atom::Map(atom) = shape.atom(Some(&Value::Object(Map::new()))) {
        fields(atom, object, &mut String::new(), &mut problems);
    }
    problems
}

fn value(shape: &Shape, value: &Value, path: &mut String, problems: &mut Problems) {
    match (shape.atom(Some(value)), value) {
        (_, Value::Null) => {}
        (Atom::Scalar(scalar), value) => {
            if !scalar.fits(value) {
                problems.push((path.clone(), wrong_scalar(scalar, value)));
            }
        }
        (Atom::List { kind, items }, Value::Array(list)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in list.iter().enumerate() {
                let element = if *kind == ListKind::Atomic {
                    Element::Index(i64::try_from(index).unwrap_or_default())
                } else {
                    match element_of(kind, items, item) {
                        Ok(element) => element,
                        Err(Mismatch(why)) => {
                            problems.push((path.clone(), format!("element {index}: {why}")));
                            return;
                        }
                    }
                };
                if problems.len() >= MOST {
                    return;
                }
                if *kind != ListKind::Atomic && !seen.insert(element.clone()) {
                    problems.push((path.clone(), format!("{TWICE} {element}")));
                }
                at(&element, path, |path| self::value(items, item, path, problems));
            }
        }
        (Atom::List { .. }, other) => {
            problems.push((path.clone(), format!("expected list, got &{{{}}}", go(other))));
        }
        (Atom::Map(atom), Value::Object(map)) => fields(atom, map, path, problems),
        (Atom::Map(_), other) => {
            problems.push((path.clone(), format!("expected map, got &{{{}}}", go(other))));
        }
    }
}

fn fields(atom: MapAtom<'_>, map: &Map<String, Value>, path: &mut String, problems: &mut Problems) {
    for (name, field) in map {
        let element = Element::field(name);
        let Some(shape) = atom.field(name) else {
            at(&element, path, |path| {
                problems.push((path.clone(), "field not declared in schema".to_owned()));
            });
            return;
        };
        at(&element, path, |path| value(shape, field, path, problems));
    }
}

fn at(element: &Element, path: &mut String, inside: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(&element.to_string());
    inside(path);
    path.truncate(length);
}

fn wrong_scalar(expected: Scalar, found: &Value) -> String {
    match expected {
        Scalar::Numeric => {
            let found = match found {
                Value::Bool(_) => "bool",
                Value::String(_) => "string",
                Value::Array(_) => "[]interface {}",
                Value::Object(_) => "map[string]interface {}",
                Value::Null | Value::Number(_) => "<nil>",
            };
            format!("expected numeric (int or float), got {found}")
        }
        Scalar::String => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(found))
        }
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", go(found)),
        Scalar::Any => format!("expected any scalar, got &{{{}}}", go(found)),
    }
}

/// A value as Go's `%v` prints it.
pub fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let fields: Vec<String> =
                map.iter().map(|(name, value)| format!("{name}:{}", go(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// A value as Go's `%#v` prints it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let fields: Vec<String> =
                map.iter().map(|(name, value)| format!("{name:?}:{}", go_syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_fit_is_told_with_its_path() {
        let shape = Shape::root(
            &json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
            "size": { "type": "integer" }, "name": { "type": "string" },
            "set": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "set" } } } } }),
        );
        for (spec, why) in [
            (json!({ "size": 1, "name": "x", "set": ["a"] }), ""),
            (json!({ "other": 1 }), ".spec.other: field not declared in schema"),
            (json!({ "size": "x" }), ".spec.size: expected numeric (int or float), got string"),
            (json!({ "name": 1 }), ".spec.name: expected string, got &value.valueUnstructured{Value:1}"),
            (json!({ "set": ["a", "a"] }), ".spec.set: duplicate entries for key [=\"a\"]"),
            (
                json!({ "name": 1, "size": true }),
                "errors:\n  .spec.name: expected string, got &value.valueUnstructured{Value:1}\n  .spec.size: expected \
                 numeric (int or float), got bool",
            ),
        ] {
            let object = Map::from_iter([("spec".to_owned(), spec)]);
            let found = check(&shape, &object).err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(found, why);
        }
    }
}
