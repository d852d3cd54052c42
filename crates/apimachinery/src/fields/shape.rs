//! What a schema says about merging: which lists and maps are owned as a whole and which by their parts.
//!
//! Read from a published schema as `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and
//! `x-kubernetes-map-type` have it. What the schema does not describe has a type that is deduced from the value:
//! maps by their fields, lists as a whole.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compare::Mismatch;
use crate::metadata;

/// The type of a value, for merging.
#[derive(Debug)]
pub enum Shape {
    /// Anything, owned as a whole.
    Untyped,
    /// Anything: maps by their fields, the rest as a whole.
    Deduced,
    /// What a schema describes.
    Typed(Box<Typed>),
}

/// A value may be of several of these.
#[derive(Debug, Default)]
pub struct Typed {
    scalar: Option<Scalar>,
    list: Option<(ListKind, Shape)>,
    map: Option<MapShape>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    String,
    Boolean,
    Any,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    Atomic,
    Set,
    /// Items are known by these fields.
    Keyed(Vec<String>),
}

#[derive(Debug)]
struct MapShape {
    fields: BTreeMap<String, (Shape, Option<Value>)>,
    /// The type of fields that are not declared; `None`: there may be none.
    rest: Option<Shape>,
    atomic: bool,
}

/// The one type that a value has.
#[derive(Clone, Copy)]
pub(super) enum Atom<'a> {
    Scalar(Scalar),
    List { kind: &'a ListKind, items: &'a Shape },
    Map(MapAtom<'a>),
}

#[derive(Clone, Copy)]
pub(super) struct MapAtom<'a> {
    fields: Option<&'a BTreeMap<String, (Shape, Option<Value>)>>,
    rest: Option<&'a Shape>,
    pub(super) atomic: bool,
}

const UNTYPED: &Shape = &Shape::Untyped;
const DEDUCED: &Shape = &Shape::Deduced;
const ATOMIC: &ListKind = &ListKind::Atomic;

impl<'a> MapAtom<'a> {
    /// The type of a field; `None`: it may not be there.
    pub(super) fn field(&self, name: &str) -> Option<&'a Shape> {
        self.declared(name).or(self.rest)
    }

    /// As [`Self::field`], of one that is there.
    pub(super) fn known_field(&self, name: &str) -> Result<&'a Shape, Mismatch> {
        self.field(name).ok_or_else(|| Mismatch(format!(".{name}: field not declared in schema")))
    }

    fn declared(&self, name: &str) -> Option<&'a Shape> {
        Some(&self.fields?.get(name)?.0)
    }

    pub(super) fn declares(&self, name: &str) -> bool {
        self.declared(name).is_some()
    }
}

impl Shape {
    /// The shape of whole objects of a published schema: its own metadata is that of every object.
    pub fn root(document: &Value) -> Self {
        Self::compile(&whole(document), false)
    }

    fn compile(document: &Value, mut preserve: bool) -> Self {
        let flag = |name: &str| document.get(name) == Some(&Value::Bool(true));
        let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
        preserve |= flag("x-kubernetes-preserve-unknown-fields");
        let mut typed = Typed::default();
        match text("type") {
            "object" => typed.map = Some(MapShape::compile(document, preserve)),
            "array" => typed.list = Some(list(document, preserve)),
            "integer" | "number" => typed.scalar = Some(Scalar::Numeric),
            "boolean" => typed.scalar = Some(Scalar::Boolean),
            "string" if matches!(text("format"), "" | "byte") => typed.scalar = Some(Scalar::String),
            "string" => typed.scalar = Some(Scalar::Any),
            _ => {
                typed.scalar = Some(Scalar::Any);
                typed.list = Some(list(document, preserve));
                typed.map = Some(MapShape::compile(document, preserve));
            }
        }
        Self::Typed(Box::new(typed))
    }

