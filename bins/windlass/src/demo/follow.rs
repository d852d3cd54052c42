//! Follows one job from the queue into history.

use std::pin::pin;
use std::time::Instant;

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use windlass_api::{HistoricJob, Job, JobState, JobStatus, labels};

use super::remote::NAMESPACE;
use super::screen::Screen;

/// What became of a job, and when.
pub(crate) struct Followed {
    /// When it was first seen to be claimed; its end, if it was quicker than the watch.
    pub(crate) claimed: Instant,
    /// When it was gone from the queue.
    pub(crate) ended: Instant,
    /// The status that history holds.
    pub(crate) status: JobStatus,
}

/// Shows the job's progress until it is gone from the queue, then reads what history says of it.
pub(crate) async fn job(client: &Client, job: &Job, screen: &Screen) -> Result<Followed> {
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    let name = job.name_any();
    let uid = job.uid().unwrap_or_default();
    let progress = screen.progress();
    let mut claimed = None;
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = pin!(watcher(jobs, config));
    while let Some(event) = events.try_next().await.context("failed to watch the job")? {
        match event {
            watcher::Event::Apply(job) | watcher::Event::InitApply(job)
                if job.uid().as_deref() == Some(&*uid) =>
            {
                if job.status.state == JobState::Working {
                    claimed.get_or_insert_with(Instant::now);
                }
                progress.show(&job.status);
            }
            watcher::Event::Delete(gone) if gone.uid().as_deref() == Some(&*uid) => break,
            // The first list is complete: a job that was not in it has ended already.
            watcher::Event::InitDone if progress.is_untouched() => break,
            _ => {}
        }
    }
    let ended = Instant::now();
    let history: Api<HistoricJob> = Api::namespaced(client.clone(), NAMESPACE);
    let selector = format!("{}={uid}", labels::ORIGINAL_UID);
    let filed =
        history.list(&ListParams::default().labels(&selector)).await.context("failed to read history")?;
    let filed = filed.items.into_iter().next().context("the job is neither queued nor in history")?;
    progress.finish();
    Ok(Followed { claimed: claimed.unwrap_or(ended), ended, status: filed.status })
}
