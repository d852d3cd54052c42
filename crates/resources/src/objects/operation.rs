//! What can be done to an object: how each operation looks, creates, updates, and what it makes of a refusal.

use std::collections::HashSet;
use windlass_runtime::{Accept, CallError, Content};

use super::body;
use super::head::{At, Head, Manager, Observed};
use super::{Effect, Objects, Room, duplicate, holder};
use crate::folders::Folder;
use crate::parse::ParsedResource;
use crate::wire::{Collection, WrittenMetadata};
use crate::{FOLDER, Failure, Kind, SyncContext};

pub(super) enum Operation<'a> {
    PutResource {
        resource: &'a ParsedResource,
        path: &'a str,
        kept: &'a HashSet<String>,
        room: Option<&'a Room>,
        /// Whether it has to be written from the file as it is, be its own document the same as before.
        whole: bool,
    },
    PutFolder(&'a Folder),
    Delete {
        kind: &'a Kind,
        name: &'a str,
        path: &'a str,
    },
    Release {
        kind: &'a Kind,
        name: &'a str,
    },
}

/// How to go on after a request.
pub(super) enum Step {
    Done(Effect),
    Next(Observed),
}

pub(super) enum StepError {
    /// What is there may not be written to.
    Unfit(Failure),
    /// The request failed.
    Call(CallError),
}

impl From<CallError> for StepError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl Operation<'_> {
    pub(super) fn object(&self) -> (&Kind, &str) {
        match self {
            Self::PutResource { resource, .. } => (&resource.kind, &resource.name),
            Self::PutFolder(folder) => (&FOLDER, &folder.id),
            Self::Delete { kind, name, .. } | Self::Release { kind, name } => (kind, name),
        }
    }

    pub(super) fn version(&self) -> &str {
        match self {
            Self::PutResource { resource, .. } => &resource.version,
            _ => &self.object().0.version,
        }
    }

    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::PutResource { .. } | Self::PutFolder(_) => "write",
            Self::Delete { .. } => "delete",
            Self::Release { .. } => "release",
        }
    }

    /// Looks at the object, and decides whether it has to be written, and may be.
    pub(super) async fn look(
        &self,
        objects: &Objects,
        collection: &Collection<'_>,
    ) -> Result<Step, StepError> {
        let (kind, name) = self.object();
        let repository = &objects.context.repository;
        // A folder's title is compared.
        let answer = if matches!(self, Self::PutFolder(_)) { Accept::Whole } else { Accept::Metadata };
        let head: Head = collection.get(name, answer).await?;
        let is_ours = head.is_managed_by(repository);
        let may_write = || objects.check_owner(kind, name, &head).map_err(StepError::Unfit);
        let done = match self {
            Self::PutResource { resource, path, kept, whole, .. } => {
                may_write()?;
                if is_ours && head.path() != *path && kept.contains(head.path()) {
                    return Err(StepError::Unfit(duplicate(kind, name, &holder(head.path(), None))));
                }
                (is_ours && is_same(&head, resource, *whole, &objects.context)).then_some(Effect::Unchanged)
            }
            Self::PutFolder(folder) => {
                may_write()?;
                is_same_folder(&head, folder, &objects.context).then_some(Effect::Unchanged)
            }
            Self::Delete { path, .. } => {
                let going = head.metadata.deletion_timestamp.is_some().then_some(Effect::Deleted);
                going.or_else(|| (!is_ours || head.path() != *path).then_some(Effect::Kept))
            }
            Self::Release { .. } => (!is_ours).then_some(Effect::Kept),
        };
        if let Some(effect) = done {
            return Ok(Step::Done(effect));
        }
        let keeps_title = !matches!(self, Self::PutFolder(folder) if !has_title(&head, folder));
        let mut at = head.into_at(repository);
        at.spec_of = at.spec_of.filter(|_| keeps_title);
        Ok(Step::Next(Observed::At(at)))
    }

    /// Writes what is not there yet.
    pub(super) async fn create(
        &self,
        objects: &Objects,
        collection: &Collection<'_>,
    ) -> Result<Step, StepError> {
        if let Self::PutResource { room: Some(room), .. } = self {
            room.take().map_err(StepError::Unfit)?;
        }
        match self {
            Self::PutResource { resource, .. } if resource.kind.is_applied() => {
                let body = body::apply_new(resource, &objects.context.namespace);
                collection.apply(&resource.name, body).await?;
            }
            Self::PutResource { resource, .. } => {
                collection.create(body::create(resource, &objects.context.namespace)).await?;
            }
            Self::PutFolder(folder) => {
                collection.create(body::create_folder(folder, &objects.context)).await?;
            }
            Self::Delete { .. } | Self::Release { .. } => return Ok(Step::Done(Effect::Absent)),
        }
        Ok(Step::Done(Effect::Created))
    }

    /// Writes to what was looked at.
    pub(super) async fn update(
        &self,
        objects: &Objects,
        collection: &Collection<'_>,
        at: &At,
    ) -> Result<Step, StepError> {
        let context = &objects.context;
        let (written, generation) = match self {
            Self::PutResource { resource, .. } if resource.kind.is_applied() => {
                (collection.apply(&resource.name, body::apply(resource, &context.namespace, at)).await?, None)
            }
            Self::PutResource { resource, .. } => {
                let generation = at.next_generation(resource.content_hash());
                let body = body::patch(resource, at, generation);
                (collection.patch(&resource.name, Content::JsonPatch, body).await?, generation)
            }
            Self::PutFolder(folder) => {
                let generation = at.next_generation(folder.checksum.as_deref());
                let body = body::patch_folder(folder, &at.version, generation, context);
                (collection.patch(&folder.id, Content::MergePatch, body).await?, generation)
            }
            Self::Delete { name, .. } => {
                collection.delete(name, &at.version).await?;
                return Ok(Step::Done(Effect::Deleted));
            }
            Self::Release { name, .. } => {
                collection.patch(name, Content::MergePatch, body::release(&at.version)).await?;
                return Ok(Step::Done(Effect::Updated));
            }
        };
        if !collection.dry_run {
            self.correct_generation(collection, &written, generation).await;
        }
        Ok(Step::Done(match at.manager {
            Manager::Other => Effect::TakenOver,
            Manager::RepositoryUnlisted => Effect::Relabelled,
            // What was applied is what was there.
            Manager::Repository if written.resource_version == at.version && !collection.dry_run => {
                Effect::Unchanged
            }
            Manager::Repository => Effect::Updated,
        }))
    }

    /// The annotation was written with the generation that the write was expected to lead to. Where that was wrong, it
    /// is written again; if that fails, the next full sync takes the object for changed by hand and writes it anew.
    async fn correct_generation(
        &self,
        collection: &Collection<'_>,
        written: &WrittenMetadata,
        expected: Option<i64>,
    ) {
        let Some(generation) = written.generation.filter(|_| expected.is_some()) else { return };
        if Some(generation) != expected {
            let body = body::generation(&written.resource_version, generation);
            if let Err(error) = collection.patch(self.object().1, Content::MergePatch, body).await {
                tracing::debug!(%error, object = self.object().1, "generation not recorded");
            }
        }
    }

    /// How to go on after a request that failed; nothing if the operation has failed.
    pub(super) fn after(&self, observed: &Observed, error: &CallError) -> Option<Step> {
        let puts = matches!(self, Self::PutResource { .. } | Self::PutFolder(_));
        let is_applied = puts && self.object().0.is_applied();
        match observed {
            Observed::Absent if error.is_already_exists() || (is_applied && error.code() == Some(409)) => {
                Some(Step::Next(Observed::Unknown))
            }
            Observed::At(_) if error.code() == Some(409) => Some(Step::Next(Observed::Unknown)),
            // What is applied is never missing: then the kind is not served.
            Observed::At(_) if error.is_not_found() && is_applied => None,
            Observed::At(_) | Observed::Unknown if error.is_not_found() => {
                Some(if puts { Step::Next(Observed::Absent) } else { Step::Done(Effect::Absent) })
            }
            _ => None,
        }
    }
}

