//! The bytes of a stored object, and how they become an answer without being parsed.
//!
//! A stored value is `{"apiVersion":"…","kind":"…","metadata":{…},…}` in exactly that order and without a
//! resourceVersion, which is known only at commit. `managedFields` is the first field of its metadata, so that it can
//! be cut out: what works on the object has no use for it, and it is as large as the rest. Serving one writes the head of the version that was asked for,
//! the resourceVersion, and the rest of the bytes as they are.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// What separates the head of a stored value from its metadata.
const METADATA: &[u8] = br#""metadata":{"#;
/// How metadata starts that says who owns which fields.
const MANAGED: &[u8] = br#""managedFields":"#;

/// A stored value, in its parts.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// What follows `"metadata":{`: the metadata's fields, the closing brace, and the rest of the object.
    tail: &'a [u8],
}

impl<'a> Document<'a> {
    /// Of the bytes that are stored.
    pub fn new(value: &'a [u8]) -> Self {
        // apiVersion and kind, which come before, hold neither quotes nor braces.
        let at = value.windows(METADATA.len()).position(|window| window == METADATA);
        Self { tail: at.map_or(&[], |at| &value[at + METADATA.len()..]) }
    }

    /// The fields of the metadata with the closing brace.
    pub fn metadata(&self) -> &'a [u8] {
        &self.tail[..end_of_object(self.tail)]
    }

    /// As [`Self::metadata`], without `managedFields`.
    pub fn own_metadata(&self) -> &'a [u8] {
        let (_, rest) = self.managed();
        &rest[..end_of_object(rest)]
    }

    /// Appends the whole object under this head.
    pub fn write(&self, head: &str, revision: u64, out: &mut Vec<u8>) {
        out.reserve(head.len() + self.tail.len() + 48);
        out.extend_from_slice(head.as_bytes());
        write_version(revision, out);
        out.extend_from_slice(self.tail);
    }

    /// Appends `{"kind":"PartialObjectMetadata",…}`.
    pub fn write_partial(&self, revision: u64, out: &mut Vec<u8>) {
        let metadata = self.metadata();
        out.reserve(metadata.len() + 128);
        out.extend_from_slice(PARTIAL_HEAD.as_bytes());
        write_version(revision, out);
        out.extend_from_slice(metadata);
        out.push(b'}');
    }

    /// The value of `managedFields`, empty without one, and what follows it.
    fn managed(&self) -> (&'a [u8], &'a [u8]) {
        let Some(rest) = self.tail.strip_prefix(MANAGED).filter(|rest| rest.first() == Some(&b'[')) else {
            return (&[], self.tail);
        };
        let (managed, rest) = rest.split_at(1 + end_of_object(&rest[1..]));
        (managed, rest.strip_prefix(b",").unwrap_or(rest))
    }

    /// Just the labels of the object.
    pub fn labels(&self) -> Map<String, Value> {
        #[derive(serde::Deserialize)]
        struct Labelled {
            #[serde(default)]
            labels: Map<String, Value>,
        }
        let metadata = self.own_metadata();
        let mut object = Vec::with_capacity(metadata.len() + 1);
        object.push(b'{');
        object.extend_from_slice(metadata);
        serde_json::from_slice::<Labelled>(&object).map(|labelled| labelled.labels).unwrap_or_default()
    }
}

/// A stored value without its `managedFields`, and these; empty when there are none.
pub fn split(value: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let (managed, rest) = Document::new(value).managed();
    if managed.is_empty() {
        return (Cow::Borrowed(value), managed);
    }
    let head = value.len() - rest.len() - managed.len() - MANAGED.len();
    // The comma between the two goes with the managers.
    let head = if rest.first() == Some(&b'}') { head } else { head - 1 };
    let mut whole = Vec::with_capacity(head + rest.len());
    whole.extend_from_slice(&value[..head]);
    whole.extend_from_slice(rest);
    (Cow::Owned(whole), managed)
}

/// How an object starts that is only its metadata.
pub const PARTIAL_HEAD: &str =
    r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"#;

