//! The operator: which tasks it consists of.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_launch::{Context, Launch};
use windlass_runtime::{BoxError, Operator, Registry};

use crate::options::needs;

/// How long each commit took from merge to applied.
pub const FLUX_COMMIT_TRACKER: &str = windlass_settings::COMMIT_TRACKER;

/// Adds the operator of this crate to a binary's.
pub fn register(registry: Registry<Context>) -> Registry<Context> {
    registry.with(FLUX_COMMIT_TRACKER, || Box::new(CommitTracker))
}

/// Says what the operator needs of its process.
pub fn configure(launch: Launch) -> Launch {
    launch.needs(FLUX_COMMIT_TRACKER, needs())
}

/// The operator.
pub struct CommitTracker;

#[async_trait]
impl Operator<Context> for CommitTracker {
    fn name(&self) -> &'static str {
        FLUX_COMMIT_TRACKER
    }

    async fn run(self: Box<Self>, process: Arc<Context>) -> Result<(), BoxError> {
        let settings = process.settings.commit_tracker();
        let own = process.clients.core.default_namespace();
        let namespace = settings.state_namespace.as_deref().unwrap_or(own);
        let election = process.election_for(namespace, &settings.state_name)?;
        election.run(process.health.clone(), process.supervisor.token().clone()).await;
        Ok(())
    }
}
