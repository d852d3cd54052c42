//! Writing to a repository on behalf of a job: one commit on one base, pushed with the id that its branch is expected to
//! have.
//!
//! A [`Writing`] says to which branch and as whom. [`Writing::run`] looks at the branch's tip, lets the worker stage its
//! changes, and pushes them; when somebody else was faster, it begins anew on what is there then, [`RETRIES`] times. A
//! commit carries its job's UID and date, so that a job that is run again finds what an earlier try of it has pushed
//! and pushes nothing more. A folder has no commits: there each change has to be one that can be made twice.
//!
//! The workers: `delete.rs`, `move_files.rs`, `push.rs`, `migrate.rs`, `fix_folders.rs`. Grafana: `jobs/delete`, and so on.

mod commit;
mod delete;
mod fix_folders;
mod migrate;
mod move_files;
mod push;
mod selection;
mod timing;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use windlass_api::repositories::write_refusal;
use windlass_api::{Repository, RepositoryType, RepositoryUrls, Workflow, labels};
use windlass_git::{Entry, GitError, HistoryQuery, Revision, Tree};
use windlass_lease_queue::history_name;
use windlass_lease_queue::progress::ResourceResult;
use windlass_repository::{Base, Opened, ReadError, Stage, WriteError, Writer, prefix};
use windlass_resources::TakeOver;
use windlass_telemetry::ErrorChain;

use self::commit::Draft;
pub(crate) use self::delete::Delete;
pub(crate) use self::fix_folders::FixFolderMetadata;
pub(crate) use self::migrate::Migrate;
pub(crate) use self::move_files::Move;
pub(crate) use self::push::Push;
use self::timing::Timing;
use crate::pull::{Pull, PullRequest, StatusOwner};
use crate::worker::{JobContext, JobError};

/// How often changes are made anew because the branch moved.
const RETRIES: usize = 3;
/// Commits in which an earlier try of the same job is looked for.
const LOOKED_BACK: usize = 100;
/// Bytes of present files that are compared with what is to be written, at a time.
const BATCH_BYTES: u64 = 4 << 20;

/// To which branch, and as whom.
pub(crate) struct Writing<'a> {
    pull: &'a Pull,
    job: &'a JobContext,
    repository: &'a Repository,
    opened: Opened,
    writer: Arc<dyn Writer>,
    /// Short name; empty for a folder.
    branch: String,
    /// Whether that is the branch that the repository is pulled from.
    is_configured: bool,
    draft: Draft,
}

/// What is at the base.
pub(crate) struct Files {
    /// Every file, seen from the repository's folder.
    pub(crate) tree: Tree,
    /// Contents of those whose paths were asked for and that are there.
    pub(crate) present: HashMap<String, Bytes>,
    /// Whether an earlier try of this job may have changed it already: on a folder, after a process died.
    pub(crate) may_be_done: bool,
    /// Whether an earlier try of this job has pushed its commit: this is what it was made on.
    pub(crate) is_repeated: bool,
    /// Whether there is a past, so that what an earlier try did is not looked at here.
    pub(crate) is_versioned: bool,
}

impl Files {
    /// The file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&Entry> {
        self.tree.entries.iter().find(|entry| entry.path == path)
    }

    /// The files in the directory at `path`.
    pub(crate) fn below(&self, path: &str) -> impl Iterator<Item = &Entry> {
        let directory = format!("{}/", path.trim_end_matches('/'));
        self.tree.entries.iter().filter(move |entry| entry.path.starts_with(&directory))
    }
}

/// What came of it.
pub(crate) struct Written {
    /// The revision that holds the changes.
    pub(crate) revision: Revision,
    /// Whether an earlier try of the job had written them.
    pub(crate) repeated: bool,
}

