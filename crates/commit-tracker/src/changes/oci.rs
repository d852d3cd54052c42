//! Commits of an `OCIRepository`: from the exporter's payload in its artifact, or from its annotations.
//!
//! An artifact costs two requests, its manifest and the payload, however many ask about it; one where it has no payload;
//! none where no payload is wanted and Flux told the annotations. A registry that wants to see a token has it fetched
//! once.
//!
//! What Flux skipped between two revisions was seen by this process, or is walked in the Git repository that the artifacts
//! say they were built from, where the payload's commits are that repository's. Otherwise the answer is
//! [incomplete](Changes::incomplete).

mod artifact;
mod registry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tracing::field;
use windlass_oci::{Client, ClientConfig, Digest, OciError, Repository};
use windlass_settings::ExporterInfoSource;
use windlass_telemetry::traced;

use self::artifact::Artifact;
use self::registry::Place;
use super::{
    Accounted, Changes, ChangesError, ChangesQuery, Commit, FindChanges, Problem, Secrets, commit_of,
    metadata::{CREATED, REVISION, SOURCE, annotated},
};
use crate::Revision;

/// The original's media type of the payload.
pub const EXPORTER_INFO_MEDIA_TYPE: &str = "application/vnd.grafana.exporter-info.v1+json";

/// The key of a pull secret.
const PULL_SECRET: &str = ".dockerconfigjson";
/// Commits and annotations of artifacts that are remembered; those that were asked for longest ago are forgotten.
const REMEMBERED: u64 = 40_000;
/// Characters of a commit's id that name it, where it is written short.
const SHORT: usize = 7;

/// What an [`OciChanges`] works under.
#[derive(Clone, Debug)]
pub struct OciConfig {
    /// How registries are reached.
    pub client: ClientConfig,
    /// Where the payload is: where it is nowhere, or at GitHub, annotations alone say what came; and where it has to be in
    /// the artifact, one without it is [`Problem::PayloadMissing`].
    pub payload: ExporterInfoSource,
    /// The media type of the layer that has it; the first such layer counts.
    pub media_type: String,
    /// Bytes of a payload.
    pub max_payload_bytes: u64,
    /// Commits of an answer; the newest are kept.
    pub max_commits: usize,
}

impl OciConfig {
    fn wants_payload(&self) -> bool {
        matches!(self.payload, ExporterInfoSource::Auto | ExporterInfoSource::Oci)
    }
}

/// Reads artifacts in registries.
pub struct OciChanges {
    client: Client,
    config: OciConfig,
    secrets: Arc<dyn Secrets>,
    git: Option<Arc<dyn FindChanges>>,
    artifacts: Cache<(Repository, Digest), Arc<Artifact>>,
}

impl OciChanges {
    /// Reads under `config`, with the pull secrets that sources name. Nothing is sent.
    ///
    /// # Errors
    /// When the client cannot be set up: a bundle of certificates that cannot be read.
    pub fn new(config: OciConfig, secrets: Arc<dyn Secrets>) -> Result<Self, OciError> {
        let artifacts = Cache::builder()
            .eviction_policy(EvictionPolicy::lru())
            .weigher(|_, artifact: &Arc<Artifact>| artifact.size())
            .max_capacity(REMEMBERED);
        let client = Client::new(config.client.clone())?;
        Ok(Self { client, config, secrets, git: None, artifacts: artifacts.build() })
    }

    /// Walks the Git repositories that artifacts say they were built from. An artifact's author chooses the repository, so
    /// `git` should ask with nobody's credentials.
    #[must_use]
    pub fn with_git(mut self, git: Arc<dyn FindChanges>) -> Self {
        self.git = Some(git);
        self
    }
}

#[async_trait]
impl FindChanges for OciChanges {
    async fn find(&self, question: &ChangesQuery) -> Result<Changes, ChangesError> {
        let to = digest_of(&question.to)?;
        let told = |key: &str| question.metadata.contains_key(key);
        if !self.config.wants_payload() && (told(REVISION) || told(CREATED)) {
            return self.annotated(&question.metadata, question).await;
        }
        let place = self.place(question).await?;
        let span = tracing::info_span!(
            "oci.fetch_exporter_info",
            otel.kind = "client",
            oci.repository_url = question.url,
            oci.applied_revision = %question.to,
            oci.artifact.reference = %to,
            oci.exporter_info.layer_digest = field::Empty,
            kube_manifests.exporter.info.commits_exported = field::Empty,
        );
        let artifact = traced(span.clone(), Box::pin(self.artifact(&place, &to))).await?;
        if let Some(info) = &artifact.info {
            span.record("kube_manifests.exporter.info.commits_exported", info.commits.len());
        }
        drop(span);
        match (&artifact.info, self.config.payload) {
            (Some(info), _) => self.exported(&place, &artifact, info).await,
            (None, ExporterInfoSource::Oci) => {
                let (to, source, wanted) = (&question.to, &question.source, &self.config.media_type);
                let text = format!("the artifact {to} of {source} has no layer of media type {wanted}");
                Err(ChangesError::new(Problem::PayloadMissing, text))
            }
            (None, _) => {
                let mut annotations = artifact.annotations.clone();
                annotations.extend(question.metadata.clone());
                self.annotated(&annotations, question).await
            }
        }
    }
}

