//! `releaseResources` and `deleteResources`: what becomes of the resources of a repository that is gone, or going.
//! Grafana: `jobs/releaseresources`, `jobs/deleteresources`.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_api::JobAction;
use windlass_resources::finalize::{self, Finalize};
use windlass_resources::{MayWrite, OnResult};

use crate::pull::{Pull, result_of};
use crate::worker::{JobContext, JobError, RepositoryNeed, Worker};

/// Requests at a time. Grafana: `releaseresources/worker.go`.
const WORKERS: usize = 10;

/// Runs `releaseResources` and `deleteResources` jobs.
pub(crate) struct Orphans(pub(crate) Pull);

#[async_trait]
impl Worker for Orphans {
    fn name(&self) -> &'static str {
        "orphans"
    }

    fn supports(&self, action: &JobAction) -> bool {
        action.is_orphan_cleanup()
    }

    fn needs(&self) -> RepositoryNeed {
        RepositoryNeed::Any
    }

    async fn run(&self, job: &JobContext) -> Result<(), JobError> {
        let name = &job.job.spec.repository;
        if job.repository.as_ref().is_some_and(|found| found.metadata.deletion_timestamp.is_none()) {
            return Err(JobError::NotOrphaned { name: name.clone() });
        }
        job.progress.message("listing managed resources");
        let progress = job.progress.clone();
        let on_result: OnResult = Arc::new(move |item| progress.record(&result_of(item)));
        let lease = job.lease.clone();
        let may_write: MayWrite = Arc::new(move || lease.valid());
        let work = Finalize {
            clients: self.0.clients.clone(),
            namespace: job.job.metadata.namespace.clone().unwrap_or_default(),
            repository: name.clone(),
            workers: WORKERS,
            timeout: self.0.change_timeout,
            cancel: job.cancel().clone(),
            on_result,
        };
        let (done, finalized) = if job.job.spec.action == JobAction::ReleaseResources {
            ("released", finalize::release_while(&work, may_write).await)
        } else {
            ("deleted", finalize::remove_while(&work, may_write).await)
        };
        let finalized = finalized.map_err(JobError::List)?;
        if finalized.cancelled {
            return Err(if job.cancel().is_cancelled() { JobError::Stopped } else { JobError::LeaseLost });
        }
        job.progress.final_message(match finalized.found {
            0 => "no managed resources found".to_owned(),
            _ => format!("{done} {} items", finalized.done),
        });
        Ok(())
    }
}
