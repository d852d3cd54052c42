//! What a repository is due for: a list of steps, made from what was observed. Pure, and with `due.rs`, which
//! has the rules of what is brought up, the one place with rules about time. Grafana: `controller/repository.go`, `determineSyncStrategy`.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::conditions::{self, reasons, types};
use windlass_api::repositories::is_pending_delete;
use windlass_api::{ErrorDetails, JobState, Repository, UnsyncedStatus, Workflow};

use crate::bring_up::BringUp;
use crate::due::{Due, SECRET_CHANGED, hook_due, inspection_due, token_due};
use crate::neighbours::is_block;
use crate::observe::Observed;
use crate::timing::{Timing, UNHEALTHY_FOR, health_lasts};
use crate::unhealthy::Failure;
use crate::validate::Valid;

/// How long until a repository is looked at again that waits for others: their changes bring it sooner.
const BLOCKED_FOR: Duration = Duration::from_mins(5);

/// How often it is noted at most that a delivery came.
const EVENTS_NOTED: Duration = Duration::from_mins(1);

/// The least time between two syncs of a local repository whose folder keeps changing.
const FOLDER_PACE: Duration = Duration::from_secs(10);

/// One thing to do. Steps are done in their order; a failure ends the pass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// The repository is being deleted: run its finalizers.
    RunFinalizers,
    /// Say so in a condition.
    Report(Condition),
    /// Neither checked nor synced, and not healthy: other repositories come first, or the specification breaks rules.
    Refuse(Failure),
    /// Bring up what it needs before its source is asked. The pass ends where that is not up yet.
    BringUp(BringUp),
    /// Ask the source whether it can be read, and where its branch is.
    Check {
        /// Why, for the log.
        why: &'static str,
    },
    /// Queue a pull, if the repository is healthy by then.
    Pull(Pull),
}

/// A pull that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pull {
    /// What it compares.
    pub(crate) scope: Scope,
    /// Why, for the log.
    pub(crate) why: &'static str,
}

/// What a pull compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything.
    Full,
    /// The difference to the last pull, which left something undone.
    Incremental,
    /// The difference to the last pull; none is made when the source is still at this ref.
    IfChanged(String),
}

/// What a pass does, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// The steps.
    pub(crate) steps: Vec<Step>,
    /// When something else is due, if nothing changes; never for a repository that is left alone.
    pub(crate) next: Option<Duration>,
}

/// What is due now.
pub(crate) fn plan(observed: &Observed, valid: Result<Valid<'_>, Vec<ErrorDetails>>, timing: Timing) -> Plan {
    if observed.filled.metadata.deletion_timestamp.is_some() {
        return Plan { steps: vec![Step::RunFinalizers], next: None };
    }
    if is_pending_delete(&observed.filled) {
        return Plan { steps: Vec::new(), next: None };
    }
    let mut up = BringUp { finalizers: observed.missing_finalizers.clone(), ..BringUp::default() };
    let mut steps = Vec::new();
    let block = observed.standing.block(timing.max_repositories).map(|block| (block, BLOCKED_FOR));
    let refused = |errors| (Failure { reason: reasons::INVALID_SPEC, errors }, UNHEALTHY_FOR);
    let next = match block.map_or_else(|| valid.map_err(refused), Err) {
        Ok(Valid(repository)) => check_and_pull(repository, observed, timing, &mut up, &mut steps),
        Err((failure, again)) => {
            if !is_said(&observed.stored, &failure) {
                steps.push(Step::Refuse(failure));
            }
            again
        }
    };
    if up != BringUp::default() {
        steps.insert(0, Step::BringUp(up));
    }
    let reports = reports(observed, timing, !steps.is_empty());
    steps.splice(0..0, reports);
    Plan { steps, next: Some(next) }
}

