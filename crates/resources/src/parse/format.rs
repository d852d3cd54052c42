//! Bytes → JSON text: encodings, byte order marks, YAML, nesting.

use std::borrow::Cow;

use serde_json::Value;

use super::{FileError, RESOURCE_KEYS};
use crate::paths::Format;

/// Deepest nesting of a document. Parsers of the servers that objects go to stop a little later.
pub const MAX_NESTING: usize = 100;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The JSON of a file: its own text where possible.
pub(super) fn to_json(bytes: &[u8], format: Format) -> Result<Cow<'_, str>, FileError> {
    let text = str::from_utf8(bytes).map_err(|error| FileError::NotUtf8 { at: error.valid_up_to() })?;
    let text = text.trim_start_matches(BYTE_ORDER_MARK);
    match format {
        Format::Json => {
            check_nesting(text)?;
            if has_marks(text) {
                let value =
                    serde_json::from_str(text).map_err(|error| FileError::syntax("the document", &error))?;
                return Ok(Cow::Owned(without_marks(value).to_string()));
            }
            Ok(Cow::Borrowed(text))
        }
        Format::Yaml => {
            let Some(document) = single_document(text)? else { return Err(FileError::Empty) };
            let value = windlass_api::yaml::parse(document)
                .map_err(|error| FileError::syntax("the document", &error))?;
            let text = without_marks(value).to_string();
            check_nesting(&text)?;
            Ok(Cow::Owned(text))
        }
    }
}

/// Whether a byte order mark hides in the text, plain or escaped.
fn has_marks(text: &str) -> bool {
    text.contains(BYTE_ORDER_MARK) || text.contains("\\ufeff") || text.contains("\\uFEFF")
}

fn without_marks(value: Value) -> Value {
    let clean = |text: String| {
        if text.contains(BYTE_ORDER_MARK) { text.replace(BYTE_ORDER_MARK, "") } else { text }
    };
    match value {
        Value::String(text) => Value::String(clean(text)),
        Value::Array(items) => items.into_iter().map(without_marks).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (clean(key), without_marks(value))).collect()
        }
        other => other,
    }
}

/// Counts brackets outside strings. Skipping a value costs no stack, so this is the only place that notices depth.
fn check_nesting(json: &str) -> Result<(), FileError> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_NESTING {
                    return Err(FileError::TooDeep { limit: MAX_NESTING });
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// The one document of a YAML stream that is not empty. A marker stands at the start of a line, where no content
/// can look like it: that holds for block scalars and quoted text as well (YAML 1.2, §9.1.2).
fn single_document(text: &str) -> Result<Option<&str>, FileError> {
    let mut documents = Vec::new();
    let (mut start, mut offset) = (0, 0);
    for line in text.split_inclusive('\n') {
        if is_marker(line) {
            documents.push(&text[start..offset]);
            // What follows `---` on its line belongs to the document; `...` takes nothing with it.
            start = if line.starts_with("---") { offset + 3 } else { offset + line.len() };
        }
        offset += line.len();
    }
    documents.push(&text[start..]);
    documents.retain(|document| !is_blank(document));
    match documents.as_slice() {
        [] => Ok(None),
        [document] => Ok(Some(document)),
        several if several.iter().any(|document| is_meant_as_resource(document)) => {
            Err(FileError::SeveralDocuments { count: several.len() })
        }
        _ => Err(FileError::NotAResource),
    }
}

/// Whether a key of a resource stands at the outermost level, as far as can be told without parsing.
fn is_meant_as_resource(document: &str) -> bool {
    let is_key = |line: &str, key: &str| {
        let line = line.trim_start_matches(['{', ' ', '"', '\'']);
        line.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
    };
    let outermost =
        document.lines().filter(|line| !line.starts_with([' ', '\t']) || line.trim_start().starts_with('{'));
    outermost.into_iter().any(|line| RESOURCE_KEYS.into_iter().any(|key| is_key(line, key)))
}

fn is_marker(line: &str) -> bool {
    let rest = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Comments, directives and white space.
fn is_blank(document: &str) -> bool {
    document.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line.starts_with('%')
    })
}
