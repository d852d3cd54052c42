use windlass_api::JobState;
use windlass_api::conditions::reasons;

use super::*;

const TIMING: Timing =
    Timing { min_sync: Duration::from_mins(1), full_sync: Duration::from_hours(1), max_repositories: 0 };

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

/// Pulled and checked at this second of somebody's clock.
fn pulled(second: i64) -> Repository {
    let mut repository = Repository::default();
    repository.metadata.uid = Some("uid".to_owned());
    repository.status.health.checked = at(second).as_millisecond();
    repository.status.sync.state = JobState::Success;
    repository.status.sync.finished = at(second).as_millisecond();
    repository.status.sync.last_full = at(second).as_millisecond();
    repository
}

fn same(seconds: u64) -> Ages {
    let age = Some(Duration::from_secs(seconds));
    Ages { checked: age, synced: age, full: age, ..Ages::default() }
}

#[tokio::test(start_paused = true)]
async fn time_is_measured_from_the_change_that_was_seen_whatever_the_clocks_say() {
    let (memory, key) = (Memory::default(), ObjectKey::new("default", "a"));
    let ages = |second: i64, now: i64| memory.ages(&key, &pulled(second), TIMING, at(now), 1);
    ages(0, 0);
    for hour in [0, 3_600, -3_600, 1_000_000] {
        // The worker's clock is an hour or more away from ours.
        assert_eq!(ages(hour, 60), same(0));
        tokio::time::advance(Duration::from_secs(30)).await;
        // Ours jumps meanwhile, forward and back.
        for now in [60, 7_200, -7_200] {
            assert_eq!(ages(hour, now), same(30), "{hour} {now}");
        }
        assert_eq!(ages(hour + 1, 60), same(0), "it was pulled again");
    }
}

