use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use windlass_api::{JobAction, JobState};

use super::*;

struct World {
    schedule: Schedule,
    now: Instant,
    version: u64,
}

impl World {
    fn new() -> Self {
        let schedule = Schedule::new(Arc::new(QueueConfig::new("replica")));
        Self { schedule, now: Instant::now(), version: 100 }
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    /// A version of a job, newer than all before it.
    fn job(
        &mut self,
        namespace: &str,
        repository: &str,
        name: &str,
        claim: Option<(&str, u32)>,
    ) -> Arc<QueuedJob> {
        self.version += 1;
        Arc::new(QueuedJob {
            key: Arc::new(Key::new(namespace, name)),
            uid: format!("uid of {namespace}/{name}").into(),
            version: self.version.to_string().into(),
            created: Timestamp::UNIX_EPOCH,
            deleting: false,
            repository: repository.into(),
            action: JobAction::Pull,
            state: JobState::Pending,
            claimed: claim.is_some(),
            owner: claim.map(|(owner, _)| owner.into()),
            attempts: claim.map_or(0, |(_, attempt)| attempt),
        })
    }

    fn add(&mut self, namespace: &str, repository: &str, name: &str) {
        let job = self.job(namespace, repository, name, None);
        self.schedule.applied(job, self.now);
    }

    fn claimed_by(&mut self, name: &str, owner: &str, attempt: u32) {
        let job = self.job("ns", "repo", name, Some((owner, attempt)));
        self.schedule.applied(job, self.now);
    }

    fn pick(&mut self) -> Option<Candidate> {
        match self.schedule.pick(self.now) {
            Pick::Claim(candidate) => Some(candidate),
            _ => None,
        }
    }

    /// Picks a job, which then has run.
    fn run_next(&mut self) -> Option<Arc<QueuedJob>> {
        let record = self.pick()?.record;
        self.schedule.deleted(&record.key, &record.uid);
        self.schedule.settle(&record.key, self.now);
        Some(record)
    }

    /// Runs all that can be claimed now, in order.
    fn drain(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.run_next()).map(|record| record.key.to_string()).collect()
    }
}

#[test]
fn the_turn_goes_round_namespaces_and_within_them_repositories() {
    let mut world = World::new();
    for number in 0..4 {
        world.add("busy", "one", &format!("one-{number}"));
        world.add("busy", "two", &format!("two-{number}"));
    }
    world.add("calm", "three", "three-0");
    let order = world.drain();
    assert_eq!(
        order,
        [
            "busy/one-0",
            "calm/three-0",
            "busy/two-0",
            "busy/one-1",
            "busy/two-1",
            "busy/one-2",
            "busy/two-2",
            "busy/one-3",
            "busy/two-3"
        ]
    );
}

#[test]
fn a_new_repository_waits_one_round_however_long_the_queue_is() {
    let mut world = World::new();
    for number in 0..1000 {
        world.add("busy", &format!("repo-{}", number % 3), &format!("job-{number}"));
    }
    for _ in 0..100 {
        world.run_next().unwrap();
    }
    world.add("busy", "newcomer", "newcomer-0");
    world.add("calm", "other", "other-0");
    let next: Vec<_> = (0..8).map(|_| world.run_next().unwrap().key.name.clone()).collect();
    // Three others in each of the namespaces' turns.
    let place = |name: &str| next.iter().position(|picked| picked == name).unwrap_or(usize::MAX);
    assert!(place("other-0") <= 1 && place("newcomer-0") <= 5, "{next:?}");
}

#[test]
fn refilling_a_repository_does_not_keep_the_turn_from_others() {
    let mut world = World::new();
    world.add("ns", "busy", "busy-0");
    for number in 0..5 {
        world.add("ns", &format!("calm-{number}"), &format!("calm-{number}-job"));
    }
    let mut seen = Vec::new();
    for number in 1..=12 {
        // Whenever a job is taken, the busy repository has another one.
        world.add("ns", "busy", &format!("busy-{number}"));
        seen.push(world.run_next().unwrap().repository.to_string());
    }
    for number in 0..5 {
        assert!(seen.contains(&format!("calm-{number}")), "{seen:?}");
    }
}

