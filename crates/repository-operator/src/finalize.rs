//! Taking a repository down when it is deleted: a tree with a node for each finalizer. Grafana:
//! `controller/finalizers.go`.
//!
//! ```text
//! repository (serial)
//! ├─ remove-orphan-resources (finalizer)
//! ├─ release-orphan-resources (finalizer)
//! ├─ cleanup (finalizer)
//! └─ remove-pending-jobs (finalizer)
//! ```
//!
//! It goes down in the reverse order: no new work, then nothing of the provider's, then the resources. Each finalizer is
//! taken off when it is done, so that a pass that was cut short does not begin again; names that are not ours are left to
//! their owners.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use kube::api::{DeleteParams, Preconditions};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::Instrument as _;
use windlass_api::{Job, Repository, finalizers, labels};
use windlass_provisioner::{Outcome, ProvisionError, Provisioner, Reason, Tree, Visited, leaf, serial};
use windlass_resources::finalize::{Finalize, release, remove};
use windlass_resources::{ItemResult, ListError};
use windlass_runtime::{CallError, ListRequest, ObjectKey, remove_finalizer};

use crate::controller::{CALL, Controller, name, namespace};
use crate::hook::{self, CleanUpError};

/// The deadline of one resource.
const ITEM: Duration = Duration::from_secs(15);
/// How often a pass lists what is managed: once to work it off, and once more to see that nothing is left.
const ROUNDS: usize = 2;

/// What stands in the way of a finalizer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Obstacle {
    /// A call to the API failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The finalizer is done, and could not be taken off.
    #[error("it is done, and could not be taken off")]
    TakeOff(#[source] CallError),
    /// The managed resources could not be listed.
    #[error(transparent)]
    List(#[from] ListError),
    /// The provider's side could not be cleaned up.
    #[error(transparent)]
    CleanUp(#[from] CleanUpError),
    /// Single resources, with why.
    #[error("{} resource(s) are in the way; first: {}", .0.len(), first(.0))]
    Items(Vec<ItemResult>),
    /// The tree says so itself: it could not be built, or the code of a finalizer panicked.
    #[error("{0}")]
    Tree(String),
}

fn first(failures: &[ItemResult]) -> String {
    failures.first().map_or_else(String::new, |item| {
        let why = item.error.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} {:?} ({}): {why}", item.kind_name(), item.name, item.path)
    })
}

/// Why a repository cannot be deleted yet.
#[derive(Debug, thiserror::Error)]
#[error("failed to run the finalizer {finalizer}")]
pub(crate) struct FinalizeError {
    /// The finalizer that is to blame.
    pub(crate) finalizer: &'static str,
    /// What stands in its way.
    #[source]
    pub(crate) obstacle: Obstacle,
}

/// Takes the repository down as far as it goes now: [`Outcome::Ready`] once nothing of ours holds it. `current` becomes
/// the version without the finalizers that are done.
pub(crate) async fn run(
    controller: &Controller,
    key: &ObjectKey,
    current: &mut Repository,
) -> Result<Outcome, FinalizeError> {
    let nodes = finalizers::ALL.into_iter().rev().map(|finalizer| leaf(Finalizer(finalizer)));
    let tree = Tree::new(serial("repository", nodes)).map_err(|error| FinalizeError {
        finalizer: finalizers::CLEANUP,
        obstacle: Obstacle::Tree(error.to_string()),
    })?;
    let teardown = Teardown { controller, current: Mutex::new(current) };
    let span = tracing::info_span!("tear down", repository = %key);
    let visited = tree.deprovision(&teardown).instrument(span).await;
    let current = teardown.current.into_inner();
    let left = finalizers::ALL.into_iter().find(|finalizer| is_held(current, finalizer));
    visited.map_err(|error| FinalizeError {
        finalizer: left.unwrap_or_default(),
        obstacle: match error.source.map(<dyn Error + Send + Sync>::downcast::<Obstacle>) {
            Some(Ok(obstacle)) => *obstacle,
            _ => Obstacle::Tree(error.message),
        },
    })
}

/// What the nodes work with: the repository is the version without the finalizers that are done.
struct Teardown<'a> {
    controller: &'a Controller,
    current: Mutex<&'a mut Repository>,
}

/// What one finalizer holds the repository for.
struct Finalizer(&'static str);

#[async_trait]
impl<'a> Provisioner<Teardown<'a>> for Finalizer {
    fn name(&self) -> &str {
        self.0
    }

    fn kind(&self) -> &'static str {
        "finalizer"
    }

    /// A pass over a repository that stays adds all finalizers with one write.
    async fn provision(&self, _scope: &Teardown<'a>) -> Visited {
        Ok(Outcome::Ready)
    }

    async fn deprovision(&self, scope: &Teardown<'a>) -> Visited {
        let (controller, mut current) = (scope.controller, scope.current.lock().await);
        if !is_held(&current, self.0) {
            return Ok(Outcome::Ready);
        }
        let (began, mut resources) = (Instant::now(), 0);
        let done = match self.0 {
            finalizers::REMOVE_PENDING_JOBS => remove_pending_jobs(controller, &current).await,
            finalizers::CLEANUP => clean_up(controller, &current).await,
            _ => delete_or_release(controller, &current, self.0, &mut resources).await,
        };
        let done = match done {
            Ok(Outcome::Ready) => take_off(controller, &mut current, self.0).await,
            done => done,
        };
        if let Ok(Outcome::Ready) = done {
            controller.metrics.finalized(self.0, resources, began.elapsed());
        }
        done.map_err(|obstacle| {
            let message = format!("failed to run the finalizer {}", self.0);
            ProvisionError::retry(Reason::Failed, message).caused_by(obstacle)
        })
    }
}

fn is_held(repository: &Repository, finalizer: &str) -> bool {
    repository.metadata.finalizers.iter().flatten().any(|held| held == finalizer)
}

async fn take_off(
    controller: &Controller,
    current: &mut Repository,
    finalizer: &'static str,
) -> Result<Outcome, Obstacle> {
    let api = controller.repositories(current);
    match remove_finalizer(&api, current, finalizer, CALL).await {
        Ok(without) => *current = without,
        Err(error) if error.is_conflict() || error.is_not_found() => {
            return Ok(Outcome::wait(Reason::Deleting, "the repository was changed meanwhile"));
        }
        Err(error) => return Err(Obstacle::TakeOff(error)),
    }
    let (namespace, repository) = (namespace(current), name(current));
    tracing::info!(namespace, repository, finalizer, "finalizer done");
    Ok(Outcome::Ready)
}

/// Removes what we made at the provider.
async fn clean_up(controller: &Controller, repository: &Repository) -> Result<Outcome, Obstacle> {
    hook::remove(controller, repository).await?;
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
        on_result: std::sync::Arc::new(|_item| {}),
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
