//! What becomes of jobs and resources when a repository is deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_api::{Dashboard, DeletionStatus, Job, JobSpec, JobState, Repository, finalizers};
use windlass_jobs_operator::{PROVISIONING_JOBS, register as jobs};
use windlass_repository_operator::{PROVISIONING_REPO, register};

use crate::kit::{Death, GitServer, World, dashboard, end_of, eventually};

async fn gone(world: &World) {
    eventually("the repository is gone", || async {
        match world.api::<Repository>().get_opt("test6").await.unwrap() {
            None => Ok(()),
            Some(left) => Err(format!("{left:#?}")),
        }
    })
    .await;
}

/// A world with a pulled repository.
async fn pulled(finalizer: Option<&str>) -> (GitServer, World) {
    let git = GitServer::new().await;
    git.put(&[("a.json", "a", "A"), ("x/b.json", "b", "B"), ("x/y/c.json", "c", "C")]);
    let world = World::with_git(&git);
    let mut document = json!({"spec": {"git": {"url": git.url(), "branch": "main"}}});
    if let Some(finalizer) = finalizer {
        document["metadata"] =
            json!({"finalizers": [finalizers::REMOVE_PENDING_JOBS, finalizers::CLEANUP, finalizer]});
    }
    world.create_repository("test6", document).await;
    let process = world.start(jobs, PROVISIONING_JOBS);
    assert_eq!(end_of(&world.pull("test6", false).await).0, JobState::Success);
    process.stop().await;
    (git, world)
}

#[tokio::test]
async fn what_a_deleted_repository_managed_is_removed() {
    let (_git, world) = pulled(None).await;
    let own: Dashboard = serde_json::from_value(json!({
        "apiVersion": "dashboard.grafana.app/v1beta1", "kind": "Dashboard",
        "metadata": ObjectMeta { name: Some("own".to_owned()), ..ObjectMeta::default() }, "spec": {"title": "Own"},
    }))
    .unwrap();
    world.api::<Dashboard>().create(&PostParams::default(), &own).await.unwrap();
    let _process = world.start(register, PROVISIONING_REPO);
    world.delete_repository("test6").await;
    gone(&world).await;
    assert_eq!(world.dashboards().await.into_keys().collect::<Vec<_>>(), ["own:"], "what is not ours stays");
    assert!(world.folders().await.is_empty());
}

#[tokio::test]
async fn what_a_repository_managed_is_released_when_it_is_asked_for() {
    let (_git, world) = pulled(Some(finalizers::RELEASE_ORPHAN_RESOURCES)).await;
    let _process = world.start(register, PROVISIONING_REPO);
    world.delete_repository("test6").await;
    gone(&world).await;
    assert_eq!(world.dashboards().await.into_keys().collect::<Vec<_>>(), ["a:", "b:", "c:"]);
    assert_eq!(world.folders().await.len(), 3);
    let marks = serde_json::to_string(&world.managed().await).unwrap();
    assert!(!marks.contains("test6-") && !marks.contains("windlass.dev/managed-by"), "{marks}");
}

#[tokio::test]
async fn waiting_jobs_of_a_deleted_repository_are_removed_and_others_stay() {
    let (_git, world) = pulled(None).await;
    world.create_local("other").await;
    world.queue(JobSpec::pull("test6", false)).await;
    let kept = world.queue(JobSpec::pull("other", false)).await;
    let _process = world.start(register, PROVISIONING_REPO);
    world.delete_repository("test6").await;
    gone(&world).await;
    let left: Vec<Option<String>> = world.jobs().await.into_iter().map(|job| job.metadata.name).collect();
    assert_eq!(left, [kept.metadata.name]);
}

