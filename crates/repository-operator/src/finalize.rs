//! What happens to a repository's jobs and resources when it is deleted. Grafana: `controller/finalizers.go`.
//!
//! The order is fixed: no new work, then nothing of the provider's, then the resources. Each finalizer is taken off when
//! it is done, so that a pass that was cut short does not begin again; names that are not ours are left to their owners.

use std::time::Duration;

use kube::api::{DeleteParams, Preconditions};
use tokio::time::Instant;
use windlass_api::{Job, Repository, finalizers, labels};
use windlass_resources::finalize::{Finalize, release, remove};
use windlass_resources::{ItemResult, ListError};
use windlass_runtime::{CallError, ListRequest, remove_finalizer};

use crate::controller::{CALL, Controller, name, namespace};
use crate::hook::{self, CleanUpError};

/// The deadline of one resource.
const ITEM: Duration = Duration::from_secs(15);
/// How often a pass lists what is managed: once to work it off, and once more to see that nothing is left.
const ROUNDS: usize = 2;

/// What a pass came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finalized {
    /// Nothing of ours holds the repository any more.
    Gone,
    /// Something is still on its way; look again.
    Waiting,
}

/// Why a repository cannot be deleted yet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FinalizeError {
    /// A call to the API failed.
    #[error("failed to run the finalizer {finalizer}")]
    Call {
        /// The finalizer.
        finalizer: &'static str,
        /// What the API said.
        #[source]
        source: CallError,
    },
    /// The finalizer could not be taken off.
    #[error("failed to take off the finalizer {finalizer}, which is done")]
    TakeOff {
        /// The finalizer.
        finalizer: &'static str,
        /// What the API said.
        #[source]
        source: CallError,
    },
    /// The managed resources could not be listed.
    #[error("failed to run the finalizer {finalizer}")]
    List {
        /// The finalizer.
        finalizer: &'static str,
        /// What went wrong.
        #[source]
        source: ListError,
    },
    /// The provider's side could not be cleaned up.
    #[error("failed to run the finalizer {finalizer}")]
    CleanUp {
        /// The finalizer.
        finalizer: &'static str,
        /// What went wrong.
        #[source]
        source: CleanUpError,
    },
    /// Single resources are in the way.
    #[error("{} resource(s) are in the way of the finalizer {finalizer}; first: {}", .failures.len(), first(.failures))]
    Items {
        /// The finalizer.
        finalizer: &'static str,
        /// The resources, with why.
        failures: Vec<ItemResult>,
    },
    /// The pass was cut short.
    #[error("the finalizer {finalizer} was cut short; it goes on")]
    Interrupted {
        /// The finalizer.
        finalizer: &'static str,
    },
}

impl FinalizeError {
    /// The finalizer that is to blame.
    pub(crate) fn finalizer(&self) -> &'static str {
        match self {
            Self::Call { finalizer, .. }
            | Self::TakeOff { finalizer, .. }
            | Self::List { finalizer, .. }
            | Self::CleanUp { finalizer, .. }
            | Self::Items { finalizer, .. }
            | Self::Interrupted { finalizer } => finalizer,
        }
    }

    /// The resources that are in the way.
    pub(crate) fn items(&self) -> &[ItemResult] {
        match self {
            Self::Items { failures, .. } => failures,
            _ => &[],
        }
    }
}

fn first(failures: &[ItemResult]) -> String {
    failures.first().map_or_else(String::new, |item| {
        let why = item.error.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} {:?} ({}): {why}", item.kind_name(), item.name, item.path)
    })
}

