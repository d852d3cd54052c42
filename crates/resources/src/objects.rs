//! One object at a time: look, check whose it is, write with the version that was looked at.
//!
//! Every write passes [`Objects::gate`], so that a cancelled sync writes nothing more, and every write to something
//! that exists is fenced by its resourceVersion, so that a late writer undoes nothing.

mod body;

use std::collections::HashSet;

use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use windlass_api::annotations::MANAGER_KIND_REPO;

use crate::folders::Folder;
use crate::parse::ParsedResource;
use crate::plan::{Existing, FolderAction};
use crate::wire::{Answer, CallError, Collection, PatchKind};
use crate::{Action, Clients, Context, FOLDER, Failure, Kind, MayWrite, Reason};

/// Rounds of look and write before somebody else's haste is reported.
const ATTEMPTS: usize = 6;

/// The annotations that say where an object comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Annotations {
    #[serde(rename = "grafana.app/managedBy")]
    pub(crate) managed_by: Option<String>,
    #[serde(rename = "grafana.app/managerId")]
    pub(crate) manager_id: Option<String>,
    #[serde(rename = "grafana.app/managerAllowsEdits")]
    allows_edits: Option<String>,
    #[serde(rename = "grafana.app/sourcePath")]
    pub(crate) source_path: Option<String>,
    #[serde(rename = "grafana.app/sourceChecksum")]
    pub(crate) source_checksum: Option<String>,
    #[serde(rename = "grafana.app/folder")]
    pub(crate) folder: Option<String>,
    #[serde(rename = "windlass.dev/file-metadata")]
    pub(crate) file_metadata: Option<String>,
}

/// As much of an object as decisions need.
#[derive(Debug, Deserialize)]
struct Head {
    metadata: HeadMetadata,
    #[serde(default)]
    spec: HeadSpec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    annotations: Annotations,
    labels: Option<serde::de::IgnoredAny>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
struct HeadSpec {
    title: Option<String>,
}

impl Head {
    fn path(&self) -> &str {
        self.metadata.annotations.source_path.as_deref().unwrap_or_default().trim_end_matches('/')
    }

    fn is_managed_by(&self, repository: &str) -> bool {
        let marks = &self.metadata.annotations;
        marks.managed_by.as_deref() == Some(MANAGER_KIND_REPO)
            && marks.manager_id.as_deref() == Some(repository)
    }
}

/// Why an object was not written.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The sync was cancelled before the write.
    Cancelled,
    /// The write failed.
    Failed(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What is known before the first request.
#[derive(Debug, Clone)]
pub(crate) enum Start {
    Absent,
    At(At),
    Unknown,
}

/// An object as it was looked at.
#[derive(Debug, Clone)]
pub(crate) struct At {
    pub(crate) version: String,
    pub(crate) uid: String,
    pub(crate) has_labels: bool,
    pub(crate) file_metadata: Option<String>,
}

impl From<&Existing> for At {
    fn from(existing: &Existing) -> Self {
        Self {
            version: existing.resource_version.clone(),
            uid: existing.uid.clone(),
            has_labels: true,
            file_metadata: existing.file_metadata.clone(),
        }
    }
}

impl From<HeadMetadata> for At {
    fn from(head: HeadMetadata) -> Self {
        Self {
            version: head.resource_version,
            uid: head.uid,
            has_labels: head.labels.is_some(),
            file_metadata: head.annotations.file_metadata,
        }
    }
}

/// What became of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It is gone, by this or by an earlier request.
    Gone,
    /// It belongs to another file or manager now, and stays.
    Kept,
}

/// Writes objects for one repository.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) clients: Clients,
    pub(crate) context: Context,
    pub(crate) dry_run: bool,
    pub(crate) cancel: CancellationToken,
    pub(crate) may_write: MayWrite,
}