/// `whole`: written from the same file; otherwise from the same document of it.
fn is_same(head: &Head, resource: &ParsedResource, whole: bool, context: &SyncContext) -> bool {
    use windlass_api::annotations as keys;
    let marks = head.marks();
    let wanted = |key| resource.annotations.get(key).map(String::as_str);
    head.is_listed_for(&context.repository)
        && marks.source_path.as_deref() == wanted(keys::SOURCE_PATH)
        && (!whole || marks.source_checksum.as_deref() == wanted(keys::SOURCE_CHECKSUM))
        && marks.content_hash() == resource.content_hash()
        && marks.folder.as_deref() == wanted(keys::FOLDER)
        && !head.has_drifted()
}

fn is_same_folder(head: &Head, folder: &Folder, context: &SyncContext) -> bool {
    let marks = head.marks();
    head.is_managed_by(&context.repository)
        && head.is_listed_for(&context.repository)
        && head.path() == folder.path
        && marks.source_checksum == folder.checksum
        && marks.folder.as_deref().unwrap_or_default() == folder.parent.as_deref().unwrap_or_default()
        && has_title(head, folder)
}

/// Whether a folder is called as it should be.
fn has_title(head: &Head, folder: &Folder) -> bool {
    folder.title.as_ref().is_none_or(|title| head.spec.title.as_ref() == Some(title))
}
