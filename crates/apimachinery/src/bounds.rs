//! How deep and how large an object may be, whatever way it comes in: by a body, by a patch, or by defaults.
//!
//! Everything that is read from a body goes through [`check_depth`], each operation of a patch through [`Allowance`], and
//! everything that is stored through [`check_stored`]. What is stored can therefore be read by whoever takes 128 levels,
//! with the `managedFields` and the list around it.

use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use serde_json::{Map, Value};

/// The largest body that is read and the largest object that is stored, as on a real server.
pub const MAX_BYTES: usize = 3 * 1024 * 1024;
/// How many objects and lists may be within each other.
pub const MAX_DEPTH: usize = 100;
/// What all operations of one patch may walk over and move about, in bytes of memory.
const MAX_WORK: usize = 1 << 30;
/// What a value takes in memory beside its text.
const NODE: usize = 16;
/// What an item of a list takes.
const ITEM: usize = size_of::<Value>();

/// Why a document is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutOfBounds {
    /// It has more than [`MAX_DEPTH`] levels.
    #[error("the object is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// It, or the work that it asks for, is too large.
    #[error("Request entity too large: limit is {MAX_BYTES}")]
    TooLarge,
}

type Result<T> = std::result::Result<T, OutOfBounds>;

/// Whether a value has more than so many levels. Goes no deeper than that.
pub fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(object) => levels == 0 || object.values().any(|value| is_deeper(value, levels - 1)),
        _ => false,
    }
}

/// Refuses a document that is too deep.
pub fn check_depth(value: &Value) -> Result<()> {
    if is_deeper(value, MAX_DEPTH) { Err(OutOfBounds::TooDeep) } else { Ok(()) }
}

/// Refuses to store an object that is too deep, or too large: `bytes` is how it is written, `before` how large it was,
/// since what is too large already may become smaller.
pub fn check_stored(object: &Map<String, Value>, bytes: usize, before: usize) -> Result<()> {
    if object.values().any(|value| is_deeper(value, MAX_DEPTH - 1)) {
        return Err(OutOfBounds::TooDeep);
    }
    if bytes > MAX_BYTES && bytes > before {
        return Err(OutOfBounds::TooLarge);
    }
    Ok(())
}

/// What a value takes: its memory, roughly.
pub fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => NODE + text.len(),
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + NODE,
        Value::Object(object) => {
            object.iter().map(|(name, value)| name.len() + weight(value)).sum::<usize>() + NODE
        }
        _ => NODE,
    }
}

/// Whether one more thing may be told of a document: keys that stand twice, unknown fields. As many as a real server tells,
/// unless they are long.
pub fn may_be_told(problems: &[String]) -> bool {
    problems.len() < 100 && problems.iter().map(String::len).sum::<usize>() < 64 << 10
}

/// What the operations of one JSON patch may still do.
pub struct Allowance {
    copies: usize,
    work: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { copies: MAX_BYTES, work: MAX_WORK }
    }
}

impl Allowance {
    /// Takes off what an operation does to this document, which it has not been applied to yet; refuses one that is too
    /// much, or that makes the document too deep.
    pub fn take(&mut self, document: &Value, operation: &PatchOperation) -> Result<()> {
        let at = |path: &Pointer| document.pointer(path.as_str());
        let mut shifts = vec![operation.path()];
        let value = match operation {
            PatchOperation::Add(add) => Some(&add.value),
            PatchOperation::Replace(replace) => Some(&replace.value),
            PatchOperation::Copy(copy) => at(&copy.from),
            PatchOperation::Move(from) => {
                shifts.push(&from.from);
                at(&from.from)
            }
            PatchOperation::Remove(_) | PatchOperation::Test(_) => None,
        };
        let mut work = 0;
        for path in shifts {
            // What stands after the place in a list is moved by one.
            if let Some((parent, place)) = path.split_back()
                && let Some(Value::Array(items)) = at(parent)
            {
                let index = place.to_index().ok().and_then(|index| index.for_len(items.len()).ok());
                work += (items.len() - index.unwrap_or(items.len())) * ITEM;
            }
        }
        if let Some(value) = value {
            if is_deeper(value, MAX_DEPTH.saturating_sub(operation.path().count())) {
                return Err(OutOfBounds::TooDeep);
            }
            let weight = weight(value);
            work += weight;
            if matches!(operation, PatchOperation::Copy(_)) {
                self.copies = self.copies.checked_sub(weight).ok_or(OutOfBounds::TooLarge)?;
            }
        }
        self.work = self.work.checked_sub(work).ok_or(OutOfBounds::TooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patch(operations: Value) -> json_patch::Patch {
        serde_json::from_value(operations).unwrap()
    }

    #[test]
    fn levels_are_counted_as_they_are_within_each_other() {
        assert!(!is_deeper(&json!(1), 0));
        assert!(is_deeper(&json!([]), 0));
        assert!(!is_deeper(&json!([{ "a": 1 }]), 2));
        assert!(is_deeper(&json!([1, { "a": [] }]), 2));
    }

    #[test]
    fn moving_a_long_list_about_again_and_again_is_refused() {
        let document = json!({ "list": vec![0; 100_000] });
        let first = patch(json!([{ "op": "add", "path": "/list/0", "value": 1 }]));
        let last = patch(json!([{ "op": "add", "path": "/list/-", "value": 1 }]));
        let times = |patch: &json_patch::Patch| {
            let mut allowance = Allowance::default();
            (0..10_000).take_while(|_| allowance.take(&document, &patch.0[0]).is_ok()).count()
        };
        assert!(times(&first) < 1_000);
        assert_eq!(times(&last), 10_000);
    }
}
