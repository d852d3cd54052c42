//! Opening a ledger that humans, other versions or accidents have been at.

use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use windlass_commit_tracker::ledger::LedgerError;
use windlass_telemetry::ErrorChain;

use super::{HEAD, World, step, steps};

/// A world with one record of "a".
async fn begun() -> (World, String) {
    let world = World::new();
    world.open().await.record(step("a", 1)).await.unwrap();
    let shard = world.only_shard().await;
    (world, shard)
}

/// Why the ledger does not open; and that trying changes nothing.
async fn refused(world: &World) -> LedgerError {
    let before = world.data().await;
    let line = world.line();
    let error = world.open_over(&line).await.unwrap_err();
    assert_eq!((world.data().await, line.writes()), (before, 0));
    error
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
async fn a_later_format_is_named_and_left_alone() {
    let (world, shard) = begun().await;
    world.patch(HEAD, json!({"data": {"format": "3", "shards": "4096"}})).await;
    let error = refused(&world).await;
    assert_eq!(
        error.to_string(),
        "failed to read the ledger: ConfigMap default/flux-commit-tracker-ledger has format 3, and this version reads 2; \
         run the version that wrote it, or a later one"
    );
    world.patch(HEAD, json!({"data": {"format": "2", "shards": "128"}})).await;
    world.patch(&shard, json!({"data": {"ledger": "{\"format\":7,\"all\":\"new\"}"}})).await;
    let error = refused(&world).await;
    assert!(
        matches!(&error, LedgerError::LaterFormat { config_map, .. } if config_map.ends_with(&shard)),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn damage_is_named_with_what_to_do() {
    let (world, shard) = begun().await;
    let entry = world.data().await[&shard]["a"].clone();
    let patch =
        |key: &str| format!("patch configmap {shard} --type=merge -p '{{\"data\":{{\"{key}\":null}}}}'");
    for (map, key, value, says, remedy) in [
        (&*shard, "a", json!("{}"), "key \"a\": missing field `namespace`", patch("a")),
        (&*shard, "c", json!(entry), "key \"c\": its place is the shard", patch("c")),
        (
            &*shard,
            "ledger",
            json!(null),
            "key \"ledger\": it is missing",
            format!("delete configmap {shard}"),
        ),
        (
            HEAD,
            "identity",
            json!("restored"),
            "others here are of ledger",
            format!("delete configmap {shard}"),
        ),
    ] {
        let before = world.data().await[map].get(key).cloned();
        world.patch(map, json!({"data": {key: value}})).await;
        let error = refused(&world).await.to_string();
        let named = format!("ConfigMap default/{shard}, {says}");
        assert!(error.contains(&named) || map == HEAD && error.contains(says), "{error}");
        assert!(error.contains(&format!("kubectl -n default {remedy}")), "{error}");
        world.patch(map, json!({"data": {key: before}})).await;
        assert_eq!(steps(&world.open().await, "a"), 1);
    }
    // What the errors say helps.
    world.patch(&shard, json!({"data": {"a": "{}"}})).await;
    world.patch(&shard, json!({"data": {"a": null}})).await;
    assert!(world.open().await.is_empty());
    world.maps().delete(&shard, &DeleteParams::default()).await.unwrap();
    assert!(world.open().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_head_that_was_deleted_is_made_again_as_it_was() {
    let (world, _) = begun().await;
    let before = world.data().await;
    world.maps().delete(HEAD, &DeleteParams::default()).await.unwrap();
    assert_eq!(steps(&world.open().await, "a"), 1);
    assert_eq!(world.data().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_lost_its_label_is_found_and_not_written() {
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
    assert_eq!(steps(&world.open().await, "a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_is_deleted_meanwhile_loses_the_ledger() {
    let (world, shard) = begun().await;
    let ledger = world.open().await;
    world.maps().delete(&shard, &DeleteParams::default()).await.unwrap();
    let error = ledger.record(step("a", 2)).await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("was deleted"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn other_config_maps_are_none_of_its_business() {
    let (world, _) = begun().await;
    let other = json!({"metadata": {"name": "flux-commit-tracker-ledger-zz"}, "data": {"any": "thing"}});
    world.maps().create(&PostParams::default(), &serde_json::from_value(other).unwrap()).await.unwrap();
    assert_eq!(world.open().await.len(), 1);
}