impl Objects {
    fn collection<'a>(&'a self, kind: &'a Kind, version: &'a str) -> Collection<'a> {
        let client = self.clients.of(kind);
        Collection { client, kind, version, namespace: &self.context.namespace, dry_run: self.dry_run }
    }

    /// Asked before every write: a sync whose lease is lost writes nothing more.
    fn gate(&self) -> Result<(), Halt> {
        if self.cancel.is_cancelled() || !(self.may_write)() { Err(Halt::Cancelled) } else { Ok(()) }
    }

    /// Creates or updates the object of a file. One request for what is absent or at a known version.
    ///
    /// `kept` are the paths that keep their objects: what came from one of them is not taken over.
    pub(crate) async fn put_resource(
        &self,
        resource: &ParsedResource,
        path: &str,
        start: Start,
        kept: &HashSet<String>,
    ) -> Result<Action, Halt> {
        let kind = &resource.kind;
        let collection = self.collection(kind, &resource.version);
        let failed = |error| failure(kind, &resource.name, "write", error);
        let mut next = start;
        for _ in 0..ATTEMPTS {
            next = match next {
                Start::Absent => {
                    self.gate()?;
                    match self.create(&collection, resource).await {
                        Ok(()) => return Ok(Action::Created),
                        Err(error) if error.is_already_exists() => Start::Unknown,
                        Err(error) if kind.is_applied() && error.is(409) => Start::Unknown,
                        Err(error) => return Err(failed(error).into()),
                    }
                }
                Start::At(at) => {
                    self.gate()?;
                    match self.update(&collection, resource, &at).await {
                        Ok(()) => return Ok(Action::Updated),
                        Err(error) if error.is(404) && !kind.is_applied() => Start::Absent,
                        Err(error) if error.is(409) => Start::Unknown,
                        Err(error) => return Err(failed(error).into()),
                    }
                }
                Start::Unknown => match collection.get::<Head>(&resource.name, Answer::Metadata).await {
                    Err(error) if error.is(404) => Start::Absent,
                    Err(error) => return Err(failed(error).into()),
                    Ok(head) => {
                        self.check_owner(kind, &resource.name, &head)?;
                        if head.is_managed_by(&self.context.repository) {
                            if head.path() != path && kept.contains(head.path()) {
                                return Err(duplicate(kind, &resource.name, head.path()).into());
                            }
                            if is_same(&head.metadata.annotations, resource) {
                                return Ok(Action::Ignored);
                            }
                        }
                        Start::At(head.metadata.into())
                    }
                },
            };
        }
        Err(busy(kind, &resource.name).into())
    }

    async fn create(&self, collection: &Collection<'_>, resource: &ParsedResource) -> Result<(), CallError> {
        let namespace = &self.context.namespace;
        if resource.kind.is_applied() {
            collection.apply(&resource.name, body::apply_new(resource, namespace)).await
        } else {
            collection.create(body::create(resource, namespace)).await
        }
    }

    async fn update(
        &self,
        collection: &Collection<'_>,
        resource: &ParsedResource,
        at: &At,
    ) -> Result<(), CallError> {
        if resource.kind.is_applied() {
            collection.apply(&resource.name, body::apply(resource, &self.context.namespace, at)).await
        } else {
            collection.patch(&resource.name, PatchKind::Json, body::patch(resource, at)).await
        }
    }

    /// Creates or updates a folder; `Ignored` means that it was as it should be.
    pub(crate) async fn put_folder(&self, folder: &Folder, action: &FolderAction) -> Result<Action, Halt> {
        let collection = self.collection(&FOLDER, &FOLDER.version);
        let failed = |error| failure(&FOLDER, &folder.id, "write", error);
        let mut next = match action {
            FolderAction::Create => Start::Absent,
            FolderAction::Update(existing) => Start::At(existing.into()),
            FolderAction::Ensure => Start::Unknown,
        };
        for _ in 0..ATTEMPTS {
            next = match next {
                Start::Absent => {
                    self.gate()?;
                    match collection.create(body::create_folder(folder, &self.context)).await {
                        Ok(()) => return Ok(Action::Created),
                        Err(error) if error.is_already_exists() => Start::Unknown,
                        Err(error) => return Err(failed(error).into()),
                    }
                }
                Start::At(at) => {
                    self.gate()?;
                    let body = body::patch_folder(folder, &at.version, &self.context);
                    match collection.patch(&folder.id, PatchKind::Merge, body).await {
                        Ok(()) => return Ok(Action::Updated),
                        Err(error) if error.is(404) => Start::Absent,
                        Err(error) if error.is(409) => Start::Unknown,
                        Err(error) => return Err(failed(error).into()),
                    }
                }
                Start::Unknown => match collection.get::<Head>(&folder.id, Answer::Whole).await {
                    Err(error) if error.is(404) => Start::Absent,
                    Err(error) => return Err(failed(error).into()),
                    Ok(head) => {
                        self.check_owner(&FOLDER, &folder.id, &head)?;
                        if is_same_folder(&head, folder, &self.context) {
                            return Ok(Action::Ignored);
                        }
                        Start::At(head.metadata.into())
                    }
                },
            };
        }
        Err(busy(&FOLDER, &folder.id).into())
    }

    /// Deletes an object, provided that it still comes from `path`. Not finding it is success.
    pub(crate) async fn delete(
        &self,
        kind: &Kind,
        name: &str,
        path: &str,
        resource_version: Option<&str>,
    ) -> Result<Removal, Halt> {
        let collection = self.collection(kind, &kind.version);
        let failed = |error| failure(kind, name, "delete", error);
        let mut version = resource_version.map(str::to_owned);
        for _ in 0..ATTEMPTS {
            let Some(at) = version.take() else {
                match collection.get::<Head>(name, Answer::Metadata).await {
                    Err(error) if error.is(404) => return Ok(Removal::Gone),
                    Err(error) => return Err(failed(error).into()),
                    Ok(head) if head.metadata.deletion_timestamp.is_some() => return Ok(Removal::Gone),
                    Ok(head) if head.is_managed_by(&self.context.repository) && head.path() == path => {
                        version = Some(head.metadata.resource_version);
                        continue;
                    }
                    Ok(_) => return Ok(Removal::Kept),
                }
            };
            self.gate()?;
            match collection.delete(name, &at).await {
                Ok(()) => return Ok(Removal::Gone),
                Err(error) if error.is(404) => return Ok(Removal::Gone),
                Err(error) if error.is(409) => {}
                Err(error) => return Err(failed(error).into()),
            }
        }
        Err(busy(kind, name).into())
    }

    /// Takes the manager's marks off an object, at whatever version it is, as long as they are ours.
    pub(crate) async fn release(
        &self,
        kind: &Kind,
        name: &str,
        resource_version: &str,
    ) -> Result<Removal, Halt> {
        let collection = self.collection(kind, &kind.version);
        let failed = |error| failure(kind, name, "release", error);
        let mut version = Some(resource_version.to_owned());
        for _ in 0..ATTEMPTS {
            let Some(at) = version.take() else {
                match collection.get::<Head>(name, Answer::Metadata).await {
                    Err(error) if error.is(404) => return Ok(Removal::Gone),
                    Err(error) => return Err(failed(error).into()),
                    Ok(head) if head.is_managed_by(&self.context.repository) => {
                        version = Some(head.metadata.resource_version);
                        continue;
                    }
                    Ok(_) => return Ok(Removal::Kept),
                }
            };
            self.gate()?;
            match collection.patch(name, PatchKind::Merge, body::release(&at)).await {
                Ok(()) => return Ok(Removal::Kept),
                Err(error) if error.is(404) => return Ok(Removal::Gone),
                Err(error) if error.is(409) => {}
                Err(error) => return Err(failed(error).into()),
            }
        }
        Err(busy(kind, name).into())
    }

    /// May this repository write to what is there? (Grafana: resources, ownership.)
    fn check_owner(&self, kind: &Kind, name: &str, head: &Head) -> Result<(), Failure> {
        let marks = &head.metadata.annotations;
        let repository = &self.context.repository;
        if head.metadata.deletion_timestamp.is_some() {
            let message =
                format!("{} {name:?} is being deleted; it is written again at the next sync", what(kind));
            return Err(Failure::new(Reason::ApiError, message));
        }
        if head.is_managed_by(repository) || marks.allows_edits.as_deref() == Some("true") {
            return Ok(());
        }
        let is_folder = *kind == FOLDER;
        let reason = if is_folder { Reason::FolderManagedByOther } else { Reason::ResourceInvalid };
        let message = match (&marks.managed_by, &marks.manager_id) {
            (None, _) if is_folder => format!("target folder is not managed by a repository: {name}"),
            (None, _) => format!(
                "resource '{name}' exists and is not managed by a repository; delete or rename it to have it synced"
            ),
            (Some(_), id) if is_folder => {
                format!(
                    "target folder is managed by a different repository ({})",
                    id.as_deref().unwrap_or_default()
                )
            }
            (Some(by), id) => format!(
                "resource '{name}' is managed by {by} '{}' and cannot be modified by repo '{repository}'",
                id.as_deref().unwrap_or_default()
            ),
        };
        Err(Failure::new(reason, message))
    }
}

