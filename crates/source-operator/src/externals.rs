//! Artifacts of our own `Repository`s, as `ExternalArtifact`s that Flux applies: for each that carries the annotation
//! [`EXTERNAL_ARTIFACT`], whose value names the object.
//!
//! The repository is read as its operator reads it: its provider, branch, folder and token. What `.sourceignore` files in
//! it name is left out. The object is the repository's own, and goes with it.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, Resource as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_api::Repository;
use windlass_api::annotations::EXTERNAL_ARTIFACT;
use windlass_api::flux::{
    Artifact, ExternalArtifact, ExternalArtifactSpec, ExternalArtifactStatus, SourceReference,
};
use windlass_api::labels::EXTERNAL_ARTIFACT_OF;
use windlass_api::patch::merge_diff;
use windlass_artifact::{ArtifactPath, Blobs, Digest, Kept, Place, Retention, Verdict};
use windlass_git::{ObjectId, Revision};
use windlass_launch::Context;
use windlass_repository::{Opened, Opener, ReadError, Reader, prefix};
use windlass_runtime::{
    BackoffPolicy, CallError, Event, Leadership, ObjectKey, Part, Requeue, Store, TermQueue, Watch,
    WatchConfig, merge_patch, run_keyed,
};
use windlass_telemetry::{ErrorChain, Health, traced};

use crate::calls::CALL;
use crate::controller::Controller;
use crate::failure::{Failure, types};
use crate::status::{Conditions, now};

/// The kind as it stands in paths.
pub(crate) const KIND: &str = "externalartifact";
/// How often a repository is looked at, at most.
const INTERVAL: Duration = Duration::from_mins(1);
/// Repositories that are looked at at a time.
const WORKERS: usize = 4;

/// Repositories, and what making artifacts of them takes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Externals {
    controller: Controller,
    repositories: Store<Repository>,
    opener: Opener,
    queue: TermQueue<ObjectKey>,
}

/// Repositories that are not followed yet.
pub(crate) struct Unfollowed {
    pub(crate) externals: Externals,
    watch: Watch<Repository>,
    health: Health,
}

impl Externals {
    /// The repositories that the process may see.
    pub(crate) fn over(process: &Context, controller: Controller) -> Unfollowed {
        let api: Api<Repository> = process.scope.api(process.clients.provisioning.clone());
        let remedy = "apply the definition of Repositories, or set [source] external_artifacts = false";
        let watch = Watch::new(api, WatchConfig { remedy, ..WatchConfig::new("repositories") });
        let externals = Self {
            controller,
            repositories: watch.store(),
            opener: process.opener.clone(),
            queue: TermQueue::default(),
        };
        Unfollowed { externals, watch, health: process.health.clone() }
    }
}

impl Unfollowed {
    /// Looks at repositories until `shutdown`.
    pub(crate) async fn run(self, leadership: &Leadership, shutdown: &CancellationToken) {
        let Self { externals, watch, health } = self;
        let queue = externals.queue.clone();
        let follow = watch.run(health, shutdown.clone(), move |event| match event {
            Event::Applied { old, new } if old.as_deref().is_none_or(|old| wanted(old) != wanted(&new)) => {
                queue.add(ObjectKey::of(&*new));
            }
            // Its artifact is deleted by whoever collects what has no owner any more; its files are ours.
            Event::Deleted(gone) => queue.add(ObjectKey::of(&*gone)),
            _ => {}
        });
        let lead = leadership.lead(shutdown, async |term| {
            let client = term.guard(&externals.controller.client);
            let work = externals.queue.begin(BackoffPolicy::OBJECT, || externals.repositories.keys());
            let reconcile = |key| {
                let (externals, client) = (externals.clone(), client.clone());
                async move { externals.reconcile(&client, &key).await }
            };
            run_keyed(work.queue.clone(), WORKERS, shutdown.clone(), reconcile, |_key| {}).await;
        });
        tokio::join!(follow, lead);
    }
}

