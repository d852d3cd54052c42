//! What a repository is due for: pure, and the one place with rules about time. Grafana: `controller/repository.go`.

use std::time::Duration;

use jiff::Timestamp;
use windlass_api::Repository;
use windlass_api::conditions::{self, types};
use windlass_api::repositories::{RepositoryRules, is_pending_delete, mutate};

/// How long a healthy repository is taken to be so.
const HEALTHY_FOR: Duration = Duration::from_mins(5);
/// How long until an unhealthy one is looked at again.
const UNHEALTHY_FOR: Duration = Duration::from_mins(1);

/// What is done for a repository in one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing: its namespace is being taken down by somebody else.
    LeaveAlone,
    /// It is being deleted: run its finalizers.
    Finalize,
    /// Check it, then decide on a sync.
    Check {
        /// Why, for the log.
        why: &'static str,
    },
    /// Nothing is wrong; a sync may be due.
    Rest,
}

/// Fills in what admission fills in, and answers the finalizers if there were none and there should be. `cleanup` is
/// for a repository that was never looked at: its absence from an older one was somebody's will.
pub(crate) fn fill_in(repository: &mut Repository, rules: &RepositoryRules) -> Option<Vec<String>> {
    if is_pending_delete(repository) {
        return None;
    }
    let before = repository.metadata.finalizers.clone();
    let old = (repository.status.observed_generation != 0).then(|| repository.clone());
    mutate(repository, old.as_ref(), rules);
    repository.metadata.finalizers.clone().filter(|after| before.as_ref() != Some(after))
}

/// What is due now.
pub(crate) fn plan(repository: &Repository, now: Timestamp) -> Plan {
    if repository.metadata.deletion_timestamp.is_some() {
        return Plan::Finalize;
    }
    if is_pending_delete(repository) {
        return Plan::LeaveAlone;
    }
    let health = &repository.status.health;
    let why = if repository.metadata.generation != Some(repository.status.observed_generation) {
        "the specification changed"
    } else if health.checked == 0 {
        "it was never checked"
    } else if age(health.checked, now) >= health_lasts(health.healthy) {
        "the last check is old"
    } else {
        return Plan::Rest;
    };
    Plan::Check { why }
}

/// How long until the last check is old.
pub(crate) fn next_check(repository: &Repository, now: Timestamp) -> Duration {
    let health = &repository.status.health;
    health_lasts(health.healthy).saturating_sub(age(health.checked, now))
}

/// Whether a sync is due, or when one will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// There is none to wait for: syncs are off, or the repository is unhealthy.
    Off,
    /// One is due now, unless a job is on its way already.
    Due(SyncDue),
    /// After this time.
    In(Duration),
}

/// A sync that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncDue {
    /// Whether the difference to the last one will do.
    pub(crate) incremental: bool,
    /// Why, for the log.
    pub(crate) why: &'static str,
}

/// Whether a sync is due, given the repository after its check. Grafana: `determineSyncStrategy`.
///
/// Only what is written in the status decides, never what this pass did: a pass that was cut short after it wrote the
/// status must not lose the sync that the change of status called for. The pull itself says in its condition which
/// specification it was for, and the `Ready` condition says since when the repository has been healthy.
pub(crate) fn sync(repository: &Repository, min_interval: Duration, now: Timestamp) -> Sync {
    let full = |why| Sync::Due(SyncDue { incremental: false, why });
    let status = &repository.status;
    if !repository.spec.sync.enabled || !status.health.healthy {
        return Sync::Off;
    }
    let last = status.sync.finished.max(status.sync.scheduled).max(status.sync.started);
    if last == 0 {
        return full("it was never synced");
    }
    let pulled = conditions::find(&status.conditions, types::PULL_STATUS);
    if pulled.is_none_or(|pulled| pulled.observed_generation != repository.metadata.generation) {
        return full("the specification changed since the last sync");
    }
    let ready = conditions::find(&status.conditions, types::READY);
    if ready.is_some_and(|ready| ready.last_transition_time.0.as_millisecond() > status.sync.started) {
        return full("the repository became healthy");
    }
    let left = interval(repository, min_interval).saturating_sub(age(last, now));
    if left.is_zero() {
        return Sync::Due(SyncDue { incremental: true, why: "its interval elapsed" });
    }
    Sync::In(left)
}

fn health_lasts(healthy: bool) -> Duration {
    if healthy { HEALTHY_FOR } else { UNHEALTHY_FOR }
}

/// The time between two syncs: what the specification says, but no shorter than the system's least.
pub(crate) fn interval(repository: &Repository, min_interval: Duration) -> Duration {
    let wanted = u64::try_from(repository.spec.sync.interval_seconds).unwrap_or(0);
    Duration::from_secs(wanted).max(min_interval)
}

