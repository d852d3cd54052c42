//! Paths into JSON documents: `.items[0].metadata.name`, `.conditions[type=Ready].status`.

use serde_json::Value;

/// The value at `path`, if there is one. `.` is the document itself.
pub(crate) fn at<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = document;
    for part in split(path) {
        value = match part {
            Part::Field(name) => value.get(name)?,
            Part::Index(index) => value.get(index)?,
            Part::Where(field, wanted) => value
                .as_array()?
                .iter()
                .find(|item| item.get(field).and_then(Value::as_str).unwrap_or_default() == wanted)?,
        };
    }
    Some(value)
}

enum Part<'a> {
    Field(&'a str),
    Index(usize),
    Where(&'a str, &'a str),
}

fn split(path: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (inside, after) = inner.split_once(']').unwrap_or((inner, ""));
            parts.push(match (inside.split_once('='), inside.parse()) {
                (Some((field, wanted)), _) => Part::Where(field, wanted),
                (None, Ok(index)) => Part::Index(index),
                (None, Err(_)) => Part::Field(inside),
            });
            rest = after;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end > 0 {
                parts.push(Part::Field(&rest[..end]));
            }
            rest = &rest[end..];
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_go_through_fields_indexes_and_conditions() {
        let document = json!({ "a": [{ "n": "x", "v": 1 }, { "n": "y", "v": 2 }], "k.k": 3 });
        assert_eq!(at(&document, ".a[1].v"), Some(&json!(2)));
        assert_eq!(at(&document, ".a[n=x].v"), Some(&json!(1)));
        assert_eq!(at(&document, "[k.k]"), Some(&json!(3)));
        assert_eq!(at(&document, "."), Some(&document));
        assert_eq!(at(&document, ".a[n=z].v"), None);
        assert_eq!(at(&document, ".a[7]"), None);
    }
}
