//! The commits of a revision, as the exporter's file in a repository at GitHub says.
//!
//! The repository holds what was exported, and beside it a file that lists the commits of the latest export. So a
//! revision is asked about with two requests: which commits touched the file, up to the revision; and the file at those
//! that are new. Where Flux skipped revisions there is one more request for each, since each has a list of its own.
//!
//! The list of an exporter's commits depends on the revision alone, not on what was applied before it, so that all
//! Kustomizations of a source share it; and what was asked about as the newest revision yesterday is asked about today as
//! what was known, which the client remembers.

use std::collections::HashSet;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream;
use tracing::field;
use windlass_github::{
    Commit as ManifestsCommit, CommitPage, ErrorKind, Github, GithubError, RepositoryName,
};
use windlass_telemetry::traced;

use super::{Changes, ChangesError, ChangesQuery, Commit, FindChanges, Problem, commit_of, exporter_info};
use crate::{Revision, SourceKind};

/// Exports that are listed with one request.
const PER_PAGE: u8 = 10;
/// Pages of exports that are looked through: beyond them Flux has skipped too much to tell.
const PAGES: u32 = 12;
/// Known revisions that are asked about when the list does not hold them.
const KNOWN: usize = 3;
/// Files that are read at a time.
const AT_A_TIME: usize = 4;

/// Where the exporter's file is.
#[derive(Clone, Debug)]
pub struct GithubConfig {
    /// Its path in the repository.
    pub file: String,
    /// The repository; that of the source's URL if there is none.
    pub repository: Option<RepositoryName>,
    /// Commits that one answer may hold.
    pub max_commits: usize,
}

/// Finds commits in the exporter's file of a repository at GitHub.
pub struct GithubChanges {
    github: Github,
    config: GithubConfig,
}

/// The exporter's file in one repository.
struct Exports<'a> {
    github: &'a Github,
    config: &'a GithubConfig,
    repository: RepositoryName,
}

/// Which exports are new.
#[derive(Default)]
struct New {
    /// The exports that no known revision holds, newest first.
    exports: Vec<ManifestsCommit>,
    /// Exports that a known revision holds, newest first, as far as they were listed.
    held: Vec<ManifestsCommit>,
    /// The newest export of all, new or not.
    newest: Option<ManifestsCommit>,
    rewritten: bool,
    truncated: bool,
    /// No known revision was found among the ancestors.
    unrelated: bool,
}

/// What the known revisions hold, as far as the list of exports does not show it.
#[derive(Default)]
struct KnownExports {
    /// Hashes of exports.
    exports: HashSet<String>,
    /// The newest known revision is not there any more.
    gone: bool,
    /// The newest export of the newest known revision, if that was asked about and has any.
    head: Option<ManifestsCommit>,
    /// The newest known revision was asked about, and has no export.
    bare: bool,
}

impl GithubChanges {
    /// A finder that asks `github`.
    pub fn new(github: Github, config: GithubConfig) -> Self {
        Self { github, config }
    }

    /// Whether it knows a repository to ask about `question`.
    pub fn serves(&self, question: &ChangesQuery) -> bool {
        self.repository(question).is_some()
    }

    fn repository(&self, question: &ChangesQuery) -> Option<RepositoryName> {
        match (&self.config.repository, question.source.kind) {
            (Some(repository), _) => Some(repository.clone()),
            (None, SourceKind::GitRepository) => self.github.repository_at(&question.url),
            (None, _) => None,
        }
    }
}

#[async_trait]
impl FindChanges for GithubChanges {
    async fn find(&self, question: &ChangesQuery) -> Result<Changes, ChangesError> {
        let repository = self.repository(question).ok_or_else(|| {
            let text = format!(
                "{} is not a repository of the GitHub that is asked: set exporter_info_repository, or exporter_info to none",
                question.source
            );
            ChangesError::new(Problem::Unsupported, text)
        })?;
        let sha = |commit: Revision| commit.digest().map(str::to_owned);
        // What was built of the manifests is asked about by its origin.
        let to = commit_of(&question.to, question.origin.as_deref()).and_then(sha).ok_or_else(|| {
            let text = format!("{} of {} names no commit of {repository}", question.to, question.source);
            ChangesError::new(Problem::Malformed, text)
        })?;
        let known: Vec<String> = question.known_commits().filter_map(sha).collect();
        if known.contains(&to) {
            return Ok(Changes::default());
        }
        let exports = Exports { github: &self.github, config: &self.config, repository };
        let span = tracing::info_span!(
            "github.fetch_exporter_info",
            github.repo = %exports.repository,
            "github.ref" = to,
            github.file = self.config.file,
        );
        let answer = Box::pin(traced(span, exports.answer(&to, &known))).await?;
        // What was known may have been another source's: then it names no commit of this repository.
        let unrelated = answer.unrelated || (known.is_empty() && !question.known.is_empty());
        Ok(Changes { unrelated, ..answer })
    }
}

