//! What a repository is due for: a list of steps, made from what was observed. Pure, and the one place with rules about
//! time. Grafana: `controller/repository.go`, `determineSyncStrategy`.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::conditions::{self, reasons, types};
use windlass_api::repositories::is_pending_delete;
use windlass_api::{ErrorDetails, JobState, Repository, UnsyncedStatus, Workflow};
use windlass_repository::inspect::is_inspected;

use crate::hook::Wanted;
use crate::neighbours::Block;
use crate::observe::Observed;
use crate::token::renewed_in;
use crate::validate::Valid;

/// How long a healthy repository is taken to be so.
pub(crate) const HEALTHY_FOR: Duration = Duration::from_mins(5);
/// How long until an unhealthy one is looked at again.
const UNHEALTHY_FOR: Duration = Duration::from_mins(1);
/// How long until a repository is looked at again that waits for others: their changes bring it sooner.
const BLOCKED_FOR: Duration = Duration::from_mins(5);

/// How long what a server says of writing to a repository is taken to be so.
pub(crate) const INSPECTED_FOR: Duration = Duration::from_mins(10);

/// How often it is noted at most that a delivery came.
const EVENTS_NOTED: Duration = Duration::from_mins(1);

/// How long a token has to be there, in milliseconds, before one that is refused is replaced.
const TOKEN_TRIED: i64 = 60_000;

/// Why a repository is looked at again that names a Secret which says something else than before.
const SECRET_CHANGED: &str = "a Secret that it names changed";

/// The least time between two syncs of a local repository whose folder keeps changing.
const FOLDER_PACE: Duration = Duration::from_secs(10);

/// The times and limits that plans are made by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The least time between two looks at a source.
    pub(crate) min_sync: Duration,
    /// The time after which a pull compares everything; zero for never.
    pub(crate) full_sync: Duration,
    /// Most repositories in a namespace; 0 for no limit.
    pub(crate) max_repositories: i64,
}

impl Timing {
    /// The time between two looks at a source: what the specification says, but no shorter than the system's least.
    pub(crate) fn interval(&self, repository: &Repository) -> Duration {
        let wanted = u64::try_from(repository.spec.sync.interval_seconds).unwrap_or(0);
        Duration::from_secs(wanted).max(self.min_sync)
    }
}

/// How long a result of a check is taken to be so.
pub(crate) fn health_lasts(healthy: bool) -> Duration {
    if healthy { HEALTHY_FOR } else { UNHEALTHY_FOR }
}

/// One thing to do. Steps are done in their order; a failure ends the pass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Add these finalizers, so that nothing is left behind when the repository is deleted.
    AddFinalizers(Vec<String>),
    /// The repository is being deleted: run its finalizers.
    RunFinalizers,
    /// Say so in a condition.
    Report(Condition),
    /// Neither checked nor synced, and not healthy: other repositories come first.
    Block(Block),
    /// Neither checked nor synced, and not healthy: the specification breaks rules.
    Reject(Vec<ErrorDetails>),
    /// Get a token by way of the connection.
    RenewToken {
        /// Why.
        why: TokenWanted,
    },
    /// Ask the server whether the repository can be written to, and for what the specification leaves out.
    Inspect {
        /// Why, for the log.
        why: &'static str,
    },
    /// Bring the webhook at the provider to what is wanted, and see what did not reach us.
    TendHook {
        /// Why, for the log.
        why: &'static str,
    },
    /// Ask the source whether it can be read, and where its branch is.
    Check {
        /// Why, for the log.
        why: &'static str,
    },
    /// Queue a pull, if the repository is healthy by then.
    Pull(Pull),
}

