use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use kube::api::ListParams;
use serde_json::json;
use tokio::time::Instant;

use crate::world::{World, fetch, is_ready, put};

#[tokio::test]
async fn many_objects_of_one_url_cost_few_requests_and_one_file() {
    let world = World::new().await;
    let files = (0..200).map(|n| put(&format!("dir-{}/file-{n}.yaml", n % 10), &format!("content {n}")));
    let commit = world.commit(files);
    // They are all seen before the first of them is looked at.
    for n in 0..40 {
        world.create(&format!("app-{n}"), json!({})).await;
    }
    let process = world.start().await;
    let mut digests = HashSet::new();
    for n in 0..40 {
        digests.insert(world.ready(&format!("app-{n}"), &commit).await.digest);
    }
    assert_eq!(digests.len(), 1);
    assert_eq!(world.requests(), 2, "one list and one fetch: {:#?}", world.server.log().lines());
    let content = std::fs::read_dir(process.data.join(".content")).unwrap().next().unwrap().unwrap();
    assert_eq!(content.metadata().unwrap().nlink(), 41, "one file with a name for each");

    let second = world.commit([put("new", "x")]);
    let before = world.requests();
    world.request("app-7", "1").await;
    for n in 0..40 {
        world.ready(&format!("app-{n}"), &second).await;
    }
    let cost = world.requests() - before;
    assert_eq!(cost, 2, "who learns of a change tells all: {:#?}", world.server.log().lines());
}

/// Three looks at each of sixty objects of six URLs: no more than one list for each URL in an interval, and nothing written.
#[tokio::test]
async fn sources_that_do_not_change_cost_a_request_for_each_url_in_an_interval_and_no_write() {
    const URLS: u64 = 6;
    const INTERVAL: Duration = Duration::from_secs(2);
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    let place = |n: u64| world.folder.path().join(format!("app-{n}.git"));
    for n in 0..URLS {
        std::os::unix::fs::symlink(world.folder.path().join("app.git"), place(n)).unwrap();
    }
    let process = world.start().await;
    let names: Vec<String> = (0..10 * URLS).map(|n| format!("app-{n}")).collect();
    for (n, name) in (0_u64..).zip(&names) {
        let url = format!("{}/app-{}.git", world.server.origin(), n % URLS);
        world.create(name, json!({"url": url, "interval": format!("{}s", INTERVAL.as_secs())})).await;
    }
    for name in &names {
        world.ready(name, &commit).await;
    }
    let passes = || {
        let said = process.context.metrics.render().unwrap();
        let counts = said.lines().filter(|line| line.starts_with("gotk_reconcile_duration_seconds_count{"));
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    let versions = async || {
        let all = world.objects.list(&ListParams::default()).await.unwrap().items;
        all.into_iter().map(|it| it.metadata.resource_version.unwrap()).collect::<Vec<_>>()
    };
    let (before, asked, known, begun) = (passes(), world.requests(), versions().await, Instant::now());
    while passes() < before + 3 * 10 * URLS {
        assert!(begun.elapsed() < Duration::from_mins(1), "{} passes", passes() - before);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A list is good for nine tenths of an interval, and one may have been begun on either side.
    let intervals = begun.elapsed().as_secs_f64() / INTERVAL.as_secs_f64() / 0.9;
    let asked = world.requests() - asked;
    assert!(asked as f64 <= (intervals + 2.0) * URLS as f64, "{asked} requests in {intervals:.1} intervals");
    assert_eq!(versions().await, known, "nothing is written of what did not change");
}

#[tokio::test]
async fn a_commit_that_is_pinned_is_not_asked_for_again() {
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    let _process = world.start().await;
    world.create("app", json!({"ref": {"commit": commit}})).await;
    world.ready("app", &commit).await;
    let before = world.requests();
    world.request("app", "1").await;
    world
        .when("it was looked at", "app", |it| it.status.last_handled_reconcile_at.as_deref() == Some("1"))
        .await;
    assert_eq!(world.requests(), before);
}

#[tokio::test]
async fn every_replica_serves_and_another_leads_when_the_leader_is_gone() {
    let world = World::new().await;
    let first = world.commit([put("a", "1")]);
    let lease = [
        ("operator.leader_election_namespace", "default"),
        ("operator.leader_election_lease_duration", "3s"),
        ("operator.leader_election_renew_deadline", "2s"),
        ("operator.leader_election_retry_period", "200ms"),
    ];
    let mut processes = Vec::new();
    for name in ["one", "two", "three"] {
        processes.push(world.start_as(name, &lease).await);
    }
    world.create("app", json!({"interval": "1s"})).await;
    let artifact = world.ready("app", &first).await;
    for process in &processes {
        let (code, bytes) = fetch(&format!("{}/{}", process.origin, artifact.path)).await;
        assert_eq!((code, bytes.len()), (200, usize::try_from(artifact.size.unwrap()).unwrap()));
        let absent = artifact.path.replace("app", "absent");
        assert_eq!(fetch(&format!("{}/{absent}", process.origin)).await.0, 404);
    }
    // The leader's address stands in the status; it is killed.
    let leader = processes.iter().position(|process| artifact.url.starts_with(&process.origin)).unwrap();
    drop(processes.remove(leader));
    let second = world.commit([put("a", "2")]);
    let newer = world.ready("app", &second).await;
    assert!(processes.iter().any(|process| newer.url.starts_with(&process.origin)), "{newer:?}");
    for process in &processes {
        assert_eq!(fetch(&format!("{}/{}", process.origin, newer.path)).await.0, 200);
    }
}

#[tokio::test]
async fn what_is_lost_or_damaged_in_storage_is_made_again_after_a_restart() {
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    let process = world.start().await;
    world.create("app", json!({})).await;
    let artifact = world.ready("app", &commit).await;
    let file = process.data.join(&artifact.path);
    process.stop().await;
    for damage in [Some(&b"garbage"[..]), None] {
        match damage {
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
            None => std::fs::remove_dir_all(file.ancestors().nth(4).unwrap()).unwrap(),
        }
        let process = world.start().await;
        let url = format!("{}/{}", process.origin, artifact.path);
        let until = tokio::time::Instant::now() + Duration::from_secs(30);
        while std::fs::metadata(&file).map_or(0, |meta| meta.len())
            != u64::try_from(artifact.size.unwrap()).unwrap()
        {
            assert!(tokio::time::Instant::now() < until, "it is not made again");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let object = world.when("it is ready", "app", is_ready).await;
        assert_eq!(object.status.artifact.unwrap().digest, artifact.digest);
        assert_eq!(fetch(&url).await.0, 200);
        process.stop().await;
    }
}
