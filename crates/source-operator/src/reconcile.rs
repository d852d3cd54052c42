//! One pass over one source: observe, validate, plan, apply, status.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng as _;
use tokio::time::Instant;
use windlass_api::conditions;
use windlass_api::flux::{FINALIZER, GitRepository};
use windlass_artifact::Place;
use windlass_runtime::{CallError, ObjectKey, Requeue, add_finalizers, remove_finalizer};
use windlass_telemetry::{ErrorChain, traced};

use crate::apply::{Done, apply};
use crate::calls::CALL;
use crate::controller::{Controller, KIND};
use crate::failure::{NextTry, types};
use crate::metrics::stage;
use crate::observe::{Observed, observe};
use crate::status::{PassOutcome, conclude, now, write};
use crate::validate::interval;

/// Brings one source forward and says when to look at it again. Failures are logged here, once.
pub(crate) async fn reconcile(controller: Arc<Controller>, key: ObjectKey) -> Requeue {
    let begun = Instant::now();
    let span = tracing::info_span!("reconcile", source = %key);
    let requeue = match traced(span, Box::pin(pass(&controller, &key))).await {
        Ok(requeue) => requeue,
        Err(error) if error.is_conflict() || error.is_not_found() || error.is_fenced() => Requeue::Backoff,
        Err(error) => {
            controller.metrics.failed("Api");
            tracing::warn!(source = %key, error = %ErrorChain(&error), "reconcile failed");
            Requeue::Backoff
        }
    };
    controller.metrics.passed(&key, begun.elapsed());
    requeue
}

async fn pass(controller: &Controller, key: &ObjectKey) -> Result<Requeue, CallError> {
    let mut observed = match stage!(controller.metrics, "observe", observe(controller, key)).await {
        Ok(Some(observed)) => observed,
        Ok(None) => return Ok(Requeue::No),
        Err(failure) => {
            tracing::warn!(source = %key, failure.message, "failed to look at the stored artifact");
            return Ok(Requeue::Backoff);
        }
    };
    if observed.object.metadata.deletion_timestamp.is_some() {
        return delete(controller, key, &observed.object).await;
    }
    let held = [FINALIZER.to_owned()];
    let api = controller.api(&observed.object);
    let object = add_finalizers(&api, &*observed.object, &held, CALL).await?;
    observed.object = Arc::new(object);
    let outcome = work(controller, key, &observed).await;
    if controller.cancel.is_cancelled() && matches!(outcome, PassOutcome::Failed { .. }) {
        // It was cut short, which says nothing about the source.
        return Ok(Requeue::Backoff);
    }
    let status = conclude(&observed.object, &outcome, now(controller));
    stage!(controller.metrics, "write_status", write(controller, &observed.object, &status)).await?;
    tell(controller, key, &GitRepository { status, ..(*observed.object).clone() }, &observed, &outcome);
    Ok(next(controller, &observed, &outcome))
}

async fn work(controller: &Controller, key: &ObjectKey, observed: &Observed) -> PassOutcome {
    if observed.object.spec.suspend {
        return PassOutcome::Suspended;
    }
    let done = match &observed.collected {
        Ok(()) => apply(controller, key, observed).await,
        Err(failure) => Err(failure.clone()),
    };
    match done {
        Ok(done) => PassOutcome::Stored(done),
        Err(failure) => PassOutcome::Failed { failure, stored: observed.stored },
    }
}

async fn delete(
    controller: &Controller,
    key: &ObjectKey,
    object: &GitRepository,
) -> Result<Requeue, CallError> {
    if let Some(place) = Place::new(KIND, &key.namespace, &key.name)
        && let Err(failure) = controller.builder.blocking(move |store| store.remove(&place)).await
    {
        tracing::warn!(source = %key, failure.message, "failed to remove the artifacts of a source");
        controller.notifier.warn(object, failure.reason, &failure.message);
        return Ok(Requeue::Backoff);
    }
    remove_finalizer(&controller.api(object), object, FINALIZER, CALL).await?;
    Ok(Requeue::No)
}

/// Says what happened to those who want to know.
fn tell(
    controller: &Controller,
    key: &ObjectKey,
    after: &GitRepository,
    observed: &Observed,
    outcome: &PassOutcome,
) {
    let (notifier, before) = (&controller.notifier, &observed.object.status);
    match outcome {
        PassOutcome::Suspended => {}
        PassOutcome::Stored(Done { artifact, made, .. }) => {
            let failing = [types::FETCH_FAILED, types::STORAGE_FAILED, types::INCLUDE_UNAVAILABLE];
            let is_recovered = failing.iter().any(|kind| conditions::is_true(&before.conditions, kind));
            let is_new = before.artifact.as_ref().is_none_or(|known| known.digest != artifact.digest);
            let text = format!("stored artifact for revision '{}'", artifact.revision);
            if *made {
                controller.metrics.published();
                tracing::info!(source = %key, revision = artifact.revision, digest = artifact.digest, "stored an artifact");
            }
            if is_new {
                notifier.tell(after, "NewArtifact", &text);
            } else if is_recovered {
                notifier.tell(after, "Succeeded", &text);
            } else if !made {
                // In every interval, as Flux does; what repeats is one Event with a count.
                let revision = &artifact.revision;
                let text = format!("no changes since last reconciliation: observed revision '{revision}'");
                notifier.trace(after, "GitOperationSucceeded", &text);
            }
        }
        PassOutcome::Failed { failure, .. } => {
            controller.metrics.failed(failure.reason);
            tracing::warn!(source = %key, reason = failure.reason, failure.message, "no artifact was made");
            match failure.next_try {
                NextTry::Wait => notifier.trace(after, failure.reason, &failure.message),
                _ => notifier.warn(after, failure.reason, &failure.message),
            }
        }
    }
}

fn next(controller: &Controller, observed: &Observed, outcome: &PassOutcome) -> Requeue {
    let jitter = f64::from(controller.settings.interval_jitter_percentage) / 100.0;
    let interval = interval(&observed.object.spec);
    match outcome {
        PassOutcome::Suspended => Requeue::No,
        PassOutcome::Stored(_) => Requeue::After(jittered(interval, jitter, rand::rng().random())),
        PassOutcome::Failed { failure, .. } => match failure.next_try {
            NextTry::Retry => Requeue::Backoff,
            NextTry::Wait => Requeue::After(controller.settings.requeue_dependency),
            NextTry::Stall => Requeue::No,
        },
    }
}

/// The interval, a share of it shorter or longer; `chance` is within 0 and 1.
fn jittered(interval: Duration, share: f64, chance: f64) -> Duration {
    interval.mul_f64(1.0 + share * (2.0 * chance - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_vary_by_the_share_that_is_set() {
        let minute = Duration::from_mins(1);
        assert_eq!(jittered(minute, 0.05, 0.0), Duration::from_secs(57));
        assert_eq!(jittered(minute, 0.05, 1.0), Duration::from_secs(63));
        assert_eq!(jittered(minute, 0.0, 0.7), minute);
    }
}