/// Why a token is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenWanted {
    /// There is none.
    Missing,
    /// Its server refused it.
    Refused,
    /// It ends soon, or the connection is another one.
    Ending,
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
    let mut steps = Vec::new();
    if !observed.missing_finalizers.is_empty() {
        steps.push(Step::AddFinalizers(observed.missing_finalizers.clone()));
    }
    let before = steps.len();
    let next = match (observed.standing.block(timing.max_repositories), valid) {
        (Some(block), _) => {
            if !is_blocked(&observed.stored, &block) {
                steps.push(Step::Block(block));
            }
            BLOCKED_FOR
        }
        (None, Err(errors)) => {
            if !is_rejected(&observed.stored, &errors) {
                steps.push(Step::Reject(errors));
            }
            UNHEALTHY_FOR
        }
        (None, Ok(Valid(repository))) => check_and_pull(repository, observed, timing, &mut steps),
    };
    let writes = steps.len() > before;
    let reports = reports(observed, timing, writes);
    steps.splice(before..before, reports);
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

/// Plans the check and the pull that are due, and answers when the next is.
fn check_and_pull(
    repository: &Repository,
    observed: &Observed,
    timing: Timing,
    steps: &mut Vec<Step>,
) -> Duration {
    let (status, ages) = (&observed.stored.status, &observed.ages);
    let secret_changed = ages.secret_changed.map(|_change| SECRET_CHANGED);
    let mut check = secret_changed.or_else(|| check_due(&observed.stored, ages.checked, ages.limited));
    let mut next = health_lasts(status.health.healthy);
    // First: the others need it.
    match token_due(observed) {
        Due::Now(why) => {
            steps.push(Step::RenewToken { why });
            check = check.or((!status.health.healthy).then_some("it gets a token"));
        }
        Due::In(left) => next = next.min(left),
        Due::Never => {}
    }
    if check.is_none() {
        let left = health_lasts(status.health.healthy).saturating_sub(ages.checked.unwrap_or_default());
        next = next.min(left.max(ages.limited));
    }
    let pull =
        if repository.spec.sync.enabled { pull_due(observed, timing, check.is_some()) } else { Due::Never };
    let pull = match pull {
        Due::Now(pull) => {
            next = next.min(timing.interval(repository));
            if matches!(pull.scope, Scope::IfChanged(_)) {
                check = check.or(Some(pull.why));
            }
            Some(pull)
        }
        Due::In(left) => {
            next = next.min(left);
            None
        }
        Due::Never => None,
    };
    // Before the hook: what it fills in and the hook's Secret are one write.
    match inspection_due(observed) {
        Due::Now(why) => steps.push(Step::Inspect { why }),
        Due::In(left) => next = next.min(left),
        Due::Never => {}
    }
    match hook_due(observed) {
        Due::Now(why) => steps.push(Step::TendHook { why }),
        Due::In(left) => next = next.min(left),
        Due::Never => {}
    }
    steps.extend(check.map(|why| Step::Check { why }));
    steps.extend(pull.map(Step::Pull));
    next
}

/// Whether a token is to be had by way of the connection.
fn token_due(observed: &Observed) -> Due<TokenWanted> {
    let repository = &*observed.stored;
    if repository.spec.connection_name().is_empty() {
        return Due::Never;
    }
    let status = &repository.status;
    let holds = conditions::is_true(&status.conditions, types::TOKEN);
    let refused = !status.health.healthy
        && conditions::find(&status.conditions, types::READY)
            .is_some_and(|ready| ready.reason == reasons::AUTHENTICATION_FAILED);
    let said = conditions::find(&status.conditions, types::TOKEN)
        .is_some_and(|said| said.observed_generation == repository.metadata.generation);
    let left = match (observed.ages.token_left, &status.token) {
        (Some(left), _) => left,
        (None, Some(token)) if holds && said && repository.secure.token.is_set() => {
            renewed_in(token, observed.now)
        }
        (None, _) => return Due::Now(TokenWanted::Missing),
    };
    let age = status.token.as_ref().map_or(0, |token| observed.now.as_millisecond() - token.last_updated);
    if refused && holds && age >= TOKEN_TRIED {
        return Due::Now(TokenWanted::Refused);
    }
    if left.is_zero() { Due::Now(TokenWanted::Ending) } else { Due::In(left) }
}