/// Runs the finalizers that the repository has, in their order. `current` becomes the version without those that are
/// done.
pub(crate) async fn run(
    controller: &Controller,
    current: &mut Repository,
) -> Result<Finalized, FinalizeError> {
    for finalizer in finalizers::ALL {
        if !current.metadata.finalizers.iter().flatten().any(|held| held == finalizer) {
            continue;
        }
        let (began, mut resources) = (Instant::now(), 0);
        let done = match finalizer {
            finalizers::REMOVE_PENDING_JOBS => remove_pending_jobs(controller, current).await?,
            finalizers::RELEASE_ORPHAN_RESOURCES | finalizers::REMOVE_ORPHAN_RESOURCES => {
                delete_or_release(controller, current, finalizer, &mut resources).await?
            }
            finalizers::CLEANUP => {
                let removed = hook::remove(controller, current).await;
                removed.map_err(|source| FinalizeError::CleanUp { finalizer, source })?;
                Finalized::Gone
            }
            _ => Finalized::Gone,
        };
        if done == Finalized::Waiting {
            return Ok(done);
        }
        let api = controller.repositories(current);
        *current = remove_finalizer(&api, current, finalizer, CALL)
            .await
            .map_err(|source| FinalizeError::TakeOff { finalizer, source })?;
        controller.metrics.finalized(finalizer, resources, began.elapsed());
        tracing::info!(
            namespace = current.metadata.namespace,
            repository = current.metadata.name,
            finalizer,
            "finalizer done"
        );
    }
    Ok(Finalized::Gone)
}

/// Deletes the jobs of the repository that wait, and waits for those that run: their worker stops when it sees that the
/// repository goes, or loses its lease.
async fn remove_pending_jobs(
    controller: &Controller,
    repository: &Repository,
) -> Result<Finalized, FinalizeError> {
    const FINALIZER: &str = finalizers::REMOVE_PENDING_JOBS;
    let failed = |source| FinalizeError::Call { finalizer: FINALIZER, source };
    let name = name(repository);
    let jobs = controller.jobs(repository);
    let listed = ListRequest::of(&jobs, "list the repository's jobs", CALL).items::<Job>().await;
    let found = listed.map_err(failed)?;
    let mut running = 0;
    for job in found.items.into_iter().filter(|job| job.spec.repository == name) {
        if job.spec.action.is_orphan_cleanup() {
            continue;
        }
        if job.metadata.labels.as_ref().is_some_and(|marks| marks.contains_key(labels::CLAIM)) {
            running += 1;
            continue;
        }
        let guarded = DeleteParams {
            preconditions: Some(Preconditions {
                uid: job.metadata.uid.clone(),
                resource_version: job.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let job_name = job.metadata.name.as_deref().unwrap_or_default();
        let delete = || jobs.delete(job_name, &guarded);
        match CALL.write(format!("delete job {job_name}"), delete).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            // It was claimed just now.
            Err(error) if error.is_conflict() => running += 1,
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(if running == 0 { Finalized::Gone } else { Finalized::Waiting })
}

/// Removes or releases everything that the repository manages, and looks again whether there is something left: a worker
/// may still have been writing. `resources` becomes how many there were.
async fn delete_or_release(
    controller: &Controller,
    repository: &Repository,
    finalizer: &'static str,
    resources: &mut usize,
) -> Result<Finalized, FinalizeError> {
    let work = Finalize {
        clients: controller.resources.clone(),
        namespace: namespace(repository).to_owned(),
        repository: name(repository).to_owned(),
        workers: controller.parallel,
        timeout: ITEM,
        cancel: controller.cancel.clone(),
        on_result: std::sync::Arc::new(|_item| {}),
    };
    for _round in 0..ROUNDS {
        let outcome = if finalizer == finalizers::RELEASE_ORPHAN_RESOURCES {
            release(&work).await
        } else {
            remove(&work).await
        };
        let mut outcome = outcome.map_err(|source| FinalizeError::List { finalizer, source })?;
        if !outcome.failures.is_empty() {
            // They came in as requests ended. In one order they make one text, which is written once; what was merely
            // skipped because of another failure comes last.
            outcome.failures.sort_by_cached_key(|item| {
                let reason = item.error.as_ref().map_or("", |failure| failure.reason.as_str());
                (reason.starts_with("Skipped"), item.path.clone(), item.name.clone())
            });
            return Err(FinalizeError::Items { finalizer, failures: outcome.failures });
        }
        if outcome.cancelled {
            return Err(FinalizeError::Interrupted { finalizer });
        }
        *resources += outcome.found;
        if outcome.found == 0 {
            return Ok(Finalized::Gone);
        }
    }
    Ok(Finalized::Waiting)
}
