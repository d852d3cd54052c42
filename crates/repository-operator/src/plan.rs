//! What a repository is due for: pure, and the one place with rules about time. Grafana: `controller/repository.go`.

use std::time::Duration;

use jiff::Timestamp;
use windlass_api::{JobState, Repository, labels};

/// How long a healthy repository is taken to be so.
const HEALTHY_FOR: Duration = Duration::from_secs(5 * 60);
/// How long until an unhealthy one is looked at again.
const UNHEALTHY_FOR: Duration = Duration::from_secs(60);

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

/// What is due now.
pub(crate) fn plan(repository: &Repository, now: Timestamp) -> Plan {
    let marked = repository.metadata.labels.as_ref().and_then(|marks| marks.get(labels::PENDING_DELETE));
    if repository.metadata.deletion_timestamp.is_some() {
        return Plan::Finalize;
    }
    if marked.is_some_and(|value| value == "true") {
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

/// When the repository is to be looked at again.
pub(crate) fn next_look(repository: &Repository, min_interval: Duration, now: Timestamp) -> Duration {
    let health = &repository.status.health;
    let check = health_lasts(health.healthy).saturating_sub(age(health.checked, now));
    let sync = &repository.status.sync;
    let next = if repository.spec.sync.enabled && health.healthy && sync.finished > 0 {
        check.min(interval(repository, min_interval).saturating_sub(age(sync.finished.max(sync.scheduled), now)))
    } else {
        check
    };
    next.max(Duration::from_secs(1))
}

/// A sync that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncDue {
    /// Whether the difference to the last one will do.
    pub(crate) incremental: bool,
    /// Why, for the log.
    pub(crate) why: &'static str,
}

/// What was true of the repository before this pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Before {
    /// Whether it was healthy.
    pub(crate) healthy: bool,
    /// The generation that had been observed.
    pub(crate) observed_generation: i64,
}

/// Whether a sync is due, given the repository after its check. Grafana: `determineSyncStrategy`.
///
/// `job_exists` tells whether the job that the status names is still queued or running: a status that says so while there
/// is none is stale, and stands in nobody's way.
pub(crate) fn sync_due(
    repository: &Repository,
    before: Before,
    job_exists: bool,
    min_interval: Duration,
    now: Timestamp,
) -> Option<SyncDue> {
    let full = |why| Some(SyncDue { incremental: false, why });
    let sync = &repository.status.sync;
    if !repository.spec.sync.enabled || !repository.status.health.healthy || job_exists {
        return None;
    }
    if !before.healthy {
        return full("the repository became healthy");
    }
    if repository.metadata.generation != Some(before.observed_generation) {
        return full("the specification changed");
    }
    let waiting = matches!(sync.state, JobState::Pending | JobState::Working);
    let last = sync.finished.max(sync.scheduled).max(sync.started);
    if last == 0 && !waiting {
        return full("it was never synced");
    }
    if age(last, now) + Duration::from_secs(1) < interval(repository, min_interval) {
        return None;
    }
    Some(SyncDue { incremental: true, why: if waiting { "its sync was lost" } else { "its interval elapsed" } })
}

fn health_lasts(healthy: bool) -> Duration {
    if healthy { HEALTHY_FOR } else { UNHEALTHY_FOR }
}

/// The time between two syncs: what the specification says, but no shorter than the system's least.
fn interval(repository: &Repository, min_interval: Duration) -> Duration {
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

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    /// A healthy repository, checked and synced at second 0.
    fn healthy() -> Repository {
        let mut repository = Repository::default();
        repository.metadata.generation = Some(1);
        repository.spec.sync.enabled = true;
        repository.status.observed_generation = 1;
        repository.status.health.healthy = true;
        repository.status.health.checked = at(0).as_millisecond();
        repository.status.sync.finished = at(0).as_millisecond();
        repository.status.sync.state = JobState::Success;
        repository
    }

    fn due(repository: &Repository, seconds: i64) -> Option<SyncDue> {
        let before = Before { healthy: true, observed_generation: repository.status.observed_generation };
        sync_due(repository, before, false, MINUTE, at(seconds))
    }

    #[test]
    fn a_check_is_due_on_change_and_when_the_last_one_is_old() {
        let repository = healthy();
        assert_eq!(plan(&repository, at(299)), Plan::Rest);
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
    fn a_sync_is_due_after_the_interval_and_is_incremental() {
        let mut repository = healthy();
        repository.spec.sync.interval_seconds = 120;
        assert_eq!(due(&repository, 100), None);
        assert_eq!(due(&repository, 120), Some(SyncDue { incremental: true, why: "its interval elapsed" }));
        repository.spec.sync.interval_seconds = 5;
        assert_eq!(due(&repository, 30), None, "the system's least interval holds");
    }

    #[test]
    fn a_repository_that_became_healthy_or_changed_is_synced_in_full() {
        let repository = healthy();
        let before = Before { healthy: false, observed_generation: 1 };
        let sync = sync_due(&repository, before, false, MINUTE, at(1)).unwrap();
        assert!(!sync.incremental);
        let before = Before { healthy: true, observed_generation: 0 };
        assert!(!sync_due(&repository, before, false, MINUTE, at(1)).unwrap().incremental);
        assert_eq!(sync_due(&repository, before, true, MINUTE, at(1)), None, "one at a time");
    }

    #[test]
    fn a_lost_sync_does_not_keep_a_repository_waiting_for_ever() {
        let mut repository = healthy();
        repository.status.sync.state = JobState::Working;
        repository.status.sync.finished = 0;
        repository.status.sync.started = at(0).as_millisecond();
        assert_eq!(due(&repository, 30), None);
        assert_eq!(due(&repository, 60), Some(SyncDue { incremental: true, why: "its sync was lost" }));
    }

    #[test]
    fn an_unhealthy_or_disabled_repository_is_not_synced() {
        let mut repository = healthy();
        repository.status.health.healthy = false;
        assert_eq!(due(&repository, 10_000), None);
        let mut disabled = healthy();
        disabled.spec.sync.enabled = false;
        assert_eq!(due(&disabled, 10_000), None);
    }
}