/// What a repository is looked at again for.
fn wanted(repository: &Repository) -> (Option<i64>, Option<&str>, &str) {
    (repository.metadata.generation, name_of(repository), &repository.status.sync.last_ref)
}

/// The name of the artifact that is asked for.
fn name_of(repository: &Repository) -> Option<&str> {
    let value = repository.metadata.annotations.as_ref()?.get(EXTERNAL_ARTIFACT)?;
    (repository.metadata.deletion_timestamp.is_none() && !value.is_empty()).then_some(value)
}

impl Externals {
    async fn reconcile(&self, client: &Client, key: &ObjectKey) -> Requeue {
        let span = tracing::info_span!("publish_repository", repository = %key);
        match traced(span, Box::pin(self.pass(client, key))).await {
            Ok(requeue) => requeue,
            Err(error) if error.is_conflict() || error.is_not_found() || error.is_fenced() => {
                Requeue::Backoff
            }
            Err(error) => {
                tracing::warn!(repository = %key, error = %ErrorChain(&error), "failed to publish a repository");
                Requeue::Backoff
            }
        }
    }

    async fn pass(&self, client: &Client, key: &ObjectKey) -> Result<Requeue, CallError> {
        let repository = self.repositories.get(key);
        let name = repository.as_deref().and_then(name_of);
        let api: Api<ExternalArtifact> = Api::namespaced(client.clone(), &key.namespace);
        self.remove_others(&api, key, name).await?;
        let Some((repository, name)) = repository.as_deref().zip(name) else { return Ok(Requeue::No) };
        let get = || api.get_opt(name);
        let object = match CALL.read(format!("get ExternalArtifact {}/{name}", key.namespace), get).await? {
            Some(object) if owner(&object) == Some(key.name.as_str()) => object,
            Some(_) => {
                tracing::warn!(repository = %key, name, "there is an ExternalArtifact of this name that is another's");
                return Ok(Requeue::Backoff);
            }
            None => {
                let object = new_object(repository, key, name);
                let params = PostParams::default();
                let what = format!("create ExternalArtifact {}/{name}", key.namespace);
                CALL.write(what, || api.create(&params, &object)).await?
            }
        };
        let made = self.make(repository, &key.namespace, name, object.status.artifact.as_ref()).await;
        let status = conclude(&object, &made, now(&self.controller));
        let json = |status: &ExternalArtifactStatus| serde_json::to_value(status).unwrap_or_default();
        if let Some(patch) = merge_diff(&json(&object.status), &json(&status)) {
            merge_patch(&api, &object, Part::Status, json!({ "status": patch }), CALL).await?;
        }
        let seconds = u64::try_from(repository.spec.sync.interval_seconds).unwrap_or_default();
        Ok(match made {
            Ok(_) => Requeue::After(Duration::from_secs(seconds).max(INTERVAL)),
            Err(failure) => {
                tracing::warn!(repository = %key, reason = failure.reason, failure.message, "no artifact was made");
                Requeue::Backoff
            }
        })
    }

    /// Removes artifacts of the repository that go by another name than `wanted`.
    async fn remove_others(
        &self,
        api: &Api<ExternalArtifact>,
        key: &ObjectKey,
        wanted: Option<&str>,
    ) -> Result<(), CallError> {
        let params = ListParams::default().labels(&format!("{EXTERNAL_ARTIFACT_OF}={}", key.name));
        let listed = CALL.read("list the artifacts of a repository", || api.list_metadata(&params)).await?;
        let names = listed.items.into_iter().filter_map(|it| it.metadata.name);
        for name in names.filter(|name| Some(name.as_str()) != wanted) {
            let params = DeleteParams::default();
            let what = format!("delete ExternalArtifact {}/{name}", key.namespace);
            CALL.write(what, || api.delete(&name, &params)).await?;
            if let Some(place) = Place::new(KIND, &key.namespace, &name)
                && let Err(failure) =
                    self.controller.builder.blocking(move |store| store.remove(&place)).await
            {
                tracing::warn!(repository = %key, failure.message, "failed to remove an artifact");
            }
        }
        Ok(())
    }