#[tokio::test]
async fn a_repository_deleted_during_a_pull_stops_it_and_leaves_nothing() {
    let git = GitServer::new().await;
    let files: Vec<(String, String)> =
        (0..60).map(|i| (format!("f{}/d{i}.json", i % 5), format!("d{i}"))).collect();
    let files: Vec<(&str, &str, &str)> = files.iter().map(|(path, name)| (&**path, &**name, "D")).collect();
    git.put(&files);
    let world = World::with_git(&git);
    world.create_repository("test6", json!({"spec": {"git": {"url": git.url(), "branch": "main"}}})).await;
    // The pull gets as far as its thirtieth dashboard or so.
    world.fault.hold(|method, path| method == "PUT" || (method == "POST" && path.ends_with("/dashboards")));
    let _jobs = world.start(jobs, PROVISIONING_JOBS);
    let _repositories = world.start(register, PROVISIONING_REPO);
    let job = world.queue(JobSpec::pull("test6", false)).await;
    world.fault.holding().await;
    world.delete_repository("test6").await;
    let record = world.ended(&job).await;
    let (state, said) = end_of(&record);
    // Writes that were under way are awaited; what became of them is said too.
    assert_eq!((state, said.lines().next()), (JobState::Error, Some("the repository is being deleted")));
    world.fault.resume();
    gone(&world).await;
    assert!(world.managed().await.is_empty());
    assert!(world.jobs().await.is_empty());
}

