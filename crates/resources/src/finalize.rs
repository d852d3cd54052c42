//! Letting go of what a repository manages, or removing it: for finalizers and for jobs.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use tokio_util::sync::CancellationToken;
use windlass_api::SyncTarget;

use crate::managed::{self, ListError};
use crate::objects::{Effect, Objects, TakeOver, WriteError};
use crate::outcome::{Action, Failure, ItemResult, MayWrite, OnResult, Reason};
use crate::paths::{depth, is_below};
use crate::wire;
use crate::{Clients, ManagedItem, SyncContext};

/// What releasing and removing need.
#[derive(Clone)]
pub struct Finalize {
    /// Where the objects are.
    pub clients: Clients,
    /// Namespace of the repository.
    pub namespace: String,
    /// Name of the repository.
    pub repository: String,
    /// Requests at a time.
    pub workers: usize,
    /// How long requests of one item may begin. A write that is under way then has its own deadline, as each page of a
    /// listing has.
    pub timeout: Duration,
    /// Looked at before every write.
    pub cancel: CancellationToken,
    /// Where results go.
    pub on_result: OnResult,
}

/// How it went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finalized {
    /// Objects that the repository managed.
    pub found: usize,
    /// Those that it no longer does.
    pub done: usize,
    /// What went wrong, by item.
    pub failures: Vec<ItemResult>,
    /// Whether it was cut short.
    pub cancelled: bool,
}

impl Finalized {
    /// Whether nothing is managed any more.
    pub fn is_complete(&self) -> bool {
        self.done == self.found && !self.cancelled
    }
}

/// Takes the manager's annotations and label off everything: folders one by one from the top, then the rest in
/// parallel. The objects stay.
pub async fn release(job: &Finalize) -> Result<Finalized, ListError> {
    release_while(job, Arc::new(|| true)).await
}

/// The same, asking `may_write` before each try of each write.
pub async fn release_while(job: &Finalize, may_write: MayWrite) -> Result<Finalized, ListError> {
    let mut run = Run::start(job, may_write).await?;
    let (mut folders, files) = run.take_items();
    folders.sort_by_key(|folder| depth(&folder.path));
    for folder in folders {
        run.one(folder, Verb::Release).await;
    }
    run.all(files, Verb::Release).await;
    Ok(run.finish())
}

/// Deletes everything: files in parallel, then folders one by one from the bottom. A folder that still holds
/// something is left, and is a failure.
pub async fn remove(job: &Finalize) -> Result<Finalized, ListError> {
    remove_while(job, Arc::new(|| true)).await
}

/// The same, asking `may_write` before each try of each write.
pub async fn remove_while(job: &Finalize, may_write: MayWrite) -> Result<Finalized, ListError> {
    let mut run = Run::start(job, may_write).await?;
    let (mut folders, files) = run.take_items();
    run.all(files, Verb::Remove).await;
    folders.sort_by_key(|folder| std::cmp::Reverse((folder.folder.is_some(), depth(&folder.path))));
    for folder in folders {
        let blocked = run.finalized.failures.iter().any(|failed| is_below(&failed.path, &folder.path));
        if blocked {
            let item = item(&folder, Verb::Remove);
            let message = "skipped: something in the folder was not deleted";
            run.record(item.failed(Failure::new(Reason::SkippedFolderChildrenNotDeleted, message)));
        } else {
            run.one(folder, Verb::Remove).await;
        }
    }
    Ok(run.finish())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Release,
    Remove,
}

struct Run<'a> {
    job: &'a Finalize,
    objects: Objects,
    managed: crate::Managed,
    finalized: Finalized,
}

impl<'a> Run<'a> {
    async fn start(job: &'a Finalize, may_write: MayWrite) -> Result<Self, ListError> {
        let managed = managed::list(&job.clients, &job.namespace, &job.repository)
            .await?
            .complete(&job.repository, |_| true)?;
        let objects = Objects {
            clients: job.clients.clone(),
            context: SyncContext {
                namespace: job.namespace.clone(),
                repository: job.repository.clone(),
                title: String::new(),
                target: SyncTarget::Folderless,
            },
            dry_run: false,
            timeout: job.timeout,
            fence: wire::fence(job.cancel.clone(), may_write),
            take_over: TakeOver::default(),
        };
        let finalized = Finalized { found: managed.len(), ..Finalized::default() };
        Ok(Self { job, objects, managed, finalized })
    }

    fn take_items(&mut self) -> (Vec<ManagedItem>, Vec<ManagedItem>) {
        let managed = std::mem::take(&mut self.managed);
        (managed.folders, managed.files)
    }

    async fn one(&mut self, item: ManagedItem, verb: Verb) {
        let outcome = act(&self.objects, item, verb).await;
        self.settle(outcome);
    }

    async fn all(&mut self, items: Vec<ManagedItem>, verb: Verb) {
        let objects = self.objects.clone();
        let mut outcomes = stream::iter(items)
            .map(|item| act(&objects, item, verb))
            .buffer_unordered(self.job.workers.max(1));
        while let Some(outcome) = outcomes.next().await {
            self.settle(outcome);
        }
    }

    fn settle(&mut self, outcome: Option<ItemResult>) {
        match outcome {
            None => self.finalized.cancelled = true,
            Some(item) => self.record(item),
        }
    }

    fn record(&mut self, item: ItemResult) {
        if item.error.is_none() {
            self.finalized.done += 1;
        } else {
            self.finalized.failures.push(item.clone());
        }
        (self.job.on_result)(item);
    }

    fn finish(self) -> Finalized {
        self.finalized
    }
}

fn item(of: &ManagedItem, verb: Verb) -> ItemResult {
    let action = if verb == Verb::Release { Action::Updated } else { Action::Deleted };
    ItemResult::new(Some(&of.kind), &of.path, &of.name, action)
}

/// One item; nothing if it was not tried.
async fn act(objects: &Objects, of: ManagedItem, verb: Verb) -> Option<ItemResult> {
    let mut result = item(&of, verb);
    let outcome = match verb {
        Verb::Release => objects.release(&of.kind, &of.name, &of.resource_version).await,
        Verb::Remove => objects.delete(&of.kind, &of.name, &of.path, Some(&of.resource_version)).await,
    };
    match outcome {
        Ok(Effect::Kept) if verb == Verb::Remove => result.action = Action::Ignored,
        Ok(_) => {}
        Err(WriteError::Cancelled) => return None,
        Err(WriteError::Failed(failure)) => result.error = Some(failure),
    }
    Some(result)
}
