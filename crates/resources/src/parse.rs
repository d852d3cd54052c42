//! Files → objects: one, or one for each document of a YAML file.
//!
//! A document is checked as a whole, but its `spec` is carried as text: numbers keep their digits, keys their
//! order, and ten thousand dashboards cost no trees of values.

mod document;
mod error;
mod format;
mod parts;

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use windlass_api::{annotations, labels};

use self::document::{RESOURCE_KEYS, RawObject};
pub use self::error::FileError;
pub use self::format::{MAX_DOCUMENTS, MAX_NESTING};
pub(crate) use self::parts::{Part, parts};
use crate::paths::Format;
use crate::{DASHBOARD, FOLDER, Kind, Kinds, SyncContext, digest, names, paths};

/// Label that Grafana keeps for its own use; it belongs to one instance and is never carried over.
pub(crate) const INTERNAL_ID: &str = "grafana.app/deprecatedInternalID";
/// What `kubectl apply` leaves behind; it describes another object than ours.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations that a file cannot set.
const NOT_FROM_FILES: [&str; 6] = [
    annotations::SOURCE_TIMESTAMP,
    annotations::FOLDER,
    annotations::FILE_METADATA,
    annotations::SOURCE_DOCUMENTS,
    annotations::SOURCE_DOCUMENT,
    annotations::WRITTEN_GENERATION,
];
/// Keys of a dashboard's spec that belong to one instance.
pub(crate) const INSTANCE_KEYS: [&str; 3] = ["id", "uid", "version"];
/// Longest name of any object (Kubernetes).
const MAX_OBJECT_NAME: usize = 253;

/// What a file's surroundings say about it.
#[derive(Debug, Clone, Copy)]
pub struct ParseContext<'a> {
    /// The repository.
    pub context: &'a SyncContext,
    /// Name of the folder that the object goes into.
    pub folder: Option<&'a str>,
    /// Hash of the file.
    pub checksum: &'a str,
    /// What files can become.
    pub kinds: &'a Kinds,
}

/// A file that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedResource {
    /// What it is.
    pub kind: Kind,
    /// The version that the document names.
    pub version: String,
    /// Name of the object: the document's, or one computed from its path.
    pub name: String,
    /// Labels of the document, and ours.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the document, and the manager's.
    pub annotations: BTreeMap<String, String>,
    /// What else the document says.
    pub content: Content,
}

impl ParsedResource {
    /// Whether its file has other objects, too.
    pub fn is_of_several(&self) -> bool {
        self.annotations.contains_key(annotations::SOURCE_DOCUMENTS)
    }

    /// Hash of the document where its file has several, else of the file.
    pub(crate) fn content_hash(&self) -> Option<&str> {
        let text = |key| self.annotations.get(key).map(String::as_str);
        text(annotations::SOURCE_DOCUMENT)
            .and_then(digest::own)
            .or_else(|| text(annotations::SOURCE_CHECKSUM))
    }

    /// Hash of what the document says, wherever its file is.
    fn document_hash(&self) -> String {
        const OURS: [&str; 3] = [annotations::SOURCE_PATH, annotations::SOURCE_CHECKSUM, annotations::FOLDER];
        let content = match &self.content {
            Content::Spec(text) | Content::Members(text) => text.as_str(),
        };
        let labels = self.labels.iter().flat_map(|(key, value)| [key.as_str(), value]);
        let annotations = self.annotations.iter().filter(|(key, _)| !OURS.contains(&key.as_str()));
        let annotations = annotations.flat_map(|(key, value)| [key.as_str(), value]);
        digest::of([self.version.as_str(), content].into_iter().chain(labels).chain([""]).chain(annotations))
    }
}

/// What a document says beside its type and metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The `spec`, as JSON: all that there is to a dashboard.
    Spec(String),
    /// Every member but the status, as JSON without the outermost braces: `"data":{…},"immutable":true`.
    Members(String),
}

/// A document that is an object, or is meant as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Which one of its file it is, from 1, the empty ones not counted; nothing if it is the only one.
    pub number: Option<usize>,
    /// What it says, or why it is not understood.
    pub content: Result<ParsedResource, FileError>,
}

impl Document {
    /// Whether this stands for the object.
    pub fn is_of(&self, kind: &Kind, name: &str) -> bool {
        self.content.as_ref().is_ok_and(|resource| resource.kind == *kind && resource.name == name)
    }
}

/// Reads one file. `path` is relative to the repository's path and decides the format by its extension. How large the file
/// may be is up to whoever read it.
///
/// An error is that of the file as a whole, which it is of a file of one document; of several, each has its own. Those that
/// are plainly no resources are left out.
pub fn documents(path: &str, bytes: &[u8], of: &ParseContext<'_>) -> Result<Vec<Document>, FileError> {
    let format = paths::format_of(path).unwrap_or(Format::Json);
    let mut texts = format::documents(bytes, format)?;
    let count = texts.len();
    if count == 1 {
        let text = texts.remove(0)?;
        return Ok(vec![Document { number: None, content: Ok(resource(path, &text, of)?) }]);
    }
    let mut documents = Vec::with_capacity(count);
    for (index, text) in texts.into_iter().enumerate() {
        let number = index + 1;
        let content = text.and_then(|text| resource(path, &text, of));
        if content == Err(FileError::NotAResource) {
            continue;
        }
        let content = content.map_err(|error| error.in_document(number, count));
        documents.push(Document { number: Some(number), content });
    }
    if documents.is_empty() {
        return Err(FileError::NotAResource);
    }
    if documents.len() > 1 {
        mark_several(&mut documents);
    }
    Ok(documents)
}

