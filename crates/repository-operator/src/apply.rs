//! Doing the steps of a plan. What they come to is gathered as the status that is wanted, and written once at the end.

use jiff::Timestamp;
use tokio::time::Instant;
use windlass_api::conditions::{self, messages, types};
use windlass_api::{JobState, QuotaStatus, Repository};
use windlass_repository::check::{Checked, check_source, timed_out};
use windlass_runtime::ObjectKey;

use crate::applied::{Applied, WantedPull};
use crate::controller::Controller;
use crate::error::ReconcileError;
use crate::observe::Observed;
use crate::plan::{Pull, Scope, Step};
use crate::tree;
use crate::unhealthy::{Failure, be_unhealthy, healthy};

/// Does the steps in their order. A step that fails ends the pass; nothing is written to the status then, unless the
/// failure is a fact about the repository.
pub(crate) async fn apply(
    controller: &Controller,
    key: &ObjectKey,
    observed: &Observed,
    steps: &[Step],
) -> Result<Applied, ReconcileError> {
    let mut applied = Applied::new(&observed.stored);
    controller.metrics.begun(&observed.stored);
    let generation = observed.stored.metadata.generation;
    let mut tip = None;
    for step in steps {
        match step {
            Step::RunFinalizers => {
                tree::take_down(controller, key, observed, &mut applied).await?;
                return Ok(applied);
            }
            Step::BringUp(due) => {
                if !tree::bring_up(controller, key, observed, due, &mut applied).await?.is_ready() {
                    return Ok(applied);
                }
            }
            Step::Report(condition) => {
                conditions::set(&mut applied.wanted.conditions, condition.clone());
            }
            Step::Refuse(failure) => {
                be_unhealthy(&mut applied.wanted, failure.clone(), generation, observed.now);
            }
            Step::Check { why } => {
                tracing::debug!(repository = %key, why, "checking the repository");
                let checked = check_in_time(controller, &observed.filled).await?;
                let now = controller.clock.now();
                if let Some(wait) = checked.retry_after {
                    controller.memory.limited(key, generation, wait);
                }
                applied.record_check(controller, &checked, generation, now);
                applied.checked_with = observed.ages.secret_changed;
                tip = checked.revision.map(|revision| revision.as_str().to_owned());
                let pulls = steps.iter().any(|step| matches!(step, Step::Pull(_)));
                if !pulls && applied.is_in_step(tip.as_deref()) {
                    applied.was_unchanged(controller, key);
                }
            }
            Step::Pull(pull) => applied.want(controller, key, pull, tip.as_deref()),
        }
    }
    if applied.missed && applied.pull.is_none() && observed.filled.spec.sync.enabled {
        let pull = Pull { scope: Scope::Incremental, why: "a webhook's delivery did not reach us" };
        applied.want(controller, key, &pull, tip.as_deref());
    }
    if !steps.is_empty() {
        applied.wanted.observed_generation = generation.unwrap_or_default();
    }
    Ok(applied)
}

/// The check under its deadline: a server that never answers makes the repository unhealthy, and holds up no other.
async fn check_in_time(controller: &Controller, repository: &Repository) -> Result<Checked, ReconcileError> {
    let (cancel, began) = (controller.cancel.child_token(), Instant::now());
    let work = check_source(&controller.opener, &controller.clients.core, repository, &cancel);
    let checked = match tokio::time::timeout(controller.check_deadline, work).await {
        Ok(checked) => checked,
        Err(_elapsed) => {
            cancel.cancel();
            timed_out(repository, controller.check_deadline)
        }
    };
    // A check that failed because we are told to stop says nothing about the repository.
    if !checked.results.success && controller.cancel.is_cancelled() {
        return Err(ReconcileError::Interrupted);
    }
    let failed = (!checked.results.success).then_some(checked.reason);
    controller.metrics.checked(failed, began.elapsed());
    Ok(checked)
}

impl Applied {
    fn record_check(
        &mut self,
        controller: &Controller,
        checked: &Checked,
        generation: Option<i64>,
        now: Timestamp,
    ) {
        let status = &mut self.wanted;
        if checked.results.success {
            status.health = healthy(now);
            status.field_errors.clear();
            let (reason, message) = (checked.reason, messages::AVAILABLE);
            let ready = conditions::new(types::READY, true, reason, message, generation, now);
            conditions::set(&mut status.conditions, ready);
        } else {
            let failure = Failure { reason: checked.reason, errors: checked.results.errors.clone() };
            be_unhealthy(status, failure, generation, now);
            let wait = checked.retry_after.map_or(0, |wait| i64::try_from(wait.as_millis()).unwrap_or(0));
            status.health.retry_at = if wait == 0 { 0 } else { now.as_millisecond().saturating_add(wait) };
        }
        status.quota = Some(QuotaStatus { updated_at: now.as_millisecond(), ..controller.limits.clone() });
    }

    /// Whether the source is where a pull left it that left nothing undone.
    fn is_in_step(&self, tip: Option<&str>) -> bool {
        let sync = &self.wanted.sync;
        sync.state == JobState::Success && tip.is_some_and(|tip| tip == sync.last_ref)
    }

    /// Its source is where the last pull left it.
    fn was_unchanged(&mut self, controller: &Controller, key: &ObjectKey) {
        self.wanted.sync.checked = controller.clock.now().as_millisecond();
        controller.memory.unchanged(key);
    }

    /// Decides on the pull, now that health and tip are known. One that is wanted is marked as pending, so that it is
    /// not lost when the process ends before it is queued.
    fn want(&mut self, controller: &Controller, key: &ObjectKey, pull: &Pull, tip: Option<&str>) {
        let status = &mut self.wanted;
        if !status.health.healthy {
            return;
        }
        let incremental = match &pull.scope {
            Scope::Full => false,
            Scope::IfChanged(last) if tip == Some(last) => {
                self.was_unchanged(controller, key);
                return;
            }
            Scope::Incremental | Scope::IfChanged(_) => true,
        };
        if status.sync.state != JobState::Working {
            status.sync.state = JobState::Pending;
            status.sync.started = 0;
            status.sync.incremental = incremental;
        }
        self.pull = Some(WantedPull { incremental, why: pull.why });
    }
}