    /// The artifact of the repository as it is now; the one that is `known` if that is still it.
    async fn make(
        &self,
        repository: &Repository,
        namespace: &str,
        name: &str,
        known: Option<&Artifact>,
    ) -> Result<Artifact, Failure> {
        let controller = &self.controller;
        let opened = self.open(repository).await?;
        let branch = repository.spec.branch();
        let revision = opened.reader.resolve(branch, &controller.cancel).await;
        let revision = revision.map_err(|error| failed("find the revision", &error))?;
        let told =
            if branch.is_empty() { format!("sha1:{revision}") } else { format!("{branch}@sha1:{revision}") };
        let place = Place::new(KIND, namespace, name);
        let place =
            place.ok_or_else(|| Failure::storage("InvalidPath", "the name is no name of a directory"))?;
        self.collect(&place, known).await?;
        if let Some(known) = known.filter(|known| known.revision == told)
            && self.is_stored(known).await?
        {
            return Ok(Artifact { url: controller.url_of(&known.path), ..known.clone() });
        }
        let kept = self.pack(repository, &opened, &revision).await?;
        let published = kept.clone();
        let path =
            controller.builder.blocking(move |store| store.publish(&published, &place)).await?.to_string();
        tracing::info!(namespace, name, revision = told, digest = %kept.digest, "stored an artifact of a repository");
        Ok(Artifact {
            url: controller.url_of(&path),
            path,
            revision: told,
            digest: kept.digest.to_string(),
            last_update_time: Time(now(controller)),
            size: i64::try_from(kept.size).ok(),
            metadata: [].into(),
        })
    }

    async fn open(&self, repository: &Repository) -> Result<Opened, Failure> {
        let opened = self.opener.open(&self.controller.client, repository).await;
        opened.map_err(|error| {
            let reason = match error.reason() {
                "AuthenticationFailed" => "AuthenticationFailed",
                _ => "GitOperationFailed",
            };
            Failure::fetch(reason, ErrorChain(&error).to_string())
        })
    }

    async fn pack(
        &self,
        repository: &Repository,
        opened: &Opened,
        revision: &Revision,
    ) -> Result<Kept, Failure> {
        let (builder, cancel) = (&self.controller.builder, &self.controller.cancel);
        let tree = opened.reader.tree(revision, prefix(&repository.spec), cancel).await;
        let tree = tree.map_err(|error| failed("fetch the revision", &error))?;
        if let Some(rejected) = tree.rejected.first() {
            let (path, reason) = (&rejected.path, &rejected.reason);
            let message = format!("the revision has a path that Git itself would refuse: {path}: {reason}");
            return Err(Failure::fetch("GitOperationFailed", message));
        }
        let blobs = BlobsOf(Arc::clone(&opened.reader));
        builder.pack(&blobs, &tree.entries, Vec::new(), None, failed, cancel).await
    }

    async fn is_stored(&self, artifact: &Artifact) -> Result<bool, Failure> {
        let place = ArtifactPath::parse(&artifact.path).zip(artifact.digest.parse::<Digest>().ok());
        let Some((path, digest)) = place else { return Ok(false) };
        let verify = move |store: &windlass_artifact::Store| Ok(store.verify(&path, &digest));
        Ok(self.controller.builder.blocking(verify).await? == Verdict::Good)
    }

    async fn collect(&self, place: &Place, known: Option<&Artifact>) -> Result<(), Failure> {
        let settings = &self.controller.settings;
        let retention =
            Retention { time: settings.artifact_retention_ttl, records: settings.artifact_retention_records };
        let (place, current) = (place.clone(), known.and_then(|known| ArtifactPath::parse(&known.path)));
        let collect =
            move |store: &windlass_artifact::Store| store.collect(&place, current.as_ref(), retention);
        self.controller.builder.blocking(collect).await.map(drop)
    }

