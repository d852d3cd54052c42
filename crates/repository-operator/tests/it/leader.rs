//! Replicas of the operator of which one works, and what its writes are guarded by.

use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::{Value, json};
use windlass_repository_operator::{PROVISIONING_REPO, register};

use crate::kit::{Process, World, dashboard, eventually};

fn elected(world: World) -> World {
    world
        .set("provisioning.leader_election", "true")
        .set("operator.leader_election_lease_duration", "15s")
        .set("operator.leader_election_renew_deadline", "10s")
        .set("operator.leader_election_retry_period", "500ms")
}

async fn holder(world: &World) -> String {
    eventually("somebody leads", || async {
        let lease = world
            .api::<Lease>()
            .get("windlass-provisioning-repo")
            .await
            .map_err(|error| error.to_string())?;
        let spec = lease.spec.clone().unwrap();
        spec.holder_identity.filter(|name| !name.is_empty()).ok_or_else(|| format!("{lease:?}"))
    })
    .await
}

fn leads(process: &Process) -> String {
    let text = process.context.metrics.render().unwrap();
    let line =
        text.lines().find(|line| line.starts_with("leader_election_master_status{")).unwrap_or_default();
    line.rsplit(' ').next().unwrap_or_default().to_owned()
}

async fn changed_and_seen(world: &World, title: &str) {
    world.patch_repository("a", json!({"spec": {"title": title}})).await;
    world
        .repository_when(title, "a", |found| {
            found.spec.title == title && Some(found.status.observed_generation) == found.metadata.generation
        })
        .await;
}

#[tokio::test]
async fn a_standby_is_ready_and_takes_over_when_the_leader_dies_or_ends() {
    let world = elected(World::new());
    world.create_local("a").await;
    let first = world.start(register, PROVISIONING_REPO);
    let leader = holder(&world).await;
    assert!(leader.ends_with(&first.context.replica), "{leader}");
    world.repository_when("it is checked", "a", |found| found.status.health.healthy).await;

    let second = world.start(register, PROVISIONING_REPO);
    eventually("the second is ready", || async {
        let waits = second.context.health.not_ready();
        if waits.is_empty() { Ok(()) } else { Err(waits) }
    })
    .await;
    changed_and_seen(&world, "one").await;
    assert_eq!((leads(&first), leads(&second)), ("1".to_owned(), "0".to_owned()));

    first.kill().await;
    changed_and_seen(&world, "two").await;
    assert!(holder(&world).await.ends_with(&second.context.replica));

    let third = world.start(register, PROVISIONING_REPO);
    second.stop().await;
    changed_and_seen(&world, "three").await;
    assert!(holder(&world).await.ends_with(&third.context.replica));
    let transitions = world.api::<Lease>().get("windlass-provisioning-repo").await.unwrap().spec.unwrap();
    assert_eq!(transitions.lease_transitions, Some(2));
    third.stop().await;
}

/// A write as it went over the wire.
#[derive(Debug)]
struct Write {
    method: String,
    path: String,
    body: Value,
}

#[tokio::test]
async fn every_write_to_what_exists_names_the_version_that_it_was_made_from() {
    let mut world = elected(World::new());
    let writes: Arc<Mutex<Vec<Write>>> = Arc::default();
    let seen = Arc::clone(&writes);
    world.router = world.router.clone().layer(from_fn(move |request: Request, next: Next| {
        let seen = Arc::clone(&seen);
        async move {
            let (parts, body) = request.into_parts();
            let bytes = to_bytes(body, usize::MAX).await.unwrap();
            if !matches!(parts.method.as_str(), "GET" | "HEAD") {
                seen.lock().unwrap().push(Write {
                    method: parts.method.to_string(),
                    path: parts.uri.path().to_owned(),
                    body: serde_json::from_slice(&bytes).unwrap_or_default(),
                });
            }
            next.run(Request::from_parts(parts, Body::from(bytes))).await
        }
    }));
    let operator = world.start(register, PROVISIONING_REPO);
    for (name, finalizer) in
        [("removed", "remove-orphan-resources"), ("released", "release-orphan-resources")]
    {
        let files = world.create_local(name).await;
        std::fs::create_dir(files.join("team")).unwrap();
        std::fs::write(files.join("team").join("x.json"), dashboard(name, "X")).unwrap();
        let finalizers = json!({"metadata": {"finalizers": ["remove-pending-jobs", finalizer]}});
        world.patch_repository(name, finalizers).await;
        world.patch_repository(name, json!({"spec": {"sync": {"enabled": true}}})).await;
    }
    {
        let jobs = world.start(windlass_jobs_operator::register, windlass_jobs_operator::PROVISIONING_JOBS);
        for name in ["removed", "released"] {
            world.repository_when("it is synced", name, |found| !found.status.sync.last_ref.is_empty()).await;
        }
        eventually("the jobs are filed", || async {
            let jobs = world.jobs().await;
            if jobs.is_empty() { Ok(()) } else { Err(jobs) }
        })
        .await;
        jobs.stop().await;
    }
    writes.lock().unwrap().clear();
    for name in ["removed", "released"] {
        // One more status, one job that waits, then the end.
        world.patch_repository(name, json!({"spec": {"title": "again"}})).await;
        world
            .repository_when("it is checked", name, |found| {
                found.spec.title == "again"
                    && Some(found.status.observed_generation) == found.metadata.generation
            })
            .await;
        eventually("a sync is queued", || async {
            if world.jobs().await.iter().any(|job| job.spec.repository == name) { Ok(()) } else { Err(()) }
        })
        .await;
        world.delete_repository(name).await;
        eventually("it is gone", || async {
            match world.api::<windlass_api::Repository>().get_opt(name).await.unwrap() {
                None => Ok(()),
                Some(found) => Err(format!("{found:#?}")),
            }
        })
        .await;
    }
    operator.stop().await;
    let writes = writes.lock().unwrap();
    let version = |write: &Write| match write.method.as_str() {
        "PATCH" => write.body["metadata"]["resourceVersion"].as_str().map(str::to_owned).or_else(|| {
            // A JSON patch says it in its first operation: the version, or which object its other tests are about.
            let first = &write.body[0];
            let guards = first["path"] == "/metadata/resourceVersion"
                || (first["path"] == "/metadata/uid" && first["op"] == "test");
            first["value"].as_str().filter(|_| guards).map(str::to_owned)
        }),
        "DELETE" => write.body["preconditions"]["resourceVersion"].as_str().map(str::to_owned),
        // What is created says by its name what it excludes.
        "POST" => Some("none".to_owned()),
        _ => None,
    };
    let unguarded: Vec<_> = writes.iter().filter(|write| version(write).is_none()).collect();
    assert!(unguarded.is_empty(), "{unguarded:#?}");
    let of = |method: &str, part: &str| {
        writes.iter().filter(|write| write.method == method && write.path.contains(part)).count()
    };
    assert!(of("PATCH", "/status") >= 2 && of("DELETE", "/jobs/") >= 2, "{writes:#?}");
    assert!(of("DELETE", "/dashboards/") == 1 && of("PATCH", "/dashboards/") == 1, "{writes:#?}");
    let created: Vec<_> =
        writes.iter().filter(|write| write.method == "POST").map(|write| &*write.path).collect();
    assert!(created.iter().all(|path| path.ends_with("/jobs")), "{created:?}");
}