impl<'a> Writing<'a> {
    /// Opens the repository for writing to `branch`; an empty one is the configured branch. `message` is the job's own,
    /// `default` says what a commit says without one.
    pub(crate) async fn open(
        pull: &'a Pull,
        job: &'a JobContext,
        branch: &str,
        message: &str,
        default: String,
    ) -> Result<Self, JobError> {
        let repository = job.repository()?;
        let spec = &repository.spec;
        let short = |name: &str| name.strip_prefix("refs/heads/").unwrap_or(name).to_owned();
        let (configured, wanted) = (short(spec.branch()), short(branch));
        let is_local = spec.kind == RepositoryType::Local;
        let is_configured = wanted.is_empty() || (wanted == configured && !is_local);
        let (workflow, needed) =
            if is_configured { (Workflow::Write, "write") } else { (Workflow::Branch, "branch") };
        if !spec.workflows.contains(&workflow) {
            return Err(JobError::ReadOnly { repository: spec.title.clone(), workflow: needed });
        }
        if is_configured && let Some(why) = write_refusal(repository) {
            return Err(JobError::Protected { repository: spec.title.clone(), why: why.to_owned() });
        }
        if is_configured && configured.is_empty() && !is_local {
            return Err(JobError::MissingOptions { field: "branch in its repository" });
        }
        let draft = Draft::of(job, repository, message, default);
        let opened = pull.opener.open(&pull.core, repository).await.map_err(JobError::OpenRepository)?;
        let writer = opened.writer.clone();
        let writer = writer.ok_or_else(|| JobError::NoWriter { name: opened.reader.name().to_owned() })?;
        let branch = if is_configured { configured } else { wanted };
        Ok(Self { pull, job, repository, opened, writer, branch, is_configured, draft })
    }

    /// Whether the branch that is pulled is written to.
    pub(crate) fn is_configured(&self) -> bool {
        self.is_configured
    }

    /// Stages changes on the branch's tip and pushes them as one commit. `stage` is asked again for each new base, and
    /// says what it does in results, which are reported once they are pushed, or when it fails. `compared` are the paths
    /// of which it needs the contents.
    pub(crate) async fn run(
        &self,
        compared: &[&str],
        stage: impl Fn(&Files, &mut Stage, &mut Vec<ResourceResult>) -> Result<(), JobError>,
    ) -> Result<Written, JobError> {
        let cancel = self.job.cancel();
        let mut tries = 0;
        let mut timing = Timing::begin(&*self.pull.clock, &self.job.progress);
        loop {
            let (tip, exists) = self.tip().await?;
            let before = self.written_before(&tip).await?;
            let base = before.as_ref().map_or(&tip, |(_, parent)| parent);
            let mut files = self.files(base, compared).await?;
            files.is_repeated = before.is_some();
            let base = Base { branch: self.branch.clone(), revision: base.clone(), is_new: !exists };
            let (mut staged, mut results) = (self.writer.stage(base.clone()), Vec::new());
            let outcome = stage(&files, &mut staged, &mut results);
            if let Some((revision, _)) = before {
                // It could be made then; what the job names may be called differently by now.
                if outcome.is_err() {
                    results.retain(|result| result.failure.is_none());
                }
                tracing::info!(%revision, "an earlier try of this job has pushed its commit");
                return Ok(self.written(&results, revision, true));
            }
            if let Err(error) = outcome {
                self.report(&results);
                return Err(error);
            }
            if staged.is_empty() {
                return Ok(self.written(&results, tip, false));
            }
            let commit = self.commit_of(&files, &staged).await?;
            if cancel.is_cancelled() {
                return Err(JobError::Stopped);
            }
            if !self.job.lease.valid() {
                return Err(JobError::LeaseLost);
            }
            timing.phase("stage");
            match staged.push(&commit, cancel).await {
                Ok(pushed) => {
                    timing.phase_of("commit", pushed.committing);
                    timing.phase("push");
                    return Ok(self.written(&results, pushed.revision, false));
                }
                Err(WriteError::Conflict { .. }) if tries == RETRIES => {
                    let (actual, _) = self.tip().await?;
                    let (branch, tries, base) = (self.branch.clone(), tries + 1, base.revision);
                    return Err(JobError::BranchMoves { branch, tries, base, actual });
                }
                // Whether it was taken after all is seen when the branch is looked at.
                Err(error) if tries < RETRIES && may_repeat(&error) => {
                    tracing::info!(%error, "the changes are made again");
                    timing.phase("push");
                    tries += 1;
                }
                Err(error) => {
                    self.job.progress.list_error(&ErrorChain(&error).to_string());
                    return Err(JobError::Write(error));
                }
            }
        }
    }

    /// Where the branch is, and whether it is there: another branch than the configured one is made from that, and the
    /// configured one of nothing in a repository without commits.
    async fn tip(&self) -> Result<(Revision, bool), JobError> {
        let failed = |source| JobError::Repository { what: "find the branch", source };
        let (reader, cancel) = (&self.opened.reader, self.job.cancel());
        if self.is_configured {
            return match reader.resolve(&self.branch, cancel).await {
                Ok(tip) => Ok((tip, true)),
                Err(ReadError::Git(GitError::Empty { .. })) => Ok((Revision::nothing(), false)),
                Err(error) => Err(failed(error)),
            };
        }
        let Some(versioned) = &self.opened.versioned else {
            return Ok((reader.resolve("", cancel).await.map_err(failed)?, true));
        };
        let full = format!("refs/heads/{}", self.branch);
        let refs = versioned.refs(&full, cancel).await.map_err(failed)?;
        if let Some(found) = refs.into_iter().find(|found| found.name == full) {
            return Ok((found.id.into(), true));
        }
        let base = reader.resolve(self.repository.spec.branch(), cancel).await.map_err(failed)?;
        Ok((base, false))
    }