    /// Makes the artifact of this path, which another replica has published; whether it is the same.
    pub(crate) async fn bring(&self, path: &ArtifactPath) -> Result<bool, Failure> {
        let place = path.place().clone();
        let api: Api<ExternalArtifact> = Api::namespaced(self.controller.client.clone(), place.namespace());
        let found = CALL.read("get an ExternalArtifact", || api.get_opt(place.name())).await;
        let found = found.map_err(|error| Failure::storage("ArchiveOperationFailed", error.to_string()))?;
        let Some(object) = found else { return Ok(false) };
        let artifact = object.status.artifact.as_ref().filter(|it| it.path == path.to_string());
        let commit = artifact.and_then(|it| it.revision.rsplit_once("sha1:")?.1.parse::<ObjectId>().ok());
        let repository =
            owner(&object).and_then(|name| self.repositories.get(&ObjectKey::new(place.namespace(), name)));
        let Some((commit, repository)) = commit.zip(repository) else { return Ok(false) };
        let opened = self.open(&repository).await?;
        let kept = self.pack(&repository, &opened, &commit.into()).await?;
        if Some(kept.digest.hex()) != path.hex() {
            return Ok(false);
        }
        self.controller.builder.blocking(move |store| store.publish(&kept, &place)).await?;
        Ok(true)
    }
}

/// The repository that an artifact is of.
fn owner(object: &ExternalArtifact) -> Option<&str> {
    object.metadata.labels.as_ref()?.get(EXTERNAL_ARTIFACT_OF).map(String::as_str)
}

fn new_object(repository: &Repository, key: &ObjectKey, name: &str) -> ExternalArtifact {
    let api_version = Some(Repository::api_version(&()).into_owned());
    let source = SourceReference {
        api_version,
        kind: "Repository".to_owned(),
        name: key.name.clone(),
        namespace: None,
    };
    ExternalArtifact {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(key.namespace.clone()),
            labels: Some([(EXTERNAL_ARTIFACT_OF.to_owned(), key.name.clone())].into()),
            owner_references: repository.owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: ExternalArtifactSpec { source_ref: Some(source) },
        ..ExternalArtifact::default()
    }
}

/// What the status says; an artifact that was good is served still when a newer one cannot be made.
fn conclude(
    object: &ExternalArtifact,
    made: &Result<Artifact, Failure>,
    now: Timestamp,
) -> ExternalArtifactStatus {
    let mut say = Conditions::new(object.metadata.generation, now, &object.status.conditions);
    let artifact = match made {
        Ok(artifact) => {
            let message = format!("stored artifact for revision '{}'", artifact.revision);
            say.set(types::READY, "True", "Succeeded", &message);
            Some(artifact.clone())
        }
        Err(failure) => {
            say.set(types::RECONCILING, "True", "ProgressingWithRetry", &failure.message);
            say.set(types::READY, "False", failure.reason, &failure.message);
            object.status.artifact.clone()
        }
    };
    ExternalArtifactStatus { artifact, conditions: say.sorted() }
}

fn failed(doing: &str, error: &ReadError) -> Failure {
    let reason = match error.reason() {
        "AuthenticationFailed" => "AuthenticationFailed",
        _ => "GitOperationFailed",
    };
    Failure::fetch(reason, format!("failed to {doing}: {error}"))
}

/// The contents of a repository's files.
struct BlobsOf(Arc<dyn Reader>);

#[async_trait]
impl Blobs for BlobsOf {
    type Error = ReadError;

    fn limit(&self) -> u64 {
        self.0.limits().blob_bytes
    }

    async fn contents(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, ReadError> {
        self.0.blobs(ids, cancel).await
    }

    async fn open(
        &self,
        id: ObjectId,
        cancel: &CancellationToken,
    ) -> Result<Box<dyn Read + Send>, ReadError> {
        self.0.open_blob(id, cancel).await
    }
}
