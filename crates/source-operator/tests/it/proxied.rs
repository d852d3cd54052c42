use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use windlass_api::conditions;
use windlass_api::flux::GitRepository;
use windlass_git_server::TestProxy;

use crate::world::{World, put};

#[tokio::test]
async fn a_source_is_read_through_the_proxy_that_its_secret_names() {
    let (world, proxy) = (World::new().await, TestProxy::http("me", "hidden-password").await.unwrap());
    let private = TestProxy::socks5("me", "hidden-password").await.unwrap();
    let commit = world.commit([put("a", "1")]);
    let origins = format!("{}|{}", world.server.origin(), proxy.address());
    let more = [("source.leader_election", "false"), ("operator.allowed_git_origins", origins.as_str())];
    let _process = world.start_as("one", &more).await;
    world.create("app", json!({"proxySecretRef": {"name": "proxy"}})).await;
    let (_, message) = world.failed("app", "AuthenticationFailed").await;
    assert!(message.contains("spec.proxySecretRef: there is no Secret \"proxy\""), "{message}");
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "default");
    let secret =
        json!({"metadata": {"name": "proxy"}, "stringData": {"username": "me", "password": "hidden-wrong"}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let told = |words: &'static str| {
        move |object: &GitRepository| {
            assert!(!serde_json::to_string(object).unwrap().contains("hidden"), "{object:#?}");
            let failed = conditions::find(&object.status.conditions, "FetchFailed");
            failed.is_some_and(|it| it.message.contains(words))
        }
    };
    let set = async |values: serde_json::Value| {
        let patch = Patch::Merge(json!({"stringData": values}));
        secrets.patch("proxy", &PatchParams::default(), &patch).await.unwrap();
    };
    world.when("half a Secret is told", "app", told("has no address")).await;
    set(json!({"address": private.address()})).await;
    world.when("a private proxy is refused", "app", told("is not a public address")).await;
    set(json!({"address": proxy.address()})).await;
    world.when("the login is refused", "app", told("failed to list the refs")).await;
    assert_eq!(proxy.passed() + private.passed(), 0);
    set(json!({"password": "hidden-password"})).await;
    world.ready("app", &commit).await;
    assert!(proxy.passed() > 0);
}
