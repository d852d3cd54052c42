use std::fs::File;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::time::Instant;

use crate::world::{World, put};

#[tokio::test]
async fn each_shard_works_on_the_sources_with_its_label_under_a_lease_of_its_own_and_on_no_others() {
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    world.create("nobodys", json!({})).await;
    let lease = ("operator.leader_election_namespace", "default");
    let one = world.start_as("one", &[("source.watch_label_selector", "shard=one"), lease]).await;
    let two = world.start_as("two", &[("source.watch_label_selector", "shard=two"), lease]).await;
    for (name, process) in [("one", &one), ("two", &two)] {
        world.create(name, json!({})).await;
        world.patch(name, json!({"metadata": {"labels": {"shard": name}}})).await;
        let artifact = world.ready(name, &commit).await;
        assert!(artifact.url.starts_with(&process.origin), "{name}: {}", artifact.url);
    }
    // Who is given another label is taken over.
    world.patch("one", json!({"metadata": {"labels": {"shard": "two"}}})).await;
    let taken = |url: &str| url.starts_with(&two.origin);
    world
        .when("the other shard has it", "one", |it| {
            it.status.artifact.as_ref().is_some_and(|artifact| taken(&artifact.url))
        })
        .await;
    let left_alone = world.objects.get("nobodys").await.unwrap();
    assert!(left_alone.metadata.finalizers.unwrap_or_default().is_empty());
    assert!(left_alone.status.conditions.is_empty());
}

#[tokio::test]
async fn the_artifacts_of_a_source_that_went_to_another_shard_are_not_kept_for_ever() {
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    let settings = [("source.watch_label_selector", "shard=one"), ("source.leader_election", "false")];
    let process = world.start_as("one", &settings).await;
    for name in ["goes", "stays"] {
        world.create(name, json!({})).await;
        world.patch(name, json!({"metadata": {"labels": {"shard": "one"}}})).await;
        world.ready(name, &commit).await;
    }
    let until = Instant::now() + Duration::from_mins(1);
    let ready = async |count: &str| {
        let is_it = |line: &str| {
            line.starts_with("windlass_source_objects{")
                && line.contains("ready=\"true\"")
                && line.ends_with(&format!("}} {count}"))
        };
        while !process.context.metrics.render().unwrap().lines().any(is_it) {
            assert!(Instant::now() < until, "{}", process.context.metrics.render().unwrap());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    ready("2").await;
    world.patch("goes", json!({"metadata": {"labels": {"shard": "two"}}})).await;
    ready("1").await;
    let directory = |name: &str| process.data.join("gitrepository/default").join(name);
    assert!(directory("goes").exists(), "it is served until the other shard has it");
    let old = SystemTime::now() - Duration::from_hours(48);
    let marked = |name: &str| std::fs::metadata(directory(name)).unwrap().modified().unwrap() > old;
    let eventually = async |what: &str, holds: &dyn Fn() -> bool| {
        let until = std::time::Instant::now() + Duration::from_mins(1);
        while !holds() {
            assert!(std::time::Instant::now() < until, "{what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // The first time, which may be yet to come, nothing is removed.
    for _ in 0..2 {
        for name in ["goes", "stays"] {
            let _gone = File::open(directory(name)).map(|it| it.set_modified(old).unwrap());
        }
        tokio::time::pause();
        tokio::time::advance(Duration::from_mins(61)).await;
        tokio::time::resume();
        eventually("its own are marked", &|| marked("stays")).await;
    }
    eventually("what is nobody's is gone", &|| !directory("goes").exists()).await;
    assert_eq!(std::fs::read_dir(directory("stays")).unwrap().count(), 1);
}
