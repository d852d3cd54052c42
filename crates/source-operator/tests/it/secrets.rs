use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::{World, is_ready, put};

fn secrets(world: &World) -> Api<Secret> {
    Api::namespaced(world.client.clone(), "default")
}

async fn create(world: &World, name: &str, data: Value) {
    let secret = json!({"metadata": {"name": name}, "stringData": data});
    secrets(world).create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
}

async fn set(world: &World, name: &str, data: Value) {
    let patch = Patch::Merge(json!({"stringData": data}));
    secrets(world).patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// The interval of every source here is an hour, so that only a watch can be what makes it move.
#[tokio::test]
async fn a_source_is_looked_at_as_soon_as_a_secret_changed_that_it_names() {
    let world = World::with(|backend| backend.basic_auth("me", "right".to_owned().into())).await;
    let commit = world.commit([put("a", "1")]);
    create(&world, "login", json!({"username": "me", "password": "right"})).await;
    create(&world, "other", json!({"username": "me", "password": "right"})).await;
    let _process = world.start().await;
    world.create("app", json!({"secretRef": {"name": "login"}})).await;
    world.create("beside", json!({"secretRef": {"name": "other"}})).await;
    let artifact = world.ready("app", &commit).await;
    world.ready("beside", &commit).await;

    set(&world, "login", json!({"password": "wrong"})).await;
    let (object, _) = world.failed("app", "AuthenticationFailed").await;
    assert_eq!(object.status.artifact.as_ref(), Some(&artifact), "what there is is served still");
    assert!(is_ready(&world.objects.get("beside").await.unwrap()), "it names another Secret");
    set(&world, "login", json!({"password": "right"})).await;
    world.when("it recovers", "app", is_ready).await;

    secrets(&world).delete("login", &DeleteParams::default()).await.unwrap();
    let (_, message) = world.failed("app", "AuthenticationFailed").await;
    assert!(message.contains("there is no Secret \"login\""), "{message}");
    create(&world, "login", json!({"username": "me", "password": "right"})).await;
    world.when("it recovers", "app", is_ready).await;

    // One that names a proxy, which nobody had before.
    world.patch("app", json!({"spec": {"proxySecretRef": {"name": "proxy"}}})).await;
    world.failed("app", "AuthenticationFailed").await;
    world.patch("app", json!({"spec": {"proxySecretRef": null}})).await;
    world.when("it recovers", "app", is_ready).await;
}

#[tokio::test]
async fn without_the_watch_no_right_to_list_secrets_is_needed_and_the_interval_does_it() {
    let world = World::with(|backend| backend.basic_auth("me", "right".to_owned().into())).await;
    let commit = world.commit([put("a", "1")]);
    create(&world, "login", json!({"username": "me", "password": "right"})).await;
    let more = [("source.leader_election", "false"), ("source.watch_secrets", "false")];
    let _process = world.start_as("one", &more).await;
    world.create("app", json!({"interval": "1s", "secretRef": {"name": "login"}})).await;
    world.ready("app", &commit).await;
    set(&world, "login", json!({"password": "wrong"})).await;
    world.failed("app", "AuthenticationFailed").await;
}
