//! Jobs beside pulls, and how they end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_api::{Job, JobSpec, JobState, labels};
use windlass_jobs_operator::{PROVISIONING_JOBQUEUE, PROVISIONING_JOBS, register};
use windlass_runtime::ManualClock;

use crate::kit::{Death, World, dashboard, end_of, eventually};
use crate::pull::small;

fn sleep(duration: &str) -> JobSpec {
    serde_json::from_value(json!({"action": "test", "repository": "test6", "test": {"duration": duration}}))
        .unwrap()
}

async fn with_repository(world: &World) {
    let path = world.folder.path().join("files");
    std::fs::create_dir_all(&path).unwrap();
    let spec = json!({"spec": {"type": "local", "local": {"path": path.to_str().unwrap()}}});
    world.create_repository("test6", spec).await;
}

#[tokio::test(start_paused = true)]
async fn a_short_job_costs_four_writes() {
    let world = World::new();
    with_repository(&world).await;
    let _process = world.start(register, PROVISIONING_JOBS);
    // The operator is up when it has run one.
    world.run(sleep("1ms")).await;
    world.requests.clear();
    let record = world.run(sleep("10ms")).await;
    assert_eq!(end_of(&record).0, JobState::Success);
    let name = record.metadata.labels.clone().unwrap();
    assert!(name.contains_key(labels::ORIGINAL_UID));
    let writes = world.requests.writes();
    let shapes: Vec<(&str, usize)> = writes
        .iter()
        .map(|write| {
            let (method, path) = write.split_once(' ').unwrap();
            (method, path.split('/').count())
        })
        .collect();
    assert_eq!(shapes, [("POST", 1), ("PATCH", 2), ("POST", 1), ("DELETE", 2)], "{writes:?}");
    assert_eq!(writes[2], "POST historicjobs");
}

#[tokio::test]
async fn the_queue_alone_claims_and_runs() {
    let world = World::new();
    with_repository(&world).await;
    let _process = world.start(register, PROVISIONING_JOBQUEUE);
    assert_eq!(end_of(&world.run(sleep("1ms")).await).0, JobState::Success);
}

#[tokio::test]
async fn an_action_that_nobody_handles_ends_as_an_error_that_says_so() {
    let world = World::new();
    with_repository(&world).await;
    let _process = world.start(register, PROVISIONING_JOBS);
    let spec = json!({"action": "push", "repository": "test6", "push": {"message": "m", "branch": "b"}});
    let spec: JobSpec = serde_json::from_value(spec).unwrap();
    let (state, said) = end_of(&world.run(spec).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("no workers were registered to handle the job"), "{said}");
}

#[tokio::test]
async fn a_job_of_a_repository_that_is_gone_ends_as_an_error() {
    let world = World::new();
    let _process = world.start(register, PROVISIONING_JOBS);
    let (state, said) = end_of(&world.run(JobSpec::pull("gone", false)).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("failed to get repository 'gone': it does not exist"), "{said}");
}

#[tokio::test]
async fn a_repository_that_refuses_its_token_is_not_pulled() {
    let (git, world, process) = small().await;
    process.stop().await;
    let generation = world.repository("test6").await.metadata.generation;
    let status = json!({"status": {
        "health": {"healthy": false, "error": "health", "checked": 5},
        "conditions": [{"type": "Ready", "status": "False", "reason": "AuthenticationFailed", "message": "bad token",
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    world.patch_status("test6", status).await;
    let _process = world.start(register, PROVISIONING_JOBS);
    let (state, said) = end_of(&world.pull("test6", false).await);
    assert_eq!(state, JobState::Warning);
    assert!(said.contains("refuses its token: bad token"), "{said}");
    assert_eq!(git.requests(), 0);
}

#[tokio::test]
async fn a_process_that_is_told_to_stop_gives_its_job_back() {
    let (_git, world, process) = small().await;
    world.fault.hold(|method, path| method == "POST" && path.ends_with("/dashboards"));
    let job = world.queue(JobSpec::pull("test6", false)).await;
    world.fault.holding().await;
    process.stop().await;
    world.fault.let_go();
    let queued = world.api::<Job>().get("test6-sync").await.unwrap();
    assert!(
        !queued.metadata.labels.unwrap().contains_key(labels::CLAIM),
        "another replica may claim it at once"
    );
    let _process = world.start(register, PROVISIONING_JOBS);
    assert_eq!(end_of(&world.ended(&job).await).0, JobState::Success);
    assert_eq!(world.dashboards().await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_pull_beyond_its_time_is_stopped_and_the_repository_says_that_it_failed() {
    let world = World::new().set("operator.max_job_timeout", "5s");
    let files = world.create_local("test6").await;
    std::fs::write(files.join("a.json"), dashboard("a", "A")).unwrap();
    world.fault.hold(|method, path| method == "POST" && path.ends_with("/dashboards"));
    let _process = world.start(register, PROVISIONING_JOBS);
    let (state, said) = end_of(&world.pull("test6", false).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("context deadline exceeded"), "{said}");
    let repository = world.repository("test6").await;
    assert_eq!(repository.status.sync.state, JobState::Error);
    assert_eq!(repository.status.sync.last_ref, "");
    world.fault.let_go();
}

#[tokio::test]
async fn two_processes_run_each_of_many_jobs_once() {
    let world = World::new().set("operator.concurrent_drivers", "3");
    with_repository(&world).await;
    let first = world.start(register, PROVISIONING_JOBS);
    let second = world.start(register, PROVISIONING_JOBQUEUE);
    for _ in 0..40 {
        world.queue(sleep("1ms")).await;
    }
    eventually("the queue is empty", || async {
        let left = world.jobs().await.len();
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    let history = world.history().await;
    assert_eq!(history.len(), 40);
    assert!(history.iter().all(|record| record.status.state == JobState::Success));
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_attempts_are_used_up_is_failed_and_filed() {
    let world = World::new()
        .set("operator.max_attempts", "1")
        .set("operator.lease_expiry", "3s")
        .set("operator.lease_renewal_interval", "1s")
        .set("operator.cleanup_interval", "1s");
    with_repository(&world).await;
    let first = world.start_with(register, PROVISIONING_JOBQUEUE, Death::After(1), |_context| {});
    let job = world.queue(sleep("1ms")).await;
    first.dead().await;
    first.kill().await;
    let _second = world.start(register, PROVISIONING_JOBS);
    let (state, said) = end_of(&world.ended(&job).await);
    assert_eq!((state, said.trim()), (JobState::Error, windlass_lease_queue::LEASE_EXPIRED));
}

#[tokio::test(start_paused = true)]
async fn without_processing_no_job_is_claimed() {
    let world = World::new().set("operator.jobs_processing_enabled", "false");
    with_repository(&world).await;
    let _process = world.start(register, PROVISIONING_JOBS);
    world.queue(sleep("1ms")).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let jobs = world.jobs().await;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].status.state, JobState::Pending);
}

#[tokio::test(start_paused = true)]
async fn history_is_kept_for_as_long_as_the_settings_say() {
    let world = World::new().set("operator.history_expiration", "10m");
    with_repository(&world).await;
    let clock = Arc::new(ManualClock::following_tokio(jiff::Timestamp::now()));
    let _process = world.start_with_clock(register, PROVISIONING_JOBS, clock);
    world.run(sleep("1ms")).await;
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert_eq!(world.history().await.len(), 1);
    // It is looked at a few times within the expiration.
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(world.history().await.is_empty());
}