/// Says in each object of a file that there are others, and what was in the file.
fn mark_several(documents: &mut [Document]) {
    let count = documents.len().to_string();
    let mut objects: Vec<(&mut ParsedResource, String)> = documents
        .iter_mut()
        .filter_map(|document| document.content.as_mut().ok())
        .map(|resource| {
            let hash = resource.document_hash();
            (resource, hash)
        })
        .collect();
    let all = digest::of_all(objects.iter().map(|(it, hash)| (&it.kind, it.name.as_str(), hash.as_str())));
    for (resource, hash) in &mut objects {
        let hashes = format!("{hash} {all}");
        resource.annotations.insert(annotations::SOURCE_DOCUMENTS.to_owned(), count.clone());
        resource.annotations.insert(annotations::SOURCE_DOCUMENT.to_owned(), hashes);
    }
}

/// Whether a file is YAML of several documents, whatever they say.
pub fn has_several_documents(path: &str, bytes: &[u8]) -> bool {
    paths::is_yaml(path) && str::from_utf8(bytes).is_ok_and(|text| parts(text).len() > 1)
}

/// The objects that a file stands for; nothing if some of it is not understood.
pub(crate) fn objects(path: &str, bytes: &[u8], of: &ParseContext<'_>) -> Option<Vec<(Kind, String)>> {
    match documents(path, bytes, of) {
        Ok(documents) => {
            let named = |document: Document| document.content.ok().map(|it| (it.kind, it.name));
            documents.into_iter().map(named).collect()
        }
        Err(FileError::NotAResource) => Some(Vec::new()),
        Err(_) => None,
    }
}

/// Whether what the API server serves decides on any of the documents, rather than the file alone.
pub(crate) fn depends_on_server(read: &Result<Vec<Document>, FileError>) -> bool {
    match read {
        Ok(documents) => documents
            .iter()
            .any(|document| document.content.as_ref().is_err_and(FileError::depends_on_server)),
        Err(error) => error.depends_on_server(),
    }
}

/// The object of a file that has one.
#[cfg(test)]
pub(crate) fn file(path: &str, bytes: &[u8], of: &ParseContext<'_>) -> Result<ParsedResource, FileError> {
    documents(path, bytes, of)?.remove(0).content
}

fn resource(path: &str, text: &str, of: &ParseContext<'_>) -> Result<ParsedResource, FileError> {
    let document = document::Document::read(text)?;
    let mut resource = match document.type_meta() {
        Some((group, version, kind)) => object(&document, path, (group, version, kind), of)?,
        None => classic(&document, path, of)?,
    };
    check_name(&resource.name)?;
    let ours = of.context.annotations(path, Some(of.checksum), of.folder);
    for key in NOT_FROM_FILES {
        resource.annotations.remove(key);
    }
    resource.labels.remove(labels::MANAGED_BY_ID);
    resource.annotations.retain(|key, _| !ours.contains_key(key));
    let file_metadata = file_metadata(&resource);
    resource.labels.extend([of.context.label()]);
    resource.annotations.extend(ours);
    // Server-side apply remembers by itself.
    if !file_metadata.is_empty() && !resource.kind.is_applied() {
        resource.annotations.insert(annotations::FILE_METADATA.to_owned(), file_metadata);
    }
    Ok(resource)
}

/// A document with `apiVersion` and `kind`.
fn object(
    document: &document::Document<'_>,
    path: &str,
    (group, version, kind): (&str, &str, &str),
    of: &ParseContext<'_>,
) -> Result<ParsedResource, FileError> {
    if group == FOLDER.group && kind == FOLDER.kind {
        return Err(FileError::FolderDocument);
    }
    let kind = of.kinds.find(group, version, kind)?;
    if !kind.serves(version) {
        return Err(FileError::UnsupportedVersion {
            resource: kind.plural(),
            version: version.to_owned(),
            served: kind.versions.iter().map(ToString::to_string).collect(),
        });
    }
    let metadata = document.metadata()?;
    check_namespace(metadata.namespace.as_deref(), of.context)?;
    let content = if kind.is_applied() {
        Content::Members(members(document.fields(), &["apiVersion", "kind", "metadata", "status"]))
    } else {
        Content::Spec(spec_text(&document.spec()?))
    };
    let given = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
    let name =
        given(metadata.name.as_ref()).unwrap_or_else(|| match given(metadata.generate_name.as_ref()) {
            Some(prefix) => names::generated(&of.context.repository, path, &prefix),
            None => names::unnamed_file(&of.context.repository, path),
        });
    let mut labels = metadata.labels.unwrap_or_default();
    labels.remove(INTERNAL_ID);
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    Ok(ParsedResource { kind, version: version.to_owned(), name, labels, annotations, content })
}