    /// The commit that an earlier try of this job has pushed, and what it was made on.
    async fn written_before(&self, tip: &Revision) -> Result<Option<(Revision, Revision)>, JobError> {
        let Some(versioned) = self.opened.versioned.as_ref().filter(|_| !tip.is_nothing()) else {
            return Ok(None);
        };
        let query = HistoryQuery { new: tip.clone(), known: Vec::new(), max: LOOKED_BACK };
        let history = versioned.history(&query, self.job.cancel()).await;
        let what = "look for what an earlier try of the job has written";
        let history = history.map_err(|source| JobError::Repository { what, source })?;
        let ours = history.commits.into_iter().find(|commit| commit.job.as_deref() == Some(self.draft.job()));
        Ok(ours.map(|commit| {
            let parent = commit.parents.first().map_or_else(Revision::nothing, |parent| (*parent).into());
            (commit.id.into(), parent)
        }))
    }

    async fn files(&self, base: &Revision, compared: &[&str]) -> Result<Files, JobError> {
        let failed = |source| JobError::Repository { what: "read the tree", source };
        let (reader, cancel) = (&self.opened.reader, self.job.cancel());
        let tree = if base.is_nothing() {
            Tree::default()
        } else {
            reader.tree(base, prefix(&self.repository.spec), cancel).await.map_err(failed)?
        };
        let limit = reader.limits().blob_bytes;
        let wanted: std::collections::HashSet<&str> = compared.iter().copied().collect();
        let wanted: Vec<&Entry> = tree
            .entries
            .iter()
            .filter(|entry| {
                wanted.contains(entry.path.as_str()) && entry.kind.is_file() && entry.size <= limit
            })
            .collect();
        let mut present = HashMap::new();
        for batch in windlass_git::batches(&wanted, |entry| entry.size, 256, BATCH_BYTES) {
            let ids: Vec<_> = batch.iter().map(|entry| entry.id).collect();
            let contents = reader.blobs(&ids, cancel).await.map_err(failed)?;
            present.extend(batch.iter().map(|entry| entry.path.clone()).zip(contents));
        }
        let is_versioned = self.opened.versioned.is_some();
        let attempt = self.job.job.metadata.labels.as_ref().and_then(|labels| labels.get(labels::ATTEMPT));
        let may_be_done = !is_versioned && attempt.is_some_and(|attempt| attempt != "1");
        Ok(Files { tree, present, may_be_done, is_repeated: false, is_versioned })
    }

    fn report(&self, results: &[ResourceResult]) {
        for result in results {
            self.job.progress.record(result);
        }
    }

    fn written(&self, results: &[ResourceResult], revision: Revision, repeated: bool) -> Written {
        self.report(results);
        if !revision.is_nothing() {
            self.job.progress.revision(revision.as_str());
        }
        if let Some(urls) = self.opened.urls.as_ref().filter(|_| !self.is_configured) {
            let configured = self.repository.spec.branch();
            self.job.progress.urls(RepositoryUrls {
                repository_url: urls.repository(),
                source_url: urls.file(&self.branch, ""),
                new_pull_request_url: urls.new_pull_request(configured, &self.branch),
                compare_url: urls.compare(configured, &self.branch),
            });
        }
        Written { revision, repeated }
    }
}

fn may_repeat(error: &WriteError) -> bool {
    matches!(error, WriteError::Conflict { .. }) || error.is_unanswered()
}

/// Pulls everything that the repository holds now, after its own branch was written to.
async fn pull_after(pull: &Pull, job: &JobContext, take_over: TakeOver) -> Result<(), JobError> {
    job.progress.message("pull resources");
    let mut timing = Timing::begin(&*pull.clock, &job.progress);
    let uid = job.job.metadata.uid.as_deref().unwrap_or_default();
    let request = PullRequest {
        repository: job.repository()?,
        incremental: false,
        take_over,
        status: Some(StatusOwner { job: job.name(), record: history_name(job.name(), uid) }),
        progress: &job.progress,
        lease: &job.lease,
        stop: &job.stop,
    };
    let pulled = Box::pin(pull.pull(&request)).await;
    timing.phase("pull");
    pulled.map_err(|error| error.within("pull resources"))
}
