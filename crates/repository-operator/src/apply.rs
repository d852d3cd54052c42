//! Doing the steps of a plan. What they come to is gathered as the status that is wanted, and written once at the end.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;
use windlass_api::conditions::{self, messages, reasons, types};
use windlass_api::{
    ErrorDetails, HealthErrorKind, HealthStatus, JobState, QuotaStatus, Repository, RepositoryStatus,
    finalizers,
};
use windlass_provisioner::Outcome;
use windlass_repository::check::{Checked, check, timed_out};
use windlass_repository::inspect::{Inspected, Writable, inspect};
use windlass_runtime::{ObjectKey, add_finalizers};

use crate::controller::{CALL, Controller};
use crate::finalize;
use crate::hook::{self, Tended, Wanted};
use crate::neighbours::Block;
use crate::observe::Observed;
use crate::plan::{INSPECTED_FOR, Pull, Scope, Step};
use crate::reconcile::{LEAST_WAIT, ReconcileError};
use crate::status;
use crate::token::{self, NoToken, Renewed, renewed_in};

/// What the steps came to.
pub(crate) struct Applied {
    /// The repository as it was last read or written.
    pub(crate) current: Repository,
    /// The status that `wanted` was made from.
    pub(crate) before: RepositoryStatus,
    /// What its status is to say.
    pub(crate) wanted: RepositoryStatus,
    /// Whether a delivery of the webhook did not reach us.
    missed: bool,
    /// What the specification leaves out, as the server says; written with the webhook's Secret, where one is wanted.
    left_out: Option<Value>,
    /// The change of a Secret that the repository was checked with.
    pub(crate) checked_with: Option<u64>,
    /// The pull that is due.
    pub(crate) pull: Option<WantedPull>,
    /// How long until what stands in the way is looked at again.
    pub(crate) wait: Option<Duration>,
    /// How long until the webhook is looked at again.
    pub(crate) again: Option<Duration>,
    /// What ended the pass, and is told of in the status.
    pub(crate) failure: Option<ReconcileError>,
}

/// A pull to queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WantedPull {
    pub(crate) incremental: bool,
    pub(crate) why: &'static str,
}

