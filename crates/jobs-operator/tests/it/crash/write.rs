//! Jobs that write to a repository: whatever was pushed by then is pushed once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::{JobSpec, JobState};
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use super::{BOTH, Kinds, at_every_write, lapsing_soon, paused, run};
use crate::kit::{Death, GitServer, World, dashboard};
use crate::pull::seed;
use crate::write::{by_hand, create, job};

/// A write that Git's worlds are slow for is lost after it was made: the harder one.
const AFTER: Kinds = &[Death::After];

/// What is left of a world when its job has ended.
#[derive(Debug, PartialEq)]
struct Left {
    managed: BTreeMap<String, Value>,
    files: Vec<String>,
    commits: usize,
    sync: JobState,
}

/// One world in which a job of a Git repository is run.
async fn in_git(spec: &JobSpec, new_names: bool, death: Death) -> (bool, Left) {
    let git = GitServer::with(windlass_git_server::HttpBackend::writable).await;
    seed(&git);
    let world = lapsing_soon(World::with_git(&git));
    create(&world, &git, json!({})).await;
    let process = world.start(register, PROVISIONING_JOBS);
    world.pull("test6", true).await;
    process.stop().await;
    by_hand(&world).await;
    let died = run(&world, spec.clone(), death).await;
    (died, left(&world, &git, new_names).await)
}

async fn left(world: &World, git: &GitServer, new_names: bool) -> Left {
    let mut files = git.files("main");
    if !new_names {
        files = git.git(&["ls-tree", "-r", "main"]).lines().map(str::to_owned).collect();
    }
    let (managed, commits) = (world.managed().await, git.commits("main"));
    let sync = world.repository("test6").await.status.sync.state;
    Left { managed, files, commits, sync }
}

async fn survives(least: usize, attempt: impl AsyncFn(Death) -> (bool, Left)) {
    let left = at_every_write((AFTER, 8, least), attempt).await;
    assert_eq!(left.sync, JobState::Success);
}

#[tokio::test]
async fn a_delete_survives_a_death_at_every_write() {
    let spec = job(
        "delete",
        json!({"paths": ["team-a/nested/"], "resources": [{"name": "network", "kind": "Dashboard"}]}),
    );
    survives(7, async |death| in_git(&spec, false, death).await).await;
}

#[tokio::test]
async fn a_move_survives_a_death_at_every_write() {
    let resources = json!([{"name": "network", "kind": "Dashboard"}]);
    let options = json!({"paths": ["overview.json", "team-a/nested"], "resources": resources, "targetPath": "archive/"});
    let spec = job("move", options);
    survives(7, async |death| in_git(&spec, false, death).await).await;
}

#[tokio::test]
async fn a_push_survives_a_death_at_every_write() {
    let spec = job("push", json!({}));
    survives(3, async |death| in_git(&spec, true, death).await).await;
}

#[tokio::test]
async fn a_migration_survives_a_death_at_every_write() {
    let spec = job("migrate", json!({}));
    survives(9, async |death| in_git(&spec, false, death).await).await;
}

#[tokio::test]
async fn the_first_commit_of_a_repository_survives_a_death_at_every_write() {
    let spec = job("migrate", json!({}));
    survives(9, async |death| {
        let git = GitServer::with(windlass_git_server::HttpBackend::writable).await;
        git.make_empty();
        let world = lapsing_soon(World::with_git(&git));
        create(&world, &git, json!({})).await;
        by_hand(&world).await;
        let died = run(&world, spec.clone(), death).await;
        assert_eq!(git.commits("main"), 1);
        (died, left(&world, &git, false).await)
    })
    .await;
}

#[tokio::test]
async fn a_repair_of_folder_metadata_survives_a_death_at_every_write() {
    let spec = job("fixFolderMetadata", Value::Null);
    survives(3, async |death| in_git(&spec, true, death).await).await;
}

/// A folder with four dashboards that were pulled, and what nobody manages.
async fn in_a_folder(spec: &JobSpec, death: Death) -> (bool, Left) {
    let world = paused();
    let folder = world.create_local("test6").await;
    world.patch_repository("test6", json!({"spec": {"workflows": ["write"]}})).await;
    std::fs::create_dir_all(folder.join("x/y")).unwrap();
    for (path, name) in [("a.json", "a"), ("x/b.json", "b"), ("x/y/c.json", "c"), ("z.json", "z")] {
        std::fs::write(folder.join(path), dashboard(name, path)).unwrap();
    }
    let process = world.start(register, PROVISIONING_JOBS);
    world.pull("test6", true).await;
    process.stop().await;
    by_hand(&world).await;
    let died = run(&world, spec.clone(), death).await;
    let sync = world.repository("test6").await.status.sync.state;
    (died, Left { managed: world.managed().await, files: files_of(&folder), commits: 0, sync })
}

/// The paths of all files below a folder.
fn files_of(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_of(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}

#[tokio::test(start_paused = true)]
async fn jobs_that_write_to_a_folder_survive_a_death_at_every_write() {
    for (least, spec) in [
        (7, job("delete", json!({"paths": ["x/"]}))),
        (7, job("move", json!({"paths": ["a.json", "x"], "targetPath": "archive/"}))),
        (9, job("migrate", json!({}))),
    ] {
        let left = at_every_write((BOTH, 1, least), async |death| in_a_folder(&spec, death).await).await;
        assert_eq!(left.sync, JobState::Success);
    }
}

#[tokio::test(start_paused = true)]
async fn clearing_up_after_a_repository_survives_a_death_at_every_write() {
    for action in ["releaseResources", "deleteResources"] {
        let spec = job(action, Value::Null);
        let left = at_every_write((BOTH, 1, 9), async |death| {
            let world = paused();
            let folder = world.create_local("test6").await;
            std::fs::create_dir_all(folder.join("x/y")).unwrap();
            for (path, name) in [("a.json", "a"), ("x/b.json", "b"), ("x/y/c.json", "c")] {
                std::fs::write(folder.join(path), dashboard(name, path)).unwrap();
            }
            let process = world.start(register, PROVISIONING_JOBS);
            world.pull("test6", true).await;
            process.stop().await;
            world.delete_repository("test6").await;
            let died = run(&world, spec.clone(), death).await;
            let dashboards: Vec<String> = world.dashboards().await.into_keys().collect();
            (died, (world.managed().await, dashboards))
        })
        .await;
        // A released one has no path any more.
        assert!(left.1.iter().all(|path| path.ends_with(':')), "{left:?}");
        assert_eq!(left.1.len(), if action == "deleteResources" { 0 } else { 3 });
    }
}
