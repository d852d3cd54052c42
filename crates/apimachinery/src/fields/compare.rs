//! What differs between two objects, and which fields an object sets.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;
use super::set::Set;
use super::shape::{Atom, ListKind, MapAtom, Scalar, Shape};

/// The fields that the right one of two objects has changed. No field is in both.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: Set,
    /// Those that are new or have another value.
    pub(super) touched: Set,
}

/// Objects that cannot be compared: an item without a key, or values that fit the schema on neither side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mismatch(pub(super) String);

/// What became of a field itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Same,
    Removed,
    Touched,
}

impl Mark {
    /// Of a field that is compared as a whole.
    fn of(old: Option<&Value>, new: Option<&Value>) -> Self {
        match (old, new) {
            (Some(_), None) => Self::Removed,
            (old, new) if old == new => Self::Same,
            _ => Self::Touched,
        }
    }
}

impl Comparison {
    pub(super) fn of(
        shape: &Shape,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
    ) -> Result<Self, Mismatch> {
        let mut comparison = Self::default();
        if let Some(atom) = shape.map() {
            fields(atom, Some(old), Some(new), &mut comparison)?;
        }
        Ok(comparison)
    }

    /// Without these fields and what is below them.
    pub(super) fn without(self, ignored: &Set) -> Self {
        Self {
            removed: self.removed.difference_with_children(ignored),
            touched: self.touched.difference_with_children(ignored),
        }
    }

    fn record(&mut self, element: impl FnOnce() -> Element, mark: Mark, below: Self) {
        let is_removed = mark == Mark::Removed || !below.removed.is_empty();
        let is_touched = mark == Mark::Touched || !below.touched.is_empty();
        if !is_removed && !is_touched {
            return;
        }
        let element = element();
        if is_removed {
            self.removed.push(element.clone(), mark == Mark::Removed, below.removed);
        }
        self.touched.push(element, mark == Mark::Touched, below.touched);
    }
}

fn walk(
    shape: &Shape,
    old: Option<&Value>,
    new: Option<&Value>,
    out: &mut Comparison,
) -> Result<Mark, Mismatch> {
    let (left, right) = (shape.atom(old), shape.atom(new));
    let leaf = match (old, new) {
        (_, None) => handle(left, old, new, out)?,
        (None, _) => handle(right, old, new, out)?,
        _ if std::mem::discriminant(&left) == std::mem::discriminant(&right) => handle(right, old, new, out)?,
        _ => {
            let before = handle(left, old, new, out)?;
            handle(right, old, new, out)?.or(before)
        }
    };
    Ok(leaf.unwrap_or_else(|| if old.is_some() && new.is_some() { Mark::Same } else { Mark::of(old, new) }))
}

/// Compares two values as one type. `None`: they are compared by their parts.
fn handle(
    atom: Atom<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    out: &mut Comparison,
) -> Result<Option<Mark>, Mismatch> {
    match Parts::of(atom, old, new) {
        Parts::Whole => {
            if let (Atom::Scalar(scalar), Some(old), Some(new)) = (atom, old, new)
                && !scalar.fits(old)
                && !scalar.fits(new)
            {
                return Err(Mismatch(format!("expected {scalar:?}")));
            }
            return Ok(Some(Mark::of(old, new)));
        }
        Parts::List(kind, shape, old, new) => list_items(kind, shape, old, new, out)?,
        Parts::Map(atom, old, new) => fields(atom, old, new, out)?,
    }
    Ok(None)
}

/// How two values of one type are put side by side.
pub(super) enum Parts<'a> {
    /// As a whole.
    Whole,
    List(&'a ListKind, &'a Shape, &'a [Value], &'a [Value]),
    Map(MapAtom<'a>, Option<&'a Map<String, Value>>, Option<&'a Map<String, Value>>),
}

impl<'a> Parts<'a> {
    pub(super) fn of(atom: Atom<'a>, old: Option<&'a Value>, new: Option<&'a Value>) -> Self {
        match atom {
            Atom::List { kind, items } if *kind != ListKind::Atomic => {
                let list = |value: Option<&'a Value>| value?.as_array().map(Vec::as_slice);
                match (list(old).unwrap_or_default(), list(new).unwrap_or_default()) {
                    ([], []) => Self::Whole,
                    (old, new) => Self::List(kind, items, old, new),
                }
            }
            Atom::Map(atom) if !atom.atomic => {
                let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                let is_empty = old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty);
                if is_empty { Self::Whole } else { Self::Map(atom, old, new) }
            }
            _ => Self::Whole,
        }
    }
}

fn fields(
    atom: MapAtom<'_>,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    out: &mut Comparison,
) -> Result<(), Mismatch> {
    for (name, before, after) in zip(old, new) {
        let mut below = Comparison::default();
        let mark = walk(atom.known_field(name)?, before, after, &mut below)?;
        out.record(|| Element::field(name), mark, below);
    }
    Ok(())
}