/// Whether the hook is to be looked at. It comes before the check: a repository that is given a Secret is another one.
fn hook_due(observed: &Observed) -> Due<&'static str> {
    let repository = &*observed.stored;
    let said = conditions::find(&repository.status.conditions, types::WEBHOOK);
    let (reason, message) = match &observed.hook {
        Wanted::Unmanaged => return Due::Never,
        Wanted::Hook { .. } if observed.ages.secret_changed.is_some() => return Due::Now(SECRET_CHANGED),
        Wanted::Hook { .. } if observed.ages.hook_left.is_zero() => {
            return Due::Now("it is looked at from time to time");
        }
        Wanted::Hook { .. } => return Due::In(observed.ages.hook_left),
        Wanted::None { reason, message } => (reason, message),
    };
    let is_said = said.is_some_and(|said| {
        (said.reason.as_str(), &said.message, said.observed_generation)
            == (reason, message, repository.metadata.generation)
    });
    let has_one = repository.status.webhook.as_ref().is_some_and(|webhook| webhook.id != 0);
    if has_one && *reason != reasons::NO_PUBLIC_URL {
        let left = observed.ages.hook_left;
        return if left.is_zero() { Due::Now("there should be none") } else { Due::In(left) };
    }
    if is_said { Due::Never } else { Due::Now("it is to be said why there is none") }
}

/// Whether the server is to be asked about the repository beside its files.
fn inspection_due(observed: &Observed) -> Due<&'static str> {
    let left = observed.ages.inspect_left;
    if !is_inspected(&observed.filled) {
        Due::Never
    } else if observed.ages.secret_changed.is_some() {
        Due::Now(SECRET_CHANGED)
    } else if left.is_zero() {
        Due::Now("it may say something else than before")
    } else {
        Due::In(left)
    }
}

/// `limited` is how long the server wants to be left alone, which the answer of the last check was.
fn check_due(repository: &Repository, age: Option<Duration>, limited: Duration) -> Option<&'static str> {
    let Some(age) = age else { return Some("it was never checked") };
    let Some(ready) = conditions::find(&repository.status.conditions, types::READY) else {
        return Some("what its last check came to is not known");
    };
    if ready.observed_generation != repository.metadata.generation {
        Some("the specification changed")
    } else if Block::is_reason(&ready.reason) {
        Some("no other repository is in its way any more")
    } else if age >= health_lasts(repository.status.health.healthy) && limited.is_zero() {
        Some("the last check is old")
    } else {
        None
    }
}

/// Whether something is due.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Due<T> {
    Now(T),
    In(Duration),
    /// Something else has to happen first.
    Never,
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
    let left = timing.interval(repository).saturating_sub(age);
    let left = left.max(quiet_for(observed, timing).min(full_left));
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
fn is_blocked(repository: &Repository, block: &Block) -> bool {
    says(repository, block.reason) && repository.status.health.message == [block.message.as_str()]
}

fn is_rejected(repository: &Repository, errors: &[ErrorDetails]) -> bool {
    says(repository, reasons::INVALID_SPEC) && repository.status.field_errors == errors
}

fn says(repository: &Repository, reason: &str) -> bool {
    let ready = conditions::find(&repository.status.conditions, types::READY);
    !repository.status.health.healthy
        && repository.metadata.generation == Some(repository.status.observed_generation)
        && ready.is_some_and(|ready| {
            ready.reason == reason && ready.observed_generation == repository.metadata.generation
        })
}

impl fmt::Display for TokenWanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "there is none",
            Self::Refused => "the one that there is was refused",
            Self::Ending => "it ends soon, or the connection is another one",
        })
    }
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
            Self::AddFinalizers(names) => write!(f, "add finalizers: {}", names.join(", ")),
            Self::RunFinalizers => f.write_str("run finalizers"),
            Self::Report(condition) => {
                let Condition { type_, status, reason, message, .. } = condition;
                write!(f, "report {type_}={status} {reason}: {message}")
            }
            Self::Block(block) => write!(f, "block: {}: {}", block.reason, block.message),
            Self::Reject(errors) => {
                let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
                write!(f, "reject: {}", fields.join(", "))
            }
            Self::RenewToken { why } => write!(f, "get a token: {why}"),
            Self::Inspect { why } => write!(f, "ask the server about it: {why}"),
            Self::TendHook { why } => write!(f, "tend the webhook: {why}"),
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
