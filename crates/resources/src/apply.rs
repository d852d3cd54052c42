//! Carries a [`Plan`] out: phase by phase, in parallel where order does not matter, reporting each change.

mod files;
mod load;
mod state;
mod summary;
mod target;

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_repository::Reader;

use self::state::State;
use self::summary::Watch;
pub use self::summary::{Phase, Stopped, Summary};
use self::target::{DeleteTarget, known_target};
use crate::objects::{Effect, Objects, Room, TakeOver, WriteError};
use crate::outcome::{Action, Failure, ItemResult, MayWrite, OnResult, Reason};
use crate::parse::{self, ParseContext};
use crate::plan::{Deletion, Existing, FolderAction, FolderWrite, Plan, Target};
use crate::wire;
use crate::{Clients, FOLDER, Managed, SyncContext, managed, paths};

/// Files that are read and parsed ahead of being written: this many, or this many bytes.
const BATCH_FILES: usize = 64;
const BATCH_BYTES: u64 = 4 << 20;

/// How a plan is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Writes at a time.
    pub workers: usize,
    /// How long requests of one change may begin. A write that is under way then has its own deadline.
    pub timeout: Duration,
    /// Errors (warnings do not count) after which nothing more is started; 0 for no limit.
    pub max_errors: usize,
    /// Whether the API only pretends (`dryRun=All`).
    pub dry_run: bool,
    /// Objects that may be created beyond one for each new file.
    pub room: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 10,
            timeout: Duration::from_secs(15),
            max_errors: 20,
            dry_run: false,
            room: usize::MAX,
        }
    }
}

/// What applying needs beside a plan.
#[derive(Clone)]
pub struct Job {
    /// Where contents are read from.
    pub reader: Arc<dyn Reader>,
    /// Where objects are written to.
    pub clients: Clients,
    /// Whose files these are.
    pub context: SyncContext,
    /// How.
    pub options: Options,
    /// Looked at before every write: once cancelled, nothing more is written.
    pub cancel: CancellationToken,
    /// Asked before every write, beside [`cancel`](Self::cancel): a lease knows from its own clock that it has
    /// lapsed, before anybody could have cancelled anything (a process that was stopped and goes on).
    pub may_write: MayWrite,
    /// Objects that nobody manages and that may be taken over.
    pub take_over: TakeOver,
    /// Where results go.
    pub on_result: OnResult,
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
            timeout: job.options.timeout,
            fence: wire::fence(job.cancel.clone(), job.may_write.clone()),
            take_over: job.take_over.clone(),
        },
        state: State::new(job.options.max_errors, job.on_result.clone()),
        room: Room::new(job.options.room),
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
    let mut watch = Watch::start();
    let (delete_files, moved, files) = applier.follow_moves(delete_files, files).await;
    applier.each(stream::iter(delete_files), Applier::delete_file).await;
    watch.over(Phase::FileDeletions);
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
    watch.over(Phase::FolderCreations);
    applier.write_files(renames.into_iter().chain(moved).collect()).await;
    // Their folder cannot wait for who takes them.
    let goes = |path: &str| delete_folders.iter().any(|folder| paths::is_below(path, &folder.path));
    applier.delete_dropped(goes).await;
    watch.over(Phase::FileRenames);
    for folder in delete_folders {
        applier.clone().delete_folder(folder, Reason::SkippedFolderChildrenNotDeleted).await;
    }
    watch.over(Phase::FolderDeletions);
    applier.write_files(files).await;
    applier.delete_dropped(|_| true).await;
    watch.over(Phase::FileCreations);
    for folder in replaced_folders {
        applier.clone().delete_folder(folder, Reason::SkippedDependentPathChangeFailed).await;
    }
    watch.over(Phase::OldFolderCleanup);
    applier.may_go_on();
    Summary { phases: watch.phases, ..applier.state.summary() }
}

