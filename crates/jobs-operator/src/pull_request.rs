//! `pr`: tells on a pull request what merging it would do. Grafana: `webhooks/pullrequest`.
//!
//! Which files are changed GitHub says, since it compares with where the branch began; what they say is read with Git,
//! tried against the API, and told in one comment (`comment.rs`, pure), which is edited when the pull request moves on.
//! Nothing is read of forks: whoever can open a pull request would have their files tried with our rights.

mod comment;
mod look;

use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_api::{JobAction, PullRequestJobOptions, Repository};
use windlass_git::{Revision, Tree};
use windlass_github::{ChangedFile, ErrorKind, FileChange, GithubError, PullRequest};
use windlass_repository::{GithubRepository, Opened, prefix};
use windlass_resources::ignore_file::IgnoreFile;
use windlass_resources::{Preview, SyncContext};

use self::comment::{Comment, Footer};
use self::look::{Changed, FileLook};
use crate::metrics::JobMetrics;
use crate::pull::Pull;
use crate::worker::{JobContext, JobError, Worker};

/// Files that are tried.
const MAX_FILES: usize = 10;
/// Files that are listed. GitHub has no more.
const MAX_LISTED: usize = 3_000;
/// How often a pull request is looked at anew that moves on meanwhile.
const MAX_ROUNDS: usize = 5;
/// How often it is tried to edit a comment, and how long is waited in between.
const EDIT_TRIES: usize = 3;
const EDIT_AGAIN: Duration = Duration::from_secs(2);
/// How long a job that is to stop may still find out whether the branch has moved.
const LAST_LOOK: Duration = Duration::from_secs(5);

/// Runs `pr` jobs.
pub(crate) struct PullRequestWorker {
    pub(crate) pull: Pull,
    /// The URL that people open this server at; empty where there is none to link to.
    pub(crate) public_url: String,
    /// Whether each look is a comment of its own, as upstream has it.
    pub(crate) comment_each: bool,
    pub(crate) metrics: JobMetrics,
}

