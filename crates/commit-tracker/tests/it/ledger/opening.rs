//! Opening a ledger that humans, other versions or accidents have been at.

use super::*;

/// A world with one record of "a".
async fn begun() -> (World, String) {
    let world = World::new();
    world.open().await.record(step("a", 1)).await.unwrap();
    let shard = world.data().await.into_keys().find(|name| name != HEAD).unwrap();
    (world, shard)
}

#[tokio::test(start_paused = true)]
async fn a_first_start_writes_one_small_head() {
    let world = World::new();
    let line = world.line();
    let ledger = world.open_over(&line).await.unwrap();
    assert_eq!(line.requests(), 2, "a list and a create");
    let data = world.data().await;
    let expected = json!({
        "format": "2", "identity": ledger.identity(), "began": "2026-11-21T16:00:00Z", "shards": "128",
    });
    assert_eq!(json!(data), json!({ HEAD: expected }));
    assert!(ledger.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_later_format_and_damage_are_named_with_what_to_do_and_left_alone() {
    let (world, shard) = begun().await;
    let entry = world.data().await[&shard]["a"].clone();
    let patch = |key| format!("patch configmap {shard} --type=merge -p '{{\"data\":{{\"{key}\":null}}}}'");
    let delete = format!("delete configmap {shard}");
    let later = "run the version that wrote it, or a later one".to_owned();
    let later_shard = "{\"format\":7,\"all\":\"new\"}";
    for (map, key, value, says, remedy) in [
        (HEAD, "format", json!("3"), "has format 3, and this version reads 2", later.clone()),
        (&shard, "ledger", json!(later_shard), "has format 7, and this version reads 2", later),
        (&shard, "a", json!("{}"), "key \"a\": missing field `source`", patch("a")),
        (&shard, "c", json!(entry), "key \"c\": its place is the shard", patch("c")),
        (&shard, "ledger", json!(null), "key \"ledger\": it is missing", delete.clone()),
        (HEAD, "identity", json!("restored"), "others here are of ledger", delete),
    ] {
        let before = world.data().await[map].get(key).cloned();
        world.patch(map, json!({"data": {key: value}})).await;
        let (damaged, line) = (world.data().await, world.line());
        let error = world.open_over(&line).await.unwrap_err().to_string();
        assert_eq!((world.data().await, line.writes()), (damaged, 0), "it is left alone");
        let named = if key == "identity" { "" } else { map };
        assert!(error.contains(named) && error.contains(says) && error.contains(&remedy), "{error}");
        world.patch(map, json!({"data": {key: before}})).await;
        assert_eq!(steps(&world.open().await, "a"), 1);
    }
    // What the errors say helps.
    world.patch(&shard, json!({"data": {"a": null}})).await;
    assert!(world.open().await.is_empty());
    world.maps().delete(&shard, &DeleteParams::default()).await.unwrap();
    assert!(world.open().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_head_that_was_deleted_is_made_again_as_it_was_and_other_config_maps_are_left_alone() {
    let (world, _) = begun().await;
    let other = json!({"metadata": {"name": "flux-commit-tracker-ledger-zz"}, "data": {"any": "thing"}});
    world.maps().create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await.unwrap();
    let before = world.data().await;
    world.maps().delete(HEAD, &DeleteParams::default()).await.unwrap();
    assert_eq!(steps(&world.open().await, "a"), 1);
    assert_eq!(world.data().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_lost_its_label_is_not_written_and_one_that_is_deleted_loses_the_ledger() {
    let (world, shard) = begun().await;
    world.patch(&shard, json!({"metadata": {"labels": {"windlass.dev/ledger": null}}})).await;
    let ledger = world.open().await;
    assert!(ledger.is_empty());
    let error = ledger.record(step("a", 1)).await.unwrap_err();
    let told = ErrorChain(&error).to_string();
    assert!(matches!(error, LedgerError::Damaged { .. }) && !ledger.is_lost(), "{told}");
    let remedy = format!("kubectl -n default label configmap {shard} windlass.dev/ledger={HEAD}");
    assert!(told.contains(&remedy), "{told}");
    world.patch(&shard, json!({"metadata": {"labels": {"windlass.dev/ledger": HEAD}}})).await;
    let ledger = world.open().await;
    assert_eq!(steps(&ledger, "a"), 1);
    world.maps().delete(&shard, &DeleteParams::default()).await.unwrap();
    let error = ledger.record(step("a", 2)).await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("was deleted"), "{error}");
}
