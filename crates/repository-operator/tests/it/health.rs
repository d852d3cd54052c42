//! Health checks: when, and what they say.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{HealthErrorKind, Repository};
use windlass_git_server::HttpBackend;
use windlass_repository_operator::{PROVISIONING_REPO, register};
use windlass_runtime::{Clock as _, ManualClock};

use crate::kit::{GitServer, World};

pub(crate) fn ready(repository: &Repository) -> (bool, &str, &str) {
    let ready = conditions::find(&repository.status.conditions, types::READY);
    ready.map_or((false, "", ""), |ready| (ready.status == "True", &ready.reason, &ready.message))
}

pub(crate) fn git_spec(git: &GitServer) -> Value {
    json!({"spec": {"git": {"url": git.url(), "branch": "main"}}})
}

/// A clock that moves with tokio's paused time. It begins now, as the API server's does: history is pruned by age.
pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::following_tokio(jiff::Timestamp::now()))
}

/// A `local` repository, for tests under paused time.
pub(crate) async fn local(world: &World, extra: Value) -> std::path::PathBuf {
    let files = world.create_local("test6").await;
    if !extra.is_null() {
        world.patch_repository("test6", extra).await;
    }
    files
}

#[tokio::test]
async fn a_new_repository_is_checked_and_says_that_it_is_ready() {
    let git = GitServer::new().await;
    git.put(&[("a.json", "a", "A")]);
    let world = World::with_git(&git)
        .set("provisioning.max_repositories", "9")
        .set("provisioning.max_resources_per_repository", "70");
    let _process = world.start(register, PROVISIONING_REPO);
    world.create_repository("test6", git_spec(&git)).await;
    let repository =
        world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
    assert_eq!(ready(&repository), (true, reasons::AVAILABLE, "Resource is available"));
    assert_eq!(repository.status.observed_generation, repository.metadata.generation.unwrap());
    assert!(repository.status.health.checked > 0);
    assert_eq!(repository.status.health.error, None);
    let quota = repository.status.quota.clone().unwrap();
    assert_eq!((quota.max_repositories, quota.max_resources_per_repository), (9, 70));
    assert_eq!(quota.updated_at, repository.status.health.checked);
    assert!(repository.status.field_errors.is_empty());
    assert_eq!(git.requests(), 1);
}

#[tokio::test]
async fn a_check_is_one_write_and_makes_no_further_one() {
    let git = GitServer::new().await;
    git.put(&[("a.json", "a", "A")]);
    let world = World::with_git(&git);
    let process = world.start(register, PROVISIONING_REPO);
    world.create_repository("test6", git_spec(&git)).await;
    world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
    // A second repository passes through the same queue after whatever the first one's write set off.
    world.create_local("later").await;
    world.repository_when("it is healthy", "later", |found| found.status.health.healthy).await;
    process.stop().await;
    let mut writes = world.requests.writes();
    writes.sort();
    assert_eq!(writes, ["PATCH repositories/later/status", "PATCH repositories/test6/status"]);
}

#[tokio::test]
async fn what_is_wrong_is_said_with_reason_and_field() {
    let git = GitServer::with(|backend: HttpBackend| backend.basic_auth("git", "right".into())).await;
    git.put(&[("a.json", "a", "A")]);
    let world = World::with_git(&git);
    let _process = world.start(register, PROVISIONING_REPO);
    let mut document = git_spec(&git);
    document["secure"] = json!({"token": {"create": "wrong"}});
    document["spec"]["git"]["tokenUser"] = "git".into();
    world.create_repository("refused", document).await;
    world
        .create_repository(
            "nowhere",
            json!({"spec": {"git": {"url": format!("{}/none.git", git.origin()), "branch": "main"}}}),
        )
        .await;
    let refused =
        world.repository_when("it was checked", "refused", |found| found.status.health.checked != 0).await;
    assert_eq!(ready(&refused).1, reasons::AUTHENTICATION_FAILED, "{refused:#?}");
    assert_eq!(refused.status.field_errors[0].field, "secure.token");
    assert_eq!(refused.status.health.error, Some(HealthErrorKind::Health));
    assert!(!format!("{refused:?}").contains("wrong"));

    world.patch_repository("refused", json!({"secure": {"token": {"create": "right"}}})).await;
    world.repository_when("it is healthy", "refused", |found| found.status.health.healthy).await;

    let nowhere =
        world.repository_when("it was checked", "nowhere", |found| found.status.health.checked != 0).await;
    assert!(!ready(&nowhere).0 && !ready(&nowhere).2.is_empty(), "{nowhere:#?}");
}

#[tokio::test]
async fn a_branch_that_is_not_there_is_named() {
    let git = GitServer::new().await;
    git.put(&[("a.json", "a", "A")]);
    let world = World::with_git(&git);
    let _process = world.start(register, PROVISIONING_REPO);
    world.create_repository("test6", json!({"spec": {"git": {"url": git.url(), "branch": "nope"}}})).await;
    let repository =
        world.repository_when("it was checked", "test6", |found| found.status.health.checked != 0).await;
    assert!(ready(&repository).2.contains("nope"), "{repository:#?}");
    assert_eq!(repository.status.field_errors[0].field, "spec.git.branch");
}

