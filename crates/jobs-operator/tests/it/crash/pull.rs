//! Pulls.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{JobSpec, JobState};
use windlass_git_server::seed::Edit;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use super::{BOTH, at_every_write, lapsing_soon, paused, run};
use crate::kit::{GitServer, World, dashboard};
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

impl Left {
    async fn of(world: &World) -> Self {
        let repository = world.repository("test6").await;
        let status = repository.status;
        let pulled = conditions::find(&status.conditions, types::PULL_STATUS).unwrap();
        Self {
            managed: world.managed().await,
            state: status.sync.state,
            last_ref: status.sync.last_ref,
            stats: status.stats.into_iter().map(|count| (count.resource, count.count)).collect(),
            pulled: (pulled.status.clone(), pulled.reason.clone()),
        }
    }

    fn assert_whole(&self) {
        assert_eq!(self.state, JobState::Success);
        assert!(!self.last_ref.is_empty() && !self.managed.is_empty());
        assert_eq!(self.pulled, ("True".to_owned(), reasons::SUCCESS.to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_pull_survives_a_death_at_every_write() {
    let left = at_every_write((BOTH, 1, 10), async |death| {
        let world = paused();
        let files = world.folder.path().join("files");
        for (path, name) in
            [("a.json", "a"), ("x/b.json", "b"), ("x/c.json", "c"), ("x/y/d.json", "d"), ("z/e.json", "e")]
        {
            std::fs::create_dir_all(files.join(path).parent().unwrap()).unwrap();
            std::fs::write(files.join(path), dashboard(name, path)).unwrap();
        }
        let spec = json!({"spec": {"type": "local", "local": {"path": files.to_str().unwrap()}}});
        world.create_repository("test6", spec).await;
        let died = run(&world, JobSpec::pull("test6", false), death).await;
        (died, Left::of(&world).await)
    })
    .await;
    left.assert_whole();
}

#[tokio::test]
async fn an_incremental_pull_survives_a_death_at_every_write() {
    let left = at_every_write((BOTH, 4, 10), async |death| {
        let git = GitServer::new().await;
        seed(&git);
        let world = lapsing_soon(World::with_git(&git));
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
        let died = run(&world, JobSpec::pull("test6", true), death).await;
        let mut left = Left::of(&world).await;
        if left.last_ref == tip {
            "the tip".clone_into(&mut left.last_ref);
        }
        (died, left)
    })
    .await;
    left.assert_whole();
}
