//! What differs between two JSON documents.

use std::collections::BTreeSet;

use serde_json::Value;

/// One place where two documents differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Where: `.body.details.causes[0].message`.
    pub path: String,
    /// What the real server answered there; `None` when it has nothing there.
    pub real: Option<Value>,
    /// What the embedded server answered there.
    pub embedded: Option<Value>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "    {}", if self.path.is_empty() { "." } else { &self.path })?;
        writeln!(f, "      real:     {}", shown(self.real.as_ref()))?;
        write!(f, "      embedded: {}", shown(self.embedded.as_ref()))
    }
}

/// A value on one line; `<absent>` for none.
pub(crate) fn shown(value: Option<&Value>) -> String {
    const MAX: usize = 2000;
    let mut text = value.map_or_else(|| "<absent>".to_owned(), Value::to_string);
    if let Some((end, _)) = text.char_indices().nth(MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Every place where the documents differ, the outermost that says it.
pub fn differences(real: &Value, embedded: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(String::new(), Some(real), Some(embedded), &mut found);
    found
}

fn walk(path: String, real: Option<&Value>, embedded: Option<&Value>, found: &mut Vec<Difference>) {
    match (real, embedded) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                let step = if name.contains(['.', '[']) { format!("[{name}]") } else { format!(".{name}") };
                walk(format!("{path}{step}"), left.get(name), right.get(name), found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for index in 0..left.len().max(right.len()) {
                walk(format!("{path}[{index}]"), left.get(index), right.get(index), found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => {
            found.push(Difference { path, real: left.cloned(), embedded: right.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_name_the_innermost_place() {
        let found = differences(
            &json!({ "a": { "b": 1, "c": [1, 2] }, "d": 1 }),
            &json!({ "a": { "b": 2, "c": [1] }, "d": 1, "x.y": {} }),
        );
        let paths: Vec<&str> = found.iter().map(|difference| difference.path.as_str()).collect();
        assert_eq!(paths, [".a.b", ".a.c[1]", "[x.y]"]);
        assert_eq!(found[1].embedded, None);
    }
}
