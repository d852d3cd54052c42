//! Limits on what one pull does.

use windlass_api::JobState;
use windlass_api::conditions::{self, reasons, types};
use windlass_git_server::seed::Edit;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use crate::kit::{GitServer, World, dashboard, end_of};
use crate::pull::{create, seed};

async fn limited(key: &str, value: &str) -> (GitServer, World) {
    let git = GitServer::new().await;
    seed(&git);
    let world = World::with_git(&git).set(key, value);
    create(&world, &git).await;
    (git, world)
}

fn lists(world: &World) -> usize {
    let all = world.requests.all();
    all.iter().filter(|request| request.method == "GET" && request.path.ends_with("/dashboards")).count()
}

#[tokio::test]
async fn more_changes_than_the_limit_make_a_pull_full() {
    let (git, world) = limited("provisioning.max_incremental_changes", "2").await;
    let _process = world.start(register, PROVISIONING_JOBS);
    world.pull("test6", true).await;
    let files =
        |count: u8| (0..count).map(|i| Edit::put(format!("{i}.json"), dashboard(&format!("d{i}"), "D")));
    git.commit(files(2));
    world.requests.clear();
    world.pull("test6", true).await;
    assert_eq!(lists(&world), 0);
    git.commit((5..8).map(|i| Edit::put(format!("{i}.json"), dashboard(&format!("d{i}"), "D"))));
    world.pull("test6", true).await;
    assert_eq!(lists(&world), 1);
    assert_eq!(world.dashboards().await.len(), 10);
}

#[tokio::test]
async fn new_objects_beyond_the_limit_are_left_out_and_named_until_there_is_room() {
    let (git, world) = limited("provisioning.max_resources_per_repository", "7").await;
    let _process = world.start(register, PROVISIONING_JOBS);
    let (state, said) = end_of(&world.pull("test6", true).await);
    assert_eq!(state, JobState::Warning, "{said}");
    // The root folder, overview, team-a with two, and nested with one make seven; team-b with one would make nine.
    assert_eq!(world.folders().await, ["", "team-a", "team-a/nested"]);
    assert_eq!(world.dashboards().await.len(), 4);
    assert!(said.contains("file: team-b/network.json") && said.contains("may manage 7 resources"), "{said}");
    let repository = world.repository("test6").await;
    assert_eq!(repository.status.sync.last_ref, "", "what was left out is not forgotten");
    assert_eq!(repository.status.quota.clone().unwrap().max_resources_per_repository, 7);
    let reason = |kind| conditions::find(&repository.status.conditions, kind).unwrap().reason.clone();
    assert_eq!(reason(types::RESOURCE_QUOTA), reasons::QUOTA_EXCEEDED);
    assert_eq!(reason(types::PULL_STATUS), reasons::QUOTA_EXCEEDED);

    git.commit([Edit::delete("team-a/nested/disk.json")]);
    let (state, said) = end_of(&world.pull("test6", true).await);
    assert_eq!(state, JobState::Success, "{said}");
    assert_eq!(world.folders().await, ["", "team-a", "team-b"]);
    let repository = world.repository("test6").await;
    assert_ne!(repository.status.sync.last_ref, "");
    let quota = conditions::find(&repository.status.conditions, types::RESOURCE_QUOTA).unwrap();
    assert_eq!((quota.status.as_str(), quota.reason.as_str()), ("True", reasons::QUOTA_REACHED));
}

#[tokio::test]
async fn an_incremental_pull_that_may_go_over_the_limit_compares_everything() {
    let (git, world) = limited("provisioning.max_resources_per_repository", "10").await;
    let _process = world.start(register, PROVISIONING_JOBS);
    world.pull("test6", true).await;
    git.put(&[("a.json", "a", "A"), ("b.json", "b", "B")]);
    let (state, said) = end_of(&world.pull("test6", true).await);
    assert_eq!(state, JobState::Warning, "{said}");
    assert!(said.contains("file: b.json"), "{said}");
    assert_eq!(world.dashboards().await.len(), 6);
    git.put(&[("a.json", "a", "A again")]);
    world.pull("test6", true).await;
    assert_eq!(world.dashboards().await["a.json"], "A again", "what is there is kept up to date");
}