#[tokio::test]
async fn a_server_that_never_answers_makes_the_repository_unhealthy_and_holds_up_no_other() {
    let silent = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap()); // Accepted by the kernel, read by nobody.
    let git = GitServer::new().await;
    git.put(&[("a.json", "a", "A")]);
    let world = World::with_git(&git)
        .set("operator.allowed_git_origins", &format!("{}|{silent}", git.origin()))
        .set("operator.worker_count", "2");
    let process = world.start_with(register, PROVISIONING_REPO, crate::kit::Death::Never, |context| {
        context.check_deadline = Duration::from_secs(10);
    });
    world
        .create_repository(
            "silent",
            json!({"spec": {"git": {"url": format!("{silent}/x.git"), "branch": "main"}}}),
        )
        .await;
    world.create_repository("test6", git_spec(&git)).await;
    world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
    let repository =
        world.repository_when("it was checked", "silent", |found| found.status.health.checked != 0).await;
    assert_eq!(ready(&repository).1, reasons::SERVICE_UNAVAILABLE, "{repository:#?}");
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_healthy_repository_is_checked_again_after_five_minutes() {
    let world = World::new();
    let clock = clock();
    local(&world, Value::Null).await;
    let _process = world.start_with_clock(register, PROVISIONING_REPO, clock.clone());
    let first = world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
    let checked = first.status.health.checked;
    while clock.now().as_millisecond() < checked + 299_000 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.repository("test6").await.status.health.checked, checked);
    }
    let again = world
        .repository_when("it is checked again", "test6", |found| found.status.health.checked != checked)
        .await;
    let after = again.status.health.checked - checked;
    assert!((300_000..302_000).contains(&after), "{after} ms");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_repository_is_checked_every_minute_and_recovers() {
    let world = World::new();
    let clock = clock();
    let files = local(&world, Value::Null).await;
    std::fs::remove_dir(&files).unwrap();
    let _process = world.start_with_clock(register, PROVISIONING_REPO, clock);
    let broken =
        world.repository_when("it was checked", "test6", |found| found.status.health.checked != 0).await;
    assert!(!ready(&broken).0);
    std::fs::create_dir(&files).unwrap();
    let healed = world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
    let after = healed.status.health.checked - broken.status.health.checked;
    assert!((60_000..62_000).contains(&after), "{after} ms");
    assert!(healed.status.field_errors.is_empty() && healed.status.health.message.is_empty());
}

#[tokio::test]
async fn a_write_that_meets_a_newer_version_is_made_again_without_another_check() {
    let git = GitServer::new().await;
    git.put(&[("a.json", "a", "A")]);
    let world = World::with_git(&git);
    world.create_repository("test6", git_spec(&git)).await;
    world.fault.hold(|method, path| method == "PATCH" && path.ends_with("/status"));
    let _process = world.start(register, PROVISIONING_REPO);
    world.fault.holding().await;
    world.patch_status("test6", json!({"status": {"sync": {"lastRef": "somebody else's"}}})).await;
    world.fault.resume();
    let repository =
        world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
    assert_eq!(repository.status.sync.last_ref, "somebody else's");
    assert_eq!(git.requests(), 1);
}

#[tokio::test]
async fn a_check_that_a_shutdown_cuts_short_says_nothing_about_the_repository() {
    let silent = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let origin = format!("http://{}", silent.local_addr().unwrap());
    let world = World::new().set("operator.allowed_git_origins", &origin);
    let spec = json!({"spec": {"git": {"url": format!("{origin}/x.git"), "branch": "main"}}});
    world.create_repository("test6", spec).await;
    let healthy = json!({"status": {"observedGeneration": 0, "health": {"healthy": true, "checked": 1_000}, "sync": {"state": ""}}});
    world.patch_status("test6", healthy).await;
    let process = world.start(register, PROVISIONING_REPO);
    let asked = tokio::time::timeout(Duration::from_secs(30), silent.accept()).await;
    let _connection = asked.expect("the source is asked").unwrap();
    process.stop().await;
    let repository = world.repository("test6").await;
    assert!(repository.status.health.healthy, "{repository:#?}");
    assert_eq!(repository.status.health.checked, 1_000);
}

#[tokio::test(start_paused = true)]
async fn events_tell_that_a_repository_is_unhealthy_and_healthy_again() {
    let world = World::new();
    let files = local(&world, Value::Null).await;
    let _process = world.start_with_clock(register, PROVISIONING_REPO, clock());
    world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
    std::fs::remove_dir(&files).unwrap();
    world.patch_repository("test6", json!({"spec": {"title": "again"}})).await;
    world.repository_when("it is unhealthy", "test6", |found| !found.status.health.healthy).await;
    std::fs::create_dir(&files).unwrap();
    tokio::time::sleep(Duration::from_secs(50)).await;
    let healed = world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
    let events = world.api::<k8s_openapi::api::events::v1::Event>();
    let told = crate::kit::eventually("both are told", || async {
        let mut found = events.list(&kube::api::ListParams::default()).await.unwrap().items;
        found.sort_by_key(|event| event.event_time.clone());
        if found.len() == 2 { Ok(found) } else { Err(found) }
    })
    .await;
    let what: Vec<_> = told.iter().map(|event| (event.type_.as_deref(), event.reason.as_deref())).collect();
    assert_eq!(what, [(Some("Warning"), Some("Unhealthy")), (Some("Normal"), Some("Healthy"))]);
    for event in &told {
        let regarding = event.regarding.clone().unwrap();
        assert_eq!(
            (regarding.kind.as_deref(), regarding.uid),
            (Some("Repository"), healed.metadata.uid.clone())
        );
    }
}