/// A second file that claims an object.
pub(crate) fn duplicate(kind: &Kind, name: &str, holder: &str) -> Failure {
    Failure::new(
        Reason::ResourceManagedByOther,
        format!("duplicate resource name: {} {name:?} already comes from file {holder:?}", what(kind)),
    )
}

fn busy(kind: &Kind, name: &str) -> Failure {
    let message =
        format!("failed to write {} {name:?}: it keeps changing; the next sync tries again", what(kind));
    Failure::new(Reason::ApiError, message)
}

fn what(kind: &Kind) -> String {
    kind.kind.to_ascii_lowercase()
}

fn is_same(marks: &Annotations, resource: &ParsedResource) -> bool {
    use windlass_api::annotations as keys;
    let wanted = |key| resource.annotations.get(key).map(String::as_str);
    marks.source_path.as_deref() == wanted(keys::SOURCE_PATH)
        && marks.source_checksum.as_deref() == wanted(keys::SOURCE_CHECKSUM)
        && marks.folder.as_deref() == wanted(keys::FOLDER)
}

fn is_same_folder(head: &Head, folder: &Folder, context: &Context) -> bool {
    let marks = &head.metadata.annotations;
    head.is_managed_by(&context.repository)
        && head.path() == folder.path
        && marks.source_checksum == folder.checksum
        && marks.folder.as_deref().unwrap_or_default() == folder.parent.as_deref().unwrap_or_default()
        && folder.title.as_ref().is_none_or(|title| head.spec.title.as_ref() == Some(title))
}

/// How kube-apiserver begins to say that what is applied does not fit the schema.
const UNTYPED: &str = "failed to create typed patch object";

/// Says what an API error means for a file (Grafana: jobs, error or warning).
fn failure(kind: &Kind, name: &str, verb: &str, error: CallError) -> Failure {
    let is_folder = *kind == FOLDER;
    let reason = match &error {
        CallError::Refused { code: 413, .. } => Reason::ResourceTooLarge,
        CallError::Refused { code: 400 | 422, message, .. } if is_folder => {
            if message.to_ascii_lowercase().contains("depth") {
                Reason::FolderDepthExceeded
            } else {
                Reason::FolderValidationFailed
            }
        }
        CallError::Refused { code: 400 | 422, .. } => Reason::ResourceInvalid,
        // A file with a field that the schema does not have, in server-side apply's own way of saying so.
        CallError::Refused { code: 500, message, .. } if message.starts_with(UNTYPED) => {
            Reason::ResourceInvalid
        }
        _ => Reason::ApiError,
    };
    Failure::new(reason, format!("failed to {verb} {} {name:?}: {error}", what(kind)))
}
