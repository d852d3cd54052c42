//! Carries a [`Plan`] out: phase by phase, in parallel where order does not matter, reporting each change.

mod load;
mod state;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_git::Source;

use self::load::Loaded;
use self::state::State;
use crate::objects::{Halt, Objects, Removal, Start, duplicate};
use crate::outcome::{Action, Failure, ItemResult, MayWrite, OnResult, Reason};
use crate::parse::{self, ParseContext, ParsedResource};
use crate::plan::{Deletion, Existing, FileWrite, FolderAction, FolderWrite, Known, Plan, Target};
use crate::{Clients, Context, FOLDER, Kind, Managed, managed, paths};

/// Files that are read and parsed ahead of being written: this many, or this many bytes.
const BATCH_FILES: usize = 64;
const BATCH_BYTES: u64 = 4 << 20;

/// How a plan is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Writes at a time.
    pub workers: usize,
    /// Deadline of one change, all its requests together.
    pub timeout: Duration,
    /// Errors (warnings do not count) after which nothing more is started; 0 for no limit.
    pub max_errors: usize,
    /// Whether the API only pretends (`dryRun=All`).
    pub dry_run: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { workers: 10, timeout: Duration::from_secs(15), max_errors: 20, dry_run: false }
    }
}

/// What applying needs beside a plan.
#[derive(Clone)]
pub struct Job {
    /// Where contents are read from.
    pub source: Arc<dyn Source>,
    /// Where objects are written to.
    pub clients: Clients,
    /// Whose files these are.
    pub context: Context,
    /// How.
    pub options: Options,
    /// Looked at before every write: once cancelled, nothing more is written.
    pub cancel: CancellationToken,
    /// Asked before every write, beside [`cancel`](Self::cancel): a lease knows from its own clock that it has
    /// lapsed, before anybody could have cancelled anything (a process that was stopped and goes on).
    pub may_write: MayWrite,
    /// Where results go.
    pub on_result: OnResult,
}

/// Why not everything was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// The caller cancelled.
    Cancelled,
    /// Too many errors.
    TooManyErrors(usize),
    /// There is no folder to put anything into; its result says why.
    NoRootFolder,
}

/// How it went, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Objects created.
    pub created: usize,
    /// Objects updated.
    pub updated: usize,
    /// Objects deleted.
    pub deleted: usize,
    /// Objects that now belong to another path.
    pub renamed: usize,
    /// Changes that failed.
    pub errors: usize,
    /// Changes that were not made for a reason that the repository's owner can mend, and notices.
    pub warnings: usize,
    /// Why not everything was tried.
    pub stopped: Option<Stopped>,
}

/// Applies a plan. Never fails as a whole: results go to [`Job::on_result`], one for each change that was tried or
/// skipped, and one for each notice.
pub async fn run(plan: Plan, job: Job) -> Summary {
    let Plan { notices, root, delete_files, folders, renames, delete_folders, files, replaced_folders, kept } =
        plan;
    let applier = Arc::new(Applier {
        objects: Objects {
            clients: job.clients.clone(),
            context: job.context.clone(),
            dry_run: job.options.dry_run,
            cancel: job.cancel.clone(),
            may_write: job.may_write.clone(),
        },
        state: State::new(job.options.max_errors, job.on_result.clone()),
        listed: OnceCell::new(),
        kept,
        job,
    });
    for notice in notices {
        let item = ItemResult::new(None, &notice.path, "", Action::Ignored);
        applier.state.record(item.failed(notice.failure));
    }
    if let Some(root) = root {
        applier.clone().write_folder(root).await;
        if applier.state.is_below_failed_folder("anything") {
            applier.state.stop(Stopped::NoRootFolder);
        }
    }
    applier.each(stream::iter(delete_files), Applier::delete_file).await;
    // Those of one depth do not hold each other.
    let mut folders = folders.into_iter().peekable();
    while let Some(first) = folders.next() {
        let depth = paths::depth(&first.folder.path);
        let mut level = vec![first];
        while let Some(next) = folders.next_if(|next| paths::depth(&next.folder.path) == depth) {
            level.push(next);
        }
        applier.each(stream::iter(level), Applier::write_folder).await;
    }
    applier.write_files(renames).await;
    for folder in delete_folders {
        applier.clone().delete_folder(folder, Reason::SkippedFolderChildrenNotDeleted).await;
    }
    applier.write_files(files).await;
    for folder in replaced_folders {
        applier.clone().delete_folder(folder, Reason::SkippedDependentPathChangeFailed).await;
    }
    applier.may_go_on();
    applier.state.summary()
}