/// The conditions that have to be written. The number in a quota's text is worth no write of its own.
fn reports(observed: &Observed, timing: Timing, writes: bool) -> impl Iterator<Item = Step> {
    let generation = observed.stored.metadata.generation;
    let conditions = &observed.stored.status.conditions;
    let quota = observed.standing.namespace_quota(timing.max_repositories, generation, observed.now);
    let path = observed.standing.path_conflict(generation, observed.now);
    let differs = |wanted: &Condition, with_text: bool| {
        conditions::find(conditions, &wanted.type_).is_none_or(|found| {
            (&found.status, &found.reason, found.observed_generation)
                != (&wanted.status, &wanted.reason, wanted.observed_generation)
                || (with_text && found.message != wanted.message)
        })
    };
    let quota = differs(&quota, writes).then_some(quota);
    let path = differs(&path, true).then_some(path);
    let writable = conditions::find(conditions, types::WRITABLE)
        .filter(|_| !observed.filled.spec.workflows.contains(&Workflow::Write))
        .map(|_| not_written(generation, observed.now))
        .filter(|wanted| differs(wanted, true));
    [quota, path, writable].into_iter().flatten().map(Step::Report)
}

/// What is said of a repository that was written to before.
fn not_written(generation: Option<i64>, now: Timestamp) -> Condition {
    let message = "\"write\" is not among spec.workflows";
    conditions::new(types::WRITABLE, false, reasons::READ_ONLY, message, generation, now)
}

/// Plans what is to be brought up, the check and the pull that are due, and answers when the next is.
fn check_and_pull(
    repository: &Repository,
    observed: &Observed,
    timing: Timing,
    up: &mut BringUp,
    steps: &mut Vec<Step>,
) -> Duration {
    let (status, ages) = (&observed.stored.status, &observed.ages);
    let secret_changed = ages.secret_changed.map(|_change| SECRET_CHANGED);
    let mut check = secret_changed.or_else(|| check_due(&observed.stored, ages.checked, ages.limited));
    let mut next = health_lasts(status.health.healthy);
    up.token = token_due(observed).now(&mut next);
    up.inspection = inspection_due(observed).now(&mut next);
    up.webhook = hook_due(observed).now(&mut next);
    if up.token.is_some() && !status.health.healthy {
        check = check.or(Some("it gets a token"));
    }
    if check.is_none() {
        let left = health_lasts(status.health.healthy).saturating_sub(ages.checked.unwrap_or_default());
        next = next.min(left.max(ages.limited));
    }
    let pull =
        if repository.spec.sync.enabled { pull_due(observed, timing, check.is_some()) } else { Due::Never };
    let pull = pull.now(&mut next);
    if let Some(pull) = &pull {
        next = next.min(timing.interval(repository));
        if matches!(pull.scope, Scope::IfChanged(_)) {
            check = check.or(Some(pull.why));
        }
    }
    steps.extend(check.map(|why| Step::Check { why }));
    steps.extend(pull.map(Step::Pull));
    next
}

/// `limited` is how long the server wants to be left alone, which the answer of the last check was.
fn check_due(repository: &Repository, age: Option<Duration>, limited: Duration) -> Option<&'static str> {
    let Some(age) = age else { return Some("it was never checked") };
    let Some(ready) = conditions::find(&repository.status.conditions, types::READY) else {
        return Some("what its last check came to is not known");
    };
    if ready.observed_generation != repository.metadata.generation {
        Some("the specification changed")
    } else if is_block(&ready.reason) {
        Some("no other repository is in its way any more")
    } else if age >= health_lasts(repository.status.health.healthy) && limited.is_zero() {
        Some("the last check is old")
    } else {
        None
    }
}