impl OciChanges {
    /// What payloads say: the artifact's own, and those of artifacts that were skipped before it.
    async fn exported(
        &self,
        place: &Place<'_>,
        artifact: &Artifact,
        info: &Changes,
    ) -> Result<Changes, ChangesError> {
        let question = place.question;
        let known: Vec<Digest> =
            question.known.iter().filter_map(|known| digest_of(&known.revision).ok()).collect();
        let mut changes = Changes { exported: artifact.created, ..info.clone() };
        if known.contains(&artifact.digest) {
            changes.commits.clear();
            return Ok(changes);
        }
        // Its commits are no news, and another process may have read them.
        let from = match known.last() {
            Some(newest) => ChangesError::unless_it_lasts(self.artifact(place, newest).await)?,
            None => None,
        };
        let remembered: Vec<_> = known.iter().filter_map(|known| self.remembered(place, known)).collect();
        let mut held: HashSet<String> =
            remembered.iter().flat_map(|known| known.ids()).map(str::to_owned).collect();
        if remembered.iter().any(|known| known.is_younger(artifact) && known.is_of_stream(artifact)) {
            // Rolled back to what nobody saw, as it says itself; Git knows whether that is so.
            let history = self.history(place, artifact, from.as_deref()).await?;
            changes.older = history.is_none_or(|history| !history.commits.is_empty());
            changes.commits.retain(|commit| changes.older && !held.contains(&commit.id));
            return Ok(changes);
        }
        // Git tells of it where the payload's commits are those of the repository that the artifact names.
        let (listed, history) =
            (Ids::of(&info.commits), self.history(place, artifact, from.as_deref()).await?);
        let is_of_it = |walked: &Changes| walked.commits.iter().any(|commit| listed.holds(&commit.id));
        let walked = history.filter(is_of_it).map(|walked| walked.commits);
        changes.incomplete = walked.is_none() && !known.is_empty();
        if !question.known.is_empty() && remembered.is_empty() && walked.is_none() {
            changes.unrelated =
                !continues(&mut changes, info, question) && !self.has_any(place, &known).await?;
        }
        let found = Ids(held.clone());
        changes.commits.retain(|commit| held.insert(commit.id.clone()));
        for earlier in self.seen_between(place, artifact, &known, from.as_deref()) {
            changes.skipped.extend(earlier.digest.to_string().split(':').next_back().map(str::to_owned));
            for commit in earlier.info.iter().flat_map(|info| &info.commits) {
                if held.insert(commit.id.clone()) {
                    changes.commits.push(Commit { exported: earlier.created, ..commit.clone() });
                }
            }
        }
        // When these were exported, before they were replaced, nobody knows.
        let own = Ids::of(&changes.commits);
        let is_new = |commit: &Commit| !found.holds(&commit.id) && !own.holds(&commit.id);
        changes.commits.extend(walked.into_iter().flatten().filter(is_new));
        changes.commits.sort_by_key(|commit| commit.merged);
        let surplus = changes.commits.len().saturating_sub(self.config.max_commits);
        changes.commits.drain(..surplus);
        changes.truncated |= surplus > 0;
        if changes.incomplete {
            tracing::info!(
                source = %question.source,
                revision = %question.to,
                "nothing tells whether artifacts were skipped before this one: let it name the Git repository of its commits"
            );
        }
        Ok(changes)
    }

    fn remembered(&self, place: &Place<'_>, digest: &Digest) -> Option<Arc<Artifact>> {
        self.artifacts.get(&(place.repository.clone(), digest.clone()))
    }

    /// The artifacts that this process was asked about, built after the one that was known and before this one.
    fn seen_between(
        &self,
        place: &Place<'_>,
        to: &Artifact,
        known: &[Digest],
        from: Option<&Artifact>,
    ) -> Vec<Arc<Artifact>> {
        let times = from.filter(|from| from.is_of_stream(to)).and_then(|from| from.at().zip(to.at()));
        let Some((after, before)) = times else { return Vec::new() };
        let is_between = |artifact: &Artifact| {
            let is_new = artifact.digest != to.digest && !known.contains(&artifact.digest);
            let has_commits = artifact.info.is_some() && artifact.is_of_stream(to);
            is_new && has_commits && artifact.at().is_some_and(|at| after < at && at < before)
        };
        let seen =
            self.artifacts.iter().filter(|(of, artifact)| of.0 == place.repository && is_between(artifact));
        seen.map(|(_, artifact)| artifact).collect()
    }

