//! Bytes → JSON text: encodings, byte order marks, YAML, nesting.

use std::borrow::Cow;

use serde_json::Value;

use super::FileError;
use super::document::RESOURCE_KEYS;
use super::parts::parts;
use crate::paths::Format;

/// Deepest nesting of a document. Parsers of the servers that objects go to stop a little later.
pub const MAX_NESTING: usize = 100;

/// Most documents of a file: their objects are written one after the other.
pub const MAX_DOCUMENTS: usize = 256;

/// Most bytes of JSON that the documents of a file may come to, every alias counted as what it stands for.
const MAX_EXPANDED: usize = 64 << 20;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The JSON of each document of a file: its own text where possible. JSON has one document; the empty ones of YAML are
/// none.
pub(super) fn documents(
    bytes: &[u8],
    format: Format,
) -> Result<Vec<Result<Cow<'_, str>, FileError>>, FileError> {
    if format == Format::Json {
        return Ok(vec![json(bytes)]);
    }
    let text = text_of(bytes)?;
    let parts: Vec<&str> = parts(text).into_iter().map(|part| &text[part.content]).collect();
    match parts.len() {
        0 => return Err(FileError::Empty),
        1 => {}
        _ if !parts.iter().any(|part| is_meant_as_resource(part)) => return Err(FileError::NotAResource),
        count if count > MAX_DOCUMENTS => {
            return Err(FileError::TooManyDocuments { count, limit: MAX_DOCUMENTS });
        }
        _ => {}
    }
    let mut room = MAX_EXPANDED;
    let read = |part: &str| {
        let value =
            windlass_api::yaml::parse(part).map_err(|error| FileError::syntax("the document", &error))?;
        let text = without_marks(value).to_string();
        check_nesting(&text)?;
        room = room.checked_sub(text.len()).ok_or_else(|| {
            let detail = "with its aliases written out, the file is larger than 64 MiB";
            FileError::Syntax { what: "the document", detail: detail.to_owned() }
        })?;
        Ok(Cow::Owned(text))
    };
    Ok(parts.into_iter().map(read).collect())
}

/// A JSON file's own text where possible.
pub(super) fn json(bytes: &[u8]) -> Result<Cow<'_, str>, FileError> {
    let text = text_of(bytes)?.trim_start_matches(BYTE_ORDER_MARK);
    check_nesting(text)?;
    if has_marks(text) {
        let value = serde_json::from_str(text).map_err(|error| FileError::syntax("the document", &error))?;
        return Ok(Cow::Owned(without_marks(value).to_string()));
    }
    Ok(Cow::Borrowed(text))
}

fn text_of(bytes: &[u8]) -> Result<&str, FileError> {
    str::from_utf8(bytes).map_err(|error| FileError::NotUtf8 { at: error.valid_up_to() })
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