/// What was never stored, a new object of a dry run, has no version.
fn write_version(revision: u64, out: &mut Vec<u8>) {
    if revision == 0 {
        return;
    }
    out.extend_from_slice(br#""resourceVersion":""#);
    out.extend_from_slice(revision.to_string().as_bytes());
    out.extend_from_slice(br#"","#);
}

/// The length of the fields of an object whose opening brace was just read, with the closing brace.
fn end_of_object(bytes: &[u8]) -> usize {
    let mut depth = 1usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b'"' => at = end_of_string(bytes, at + 1),
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The place of the quote that ends the string which starts at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// The bytes to store for an object of this stored version's head, with its encoded `managedFields` (empty for none).
/// Its metadata is not empty (it has a name).
pub fn encode(head: &str, object: &Map<String, Value>, managed: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024 + managed.len());
    out.extend_from_slice(head.as_bytes());
    let mut first = managed.is_empty();
    if !first {
        out.extend_from_slice(MANAGED);
        out.extend_from_slice(managed);
    }
    if let Some(Value::Object(metadata)) = object.get("metadata") {
        // Of an object that was read whole, they are among its fields.
        if let Some(managed) = metadata.get("managedFields").filter(|_| first) {
            write_field("managedFields", managed, &mut first, &mut out);
        }
        let rest = |name: &str| !matches!(name, "resourceVersion" | "managedFields");
        for (name, value) in metadata.iter().filter(|(name, _)| rest(name)) {
            write_field(name, value, &mut first, &mut out);
        }
    }
    out.push(b'}');
    first = false;
    for (name, value) in object {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            write_field(name, value, &mut first, &mut out);
        }
    }
    out.push(b'}');
    // It is kept, in events, for longer than it took to write.
    out.shrink_to_fit();
    out
}

fn write_field(name: &str, value: &Value, first: &mut bool, out: &mut Vec<u8>) {
    if !std::mem::take(first) {
        out.push(b',');
    }
    // Writing a value that was read as JSON to a vector does not fail.
    let _ = serde_json::to_writer(&mut *out, name);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, value);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HEAD: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"#;

    fn stored(value: Value) -> Vec<u8> {
        let Value::Object(object) = value else { unreachable!() };
        encode(HEAD, &object, b"")
    }

    #[test]
    fn serving_adds_the_version_and_changes_the_head() {
        let bytes =
            stored(json!({ "metadata": { "name": "a", "labels": { "x": "}\"{" }, "resourceVersion": "1" },
            "data": { "metadata": "\"metadata\":{" } }));
        let mut out = Vec::new();
        Document::new(&bytes).write(r#"{"apiVersion":"v2","kind":"Other","metadata":{"#, 7, &mut out);
        assert_eq!(
            serde_json::from_slice::<Value>(&out).unwrap(),
            json!({ "apiVersion": "v2", "kind": "Other", "data": { "metadata": "\"metadata\":{" },
                "metadata": { "name": "a", "labels": { "x": "}\"{" }, "resourceVersion": "7" } })
        );
    }

    #[test]
    fn managers_are_cut_out_and_put_back() {
        let Value::Object(object) =
            json!({ "metadata": { "name": "a", "labels": { "x": "[{" } }, "data": {} })
        else {
            unreachable!()
        };
        let managed = br#"[{"manager":"]}\"","fieldsV1":{"f:data":{}}}]"#;
        let stored = encode(HEAD, &object, managed);
        let (without, cut) = split(&stored);
        assert_eq!(cut, managed);
        assert_eq!(*without, encode(HEAD, &object, b""));
        assert_eq!(split(&without).1, b"");
        assert_eq!(Document::new(&stored).labels()["x"], "[{");
        let whole: Value = serde_json::from_slice(&stored).unwrap();
        assert_eq!(whole["metadata"]["managedFields"][0]["manager"], "]}\"");
    }

    #[test]
    fn metadata_alone_is_cut_out_whatever_strings_hold() {
        let bytes = stored(json!({ "metadata": { "name": "a", "labels": { "x": "}\\\"{" } }, "data": {} }));
        let document = Document::new(&bytes);
        let mut out = Vec::new();
        document.write_partial(3, &mut out);
        assert_eq!(
            serde_json::from_slice::<Value>(&out).unwrap(),
            json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": { "name": "a", "labels": { "x": "}\\\"{" }, "resourceVersion": "3" } })
        );
        assert_eq!(document.labels()["x"], "}\\\"{");
    }
}
