//! Commits of an `OCIRepository`: from the exporter's payload in its artifact, or from its annotations.
//!
//! An artifact costs two requests, its manifest and the payload, however many ask about it; one where it has no payload;
//! none where no payload is wanted and Flux told the annotations. A registry that wants to see a token has it fetched
//! once.
//!
//! What Flux skipped between two revisions is found without a request where this process saw it, and otherwise in Git,
//! unless something says that there is no more: see [`LookForSkipped`].

mod memory;
mod skipped;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use tracing::field;
use windlass_oci::{
    Client, ClientConfig, Digest, DockerConfig, Login, Manifest, ManifestKind, OciError, Reference,
    Repository,
};

use windlass_telemetry::traced;

use self::memory::{Artifact, Memory};
use self::skipped::{Ids, same_commit};
use super::{
    Changes, ChangesError, ChangesQuery, ExporterInfo, FindChanges, Problem, Secrets, metadata::annotated,
    secrets,
};
use crate::{Algorithm, Revision};

/// The original's media type of the payload.
pub const EXPORTER_INFO_MEDIA_TYPE: &str = "application/vnd.grafana.exporter-info.v1+json";

/// Where an artifact's source is.
const SOURCE: &str = "org.opencontainers.image.source";
/// The revision of its source.
const REVISION: &str = "org.opencontainers.image.revision";
/// When it was built.
const CREATED: &str = "org.opencontainers.image.created";
/// The key of a pull secret.
const PULL_SECRET: &str = ".dockerconfigjson";

/// Whether artifacts have an exporter's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadWanted {
    /// It is read where there is one; else the annotations are.
    #[default]
    IfThere,
    /// One without it is [`Problem::PayloadMissing`].
    Required,
    /// It is not looked for: annotations alone say what came.
    Never,
}

/// When Git is asked for the commits of artifacts that Flux skipped.
///
/// What this process was asked about is known anyway. The rest can only be found where the artifacts name the commits of a
/// repository that they were built from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LookForSkipped {
    /// Unless something says that there is none: the payload names what was known as its predecessor
    /// (`previous_commit`), or the revisions' tags are neighbours as `1.4.2` and `1.4.3` are.
    #[default]
    WhenUnsure,
    /// Also between tags that are neighbours.
    Always,
    /// Never: what may have been skipped makes the answer incomplete.
    Never,
}

/// What an [`OciChanges`] works under.
#[derive(Clone, Debug)]
pub struct OciConfig {
    /// How registries are reached.
    pub client: ClientConfig,
    /// Whether there is a payload.
    pub payload: PayloadWanted,
    /// The media type of the layer that has it; the first such layer counts.
    pub media_type: String,
    /// Bytes of a payload. 4 MiB.
    pub max_payload_bytes: u64,
    /// Commits of an answer; the newest are kept. 10,000.
    pub max_commits: usize,
    /// When to look for the commits of skipped artifacts in Git.
    pub skipped: LookForSkipped,
}

impl Default for OciConfig {
    fn default() -> Self {
        Self {
            client: ClientConfig::default(),
            payload: PayloadWanted::default(),
            media_type: EXPORTER_INFO_MEDIA_TYPE.to_owned(),
            max_payload_bytes: 4 << 20,
            max_commits: 10_000,
            skipped: LookForSkipped::default(),
        }
    }
}

/// Reads artifacts in registries.
pub struct OciChanges {
    client: Client,
    config: OciConfig,
    secrets: Arc<dyn Secrets>,
    git: Option<Arc<dyn FindChanges>>,
    memory: Memory,
}

/// A repository, and who asks.
struct Place<'a> {
    question: &'a ChangesQuery,
    /// With what is trusted and shown there.
    client: Client,
    repository: Repository,
    login: Login,
}

