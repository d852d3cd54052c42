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
async fn a_damaged_entry_is_named_with_what_to_do() {
    let (world, shard) = begun().await;
    world.patch(&shard, json!({"data": {"a": "{}"}})).await;
    let error = refused(&world).await.to_string();
    let remedy =
        format!("kubectl -n default patch configmap {shard} --type=merge -p '{{\"data\":{{\"a\":null}}}}'");
    assert!(
        error.contains(&format!("ConfigMap default/{shard}, key \"a\": missing field `namespace`")),
        "{error}"
    );
    assert!(error.contains(&remedy), "{error}");
    // What the error says helps.
    world.patch(&shard, json!({"data": {"a": null}})).await;
    assert!(world.open().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_damaged_shard_is_named_with_what_to_do() {
    let (world, shard) = begun().await;
    world.patch(&shard, json!({"data": {"ledger": null}})).await;
    let error = refused(&world).await.to_string();
    assert!(error.contains(&format!("ConfigMap default/{shard}, key \"ledger\": it is missing")), "{error}");
    assert!(error.contains(&format!("kubectl -n default delete configmap {shard}")), "{error}");
    world.maps().delete(&shard, &DeleteParams::default()).await.unwrap();
    assert!(world.open().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_entry_in_another_shard_than_its_own_is_damage() {
    let (world, shard) = begun().await;
    let text = world.data().await[&shard]["a"].clone();
    world.patch(&shard, json!({"data": {"c": text}})).await;
    let error = refused(&world).await.to_string();
    assert!(error.contains("key \"c\": its place is the shard"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_shard_of_another_ledger_is_not_mixed_in() {
    let (world, shard) = begun().await;
    world.patch(HEAD, json!({"data": {"identity": "restored-from-elsewhere"}})).await;
    let error = refused(&world).await.to_string();
    assert!(error.contains(&shard) && error.contains("others here are of ledger"), "{error}");
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
