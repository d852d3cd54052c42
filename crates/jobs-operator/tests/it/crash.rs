//! A process dies at every write that it makes during a pull, and another one takes over.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use serde_json::{Value, json};
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{Job, JobSpec, JobState};
use windlass_git_server::seed::Edit;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use crate::kit::{Death, GitServer, World, dashboard, end_of};
use crate::pull::{create, seed};

/// What is left of a world when its job has ended.
#[derive(Debug, PartialEq)]
struct Left {
    managed: BTreeMap<String, Value>,
    state: JobState,
    last_ref: String,
    stats: Vec<(String, i64)>,
    pulled: (String, String),
}

/// Runs a job in a world, with a process that dies and then one that does not; tells whether the first one died.
async fn run(world: &World, spec: JobSpec, death: Death) -> (bool, Left) {
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
    let repository = world.repository("test6").await;
    let status = repository.status;
    let pulled = conditions::find(&status.conditions, types::PULL_STATUS).unwrap();
    let left = Left {
        managed: world.managed().await,
        state: status.sync.state,
        last_ref: status.sync.last_ref,
        stats: status.stats.into_iter().map(|count| (count.resource, count.count)).collect(),
        pulled: (pulled.status.clone(), pulled.reason.clone()),
    };
    (died, left)
}

/// Lets the process die at its first write, its second, and so on until it ends the job first. Every time, everything
/// has to be as without a death.
async fn at_every_write(at_a_time: usize, attempt: impl AsyncFn(Death) -> (bool, Left)) {
    let (died, undisturbed) = attempt(Death::Never).await;
    assert!(!died);
    assert_eq!(undisturbed.state, JobState::Success);
    assert!(!undisturbed.last_ref.is_empty() && !undisturbed.managed.is_empty());
    assert_eq!(undisturbed.pulled, ("True".to_owned(), reasons::SUCCESS.to_owned()));
    let mut least = 0;
    for kind in [Death::Before, Death::After] {
        let attempt = &attempt;
        let runs = futures::stream::iter(1..)
            .map(|number| async move { (number, attempt(kind(number)).await) })
            .buffered(at_a_time);
        let mut runs = std::pin::pin!(runs);
        while let Some((number, (died, left))) = runs.next().await {
            assert_eq!(left, undisturbed, "after {:?}", kind(number));
            if !died {
                break;
            }
            least = number;
        }
        assert!(least >= 10, "{least} deaths are too few to be all");
    }
}

fn in_a_hurry(world: World) -> World {
    world.set("operator.max_attempts", "100")
}

#[tokio::test(start_paused = true)]
async fn a_full_pull_survives_a_death_at_every_write() {
    at_every_write(1, async |death| {
        let world = in_a_hurry(World::new())
            .set("operator.lease_expiry", "3s")
            .set("operator.lease_renewal_interval", "1s");
        let files = world.folder.path().join("files");
        for (path, name) in
            [("a.json", "a"), ("x/b.json", "b"), ("x/c.json", "c"), ("x/y/d.json", "d"), ("z/e.json", "e")]
        {
            std::fs::create_dir_all(files.join(path).parent().unwrap()).unwrap();
            std::fs::write(files.join(path), dashboard(name, path)).unwrap();
        }
        let spec = json!({"spec": {"type": "local", "local": {"path": files.to_str().unwrap()}}});
        world.create_repository("test6", spec).await;
        run(&world, JobSpec::pull("test6", false), death).await
    })
    .await;
}

#[tokio::test]
async fn an_incremental_pull_survives_a_death_at_every_write() {
    at_every_write(4, async |death| {
        let git = GitServer::new().await;
        seed(&git);
        // Real time, since Git's sockets know no other.
        let world = in_a_hurry(World::with_git(&git))
            .set("operator.lease_expiry", "300ms")
            .set("operator.lease_renewal_interval", "100ms");
        create(&world, &git).await;
        let process = world.start(register, PROVISIONING_JOBS);
        world.pull("test6", true).await;
        process.stop().await;
        let tip = git.commit([
            Edit::put("team-a/cpu.json", dashboard("cpu", "CPU by core")),
            Edit::put("team-c/new.json", dashboard("new", "New")),
            Edit::delete("team-b/network.json"),
            Edit::delete("team-a/nested/disk.json"),
            Edit::put("moved.json", dashboard("disk", "Disk")),
        ]);
        let (died, mut left) = run(&world, JobSpec::pull("test6", true), death).await;
        if left.last_ref == tip {
            "the tip".clone_into(&mut left.last_ref);
        }
        (died, left)
    })
    .await;
}
