//! Carrying out a pass: asks Git what is wanted, and makes and publishes the artifact if it is another one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;
use windlass_api::flux::{Artifact, GitRepository};
use windlass_artifact::{ArtifactPath, Kept, Place};
use windlass_git::GitError;
use windlass_runtime::ObjectKey;

use crate::access;
use crate::annotations::semver_filter;
use crate::content_config::{CONTENT_CONFIG_CHECKSUM, content_config_checksum};
use crate::controller::{Controller, KIND};
use crate::failure::Failure;
use crate::metrics::stage;
use crate::observe::Observed;
use crate::plan::{Plan, plan};
use crate::reference::Resolved;
use crate::status::now;
use crate::upstream::Upstream;
use crate::validate::{Valid, interval, validate};
use crate::verify::Verified;

/// An answer that is younger than this share of an object's interval is as good as a new one.
const FRESH: f64 = 0.9;

/// What a pass came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Done {
    pub(crate) artifact: Artifact,
    pub(crate) included: Vec<Artifact>,
    /// Whose work it is, where that was asked.
    pub(crate) verified: Option<Verified>,
    /// It was made in this pass.
    pub(crate) made: bool,
}

/// Brings the artifact of an object up to date.
pub(crate) async fn apply(
    controller: &Controller,
    key: &ObjectKey,
    observed: &Observed,
) -> Result<Done, Failure> {
    let object = &observed.object;
    let valid = validate(&object.spec, semver_filter(object), controller.settings.default_branch.as_deref())?;
    let included = observed.included.clone()?;
    let upstream = upstream(controller, &key.namespace, observed, &valid).await?;
    let resolving = resolve(controller, key, observed, &valid, &upstream);
    let resolved = stage!(controller.metrics, "list_refs", resolving).await?;
    let verified = match &valid.verify {
        Some(verify) => {
            let verifying =
                controller.verifications.verify(key, verify, &upstream, &resolved, &controller.cancel);
            let verifying = within(valid.timeout, "verify the revision", verifying);
            Some(stage!(controller.metrics, "verify", verifying).await?)
        }
        None => None,
    };
    let plan = plan(object, observed.stored, &resolved, &included);
    tracing::debug!(source = %key, revision = resolved.revision, "{plan}");
    match (plan, &object.status.artifact) {
        (Plan::Keep, Some(artifact)) => {
            let url = controller.url_of(&artifact.path);
            let metadata = metadata(controller, object, &included);
            let artifact = Artifact { url, metadata, ..artifact.clone() };
            Ok(Done { artifact, included, verified, made: false })
        }
        _ => {
            let build = controller.builder.build(
                &upstream,
                resolved.commit,
                &valid.content,
                &included,
                &controller.cancel,
            );
            let kept = within(valid.timeout, "fetch and pack the revision", build).await?;
            let publishing = publish(controller, key, &kept, resolved);
            let artifact = stage!(controller.metrics, "publish", publishing).await?;
            let artifact = Artifact { metadata: metadata(controller, object, &included), ..artifact };
            Ok(Done { artifact, included, verified, made: true })
        }
    }
}

fn metadata(
    controller: &Controller,
    object: &GitRepository,
    included: &[Artifact],
) -> BTreeMap<String, String> {
    if !controller.settings.content_config_checksum {
        return BTreeMap::new();
    }
    let checksum = content_config_checksum(&object.spec, included);
    [(CONTENT_CONFIG_CHECKSUM.to_owned(), checksum)].into()
}

async fn upstream(
    controller: &Controller,
    namespace: &str,
    observed: &Observed,
    valid: &Valid,
) -> Result<Arc<Upstream>, Failure> {
    let spec = &observed.object.spec;
    let (remote, version) = access::remote(controller, namespace, spec, valid).await?;
    let is_direct = remote.proxy.is_none();
    controller.upstreams.get(remote, version).map_err(|error| match &error {
        // A proxy is the Secret's, which may change.
        GitError::PolicyRefused { .. } if !is_direct => Failure::fetch("URLInvalid", error.to_string()),
        GitError::PolicyRefused { .. } => Failure::fetch("URLInvalid", error.to_string()).stalled(),
        _ => Failure::git("open the repository", &error),
    })
}

/// Which commit is wanted: one request at most, and none for a commit.
async fn resolve(
    controller: &Controller,
    key: &ObjectKey,
    observed: &Observed,
    valid: &Valid,
    upstream: &Upstream,
) -> Result<Resolved, Failure> {
    let Some(prefix) = valid.reference.prefix() else { return valid.reference.resolve(&[]) };
    let not_before = if observed.wants_news() {
        observed.asked
    } else {
        let (now, fresh) = (Instant::now(), interval(&observed.object.spec).mul_f64(FRESH));
        now.checked_sub(fresh).unwrap_or(now)
    };
    let asked = async {
        let told = upstream.refs(&prefix, key, not_before, &controller.cancel).await;
        told.map_err(|error| Failure::git("list the refs of the repository", &error))
    };
    let told = within(valid.timeout, "list the refs of the repository", asked).await?;
    controller.metrics.accessed("refs", told.shared);
    for other in told.news_for {
        controller.queue.add(other);
    }
    valid.reference.resolve(&told.refs)
}

async fn within<T>(
    timeout: Duration,
    doing: &str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let timed_out = |_| {
        let message = format!("failed to {doing}: it took longer than spec.timeout, {timeout:?}");
        Err(Failure::fetch("GitOperationFailed", message))
    };
    tokio::time::timeout(timeout, work).await.unwrap_or_else(timed_out)
}

async fn publish(
    controller: &Controller,
    key: &ObjectKey,
    kept: &Kept,
    resolved: Resolved,
) -> Result<Artifact, Failure> {
    let place = Place::new(KIND, &key.namespace, &key.name)
        .ok_or_else(|| Failure::storage("InvalidPath", "the object's name is no name of a directory"))?;
    let published = kept.clone();
    let path: ArtifactPath =
        controller.builder.blocking(move |store| store.publish(&published, &place)).await?;
    let path = path.to_string();
    Ok(Artifact {
        url: controller.url_of(&path),
        path,
        revision: resolved.revision,
        digest: kept.digest.to_string(),
        last_update_time: Time(now(controller)),
        size: i64::try_from(kept.size).ok(),
        metadata: [].into(),
    })
}
