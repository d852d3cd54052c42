//! One object at a time: look, check whose it is, write with the version that was looked at.
//!
//! Every try of a write passes the [`Fence`], so that a cancelled sync writes nothing more, and every write to something
//! that exists carries its resourceVersion, so that a late writer undoes nothing.

mod annotations;
mod body;
mod head;
mod operation;
mod preview;

#[cfg(test)]
pub(crate) use self::body::create as created_body;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use windlass_runtime::{CallError, Fence};

pub(crate) use self::annotations::{Annotations, ManagedFields, has_drifted};
use self::head::Head;
pub(crate) use self::head::{At, Observed};
use self::operation::{Operation, Step, StepError};
pub use self::preview::{Preview, PreviewError};
use crate::folders::Folder;
use crate::parse::ParsedResource;
use crate::plan::FolderAction;
use crate::wire::{self, Collection};
use crate::{Clients, FOLDER, Failure, Kind, Reason, SyncContext};

/// Rounds of look and write before it is reported that the object keeps changing.
const ATTEMPTS: usize = 6;

/// Why an object was not written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The sync was cancelled before the write.
    Cancelled,
    /// The write failed.
    Failed(Failure),
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What an operation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The object is new.
    Created,
    /// It was ours and has changed.
    Updated,
    /// It was nobody's, or another's who allows edits, and is ours now.
    TakenOver,
    /// It was ours, but was not listed as such for want of the label, which is there again.
    Relabelled,
    /// It was as it should be.
    Unchanged,
    /// It is deleted.
    Deleted,
    /// It was gone already.
    Absent,
    /// It belongs to another file or manager now, and stays.
    Kept,
}

impl Effect {
    /// Whether the object is managed now, and was not in a list of what is.
    pub(crate) fn was_unlisted(self) -> bool {
        matches!(self, Self::TakenOver | Self::Relabelled)
    }
}

/// Objects that nobody manages and that a sync may make its own: by kind and name.
pub type TakeOver = Arc<BTreeSet<(Kind, String)>>;

/// Writes objects for one repository.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) clients: Clients,
    pub(crate) context: SyncContext,
    pub(crate) dry_run: bool,
    /// How long tries of the requests of one change may begin.
    pub(crate) timeout: Duration,
    pub(crate) fence: Fence,
    pub(crate) take_over: TakeOver,
}

impl Objects {
    /// Creates or updates the object of a file. One request for what is absent or at a known version.
    ///
    /// `kept` are the paths that keep their objects: what came from one of them is not taken over. `room` is asked
    /// before it is created, where it was not reckoned with. `whole`: it is written although its own document is what it
    /// was, unless it was written from this very file.
    pub(crate) async fn put_resource(
        &self,
        resource: &ParsedResource,
        path: &str,
        observed: Observed,
        kept: &HashSet<String>,
        room: Option<&Room>,
        whole: bool,
    ) -> Result<Effect, WriteError> {
        self.run(&Operation::PutResource { resource, path, kept, room, whole }, observed).await
    }

    /// Creates or updates a folder.
    pub(crate) async fn put_folder(
        &self,
        folder: &Folder,
        action: &FolderAction,
    ) -> Result<Effect, WriteError> {
        let observed = match action {
            FolderAction::Create => Observed::Absent,
            FolderAction::Update(existing) => Observed::At(existing.into()),
            FolderAction::Ensure => Observed::Unknown,
        };
        self.run(&Operation::PutFolder(folder), observed).await
    }

    /// Deletes an object, provided that it still comes from `path`.
    pub(crate) async fn delete(
        &self,
        kind: &Kind,
        name: &str,
        path: &str,
        resource_version: Option<&str>,
    ) -> Result<Effect, WriteError> {
        self.run(&Operation::Delete { kind, name, path }, Observed::at_version(resource_version)).await
    }

    /// Takes the manager's marks off an object, at whatever version it is, as long as they are ours.
    pub(crate) async fn release(
        &self,
        kind: &Kind,
        name: &str,
        resource_version: &str,
    ) -> Result<Effect, WriteError> {
        self.run(&Operation::Release { kind, name }, Observed::at_version(Some(resource_version))).await
    }

    /// Carries out one change. A write is not begun once its time is over, and one that is under way then is awaited: it is
    /// not to land later, behind the back of who goes on.
    async fn run(&self, operation: &Operation<'_>, observed: Observed) -> Result<Effect, WriteError> {
        let end = Instant::now() + self.timeout;
        let fence = self.fence.until(end);
        let tries = self.look_and_write(operation, observed, &fence);
        match tokio::time::timeout_at(end + wire::DEADLINE, tries).await {
            // The right to write is still there.
            Ok(Err(WriteError::Cancelled)) if Instant::now() >= end && self.fence.holds() => {}
            Ok(done) => return done,
            // It reads; no write began that late.
            Err(_) => {}
        }
        let (kind, name) = operation.object();
        let message =
            format!("failed to {} {} {name:?} within {:?}", operation.verb(), what(kind), self.timeout);
        Err(Failure::new(Reason::Timeout, message).into())
    }

