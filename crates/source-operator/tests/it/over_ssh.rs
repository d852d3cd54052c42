use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use windlass_api::conditions;
use windlass_git_server::{SshServer, ssh_key};

use crate::world::{World, put};

#[tokio::test]
async fn a_source_is_read_over_ssh_from_hosts_that_its_secret_knows() {
    let world = World::new().await;
    let (private, public) =
        ssh_key(&world.folder.path().join("identity"), &["ed25519"], "a passphrase").unwrap();
    let server = SshServer::start(&world.folder.path().join("sshd"), "ecdsa", &public, &[]).unwrap();
    let Some(server) = server else { return };
    let commit = world.commit([put("a", "1")]);
    let origins = format!("{}|{}", world.server.origin(), server.origin());
    let more = [("source.leader_election", "false"), ("operator.allowed_git_origins", origins.as_str())];
    let _process = world.start_as("one", &more).await;
    let url = server.url(&world.folder.path().join("app.git"));
    world.create("app", json!({"url": url})).await;
    let (_, message) = world.failed("app", "AuthenticationFailed").await;
    assert!(message.contains("needs spec.secretRef"), "{message}");
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "default");
    let data = json!({"identity": private, "identity.pub": public, "known_hosts": "example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ"});
    let secret = json!({"metadata": {"name": "git"}, "stringData": data});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    world.patch("app", json!({"spec": {"secretRef": {"name": "git"}}})).await;
    let told = |reason: &'static str, words: &'static str| {
        move |object: &windlass_api::flux::GitRepository| {
            conditions::find(&object.status.conditions, "FetchFailed")
                .is_some_and(|it| it.reason == reason && it.message.contains(words))
        }
    };
    let set = async |values: serde_json::Value| {
        let patch = Patch::Merge(json!({"stringData": values}));
        secrets.patch("git", &PatchParams::default(), &patch).await.unwrap();
    };
    world.when("the key is locked", "app", told("AuthenticationFailed", "protected by a passphrase")).await;
    set(json!({"password": "a passphrase"})).await;
    world
        .when("the host is unknown", "app", told("GitOperationFailed", "known_hosts has no key of it"))
        .await;
    set(json!({"known_hosts": server.known_hosts()})).await;
    world.ready("app", &commit).await;
    let object = world.objects.get("app").await.unwrap();
    assert!(!serde_json::to_string(&object).unwrap().contains("passphrase"));
}