#[async_trait]
impl Worker for PullRequestWorker {
    fn name(&self) -> &'static str {
        "pr"
    }

    fn supports(&self, action: &JobAction) -> bool {
        *action == JobAction::PullRequest
    }

    async fn run(&self, job: &JobContext) -> Result<(), JobError> {
        let options = job.job.spec.pr.as_ref().ok_or(JobError::MissingOptions { field: "spec.pr" })?;
        let number = u64::try_from(options.pr).ok().filter(|number| *number != 0);
        let number = number.ok_or(JobError::MissingOptions { field: "spec.pr.pr" })?;
        let repository = job.repository()?;
        let core = &self.pull.core;
        let at_github = self.pull.opener.github(core, repository).await.map_err(JobError::OpenGithub)?;
        let opened = self.pull.opener.open(core, repository).await.map_err(JobError::OpenRepository)?;
        let round = Round { worker: self, job, repository, options, at_github: &at_github, opened, number };
        for _ in 0..MAX_ROUNDS {
            let began = Instant::now();
            let looked = job.cancel().run_until_cancelled(Box::pin(round.look())).await;
            let looked = looked.unwrap_or(Err(JobError::Stopped));
            // A comment that is under way is awaited: nobody could say whether a dropped one was written.
            let told = match looked {
                Ok(look) => round.tell(look.comment.as_ref()).await.map(|()| look),
                Err(error) => Err(error),
            };
            self.metrics.looked_at(began.elapsed(), told.is_ok());
            let Look { head, message, .. } = told?;
            job.progress.final_message(message);
            let Some(head) = head else { return Ok(()) };
            // A delivery that came meanwhile found this job, and queued none.
            if !round.has_moved(&head).await? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// What a look at a pull request came to.
struct Look {
    /// What is told on it, if anything.
    comment: Option<Comment>,
    /// What was looked at; nothing for a pull request that is not looked into.
    head: Option<Revision>,
    /// The job's message.
    message: &'static str,
}

/// One look at the pull request.
struct Round<'a> {
    worker: &'a PullRequestWorker,
    job: &'a JobContext,
    repository: &'a Repository,
    options: &'a PullRequestJobOptions,
    at_github: &'a GithubRepository,
    opened: Opened,
    number: u64,
}

impl Round<'_> {
    /// Looks, which may be dropped at any time.
    async fn look(&self) -> Result<Look, JobError> {
        let progress = &self.job.progress;
        progress.message("listing pull request files");
        let pulls = self.at_github.api.pulls(&self.at_github.name);
        let asked = |source: GithubError| JobError::Github { what: "look at the pull request", source };
        let pull = pulls.get(self.number).await.map_err(asked)?;
        if !pull.open {
            return Ok(Look { comment: None, head: None, message: "the pull request is not open any more" });
        }
        if self.is_of_fork(&pull) {
            let comment = Some(Comment::Fork);
            return Ok(Look { comment, head: None, message: "previews are not supported for forks" });
        }
        let listed = pulls.files(self.number, MAX_LISTED).await.map_err(asked)?;
        let head = self.tip(self.job.cancel()).await?;
        progress.revision(head.as_str());
        let failed = |source| JobError::Repository { what: "read the pull request's files", source };
        let (reader, cancel) = (&self.opened.reader, self.job.cancel());
        let folder = prefix(&self.repository.spec);
        let tree = reader.tree(&head, folder, cancel).await.map_err(failed)?;
        let ignored = IgnoreFile::read(&**reader, &tree, cancel).await.map_err(JobError::IgnoreFile)?;
        let mut changed: Vec<Changed> =
            listed.files.into_iter().filter_map(|file| within(file, folder)).collect();
        changed.retain(|file| file.is_resource() && !ignored.matches(&file.path));
        if changed.is_empty() {
            return Ok(Look { comment: None, head: Some(head), message: "no files to process" });
        }
        let skipped = changed.len().saturating_sub(MAX_FILES);
        changed.truncate(MAX_FILES);
        progress.total(changed.len());
        let base = self.base(&changed, folder).await?;
        let context = SyncContext::for_repository(self.repository);
        let looking = FileLook {
            opened: &self.opened,
            preview: Preview::new(&self.worker.pull.clients, &context),
            context,
            head: (&head, &tree),
            base: base.as_ref(),
            links: self.links(),
            cancel,
        };
        let mut files = Vec::new();
        for file in &changed {
            progress.message(format!("process {}", file.path));
            let looked = looking.at(file).await?;
            for looked in &looked {
                progress.record(&looked.result());
            }
            files.extend(looked);
        }
        let comment = Some(Comment::Files { files, skipped, truncated: listed.truncated });
        Ok(Look { comment, head: Some(head), message: "the pull request was commented on" })
    }

    /// Where the pull request's branch is now.
    async fn tip(&self, cancel: &CancellationToken) -> Result<Revision, JobError> {
        let branch = self.options.reference.as_str();
        if branch.is_empty() {
            return Err(JobError::MissingOptions { field: "spec.pr.ref" });
        }
        let found = self.opened.reader.resolve(branch, cancel).await;
        found.map_err(|source| JobError::Repository { what: "find the pull request's branch", source })
    }

    /// Whether the branch is elsewhere by now. What was told is not told again for having been asked to stop since: then
    /// a moment has to do.
    async fn has_moved(&self, head: &Revision) -> Result<bool, JobError> {
        let (cancel, never) = (self.job.cancel(), CancellationToken::new());
        let stopped = async {
            cancel.cancelled().await;
            tokio::time::sleep(LAST_LOOK).await;
        };
        tokio::select! {
            tip = self.tip(&never) => match tip {
                Err(_) if cancel.is_cancelled() => Ok(false),
                tip => Ok(tip? != *head),
            },
            () = stopped => Ok(false),
        }
    }

    fn is_of_fork(&self, pull: &PullRequest) -> bool {
        let own = self.at_github.name.to_string();
        let head = pull.head.repository.as_ref().map(ToString::to_string);
        self.options.is_fork == Some(true) || head.is_some_and(|head| !head.eq_ignore_ascii_case(&own))
    }

    /// The tree that is pulled now, where files go: what they are is said there.
    async fn base(&self, changed: &[Changed], folder: &str) -> Result<Option<Tree>, JobError> {
        if changed.iter().all(|file| !file.is_gone) {
            return Ok(None);
        }
        let failed = |source| JobError::Repository { what: "read the branch's files", source };
        let (reader, cancel) = (&self.opened.reader, self.job.cancel());
        let branch = self.repository.spec.branch();
        let revision = reader.resolve(branch, cancel).await.map_err(failed)?;
        reader.tree(&revision, folder, cancel).await.map(Some).map_err(failed)
    }

    /// Where people open objects: the repository's own URL before the server's.
    fn links(&self) -> Option<look::Links> {
        let own = self.repository.spec.webhook.as_ref().map(|webhook| webhook.base_url.as_str());
        let base = own.filter(|url| !url.is_empty()).unwrap_or(&self.worker.public_url);
        let base = base.trim_end_matches('/').to_owned();
        let repository = self.repository.metadata.name.clone().unwrap_or_default();
        let (reference, pull) = (self.options.reference.clone(), self.options.url.clone());
        (!base.is_empty()).then_some(look::Links { base, repository, reference, pull })
    }

    async fn tell(&self, comment: Option<&Comment>) -> Result<(), JobError> {
        let Some(comment) = comment else { return Ok(()) };
        let told = self.comment(comment).await;
        self.worker.metrics.commented(told.is_ok());
        told
    }

    /// Writes the comment, or gives the one that is there another text.
    async fn comment(&self, comment: &Comment) -> Result<(), JobError> {
        let marker = marker(self.repository, self.number);
        let footer = Footer { repository: &self.repository.spec.title, marker: &marker };
        let body = comment.render(&footer);
        let failed = |source: GithubError| JobError::Github { what: "comment on the pull request", source };
        let pulls = self.at_github.api.pulls(&self.at_github.name);
        if !self.worker.comment_each {
            let all = self.job.cancel().run_until_cancelled(pulls.comments(self.number)).await;
            let all = all.ok_or(JobError::Stopped)?.map_err(failed)?;
            // The oldest: whoever copies the marker comes later.
            if let Some(own) = all.iter().find(|comment| comment.body.contains(&marker)) {
                let mut tries = 0;
                loop {
                    self.may_write()?;
                    tries += 1;
                    match pulls.edit_comment(own.id, &body).await {
                        Ok(_) => return Ok(()),
                        Err(error) if is_not_ours(&error) => break,
                        // The same text again does no harm.
                        Err(error)
                            if error.is_transient()
                                && error.retry_after().is_none()
                                && tries < EDIT_TRIES =>
                        {
                            tokio::time::sleep(EDIT_AGAIN).await;
                        }
                        Err(error) => return Err(failed(error)),
                    }
                }
            }
        }
        self.may_write()?;
        pulls.comment(self.number, &body).await.map(drop).map_err(failed)
    }

    fn may_write(&self) -> Result<(), JobError> {
        if self.job.cancel().is_cancelled() {
            return Err(JobError::Stopped);
        }
        if self.job.lease.valid() { Ok(()) } else { Err(JobError::LeaseLost) }
    }
}