/// Shared by the tasks of one run.
struct Applier {
    job: Job,
    objects: Objects,
    state: State,
    /// What is managed, asked for only when a change cannot be traced otherwise.
    listed: OnceCell<Option<Managed>>,
    kept: std::collections::HashSet<String>,
}

impl Applier {
    /// Whether anything more may be started.
    fn may_go_on(&self) -> bool {
        if self.job.cancel.is_cancelled() || !(self.job.may_write)() {
            self.state.stop(Stopped::Cancelled);
        }
        !self.state.is_stopped()
    }

    /// Runs `work` on every item, at most [`Options::workers`] at a time, each in a task of its own.
    async fn each<T, W, F>(self: &Arc<Self>, items: impl stream::Stream<Item = T>, work: W)
    where
        W: Fn(Arc<Self>, T) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let mut items = std::pin::pin!(items);
        let mut tasks = JoinSet::new();
        while self.may_go_on() {
            let Some(item) = items.next().await else { break };
            while tasks.len() >= self.job.options.workers.max(1) {
                tasks.join_next().await;
            }
            if self.may_go_on() {
                tasks.spawn(work(self.clone(), item));
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Runs one change under its deadline and reports it; `done` may decide that there is nothing to report.
    async fn change<T>(
        &self,
        item: ItemResult,
        work: impl Future<Output = Result<T, Halt>>,
        done: impl FnOnce(T, ItemResult) -> Option<ItemResult>,
    ) -> bool {
        let limit = self.job.options.timeout;
        let outcome = tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            let message = format!("the API did not answer within {limit:?}");
            Err(Failure::new(Reason::Timeout, message).into())
        });
        match outcome {
            Ok(value) => {
                if let Some(item) = done(value, item) {
                    self.state.record(item);
                }
                true
            }
            // Not tried, and not reported: whoever cancelled knows.
            Err(Halt::Cancelled) => {
                self.state.stop(Stopped::Cancelled);
                false
            }
            Err(Halt::Failed(failure)) => {
                self.state.record(item.failed(failure));
                false
            }
        }
    }

    async fn write_folder(self: Arc<Self>, write: FolderWrite) {
        if !self.may_go_on() {
            return;
        }
        let FolderWrite { folder, action, previous_path } = write;
        let planned = match (&action, &previous_path) {
            (_, Some(_)) => Action::Renamed,
            (FolderAction::Update(_), None) => Action::Updated,
            _ => Action::Created,
        };
        let mut item = ItemResult::new(Some(&FOLDER), &folder.path, &folder.id, planned);
        item.previous_path = previous_path;
        if self.state.is_below_failed_folder(&folder.path) {
            self.state.record_skipped(item, Reason::SkippedParentFolderNotCreated);
            self.state.folder_failed(&folder.path);
            return;
        }
        let work = self.objects.put_folder(&folder, &action);
        let done = |action, mut item: ItemResult| {
            if item.action != Action::Renamed || action == Action::Ignored {
                item.action = action;
            }
            // Looking at the root folder is part of every sync and no result.
            (action != Action::Ignored || !folder.path.is_empty()).then_some(item)
        };
        // Files may go into a folder that merely could not be brought up to date.
        if !self.change(item, work, done).await && !matches!(action, FolderAction::Update(_)) {
            self.state.folder_failed(&folder.path);
        }
    }