/// A dashboard as Grafana exports it: no metadata, the name in `uid`.
fn classic(
    document: &document::Document<'_>,
    path: &str,
    of: &ParseContext<'_>,
) -> Result<ParsedResource, FileError> {
    let has = |key| document.get(key).is_some();
    if !(has("panels") && has("schemaVersion") && has("tags")) {
        let is_meant_as_one = RESOURCE_KEYS.into_iter().any(has);
        return Err(if is_meant_as_one { FileError::UnknownFormat } else { FileError::NotAResource });
    }
    let name = match document.string("uid")? {
        Some(uid) if !uid.is_empty() => uid.into_owned(),
        _ => names::unnamed_file(&of.context.repository, path),
    };
    Ok(ParsedResource {
        kind: DASHBOARD,
        version: "v0alpha1".to_owned(),
        name,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        content: Content::Spec(spec_text(document.fields())),
    })
}

/// The JSON of a spec without the keys that belong to one instance.
fn spec_text(spec: &RawObject<'_>) -> String {
    let mut out = members(spec, &INSTANCE_KEYS);
    out.insert(0, '{');
    out.push('}');
    out
}

/// The members of a JSON object as text, without braces and without those of these names.
fn members(object: &RawObject<'_>, without: &[&str]) -> String {
    let fields = || object.0.iter().filter(|(key, _)| !without.contains(&key.as_ref()));
    let mut out =
        String::with_capacity(2 + fields().map(|(k, v)| k.len() + v.get().len() + 4).sum::<usize>());
    for (index, (key, value)) in fields().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push_json_string(&mut out, key);
        out.push(':');
        out.push_str(value.get());
    }
    out
}

/// The labels and annotations that a document sets, as [`annotations::FILE_METADATA`] keeps them.
fn file_metadata(resource: &ParsedResource) -> String {
    let labels = resource.labels.keys().map(|key| format!("labels/{key}"));
    let keys: Vec<String> =
        labels.chain(resource.annotations.keys().map(|key| format!("annotations/{key}"))).collect();
    keys.join(" ")
}

fn push_json_string(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn check_namespace(namespace: Option<&str>, context: &SyncContext) -> Result<(), FileError> {
    match namespace {
        Some(found) if !found.is_empty() && found != context.namespace => {
            Err(FileError::Namespace { found: found.to_owned(), wanted: context.namespace.clone() })
        }
        _ => Ok(()),
    }
}

/// Names are segments of URLs (Kubernetes: path segment names); anything stricter is the server's to say.
fn check_name(name: &str) -> Result<(), FileError> {
    let bad = name.len() > MAX_OBJECT_NAME
        || name == "."
        || name == ".."
        || name.chars().any(|c| matches!(c, '/' | '%') || c.is_control());
    if bad { Err(FileError::Name { name: name.chars().take(80).collect() }) } else { Ok(()) }
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// What a `_folder.json` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FolderDocument {
    pub(crate) name: String,
    pub(crate) title: String,
}

/// Reads a `_folder.json`: a Folder whose name and title are kept, wherever its directory goes.
pub(crate) fn folder(bytes: &[u8], context: &SyncContext) -> Result<FolderDocument, FileError> {
    #[derive(serde::Deserialize)]
    struct Spec {
        title: Option<String>,
    }
    let text = format::json(bytes)?;
    let document = document::Document::read(&text).map_err(|error| match error {
        FileError::NotAResource => FileError::NotAnObject { what: "the document" },
        error => error,
    })?;
    match document.type_meta() {
        Some((group, _, kind)) if group == FOLDER.group && kind == FOLDER.kind => {}
        Some((group, version, kind)) => {
            return Err(FileError::UnsupportedKind {
                api_version: join(group, version),
                kind: kind.to_owned(),
                further: Vec::new(),
            });
        }
        None => return Err(FileError::UnknownFormat),
    }
    let metadata = document.metadata()?;
    check_namespace(metadata.namespace.as_deref(), context)?;
    let name =
        metadata.name.filter(|name| !name.is_empty()).ok_or(FileError::Missing { what: "metadata.name" })?;
    if name.len() > names::MAX_NAME {
        return Err(FileError::FolderNameTooLong { name: name.chars().take(80).collect() });
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
        return Err(FileError::Name { name });
    }
    let spec = document.get("spec").map_or("{}", RawValue::get);
    let spec: Spec = serde_json::from_str(spec).map_err(|error| FileError::syntax("spec", &error))?;
    let title = spec
        .title
        .filter(|title| !title.trim().is_empty())
        .ok_or(FileError::Missing { what: "spec.title" })?;
    Ok(FolderDocument { name, title })
}

#[cfg(test)]
mod tests;
