use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use secrecy::ExposeSecret as _;
use serde_json::json;
use windlass_git_server::{HttpBackend, seed};
use windlass_github_stand_in::StandIn;

use crate::world::{World, put};

type Seen = Arc<Mutex<Vec<Option<String>>>>;

async fn note(State(seen): State<Seen>, request: Request, next: Next) -> Response {
    let header = request.headers().get("authorization");
    seen.lock().unwrap().push(header.and_then(|value| value.to_str().ok()).map(str::to_owned));
    next.run(request).await
}

#[tokio::test]
async fn a_source_is_read_with_the_token_of_a_github_app() {
    let world = World::new().await;
    let seen = Seen::default();
    let git =
        HttpBackend::new(world.folder.path()).router().layer(from_fn_with_state(Arc::clone(&seen), note));
    let github = StandIn::start_beside(git).await.unwrap();
    let repository = github.repository("acme/app").private();
    let folder = world.folder.path().join("acme/app.git");
    std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
    let commit = |content: &str| seed::commit(&folder, "main", [put("a", content)], "change").unwrap();
    let first = commit("1");
    let app = github.install_app("42", 7);
    let origins = format!("{}|{}", world.server.origin(), github.api());
    let more = [("source.leader_election", "false"), ("operator.allowed_git_origins", origins.as_str())];
    let _process = world.start_as("one", &more).await;
    world.create("app", json!({"url": github.url_of(&repository), "provider": "github"})).await;
    let (object, message) = world.failed("app", "InvalidProviderConfiguration").await;
    assert!(message.contains("needs an https: URL and spec.secretRef"), "{message}");
    assert!(windlass_api::conditions::is_true(&object.status.conditions, "Stalled"));
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "default");
    let data = json!({"githubAppID": app.id, "githubAppInstallationID": app.installation.to_string(),
        "githubAppBaseURL": format!("{}/api/v3", github.api())});
    let secret = json!({"metadata": {"name": "app"}, "stringData": data});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    world.patch("app", json!({"spec": {"secretRef": {"name": "app"}}})).await;
    let told = |words: &'static str| {
        move |object: &windlass_api::flux::GitRepository| {
            let failed = windlass_api::conditions::find(&object.status.conditions, "FetchFailed");
            failed.is_some_and(|it| it.reason == "InvalidProviderConfiguration" && it.message.contains(words))
        }
    };
    world.when("half a Secret is told", "app", told("has no githubAppPrivateKey")).await;
    let patch = Patch::Merge(json!({"stringData": {"githubAppPrivateKey": app.private_key.expose_secret()}}));
    secrets.patch("app", &PatchParams::default(), &patch).await.unwrap();
    world.ready("app", &first).await;
    let second = commit("2");
    world.request("app", "1").await;
    world.ready("app", &second).await;
    assert_eq!(github.minted(), 1, "a token serves until it ends");
    let seen = seen.lock().unwrap().clone();
    assert!(!seen.is_empty() && seen.iter().all(|it| it.as_ref().is_some_and(|it| it.starts_with("Basic "))));
    // Looked for by who installed it: an organisation, or a user.
    github.installed_by(7, "someone", false);
    let by_owner = |owner: &str| json!({"data": {"githubAppInstallationID": null}, "stringData": {"githubAppInstallationOwner": owner}});
    secrets.patch("app", &PatchParams::default(), &Patch::Merge(by_owner("nobody"))).await.unwrap();
    let (_, message) = world.failed("app", "AuthenticationFailed").await;
    assert!(message.contains("the App is not installed by \"nobody\""), "{message}");
    for (owner, is_organisation) in [("someone", false), ("acme", true)] {
        github.installed_by(7, owner, is_organisation);
        let before = github.minted();
        secrets.patch("app", &PatchParams::default(), &Patch::Merge(by_owner(owner))).await.unwrap();
        let third = commit(owner);
        world.request("app", owner).await;
        world.ready("app", &third).await;
        assert!(github.minted() > before);
    }
    world.patch("app", json!({"spec": {"provider": "generic"}})).await;
    world.when("it is told what is missing", "app", told("set spec.provider to github")).await;
}