/// Time since a moment in Unix milliseconds; none when it lies ahead.
fn age(millis: i64, now: Timestamp) -> Duration {
    u64::try_from(now.as_millisecond().saturating_sub(millis)).map_or(Duration::ZERO, Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    use windlass_api::JobState;
    use windlass_api::conditions::reasons;

    const MINUTE: Duration = Duration::from_mins(1);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn ready(repository: &mut Repository, since: i64) {
        let condition = conditions::new(types::READY, true, reasons::AVAILABLE, "", Some(1), at(since));
        repository.status.conditions.retain(|condition| condition.type_ != types::READY);
        repository.status.conditions.push(condition);
    }

    /// A healthy repository, checked and synced at second 0.
    fn healthy() -> Repository {
        let mut repository = Repository::default();
        repository.metadata.generation = Some(1);
        repository.status.observed_generation = 1;
        repository.spec.sync.enabled = true;
        repository.status.health.healthy = true;
        repository.status.health.checked = at(0).as_millisecond();
        repository.status.sync.started = at(0).as_millisecond();
        repository.status.sync.finished = at(0).as_millisecond();
        repository.status.sync.state = JobState::Success;
        let pulled = conditions::new(types::PULL_STATUS, true, reasons::SUCCESS, "", Some(1), at(0));
        repository.status.conditions.push(pulled);
        ready(&mut repository, -10);
        repository
    }

    fn sync_at(repository: &Repository, seconds: i64) -> Sync {
        sync(repository, MINUTE, at(seconds))
    }

    fn is_full(sync: Sync) -> bool {
        matches!(sync, Sync::Due(SyncDue { incremental: false, .. }))
    }

    #[test]
    fn a_check_is_due_on_change_and_when_the_last_one_is_old() {
        let repository = healthy();
        assert_eq!(plan(&repository, at(299)), Plan::Rest);
        assert_eq!(next_check(&repository, at(299)), Duration::from_secs(1));
        assert!(matches!(plan(&repository, at(300)), Plan::Check { .. }));
        let mut changed = healthy();
        changed.metadata.generation = Some(2);
        assert!(matches!(plan(&changed, at(1)), Plan::Check { why: "the specification changed" }));
        let mut unhealthy = healthy();
        unhealthy.status.health.healthy = false;
        assert_eq!(plan(&unhealthy, at(59)), Plan::Rest);
        assert!(matches!(plan(&unhealthy, at(60)), Plan::Check { .. }));
    }

    #[test]
    fn finalizers_are_filled_in_where_there_are_none() {
        let rules = RepositoryRules::default();
        let mut new = Repository::default();
        let all = ["remove-pending-jobs", "cleanup", "remove-orphan-resources"].map(str::to_owned).to_vec();
        assert_eq!(fill_in(&mut new, &rules), Some(all.clone()));
        assert_eq!(fill_in(&mut new, &rules), None, "they are there");
        assert_eq!(new.spec.sync.interval_seconds, rules.min_interval_seconds);

        let mut known = healthy();
        assert_eq!(fill_in(&mut known, &rules), Some(vec![all[0].clone(), all[2].clone()]));
        let mut going = healthy();
        going.metadata.deletion_timestamp = Some(going.status.conditions[0].last_transition_time.clone());
        assert_eq!(fill_in(&mut going, &rules), None);
        let mut pending = healthy();
        pending.metadata.labels =
            Some([(windlass_api::labels::PENDING_DELETE.to_owned(), "true".to_owned())].into());
        assert_eq!(fill_in(&mut pending, &rules), None);
    }

    #[test]
    fn a_sync_is_due_after_the_interval_and_is_incremental() {
        let mut repository = healthy();
        repository.spec.sync.interval_seconds = 120;
        assert_eq!(sync_at(&repository, 100), Sync::In(Duration::from_secs(20)));
        assert_eq!(
            sync_at(&repository, 120),
            Sync::Due(SyncDue { incremental: true, why: "its interval elapsed" })
        );
        repository.spec.sync.interval_seconds = 5;
        let left = Sync::In(Duration::from_secs(30));
        assert_eq!(sync_at(&repository, 30), left, "the system's least interval holds");
    }

    #[test]
    fn a_repository_that_was_never_synced_is_synced_in_full() {
        let mut repository = healthy();
        repository.status.sync = windlass_api::SyncStatus::default();
        assert!(is_full(sync_at(&repository, 1)));
    }

    #[test]
    fn a_repository_that_became_healthy_after_its_last_sync_is_synced_in_full() {
        let mut repository = healthy();
        assert!(!is_full(sync_at(&repository, 1)));
        ready(&mut repository, 1);
        assert!(is_full(sync_at(&repository, 1)));
    }

    #[test]
    fn a_specification_that_no_pull_has_seen_is_synced_in_full() {
        let mut repository = healthy();
        repository.metadata.generation = Some(2);
        repository.status.observed_generation = 2;
        assert!(is_full(sync_at(&repository, 1)));
        repository.status.conditions.clear();
        assert!(is_full(sync_at(&repository, 1)), "what was pulled last is not known");
    }

    #[test]
    fn a_lost_sync_does_not_keep_a_repository_waiting_for_ever() {
        let mut repository = healthy();
        repository.status.sync.state = JobState::Working;
        repository.status.sync.finished = 0;
        assert_eq!(sync_at(&repository, 30), Sync::In(Duration::from_secs(30)));
        assert!(matches!(sync_at(&repository, 60), Sync::Due(_)));
    }

    #[test]
    fn an_unhealthy_or_disabled_repository_is_not_synced() {
        let mut repository = healthy();
        repository.status.health.healthy = false;
        assert_eq!(sync_at(&repository, 10_000), Sync::Off);
        let mut disabled = healthy();
        disabled.spec.sync.enabled = false;
        assert_eq!(sync_at(&disabled, 10_000), Sync::Off);
    }
}
