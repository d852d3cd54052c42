//! What a pass starts from: the object as the watch has it, the artifacts that belong into it, and its own in storage.

use std::sync::Arc;

use tokio::time::Instant;
use windlass_api::flux::{Artifact, GitRepository};
use windlass_artifact::{ArtifactPath, Digest, Place, Retention, Verdict};
use windlass_runtime::{ObjectKey, Store};
use windlass_telemetry::ErrorChain;

use crate::annotations::requested_at;
use crate::controller::{Controller, KIND};
use crate::failure::Failure;

/// What is known before Git is asked.
pub(crate) struct Observed {
    pub(crate) object: Arc<GitRepository>,
    /// When what it asks for was seen: what is said later is an answer.
    pub(crate) asked: Instant,
    /// Its artifact is where its status says, whole.
    pub(crate) stored: bool,
    /// Whether those of its artifacts that were replaced are gone, as far as they have to be.
    pub(crate) collected: Result<(), Failure>,
    /// The artifacts that belong into it, in the order of the specification.
    pub(crate) included: Result<Vec<Artifact>, Failure>,
}

impl Observed {
    /// The last that somebody asked for by annotation.
    pub(crate) fn requested_at(&self) -> Option<&str> {
        requested_at(&self.object)
    }

    /// Whether an answer of before this pass is not good enough.
    pub(crate) fn wants_news(&self) -> bool {
        let status = &self.object.status;
        let ready = windlass_api::conditions::is_true(&status.conditions, crate::failure::types::READY);
        status.observed_generation != self.object.metadata.generation
            || self.requested_at() != status.last_handled_reconcile_at.as_deref()
            || !ready
            || !self.stored
    }
}

/// Looks at what is known and at the disk. None when the object is gone.
pub(crate) async fn observe(controller: &Controller, key: &ObjectKey) -> Result<Option<Observed>, Failure> {
    let Some(object) = controller.objects.get(key) else { return Ok(None) };
    let asked = controller.asked.take(&object).unwrap_or_else(Instant::now);
    let artifact = object.status.artifact.clone();
    let path = artifact.as_ref().and_then(|artifact| ArtifactPath::parse(&artifact.path));
    let digest = artifact.as_ref().and_then(|artifact| artifact.digest.parse::<Digest>().ok());
    // Artifacts that were replaced long enough ago go.
    let place = Place::new(KIND, &key.namespace, &key.name).filter(|_| !object.spec.suspend);
    let settings = &controller.settings;
    let retention =
        Retention { time: settings.artifact_retention_ttl, records: settings.artifact_retention_records };
    let looked = controller.builder.blocking(move |store| {
        let collected = place.map_or(Ok(0), |place| store.collect(&place, path.as_ref(), retention));
        let Some((path, digest)) = path.zip(digest) else { return Ok((Verdict::Missing, collected)) };
        let verdict = store.verify(&path, &digest);
        if verdict == Verdict::Damaged {
            // Nobody is served it.
            store.discard(&path, &digest)?;
        }
        Ok((verdict, collected))
    });
    let (verdict, collected) = looked.await?;
    if let Some(artifact) = artifact.filter(|_| verdict == Verdict::Damaged) {
        let text = format!("the artifact {} was not what its digest says; it is made again", artifact.path);
        controller.notifier.warn(&object, "ArtifactVerificationFailed", &text);
    }
    Ok(Some(Observed {
        asked,
        stored: verdict == Verdict::Good,
        collected: collected
            .map(drop)
            .map_err(|error| Failure::storage("ArchiveOperationFailed", ErrorChain(&error).to_string())),
        included: includes(&controller.objects, &object),
        object,
    }))
}

/// The artifacts of the repositories that an object includes.
pub(crate) fn includes(
    objects: &Store<GitRepository>,
    object: &GitRepository,
) -> Result<Vec<Artifact>, Failure> {
    let own = ObjectKey::of(object);
    if let Some(cycle) = cycle(objects, &own) {
        let message = format!("spec.include goes round in a circle: {}", cycle.join(" -> "));
        return Err(Failure::include("IncludeCycle", message));
    }
    let artifacts = object.spec.include.iter().map(|include| {
        let name = &include.repository.name;
        let found = objects.get(&ObjectKey::new(own.namespace.as_str(), name.as_str()));
        let found = found.ok_or_else(|| {
            Failure::include("NotFound", format!("there is no GitRepository {name:?} in this namespace"))
        })?;
        found.status.artifact.clone().ok_or_else(|| {
            Failure::include("NoArtifact", format!("the GitRepository {name:?} has no artifact yet"))
        })
    });
    artifacts.collect()
}

/// The way from an object over its includes back to itself, if there is one.
fn cycle(objects: &Store<GitRepository>, own: &ObjectKey) -> Option<Vec<String>> {
    let mut ways = vec![vec![own.name.clone()]];
    let mut seen = std::collections::HashSet::new();
    while let Some(way) = ways.pop() {
        let last = ObjectKey::new(own.namespace.as_str(), way.last().map_or("", String::as_str));
        let Some(object) = objects.get(&last) else { continue };
        for include in &object.spec.include {
            let next = include.repository.name.clone();
            let mut longer = way.clone();
            longer.push(next.clone());
            if next == own.name {
                return Some(longer);
            }
            if seen.insert(next) {
                ways.push(longer);
            }
        }
    }
    None
}
