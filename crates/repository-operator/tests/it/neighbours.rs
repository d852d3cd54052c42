//! Repositories that get into each other's way where no admission keeps them apart.

use http::StatusCode;
use serde_json::json;
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{JobState, Repository};
use windlass_jobs_operator::{PROVISIONING_JOBS, register as jobs};
use windlass_repository_operator::{PROVISIONING_REPO, register};

use crate::health::ready;
use crate::kit::{GitServer, World, end_of, eventually};

fn condition<'a>(repository: &'a Repository, kind: &str) -> (&'a str, &'a str, &'a str) {
    let found = conditions::find(&repository.status.conditions, kind);
    found.map_or(("", "", ""), |found| (&found.status, &found.reason, &found.message))
}

#[tokio::test]
async fn a_repository_waits_for_an_older_one_of_its_path_and_goes_on_when_that_is_gone() {
    let git = GitServer::new().await;
    git.put(&[("x/a.json", "a", "A"), ("x/y/b.json", "b", "B")]);
    let world = World::with_git(&git);
    let of = |path: &str| {
        json!({"spec": {
            "git": {"url": git.url(), "branch": "main", "path": path},
            "sync": {"enabled": true},
        }})
    };
    world.create_repository("older", of("x")).await;
    let _jobs = world.start(jobs, PROVISIONING_JOBS);
    let operator = world.start(register, PROVISIONING_REPO);
    world
        .repository_when("it is pulled", "older", |found| found.status.sync.state == JobState::Success)
        .await;
    // Admission takes no notice of what is being deleted; its files are still there.
    world.fault.answer(|method, path| {
        (method == "DELETE" && path.contains("/dashboards/")).then_some(StatusCode::INTERNAL_SERVER_ERROR)
    });
    world.delete_repository("older").await;
    world.create_repository("younger", of("x/y")).await;
    let waiting = world
        .repository_when("it says for whom it waits", "younger", |found| {
            condition(found, types::PATH_CONFLICT).0 == "False"
        })
        .await;
    let text = "repository path conflicts with existing repository: older";
    assert_eq!(condition(&waiting, types::PATH_CONFLICT), ("False", reasons::PATH_CONFLICT, text));
    assert_eq!(ready(&waiting), (false, reasons::PATH_CONFLICT, text));
    assert_eq!(waiting.status.health.message, [text]);
    assert_eq!(Some(waiting.status.observed_generation), waiting.metadata.generation);

    let refused = end_of(&world.pull("younger", false).await);
    assert!(refused.1.contains("the repository waits for others"), "{refused:?}");
    assert!(!world.dashboards().await.contains_key("b.json"), "it is not synced, whoever asks");

    world.fault.heal();
    let pulled = world
        .repository_when("it is pulled", "younger", |found| found.status.sync.state == JobState::Success)
        .await;
    assert_eq!(condition(&pulled, types::PATH_CONFLICT).1, reasons::NO_PATH_CONFLICT);
    assert!(ready(&pulled).0);
    operator.stop().await;
    eventually("the pull is filed", || async {
        let jobs = world.jobs().await;
        if jobs.is_empty() { Ok(()) } else { Err(jobs) }
    })
    .await;
    assert_eq!(end_of(&world.pull("younger", true).await).0, JobState::Success);
}

#[tokio::test]
async fn beyond_the_greatest_number_the_older_repositories_stay_and_the_next_moves_up() {
    let world = World::new().set("provisioning.max_repositories", "2");
    for name in ["a", "b", "c"] {
        world.create_local(name).await;
    }
    let _operator = world.start(register, PROVISIONING_REPO);
    let quota = |found: &Repository| condition(found, types::NAMESPACE_QUOTA).1.to_owned();
    let (over, within) = eventually("every repository was looked at", || async {
        let mut all = Vec::new();
        for name in ["a", "b", "c"] {
            all.push(world.repository(name).await);
        }
        let (over, within): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|found| quota(found) == reasons::QUOTA_EXCEEDED);
        let healthy = within.iter().all(|found| found.status.health.healthy);
        if over.len() == 1 && healthy { Ok((over, within)) } else { Err((over, within)) }
    })
    .await;
    let text =
        "namespace quota exceeded: 3/2 repositories; delete some, or raise [provisioning] max_repositories";
    assert_eq!(ready(&over[0]), (false, reasons::QUOTA_EXCEEDED, text));
    assert!(within.iter().all(|found| quota(found) == reasons::QUOTA_REACHED), "{within:#?}");

    let name = |found: &Repository| found.metadata.name.clone().unwrap();
    world.delete_repository(&name(&within[0])).await;
    let moved =
        world.repository_when("there is room", &name(&over[0]), |found| found.status.health.healthy).await;
    assert_eq!(quota(&moved), reasons::QUOTA_REACHED);
}