impl Exports<'_> {
    /// A page of the exports up to `head`.
    async fn exports(&self, head: &str, page: u32) -> Result<CommitPage, GithubError> {
        self.github.history(&self.repository, head, &self.config.file, PER_PAGE, page).await
    }

    /// The exports up to `to` that none of `known` (oldest first) holds.
    async fn new_exports(&self, to: &str, known: &[String]) -> Result<New, GithubError> {
        let CommitPage { commits: mut list, mut more } = self.exports(to, 1).await?;
        let newest = list.first().cloned();
        if known.is_empty() {
            // Of the first revision that is seen, only what was exported with it is told: the rest was there before.
            list.truncate(1);
            return Ok(New { exports: list, newest, ..New::default() });
        }
        let held = self.held(known, &list).await?;
        let is_held = |export: &ManifestsCommit| held.exports.contains(&export.sha);
        for page in 2..=PAGES {
            if !more || list.iter().any(is_held) {
                break;
            }
            let next = self.exports(to, page).await?;
            list.extend(next.commits);
            more = next.more;
        }
        let head_is_lost = held.head.as_ref().is_some_and(|head| !listed(&list, &head.sha));
        // Flux skipped more exports than are listed: what was known is older than all of them.
        let beyond = more
            && match (&held.head, list.last()) {
                (Some(newest), Some(oldest)) => newest.committed < oldest.committed,
                _ => false,
            };
        Ok(match list.iter().position(is_held) {
            Some(end) => New {
                held: list.split_off(end),
                rewritten: end > 0 && (held.gone || head_is_lost),
                exports: list,
                newest,
                ..New::default()
            },
            None if held.bare || beyond => New { exports: list, newest, truncated: more, ..New::default() },
            None => {
                // Nothing in common: what was told before may stand here under other hashes.
                list.truncate(1);
                New { exports: list, newest, rewritten: true, unrelated: true, ..New::default() }
            }
        })
    }

    /// What `known` (oldest first) holds. Those that are not in `list` did not touch the file, or are no ancestors any
    /// more: the newest of them are asked about, most likely not for the first time.
    async fn held(&self, known: &[String], list: &[ManifestsCommit]) -> Result<KnownExports, GithubError> {
        let mut held = KnownExports { exports: known.iter().cloned().collect(), ..KnownExports::default() };
        let unlisted = known.iter().rev().take_while(|sha| !listed(list, sha)).take(KNOWN);
        for (age, sha) in unlisted.enumerate() {
            match self.exports(sha, 1).await {
                Ok(older) => {
                    if age == 0 {
                        held.bare = older.commits.is_empty();
                        held.head = older.commits.first().cloned();
                    }
                    held.exports.extend(older.commits.into_iter().map(|export| export.sha));
                }
                Err(error) => match error.kind() {
                    ErrorKind::NotFound { .. } | ErrorKind::Unprocessable(_) => held.gone |= age == 0,
                    _ => return Err(error),
                },
            }
        }
        Ok(held)
    }

    /// What the exporter wrote at `export`; nothing if that removed the file.
    async fn payload(&self, export: &ManifestsCommit) -> Result<Option<Changes>, ChangesError> {
        let (repository, file) = (&self.repository, &self.config.file);
        match self.github.file(&self.repository, file, &export.sha).await {
            Ok(bytes) => {
                let place = format!("{file} of {repository} at {}", export.sha);
                let span = tracing::info_span!("kube_manifests.exporter.info.unmarshal");
                traced(span, async { exporter_info::parse(&bytes, &place, self.config.max_commits) })
                    .await
                    .map(Some)
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound { .. }) => Ok(None),
            Err(error) => Err(problem(error)),
        }
    }

    fn missing(&self, sha: &str) -> ChangesError {
        let (repository, file) = (&self.repository, &self.config.file);
        let text = format!(
            "{repository} has no {file} at {sha}: is it what an exporter makes? Without an exporter, set exporter_info to none"
        );
        ChangesError::new(Problem::PayloadMissing, text)
    }

    /// What `to` brought over `known`.
    async fn answer(&self, to: &str, known: &[String]) -> Result<Changes, ChangesError> {
        let span = tracing::info_span!(
            "github.fetch_commit_time",
            otel.kind = "client",
            github.repo.owner = self.repository.owner(),
            github.repo.name = self.repository.name(),
            github.commit.sha = to,
            github.commit.time = field::Empty,
        );
        let new = traced(span.clone(), self.new_exports(to, known)).await.map_err(problem)?;
        let Some(newest) = new.newest else {
            return Err(self.missing(to));
        };
        span.record("github.commit.time", field::display(newest.committed));
        if new.exports.is_empty() && self.payload(&newest).await?.is_none() {
            // The newest export was the file's removal: there is no exporter any more.
            return Err(self.missing(to));
        }
        let asked: Vec<_> = new.exports.iter().map(|export| self.payload(export)).collect();
        let read: Vec<_> = stream::iter(asked).buffered(AT_A_TIME).collect().await;
        let mut payloads = Vec::with_capacity(read.len());
        let mut incomplete = false;
        for (place, (export, payload)) in new.exports.iter().zip(read).enumerate() {
            match payload {
                // It is in the range of every later revision too: none could be looked into any more.
                Err(error)
                    if place > 0 && matches!(error.problem, Problem::Malformed | Problem::TooLarge) =>
                {
                    tracing::warn!(repository = %self.repository, export = export.sha, %error, "a skipped export is of no use");
                    incomplete = true;
                }
                payload => payloads.push((export, payload?)),
            }
        }
        if let Some((export, None)) = payloads.first() {
            return Err(self.missing(&export.sha));
        }
        let read = payloads.into_iter().filter_map(|(export, payload)| Some((export, payload?)));
        let read: Vec<_> = read.collect();
        let held = self.held_commits(&read, &new.held).await?;
        let joined = self.joined(read, held);
        Ok(Changes {
            rewritten: new.rewritten,
            truncated: joined.truncated || new.truncated,
            unrelated: new.unrelated,
            incomplete,
            ..joined
        })
    }

    /// Ids of commits that exports before these list. An export that was reverted leaves the list of the one before it, as
    /// if that were exported again; its commits were all merged before what was exported last, so that nothing is asked
    /// for where there are none.
    async fn held_commits(
        &self,
        payloads: &[(&ManifestsCommit, Changes)],
        exports: &[ManifestsCommit],
    ) -> Result<HashSet<String>, ChangesError> {
        let mut held = HashSet::new();
        let Some(newest) = exports.first() else { return Ok(held) };
        let commits = payloads.iter().flat_map(|(_, payload)| &payload.commits);
        let mut old: Vec<&Commit> = commits.filter(|commit| commit.merged <= newest.committed).collect();
        for export in exports {
            // What was merged later was not exported then.
            if !old.iter().any(|commit| commit.merged <= export.committed) {
                break;
            }
            // What nobody can read was not counted.
            let payload = ChangesError::unless_it_lasts(self.payload(export).await)?.flatten();
            let commits = payload.into_iter().flat_map(|payload| payload.commits);
            held.extend(commits.map(|commit| commit.id));
            old.retain(|commit| !held.contains(&commit.id));
        }
        Ok(held)
    }

    /// One answer of the payloads, newest first: each commit that is not in `seen` once, as its first export has it, oldest
    /// export first.
    fn joined(&self, payloads: Vec<(&ManifestsCommit, Changes)>, mut seen: HashSet<String>) -> Changes {
        let mut changes = Changes::default();
        let newest = payloads.first().map(|(export, _)| export.sha.clone());
        for (export, payload) in payloads.into_iter().rev() {
            let is_newest = newest.as_deref() == Some(&export.sha);
            changes.truncated |= payload.truncated;
            for commit in payload.commits {
                if seen.insert(commit.id.clone()) {
                    let exported = (!is_newest).then_some(export.committed);
                    changes.commits.push(Commit { exported, ..commit });
                }
            }
            if is_newest {
                changes.exported_as = Some(export.sha.clone());
                changes.exported = Some(export.committed);
                changes.build_link = payload.build_link;
                changes.traceparent = payload.traceparent;
            }
        }
        let surplus = changes.commits.len().saturating_sub(self.config.max_commits);
        changes.truncated |= surplus > 0;
        changes.commits.drain(..surplus);
        changes
    }
}

fn listed(commits: &[ManifestsCommit], sha: &str) -> bool {
    commits.iter().any(|commit| commit.sha == sha)
}

/// What a failure of GitHub is to the tracker.
pub(super) fn problem(error: GithubError) -> ChangesError {
    let problem = match error.kind() {
        ErrorKind::Unreachable(_) | ErrorKind::Timeout(_) | ErrorKind::Unavailable { .. } => {
            Problem::Unavailable
        }
        ErrorKind::RateLimited { .. } => Problem::RateLimited,
        ErrorKind::Unauthorized { .. } => Problem::Unauthorized,
        ErrorKind::Forbidden { .. } => Problem::Forbidden,
        ErrorKind::NotFound { .. } => Problem::NotFound,
        // Of a read: the repository is there, the commit is not.
        ErrorKind::Unprocessable(_) | ErrorKind::AlreadyExists(_) => Problem::Unreachable,
        ErrorKind::TooLarge(_) => Problem::TooLarge,
        ErrorKind::Malformed(_) | ErrorKind::Sign(_) => Problem::Malformed,
    };
    let retry_after = error.retry_after();
    ChangesError { retry_after, ..ChangesError::new(problem, error.to_string()) }
}

#[cfg(test)]
mod tests;
