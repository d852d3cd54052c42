//! The JSON paths that printer columns use: fields, unions, indexes, `[*]` and `[?(@.a=="b")]`.

use serde_json::Value;

/// A parsed path.
#[derive(Debug)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Debug)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// Those of the fields that are there.
    Union(Vec<String>),
    /// Items whose field at the path compares so with the value.
    Filter {
        path: JsonPath,
        equal: bool,
        value: Value,
    },
}

impl JsonPath {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let inner = text.trim();
        let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
        let mut rest = inner.strip_prefix('$').unwrap_or(inner);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                let (step, after) = field(after)?;
                steps.extend(step);
                rest = after;
            } else if let Some(after) = rest.strip_prefix('[') {
                let end = closing(after).ok_or_else(|| format!("{text:?} has an open bracket"))?;
                steps.push(bracket(&after[..end])?);
                rest = &after[end + 1..];
            } else {
                return Err(format!("{text:?} is not a simple JSON path: a field starts with a dot"));
            }
        }
        Ok(Self(steps))
    }

    /// Every value at the path, in order.
    pub(super) fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.apply(value)).collect();
        }
        found
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Union(names) => names.iter().filter_map(|name| value.get(name)).collect(),
            Self::Index(index) => {
                let Some(items) = value.as_array() else { return Vec::new() };
                let at = usize::try_from(*index)
                    .ok()
                    .or_else(|| items.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?));
                at.and_then(|at| items.get(at)).into_iter().collect()
            }
            Self::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                _ => Vec::new(),
            },
            Self::Filter { path, equal, value: wanted } => value
                .as_array()
                .into_iter()
                .flatten()
                .filter(|item| path.find(item).first().is_some_and(|found| (*found == wanted) == *equal))
                .collect(),
        }
    }
}

/// A field name, with `\.` for a dot in it. An empty one is the object itself.
fn field(text: &str) -> Result<(Option<Step>, &str), String> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => {
                end = at;
                break;
            }
            _ => name.push(c),
        }
    }
    let rest = &text[end..];
    match name.as_str() {
        "" if rest.starts_with('.') => Err("recursive descent is not supported".to_owned()),
        "" => Ok((None, rest)),
        "*" => Ok((Some(Step::All), rest)),
        _ => Ok((Some(Step::Field(name)), rest)),
    }
}

/// The place of the bracket that closes the one before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('[', None) => depth += 1,
            (']', None) if depth == 0 => return Some(at),
            (']', None) => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Result<Step, String> {
    let text = text.trim();
    if text == "*" {
        return Ok(Step::All);
    }
    if let Ok(index) = text.parse() {
        return Ok(Step::Index(index));
    }
    if !text.starts_with('?')
        && let Some(mut names) =
            text.split(',').map(|name| unquoted(name.trim()).map(str::to_owned)).collect::<Option<Vec<_>>>()
    {
        return Ok(if names.len() == 1 { Step::Field(names.remove(0)) } else { Step::Union(names) });
    }
    let filter = text
        .strip_prefix("?(@")
        .and_then(|text| text.strip_suffix(')'))
        .ok_or_else(|| format!("[{text}] is not supported"))?;
    let (path, equal, value) = match (filter.split_once("=="), filter.split_once("!=")) {
        (Some((path, value)), _) => (path, true, value),
        (None, Some((path, value))) => (path, false, value),
        (None, None) => return Err(format!("[{text}] compares with neither == nor !=")),
    };
    let value = value.trim();
    let value = match unquoted(value) {
        Some(text) => Value::String(text.to_owned()),
        None => serde_json::from_str(value).map_err(|_| format!("[{text}]: {value} is no value"))?,
    };
    Ok(Step::Filter { path: JsonPath::parse(path.trim())?, equal, value })
}

fn unquoted(text: &str) -> Option<&str> {
    ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_printer_columns_are_found() {
        let object = json!({
            "metadata": { "labels": { "windlass.dev/a": "x" } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }, { "type": "Other", "status": "?" }],
                "list": [1, 2] } });
        for (path, expected) in [
            (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".status.conditions[?(@.type != 'Ready')].status", json!(["?"])),
            (".metadata.labels.windlass\\.dev/a", json!(["x"])),
            (".metadata.labels['windlass.dev/a']", json!(["x"])),
            (".status.list[0]", json!([1])),
            (".status.list[-1]", json!([2])),
            ("{.status.list[*]}", json!([1, 2])),
            (".status.nothing.at.all", json!([])),
            (".status['absent','list'][0]", json!([1])),
        ] {
            let found: Vec<Value> =
                JsonPath::parse(path).unwrap().find(&object).into_iter().cloned().collect();
            assert_eq!(json!(found), expected, "{path}");
        }
        for bad in ["spec", ".a..b", ".a[", ".a[?(@.b)]", ".a[1:2]"] {
            assert!(JsonPath::parse(bad).is_err(), "{bad}");
        }
    }
}
