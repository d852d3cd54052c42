//! When syncs are queued, and of which kind.

use serde_json::{Value, json};
use windlass_api::{HistoricJob, JobState, Repository};
use windlass_repository_operator::{PROVISIONING_REPO, register};
use windlass_runtime::Clock as _;

use crate::health::{clock, local};
use crate::kit::{Death, Process, World, dashboard, eventually};

fn synced() -> Value {
    json!({"spec": {"sync": {"enabled": true, "intervalSeconds": 120}}})
}

/// Both operators under paused time.
fn start(world: &World) -> (Process, Process) {
    let clock = clock();
    (
        world.start_with_clock(register, PROVISIONING_REPO, clock.clone()),
        world.start_with_clock(
            windlass_jobs_operator::register,
            windlass_jobs_operator::PROVISIONING_JOBS,
            clock,
        ),
    )
}

/// History once it has so many records, the oldest first.
async fn history(world: &World, count: usize) -> Vec<HistoricJob> {
    let look = async || {
        let mut found = world.history().await;
        found.sort_by_key(|record| record.status.finished);
        if found.len() >= count && world.jobs().await.is_empty() { Ok(found) } else { Err(found.len()) }
    };
    // Intervals are longer than the deadline of a single look.
    for _ in 0..10 {
        if let Ok(Ok(found)) = tokio::time::timeout(std::time::Duration::from_secs(50), async {
            loop {
                if let Ok(found) = look().await {
                    return Ok::<_, ()>(found);
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        })
        .await
        {
            return found;
        }
    }
    panic!("{count} jobs did not end: {:#?}", world.history().await);
}

fn incremental(record: &HistoricJob) -> bool {
    record.spec.pull.as_ref().unwrap().incremental
}

#[tokio::test(start_paused = true)]
async fn a_new_repository_is_pulled_in_full_once_and_then_when_it_changed() {
    let world = World::new();
    let files = local(&world, synced()).await;
    std::fs::write(files.join("a.json"), dashboard("a", "A")).unwrap();
    let _processes = start(&world);
    let mut records = history(&world, 1).await;
    for title in ["B", "C"] {
        std::fs::write(files.join("a.json"), dashboard("a", title)).unwrap();
        records = history(&world, records.len() + 1).await;
    }
    let kinds: Vec<bool> = records.iter().map(incremental).collect();
    assert_eq!(kinds, [false, true, true], "{records:#?}");
    assert!(records.iter().all(|record| record.status.state == JobState::Success));
    for pair in records.windows(2) {
        let apart = pair[1].status.started - pair[0].status.finished;
        assert!((120_000..123_000).contains(&apart), "{apart} ms");
    }
    assert_eq!(world.dashboards().await.into_values().collect::<Vec<_>>(), ["C"]);
    assert_eq!(queued(&world), 3, "nothing is queued twice");
}

/// How many jobs the operator asked for.
fn queued(world: &World) -> usize {
    world.requests.writes_to("jobs").into_iter().filter(|write| write == "POST jobs").count()
}

/// Lets this many seconds pass, in steps in which everything that is due gets done.
async fn pass(seconds: u64) {
    for _ in 0..seconds * 10 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_repository_gets_no_job_and_says_every_few_minutes_when_it_was_looked_at() {
    let world = World::new();
    let files = local(&world, synced()).await;
    std::fs::write(files.join("a.json"), dashboard("a", "A")).unwrap();
    let _processes = start(&world);
    history(&world, 1).await;
    let mut last = world.repository("test6").await.status.health.checked;
    for _ in 0..3 {
        let before = world.requests.writes_to("repositories").len();
        pass(280).await;
        let writes = world.requests.writes_to("repositories");
        assert_eq!(writes.len(), before, "looks that find nothing are not written: {writes:?}");
        let looked = world
            .repository_when("it was looked at", "test6", |found| found.status.sync.checked > last)
            .await;
        let apart = looked.status.sync.checked - last;
        assert!((300_000..365_000).contains(&apart), "{apart} ms");
        assert_eq!(looked.status.sync.state, JobState::Success);
        last = looked.status.sync.checked;
    }
    assert_eq!((queued(&world), world.history().await.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn everything_is_compared_after_the_time_that_is_set_although_nothing_changed() {
    let world = World::new().set("provisioning.full_sync_interval", "5m");
    let files = local(&world, synced()).await;
    std::fs::write(files.join("a.json"), dashboard("a", "A")).unwrap();
    let _processes = start(&world);
    history(&world, 1).await;
    let dashboards = world.api::<windlass_api::Dashboard>();
    dashboards.delete("a", &kube::api::DeleteParams::default()).await.unwrap();
    let records = history(&world, 2).await;
    assert!(!incremental(&records[1]), "{records:#?}");
    let apart = records[1].status.started - records[0].status.finished;
    assert!((300_000..430_000).contains(&apart), "{apart} ms");
    assert_eq!(world.dashboards().await.into_keys().collect::<Vec<_>>(), ["a.json"], "it is repaired");
}

/// Pulls in ten minutes of a repository that changes all the time, looked at every two minutes, by a worker whose clock
/// is so many hours from the operator's, which itself jumps by an hour in between.
async fn pulls_with_clocks_apart(hours: i64) -> usize {
    let world = World::new();
    let files = local(&world, synced()).await;
    let ours = clock();
    let start = ours.now() + jiff::SignedDuration::from_hours(hours);
    let theirs = windlass_runtime::ManualClock::following_tokio(start);
    let _operator = world.start_with_clock(register, PROVISIONING_REPO, ours.clone());
    let jobs = (windlass_jobs_operator::register, windlass_jobs_operator::PROVISIONING_JOBS);
    let _jobs = world.start_with_clock(jobs.0, jobs.1, std::sync::Arc::new(theirs));
    for second in 0..600 {
        std::fs::write(files.join("a.json"), dashboard("a", &second.to_string())).unwrap();
        pass(1).await;
        if second == 300 {
            ours.advance(std::time::Duration::from_hours(1));
        }
    }
    queued(&world)
}

#[tokio::test(start_paused = true)]
async fn syncs_keep_their_pace_whatever_the_clocks_of_operator_and_worker_say() {
    for hours in [-1, 0, 1] {
        let pulls = pulls_with_clocks_apart(hours).await;
        assert!((4..=6).contains(&pulls), "{pulls} pulls with clocks {hours} hours apart");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_stays_in_the_way_is_asked_for_less_and_less_often() {
    let world = World::new();
    local(&world, synced()).await;
    world.queue(windlass_api::JobSpec::pull("test6", false)).await;
    let _process = world.start_with_clock(register, PROVISIONING_REPO, clock());
    pass(300).await;
    let asked = queued(&world);
    assert!((2..=20).contains(&asked), "{asked} times in five minutes");
}

#[tokio::test(start_paused = true)]
async fn without_sync_nothing_is_queued() {
    let world = World::new();
    local(&world, Value::Null).await;
    let _process = world.start_with_clock(register, PROVISIONING_REPO, clock());
    world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
    for _ in 0..100 {
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        assert!(world.jobs().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_repository_that_recovers_is_pulled_in_full() {
    let world = World::new();
    let files = local(&world, synced()).await;
    let _processes = start(&world);
    history(&world, 1).await;
    let away = world.folder.path().join("away");
    std::fs::rename(&files, &away).unwrap();
    let broken = world.patch_repository("test6", json!({"spec": {"title": "again"}}));
    broken.await;
    world.repository_when("it is unhealthy", "test6", |found| !found.status.health.healthy).await;
    std::fs::rename(&away, &files).unwrap();
    // The next check is a minute away.
    tokio::time::sleep(std::time::Duration::from_secs(50)).await;
    world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
    let records = history(&world, 2).await;
    assert!(!incremental(&records[1]), "{records:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_specification_is_pulled_in_full_at_once() {
    let world = World::new();
    let files = local(&world, synced()).await;
    std::fs::create_dir(files.join("below")).unwrap();
    std::fs::write(files.join("below/a.json"), dashboard("a", "A")).unwrap();
    let _processes = start(&world);
    let first = history(&world, 1).await;
    let below = files.join("below");
    world.patch_repository("test6", json!({"spec": {"local": {"path": below.to_str().unwrap()}}})).await;
    let records = history(&world, 2).await;
    assert!(!incremental(&records[1]));
    assert!(records[1].status.started - first[0].status.finished < 10_000);
    assert_eq!(world.dashboards().await.into_keys().collect::<Vec<_>>(), ["a.json"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_specification_during_a_pull_is_pulled_after_it() {
    let world = World::new();
    let files = local(&world, synced()).await;
    std::fs::create_dir(files.join("below")).unwrap();
    std::fs::write(files.join("below/a.json"), dashboard("a", "A")).unwrap();
    std::fs::write(files.join("b.json"), dashboard("b", "B")).unwrap();
    world.fault.hold(|method, path| method == "POST" && path.ends_with("/dashboards"));
    let _processes = start(&world);
    world.fault.holding().await;
    let below = files.join("below");
    world.patch_repository("test6", json!({"spec": {"local": {"path": below.to_str().unwrap()}}})).await;
    world
        .repository_when("the change was seen", "test6", |found| {
            Some(found.status.observed_generation) == found.metadata.generation
        })
        .await;
    world.fault.resume();
    history(&world, 2).await;
    eventually("the new path is pulled", || async {
        let paths: Vec<String> = world.dashboards().await.into_keys().collect();
        if paths == ["a.json"] { Ok(()) } else { Err(paths) }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_could_not_be_queued_is_queued_later() {
    let world = World::new();
    local(&world, synced()).await;
    world.fault.answer(|method, path| {
        (method == "POST" && path.ends_with("/jobs")).then_some(http::StatusCode::INTERNAL_SERVER_ERROR)
    });
    let _processes = start(&world);
    world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
    eventually("it was tried", || async {
        if world.requests.writes_to("jobs").is_empty() { Err(()) } else { Ok(()) }
    })
    .await;
    world.fault.heal();
    assert!(!incremental(&history(&world, 1).await[0]));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_vanished_is_queued_again_after_the_interval() {
    let world = World::new();
    local(&world, synced()).await;
    let started = clock().now().as_millisecond() - 10_000;
    let lost = json!({"state": "working", "job": "test6-sync", "started": started});
    world.patch_status("test6", json!({"status": {"sync": lost}})).await;
    let _processes = start(&world);
    let records = history(&world, 1).await;
    assert_eq!(records[0].status.state, JobState::Success);
    assert_eq!(world.repository("test6").await.status.sync.state, JobState::Success);
}

#[tokio::test(start_paused = true)]
async fn the_first_sync_is_queued_whenever_the_process_dies() {
    for death in [Death::Before(1), Death::After(1), Death::Before(2), Death::After(2)] {
        let world = World::new();
        let files = local(&world, synced()).await;
        std::fs::write(files.join("a.json"), dashboard("a", "A")).unwrap();
        let clock = clock();
        let first =
            world.start_with(register, PROVISIONING_REPO, death, |context| context.clock = clock.clone());
        first.dead().await;
        first.kill().await;
        let jobs = (windlass_jobs_operator::register, windlass_jobs_operator::PROVISIONING_JOBS);
        let _jobs = world.start_with_clock(jobs.0, jobs.1, clock.clone());
        let _second = world.start_with_clock(register, PROVISIONING_REPO, clock.clone());
        let records = history(&world, 1).await;
        assert!(!incremental(&records[0]), "{death:?}");
        assert!(records.len() <= 2, "{death:?}: {records:#?}");
        // A second pull may have been queued meanwhile.
        let pulled = |found: &Repository| found.status.sync.state == JobState::Success;
        world.repository_when(&format!("it is pulled, {death:?}"), "test6", pulled).await;
        assert_eq!(world.dashboards().await.len(), 1, "{death:?}");
    }
}
