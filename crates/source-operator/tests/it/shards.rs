use serde_json::json;

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