impl OciChanges {
    /// Reads under `config`, with the pull secrets that sources name. Nothing is sent.
    ///
    /// # Errors
    /// When the client cannot be set up: a bundle of certificates that cannot be read.
    pub fn new(config: OciConfig, secrets: Arc<dyn Secrets>) -> Result<Self, OciError> {
        let (client, memory) = (Client::new(config.client.clone())?, Memory::default());
        Ok(Self { client, config, secrets, git: None, memory })
    }

    /// Walks the Git repositories that artifacts without a payload say they were built from. An artifact's author chooses
    /// the repository, so `git` should ask with nobody's credentials.
    #[must_use]
    pub fn with_git(mut self, git: Arc<dyn FindChanges>) -> Self {
        self.git = Some(git);
        self
    }

    /// HTTP requests sent to registries so far.
    pub fn request_count(&self) -> u64 {
        self.client.request_count()
    }
}

#[async_trait]
impl FindChanges for OciChanges {
    async fn find(&self, question: &ChangesQuery) -> Result<Changes, ChangesError> {
        let to = digest_of(&question.to)?;
        let told = |key: &str| question.metadata.contains_key(key);
        if self.config.payload == PayloadWanted::Never && (told(REVISION) || told(CREATED)) {
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
            (None, PayloadWanted::Required) => Err(ChangesError::new(
                Problem::PayloadMissing,
                format!(
                    "the artifact {} of {} has no layer of media type {}",
                    question.to, question.source, self.config.media_type
                ),
            )),
            (None, _) => {
                let mut annotations = artifact.annotations.clone();
                annotations.extend(question.metadata.clone());
                self.annotated(&annotations, question).await
            }
        }
    }
}