    async fn delete_folder(self: Arc<Self>, deletion: Deletion, skip_reason: Reason) {
        if !self.may_go_on() {
            return;
        }
        let Some(Doomed { name, version, .. }) = known_target(&deletion.target) else { return };
        let item = ItemResult::new(Some(&FOLDER), &deletion.path, &name, Action::Deleted);
        if self.state.has_failed_below(&deletion.path, skip_reason) {
            self.state.record_skipped(item, skip_reason);
            self.state.removal_failed(&deletion.path);
            return;
        }
        let work = self.objects.delete(&FOLDER, &name, &deletion.path, version.as_deref());
        if !self.change(item, work, |removal, item| Some(removed(removal, item))).await {
            self.state.removal_failed(&deletion.path);
        }
    }

    async fn delete_file(self: Arc<Self>, deletion: Deletion) {
        let targets = match known_target(&deletion.target) {
            Some(target) => vec![target],
            None => match &deletion.target {
                Target::FromContent(id) => self.objects_from_content(&deletion.path, *id).await,
                _ => Vec::new(),
            },
        };
        for Doomed { kind, name, version } in targets {
            let item = ItemResult::new(Some(&kind), &deletion.path, &name, Action::Deleted);
            let work = self.objects.delete(&kind, &name, &deletion.path, version.as_deref());
            if !self.change(item, work, |removal, item| Some(removed(removal, item))).await {
                self.state.removal_failed(&deletion.path);
            }
        }
    }

    /// What the object of a file can be: what its former content says, or, where that says nothing, what the API says
    /// about the path.
    async fn objects_from_content(&self, path: &str, id: windlass_git::ObjectId) -> Vec<Doomed> {
        let context = &self.job.context;
        if let Ok(content) = self.job.source.blob(id, &self.job.cancel).await {
            let (kinds, checksum) = (self.job.clients.further.known().await, id.to_string());
            let of = ParseContext { context, folder: None, checksum: &checksum, kinds: &kinds };
            if let Ok(ParsedResource { kind, name, .. }) = parse::file(path, &content, &of) {
                return vec![Doomed { kind, name, version: None }];
            }
        }
        let listed = self.listed.get_or_init(|| async {
            let found = managed::list(&self.job.clients, &context.namespace, &context.repository).await;
            found
                .inspect_err(|error| tracing::warn!(%error, path, "former object of a file is not known"))
                .ok()
        });
        let listed = listed.await.iter().flat_map(|managed| &managed.files);
        listed.filter(|item| item.path == path).map(|item| Doomed::from(&Existing::from(item))).collect()
    }

    /// Reads, parses and writes files. Parsing runs ahead of writing, in the files' order, which decides which of
    /// two files that claim one object is the first.
    async fn write_files(self: &Arc<Self>, writes: Vec<FileWrite>) {
        let batches: Vec<Vec<FileWrite>> = load::batches(writes);
        let loaded = stream::iter(batches)
            .map(|batch| {
                let task = tokio::spawn(load::load(self.job.clone(), batch));
                async move { task.await.unwrap_or_default() }
            })
            .buffered(2)
            .flat_map(stream::iter);
        let claimed = loaded.filter_map(|loaded| {
            let claimed = self.claim(loaded);
            async move { claimed }
        });
        self.each(claimed, Self::write_file).await;
    }

    /// Settles, in order, whether a file may be written at all.
    fn claim(&self, mut loaded: Loaded) -> Option<Loaded> {
        let item = loaded.item();
        let resource = match loaded.resource {
            Ok(ref resource) => resource,
            Err(Halt::Cancelled) => {
                self.state.stop(Stopped::Cancelled);
                return None;
            }
            Err(Halt::Failed(ref failure)) => {
                self.state.record(item.failed(failure.clone()));
                self.state.write_failed(&loaded.write);
                return None;
            }
        };
        if self.state.is_below_failed_folder(&loaded.write.path) {
            self.state.record_skipped(item, Reason::SkippedParentFolderNotCreated);
            self.state.write_failed(&loaded.write);
            return None;
        }
        if let Err(holder) = self.state.claim(&resource.kind, &resource.name, &loaded.write.path) {
            loaded.resource = Err(duplicate(&resource.kind, &resource.name, &holder).into());
            if let Err(Halt::Failed(failure)) = loaded.resource {
                self.state.record(item.failed(failure));
            }
            self.state.write_failed(&loaded.write);
            return None;
        }
        Some(loaded)
    }

