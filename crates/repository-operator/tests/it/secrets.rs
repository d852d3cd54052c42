//! Secrets that change: what names them uses what they say now, with no wait for an interval.
//!
//! Checks are five minutes apart, looks at hooks one, and those at unhealthy repositories and connections one: within the
//! deadline of these tests it is the change alone that brings them.

use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use windlass_api::conditions::reasons;
use windlass_api::{Connection, Repository, labels};
use windlass_git_server::HttpBackend;
use windlass_github_stand_in::foreign_key;
use windlass_repository_operator::{PROVISIONING_CONNECTION, PROVISIONING_REPO, register};

use crate::health::{git_spec, ready};
use crate::hooks::Scene;
use crate::kit::{GitServer, World, eventually};

/// Shorter than any interval.
const SOON: Duration = Duration::from_secs(20);

async fn soon<T>(wished: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, wished).await.expect("it is used at once")
}

/// Waits until changes of Secrets are told of: what a first list holds is no change.
async fn watched(world: &World) {
    eventually("Secrets are watched", || async {
        let all = world.requests.all();
        let asked = all.iter().filter(|it| it.method == "GET" && it.path.ends_with("/secrets")).count();
        // The list, and then the watch.
        if asked >= 2 { Ok(()) } else { Err(asked) }
    })
    .await;
}

/// Makes a Secret that says whom it serves.
async fn create(world: &World, name: &str, serves: (&str, &str), data: Value) {
    let secret = json!({"metadata": {"name": name, "labels": {serves.0: serves.1}}, "stringData": data});
    let secret = serde_json::from_value(secret).unwrap();
    world.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
}

async fn set(world: &World, name: &str, data: Value) {
    let patch = Patch::Merge(json!({"stringData": data}));
    world.api::<Secret>().patch(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn git() -> GitServer {
    let git = GitServer::with(|backend: HttpBackend| backend.basic_auth("git", "right".into())).await;
    git.put(&[("a.json", "a", "A")]);
    git
}

fn with_token(git: &GitServer, secret: &str, path: &str) -> Value {
    let mut document = git_spec(git);
    document["spec"]["git"]["tokenUser"] = "git".into();
    document["spec"]["git"]["path"] = path.into();
    document["spec"]["sync"] = json!({"enabled": false, "intervalSeconds": 3600});
    document["secure"] = json!({"token": {"name": secret}});
    document
}

#[tokio::test]
async fn a_changed_token_is_used_at_once_by_the_repositories_that_name_it() {
    let git = git().await;
    let world = World::with_git(&git);
    let _process = world.start(register, PROVISIONING_REPO);
    for (name, secret) in [("dash", "login"), ("beside", "other")] {
        create(&world, secret, (labels::SECRET_REPOSITORY, name), json!({"token": "right"})).await;
        world.create_repository(name, with_token(&git, secret, name)).await;
        world.repository_when("it is healthy", name, |it| it.status.health.healthy).await;
    }
    watched(&world).await;
    let beside = world.repository("beside").await.status.health.checked;
    let refused = |it: &Repository| ready(it).1 == reasons::AUTHENTICATION_FAILED;
    let healthy = |it: &Repository| it.status.health.healthy;

    set(&world, "login", json!({"token": "wrong"})).await;
    soon(world.repository_when("the new one is refused", "dash", refused)).await;
    set(&world, "login", json!({"token": "right"})).await;
    soon(world.repository_when("the next is taken", "dash", healthy)).await;
    world.api::<Secret>().delete("login", &DeleteParams::default()).await.unwrap();
    let gone = |it: &Repository| ready(it).2.contains("was not found");
    soon(world.repository_when("it is missed", "dash", gone)).await;
    create(&world, "login", (labels::SECRET_REPOSITORY, "dash"), json!({"token": "right"})).await;
    soon(world.repository_when("it is there again", "dash", healthy)).await;
    assert_eq!(
        world.repository("beside").await.status.health.checked,
        beside,
        "what names another is left alone"
    );
}

#[tokio::test]
async fn without_the_right_to_watch_secrets_the_interval_does_it() {
    let git = git().await;
    let world = World::with_git(&git);
    world.fault.answer(|method, path| {
        (method == "GET" && path.ends_with("/secrets")).then_some(StatusCode::FORBIDDEN)
    });
    let process = world.start(register, PROVISIONING_REPO);
    create(&world, "login", (labels::SECRET_REPOSITORY, "dash"), json!({"token": "right"})).await;
    world.create_repository("dash", with_token(&git, "login", "")).await;
    world.repository_when("it is healthy", "dash", |it| it.status.health.healthy).await;
    eventually("it is ready all the same", || async {
        let waits = process.context.health.not_ready();
        if waits.is_empty() { Ok(()) } else { Err(waits) }
    })
    .await;
    process.stop().await;
}

#[tokio::test]
async fn github_is_told_of_a_webhook_secret_that_somebody_changed() {
    let scene = Scene::new().await;
    create(&scene.world, "signing", (labels::SECRET_REPOSITORY, "dash"), json!({"webhookSecret": "one"}))
        .await;
    scene.create(json!({})).await;
    let named = json!({"secure": {"webhookSecret": {"name": "signing"}}});
    scene.world.patch_repository("dash", named).await;
    let _process = scene.start();
    scene.said(reasons::WEBHOOK_CONFIGURED).await;
    assert_eq!(scene.upstream.hooks()[0].secret.as_deref(), Some("one"));
    watched(&scene.world).await;
    set(&scene.world, "signing", json!({"webhookSecret": "two"})).await;
    soon(eventually("GitHub knows it", || async {
        let hook = scene.upstream.hooks().remove(0);
        if hook.secret.as_deref() == Some("two") { Ok(()) } else { Err(hook) }
    }))
    .await;
}

#[tokio::test]
async fn a_connection_whose_key_changed_is_checked_at_once_and_its_repositories_get_their_tokens() {
    for alone in [false, true] {
        let scene = Scene::new().await;
        let app = scene.github.install_app("12345", 67);
        let serves = (labels::SECRET_CONNECTION, "app");
        let wrong = foreign_key().expose_secret().to_owned();
        create(&scene.world, "key", serves, json!({"privateKey": wrong})).await;
        scene.connect_with("app", &app, json!({"name": "key"})).await;
        scene.create_connected("dash", "grafana/dash", "app").await;
        let name = if alone { PROVISIONING_CONNECTION } else { PROVISIONING_REPO };
        let _process = scene.world.start(register, name);
        let told = |it: &Connection| it.status.health.checked != 0;
        let first = scene.connection_when("it is told", "app", told).await;
        assert!(!first.status.health.healthy, "{first:#?}");
        watched(&scene.world).await;
        set(&scene.world, "key", json!({"privateKey": app.private_key.expose_secret()})).await;
        soon(scene.connection_when("it is well", "app", |it| it.status.health.healthy)).await;
        if !alone {
            soon(scene.healthy("dash")).await;
        }
    }
}
