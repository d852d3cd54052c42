//! Which commits came with a revision.

mod exporter_info;
mod git;
mod github;
mod metadata;
mod oci;
mod resolver;
mod secrets;

pub use git::GitChanges;
pub use github::{GithubChanges, GithubConfig};
pub(crate) use metadata::REVISION as ORIGIN_REVISION;
pub use metadata::{MetadataChanges, annotated};
pub use oci::{EXPORTER_INFO_MEDIA_TYPE, OciChanges, OciConfig};
pub use resolver::{ChangesResolver, Finders, NoAnswer, ResolverObserver};
pub use secrets::{SecretValues, Secrets};

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names::named;
use crate::{Algorithm, Revision, SourceKey};

/// A revision that was applied, as those are asked about it that know where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesQuery {
    /// The source object.
    pub source: SourceKey,
    /// The source's `spec.url`; empty for kinds that have none.
    pub url: String,
    /// Whether the source may be reached without TLS (`spec.insecure`).
    pub insecure: bool,
    /// The Secret in the source's namespace that its `spec.secretRef` names, where the tracker may read it.
    pub secret: Option<String>,
    /// The Secret beside it that `spec.certSecretRef` names, where the tracker may read it.
    pub cert_secret: Option<String>,
    /// What was applied and accounted for before, oldest first: what these hold is not new.
    pub known: Vec<Accounted>,
    /// What is asked about.
    pub to: Revision,
    /// The revision of the origin that `to` was built from: `lastAppliedOriginRevision`, or the artifact's annotation.
    pub origin: Option<String>,
    /// The artifact's metadata (annotations of the OCI manifest, for example), when `to` is the source's current one.
    pub metadata: BTreeMap<String, String>,
    /// The generation of the source object: where its specification changed, it is another question.
    pub generation: u64,
}

impl ChangesQuery {
    /// What was known as commits of Git, oldest first: of what was built from a commit, that one. The source was of another
    /// kind, or another one, when some of them were applied; whether they are of the same repository is not known.
    pub fn known_commits(&self) -> impl Iterator<Item = Revision> {
        self.known.iter().filter_map(|known| commit_of(&known.revision, known.origin.as_deref()))
    }
}

/// The commit of Git that a revision is, or was built from.
fn commit_of(revision: &Revision, origin: Option<&str>) -> Option<Revision> {
    let is_commit = |revision: &Revision| revision.algorithm() == Some(Algorithm::Sha1);
    if is_commit(revision) {
        return Some(revision.clone());
    }
    origin?.trim().parse().ok().filter(is_commit)
}

/// A revision that is accounted for: what it holds was counted, or is baseline.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accounted {
    /// The revision.
    pub revision: Revision,
    /// The revision of the origin that it was built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<str>>,
}

/// A commit that came with a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its hash, as the source names it.
    pub id: String,
    /// When it was merged into what is applied: for Git the committer's date, of the merge where one brought it in.
    pub merged: Timestamp,
    /// Its subject line; empty where the source does not say.
    pub summary: String,
    /// Its author's name; empty where the source does not say.
    pub author: String,
    /// The W3C `traceparent` of what made it, as it says itself: for Git in a trailer of that name.
    pub traceparent: Option<Box<str>>,
    /// When the exporter made the commit that it was exported with, where that is another than
    /// [`Changes::exported_as`]: revisions that Flux skipped had exports of their own.
    pub exported: Option<Timestamp>,
}

impl Commit {
    /// One of which no more is known.
    pub fn new(id: impl Into<String>, merged: Timestamp) -> Self {
        let (id, summary, author) = (id.into(), String::new(), String::new());
        Self { id, merged, summary, author, traceparent: None, exported: None }
    }
}

/// The commits that came with a revision, and what else is known of its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a finding of its own, and any of them go together"
)]
pub struct Changes {
    /// Oldest first.
    pub commits: Vec<Commit>,
    /// The exporter's commit that they were exported with, where there is an exporter.
    pub exported_as: Option<String>,
    /// When the exporter made that commit.
    pub exported: Option<Timestamp>,
    /// The exporter's build, or the trace of it: a URL.
    pub build_link: Option<String>,
    /// The W3C `traceparent` of the build, where the payload or an annotation has one.
    pub traceparent: Option<String>,
    /// What was known before is no ancestor of the revision: history was rewritten.
    pub rewritten: bool,
    /// There were more commits than the limit; the newest are here.
    pub truncated: bool,
    /// There may be more: nothing tells whether revisions that were skipped had any, or what they had.
    pub incomplete: bool,
    /// It says itself that it was built before what was known: what it holds may have been there before the tracker was.
    pub older: bool,
    /// Digests of the artifacts before it whose commits are among these: Flux went past them.
    pub skipped: Vec<String>,
    /// Nothing of what was known before was found in its history: it is another repository's, or what was known is gone.
    /// Then only their times tell which commits are new.
    pub unrelated: bool,
}

named! {
    /// Why it could not be found out, as counters and log lines name it.
    pub enum Problem {
        /// The server could not be reached, did not answer in time, or failed (5xx).
        Unavailable = "unavailable",
        /// The server said to come back later (429, or an exhausted rate limit).
        RateLimited = "rate_limited",
        /// The server wants credentials, or other ones (401).
        Unauthorized = "unauthorized",
        /// The server refused (403).
        Forbidden = "forbidden",
        /// The repository, file or revision is not there (404), or hidden.
        NotFound = "not_found",
        /// The commit is not reachable in the repository any more.
        Unreachable = "unreachable",
        /// The artifact lacks the exporter's payload.
        PayloadMissing = "payload_missing",
        /// The payload, or the server's answer, makes no sense.
        Malformed = "malformed",
        /// The payload, history or answer is larger than the limit.
        TooLarge = "too_large",
        /// The source says nothing that commits could be found with.
        Unsupported = "unsupported",
    }
}

impl Problem {
    /// Whether somebody has to mend it: it is asked again seldom, until something changes.
    pub fn is_permanent(self) -> bool {
        !matches!(self, Self::Unavailable | Self::RateLimited)
    }
}

/// Why the commits of a revision could not be found.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ChangesError {
    /// What kind of failure it is.
    pub problem: Problem,
    /// What failed, and what to do about it; no secrets.
    pub message: String,
    /// When the server said to come back.
    pub retry_after: Option<Duration>,
    /// What was behind it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ChangesError {
    /// A failure of this kind.
    pub fn new(problem: Problem, message: impl Into<String>) -> Self {
        Self { problem, message: message.into(), retry_after: None, source: None }
    }

    /// Nothing in place of what failed for as long as nobody mends it; what may mend itself fails.
    fn unless_it_lasts<T>(found: Result<T, Self>) -> Result<Option<T>, Self> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.problem.is_permanent() => {
                tracing::debug!(%error, "going on without it");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The same, with what was behind it.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// Somebody who knows which commits came with a revision.
///
/// Answers are shared between all Kustomizations that ask the same; implementations need not remember them, but
/// must cost at most one request a distinct revision when asked one after the other.
#[async_trait]
pub trait FindChanges: Send + Sync + 'static {
    /// The commits that `question.to` brought over `question.known`, oldest first.
    async fn find(&self, question: &ChangesQuery) -> Result<Changes, ChangesError>;
}
