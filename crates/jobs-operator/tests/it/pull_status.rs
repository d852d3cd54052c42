//! What pulls say in the repository's status.

use http::StatusCode;
use serde_json::json;
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{JobState, Repository};
use windlass_git_server::seed::Edit;

use crate::kit::{dashboard, end_of};
use crate::pull::small;

fn pull_status(repository: &Repository) -> (bool, &str) {
    let condition = conditions::find(&repository.status.conditions, types::PULL_STATUS).unwrap();
    (condition.status == "True", condition.reason.as_str())
}

#[tokio::test]
async fn a_pull_tells_revision_times_and_counts() {
    let (git, world, _process) = small().await;
    let tip = git.put(&[("one-more.json", "one-more", "One more")]);
    let record = world.pull("test6", false).await;
    let repository = world.repository("test6").await;
    let sync = &repository.status.sync;
    assert_eq!((sync.state, sync.last_ref.as_str()), (JobState::Success, tip.as_str()));
    assert_eq!(sync.job, "test6-sync");
    assert!(sync.started >= record.status.started && sync.finished >= sync.started, "{sync:?}");
    assert!(!sync.incremental);
    let stats: Vec<(&str, &str, i64)> = repository
        .status
        .stats
        .iter()
        .map(|count| (count.group.as_str(), count.resource.as_str(), count.count))
        .collect();
    assert_eq!(stats, [("dashboard.grafana.app", "dashboards", 6), ("folder.grafana.app", "folders", 4)]);
    assert_eq!(pull_status(&repository), (true, reasons::SUCCESS));
    let quota = conditions::find(&repository.status.conditions, types::RESOURCE_QUOTA).unwrap();
    assert_eq!(quota.reason, reasons::QUOTA_UNLIMITED);
}

#[tokio::test]
async fn a_pull_adds_two_writes_to_its_repositorys_status() {
    let (git, world, _process) = small().await;
    world.requests.clear();
    world.pull("test6", false).await;
    assert_eq!(world.requests.writes_to("repositories"), ["PATCH repositories/test6/status"; 2]);
    git.put(&[("one-more.json", "one-more", "One more")]);
    world.requests.clear();
    world.pull("test6", true).await;
    assert_eq!(world.requests.writes_to("repositories"), ["PATCH repositories/test6/status"; 2]);
    let mut jobs = world.requests.writes_to("jobs");
    jobs.dedup(); // One that lasts longer than half a second tells its progress after it was claimed.
    assert_eq!(jobs, ["POST jobs", "PATCH jobs/test6-sync", "DELETE jobs/test6-sync"]);
    assert_eq!(world.requests.writes_to("historicjobs"), ["POST historicjobs"]);
}

#[tokio::test]
async fn a_failed_pull_keeps_the_last_revision_and_the_next_one_repairs_everything() {
    let (git, world, _process) = small().await;
    world.pull("test6", true).await;
    let last = world.repository("test6").await.status.sync.last_ref;
    git.commit([
        Edit::put("a.json", dashboard("a", "A")),
        Edit::put("team-a/cpu.json", dashboard("cpu", "CPU by core")),
    ]);
    world.fault.answer(|method, path| {
        (method == "PATCH" && path.ends_with("/dashboards/cpu")).then_some(StatusCode::INTERNAL_SERVER_ERROR)
    });
    let record = world.pull("test6", true).await;
    let (state, said) = end_of(&record);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("team-a/cpu.json") && said.contains("this was made to fail"), "{said}");
    let repository = world.repository("test6").await;
    assert_eq!(repository.status.sync.state, JobState::Error);
    assert_eq!(repository.status.sync.last_ref, last);
    assert_eq!(pull_status(&repository), (false, reasons::FAILURE));
    assert!(world.dashboards().await.contains_key("a.json"), "what could be applied was");

    world.fault.heal();
    world.pull("test6", true).await;
    let repository = world.repository("test6").await;
    assert_eq!(repository.status.sync.state, JobState::Success);
    assert_ne!(repository.status.sync.last_ref, last);
    assert_eq!(world.dashboards().await["team-a/cpu.json"], "CPU by core");
    let counts: Vec<i64> = repository.status.stats.iter().map(|count| count.count).collect();
    assert_eq!(counts, [6, 4], "counted anew, since the failed pull may have miscounted");
}

#[tokio::test]
async fn an_unreachable_repository_fails_the_pull_and_says_why() {
    let (git, world, _process) = small().await;
    git.hide();
    let record = world.pull("test6", false).await;
    let (state, said) = end_of(&record);
    assert_eq!(state, JobState::Error);
    assert!(said.starts_with("failed to find the branch: "), "{said}");
    let repository = world.repository("test6").await;
    assert_eq!(
        (repository.status.sync.state, repository.status.sync.last_ref.as_str()),
        (JobState::Error, "")
    );
    assert_eq!(pull_status(&repository), (false, reasons::FAILURE));
    assert!(repository.status.sync.message.is_some_and(|texts| !texts.is_empty()));
}

#[tokio::test]
async fn a_pull_leaves_alone_what_others_write_into_the_status() {
    let (_git, world, _process) = small().await;
    world.fault.hold(|method, path| method == "POST" && path.ends_with("/dashboards"));
    let job = world.queue(windlass_api::JobSpec::pull("test6", false)).await;
    world.fault.holding().await;
    world.patch_status("test6", json!({"status": {"health": {"healthy": true, "checked": 12}}})).await;
    world.fault.resume();
    let record = world.ended(&job).await;
    assert_eq!(end_of(&record).0, JobState::Success);
    let repository = world.repository("test6").await;
    assert_eq!(repository.status.health.checked, 12);
    assert_eq!(repository.status.sync.state, JobState::Success);
}

#[tokio::test]
async fn a_pull_is_for_the_specification_that_it_began_with() {
    let (_git, world, _process) = small().await;
    world.fault.hold(|method, path| method == "POST" && path.ends_with("/dashboards"));
    let job = world.queue(windlass_api::JobSpec::pull("test6", false)).await;
    world.fault.holding().await;
    let before = world.repository("test6").await.metadata.generation;
    world.patch_repository("test6", json!({"spec": {"git": {"path": "team-a"}}})).await;
    world.fault.resume();
    world.ended(&job).await;
    let repository = world.repository("test6").await;
    let condition = conditions::find(&repository.status.conditions, types::PULL_STATUS).unwrap();
    assert_eq!(condition.observed_generation, before);
    assert_ne!(condition.observed_generation, repository.metadata.generation);
}
