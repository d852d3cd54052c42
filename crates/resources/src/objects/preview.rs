//! One file and the objects that it stands for, looked at and tried out before anything is written.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::Value;
use windlass_runtime::{Accept, CallError, Fence};

use super::body;
use super::head::Head;
use super::{Objects, TakeOver, duplicate, failure, holder};
use crate::parse::{self, Document, FileError, ParseContext, ParsedResource};
use crate::serialise::{self, SerialiseError};
use crate::wire::{self, Collection, Pretence};
use crate::{Clients, Failure, Kind, Kinds, SyncContext};

/// Why an object could not be looked at, or would not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PreviewError {
    /// The HTTP status that says it best: the API's own, or 400 for an object that the repository may not write to.
    pub code: u16,
    /// What happened and what to do, for people.
    pub message: String,
}

/// Reads single files, and tries out what writing them would do. Nothing is changed.
pub struct Preview {
    objects: Objects,
}

impl Preview {
    /// A preview of the files of a repository.
    pub fn new(clients: &Clients, context: &SyncContext) -> Self {
        let objects = Objects {
            clients: clients.clone(),
            context: context.clone(),
            dry_run: true,
            timeout: wire::DEADLINE,
            fence: Fence::NONE,
            take_over: TakeOver::default(),
        };
        Self { objects }
    }

    /// Reads the file at `path`, whose objects go into `folder`, on a thread of its own.
    pub async fn parse(
        &self,
        path: &str,
        content: &Bytes,
        folder: Option<&str>,
        checksum: &str,
    ) -> Result<Vec<Document>, FileError> {
        let further = &self.objects.clients.further;
        let known = further.known().await;
        let parsed = self.parse_as(path, content, (folder, checksum), known.clone()).await;
        if !further.is_empty() && parse::depends_on_server(&parsed) {
            let newer = further.newer_than(&known).await;
            return self.parse_as(path, content, (folder, checksum), newer).await;
        }
        parsed
    }

    async fn parse_as(
        &self,
        path: &str,
        content: &Bytes,
        (folder, checksum): (Option<&str>, &str),
        kinds: Kinds,
    ) -> Result<Vec<Document>, FileError> {
        let of = self.objects.context.clone();
        let (path, content) = (path.to_owned(), content.clone());
        let (folder, checksum) = (folder.map(str::to_owned), checksum.to_owned());
        let parsed = tokio::task::spawn_blocking(move || {
            let (folder, checksum) = (folder.as_deref(), &*checksum);
            parse::documents(&path, &content, &ParseContext { context: &of, folder, checksum, kinds: &kinds })
        });
        parsed.await.unwrap_or(Err(FileError::Panicked))
    }

    /// The file at `path`, which says `former` and is empty when it is new, as it is when it says `resource`. Of several
    /// documents the others stay as they are.
    pub async fn updated(
        &self,
        path: &str,
        former: &[u8],
        resource: &ParsedResource,
    ) -> Result<Vec<u8>, SerialiseError> {
        let kinds = self.objects.clients.further.known().await;
        let of = ParseContext { context: &self.objects.context, folder: None, checksum: "", kinds: &kinds };
        serialise::updated_file(resource, serialise::File { path, content: former, of })
    }

    /// Checks a `_folder.json`.
    pub fn check_folder(&self, content: &[u8]) -> Result<(), FileError> {
        parse::folder(content, &self.objects.context).map(drop)
    }

    /// The object that a file stands for, with its manager's marks.
    pub fn document(&self, resource: &ParsedResource) -> Value {
        let body = body::document(resource, &self.objects.context.namespace);
        serde_json::from_slice(&body).unwrap_or(Value::Null)
    }

    /// The object as the API has it, at a version of its kind; nothing if there is none.
    pub async fn existing(
        &self,
        kind: &Kind,
        version: &str,
        name: &str,
    ) -> Result<Option<Value>, PreviewError> {
        match self.collection(kind, version).get::<Value>(name, Accept::Whole).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(of_call(kind, name, "look at", &error)),
        }
    }

    /// The object as the API would have it, had the file at `path` been written. `existing` is what it has now, and
    /// `kept` are the paths whose objects stay theirs.
    pub async fn dry_run(
        &self,
        resource: &ParsedResource,
        path: &str,
        existing: Option<&Value>,
        kept: &HashSet<String>,
    ) -> Result<Value, PreviewError> {
        let Objects { context, .. } = &self.objects;
        let (kind, name) = (&resource.kind, &resource.name);
        let namespace = &context.namespace;
        let collection = self.collection(kind, &resource.version);
        let refused = |failure: Failure| PreviewError { code: 400, message: failure.message };
        let Some(existing) = existing else {
            let pretence = if kind.is_applied() {
                Pretence::Apply(name, body::apply_new(resource, namespace))
            } else {
                Pretence::Create(body::create(resource, namespace))
            };
            return collection.pretend(pretence).await.map_err(|error| of_call(kind, name, "write", &error));
        };
        let head: Head = serde_json::from_value(existing.clone())
            .map_err(|error| PreviewError { code: 502, message: error.to_string() })?;
        self.objects.check_owner(kind, name, &head).map_err(refused)?;
        let is_ours = head.is_managed_by(&context.repository);
        if is_ours && head.path() != path && kept.contains(head.path()) {
            return Err(refused(duplicate(kind, name, &holder(head.path(), None))));
        }
        let at = head.into_at(&context.repository);
        let pretence = if kind.is_applied() {
            Pretence::Apply(name, body::apply(resource, namespace, &at))
        } else {
            let generation = at.next_generation(resource.content_hash());
            Pretence::Patch(name, body::patch(resource, &at, generation))
        };
        collection.pretend(pretence).await.map_err(|error| of_call(kind, name, "write", &error))
    }

    fn collection<'a>(&'a self, kind: &'a Kind, version: &'a str) -> Collection<'a> {
        Collection {
            client: self.objects.clients.of(kind),
            kind,
            version,
            namespace: &self.objects.context.namespace,
            dry_run: true,
            fence: &self.objects.fence,
        }
    }
}

fn of_call(kind: &Kind, name: &str, verb: &str, error: &CallError) -> PreviewError {
    let code = match error {
        CallError::Refused { status, .. } => status.code,
        CallError::Unreadable { .. } => 502,
        _ => 503,
    };
    PreviewError { code, message: failure(kind, name, verb, error).message }
}
