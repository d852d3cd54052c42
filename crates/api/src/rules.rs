//! Rules that an object has to keep beyond its schema: one table for API servers and for controllers.
//!
//! Each [`Rule`] says the same thing twice: as a CEL expression, which goes into the definition as
//! `x-kubernetes-validations`, and as a function, for controllers that judge what is in no server yet, or was stored under
//! other rules. Path, reason and text of the refusal are stated once. Rules stand on objects, never on the text that they
//! are about, so that no server repeats the
//! refused value: a URL may have a password in it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::field_error::{FieldError, FieldErrorReason};

/// Something that an object of type `T` has to keep.
#[derive(Debug)]
pub struct Rule<T: 'static> {
    /// The rule's own name, unique in its table.
    pub name: &'static str,
    /// Where it stands in the schema: the path of an object, of a list's items (`spec.delete.paths[]`), or the root.
    pub at: &'static str,
    /// The field that it is about, seen from there; empty for the place itself.
    pub field: &'static str,
    /// The kind of refusal.
    pub reason: Reason,
    /// What is wrong, for a reader.
    pub message: &'static str,
    /// Holds when the object is fine; `self` is the value at [`Rule::at`].
    pub cel: &'static str,
    /// The same for a controller.
    pub check: Check<T>,
}

/// The kinds of refusal that CEL rules can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The value cannot be.
    Invalid,
    /// The field is missing.
    Required,
    /// The field may not be set, or not be changed.
    Forbidden,
}

/// How a controller sees that a rule is broken.
#[derive(Debug)]
pub enum Check<T: 'static> {
    /// By the object alone. What was broken before and did not change is let through, as Kubernetes does.
    Object(fn(&T) -> bool),
    /// By what an update changes; `oldSelf` in CEL. The new one comes first.
    Change(fn(&T, &T) -> bool),
    /// By the object, and on updates by what was there; an optional `oldSelf` in CEL.
    Write(fn(&T, Option<&T>) -> bool),
    /// By each text of a list.
    Each(fn(&T) -> &[String], fn(&str) -> bool),
    /// Never: a server that seals raw values takes what others have to refuse.
    Elsewhere,
}

impl Reason {
    fn field_error_reason(self) -> FieldErrorReason {
        match self {
            Self::Invalid => FieldErrorReason::Invalid,
            Self::Required => FieldErrorReason::Required,
            Self::Forbidden => FieldErrorReason::Forbidden,
        }
    }
}

