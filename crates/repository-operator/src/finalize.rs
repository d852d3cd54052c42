//! What the finalizers of a repository do before it goes. Grafana: `controller/finalizers.go`.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{DeleteParams, Preconditions};
use tokio::time::Instant;
use windlass_api::{Job, Repository, finalizers, labels};
use windlass_provisioner::{Outcome, Reason};
use windlass_resources::finalize::{Finalize, release, remove};
use windlass_runtime::{ListRequest, remove_finalizer};

use crate::controller::{CALL, Controller, name, namespace};
use crate::error::Obstacle;
use crate::hook;

/// How long requests for one resource may begin.
const ITEM: Duration = Duration::from_secs(15);
/// How often a pass lists what is managed: once to work it off, and once more to see that nothing is left.
const ROUNDS: usize = 2;

/// Does what a finalizer is for, if it is there, and takes it off: `current` becomes the version without it.
pub(crate) async fn run(
    controller: &Controller,
    finalizer: &'static str,
    current: &mut Arc<Repository>,
) -> Result<Outcome, Obstacle> {
    if !is_held(current, finalizer) {
        return Ok(Outcome::Ready);
    }
    let (began, mut resources) = (Instant::now(), 0);
    let mut done = match finalizer {
        finalizers::REMOVE_PENDING_JOBS => remove_pending_jobs(controller, current).await?,
        finalizers::CLEANUP => {
            hook::remove(controller, current).await?;
            Outcome::Ready
        }
        _ => delete_or_release(controller, current, finalizer, &mut resources).await?,
    };
    if done.is_ready() {
        done = take_off(controller, current, finalizer).await?;
    }
    if done.is_ready() {
        controller.metrics.finalized(finalizer, resources, began.elapsed());
    }
    Ok(done)
}

/// Whether the repository has the finalizer.
pub(crate) fn is_held(repository: &Repository, finalizer: &str) -> bool {
    repository.metadata.finalizers.iter().flatten().any(|held| held == finalizer)
}

async fn take_off(
    controller: &Controller,
    current: &mut Arc<Repository>,
    finalizer: &'static str,
) -> Result<Outcome, Obstacle> {
    let api = controller.repositories(current);
    match remove_finalizer(&api, &**current, finalizer, CALL).await {
        Ok(without) => *current = Arc::new(without),
        Err(error) if error.is_conflict() || error.is_not_found() => {
            return Ok(Outcome::wait(Reason::Deleting, "the repository was changed meanwhile"));
        }
        Err(error) => return Err(Obstacle::TakeOff(error)),
    }
    let (namespace, repository) = (namespace(current), name(current));
    tracing::info!(namespace, repository, finalizer, "finalizer done");
    Ok(Outcome::Ready)
}

/// Deletes the jobs of the repository that wait, and waits for those that run: their worker stops when it sees that the
/// repository goes, or loses its lease.
async fn remove_pending_jobs(controller: &Controller, repository: &Repository) -> Result<Outcome, Obstacle> {
    let name = name(repository);
    let jobs = controller.jobs(repository);
    let listed = ListRequest::of(&jobs, "list the repository's jobs", CALL).items::<Job>().await?;
    let mut running = 0;
    for job in listed.items.into_iter().filter(|job| job.spec.repository == name) {
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
            Err(error) => return Err(error.into()),
        }
    }
    Ok(match running {
        0 => Outcome::Ready,
        _ => Outcome::wait(Reason::Deleting, format!("{running} job(s) are running")),
    })
}

/// Removes or releases everything that the repository manages, and looks again whether there is something left: a worker
/// may still have been writing. `resources` becomes how many there were.
async fn delete_or_release(
    controller: &Controller,
    repository: &Repository,
    finalizer: &str,
    resources: &mut usize,
) -> Result<Outcome, Obstacle> {
    let work = Finalize {
        clients: controller.resources.clone(),
        namespace: namespace(repository).to_owned(),
        repository: name(repository).to_owned(),
        workers: controller.parallel,
        timeout: ITEM,
        cancel: controller.cancel.clone(),
        on_result: Arc::new(|_item| {}),
    };
    for _round in 0..ROUNDS {
        let mut outcome = if finalizer == finalizers::RELEASE_ORPHAN_RESOURCES {
            release(&work).await?
        } else {
            remove(&work).await?
        };
        if !outcome.failures.is_empty() {
            // They came in as requests ended. In one order they make one text, which is written once; what was merely
            // skipped because of another failure comes last.
            outcome.failures.sort_by_cached_key(|item| {
                let reason = item.error.as_ref().map_or("", |failure| failure.reason.as_str());
                (reason.starts_with("Skipped"), item.path.clone(), item.name.clone())
            });
            return Err(Obstacle::Items(outcome.failures));
        }
        if outcome.cancelled {
            return Ok(Outcome::wait(Reason::Deleting, "it was cut short"));
        }
        *resources += outcome.found;
        if outcome.found == 0 {
            return Ok(Outcome::Ready);
        }
    }
    Ok(Outcome::wait(Reason::Deleting, "resources are still there"))
}