#[tokio::test]
async fn what_cannot_be_deleted_is_named_until_it_can_be() {
    let (_git, world) = pulled(None).await;
    world.fault.answer(|method, path| {
        (method == "DELETE" && path.ends_with("/dashboards/b")).then_some(StatusCode::INTERNAL_SERVER_ERROR)
    });
    world.delete_repository("test6").await;
    let process = world.start(register, PROVISIONING_REPO);
    let blocked = world
        .repository_when("it says what is in the way", "test6", |found| found.status.deletion.is_some())
        .await;
    let deletion = blocked.status.deletion.clone().unwrap();
    assert_eq!(
        (deletion.state.as_str(), deletion.finalizer.as_str()),
        (DeletionStatus::BLOCKED, "remove-orphan-resources")
    );
    assert!(
        deletion.message.contains("x/b.json") && deletion.message.contains("this was made to fail"),
        "{deletion:#?}"
    );
    let target = deletion.errors[0].target.clone().unwrap();
    assert_eq!((target.resource.as_str(), target.name.as_str()), ("dashboards", "b"));
    assert!(blocked.status.delete_error.contains("x/b.json"));
    assert!(!blocked.status.health.healthy);
    assert_eq!(
        blocked.metadata.finalizers.clone().unwrap(),
        ["remove-orphan-resources"],
        "what is done is taken off"
    );

    // It is tried again with back-off: a status that says the same is not written again, and sets off nothing.
    let attempts = || {
        let all = world.requests.all();
        all.iter()
            .filter(|request| request.method == "DELETE" && request.path.ends_with("/dashboards/b"))
            .count()
    };
    let before = attempts();
    eventually("it is tried again", || async {
        if attempts() >= before + 2 { Ok(()) } else { Err(attempts()) }
    })
    .await;
    let still = world.repository("test6").await;
    assert_eq!(still.metadata.resource_version, blocked.metadata.resource_version);
    world.fault.heal();
    gone(&world).await;
    assert!(world.managed().await.is_empty());
    let text = eventually("the deletion is counted", || async {
        let text = process.context.metrics.render().unwrap();
        let counted = text.contains("grafana_provisioning_repository_deletions_total 1");
        if counted { Ok(text) } else { Err(text) }
    })
    .await;
    for (series, least) in [
        ("repository_deletion_failures_total{stage=\"process_finalizers\"}", 2),
        ("repository_deletion_pending_seconds_count", 3),
        (
            "finalizers_duration_seconds_count{finalizer_type=\"remove-orphan-resources\",resource_count_bucket=\"1-10\"}",
            1,
        ),
    ] {
        let start = format!("grafana_provisioning_{series} ");
        let found = text.lines().find_map(|line| line.strip_prefix(&*start)?.parse::<u64>().ok());
        assert!(found >= Some(least), "{series}: {found:?} in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_somebody_else_holds_is_looked_for_less_and_less_often() {
    let world = World::new();
    let files = world.create_local("test6").await;
    std::fs::write(files.join("a.json"), dashboard("a", "A")).unwrap();
    let process = world.start(jobs, PROVISIONING_JOBS);
    world.pull("test6", false).await;
    process.stop().await;
    let dashboards = world.api::<Dashboard>();
    let held_by = |finalizers: serde_json::Value| {
        let (dashboards, patch) = (dashboards.clone(), json!({"metadata": {"finalizers": finalizers}}));
        async move { dashboards.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap() }
    };
    held_by(json!(["example.com/hold"])).await;
    // Its deletion is accepted each time, and does not come to an end. Time stands still while it is asked for.
    let (asked, too_often) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let (count, limit) = (asked.clone(), too_often.clone());
    world.fault.answer(move |method, path| {
        let is_one = method == "DELETE" && path.ends_with("/dashboards/a");
        if is_one && count.fetch_add(1, Ordering::SeqCst) == 100 {
            limit.cancel();
        }
        None
    });
    world.delete_repository("test6").await;
    let _process = world.start(register, PROVISIONING_REPO);
    tokio::select! {
        () = too_often.cancelled() => panic!("a hundred times at once"),
        () = tokio::time::sleep(Duration::from_mins(10)) => {}
    }
    let asked = asked.load(Ordering::SeqCst);
    assert!((10..=80).contains(&asked), "{asked} times in ten minutes");
    assert!(world.api::<Repository>().get_opt("test6").await.unwrap().is_some());
    held_by(serde_json::Value::Null).await;
    gone(&world).await;
    assert!(world.managed().await.is_empty());
}

#[tokio::test]
async fn a_job_whose_worker_vanished_does_not_block_a_deletion_for_ever() {
    let (_git, world) = pulled(None).await;
    let world = world.set("operator.lease_expiry", "3s").set("operator.lease_renewal_interval", "1s");
    world.fault.hold(|method, path| method == "PATCH" && path.ends_with("/repositories/test6/status"));
    let first = world.start(jobs, PROVISIONING_JOBS);
    let job = world.queue(JobSpec::pull("test6", false)).await;
    world.fault.holding().await;
    first.kill().await;
    world.fault.resume();
    let api: Api<Job> = world.api();
    assert!(api.get_opt("test6-sync").await.unwrap().is_some());
    let _repositories = world.start(register, PROVISIONING_REPO);
    world.delete_repository("test6").await;
    let _second = world.start(jobs, PROVISIONING_JOBS);
    world.ended(&job).await;
    gone(&world).await;
    assert!(world.managed().await.is_empty());
}

/// Deletes a pulled repository with a process that dies, and then another one; tells whether the first one died.
async fn delete_with(death: Death) -> bool {
    let world = World::new();
    let files = world.create_local("test6").await;
    for (path, name) in [("a.json", "a"), ("x/b.json", "b"), ("x/y/c.json", "c")] {
        std::fs::create_dir_all(files.join(path).parent().unwrap()).unwrap();
        std::fs::write(files.join(path), dashboard(name, path)).unwrap();
    }
    let process = world.start(jobs, PROVISIONING_JOBS);
    world.pull("test6", false).await;
    process.stop().await;
    assert_eq!(world.managed().await.len(), 6);
    world.queue(JobSpec::pull("test6", false)).await;
    world.delete_repository("test6").await;
    let first = world.start_with(register, PROVISIONING_REPO, death, |_context| {});
    let died = tokio::select! {
        () = first.dead() => true,
        () = gone(&world) => false,
    };
    first.kill().await;
    let _second = world.start(register, PROVISIONING_REPO);
    gone(&world).await;
    assert!(world.managed().await.is_empty() && world.jobs().await.is_empty(), "{death:?}");
    died
}

#[tokio::test(start_paused = true)]
async fn a_deletion_survives_a_death_at_every_write() {
    for kind in [Death::Before, Death::After] {
        let mut number = 1;
        while delete_with(kind(number)).await {
            number += 1;
        }
        // A job, six objects and three finalizers.
        assert!(number >= 9, "{number} writes are too few to be all");
    }
}