/// Does the steps in their order. A step that fails ends the pass; nothing is written to the status then, unless the
/// failure is a fact about the repository.
pub(crate) async fn apply(
    controller: &Controller,
    key: &ObjectKey,
    observed: &Observed,
    steps: &[Step],
) -> Result<Applied, ReconcileError> {
    let mut applied = Applied {
        current: (*observed.stored).clone(),
        before: observed.stored.status.clone(),
        wanted: observed.stored.status.clone(),
        missed: false,
        left_out: None,
        checked_with: None,
        pull: None,
        wait: None,
        again: None,
        failure: None,
    };
    controller.metrics.begun(&observed.stored);
    let generation = observed.stored.metadata.generation.unwrap_or_default();
    let mut tip = None;
    for step in steps {
        match step {
            Step::AddFinalizers(names) => {
                let api = controller.repositories(&applied.current);
                let added = add_finalizers(&api, &applied.current, names, CALL).await;
                applied.current = added.map_err(ReconcileError::Call)?;
                tracing::info!(repository = %key, finalizers = ?names, "finalizers added");
            }
            Step::RunFinalizers => {
                applied.run_finalizers(controller, key, observed.now).await?;
                return Ok(applied);
            }
            Step::Report(condition) => {
                conditions::set(&mut applied.wanted.conditions, condition.clone());
            }
            Step::Block(block) => {
                applied.wanted.be_unhealthy(&Failing::blocked(block), generation, observed.now);
            }
            Step::Reject(errors) => {
                applied.wanted.be_unhealthy(&Failing::rejected(errors), generation, observed.now);
            }
            Step::RenewToken { why } => {
                tracing::debug!(repository = %key, %why, "getting a token");
                controller.metrics.token_wanted(*why);
                let began = Instant::now();
                let renewed = token::renew(controller, &applied.current).await;
                let renewed = renewed.map_err(ReconcileError::Call)?;
                let failed = renewed.as_ref().err().map(|failed| failed.failure.reason);
                controller.metrics.token(failed, began.elapsed());
                if applied.record_token(controller, key, renewed) {
                    return Ok(applied);
                }
            }
            Step::Inspect { why } => {
                tracing::debug!(repository = %key, why, "asking the server about the repository");
                let inspected = inspect_in_time(controller, &observed.filled).await?;
                applied.record_inspection(controller, key, inspected, &observed.filled);
                let is_hooked = matches!(observed.hook, Wanted::Hook { .. })
                    && steps.iter().any(|step| matches!(step, Step::TendHook { .. }));
                if !is_hooked && let Some(left_out) = applied.left_out.take() {
                    let (core, api) = (&controller.clients.core, controller.repositories(&applied.current));
                    let completed = hook::complete(core, &api, &applied.current, Some(left_out), false).await;
                    if let Some(completed) = completed.map_err(ReconcileError::Call)? {
                        applied.begin_anew(completed);
                        return Ok(applied);
                    }
                }
            }
            Step::TendHook { why } => {
                tracing::debug!(repository = %key, why, "tending the webhook");
                let left_out = applied.left_out.take();
                let anew = observed.ages.secret_changed.is_some();
                let tended = hook::tend(controller, &applied.current, &observed.hook, left_out, anew).await;
                if applied.record_hook(controller, key, tended.map_err(ReconcileError::Call)?) {
                    return Ok(applied);
                }
            }
            Step::Check { why } => {
                tracing::debug!(repository = %key, why, "checking the repository");
                let checked = check_in_time(controller, &observed.filled).await?;
                let now = controller.clock.now();
                if let Some(wait) = checked.retry_after {
                    controller.memory.limited(key, observed.stored.metadata.generation, wait);
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
        applied.wanted.observed_generation = generation;
    }
    Ok(applied)
}

/// The check under its deadline: a server that never answers makes the repository unhealthy, and holds up no other.
async fn check_in_time(controller: &Controller, repository: &Repository) -> Result<Checked, ReconcileError> {
    let (cancel, began) = (controller.cancel.child_token(), Instant::now());
    let work = check(&controller.opener, &controller.clients.core, repository, &controller.rules, &cancel);
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

/// Asks the repository's server about it, in the time that a check may take.
async fn inspect_in_time(
    controller: &Controller,
    repository: &Repository,
) -> Result<Inspected, ReconcileError> {
    let cancel = controller.cancel.child_token();
    let work = inspect(&controller.opener, &controller.clients.core, repository, &cancel);
    let inspected = tokio::time::timeout(controller.check_deadline, work).await.unwrap_or_else(|_elapsed| {
        cancel.cancel();
        Inspected::timed_out(repository, controller.check_deadline)
    });
    if controller.cancel.is_cancelled() {
        return Err(ReconcileError::Interrupted);
    }
    Ok(inspected)
}

impl Applied {
    /// The repository is another one now: the pass ends, and the next begins at once.
    fn begin_anew(&mut self, repository: Repository) {
        self.current = repository;
        self.again = Some(Duration::from_secs(1));
    }

    /// Says whether the repository can be written to, and notes what its specification leaves out.
    fn record_inspection(
        &mut self,
        controller: &Controller,
        key: &ObjectKey,
        inspected: Inspected,
        repository: &Repository,
    ) {
        let generation = repository.metadata.generation;
        self.left_out = inspected.left_out(repository);
        let again = inspected.writable.as_ref().and_then(|writable| writable.again);
        let again = again.map_or(INSPECTED_FOR, |again| again.max(LEAST_WAIT));
        controller.memory.inspected(key, generation, again);
        self.again = self.again.into_iter().chain([again]).min();
        if let Some(Writable { holds, reason, message, .. }) = inspected.writable {
            let now = controller.clock.now();
            let condition = match holds {
                Some(holds) => conditions::new(types::WRITABLE, holds, reason, message, generation, now),
                None => conditions::unknown(types::WRITABLE, reason, message, generation, now),
            };
            conditions::set(&mut self.wanted.conditions, condition);
        }
    }

    /// Answers whether the repository is another one now, and the pass is made anew.
    fn record_hook(&mut self, controller: &Controller, key: &ObjectKey, tended: Tended) -> bool {
        match tended {
            Tended::Completed(completed) => {
                self.begin_anew(*completed);
                true
            }
            Tended::Known { condition, webhook, missed, again } => {
                let generation = condition.observed_generation;
                if let Some(delivery) = &missed {
                    tracing::debug!(repository = %key, delivery, "a delivery did not reach us");
                }
                self.missed = controller.memory.hook_tended(key, generation, again, missed);
                self.wanted.webhook = webhook;
                conditions::set(&mut self.wanted.conditions, *condition);
                self.again = self.again.into_iter().chain([again]).min();
                false
            }
        }
    }

    /// Answers whether the pass ends here: the repository is another one now, or has no token to be asked about with.
    fn record_token(
        &mut self,
        controller: &Controller,
        key: &ObjectKey,
        renewed: Result<Renewed, NoToken>,
    ) -> bool {
        let now = controller.clock.now();
        let status = &mut self.wanted;
        let say = |holds, reason: &str, message: String, generation| {
            conditions::new(types::TOKEN, holds, reason, message, generation, now)
        };
        match renewed {
            Ok(Renewed { repository, status: token }) => {
                let generation = repository.metadata.generation;
                let again = renewed_in(&token, now);
                controller.memory.token_asked(key, &repository, again, false);
                let until = Timestamp::from_millisecond(token.expiration).unwrap_or(Timestamp::MAX);
                let until = until.round(jiff::Unit::Second).unwrap_or(until);
                let message = format!("Token valid until {until}");
                conditions::set(&mut status.conditions, say(true, reasons::TOKEN_VALID, message, generation));
                status.token = Some(token);
                let is_another = repository.metadata.generation != self.current.metadata.generation;
                self.current = repository;
                self.again = Some(if is_another { Duration::from_secs(1) } else { again });
                is_another
            }
            Err(NoToken { failure, again }) => {
                let generation = self.current.metadata.generation;
                controller.memory.token_asked(key, &self.current, again, true);
                self.again = Some(again);
                let ends = status.token.as_ref().map_or(0, |token| token.expiration);
                let is_there = self.current.secure.token.is_set() && status.token.is_some();
                let has_ended = is_there && ends != 0 && ends <= now.as_millisecond();
                let reason = if has_ended { reasons::TOKEN_EXPIRED } else { reasons::TOKEN_INVALID };
                let message = failure.message().to_owned();
                conditions::set(&mut status.conditions, say(false, reason, message, generation));
                if is_there && !has_ended {
                    return false;
                }
                let failing = Failing { reason: failure.reason, errors: failure.errors };
                status.be_unhealthy(&failing, generation.unwrap_or_default(), now);
                status.observed_generation = generation.unwrap_or_default();
                true
            }
        }
    }

    fn record_check(&mut self, controller: &Controller, checked: &Checked, generation: i64, now: Timestamp) {
        let status = &mut self.wanted;
        if checked.results.success {
            status.health =
                HealthStatus { healthy: true, checked: now.as_millisecond(), ..HealthStatus::default() };
            status.field_errors.clear();
            let (reason, message) = (checked.reason, messages::AVAILABLE);
            let ready = conditions::new(types::READY, true, reason, message, Some(generation), now);
            conditions::set(&mut status.conditions, ready);
        } else {
            status.be_unhealthy(&Failing::checked(checked), generation, now);
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

    async fn run_finalizers(
        &mut self,
        controller: &Controller,
        key: &ObjectKey,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        let held = self.current.metadata.finalizers.clone().unwrap_or_default();
        let is_held = held.iter().any(|held| finalizers::ALL.contains(&held.as_str()));
        let finalized = finalize::run(controller, key, &mut self.current).await;
        self.before = self.current.status.clone();
        self.wanted = self.current.status.clone();
        match finalized {
            Ok(Outcome::Ready) if is_held => controller.metrics.deleted(),
            Ok(Outcome::Ready) => {}
            _ if controller.cancel.is_cancelled() => return Err(ReconcileError::Interrupted),
            Ok(Outcome::Yield { .. }) => self.wait = Some(controller.memory.obstructed(key)),
            Err(error) => {
                controller.metrics.deletion_failed(&error);
                let generation = self.current.metadata.generation.unwrap_or_default();
                status::report_blocked(&mut self.wanted, &error, generation, now);
                self.failure = Some(ReconcileError::Finalize(error));
            }
        }
        Ok(())
    }
}

/// Why a repository is not healthy.
pub(crate) struct Failing {
    pub(crate) reason: &'static str,
    pub(crate) errors: Vec<ErrorDetails>,
}

impl Failing {
    fn blocked(block: &Block) -> Self {
        let error = ErrorDetails {
            kind: "FieldValueForbidden".to_owned(),
            field: block.field.to_owned(),
            detail: block.message.clone(),
            ..ErrorDetails::default()
        };
        Self { reason: block.reason, errors: vec![error] }
    }

    fn rejected(errors: &[ErrorDetails]) -> Self {
        Self { reason: reasons::INVALID_SPEC, errors: errors.to_vec() }
    }

    fn checked(checked: &Checked) -> Self {
        Self { reason: checked.reason, errors: checked.results.errors.clone() }
    }
}

/// Writing into a status that the repository is not healthy.
pub(crate) trait BeUnhealthy {
    /// Health, the `Ready` condition and the errors by field.
    fn be_unhealthy(&mut self, failing: &Failing, generation: i64, now: Timestamp);
}

impl BeUnhealthy for RepositoryStatus {
    fn be_unhealthy(&mut self, failing: &Failing, generation: i64, now: Timestamp) {
        let details: Vec<String> = failing
            .errors
            .iter()
            .map(|error| error.detail.clone())
            .filter(|detail| !detail.is_empty())
            .collect();
        let message = details.first().cloned().unwrap_or_else(|| messages::UNAVAILABLE.to_owned());
        self.health = HealthStatus {
            healthy: false,
            error: Some(HealthErrorKind::Health),
            checked: now.as_millisecond(),
            message: details,
            retry_at: 0,
        };
        self.field_errors.clone_from(&failing.errors);
        let ready = conditions::new(types::READY, false, failing.reason, message, Some(generation), now);
        conditions::set(&mut self.conditions, ready);
    }
}