/// Shared by the tasks of one run.
struct Applier {
    job: Job,
    objects: Objects,
    state: State,
    /// What is managed, asked for only when a change cannot be traced otherwise.
    listed: OnceCell<Option<Managed>>,
    kept: std::collections::HashSet<String>,
    room: Room,
}

impl Applier {
    /// Whether anything more may be started.
    fn may_go_on(&self) -> bool {
        if !self.objects.fence.holds() {
            self.state.stop(Stopped::Cancelled);
        }
        !self.state.is_stopped()
    }

    /// Runs `work` on every item, at most [`Options::workers`] at a time, each in a task of its own. Work that panics is
    /// the failure of its item.
    async fn each<T, W, F>(self: &Arc<Self>, items: impl stream::Stream<Item = T>, work: W)
    where
        T: Subject,
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
                let (subject, applier) = (item.result(), self.clone());
                let work = AssertUnwindSafe(work(self.clone(), item)).catch_unwind();
                tasks.spawn(async move {
                    if let Err(panic) = work.await {
                        applier.panicked(subject, &*panic);
                    }
                });
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Reports an item whose work panicked. What depends on it is not touched.
    fn panicked(&self, item: ItemResult, panic: &(dyn Any + Send)) {
        tracing::error!(path = item.path, panic = panic_text(panic), "the change of an object panicked");
        let path = item.path.clone();
        match (item.action, item.kind.as_ref() == Some(&FOLDER)) {
            (Action::Deleted, _) => self.state.removal_failed(&path),
            (_, true) => self.state.folder_failed(&path),
            _ => self.state.write_failed(&path, item.previous_path.as_deref()),
        }
        let message = "the change failed unexpectedly; the log has details, please report it";
        self.state.record(item.failed(Failure::new(Reason::InternalError, message).retried()));
    }

    /// Runs one change and reports it; `done` may decide that there is nothing to report.
    async fn change<T>(
        &self,
        item: ItemResult,
        work: impl Future<Output = Result<T, WriteError>>,
        done: impl FnOnce(T, ItemResult) -> Option<ItemResult>,
    ) -> bool {
        match work.await {
            Ok(value) => {
                if let Some(item) = done(value, item) {
                    self.state.record(item);
                }
                true
            }
            // Not tried, and not reported: whoever cancelled knows.
            Err(WriteError::Cancelled) => {
                self.state.stop(Stopped::Cancelled);
                false
            }
            Err(WriteError::Failed(failure)) => {
                self.state.record(item.failed(failure));
                false
            }
        }
    }

