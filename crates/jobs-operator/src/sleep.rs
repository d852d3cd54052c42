//! `test`: a job that takes its time and does nothing, for trying the queue. Grafana: `jobs/test`.

use async_trait::async_trait;
use windlass_api::{JobAction, jobs::DEFAULT_TEST_UPDATES};

use crate::worker::{JobContext, JobError, Worker};

/// Sleeps for `spec.test.duration` and reports `spec.test.progressUpdates` times on the way, evenly.
pub(crate) struct Sleep;

#[async_trait]
impl Worker for Sleep {
    fn name(&self) -> &'static str {
        "test"
    }

    fn supports(&self, action: &JobAction) -> bool {
        *action == JobAction::Test
    }

    async fn run(&self, context: &JobContext) -> Result<(), JobError> {
        let options =
            context.job.spec.test.as_ref().ok_or(JobError::MissingOptions { field: "spec.test" })?;
        let updates = match options.progress_updates {
            0 => DEFAULT_TEST_UPDATES,
            wanted => wanted,
        };
        let updates = u32::try_from(updates.clamp(1, 1000)).unwrap_or(1);
        let step = options.duration.to_std().unwrap_or_default() / updates;
        for update in 1..=updates {
            let slept = context.cancel().run_until_cancelled(tokio::time::sleep(step)).await;
            slept.ok_or(JobError::Stopped)?;
            context.progress.message(format!("slept {update} of {updates} steps"));
        }
        context.progress.final_message(format!("performance-test job slept for {}", options.duration));
        Ok(())
    }
}
