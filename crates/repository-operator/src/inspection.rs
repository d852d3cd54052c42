//! What a repository's server says beside its files: whether it can be written to, and what the specification leaves out.

use windlass_api::Repository;
use windlass_api::conditions::{self, types};
use windlass_provisioner::Outcome;
use windlass_repository::inspect::{Inspected, Writable, inspect};
use windlass_runtime::ObjectKey;

use crate::applied::Applied;
use crate::controller::Controller;
use crate::error::ReconcileError;
use crate::timing::{INSPECTED_FOR, LEAST_WAIT};

/// Asks the server. What the specification leaves out is noted; it is written with the webhook's Secret.
pub(crate) async fn provision(
    controller: &Controller,
    key: &ObjectKey,
    repository: &Repository,
    applied: &mut Applied,
    why: &'static str,
) -> Result<Outcome, ReconcileError> {
    tracing::debug!(repository = %key, why, "asking the server about the repository");
    let cancel = controller.cancel.child_token();
    let work = inspect(&controller.opener, &controller.clients.core, repository, &cancel);
    let inspected = tokio::time::timeout(controller.check_deadline, work).await.unwrap_or_else(|_elapsed| {
        cancel.cancel();
        Inspected::timed_out(repository, controller.check_deadline)
    });
    if controller.cancel.is_cancelled() {
        return Err(ReconcileError::Interrupted);
    }
    let generation = repository.metadata.generation;
    applied.left_out = inspected.left_out(repository);
    let again = inspected.writable.as_ref().and_then(|writable| writable.again);
    let again = again.map_or(INSPECTED_FOR, |again| again.max(LEAST_WAIT));
    controller.memory.inspected(key, generation, again);
    applied.look_again(again);
    if let Some(Writable { holds, reason, message, .. }) = inspected.writable {
        let now = controller.clock.now();
        let condition = match holds {
            Some(holds) => conditions::new(types::WRITABLE, holds, reason, message, generation, now),
            None => conditions::unknown(types::WRITABLE, reason, message, generation, now),
        };
        conditions::set(&mut applied.wanted.conditions, condition);
    }
    Ok(Outcome::Ready)
}