    async fn write_folder(self: Arc<Self>, write: FolderWrite) {
        if !self.may_go_on() {
            return;
        }
        let item = write.result();
        let FolderWrite { folder, action, .. } = write;
        if self.state.is_below_failed_folder(&folder.path) {
            self.state.record_skipped(item, Reason::SkippedParentFolderNotCreated);
            self.state.folder_failed(&folder.path);
            return;
        }
        let work = self.objects.put_folder(&folder, &action);
        let done = |effect: Effect, mut item: ItemResult| {
            item.drifted = match (&action, effect) {
                (_, Effect::Relabelled) => true,
                (FolderAction::Update(existing), Effect::Updated) => existing.drifted,
                _ => false,
            };
            item.unexpected = match effect {
                Effect::Created => item.action != Action::Created,
                effect => effect.was_unlisted(),
            };
            if item.action != Action::Renamed || effect == Effect::Unchanged {
                item.action = action_of(effect);
            }
            // Looking at the root folder is part of every sync and no result.
            (effect != Effect::Unchanged || !folder.path.is_empty()).then_some(item)
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
        let Some(DeleteTarget { name, version, .. }) = known_target(&deletion.target) else { return };
        let item = deletion.result();
        if self.state.has_failed_below(&deletion.path, skip_reason) {
            self.state.record_skipped(item, skip_reason);
            self.state.removal_failed(&deletion.path);
            return;
        }
        let work = self.objects.delete(&FOLDER, &name, &deletion.path, version.as_deref());
        if !self.change(item, work, |effect, item| Some(removed(effect, item))).await {
            self.state.removal_failed(&deletion.path);
        }
    }

    async fn delete_file(self: Arc<Self>, deletion: Deletion) {
        let targets = self.targets_of(&deletion).await;
        for DeleteTarget { kind, name, version } in targets {
            let item = ItemResult::new(Some(&kind), &deletion.path, &name, Action::Deleted);
            let work = self.objects.delete(&kind, &name, &deletion.path, version.as_deref());
            if !self.change(item, work, |effect, item| Some(removed(effect, item))).await {
                self.state.removal_failed(&deletion.path);
            }
        }
    }

    /// The objects that a deletion means.
    async fn targets_of(&self, deletion: &Deletion) -> Vec<DeleteTarget> {
        match known_target(&deletion.target) {
            Some(target) => vec![target],
            None => match &deletion.target {
                Target::FromContent(id) => self.objects_from_content(&deletion.path, *id).await,
                _ => Vec::new(),
            },
        }
    }

    /// What the objects of a file can be: what its former content says, or, where that does not say all, what the API says
    /// about the path.
    async fn objects_from_content(&self, path: &str, id: windlass_git::ObjectId) -> Vec<DeleteTarget> {
        if let Ok(content) = self.job.reader.blob(id, &self.job.cancel).await {
            let (kinds, checksum) = (self.job.clients.further.known().await, id.to_string());
            let of =
                ParseContext { context: &self.job.context, folder: None, checksum: &checksum, kinds: &kinds };
            // What was plainly no resource may be what is left of one.
            if let Some(objects) = parse::objects(path, &content, &of).filter(|objects| !objects.is_empty()) {
                return objects.into_iter().map(DeleteTarget::from).collect();
            }
        }
        self.objects_at(path).await
    }

    /// The objects that come from a file, as the API says.
    async fn objects_at(&self, path: &str) -> Vec<DeleteTarget> {
        let context = &self.job.context;
        let listed = self.listed.get_or_init(|| async {
            let found = managed::list(&self.job.clients, &context.namespace, &context.repository).await;
            found
                .inspect_err(|error| tracing::warn!(%error, path, "former object of a file is not known"))
                .ok()
        });
        let listed = listed.await.iter().flat_map(|managed| &managed.files);
        listed
            .filter(|item| item.path == path)
            .map(|item| DeleteTarget::from(&Existing::from(item)))
            .collect()
    }
}

/// What a deletion did. One of what was gone already may have been of something that never was.
fn removed(effect: Effect, mut item: ItemResult) -> ItemResult {
    item.unexpected = effect != Effect::Deleted;
    if effect == Effect::Kept {
        item.action = Action::Ignored;
    }
    item
}

fn action_of(effect: Effect) -> Action {
    match effect {
        Effect::Created => Action::Created,
        Effect::Updated | Effect::TakenOver | Effect::Relabelled => Action::Updated,
        Effect::Deleted | Effect::Absent => Action::Deleted,
        Effect::Unchanged | Effect::Kept => Action::Ignored,
    }
}

/// What an item of work is about, and the result that it is to have.
trait Subject {
    fn result(&self) -> ItemResult;
}

impl Subject for FolderWrite {
    fn result(&self) -> ItemResult {
        let planned = match (&self.action, &self.previous_path) {
            (_, Some(_)) => Action::Renamed,
            (FolderAction::Update(_), None) => Action::Updated,
            _ => Action::Created,
        };
        let mut item = ItemResult::new(Some(&FOLDER), &self.folder.path, &self.folder.id, planned);
        item.previous_path.clone_from(&self.previous_path);
        item
    }
}

impl Subject for Deletion {
    fn result(&self) -> ItemResult {
        let target = known_target(&self.target);
        let (kind, name) = target.as_ref().map_or((None, ""), |target| (Some(&target.kind), &*target.name));
        ItemResult::new(kind, &self.path, name, Action::Deleted)
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no text)")
}