impl<T> Rule<T> {
    /// A value that cannot be.
    pub(crate) const fn invalid(
        (name, at, field): (&'static str, &'static str, &'static str),
        message: &'static str,
        cel: &'static str,
        check: Check<T>,
    ) -> Self {
        Self { name, at, field, reason: Reason::Invalid, message, cel, check }
    }

    /// A field that is missing.
    pub(crate) const fn required(
        (name, at, field): (&'static str, &'static str, &'static str),
        message: &'static str,
        cel: &'static str,
        check: Check<T>,
    ) -> Self {
        Self { name, at, field, reason: Reason::Required, message, cel, check }
    }

    /// A field that may not be set or changed.
    pub(crate) const fn forbidden(
        (name, at, field): (&'static str, &'static str, &'static str),
        message: &'static str,
        cel: &'static str,
        check: Check<T>,
    ) -> Self {
        Self { name, at, field, reason: Reason::Forbidden, message, cel, check }
    }

    /// The path that the refusal names.
    fn path(&self) -> String {
        let separator = if self.at.is_empty() || self.field.is_empty() { "" } else { "." };
        format!("{}{separator}{}", self.at, self.field)
    }

    fn error(&self, path: &str, bad_value: Option<Value>) -> FieldError {
        FieldError {
            field: path.to_owned(),
            reason: self.reason.field_error_reason(),
            message: self.message.to_owned(),
            bad_value: bad_value.filter(|_| self.reason == Reason::Invalid),
        }
    }

    /// The rule as a definition carries it.
    pub(crate) fn validation(&self) -> Value {
        let mut validation = Map::new();
        validation.insert("rule".to_owned(), self.cel.into());
        validation.insert("message".to_owned(), self.message.into());
        validation.insert("reason".to_owned(), self.reason.field_error_reason().as_str().into());
        if !self.field.is_empty() {
            validation.insert("fieldPath".to_owned(), format!(".{}", self.field).into());
        }
        if matches!(self.check, Check::Write(_)) {
            validation.insert("optionalOldSelf".to_owned(), true.into());
        }
        validation.into()
    }
}

/// Every rule that is broken, in the table's order. `root` is the path of `T` in its object, empty when it is the object.
pub fn broken<T: Serialize>(tables: &[&[Rule<T>]], root: &str, new: &T, old: Option<&T>) -> Vec<FieldError> {
    evaluate(tables, root, new, old, old)
}

/// Every rule that an object as it is stored breaks: what only new objects are asked is not.
pub fn standing<T: Serialize>(tables: &[&[Rule<T>]], root: &str, stored: &T) -> Vec<FieldError> {
    evaluate(tables, root, stored, Some(stored), None)
}

/// `spared`: what is broken in it as well is let through.
fn evaluate<T: Serialize>(
    tables: &[&[Rule<T>]],
    root: &str,
    new: &T,
    old: Option<&T>,
    spared: Option<&T>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for rule in tables.iter().copied().flatten() {
        match rule.check {
            Check::Object(broken) if broken(new) && !unchanged(rule, root, new, spared) => {
                errors.push(rule.error(&rule.path(), None));
            }
            Check::Change(broken) if old.is_some_and(|old| broken(new, old)) => {
                errors.push(rule.error(&rule.path(), None));
            }
            Check::Write(broken) if broken(new, old) => errors.push(rule.error(&rule.path(), None)),
            Check::Each(texts, broken) if texts(new).iter().any(|text| broken(text)) => {
                if unchanged(rule, root, new, spared) {
                    continue;
                }
                let list = rule.at.trim_end_matches("[]");
                let bad = texts(new).iter().enumerate().filter(|(_, text)| broken(text));
                errors.extend(bad.map(|(index, text)| {
                    rule.error(&format!("{list}[{index}]"), Some(Value::String(text.clone())))
                }));
            }
            _ => {}
        }
    }
    errors
}

/// Whether an update leaves the place of a rule as it was.
fn unchanged<T: Serialize>(rule: &Rule<T>, root: &str, new: &T, old: Option<&T>) -> bool {
    let Some(old) = old else { return false };
    let at = rule.at.strip_prefix(root).unwrap_or(rule.at).trim_end_matches("[]").trim_start_matches('.');
    let pointer: String =
        at.split('.').filter(|name| !name.is_empty()).flat_map(|name| ["/", name]).collect();
    let place = |object: &T| serde_json::to_value(object).ok()?.pointer(&pointer).cloned();
    place(new) == place(old)
}

/// Puts the rules into a schema.
pub(crate) fn attach<T>(schema: &mut Value, tables: &[&[Rule<T>]]) {
    for rule in tables.iter().copied().flatten() {
        if let Value::Object(place) = place_mut(schema, rule.at) {
            let rules = place.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
            if let Value::Array(rules) = rules {
                rules.push(rule.validation());
            }
        }
    }
}

/// The schema at a path such as `spec.delete.paths[]`; makes an empty one where there is none, which no server takes.
pub(crate) fn place_mut<'a>(schema: &'a mut Value, path: &str) -> &'a mut Value {
    let mut place = schema;
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let (name, items): (Cow<'_, str>, bool) = match name.strip_suffix("[]") {
            Some(list) => (list.into(), true),
            None => (name.into(), false),
        };
        place = &mut place["properties"][name.as_ref()];
        if items {
            place = &mut place["items"];
        }
    }
    place
}

#[cfg(test)]
mod tests;
