//! Artifacts that this replica lacks, made from Git when somebody asks for them: archives are reproducible, so the same
//! revision is the same file, and one that is not is not served.

use async_trait::async_trait;
use windlass_api::flux::GitRepository;
use windlass_artifact::{ArtifactPath, Missing};
use windlass_git::ObjectId;
use windlass_runtime::ObjectKey;
use windlass_telemetry::traced;

use crate::access;
use crate::annotations::semver_filter;
use crate::controller::{Controller, KIND};
use crate::externals::{self, Externals};
use crate::failure::Failure;
use crate::validate::{validate, wanted};

/// Makes what the statuses of sources name and this replica has not.
pub(crate) struct Replica {
    pub(crate) controller: Controller,
    /// Those of our own repositories, where they are wanted.
    pub(crate) externals: Option<Externals>,
}

#[async_trait]
impl Missing for Replica {
    async fn bring(&self, path: &ArtifactPath) -> bool {
        let bringing = async {
            match (&self.externals, path.place().kind()) {
                (_, KIND) => self.bring_source(path).await,
                (Some(externals), externals::KIND) => externals.bring(path).await,
                _ => Ok(false),
            }
        };
        let brought = traced(tracing::info_span!("bring", %path), Box::pin(bringing)).await;
        brought.unwrap_or_else(|failure| {
            tracing::warn!(%path, failure.message, "failed to bring an artifact here");
            false
        })
    }
}

impl Replica {
    async fn bring_source(&self, path: &ArtifactPath) -> Result<bool, Failure> {
        let key = ObjectKey::new(path.place().namespace(), path.place().name());
        let Some(object) = self.controller.objects.get(&key) else { return Ok(false) };
        let is_it = object.status.artifact.as_ref().is_some_and(|artifact| artifact.path == path.to_string());
        // What was removed with its object is not made again.
        if !is_it || object.metadata.deletion_timestamp.is_some() {
            return Ok(false);
        }
        self.make(path, &object).await
    }

    /// Makes the artifact that the status speaks of, and answers whether it is the same.
    async fn make(&self, path: &ArtifactPath, object: &GitRepository) -> Result<bool, Failure> {
        let controller = &self.controller;
        let status = &object.status;
        let Some(commit) = status.artifact.as_ref().and_then(|artifact| commit_of(&artifact.revision)) else {
            return Ok(false);
        };
        // As it was observed: the specification may have changed since.
        let mut spec = object.spec.clone();
        spec.ignore.clone_from(&status.observed_ignore);
        spec.sparse_checkout.clone_from(&status.observed_sparse_checkout);
        spec.include.clone_from(&status.observed_include);
        spec.recurse_submodules = status.observed_recurse_submodules;
        let valid = validate(&spec, semver_filter(object), controller.settings.default_branch.as_deref())?;
        let included = &status.included_artifacts;
        for artifact in included {
            if let Some(path) = ArtifactPath::parse(&artifact.path)
                && !controller.builder.store.path(&path).exists()
            {
                self.bring(&path).await;
            }
        }
        let namespace = path.place().namespace();
        let (remote, version) = access::remote(controller, namespace, &spec, &valid).await?;
        let upstream = controller.upstreams.get(remote, version);
        let upstream = upstream.map_err(|error| Failure::git("open the repository", &error))?;
        let content = wanted(&spec)?;
        let build = controller.builder.build(&upstream, commit, &content, included, &controller.cancel);
        let kept = build.await?;
        if Some(kept.digest.hex()) != path.hex() {
            return Ok(false);
        }
        let place = path.place().clone();
        controller.builder.blocking(move |store| store.publish(&kept, &place)).await?;
        Ok(true)
    }
}

/// The commit that a revision ends with.
fn commit_of(revision: &str) -> Option<ObjectId> {
    revision.rsplit_once("sha1:")?.1.parse().ok()
}