    /// The history between the two artifacts as Git has it; none where that is not to be known: they do not say what
    /// they were built from, or it cannot be read.
    async fn history(
        &self,
        place: &Place<'_>,
        to: &Artifact,
        from: Option<&Artifact>,
    ) -> Result<Option<Changes>, ChangesError> {
        let mut question = place.question.clone();
        let (Some(git), Some(newest)) = (&self.git, question.known.last_mut()) else { return Ok(None) };
        let annotated = || Some(from?.annotations.get(REVISION)?.as_str().into());
        newest.origin = newest.origin.take().or_else(annotated);
        if newest.origin.is_none() {
            return Ok(None);
        }
        let mut annotations = to.annotations.clone();
        annotations.extend(question.metadata.clone());
        let asked = git_question(&annotations, &question);
        let Some(asked) = asked else { return Ok(None) };
        let walked = ChangesError::unless_it_lasts(git.find(&asked).await)?;
        Ok(walked.filter(|changes| !changes.unrelated && !changes.truncated))
    }

    /// Whether the repository has any of these: else they were another one's.
    async fn has_any(&self, place: &Place<'_>, known: &[Digest]) -> Result<bool, ChangesError> {
        for digest in known.iter().rev() {
            match self.manifest(place, digest).await {
                Err(error) if !error.problem.is_permanent() => return Err(error),
                Err(error) if error.problem == Problem::NotFound => {}
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    /// What annotations say: a range of a Git repository where they name one, else one commit.
    async fn annotated(
        &self,
        annotations: &BTreeMap<String, String>,
        question: &ChangesQuery,
    ) -> Result<Changes, ChangesError> {
        let built = annotations.get(CREATED).and_then(|created| created.trim().parse().ok());
        if let Some((git, question)) = self.git.as_ref().zip(git_question(annotations, question))
            && let Some(changes) = ChangesError::unless_it_lasts(git.find(&question).await)?
        {
            let exported_as = question.to.digest().map(str::to_owned);
            return Ok(Changes { exported: built, exported_as, ..changes });
        }
        annotated(annotations, question)
    }
}

/// Ids of commits, some of which may be written short.
struct Ids(HashSet<String>);

impl Ids {
    fn of<'a>(commits: impl IntoIterator<Item = &'a Commit>) -> Self {
        Self(commits.into_iter().map(|commit| commit.id.clone()).collect())
    }

    /// Whether this one is among them, as it is or short.
    fn holds(&self, id: &str) -> bool {
        let is_short = |end| id.get(..end).is_some_and(|id| self.0.contains(id));
        self.0.contains(id) || (SHORT..id.len()).any(is_short)
    }
}

/// Whether the payload goes on from commits of Git that were known when the source was another one; what they hold of it
/// is taken out.
fn continues(changes: &mut Changes, info: &Changes, question: &ChangesQuery) -> bool {
    let known: Vec<Revision> = question.known_commits().collect();
    // One of the two may be written short.
    let is_known = |id: &str| {
        known
            .iter()
            .filter_map(Revision::digest)
            .any(|known| known == id || id.len() >= SHORT && known.starts_with(id))
    };
    if info.exported_as.as_deref().is_some_and(is_known) {
        changes.commits.clear();
        return true;
    }
    let last = changes.commits.iter().rposition(|commit| is_known(&commit.id));
    changes.commits.drain(..last.map_or(0, |last| last + 1));
    last.is_some()
}

/// The question to ask of the repository that an artifact was built from.
fn git_question(annotations: &BTreeMap<String, String>, question: &ChangesQuery) -> Option<ChangesQuery> {
    let url = annotations.get(SOURCE)?.trim();
    let origin = annotations.get(REVISION).or(question.origin.as_ref());
    let to = commit_of(&question.to, origin.map(String::as_str))?;
    let known = question.known_commits().map(|revision| Accounted { revision, origin: None });
    let known: Vec<_> = known.collect();
    // Without the origin of what was known, all history would be new.
    let is_range = question.known.is_empty() || !known.is_empty();
    is_range.then(|| ChangesQuery {
        url: url.to_owned(),
        insecure: false,
        secret: None,
        cert_secret: None,
        known,
        to,
        origin: None,
        metadata: BTreeMap::new(),
        ..question.clone()
    })
}

/// The digest of an artifact's revision.
fn digest_of(revision: &Revision) -> Result<Digest, ChangesError> {
    let named = match (revision.algorithm(), revision.digest()) {
        (Some(algorithm), Some(digest)) => format!("{algorithm}:{digest}").parse().ok(),
        _ => None,
    };
    named.ok_or_else(|| {
        let text = format!("{:?} names no artifact; expected TAG@sha256:HEX", revision.as_str());
        ChangesError::new(Problem::Malformed, text)
    })
}