    /// Looks and writes until a write goes through, or there is nothing to write.
    async fn look_and_write(
        &self,
        operation: &Operation<'_>,
        mut observed: Observed,
        fence: &Fence,
    ) -> Result<Effect, WriteError> {
        let (kind, name) = operation.object();
        let collection = Collection {
            client: self.clients.of(kind),
            kind,
            version: operation.version(),
            namespace: &self.context.namespace,
            dry_run: self.dry_run,
            fence,
        };
        for _ in 0..ATTEMPTS {
            let step = match &observed {
                Observed::Unknown => operation.look(self, &collection).await,
                Observed::Absent => operation.create(self, &collection).await,
                Observed::At(at) => operation.update(self, &collection, at).await,
            };
            observed = match step {
                Ok(Step::Done(effect)) => return Ok(effect),
                Ok(Step::Next(next)) => next,
                Err(StepError::Unfit(failure)) => return Err(failure.into()),
                Err(StepError::Call(error)) if error.is_fenced() => return Err(WriteError::Cancelled),
                Err(StepError::Call(error)) => match operation.after(&observed, &error) {
                    Some(Step::Done(effect)) => return Ok(effect),
                    Some(Step::Next(next)) => next,
                    None => return Err(failure(kind, name, operation.verb(), &error).into()),
                },
            };
        }
        let message = format!(
            "failed to {} {} {name:?}: it keeps changing; the next sync tries again",
            operation.verb(),
            what(kind)
        );
        Err(Failure::new(Reason::ApiError, message).into())
    }

    /// Refuses what this repository may not write to. (Grafana: resources, ownership.)
    fn check_owner(&self, kind: &Kind, name: &str, head: &Head) -> Result<(), Failure> {
        let marks = head.marks();
        let repository = &self.context.repository;
        if head.metadata.deletion_timestamp.is_some() {
            let message =
                format!("{} {name:?} is being deleted; it is written again at the next sync", what(kind));
            return Err(Failure::new(Reason::ApiError, message));
        }
        let is_managed = marks.managed_by.is_some();
        if head.is_managed_by(repository)
            || marks.allows_edits.as_deref() == Some("true")
            || (!is_managed && self.take_over.contains(&(kind.clone(), name.to_owned())))
        {
            return Ok(());
        }
        let is_folder = *kind == FOLDER;
        let manager = marks.manager_id.as_deref().unwrap_or_default();
        let message = match &marks.managed_by {
            None if is_folder => format!(
                "target folder is not managed by a repository: {name}; delete or rename it to have it synced"
            ),
            None => format!(
                "resource '{name}' exists and is not managed by a repository; delete or rename it to have it synced"
            ),
            Some(_) if is_folder => {
                format!("target folder is managed by a different repository ({manager})")
            }
            Some(by) => format!(
                "resource '{name}' is managed by {by} '{manager}' and cannot be modified by repo '{repository}'"
            ),
        };
        let reason = if is_folder { Reason::FolderManagedByOther } else { Reason::ResourceInvalid };
        // Its owner may release or delete it.
        Err(Failure::new(reason, message).retried())
    }
}

/// A second file or document that claims an object. The first may go, or call its object differently.
pub(crate) fn duplicate(kind: &Kind, name: &str, holder: &str) -> Failure {
    let message = format!("duplicate resource name: {} {name:?} already comes from {holder}", what(kind));
    Failure::new(Reason::ResourceManagedByOther, message).retried()
}

/// A file or one of its documents, for [`duplicate`].
pub(crate) fn holder(path: &str, number: Option<usize>) -> String {
    match number {
        Some(number) => format!("document {number} of file {path:?}"),
        None => format!("file {path:?}"),
    }
}

/// How many objects more may be created than were planned.
#[derive(Debug)]
pub(crate) struct Room(AtomicUsize);

impl Room {
    pub(crate) fn new(objects: usize) -> Self {
        Self(AtomicUsize::new(objects))
    }

    /// Takes the place of one.
    fn take(&self) -> Result<(), Failure> {
        let taken = self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.map(drop).map_err(|_full| {
            let message = "not created: the repository manages as many resources as it may; remove some, or raise max_resources_per_repository";
            Failure::new(Reason::QuotaExceeded, message).retried()
        })
    }
}

fn what(kind: &Kind) -> String {
    kind.kind.to_ascii_lowercase()
}

/// How kube-apiserver begins to say that what is applied does not fit the schema.
const UNTYPED: &str = "failed to create typed patch object";

/// Says what an API error means for a file (Grafana: jobs, error or warning).
fn failure(kind: &Kind, name: &str, verb: &str, error: &CallError) -> Failure {
    let is_folder = *kind == FOLDER;
    let words = wire::words(error);
    let reason = match (error.code(), error) {
        (Some(413), _) => Reason::ResourceTooLarge,
        (Some(400 | 422), _) if is_folder && words.to_ascii_lowercase().contains("depth") => {
            Reason::FolderDepthExceeded
        }
        (Some(400 | 422), _) if is_folder => Reason::FolderValidationFailed,
        (Some(400 | 422), _) => Reason::ResourceInvalid,
        // A file with a field that the schema does not have, in server-side apply's own way of saying so.
        (Some(500), _) if words.starts_with(UNTYPED) => Reason::ResourceInvalid,
        (_, CallError::Deadline { .. }) => Reason::Timeout,
        _ => Reason::ApiError,
    };
    // The server may come to accept it: another schema, another policy.
    Failure::new(reason, format!("failed to {verb} {} {name:?}: {words}", what(kind))).retried()
}