/// The fields of two maps side by side, by name.
pub(super) fn zip<'a>(
    old: Option<&'a Map<String, Value>>,
    new: Option<&'a Map<String, Value>>,
) -> impl Iterator<Item = (&'a str, Option<&'a Value>, Option<&'a Value>)> {
    let mut old = old.into_iter().flatten().peekable();
    let mut new = new.into_iter().flatten().peekable();
    std::iter::from_fn(move || {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return None,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((left, _)), Some((right, _))) => left.cmp(right),
        };
        let before = if order.is_le() { old.next() } else { None };
        let after = if order.is_ge() { new.next() } else { None };
        let name = before.or(after)?.0.as_str();
        Some((name, before.map(|(_, value)| value), after.map(|(_, value)| value)))
    })
}

fn list_items(
    kind: &ListKind,
    shape: &Shape,
    old: &[Value],
    new: &[Value],
    out: &mut Comparison,
) -> Result<(), Mismatch> {
    let mut items: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in old {
        items.entry(element_of(kind, shape, item)?).or_default().0.push(item);
    }
    for item in new {
        items.entry(element_of(kind, shape, item)?).or_default().1.push(item);
    }
    for (element, (before, after)) in items {
        let mut below = Comparison::default();
        let mark = match (before.as_slice(), after.as_slice()) {
            ([] | [_], [] | [_]) => walk(shape, before.first().copied(), after.first().copied(), &mut below)?,
            // Items that stand several times are compared as a whole.
            ([_, _, ..], [_, _, ..]) => {
                if before == after {
                    Mark::Same
                } else {
                    Mark::Touched
                }
            }
            // One that stands once on one side and several times on the other is compared with none.
            (before, after) => {
                let (old, new, mark) = match before {
                    [_, _, ..] => (None, after.first().copied(), Mark::Removed),
                    _ => (before.first().copied(), None, Mark::Touched),
                };
                if old.or(new).is_some() {
                    let mark = walk(shape, old, new, &mut below)?;
                    out.record(|| element.clone(), mark, std::mem::take(&mut below));
                }
                mark
            }
        };
        out.record(|| element, mark, below);
    }
    Ok(())
}

/// What selects an item of its list.
pub(super) fn element_of(kind: &ListKind, shape: &Shape, item: &Value) -> Result<Element, Mismatch> {
    let refuse = |why: &str| Err(Mismatch(why.to_owned()));
    let (keys, item) = match (kind, item) {
        (ListKind::Keyed(keys), Value::Object(item)) if !keys.is_empty() => (keys, item),
        (ListKind::Keyed(keys), _) if !keys.is_empty() => {
            return refuse("associative list with keys may not have non-map elements");
        }
        (_, Value::Object(_) | Value::Array(_) | Value::Null) => {
            return refuse("associative list without keys has an element that's a map type");
        }
        (_, scalar) => return Ok(Element::Value(scalar.to_string())),
    };
    let value = |key: &String| Some((key.clone(), item.get(key).or_else(|| shape.default_of(key))?.clone()));
    let found: Map<String, Value> = keys.iter().filter_map(value).collect();
    if found.is_empty() {
        return Err(Mismatch(format!(
            "associative list with keys has an element that omits all key fields {keys:?} (and doesn't have default \
             values for any key fields)"
        )));
    }
    Ok(Element::Key(Value::Object(found).to_string()))
}

impl Scalar {
    pub(super) fn fits(self, value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(_) | Value::Object(_) => false,
            Value::Number(_) => matches!(self, Self::Numeric | Self::Any),
            Value::String(_) => matches!(self, Self::String | Self::Any),
            Value::Bool(_) => matches!(self, Self::Boolean | Self::Any),
        }
    }
}

/// The fields that an applied object sets.
pub(super) fn field_set(shape: &Shape, object: &Map<String, Value>) -> Result<Set, Mismatch> {
    let mut set = Set::default();
    if let Some(atom) = shape.map() {
        set_of_fields(atom, object, &mut set)?;
    }
    Ok(set)
}

/// Collects what is below a value; whether the value itself is a field that is set.
fn collect(shape: &Shape, value: &Value, set: &mut Set) -> Result<bool, Mismatch> {
    match (shape.atom(Some(value)), value) {
        (Atom::List { kind, items }, value) if *kind != ListKind::Atomic => {
            let mut found: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
            for item in value.as_array().into_iter().flatten() {
                found.entry(element_of(kind, items, item)?).or_default().push(item);
            }
            for (element, values) in found {
                let mut below = Set::default();
                if let [one] = values.as_slice() {
                    collect(items, one, &mut below)?;
                }
                set.push(element, true, below);
            }
            Ok(false)
        }
        (Atom::Map(atom), value) if !atom.atomic => {
            if let Value::Object(map) = value {
                set_of_fields(atom, map, set)?;
            }
            Ok(false)
        }
        _ => Ok(true),
    }
}

fn set_of_fields(atom: MapAtom<'_>, map: &Map<String, Value>, set: &mut Set) -> Result<(), Mismatch> {
    for (name, value) in map {
        let mut below = Set::default();
        let leaf = collect(atom.known_field(name)?, value, &mut below)?;
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        set.push(Element::field(name), leaf || empty || !atom.declares(name), below);
    }
    Ok(())
}
