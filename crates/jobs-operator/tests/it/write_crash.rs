//! A process dies at every write that it makes to the API during a job that writes to a repository, and another one takes
//! over: whatever was pushed by then is pushed once.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use serde_json::{Value, json};
use windlass_api::{Job, JobSpec, JobState};
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use crate::kit::{Death, GitServer, World, dashboard, end_of};
use crate::pull::seed;
use crate::write::{by_hand, create, job};

/// What is left of a world when its job has ended.
#[derive(Debug, PartialEq)]
struct Left {
    managed: BTreeMap<String, Value>,
    files: Vec<String>,
    commits: usize,
    sync: JobState,
}

/// Runs a job, with a process that dies and then one that does not; tells whether the first one died.
async fn run(world: &World, spec: JobSpec, death: Death) -> bool {
    let first = world.start_with(register, PROVISIONING_JOBS, death, |_context| {});
    let job: Job = world.queue(spec).await;
    let died = tokio::select! {
        () = first.dead() => true,
        _ = world.ended(&job) => false,
    };
    first.kill().await;
    if died {
        let second = world.start(register, PROVISIONING_JOBS);
        let record = world.ended(&job).await;
        assert_eq!(end_of(&record).0, JobState::Success, "{death:?}: {record:#?}");
        second.stop().await;
    }
    assert!(world.jobs().await.is_empty(), "{death:?}");
    died
}

fn in_a_hurry(world: World) -> World {
    // Real time, since Git's sockets know no other.
    world
        .set("operator.max_attempts", "100")
        .set("operator.lease_expiry", "300ms")
        .set("operator.lease_renewal_interval", "100ms")
}

/// One world in which a job of a Git repository is run.
async fn in_git(spec: &JobSpec, new_names: bool, death: Death) -> (bool, Left) {
    let git = GitServer::with(windlass_git_server::HttpBackend::writable).await;
    seed(&git);
    let world = in_a_hurry(World::with_git(&git));
    create(&world, &git, json!({})).await;
    let process = world.start(register, PROVISIONING_JOBS);
    world.pull("test6", true).await;
    process.stop().await;
    by_hand(&world).await;
    let died = run(&world, spec.clone(), death).await;
    let mut files = git.files("main");
    if !new_names {
        files = git.git(&["ls-tree", "-r", "main"]).lines().map(str::to_owned).collect();
    }
    let (managed, commits) = (world.managed().await, git.commits("main"));
    let sync = world.repository("test6").await.status.sync.state;
    (died, Left { managed, files, commits, sync })
}

/// Lets the process die at its first write (before or after it, as `kinds` say), its second, and so on until it ends the job first. Every time, everything
/// has to be as without a death.
async fn at_every_write(
    kinds: &[fn(usize) -> Death],
    least: usize,
    attempt: impl AsyncFn(Death) -> (bool, Left),
) {
    let at_a_time = if kinds.len() == 1 { 4 } else { 1 };
    let (died, undisturbed) = attempt(Death::Never).await;
    assert!(!died);
    assert_eq!(undisturbed.sync, JobState::Success);
    for kind in kinds {
        let attempt = &attempt;
        let runs = futures::stream::iter(1..)
            .map(|number| async move { (number, attempt(kind(number)).await) })
            .buffered(at_a_time);
        let mut runs = std::pin::pin!(runs);
        let mut deaths = 0;
        while let Some((number, (died, left))) = runs.next().await {
            assert_eq!(left, undisturbed, "after {:?}", kind(number));
            if !died {
                break;
            }
            deaths = number;
        }
        assert!(deaths >= least, "{deaths} deaths are too few to be all");
    }
}

#[tokio::test]
async fn a_delete_survives_a_death_at_every_write() {
    let spec = job(
        "delete",
        json!({"paths": ["team-a/nested/"], "resources": [{"name": "network", "kind": "Dashboard"}]}),
    );
    at_every_write(&[Death::After], 7, async |death| in_git(&spec, false, death).await).await;
}

#[tokio::test]
async fn a_move_survives_a_death_at_every_write() {
    let resources = json!([{"name": "network", "kind": "Dashboard"}]);
    let options = json!({"paths": ["overview.json", "team-a/nested"], "resources": resources, "targetPath": "archive/"});
    let spec = job("move", options);
    at_every_write(&[Death::After], 7, async |death| in_git(&spec, false, death).await).await;
}

#[tokio::test]
async fn a_push_survives_a_death_at_every_write() {
    let spec = job("push", json!({}));
    at_every_write(&[Death::After], 3, async |death| in_git(&spec, true, death).await).await;
}

#[tokio::test]
async fn a_migration_survives_a_death_at_every_write() {
    let spec = job("migrate", json!({}));
    at_every_write(&[Death::After], 9, async |death| in_git(&spec, false, death).await).await;
}

#[tokio::test]
async fn a_repair_of_folder_metadata_survives_a_death_at_every_write() {
    let spec = job("fixFolderMetadata", Value::Null);
    at_every_write(&[Death::After], 3, async |death| in_git(&spec, true, death).await).await;
}

#[tokio::test(start_paused = true)]
async fn deletes_and_moves_in_a_folder_survive_a_death_at_every_write() {
    for spec in [
        job("delete", json!({"paths": ["x/"]})),
        job("move", json!({"paths": ["a.json", "x"], "targetPath": "archive/"})),
    ] {
        at_every_write(&[Death::Before, Death::After], 7, async |death| {
            let world = World::new()
                .set("operator.max_attempts", "100")
                .set("operator.lease_expiry", "3s")
                .set("operator.lease_renewal_interval", "1s");
            let folder = world.create_local("test6").await;
            world.patch_repository("test6", json!({"spec": {"workflows": ["write"]}})).await;
            std::fs::create_dir_all(folder.join("x/y")).unwrap();
            for (path, name) in [("a.json", "a"), ("x/b.json", "b"), ("x/y/c.json", "c"), ("z.json", "z")] {
                std::fs::write(folder.join(path), dashboard(name, path)).unwrap();
            }
            let process = world.start(register, PROVISIONING_JOBS);
            world.pull("test6", true).await;
            process.stop().await;
            let died = run(&world, spec.clone(), death).await;
            let mut files: Vec<String> = world.dashboards().await.into_keys().collect();
            files.retain(|path| folder.join(path).exists());
            let sync = world.repository("test6").await.status.sync.state;
            (died, Left { managed: world.managed().await, files, commits: 0, sync })
        })
        .await;
    }
}
