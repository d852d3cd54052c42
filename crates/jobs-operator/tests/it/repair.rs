//! What somebody else did to managed objects, and what pulls make of it.

use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use windlass_api::{Dashboard, FileOutcome, Folder, JobState};

use crate::kit::{World, end_of};
use crate::pull::small;

async fn folder_of(world: &World, path: &str) -> String {
    let folders = world.api::<Folder>().list(&ListParams::default()).await.unwrap().items;
    let found = folders.into_iter().find(|folder| {
        folder
            .metadata
            .annotations
            .as_ref()
            .and_then(|marks| marks.get("grafana.app/sourcePath"))
            .map(String::as_str)
            == Some(path)
    });
    found.expect("the folder is there").metadata.name.unwrap()
}

#[tokio::test]
async fn a_full_pull_repairs_what_was_changed_or_deleted_by_hand_and_says_so() {
    let (git, world, _process) = small().await;
    world.pull("test6", true).await;
    let before = world.managed().await;
    let (dashboards, folders) = (world.api::<Dashboard>(), world.api::<Folder>());
    let (edit, moved) = (
        json!({"spec": {"title": "Edited"}}),
        json!({"metadata": {"annotations": {"grafana.app/folder": "x"}}}),
    );
    dashboards.patch("cpu", &PatchParams::default(), &Patch::Merge(edit.clone())).await.unwrap();
    dashboards.patch("disk", &PatchParams::default(), &Patch::Merge(moved)).await.unwrap();
    dashboards.delete("network", &DeleteParams::default()).await.unwrap();
    let nested = folder_of(&world, "team-a/nested").await;
    folders.patch(&nested, &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    assert_eq!(world.pull("test6", true).await.status.state, JobState::Success);
    assert_eq!(world.dashboards().await["team-a/cpu.json"], "Edited", "nothing moved: nothing is compared");

    let requests = git.requests();
    let record = world.pull("test6", false).await;
    assert_eq!(git.requests(), requests + 1);
    let (state, said) = end_of(&record);
    assert_eq!(state, JobState::Success, "{said}");
    assert!(said.starts_with("repaired 4 resources that had been changed or deleted by hand"), "{said}");
    let files: Vec<(&str, &str)> =
        record.status.files.iter().map(|file| (file.path.as_str(), file.reason.as_str())).collect();
    assert_eq!(
        files,
        ["team-a/cpu.json", "team-a/nested", "team-a/nested/disk.json", "team-b/network.json"]
            .map(|path| (path, FileOutcome::REPAIRED))
    );
    let repaired: i64 = record.status.summary.iter().map(|summary| summary.repaired).sum();
    assert_eq!(repaired, 4);
    let specs = |all: &std::collections::BTreeMap<String, serde_json::Value>| {
        all.iter().map(|(name, object)| (name.clone(), object["spec"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(specs(&world.managed().await), specs(&before));

    world.requests.clear();
    let (_, said) = end_of(&world.pull("test6", false).await);
    assert!(said.starts_with("no changes to sync"), "{said}");
    let writes = world.requests.writes();
    assert!(
        !writes.iter().any(|write| write.contains("dashboards") || write.contains("folders")),
        "{writes:?}"
    );
}

#[tokio::test]
async fn what_the_repository_changes_is_no_repair() {
    let (git, world, _process) = small().await;
    world.pull("test6", false).await;
    git.put(&[("team-a/cpu.json", "cpu", "CPU by core"), ("new.json", "new", "New")]);
    let record = world.pull("test6", false).await;
    assert_eq!((record.status.state, record.status.files.len()), (JobState::Success, 0), "{record:#?}");
    world.requests.clear();
    let record = world.pull("test6", false).await;
    assert_eq!(record.status.files, [], "a write of ours is not taken for somebody else's");
    assert_eq!(world.requests.writes_to("dashboards"), Vec::<String>::new());
}

#[tokio::test]
async fn statistics_are_right_after_every_pull() {
    let (git, world, _process) = small().await;
    world.pull("test6", true).await;
    let dashboards = world.api::<Dashboard>();
    // Deleted by hand, and then changed in the repository: created, and counted before.
    dashboards.delete("cpu", &DeleteParams::default()).await.unwrap();
    git.put(&[("team-a/cpu.json", "cpu", "CPU by core")]);
    world.pull("test6", true).await;
    check(&world).await;
    // The root folder is created again by the look at it that starts each pull.
    world.api::<Folder>().delete("test6", &DeleteParams::default()).await.unwrap();
    git.put(&[("team-a/cpu.json", "cpu", "CPU by socket")]);
    world.pull("test6", true).await;
    check(&world).await;
    dashboards.delete("memory", &DeleteParams::default()).await.unwrap();
    git.commit([windlass_git_server::seed::Edit::delete("team-a/memory.json")]);
    world.pull("test6", true).await;
    check(&world).await;
}

/// The counts in the status are those of the objects that are there.
async fn check(world: &World) {
    let counts: Vec<(String, i64)> = world
        .repository("test6")
        .await
        .status
        .stats
        .into_iter()
        .map(|count| (count.resource, count.count))
        .collect();
    let there = |count: usize| i64::try_from(count).unwrap();
    let expected = [
        ("dashboards".to_owned(), there(world.dashboards().await.len())),
        ("folders".to_owned(), there(world.folders().await.len())),
    ];
    assert_eq!(counts, expected);
}