    fn typed(&self) -> Option<&Typed> {
        match self {
            Self::Typed(typed) => Some(typed),
            Self::Untyped | Self::Deduced => None,
        }
    }

    pub(super) fn map(&self) -> Option<MapAtom<'_>> {
        match self {
            Self::Untyped => Some(MapAtom { fields: None, rest: Some(UNTYPED), atomic: true }),
            Self::Deduced => Some(MapAtom { fields: None, rest: Some(DEDUCED), atomic: false }),
            Self::Typed(typed) => typed.map.as_ref().map(|map| MapAtom {
                fields: Some(&map.fields),
                rest: map.rest.as_ref(),
                atomic: map.atomic,
            }),
        }
    }

    fn scalar(&self) -> Option<Scalar> {
        self.typed().map_or(Some(Scalar::Any), |typed| typed.scalar)
    }

    fn list(&self) -> Option<(&ListKind, &Shape)> {
        match self {
            Self::Untyped | Self::Deduced => Some((ATOMIC, UNTYPED)),
            Self::Typed(typed) => typed.list.as_ref().map(|(kind, items)| (kind, items)),
        }
    }

    /// Which of its types a value has: its own where it may have that, else the first of map, scalar and list.
    pub(super) fn atom(&self, value: Option<&Value>) -> Atom<'_> {
        let map = || self.map().map(Atom::Map);
        let scalar = || self.scalar().map(Atom::Scalar);
        let list = || self.list().map(|(kind, items)| Atom::List { kind, items });
        let own = match value {
            None | Some(Value::Null) => None,
            Some(Value::Object(_)) => map(),
            Some(Value::Array(_)) => list(),
            Some(_) => scalar(),
        };
        own.or_else(map).or_else(scalar).or_else(list).unwrap_or(Atom::Scalar(Scalar::Any))
    }

    /// Whether the schema names this field.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.map().is_some_and(|map| map.declares(name))
    }

    /// The type of a field of this map.
    pub(super) fn field(&self, name: &str) -> Option<&Shape> {
        self.map()?.field(name)
    }

    /// The type of the items of this list.
    pub(super) fn items(&self) -> Option<&Shape> {
        Some(self.list()?.1)
    }

    /// The default of a field of this map.
    pub(super) fn default_of(&self, name: &str) -> Option<&Value> {
        self.typed()?.map.as_ref()?.fields.get(name)?.1.as_ref()
    }
}

impl MapShape {
    fn compile(document: &Value, preserve: bool) -> Self {
        let mut fields = BTreeMap::new();
        for (name, field) in document.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let mut shape = Shape::compile(field, preserve);
            if field.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
                shape = Shape::compile(&whole(field), preserve);
            }
            fields.insert(name.clone(), (shape, field.get("default").cloned()));
        }
        let rest = match document.get("additionalProperties") {
            None | Some(Value::Null) if preserve || fields.is_empty() => Some(Shape::Deduced),
            None | Some(Value::Null | Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(Shape::Deduced),
            Some(schema) => Some(Shape::compile(schema, preserve)),
        };
        let atomic = document.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic");
        Self { fields, rest, atomic }
    }
}

fn list(document: &Value, preserve: bool) -> (ListKind, Shape) {
    let keys = document.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let kind = match document.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListKind::Set,
        Some("map") => {
            ListKind::Keyed(keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => ListKind::Atomic,
    };
    let items = document.get("items").map_or(Shape::Untyped, |items| Shape::compile(items, preserve));
    (kind, items)
}

/// The schema of a whole object.
fn whole(document: &Value) -> Value {
    let mut document = document.clone();
    if let Value::Object(document) = &mut document
        && let Value::Object(properties) = document.entry("properties").or_insert_with(|| json!({}))
    {
        for field in ["apiVersion", "kind"] {
            properties.insert(field.to_owned(), json!({ "type": "string" }));
        }
        properties.insert("metadata".to_owned(), metadata::document());
    }
    document
}