#[test]
fn a_time_that_is_seen_for_the_first_time_is_believed_within_bounds() {
    let period = Duration::from_mins(10);
    let age = |millis: i64, seed: &str| first_age(millis, at(0), period, seed);
    let then = |seconds: i64| at(seconds).as_millisecond();
    assert_eq!(age(then(-90), ""), Duration::from_secs(90));
    assert_eq!(age(then(-80_000), ""), Duration::from_secs(80_000), "it was down for a night");
    assert_eq!(age(then(30), ""), Duration::ZERO, "clocks are never quite the same");
    for absurd in [then(3_600), then(-90_000), 1, i64::MIN, i64::MAX] {
        let spread: std::collections::BTreeSet<Duration> =
            (0..50).map(|number| age(absurd, &format!("uid-{number}"))).collect();
        assert!(spread.iter().all(|age| *age < period), "{absurd}: {spread:?}");
        assert!(spread.len() > 25, "not all of them are due at once: {spread:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_never_happened_has_no_age_and_another_object_of_the_name_is_new() {
    let (memory, key) = (Memory::default(), ObjectKey::new("default", "a"));
    assert_eq!(memory.ages(&key, &Repository::default(), TIMING, at(0), 1), Ages::default());
    memory.ages(&key, &pulled(0), TIMING, at(0), 1);
    tokio::time::advance(Duration::from_secs(30)).await;
    let mut again = pulled(0);
    again.metadata.uid = Some("another".to_owned());
    assert_eq!(memory.ages(&key, &again, TIMING, at(7), 1), same(7));
}

#[tokio::test(start_paused = true)]
async fn a_queued_sync_is_remembered_until_the_status_moves_on_or_it_is_lost() {
    let (memory, key, minute) = (Memory::default(), ObjectKey::new("default", "a"), Duration::from_mins(1));
    let repository = pulled(0);
    assert_eq!(memory.queued_left(&key, &repository, minute), None);
    memory.queued(&key, &repository);
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(memory.queued_left(&key, &repository, minute), Some(Duration::from_secs(40)));
    assert_eq!(memory.queued_left(&key, &pulled(1), minute), None, "it has begun");
    tokio::time::advance(Duration::from_secs(40)).await;
    assert_eq!(memory.queued_left(&key, &repository, minute), None, "it is lost");
}

#[test]
fn what_stands_in_the_way_is_looked_at_less_and_less_often_until_it_is_gone() {
    let (memory, key) = (Memory::default(), ObjectKey::new("default", "a"));
    let delays: Vec<Duration> = (0..8).map(|_| memory.obstructed(&key)).collect();
    let seconds = Duration::from_secs;
    assert!(delays[0] <= seconds(1) && delays[4] > seconds(8), "{delays:?}");
    assert!(delays.iter().all(|delay| *delay <= seconds(30)), "{delays:?}");
    memory.cleared(&key);
    assert!(memory.obstructed(&key) <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_push_is_new_until_a_pull_began_or_a_look_was_taken_after_it() {
    let (memory, key) = (Memory::default(), ObjectKey::new("default", "a"));
    let mut repository = pulled(0);
    let mut pushed = async |change: &dyn Fn(&mut Repository)| {
        change(&mut repository);
        tokio::time::advance(Duration::from_secs(1)).await;
        memory.ages(&key, &repository, TIMING, at(0), 1).pushed
    };
    let mark = |repository: &mut Repository, mark: &str| {
        repository.metadata.annotations = Some([(annotations::PUSHED.to_owned(), mark.to_owned())].into());
    };
    let state = |repository: &mut Repository, state| repository.status.sync.state = state;
    assert!(!pushed(&|_| {}).await);
    assert!(!pushed(&|repository| state(repository, JobState::Working)).await);
    assert!(pushed(&|repository| mark(repository, "abc@1")).await);
    assert!(
        pushed(&|repository| state(repository, JobState::Success)).await,
        "that pull may not have seen it"
    );
    assert!(!pushed(&|repository| repository.status.sync.checked = 3).await);
    assert!(pushed(&|repository| mark(repository, "abc@3")).await);
    tokio::time::advance(Duration::from_secs(1)).await;
    memory.unchanged(&key);
    assert!(!pushed(&|_| {}).await, "a look that is not written down");
    assert!(pushed(&|repository| mark(repository, "abc@4")).await);
    assert!(!pushed(&|repository| repository.status.sync.last_ref = "abc".to_owned()).await);
    assert!(pushed(&|repository| mark(repository, "def@5")).await);
    assert!(!pushed(&|repository| state(repository, JobState::Working)).await);
}

/// What is due of a thousand repositories after a start, whose statuses were written so many seconds ago.
fn due_after_a_start(seconds: impl Fn(usize) -> i64) -> Vec<Duration> {
    let memory = Memory::default();
    (0..1_000)
        .map(|number| {
            let mut repository = pulled(-seconds(number));
            repository.metadata.uid = Some(format!("uid-{number}"));
            repository.spec.sync.enabled = true;
            repository.status.health.healthy = true;
            let key = ObjectKey::new("default", format!("r{number}"));
            let ages = memory.ages(&key, &repository, TIMING, at(0), 1_000);
            // A check is a look as well.
            let left = TIMING.interval(&repository).saturating_sub(ages.synced.unwrap());
            left.min(health_lasts(true).saturating_sub(ages.checked.unwrap()))
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_looks_are_spread_over_the_interval_and_after_a_longer_time_all_are_due() {
    // Polled every minute until the restart, and noted every five.
    let left = due_after_a_start(|number| i64::try_from(number).unwrap() % 360);
    for tenth in 0..10_u64 {
        let within = |left: &&Duration| (tenth * 6..tenth * 6 + 6).contains(&left.as_secs());
        let count = left.iter().filter(within).count();
        assert!((50..=150).contains(&count), "{count} in tenth {tenth} of the minute");
    }
    let left = due_after_a_start(|_| 3_600);
    assert!(left.iter().all(Duration::is_zero), "nobody looked for an hour");
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_hooks_that_were_well_are_looked_at_one_after_the_other() {
    let memory = Memory::default();
    let left = |number: usize, among: usize| {
        let mut repository = pulled(0);
        repository.metadata.uid = Some(format!("uid-{number}"));
        repository.metadata.generation = Some(1);
        let well = conditions::new(
            conditions::types::WEBHOOK,
            true,
            reasons::WEBHOOK_CONFIGURED,
            "",
            Some(1),
            at(0),
        );
        repository.status.conditions.push(well);
        memory
            .ages(&ObjectKey::new("default", number.to_string()), &repository, TIMING, at(0), among)
            .hook_left
    };
    let all: Vec<Duration> = (0..1_000).map(|number| left(number, 1_000)).collect();
    let at_once = all.iter().filter(|left| **left < Duration::from_secs(10)).count();
    assert!(at_once < 60, "{at_once} in the first ten seconds");
    assert!(left(1_000, 1) < Duration::from_secs(1), "one alone is looked at now");
}