impl OciChanges {
    async fn place<'a>(&self, question: &'a ChangesQuery) -> Result<Place<'a>, ChangesError> {
        let repository = Repository::parse(&question.url, question.insecure)
            .map_err(|error| explained(question, "find the registry", error))?;
        let client = self.client(question).await?;
        let login = self.login(question).await?;
        Ok(Place { question, client, repository, login })
    }

    /// One that trusts and shows what the Secret in `spec.certSecretRef` holds.
    async fn client(&self, question: &ChangesQuery) -> Result<Client, ChangesError> {
        let Some(name) = &question.cert_secret else { return Ok(self.client.clone()) };
        let namespace = &question.source.namespace;
        let Some(values) = self.secrets.secret(namespace, name).await? else {
            return Ok(self.client.clone());
        };
        let refuse = |what: &str| {
            let text = format!("the Secret {namespace}/{name} that {} names {what}", question.source);
            ChangesError::new(Problem::Malformed, text)
        };
        let tls = secrets::tls(&values).map_err(|what| refuse(&what))?;
        let client = self.client.with_tls(&tls);
        client.map_err(|error| refuse("has a tls.crt and tls.key that do not belong together").because(error))
    }

    /// That of the Secret in `spec.secretRef`, or Docker's.
    async fn login(&self, question: &ChangesQuery) -> Result<Login, ChangesError> {
        let Some(name) = &question.secret else { return Ok(Login::Chain) };
        let namespace = &question.source.namespace;
        let Some(values) = self.secrets.secret(namespace, name).await? else {
            return Ok(Login::Chain);
        };
        let content = values.get(PULL_SECRET).ok_or_else(|| {
            ChangesError::new(
                Problem::Malformed,
                format!(
                    "the Secret {namespace}/{name} that {} names has no {PULL_SECRET}: make it with `kubectl create \
                     secret docker-registry`",
                    question.source
                ),
            )
        })?;
        let config =
            DockerConfig::parse(content, &format!("the Secret {namespace}/{name}")).map_err(|error| {
                let text = format!("failed to use the Secret that {} names", question.source);
                ChangesError::new(Problem::Malformed, text).because(error)
            })?;
        Ok(Login::Secret(Arc::new(config)))
    }

    /// An artifact, from memory or with its payload from the registry.
    async fn artifact(&self, place: &Place<'_>, digest: &Digest) -> Result<Arc<Artifact>, ChangesError> {
        if let Some(artifact) = self.memory.artifact(&place.repository, digest) {
            return Ok(artifact);
        }
        let manifest = self.manifest(place, &Reference::Digest(digest.clone())).await?;
        self.read(place, digest, manifest).await
    }

    async fn manifest(&self, place: &Place<'_>, reference: &Reference) -> Result<Manifest, ChangesError> {
        let span = tracing::info_span!(
            "oci.get_manifest",
            otel.kind = "client",
            oci.reference = %reference,
            oci.manifest.bytes = field::Empty,
        );
        let manifest = place.client.manifest(&place.repository, &place.login, reference);
        traced(span, manifest).await.map_err(|error| explained(place.question, "read the manifest", error))
    }

    /// Reads an artifact's payload, and remembers it.
    async fn read(
        &self,
        place: &Place<'_>,
        digest: &Digest,
        manifest: Manifest,
    ) -> Result<Arc<Artifact>, ChangesError> {
        let mut annotations = BTreeMap::new();
        let layers = match manifest.kind {
            ManifestKind::Image { layers, annotations: own } => {
                annotations.extend(own);
                layers
            }
            ManifestKind::Index(index) => {
                // Flux takes the image for its default platform, and that one's annotations.
                let image = index.default_image().ok_or_else(|| {
                    malformed(place, digest, "it is an index without an image for linux/amd64")
                })?;
                let image: Digest = image
                    .digest
                    .parse()
                    .map_err(|error: OciError| malformed(place, digest, &error.to_string()))?;
                annotations.extend(index.annotations);
                match self.manifest(place, &Reference::Digest(image)).await?.kind {
                    ManifestKind::Image { layers, annotations: own } => {
                        annotations.extend(own);
                        layers
                    }
                    ManifestKind::Index(_) => {
                        return Err(malformed(place, digest, "it is an index of indexes"));
                    }
                }
            }
        };
        let layer = layers.iter().find(|layer| layer.media_type == self.config.media_type);
        let info = match layer.filter(|_| self.config.payload != PayloadWanted::Never) {
            None => None,
            Some(layer) => {
                let max = self.config.max_payload_bytes;
                if layer.size > max {
                    let text = format!(
                        "the exporter's payload in the artifact {digest} of {} has {} bytes, over {max}",
                        place.question.source, layer.size
                    );
                    return Err(ChangesError::new(Problem::TooLarge, text));
                }
                let blob = layer
                    .digest
                    .parse()
                    .map_err(|error: OciError| malformed(place, digest, &error.to_string()))?;
                Some(self.payload(place, digest, &blob).await?)
            }
        };
        let artifact = Arc::new(Artifact::new(digest.clone(), annotations, info));
        self.memory.remember(&place.repository, &artifact);
        Ok(artifact)
    }

    /// The payload in this layer of an artifact.
    async fn payload(
        &self,
        place: &Place<'_>,
        digest: &Digest,
        layer: &Digest,
    ) -> Result<ExporterInfo, ChangesError> {
        tracing::Span::current().record("oci.exporter_info.layer_digest", layer.to_string());
        let span = tracing::info_span!(
            "oci.get_layer_blob",
            otel.kind = "client",
            oci.layer.reference = %layer,
            oci.layer.bytes = field::Empty,
        );
        let content =
            place.client.blob(&place.repository, &place.login, layer, self.config.max_payload_bytes);
        let content = traced(span.clone(), content)
            .await
            .map_err(|error| explained(place.question, "read the exporter's payload", error))?;
        span.record("oci.layer.bytes", content.len());
        drop(span);
        let span = tracing::info_span!(
            "oci.decode_exporter_info",
            repo.kube_manifests.hash = field::Empty,
            kube_manifests.exporter.info.commits_exported = field::Empty,
        );
        let from = format!("{digest} of {}", place.question.source);
        let decoded = async { ExporterInfo::parse(&content, &from, self.config.max_commits) };
        let info = traced(span.clone(), decoded).await?;
        span.record("repo.kube_manifests.hash", info.commit.as_deref());
        span.record("kube_manifests.exporter.info.commits_exported", info.commits.len());
        Ok(info)
    }

    /// What payloads say: the artifact's own, and those of artifacts that were skipped before it.
    async fn exported(
        &self,
        place: &Place<'_>,
        artifact: &Arc<Artifact>,
        info: &ExporterInfo,
    ) -> Result<Changes, ChangesError> {
        let known: Vec<Digest> =
            place.question.known.iter().filter_map(|known| digest_of(known).ok()).collect();
        let mut changes = info.clone().into_changes(artifact.created);
        if known.contains(&artifact.digest) {
            changes.commits.clear();
            return Ok(changes);
        }
        // Its commits are no news, and another process may have read them.
        let from = match known.last() {
            Some(newest) => self.known(place, newest).await?,
            None => None,
        };
        let remembered: Vec<_> =
            known.iter().filter_map(|known| self.memory.artifact(&place.repository, known)).collect();
        if remembered.iter().any(|known| known.is_younger(artifact) && known.is_of_stream(artifact)) {
            // Rolled back to what nobody saw, as it says itself; Git knows whether that is so.
            let history = self.history(place, artifact, from.as_deref()).await?;
            changes.older = history.is_none_or(|history| !history.commits.is_empty());
            let is_known = |id: &str| remembered.iter().any(|known| known.ids().any(|known| known == id));
            changes.commits.retain(|commit| changes.older && !is_known(&commit.id));
            return Ok(changes);
        }
        let skipped = self.skipped(place, artifact, info, &known, from.as_deref()).await?;
        let hex =
            |artifact: &Arc<Artifact>| artifact.digest.to_string().split(':').next_back().map(str::to_owned);
        changes.skipped = skipped.artifacts.iter().filter_map(hex).collect();
        if !place.question.known.is_empty() && remembered.is_empty() && skipped.walked.is_empty() {
            changes.unrelated =
                !continues(&mut changes, info, place.question) && !self.has_any(place, &known).await?;
        }
        let mut held: HashSet<String> =
            remembered.iter().flat_map(|known| known.ids()).map(str::to_owned).collect();
        changes.commits.retain(|commit| held.insert(commit.id.clone()));
        for earlier in &skipped.artifacts {
            for commit in earlier.info.iter().flat_map(|info| &info.commits) {
                if held.insert(commit.id.clone()) {
                    let mut commit = commit.clone();
                    commit.exported = earlier.created;
                    changes.commits.push(commit);
                }
            }
        }
        // When these were exported, before they were replaced, nobody knows.
        let found = Ids::of(remembered.iter().flat_map(|known| &known.info).flat_map(|info| &info.commits));
        let own = Ids::of(&changes.commits);
        changes.commits.extend(
            skipped.walked.into_iter().filter(|commit| !found.holds(&commit.id) && !own.holds(&commit.id)),
        );
        changes.commits.sort_by_key(|commit| commit.merged);
        let surplus = changes.commits.len().saturating_sub(self.config.max_commits);
        changes.commits.drain(..surplus);
        changes.truncated |= surplus > 0;
        changes.incomplete |= skipped.incomplete;
        Ok(changes)
    }

    /// The known artifact; none where it is gone.
    async fn known(&self, place: &Place<'_>, newest: &Digest) -> Result<Option<Arc<Artifact>>, ChangesError> {
        match self.artifact(place, newest).await {
            Ok(from) => Ok(Some(from)),
            Err(error) if !error.problem.is_permanent() => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Whether the repository has any of these: else they were another one's.
    async fn has_any(&self, place: &Place<'_>, known: &[Digest]) -> Result<bool, ChangesError> {
        for digest in known.iter().rev() {
            match self.manifest(place, &Reference::Digest(digest.clone())).await {
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
        if let Some((git, question)) = self.git.as_ref().zip(git_question(annotations, question)) {
            match git.find(&question).await {
                Ok(changes) => {
                    let exported_as = question.to.digest().map(str::to_owned);
                    return Ok(Changes { exported: built, exported_as, ..changes });
                }
                Err(error) if !error.problem.is_permanent() => return Err(error),
                Err(error) => {
                    tracing::debug!(source = %question.source, %error, "taking the artifact's annotations instead");
                }
            }
        }
        annotated(annotations, question)
    }
}

/// Whether the payload goes on from commits of Git that were known when the source was another one; what they hold of it
/// is taken out.
fn continues(changes: &mut Changes, info: &ExporterInfo, question: &ChangesQuery) -> bool {
    let known: Vec<Revision> = question.known_commits().collect();
    let is_known = |id: &str| known.iter().filter_map(Revision::digest).any(|known| same_commit(known, id));
    if info.commit.as_deref().is_some_and(is_known) {
        changes.commits.clear();
        return true;
    }
    if let Some(last) = changes.commits.iter().rposition(|commit| is_known(&commit.id)) {
        changes.commits.drain(..=last);
        return true;
    }
    info.previous_commit.as_deref().is_some_and(is_known)
}

/// The question to ask of the repository that an artifact was built from.
fn git_question(annotations: &BTreeMap<String, String>, question: &ChangesQuery) -> Option<ChangesQuery> {
    let url = annotations.get(SOURCE)?.trim();
    let is_git = |revision: &Revision| revision.algorithm() == Some(Algorithm::Sha1);
    let origin = annotations.get(REVISION).or(question.origin.as_ref())?;
    let to = origin.trim().parse().ok().filter(is_git)?;
    let known: Vec<Revision> = question.known_commits().collect();
    // Without the origin of what was known, all history would be new.
    let is_range = question.known.is_empty() || !known.is_empty();
    is_range.then(|| ChangesQuery {
        source: question.source.clone(),
        url: url.to_owned(),
        insecure: false,
        secret: None,
        cert_secret: None,
        known_origins: vec![None; known.len()],
        known,
        to,
        origin: None,
        metadata: BTreeMap::new(),
        seen: question.seen,
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

fn malformed(place: &Place<'_>, digest: &Digest, detail: &str) -> ChangesError {
    let source = &place.question.source;
    ChangesError::new(
        Problem::Malformed,
        format!("failed to read the artifact {digest} of {source}: {detail}"),
    )
}

fn explained(question: &ChangesQuery, action: &str, error: OciError) -> ChangesError {
    let problem = match &error {
        OciError::RateLimited { .. } => Problem::RateLimited,
        OciError::Unauthorized { .. } => Problem::Unauthorized,
        OciError::Forbidden { .. } => Problem::Forbidden,
        OciError::NotFound { .. } => Problem::NotFound,
        OciError::TooLarge { .. } => Problem::TooLarge,
        OciError::Refused { .. } | OciError::Invalid { .. } => Problem::Unsupported,
        OciError::WrongDigest { .. } | OciError::Malformed { .. } => Problem::Malformed,
        // Docker's file and helpers are mended without an object that changes.
        _ => Problem::Unavailable,
    };
    let advice = match (&error, &question.secret) {
        (OciError::Unauthorized { sent: false, .. }, Some(secret)) => {
            format!(
                "; the Secret {secret} that it names gave no credentials: see [commit_tracker] source_secrets"
            )
        }
        (OciError::Unreachable { .. }, _) if question.cert_secret.is_some() => {
            "; are the certificates read that it names in spec.certSecretRef? See [commit_tracker] source_secrets".to_owned()
        }
        (OciError::Refused { .. }, _) if question.insecure => {
            "; see [commit_tracker] allowed_registries".to_owned()
        }
        _ => String::new(),
    };
    let retry_after = error.retry_after();
    let text = format!("failed to {action} of {} of {}{advice}", question.to, question.source);
    ChangesError { retry_after, ..ChangesError::new(problem, text).because(error) }
}