/// Only what is written in the status decides, never what this pass does: a pass that is cut short must not lose the
/// pull that a change called for. The pull itself says in its condition which specification it was for, and `pending`
/// says that one is wanted.
fn pull_due(observed: &Observed, timing: Timing, checks: bool) -> Due<Pull> {
    let repository = &*observed.stored;
    let sync = &repository.status.sync;
    let now = |scope, why| Due::Now(Pull { scope, why });
    if !repository.status.health.healthy {
        let never = observed.ages.synced.is_none();
        let why = if never { "it was never synced" } else { "the repository became healthy" };
        return if checks { now(Scope::Full, why) } else { Due::Never };
    }
    let Some(age) = observed.ages.synced else { return now(Scope::Full, "it was never synced") };
    let pulled = conditions::find(&repository.status.conditions, types::PULL_STATUS);
    if pulled.is_none_or(|pulled| pulled.observed_generation != repository.metadata.generation) {
        return now(Scope::Full, "the specification changed since the last sync");
    }
    if sync.state == JobState::Pending {
        let scope = if sync.incremental { Scope::Incremental } else { Scope::Full };
        return now(scope, "one was wanted and has not begun");
    }
    let full_left = match observed.ages.full {
        _ if timing.full_sync.is_zero() => Duration::MAX,
        Some(age) => timing.full_sync.saturating_sub(age),
        None => Duration::ZERO,
    };
    let interval = timing.interval(repository);
    // A full pull that failed, or has just been tried, is not tried again at once.
    let pace = if sync.state == JobState::Error { interval.min(timing.full_sync) } else { timing.min_sync };
    let left = interval.saturating_sub(age).max(quiet_for(observed, timing));
    let left = left.min(full_left.max(pace.saturating_sub(age)));
    let folder_changed = observed.folder_change.is_some();
    let left = if folder_changed { left.min(FOLDER_PACE.saturating_sub(age)) } else { left };
    let pushed = observed.ages.pushed && sync.state != JobState::Working;
    if !left.is_zero() && !pushed {
        return Due::In(left);
    }
    if full_left.is_zero() {
        return now(Scope::Full, "everything is compared from time to time");
    }
    let reason = pulled.map(|pulled| pulled.reason.as_str());
    let settled = match sync.state {
        JobState::Success => reason == Some(reasons::SUCCESS),
        JobState::Warning => {
            let unsynced = repository.status.unsynced.as_ref();
            reason == Some(reasons::COMPLETED_WITH_WARNINGS)
                && unsynced.is_some_and(UnsyncedStatus::awaits_changes)
        }
        _ => false,
    };
    if settled && !sync.last_ref.is_empty() {
        let why = match (folder_changed, left.is_zero()) {
            (true, _) => "its folder changed",
            (false, true) => "its interval elapsed",
            (false, false) => "it was pushed to during the last pull",
        };
        now(Scope::IfChanged(sync.last_ref.clone()), why)
    } else {
        now(Scope::Incremental, "its interval elapsed, and the last pull left something undone")
    }
}

/// How long its source need not be asked, since a hook that works told of something within the interval, as far as that
/// is noted: its log, which is read too, names what it did not tell. What is left undone is tried again all the same.
fn quiet_for(observed: &Observed, timing: Timing) -> Duration {
    let repository = &*observed.stored;
    let works = conditions::is_true(&repository.status.conditions, types::WEBHOOK);
    match observed.ages.told {
        Some(told) if works && repository.status.sync.state == JobState::Success => {
            (timing.interval(repository) + EVENTS_NOTED).saturating_sub(told)
        }
        _ => Duration::ZERO,
    }
}

/// Whether the status says it already.
fn is_said(repository: &Repository, failure: &Failure) -> bool {
    let generation = repository.metadata.generation;
    let ready = conditions::find(&repository.status.conditions, types::READY);
    !repository.status.health.healthy
        && repository.status.field_errors == failure.errors
        && generation == Some(repository.status.observed_generation)
        && ready
            .is_some_and(|it| (it.reason.as_str(), it.observed_generation) == (failure.reason, generation))
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        match self.next {
            Some(next) => write!(f, "again in {next:?}"),
            None => f.write_str("again when it changes"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunFinalizers => f.write_str("run finalizers"),
            Self::Report(condition) => {
                let Condition { type_, status, reason, message, .. } = condition;
                write!(f, "report {type_}={status} {reason}: {message}")
            }
            Self::Refuse(failure) => {
                let errors = failure.errors.iter().map(|it| format!("{}: {}", it.field, it.detail));
                write!(f, "refuse: {}: {}", failure.reason, errors.collect::<Vec<_>>().join("; "))
            }
            Self::BringUp(due) => write!(f, "{due}"),
            Self::Check { why } => write!(f, "check: {why}"),
            Self::Pull(Pull { scope: Scope::Full, why }) => write!(f, "pull everything: {why}"),
            Self::Pull(Pull { scope: Scope::Incremental, why }) => write!(f, "pull what changed: {why}"),
            Self::Pull(Pull { scope: Scope::IfChanged(last), why }) => {
                write!(f, "pull if not at {last}: {why}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