    async fn write_file(self: Arc<Self>, loaded: Loaded) {
        let item = loaded.item();
        let Loaded { write, resource: Ok(resource), previous } = loaded else { return };
        let (start, left_behind) = objects_of(&write, &resource, previous);
        let work = self.objects.put_resource(&resource, &write.path, start, &self.kept);
        let renamed = write.previous_path.is_some();
        let done = |action, mut item: ItemResult| {
            item.action = if renamed && action == Action::Updated { Action::Renamed } else { action };
            Some(item)
        };
        if !self.change(item, work, done).await {
            self.state.write_failed(&write);
            return;
        }
        let path = write.previous_path.as_ref().unwrap_or(&write.path);
        for doomed in left_behind {
            self.delete_left_behind(path, doomed).await;
        }
    }

    /// Deletes the object of a name or kind that a file no longer has, if the file was the last to write it.
    async fn delete_left_behind(&self, path: &str, Doomed { kind, name, version }: Doomed) {
        let item = ItemResult::new(Some(&kind), path, &name, Action::Deleted);
        let work = self.objects.delete(&kind, &name, path, version.as_deref());
        self.change(item, work, |removal, item| (removal == Removal::Gone).then_some(item)).await;
    }
}

/// What is known about the object before it is written, and which other objects the file leaves behind.
fn objects_of(
    write: &FileWrite,
    resource: &ParsedResource,
    previous: Option<(Kind, String)>,
) -> (Start, Vec<Doomed>) {
    let is_same = |kind: &Kind, name: &str| *kind == resource.kind && name == resource.name;
    match &write.known {
        Known::Listed(existing) => {
            let (same, others): (Vec<_>, Vec<_>) =
                existing.iter().partition(|existing| is_same(&existing.kind, &existing.name));
            let start = same.first().map_or(Start::Absent, |existing| Start::At((*existing).into()));
            (start, others.into_iter().map(Doomed::from).collect())
        }
        Known::FromContent(None) => (Start::Absent, Vec::new()),
        Known::FromContent(Some(_)) => {
            let other = previous.filter(|(kind, name)| !is_same(kind, name));
            let other = other.map(|(kind, name)| Doomed { kind, name, version: None });
            (Start::Unknown, other.into_iter().collect())
        }
    }
}

/// An object to be deleted.
struct Doomed {
    kind: Kind,
    name: String,
    version: Option<String>,
}

impl From<&Existing> for Doomed {
    fn from(existing: &Existing) -> Self {
        let Existing { kind, name, resource_version, .. } = existing.clone();
        Self { kind, name, version: Some(resource_version) }
    }
}

fn known_target(target: &Target) -> Option<Doomed> {
    match target {
        Target::Listed(existing) => Some(existing.into()),
        Target::Named(kind, name) => Some(Doomed { kind: kind.clone(), name: name.clone(), version: None }),
        Target::FromContent(_) => None,
    }
}

fn removed(removal: Removal, mut item: ItemResult) -> ItemResult {
    if removal == Removal::Kept {
        item.action = Action::Ignored;
    }
    item
}

impl Loaded {
    /// The result of this file, as far as it is known before it is written.
    fn item(&self) -> ItemResult {
        let action = match (&self.write.previous_path, self.write.is_update()) {
            (Some(_), _) => Action::Renamed,
            (None, true) => Action::Updated,
            (None, false) => Action::Created,
        };
        let resource = self.resource.as_ref().ok();
        let kind: Option<&Kind> = resource.map(|resource| &resource.kind);
        let name = resource.map_or_else(String::new, |resource| resource.name.clone());
        let mut item = ItemResult::new(kind, &self.write.path, &name, action);
        item.previous_path.clone_from(&self.write.previous_path);
        item
    }
}