/// Somebody deleted it meanwhile, or wrote it themselves.
fn is_not_ours(error: &GithubError) -> bool {
    matches!(error.kind(), ErrorKind::NotFound { .. } | ErrorKind::Forbidden { .. })
}

/// What our comment is known by. It follows from the repository's UID, so that nobody can write it before we did.
fn marker(repository: &Repository, number: u64) -> String {
    let uid = repository.metadata.uid.as_deref().unwrap_or_default();
    let digest = Sha256::digest(format!("{uid}/{number}"));
    format!("<!-- windlass:{} -->", hex::encode(&digest[..16]))
}

/// The change of a file, seen from the repository's folder; nothing if it is outside.
fn within(file: ChangedFile, folder: &str) -> Option<Changed> {
    let inside = |path: &str| {
        if folder.is_empty() {
            return Some(path.to_owned());
        }
        path.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned)
    };
    let (here, is_gone) = (inside(&file.path), file.change == FileChange::Removed);
    match (here, file.change) {
        (Some(path), FileChange::Renamed(previous)) => {
            Some(Changed { path, previous: inside(&previous), is_gone: false })
        }
        (Some(path), _) => Some(Changed { path, previous: None, is_gone }),
        // It moves out of the folder.
        (None, FileChange::Renamed(previous)) => {
            Some(Changed { path: inside(&previous)?, previous: None, is_gone: true })
        }
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_seen_from_the_repositorys_folder() {
        let file = |path: &str, change| ChangedFile { path: path.to_owned(), change };
        let seen = |path, change| within(file(path, change), "grafana/team");
        assert_eq!(seen("other/a.json", FileChange::Added), None);
        assert_eq!(seen("grafana/teams/a.json", FileChange::Added), None);
        let moved =
            seen("grafana/team/b.json", FileChange::Renamed("grafana/team/a.json".to_owned())).unwrap();
        assert_eq!((moved.path.as_str(), moved.previous.as_deref()), ("b.json", Some("a.json")));
        let left = seen("b.json", FileChange::Renamed("grafana/team/a.json".to_owned())).unwrap();
        assert!(left.is_gone && left.path == "a.json");
        let came = seen("grafana/team/b.json", FileChange::Renamed("a.json".to_owned())).unwrap();
        assert!(!came.is_gone && came.previous.is_none());
    }

    #[test]
    fn a_marker_tells_nothing_of_the_next_one() {
        let mut repository = Repository::default();
        repository.metadata.uid = Some("4f3c".to_owned());
        assert_eq!(marker(&repository, 7), marker(&repository, 7));
        assert_ne!(marker(&repository, 7), marker(&repository, 8));
        assert!(!marker(&repository, 7).contains("4f3c"));
    }
}
