use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{FileOutcome, HealthErrorKind, RepositoryType};

use super::*;
use crate::hook::Wanted;
use crate::memory::Ages;
use crate::neighbours::Standing;

const MINUTE: Duration = Duration::from_mins(1);

fn timing() -> Timing {
    Timing { min_sync: MINUTE, full_sync: Duration::from_hours(1), max_repositories: 0 }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn condition(kind: &str, holds: bool, reason: &str, message: &str) -> Condition {
    conditions::new(kind, holds, reason, message, Some(1), at(0))
}

/// A healthy repository that was checked and pulled, and everything said of it.
fn healthy() -> Repository {
    let mut repository = Repository::default();
    repository.metadata.name = Some("a".to_owned());
    repository.metadata.generation = Some(1);
    repository.spec.kind = RepositoryType::Git;
    repository.spec.sync.enabled = true;
    repository.status.observed_generation = 1;
    repository.status.health.healthy = true;
    repository.status.health.checked = 1;
    repository.status.sync.state = JobState::Success;
    repository.status.sync.last_ref = "abc".to_owned();
    let standing = Standing::of(&repository, std::iter::empty());
    repository.status.conditions = vec![
        condition(types::READY, true, reasons::AVAILABLE, ""),
        condition(types::PULL_STATUS, true, reasons::SUCCESS, ""),
        standing.namespace_quota(0, Some(1), at(0)),
        standing.path_conflict(Some(1), at(0)),
    ];
    repository
}

/// So many seconds after everything was done to it.
fn after(seconds: u64) -> Ages {
    let age = Some(Duration::from_secs(seconds));
    Ages { checked: age, synced: age, full: age, ..Ages::default() }
}

fn observed(repository: Repository, ages: Ages) -> Observed {
    Observed {
        filled: repository.clone(),
        missing_finalizers: Vec::new(),
        standing: Standing::of(&repository, std::iter::empty()),
        stored: Arc::new(repository),
        hook: Wanted::Unmanaged,
        ages,
        folder_change: None,
        now: at(0),
    }
}

fn printed(observed: &Observed, timing: Timing) -> String {
    plan(observed, Ok(Valid(&observed.filled)), timing).to_string()
}

#[track_caller]
fn check(repository: Repository, ages: Ages, expected: &str) {
    assert_eq!(printed(&observed(repository, ages), timing()), expected);
}

fn changed(change: impl FnOnce(&mut Repository)) -> Repository {
    let mut repository = healthy();
    change(&mut repository);
    repository
}

#[test]
fn a_repository_that_is_new_gets_everything_in_one_pass() {
    let mut repository = Repository::default();
    repository.metadata.generation = Some(1);
    repository.spec.sync.enabled = true;
    let mut observed = observed(repository, Ages::default());
    observed.missing_finalizers = vec!["x".to_owned(), "y".to_owned()];
    let expected = "report NamespaceQuota=True QuotaUnlimited: No quota limits configured\n\
                    report PathConflict=True NoPathConflict: no other repository shares this URL, branch, and path\n\
                    add finalizers: x, y\n\
                    check: it was never checked\n\
                    pull everything: it was never synced\n\
                    again in 60s";
    assert_eq!(printed(&observed, timing()), expected);
}

#[test]
fn nothing_is_done_before_it_is_due() {
    check(healthy(), after(40), "again in 20s");
    let slow = changed(|repository| repository.spec.sync.interval_seconds = 600);
    check(slow, after(40), "again in 260s");
    let off = changed(|repository| repository.spec.sync.enabled = false);
    check(off, after(299), "again in 1s");
}

#[test]
fn a_source_is_not_asked_while_a_hook_that_works_tells_of_it() {
    let hooked = |holds: bool| {
        changed(|repository| {
            let reason = if holds { reasons::WEBHOOK_CONFIGURED } else { reasons::PERMISSION_DENIED };
            let said = condition(types::WEBHOOK, holds, reason, "");
            repository.status.conditions.push(said);
        })
    };
    let told = |synced: u64, told: u64| Ages { told: Some(Duration::from_secs(told)), ..after(synced) };
    check(hooked(true), told(70, 20), "again in 100s");
    let asks = "check: its interval elapsed\npull if not at abc: its interval elapsed\nagain in 60s";
    check(hooked(true), told(130, 120), asks);
    check(hooked(false), told(70, 20), asks);
    check(hooked(true), after(70), asks);
    let everything = "check: the last check is old\npull everything: everything is compared from time to time\nagain in 60s";
    check(hooked(true), told(3_600, 20), everything);
    let undone = changed(|repository| {
        repository.status.conditions.push(condition(types::WEBHOOK, true, reasons::WEBHOOK_CONFIGURED, ""));
        repository.status.sync.state = JobState::Error;
    });
    assert!(printed(&observed(undone, told(70, 20)), timing()).contains("left something undone"));
}

#[test]
fn a_source_that_may_have_changed_is_asked_before_a_job_is_queued() {
    check(
        healthy(),
        after(60),
        "check: its interval elapsed\npull if not at abc: its interval elapsed\nagain in 60s",
    );
}

#[test]
fn what_the_last_pull_left_undone_is_tried_again() {
    let expected =
        "pull what changed: its interval elapsed, and the last pull left something undone\nagain in 60s";
    let warned = changed(|repository| repository.status.sync.state = JobState::Warning);
    check(warned, after(60), expected);
    let lost = changed(|repository| repository.status.sync.state = JobState::Working);
    check(lost.clone(), after(60), expected);
    check(lost, after(30), "again in 30s");
}

#[test]
fn a_file_that_only_its_own_change_can_mend_costs_no_job_until_the_source_changes() {
    let warned = |retry, count| {
        changed(|repository| {
            repository.status.sync.state = JobState::Warning;
            for condition in &mut repository.status.conditions {
                if condition.type_ == types::PULL_STATUS {
                    reasons::COMPLETED_WITH_WARNINGS.clone_into(&mut condition.reason);
                }
            }
            let items = vec![FileOutcome { path: "a.json".to_owned(), retry, ..FileOutcome::default() }];
            repository.status.unsynced = Some(UnsyncedStatus { count, items, ..UnsyncedStatus::default() });
        })
    };
    let asks = "check: its interval elapsed\npull if not at abc: its interval elapsed\nagain in 60s";
    check(warned(false, 1), after(60), asks);
    let pulls =
        "pull what changed: its interval elapsed, and the last pull left something undone\nagain in 60s";
    check(warned(true, 1), after(60), pulls);
    check(warned(false, 2), after(60), pulls);
}

#[test]
fn everything_is_compared_from_time_to_time() {
    let ages = Ages { full: Some(Duration::from_hours(1)), ..after(60) };
    check(healthy(), ages, "pull everything: everything is compared from time to time\nagain in 60s");
    let never = Timing { full_sync: Duration::ZERO, ..timing() };
    let expected = "check: its interval elapsed\npull if not at abc: its interval elapsed\nagain in 60s";
    assert_eq!(printed(&observed(healthy(), ages), never), expected);
    check(healthy(), Ages { synced: after(10).synced, ..ages }, "again in 50s");
}

#[test]
fn everything_is_compared_in_time_although_the_interval_is_longer() {
    let daily = |state| {
        changed(move |repository| {
            repository.spec.sync.interval_seconds = 86_400;
            repository.status.sync.state = state;
        })
    };
    let synced = |seconds: u64| Ages { checked: after(10).checked, ..after(seconds) };
    check(daily(JobState::Success), synced(3_500), "again in 100s");
    let everything = "pull everything: everything is compared from time to time\nagain in 290s";
    check(daily(JobState::Success), synced(3_600), everything);
    // One that failed is tried again after the same time, and not at once.
    let full = after(7_200).full;
    check(daily(JobState::Error), Ages { full, ..synced(3_500) }, "again in 100s");
    check(daily(JobState::Error), Ages { full, ..synced(3_600) }, everything);
    check(daily(JobState::Working), Ages { full, ..synced(20) }, "again in 40s");
    let never = Timing { full_sync: Duration::ZERO, ..timing() };
    assert_eq!(printed(&observed(daily(JobState::Success), synced(3_600)), never), "again in 290s");
}

#[test]
fn a_change_of_the_specification_is_checked_and_pulled_in_full() {
    let edited = changed(|repository| repository.metadata.generation = Some(2));
    let expected = "report NamespaceQuota=True QuotaUnlimited: No quota limits configured\n\
                    report PathConflict=True NoPathConflict: no other repository shares this URL, branch, and path\n\
                    check: the specification changed\n\
                    pull everything: the specification changed since the last sync\n\
                    again in 60s";
    check(edited, after(1), expected);
    let checked = changed(|repository| {
        repository.metadata.generation = Some(2);
        for condition in &mut repository.status.conditions {
            if condition.type_ != types::PULL_STATUS {
                condition.observed_generation = Some(2);
            }
        }
    });
    let expected = "pull everything: the specification changed since the last sync\nagain in 60s";
    check(checked, after(1), expected);
}

#[test]
fn a_check_is_for_the_specification_and_not_for_the_observed_generation() {
    // Something else than the check kept the pass from saying that it saw the specification.
    check(changed(|repository| repository.status.observed_generation = 0), after(1), "again in 59s");
}

#[test]
fn an_unhealthy_repository_is_checked_every_minute_and_pulled_in_full_once_it_is_healthy() {
    let unhealthy = changed(|repository| {
        repository.status.health.healthy = false;
        repository.status.health.error = Some(HealthErrorKind::Health);
    });
    check(unhealthy.clone(), after(59), "again in 1s");
    check(
        unhealthy,
        after(60),
        "check: the last check is old\npull everything: the repository became healthy\nagain in 60s",
    );
}

#[test]
fn a_pull_that_was_wanted_and_has_not_begun_is_queued_as_it_was_wanted() {
    let pending = |incremental| {
        changed(move |repository| {
            repository.status.sync.state = JobState::Pending;
            repository.status.sync.incremental = incremental;
        })
    };
    check(pending(false), after(1), "pull everything: one was wanted and has not begun\nagain in 60s");
    check(pending(true), after(1), "pull what changed: one was wanted and has not begun\nagain in 60s");
}

#[test]
fn a_folder_that_changed_is_looked_at_before_its_interval() {
    let mut changed = observed(healthy(), after(11));
    let before = printed(&changed, timing());
    assert!(!before.contains("pull"), "{before}");
    changed.folder_change = Some(1);
    let plan = printed(&changed, timing());
    assert!(plan.contains("its folder changed"), "{plan}");
    changed.ages = after(4);
    assert_eq!(printed(&changed, timing()), "again in 6s", "it changes all the time");
}

#[test]
fn a_repository_in_the_way_of_an_older_one_is_blocked_once_and_checked_when_it_is_free() {
    let limits = Timing { max_repositories: 1, ..timing() };
    let mut other = healthy();
    other.metadata.name = Some("older".to_owned());
    other.metadata.creation_timestamp = Some(Time(at(-100)));
    let mut repository = healthy();
    repository.metadata.creation_timestamp = Some(Time(at(0)));
    let mut blocked = observed(repository, after(1));
    blocked.standing = Standing::of(&blocked.stored, std::iter::once(&other));
    let text = "QuotaExceeded: namespace quota exceeded: 2/1 repositories; delete some, or raise [provisioning] max_repositories";
    let refused = text.replacen(": ", ": metadata.name: ", 1);
    let expected = format!("report NamespaceQuota=False {text}\nrefuse: {refused}\nagain in 300s");
    assert_eq!(printed(&blocked, limits), expected);

    let free = changed(|repository| {
        repository.status.health.healthy = false;
        repository.status.conditions[0] = condition(types::READY, false, reasons::QUOTA_EXCEEDED, "");
    });
    check(
        free,
        after(1),
        "check: no other repository is in its way any more\npull everything: the repository became healthy\nagain in 60s",
    );
}

#[test]
fn a_specification_that_breaks_rules_is_rejected_without_asking_anybody() {
    let errors = Failure::new(reasons::INVALID_SPEC, "spec.git.url", "no").errors;
    let mut broken = observed(healthy(), after(400));
    let plan_of = |observed: &Observed| plan(observed, Err(errors.clone()), timing()).to_string();
    assert_eq!(plan_of(&broken), "refuse: InvalidSpec: spec.git.url: no\nagain in 60s");
    broken.stored = Arc::new(changed(|repository| {
        repository.status.health.healthy = false;
        repository.status.field_errors.clone_from(&errors);
        repository.status.conditions[0] = condition(types::READY, false, reasons::INVALID_SPEC, "");
    }));
    assert_eq!(plan_of(&broken), "again in 60s", "it is said already");
}

#[test]
fn a_repository_that_goes_is_only_finalized_and_one_of_a_namespace_that_goes_is_left_alone() {
    let going = changed(|repository| repository.metadata.deletion_timestamp = Some(Time(at(0))));
    check(going, after(400), "run finalizers\nagain when it changes");
    let label = (windlass_api::labels::PENDING_DELETE.to_owned(), "true".to_owned());
    let pending = changed(|repository| repository.metadata.labels = Some([label].into()));
    check(pending, after(400), "again when it changes");
}

#[test]
fn a_hook_is_checked_when_it_is_time_and_before_anything_else() {
    let mut due = observed(healthy(), after(40));
    due.hook = Wanted::Hook { url: "https://windlass.example/hook".to_owned() };
    assert_eq!(printed(&due, timing()), "check the webhook: it is looked at from time to time\nagain in 20s");
    due.ages.hook_left = Duration::from_secs(7);
    assert_eq!(printed(&due, timing()), "again in 7s");
}

#[test]
fn that_there_is_no_hook_is_said_once() {
    let none = |repository| {
        let mut observed = observed(repository, after(40));
        let message = "set it".to_owned();
        observed.hook = Wanted::None { reason: reasons::NO_PUBLIC_URL, message };
        printed(&observed, timing())
    };
    assert_eq!(none(healthy()), "check the webhook: it is to be said why there is none\nagain in 20s");
    let said = changed(|repository| {
        let condition = condition(types::WEBHOOK, false, reasons::NO_PUBLIC_URL, "set it");
        repository.status.conditions.push(condition);
    });
    assert_eq!(none(said.clone()), "again in 20s");
    let mut left = said;
    left.status.webhook = Some(windlass_api::WebhookStatus { id: 7, ..Default::default() });
    assert_eq!(none(left), "again in 20s", "a setting that is missing takes nothing away");
}

#[test]
fn a_push_during_a_pull_is_looked_at_when_that_has_ended() {
    let mut pushed = observed(healthy(), after(40));
    pushed.ages.pushed = true;
    let expected = "check: it was pushed to during the last pull\n\
                    pull if not at abc: it was pushed to during the last pull\nagain in 60s";
    assert_eq!(printed(&pushed, timing()), expected);
    let working = changed(|repository| repository.status.sync.state = JobState::Working);
    let mut pushed = observed(working, after(40));
    pushed.ages.pushed = true;
    assert_eq!(printed(&pushed, timing()), "again in 20s");
}

#[test]
fn a_server_that_wants_to_be_left_alone_is_not_asked_before() {
    let limited = changed(|repository| {
        repository.status.health.healthy = false;
        repository.status.conditions[0] = condition(types::READY, false, reasons::RATE_LIMITED, "slow down");
    });
    let ages = |left: u64| Ages { limited: Duration::from_secs(left), ..after(90) };
    check(limited.clone(), ages(700), "again in 60s");
    check(
        limited,
        ages(0),
        "check: the last check is old\npull everything: the repository became healthy\nagain in 60s",
    );
}

#[test]
fn what_is_written_to_is_asked_whether_it_can_be_from_time_to_time() {
    let written = changed(|repository| repository.spec.workflows = vec![Workflow::Write]);
    let ages = |left: u64| Ages { inspect_left: Duration::from_secs(left), ..after(40) };
    check(written.clone(), ages(5), "again in 5s");
    check(written, ages(0), "ask the server about it: it may say something else than before\nagain in 20s");
    let read = changed(|repository| repository.spec.workflows = vec![Workflow::Branch]);
    check(read, ages(0), "again in 20s");
    let not_any_more = changed(|repository| {
        repository.status.conditions.push(condition(types::WRITABLE, true, reasons::BRANCH_WRITABLE, ""));
    });
    let report = "report Writable=False ReadOnly: \"write\" is not among spec.workflows\nagain in 20s";
    check(not_any_more, after(40), report);
}