#[test]
fn whatever_comes_and_goes_nobody_waits_for_more_than_one_round() {
    const NAMESPACES: usize = 3;
    const REPOSITORIES: usize = 4;
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut world = World::new();
        // Jobs waiting, and how many others were picked since the first of them began to wait.
        let mut waiting: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
        for number in 0..500 {
            // Low numbers are likelier: some are busy, some are not.
            let namespace =
                format!("ns-{}", rng.random_range(0..NAMESPACES).min(rng.random_range(0..NAMESPACES)));
            let repository = rng.random_range(0..REPOSITORIES).min(rng.random_range(0..REPOSITORIES));
            let repository = format!("repo-{repository}");
            world.add(&namespace, &repository, &format!("job-{number}"));
            waiting.entry((namespace, repository)).or_default().0 += 1;
            for _ in 0..rng.random_range(0..3) {
                let Some(record) = world.run_next() else { break };
                let picked = (record.key.namespace.clone(), record.repository.to_string());
                for (who, (_, others)) in &mut waiting {
                    *others = if *who == picked { 0 } else { *others + 1 };
                    assert!(*others < NAMESPACES * REPOSITORIES, "seed {seed}: {who:?} was passed over");
                }
                let left = waiting.get_mut(&picked).unwrap();
                left.0 -= 1;
                if left.0 == 0 {
                    waiting.remove(&picked);
                }
            }
        }
    }
}

#[test]
fn the_oldest_job_of_a_repository_comes_first() {
    let mut world = World::new();
    for (name, age) in [("a", 1), ("b", 3), ("c", 2)] {
        let mut job = world.job("ns", "repo", name, None);
        Arc::make_mut(&mut job).created = Timestamp::from_second(1000 - age).unwrap();
        world.schedule.applied(job, world.now);
    }
    assert_eq!(world.drain(), ["ns/b", "ns/c", "ns/a"]);
}

#[test]
fn a_candidate_is_handed_to_one_driver_only() {
    let mut world = World::new();
    world.add("ns", "repo", "job");
    assert!(world.pick().is_some());
    // Not even when the watch shows it again meanwhile.
    world.add("ns", "repo", "job");
    world.schedule.tick(world.now);
    assert!(world.pick().is_none());
    world.schedule.settle(&Key::new("ns", "job"), world.now);
    assert!(world.pick().is_some());
}

#[test]
fn a_claim_lapses_when_it_was_not_seen_to_change_for_the_expiry() {
    let mut world = World::new();
    world.claimed_by("job", "them", 1);
    assert!(world.after(59).pick().is_none());
    // Any write by its owner shows that he is alive.
    world.claimed_by("job", "them", 1);
    assert!(world.after(59).pick().is_none());
    let candidate = world.after(3).pick().unwrap();
    assert!(!candidate.unanswered);
}

#[test]
fn seeing_the_same_version_again_does_not_prolong_a_claim() {
    let mut world = World::new();
    let job = world.job("ns", "repo", "job", Some(("them", 1)));
    world.schedule.applied(job.clone(), world.now);
    for _ in 0..61 {
        world.after(1);
        world.schedule.applied(job.clone(), world.now);
    }
    world.after(1);
    world.schedule.replace_all(vec![job], world.now);
    assert!(world.pick().is_some());
}

#[test]
fn used_up_attempts_are_for_the_reaper_once_the_last_lease_has_lapsed() {
    let mut world = World::new();
    world.claimed_by("job", "them", 3);
    assert_eq!(world.schedule.next_exhausted(), Some(world.now + Duration::from_mins(1)));
    world.after(59);
    assert!(world.schedule.exhausted(world.now).is_empty());
    world.after(5);
    assert!(world.pick().is_none());
    assert_eq!(world.schedule.exhausted(world.now).len(), 1);
}

#[test]
fn a_claim_of_ours_that_was_never_answered_is_taken_up_at_once() {
    let mut world = World::new();
    world.add("ns", "repo", "job");
    let candidate = world.pick().unwrap();
    world.schedule.unanswered(&candidate.record.uid, "ours");
    world.schedule.settle(&candidate.record.key, world.now);
    world.claimed_by("job", "ours", 1);
    assert!(world.pick().unwrap().unanswered);
}

