//! Commits of a `GitRepository`, from Git itself: whatever forge it is at.

mod access;

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use windlass_git::{Git, GitError, History, HistoryQuery};
use windlass_github::Github;

use self::access::Access;
use super::{Changes, ChangesError, ChangesQuery, Commit, FindChanges, Problem, Secrets};
use crate::{Algorithm, Revision};

/// Walks the history between revisions.
///
/// Questions that are asked at the same time about one repository share their requests, and what was fetched is
/// remembered by [`Git`]; so a revision costs one request, however many ask about it and whatever they know.
pub struct GitChanges {
    git: Git,
    access: Access,
    max_commits: usize,
}

impl GitChanges {
    /// Asks through `git`, whose policy says which URLs may be used, with the Secrets that sources name. A revision
    /// brings `max_commits` commits at most; the newest are taken.
    pub fn new(git: Git, secrets: Arc<dyn Secrets>, max_commits: usize) -> Self {
        Self { git, access: Access { secrets, github: None }, max_commits }
    }

    /// Uses the token of GitHub's API, where there is one, for its repositories, where a source's Secret says nothing of who asks.
    #[must_use]
    pub fn with_github(mut self, github: Option<Github>) -> Self {
        self.access.github = github;
        self
    }
}

#[async_trait]
impl FindChanges for GitChanges {
    async fn find(&self, question: &ChangesQuery) -> Result<Changes, ChangesError> {
        let new = commit_of(&question.to)?;
        let known: Vec<_> = question.known_commits().filter_map(|known| commit_of(&known).ok()).collect();
        // What is no commit, and was built from none, holds none.
        let is_first = known.is_empty() && !question.known.is_empty();
        let remote = self.access.remote(question).await?;
        let anonymous = remote.credentials.is_none();
        let query = HistoryQuery { new, known, max: self.max_commits };
        let found = match self.git.remote(remote) {
            Ok(source) => source.history(&query, &CancellationToken::new()).await,
            Err(error) => Err(error),
        };
        let found = found.map(|history| History { unrelated: history.unrelated || is_first, ..history });
        found.map(changes).map_err(|error| explained(question, error, anonymous))
    }
}

/// The commit that a revision of a Git source names.
fn commit_of(revision: &Revision) -> Result<windlass_git::Revision, ChangesError> {
    match (revision.algorithm(), revision.digest()) {
        (Some(Algorithm::Sha1), Some(digest)) => Ok(windlass_git::Revision::new(digest)),
        (Some(algorithm), _) => {
            let text = format!("{revision} names a commit by {algorithm}; only sha1 is supported");
            Err(ChangesError::new(Problem::Unsupported, text))
        }
        (None, _) => {
            let text = format!("{:?} names no commit; expected BRANCH@sha1:HASH", revision.as_str());
            Err(ChangesError::new(Problem::Malformed, text))
        }
    }
}

fn changes(history: History) -> Changes {
    let commits = history.commits.into_iter().map(|commit| Commit {
        id: commit.id.to_string(),
        merged: timestamp(commit.merged),
        summary: commit.subject,
        author: commit.author,
        traceparent: commit.traceparent,
        exported: None,
    });
    Changes {
        commits: commits.collect(),
        rewritten: history.rewritten,
        truncated: history.truncated,
        unrelated: history.unrelated,
        ..Changes::default()
    }
}

/// A time of anybody's clock; one beyond what can be told is the last or first that can.
fn timestamp(seconds: i64) -> Timestamp {
    let beyond = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(seconds).unwrap_or(beyond)
}

fn explained(question: &ChangesQuery, error: GitError, anonymous: bool) -> ChangesError {
    let problem = problem(&error);
    let advice = match (problem, &question.secret) {
        (Problem::Unauthorized | Problem::Forbidden | Problem::NotFound, Some(secret)) if anonymous => {
            format!(
                "; the Secret {secret} that it names gave no credentials: see [commit_tracker] source_secrets"
            )
        }
        _ => String::new(),
    };
    let text = format!(
        "failed to find the commits of {} in the repository of {}{advice}",
        question.to, question.source
    );
    let retry_after = match &error {
        GitError::RateLimited { retry_after, .. } => *retry_after,
        _ => None,
    };
    ChangesError { retry_after, ..ChangesError::new(problem, text).because(error) }
}

fn problem(error: &GitError) -> Problem {
    match error {
        GitError::RateLimited { .. } => Problem::RateLimited,
        GitError::Unauthorized { .. } => Problem::Unauthorized,
        GitError::Forbidden { .. } => Problem::Forbidden,
        GitError::NotFound { .. } => Problem::NotFound,
        GitError::RevisionMissing { .. } => Problem::Unreachable,
        GitError::LimitExceeded { .. } => Problem::TooLarge,
        GitError::PolicyRefused { .. } | GitError::Unsupported { .. } => Problem::Unsupported,
        // What the Secret has for certificates are none.
        GitError::NotGit { .. } | GitError::SetUp { .. } => Problem::Malformed,
        error if error.is_transient() => Problem::Unavailable,
        _ => Problem::Malformed,
    }
}
