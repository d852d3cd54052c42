//! Whether an applied object fits its shape, and what does not.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::compare::{Mismatch, element_of};
use super::element::Element;
use super::shape::{Atom, ListKind, MapAtom, Scalar, Shape};
use crate::json::type_name;

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
    if let Some(atom) = shape.map() {
        fields(atom, object, &mut String::new(), &mut problems);
    }
    problems
}

fn value(shape: &Shape, value: &Value, path: &mut String, problems: &mut Problems) {
    match (shape.atom(Some(value)), value) {
        (_, Value::Null) => {}
        (Atom::Scalar(scalar), value) => {
            if !scalar.fits(value) {
                let expected = match scalar {
                    Scalar::Numeric => "numeric (int or float)",
                    Scalar::String => "string",
                    Scalar::Boolean => "boolean",
                    Scalar::Any => "any scalar",
                };
                problems.push((path.clone(), wrong(expected, value)));
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
            problems.push((path.clone(), wrong("list", other)));
        }
        (Atom::Map(atom), Value::Object(map)) => fields(atom, map, path, problems),
        (Atom::Map(_), other) => {
            problems.push((path.clone(), wrong("map", other)));
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

fn wrong(expected: &str, found: &Value) -> String {
    format!("expected {expected}, got {}", type_name(found))
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
            (json!({ "name": 1 }), ".spec.name: expected string, got integer"),
            (json!({ "set": ["a", "a"] }), ".spec.set: duplicate entries for key [=\"a\"]"),
            (
                json!({ "name": 1, "size": true }),
                "errors:\n  .spec.name: expected string, got integer\n  .spec.size: expected \
                 numeric (int or float), got boolean",
            ),
        ] {
            let object = Map::from_iter([("spec".to_owned(), spec)]);
            let found = check(&shape, &object).err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(found, why);
        }
    }
}
