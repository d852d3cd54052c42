//! Jobs beside pulls, and how they end.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use windlass_api::{HistoricJob, Job, JobSpec, JobState, annotations, labels};
use windlass_jobs_operator::{PROVISIONING_JOBQUEUE, PROVISIONING_JOBS, register};
use windlass_runtime::ManualClock;

use crate::kit::{Death, GitServer, World, dashboard, end_of, eventually};
use crate::pull::{create, seed, small};

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

/// The only Event that there is, once there is one.
async fn event(world: &World) -> Event {
    eventually("there is an Event", || async {
        let mut events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        events.pop().ok_or("none")
    })
    .await
}

#[tokio::test]
async fn a_job_that_failed_is_an_event_of_its_repository() {
    let world = World::new();
    let files = world.create_local("test6").await;
    std::fs::remove_dir(&files).unwrap();
    let _process = world.start(register, PROVISIONING_JOBS);
    let (state, said) = end_of(&world.pull("test6", false).await);
    assert_eq!(state, JobState::Error, "{said}");
    let event = event(&world).await;
    let about = event.regarding.unwrap();
    let uid = world.repository("test6").await.metadata.uid;
    assert_eq!((about.kind.as_deref(), about.name.as_deref()), (Some("Repository"), Some("test6")));
    assert_eq!(about.uid, uid);
    assert_eq!((event.type_.as_deref(), event.reason.as_deref()), (Some("Warning"), Some("JobFailed")));
    let note = event.note.unwrap();
    assert!(
        note.starts_with("job test6-sync (pull) failed: ") && said.contains(&note[30..]),
        "{note}\n{said}"
    );
}

#[tokio::test]
async fn the_record_of_a_pull_names_the_commit() {
    let (git, world, _process) = small().await;
    let tip = git.put(&[("more.json", "more", "More")]);
    let record = world.pull("test6", false).await;
    assert_eq!(record.metadata.annotations.unwrap()[annotations::REVISION], tip);
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
async fn a_process_that_is_told_to_stop_awaits_the_write_under_way_and_gives_its_job_back() {
    let git = GitServer::new().await;
    seed(&git);
    let world = World::with_git(&git).set("operator.max_sync_workers", "1");
    create(&world, &git).await;
    let process = world.start(register, PROVISIONING_JOBS);
    world.fault.hold(|method, path| method == "POST" && path.ends_with("/dashboards"));
    let job = world.queue(JobSpec::pull("test6", false)).await;
    world.fault.holding().await;
    process.context.supervisor.token().cancel();
    world.fault.resume();
    process.stop().await;
    assert_eq!(world.dashboards().await.len(), 1, "what was sent is there before the job is given back");
    let queued = world.api::<Job>().get("test6-sync").await.unwrap();
    assert!(
        !queued.metadata.labels.unwrap().contains_key(labels::CLAIM),
        "another replica may claim it at once"
    );
    let repository = world.repository("test6").await;
    assert_eq!(repository.status.sync.state, JobState::Working, "it did not fail");
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
    world.fault.resume();
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
    let event = event(&world).await;
    assert_eq!(event.regarding.unwrap().uid, world.repository("test6").await.metadata.uid);
    let note = event.note.unwrap();
    assert!(note.ends_with(&format!("(test) failed: {}", windlass_lease_queue::LEASE_EXPIRED)), "{note}");
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
    let world = World::new().set("operator.history_max_age", "10m");
    with_repository(&world).await;
    let clock = Arc::new(ManualClock::following_tokio(jiff::Timestamp::now()));
    let _process = world.start_with_clock(register, PROVISIONING_JOBS, clock);
    world.run(sleep("1ms")).await;
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert_eq!(world.history().await.len(), 1);
    // History is looked at four times within the age, so the record is seen and gone before two more looks have passed.
    tokio::time::sleep(Duration::from_mins(7)).await;
    assert!(world.history().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_any_setting_the_newest_hundred_records_of_a_repository_are_kept() {
    let world = World::new();
    let now = jiff::Timestamp::now().as_millisecond();
    let records = world.api::<HistoricJob>();
    for number in 0..103 {
        let record: HistoricJob = serde_json::from_value(json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "HistoricJob",
            "metadata": {"name": format!("job-{number:03}"), "labels": {labels::REPOSITORY: "test6"}},
            "spec": {"action": "pull", "repository": "test6", "pull": {}},
            "status": {"state": "success", "started": now, "finished": now + number},
        }))
        .unwrap();
        records.create(&PostParams::default(), &record).await.unwrap();
    }
    let _process = world.start(register, PROVISIONING_JOBS);
    tokio::time::sleep(Duration::from_mins(15)).await;
    let mut names: Vec<String> =
        world.history().await.into_iter().filter_map(|record| record.metadata.name).collect();
    names.sort();
    assert_eq!((names.len(), names[0].as_str()), (100, "job-003"), "{names:?}");
}
