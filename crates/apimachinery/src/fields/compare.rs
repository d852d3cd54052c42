//! What differs between two objects, and which fields an object sets.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, same};
use super::set::Set;
use super::shape::{Atom, ListKind, MapAtom, Scalar, Shape};

/// The fields that the right one of two objects has changed. No field is in two of them.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: Set,
    pub(super) modified: Set,
    pub(super) added: Set,
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
    Modified,
    Added,
}

impl Comparison {
    pub(super) fn of(
        shape: &Shape,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
    ) -> Result<Self, Mismatch> {
        let mut comparison = Self::default();
        if let Atom::Map(atom) = shape.atom(Some(&Value::Object(Map::new()))) {
            fields(atom, Some(old), Some(new), &mut comparison)?;
        }
        Ok(comparison)
    }

    /// Without these fields and what is below them.
    pub(super) fn without(self, ignored: &Set) -> Self {
        if ignored.is_empty() {
            return self;
        }
        Self {
            removed: self.removed.difference_with_children(ignored),
            modified: self.modified.difference_with_children(ignored),
            added: self.added.difference_with_children(ignored),
        }
    }

    fn record(&mut self, element: impl FnOnce() -> Element, mark: Mark, below: Self) {
        let parts = [
            (&mut self.removed, below.removed, Mark::Removed),
            (&mut self.modified, below.modified, Mark::Modified),
            (&mut self.added, below.added, Mark::Added),
        ];
        let mut touched: Vec<_> =
            parts.into_iter().filter(|(_, below, own)| mark == *own || !below.is_empty()).collect();
        let Some((last, below, own)) = touched.pop() else { return };
        let element = element();
        for (set, below, own) in touched {
            set.push(element.clone(), mark == own, below);
        }
        last.push(element, mark == own, below);
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
    Ok(leaf.unwrap_or(match (old, new) {
        (None, _) => Mark::Added,
        (_, None) => Mark::Removed,
        _ => Mark::Same,
    }))
}

/// Compares two values as one type. `None`: they are compared by their parts.
fn handle(
    atom: Atom<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    out: &mut Comparison,
) -> Result<Option<Mark>, Mismatch> {
    match atom {
        Atom::Scalar(scalar) => {
            if let (Some(old), Some(new)) = (old, new)
                && !scalar.fits(old)
                && !scalar.fits(new)
            {
                return Err(Mismatch(format!("expected {scalar:?}")));
            }
            Ok(Some(leaf(old, new)))
        }
        Atom::List { kind, items } => {
            let (before, after) = (list_of(old), list_of(new));
            let empty = before.is_none_or(<[Value]>::is_empty) && after.is_none_or(<[Value]>::is_empty);
            if *kind == ListKind::Atomic || empty {
                return Ok(Some(leaf(old, new)));
            }
            list_items(kind, items, before.unwrap_or_default(), after.unwrap_or_default(), out)?;
            Ok(None)
        }
        Atom::Map(map) => {
            let (before, after) = (map_of(old), map_of(new));
            let empty = before.is_none_or(Map::is_empty) && after.is_none_or(Map::is_empty);
            if map.atomic || empty {
                return Ok(Some(leaf(old, new)));
            }
            fields(map, before, after, out)?;
            Ok(None)
        }
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Mark {
    match (old, new) {
        (None, _) => Mark::Added,
        (_, None) => Mark::Removed,
        (Some(old), Some(new)) if same(old, new) => Mark::Same,
        _ => Mark::Modified,
    }
}

pub(super) fn list_of(value: Option<&Value>) -> Option<&[Value]> {
    value?.as_array().map(Vec::as_slice)
}

pub(super) fn map_of(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value?.as_object()
}

fn fields(
    atom: MapAtom<'_>,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    out: &mut Comparison,
) -> Result<(), Mismatch> {
    for (name, before, after) in zip(old, new) {
        let Some(shape) = atom.field(name) else {
            return Err(Mismatch(format!(".{name}: field not declared in schema")));
        };
        let mut below = Comparison::default();
        let mark = walk(shape, before, after, &mut below)?;
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
                let equal = before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| same(a, b));
                if equal { Mark::Same } else { Mark::Modified }
            }
            ([_, _, ..], _) => {
                if let Some(item) = after.first() {
                    let mark = walk(shape, None, Some(item), &mut below)?;
                    out.record(|| element.clone(), mark, std::mem::take(&mut below));
                }
                Mark::Removed
            }
            (_, _) => {
                if let Some(item) = before.first() {
                    let mark = walk(shape, Some(item), None, &mut below)?;
                    out.record(|| element.clone(), mark, std::mem::take(&mut below));
                }
                Mark::Added
            }
        };
        out.record(|| element, mark, below);
    }
    Ok(())
}

/// What selects an item of its list.
pub(super) fn element_of(kind: &ListKind, shape: &Shape, item: &Value) -> Result<Element, Mismatch> {
    let refuse = |why: &str| Err(Mismatch(why.to_owned()));
    let keys = match kind {
        ListKind::Keyed(keys) if !keys.is_empty() => keys,
        _ => {
            return match item {
                Value::Object(_) => refuse("associative list without keys has an element that's a map type"),
                Value::Array(_) => refuse("not supported: associative list with lists as elements"),
                Value::Null => refuse("associative list without keys has an element that's an explicit null"),
                scalar => Ok(Element::Value(scalar.clone())),
            };
        }
    };
    let item = match item {
        Value::Object(item) => item,
        Value::Null => return refuse("associative list with keys may not have a null element"),
        _ => return refuse("associative list with keys may not have non-map elements"),
    };
    let mut found: Vec<(String, Value)> = keys
        .iter()
        .filter_map(|key| Some((key.clone(), item.get(key).or_else(|| shape.default_of(key))?.clone())))
        .collect();
    if found.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(Mismatch(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
             values for any key fields)",
            keys.join(" ")
        )));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Element::Key(found))
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
    if let Atom::Map(atom) = shape.atom(Some(&Value::Object(Map::new()))) {
        set_of_fields(atom, object, &mut set)?;
    }
    Ok(set)
}

/// Collects what is below a value; whether the value itself is a field that is set.
fn collect(shape: &Shape, value: &Value, set: &mut Set) -> Result<bool, Mismatch> {
    match shape.atom(Some(value)) {
        Atom::Scalar(_) => Ok(true),
        Atom::List { kind, items } => {
            if *kind == ListKind::Atomic {
                return Ok(true);
            }
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
        Atom::Map(atom) => {
            if atom.atomic {
                return Ok(true);
            }
            if let Value::Object(map) = value {
                set_of_fields(atom, map, set)?;
            }
            Ok(false)
        }
    }
}

fn set_of_fields(atom: MapAtom<'_>, map: &Map<String, Value>, set: &mut Set) -> Result<(), Mismatch> {
    for (name, value) in map {
        let Some(shape) = atom.field(name) else {
            return Err(Mismatch(format!(".{name}: field not declared in schema")));
        };
        let mut below = Set::default();
        let leaf = collect(shape, value, &mut below)?;
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        set.push(Element::field(name), leaf || empty || !atom.declares(name), below);
    }
    Ok(())
}