#[test]
fn a_claim_that_was_never_answered_and_that_another_won_is_anothers() {
    let mut world = World::new();
    world.add("ns", "repo", "job");
    let candidate = world.pick().unwrap();
    world.schedule.unanswered(&candidate.record.uid, "ours");
    world.schedule.settle(&candidate.record.key, world.now);
    world.claimed_by("job", "theirs", 1);
    assert!(world.pick().is_none());
    assert!(world.after(62).pick().is_some_and(|candidate| !candidate.unanswered));
}

#[test]
fn after_a_conflict_the_job_is_read_again_unless_the_watch_was_quicker() {
    let mut world = World::new();
    world.add("ns", "repo", "job");
    let candidate = world.pick().unwrap();
    world.schedule.conflict(&candidate.record, world.now);
    world.schedule.settle(&candidate.record.key, world.now);
    assert!(world.pick().is_none());
    let again = world.after(1).pick().unwrap();
    assert!(again.stale);
    world.add("ns", "repo", "job");
    world.schedule.settle(&candidate.record.key, world.now);
    assert!(world.after(1).pick().is_some_and(|candidate| !candidate.stale));
}

#[test]
fn an_older_version_does_not_replace_a_newer_one() {
    let mut world = World::new();
    let old = world.job("ns", "repo", "job", None);
    world.claimed_by("job", "them", 1);
    world.schedule.applied(old, world.now);
    assert!(world.pick().is_none());
    assert_eq!(world.schedule.depth(), (0, 1));
}

#[test]
fn deleting_a_predecessor_leaves_its_namesake() {
    let mut world = World::new();
    world.add("ns", "repo", "job");
    world.schedule.deleted(&Key::new("ns", "job"), "uid of a predecessor");
    assert_eq!(world.schedule.depth(), (1, 0));
    world.schedule.deleted(&Key::new("ns", "job"), "uid of ns/job");
    assert_eq!(world.schedule.depth(), (0, 0));
    assert!(world.pick().is_none());
}

#[test]
fn while_a_job_is_claimed_others_of_its_repository_wait_for_it_or_for_its_lapse() {
    let mut world = World::new();
    let mut running = world.job("ns", "repo", "running", Some(("them", 3)));
    world.schedule.applied(running.clone(), world.now);
    world.add("ns", "repo", "waiting");
    world.add("ns", "other", "another");
    assert_eq!(world.drain(), ["ns/another"]);
    let until = match world.schedule.pick(world.now) {
        Pick::Wait(until) => until - world.now,
        other => panic!("{other:?}"),
    };
    assert_eq!(until, Duration::from_mins(1), "its claim lapses then, and nobody cleans up");
    world.after(30);
    Arc::make_mut(&mut running).version = "1000".into();
    world.schedule.applied(running.clone(), world.now);
    assert!(world.after(59).pick().is_none());
    assert_eq!(world.after(1).pick().unwrap().record.key.name, "waiting");
}

#[test]
fn a_job_whose_worker_vanished_goes_on_before_others_of_its_repository() {
    let mut world = World::new();
    world.claimed_by("z-interrupted", "somebody", 1);
    world.add("ns", "repo", "a-fresh");
    world.add("ns", "other", "b-other");
    assert_eq!(world.after(59).drain(), ["ns/b-other"]);
    let mut order = Vec::new();
    for _ in 0..40 {
        world.now += Duration::from_millis(100);
        order.extend(world.drain());
    }
    assert_eq!(order, ["ns/z-interrupted", "ns/a-fresh"]);
}

#[test]
fn a_job_that_cannot_be_taken_over_holds_up_nobody() {
    let mut world = World::new();
    let attempts = QueueConfig::new("replica").max_attempts;
    world.claimed_by("z-exhausted", "somebody", attempts);
    world.add("ns", "repo", "a-fresh");
    assert!(world.after(59).drain().is_empty());
    assert_eq!(world.after(2).drain(), ["ns/a-fresh"]);
    let deleting =
        QueuedJob { deleting: true, ..(*world.job("ns", "repo", "y-going", Some(("x", 1)))).clone() };
    world.schedule.applied(Arc::new(deleting), world.now);
    world.add("ns", "repo", "b-fresh");
    assert_eq!(world.after(61).drain(), ["ns/b-fresh"]);
}
