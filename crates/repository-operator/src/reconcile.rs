//! One pass over one repository: observe, validate, plan, apply, status, and the pull that is due.

use std::sync::Arc;
use std::time::Duration;

use windlass_runtime::{Disposition, ObjectKey, Requeue};
use windlass_telemetry::ErrorChain;

use crate::apply::apply;
use crate::controller::Controller;
use crate::error::ReconcileError;
use crate::observe::observe;
use crate::plan::{Step, plan};
use crate::timing::LEAST_WAIT;
use crate::validate::validate;
use crate::{pull, status};

/// How long until a repository is looked at again that a call was refused for, and would be again.
const REFUSED: Duration = Duration::from_mins(5);

/// Brings one repository forward and says when to look at it again. Failures are logged here, once.
pub(crate) async fn reconcile(controller: Arc<Controller>, key: ObjectKey) -> Requeue {
    match pass(&controller, &key).await {
        Ok(requeue) => requeue,
        Err(error) if error.is_ordinary() => {
            tracing::debug!(repository = %key, error = %ErrorChain(&error), "the pass is made again");
            Requeue::Backoff
        }
        Err(error) => {
            controller.metrics.failed(&error);
            // What failed of a tear-down was told by its tree, with the same cause.
            if !matches!(error, ReconcileError::Finalize(_)) {
                tracing::warn!(repository = %key, error = %ErrorChain(&error), "reconcile failed");
            }
            match error.disposition() {
                // A change brings it sooner; without one it is not given up either.
                Disposition::AwaitChange => Requeue::After(REFUSED),
                Disposition::Retry | Disposition::Fatal => Requeue::Backoff,
            }
        }
    }
}

async fn pass(controller: &Controller, key: &ObjectKey) -> Result<Requeue, ReconcileError> {
    let folders = controller.folders.as_ref();
    let Some(observed) = observe(controller, key) else {
        folders.inspect(|folders| folders.forget(key));
        return Ok(Requeue::No);
    };
    folders.inspect(|folders| folders.follow(key, &observed.filled));
    let valid = validate(&observed.filled, &controller.rules);
    let plan = plan(&observed, valid, controller.timing);
    tracing::debug!(repository = %key, "{plan}");
    let applied = apply(controller, key, &observed, &plan.steps).await?;
    let current = status::write(controller, &applied).await?;
    if let Some(change) = applied.checked_with {
        controller.memory.secret_used(key, change);
    }
    if let Some(failure) = applied.failure {
        return Err(failure);
    }
    let pulled = match &applied.pull {
        Some(wanted) => {
            let change = observed.folder_change;
            Some(pull::queue(controller, key, &current, wanted, change).await?)
        }
        None => {
            // A change whose pull has to wait for its pace was not looked at yet.
            let looked = plan.steps.iter().any(|step| matches!(step, Step::Pull(_)));
            if let Some(change) = observed.folder_change.filter(|_| looked) {
                controller.memory.folder_seen(key, change);
            }
            if applied.wait.is_none() {
                controller.memory.cleared(key);
            }
            None
        }
    };
    let next = [plan.next, applied.wait, applied.again, pulled].into_iter().flatten().min();
    Ok(next.map_or(Requeue::No, |next| Requeue::After(next.max(LEAST_WAIT))))
}
