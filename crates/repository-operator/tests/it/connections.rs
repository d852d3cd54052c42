//! Connections: the App of several repositories, their tokens, and what is told when it cannot be used.

use std::time::Duration;

use base64::Engine as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{Connection, Repository};
use windlass_auth::Caller;
use windlass_github_stand_in::{Fault, InstalledApp, foreign_key};
use windlass_jobs_operator::{PROVISIONING_JOBS, register as jobs};
use windlass_repository_operator::{PROVISIONING_CONNECTION, register};

use crate::hooks::Scene;
use crate::kit::eventually;

const APP: &str = "12345";
const INSTALLATION: u64 = 67;

impl Scene {
    /// Creates a connection of the App, whose key is given as `key`.
    async fn connect(&self, name: &str, app: &InstalledApp, key: &str) {
        self.connect_with(name, app, json!({"create": key})).await;
    }

    /// The same, whose key is where `key` says.
    pub(crate) async fn connect_with(&self, name: &str, app: &InstalledApp, key: Value) {
        let document = json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Connection",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"title": name, "type": "githubEnterprise", "githubEnterprise": {
                "serverUrl": self.github.api(), "appID": app.id, "installationID": app.installation.to_string()}},
            "secure": {"privateKey": key},
        });
        let connection: Connection = serde_json::from_value(document).unwrap();
        self.world.api::<Connection>().create(&PostParams::default(), &connection).await.unwrap();
    }

    /// Creates a repository of the one that has this name at GitHub.
    pub(crate) async fn create_connected(&self, name: &str, upstream: &str, connection: &str) {
        let url = self.github.url_of(&self.github.repository(upstream));
        let document = json!({"spec": {
            "type": "githubEnterprise", "workflows": ["write"], "connection": {"name": connection},
            "sync": {"enabled": true, "target": "folder", "intervalSeconds": 3600},
            "githubEnterprise": {"serverUrl": self.github.api(), "url": url, "branch": "main"}}});
        self.world.create_repository(name, document).await;
    }

    pub(crate) async fn connection_when(
        &self,
        what: &str,
        name: &str,
        wish: impl Fn(&Connection) -> bool,
    ) -> Connection {
        eventually(what, || async {
            let found = self.world.api::<Connection>().get(name).await.unwrap();
            if wish(&found) { Ok(found) } else { Err(format!("{found:#?}")) }
        })
        .await
    }

    async fn token_of(&self, repository: &str) -> String {
        let named = self.world.repository(repository).await.secure.token.name;
        let secret = self.world.api::<Secret>().get(&named).await.unwrap();
        String::from_utf8(secret.data.unwrap().remove("token").unwrap().0).unwrap()
    }

    pub(crate) async fn healthy(&self, repository: &str) -> Repository {
        self.world.repository_when("it is healthy", repository, |found| found.status.health.healthy).await
    }
}

fn token(repository: &Repository) -> (&str, &str) {
    let found = conditions::find(&repository.status.conditions, types::TOKEN);
    found.map_or(("", ""), |found| (&found.reason, &found.message))
}

fn ready(connection: &Connection) -> (&str, &str) {
    let found = conditions::find(&connection.status.conditions, types::READY);
    found.map_or(("", ""), |found| (&found.reason, &found.message))
}

#[tokio::test]
async fn a_repository_gets_its_token_from_its_connection_once() {
    for encoded in [false, true] {
        let scene = Scene::new().await;
        let app = scene.github.install_app(APP, INSTALLATION);
        let pem = app.private_key.expose_secret();
        let key =
            if encoded { base64::engine::general_purpose::STANDARD.encode(pem) } else { pem.to_owned() };
        scene.connect("app", &app, &key).await;
        scene.create_connected("dash", "grafana/dash", "app").await;
        let _processes = (scene.start(), scene.world.start(jobs, PROVISIONING_JOBS));
        let repository = scene.said(reasons::WEBHOOK_CONFIGURED).await;
        scene.titles("A").await;
        let repository_token = scene.token_of("dash").await;
        assert!(repository_token.starts_with("ghs_"));
        assert_eq!(token(&repository).0, reasons::TOKEN_VALID, "{repository:#?}");
        let known = repository.status.token.clone().unwrap();
        assert!((3_590_000..=3_602_000).contains(&(known.expiration - known.last_updated)), "{known:?}");
        assert_eq!(scene.github.minted(), 1, "one for all that was done with it");
        let connection = scene.connection_when("it is checked", "app", |it| it.status.health.healthy).await;
        assert_eq!(ready(&connection).0, reasons::AVAILABLE);
        let shown = format!("{}{}", json!(repository), json!(connection));
        assert!(!shown.contains(&repository_token) && !shown.contains("PRIVATE KEY"), "{shown}");
    }
}

#[tokio::test]
async fn a_token_is_replaced_before_it_ends() {
    let scene = Scene::new().await;
    let app = scene.github.install_app(APP, INSTALLATION);
    scene.github.let_tokens_live(Duration::from_secs(6));
    scene.connect("app", &app, app.private_key.expose_secret()).await;
    scene.create_connected("dash", "grafana/dash", "app").await;
    let _process = scene.start();
    scene.healthy("dash").await;
    let first = scene.token_of("dash").await;
    let generation = scene.world.repository("dash").await.metadata.generation;
    eventually("there is another", || async {
        if scene.token_of("dash").await == first { Err(()) } else { Ok(()) }
    })
    .await;
    assert_eq!(scene.world.repository("dash").await.metadata.generation, generation, "nothing else changes");
}

#[tokio::test]
async fn a_token_that_was_revoked_is_replaced_after_a_restart() {
    let scene = Scene::new().await;
    let app = scene.github.install_app(APP, INSTALLATION);
    scene.connect("app", &app, app.private_key.expose_secret()).await;
    scene.create_connected("dash", "grafana/dash", "app").await;
    let process = scene.start();
    scene.healthy("dash").await;
    process.stop().await;
    let first = scene.token_of("dash").await;
    // The Secret is gone, and the status says that all is well.
    let named = scene.world.repository("dash").await.secure.token.name;
    scene.world.api::<Secret>().delete(&named, &DeleteParams::default()).await.unwrap();
    let then = jiff::Timestamp::now().as_millisecond() - 300_000;
    let stale = json!({"status": {"health": {"healthy": false, "checked": then},
        "token": {"lastUpdated": then, "expiration": then + 3_600_000}}});
    scene.world.patch_status("dash", stale).await;
    let _process = scene.start();
    eventually("there is another", || async {
        let found = scene.world.api::<Secret>().get_opt(&named).await.unwrap();
        if found.is_some() { Ok(()) } else { Err(scene.world.repository("dash").await) }
    })
    .await;
    assert_ne!(scene.token_of("dash").await, first);
    scene.healthy("dash").await;
}

#[tokio::test]
async fn what_is_wrong_with_an_app_is_told_by_name_and_other_repositories_go_on() {
    type Break = fn(&Scene);
    let wrongs: [(&str, Break, &str, &str); 5] = [
        (
            "App deleted",
            |scene| scene.github.delete_app("99"),
            "spec.githubEnterprise.appID",
            "no App 99 any more",
        ),
        (
            "installation removed",
            |scene| scene.github.uninstall(5),
            "spec.githubEnterprise.installationID",
            "App 99 is not installed as 5 any more",
        ),
        ("suspended", |scene| scene.github.suspend(5), "spec.githubEnterprise.installationID", "suspended"),
        (
            "permission missing",
            |scene| scene.github.grant(5, &[("contents", "read"), ("metadata", "read")]),
            "spec.githubEnterprise.installationID",
            "lacks the permission contents: write",
        ),
        ("another key", |_scene| {}, "secure.privateKey", "the private key is none of App 99's"),
    ];
    for (what, spoil, field, words) in wrongs {
        let scene = Scene::new().await;
        let (good, bad) = (scene.github.install_app(APP, INSTALLATION), scene.github.install_app("99", 5));
        scene.connect("good", &good, good.private_key.expose_secret()).await;
        let key: SecretString = if what == "another key" { foreign_key() } else { bad.private_key.clone() };
        scene.connect("bad", &bad, key.expose_secret()).await;
        spoil(&scene);
        scene.create_connected("dash", "grafana/dash", "good").await;
        scene.create_connected("lost", "grafana/lost", "bad").await;
        let _processes = (scene.start(), scene.world.start(jobs, PROVISIONING_JOBS));
        let told = |it: &Connection| it.status.health.checked != 0;
        let connection = scene.connection_when("it is told", "bad", told).await;
        let error = &connection.status.field_errors[0];
        assert_eq!(error.field, field, "{what}: {connection:#?}");
        assert!(error.detail.contains(words), "{what}: {connection:#?}");
        assert!(ready(&connection).1.contains(words), "{what}: {connection:#?}");
        let fails = |it: &Repository| token(it).0 == reasons::TOKEN_INVALID;
        let lost = scene.world.repository_when("its repository says so", "lost", fails).await;
        assert!(
            !lost.status.health.healthy && token(&lost).1.contains("connection \"bad\""),
            "{what}: {lost:#?}"
        );
        scene.titles("A").await;
        scene.healthy("dash").await;
    }
}

#[tokio::test]
async fn a_connection_that_is_put_right_heals_its_repositories_at_once() {
    let scene = Scene::new().await;
    let app = scene.github.install_app(APP, INSTALLATION);
    scene.connect("app", &app, foreign_key().expose_secret()).await;
    scene.create_connected("dash", "grafana/dash", "app").await;
    let _process = scene.start();
    let fails = |it: &Repository| token(it).0 == reasons::TOKEN_INVALID;
    scene.world.repository_when("it has no token", "dash", fails).await;
    let right = json!({"secure": {"privateKey": {"create": app.private_key.expose_secret()}}});
    let api = scene.world.api::<Connection>();
    api.patch("app", &PatchParams::default(), &Patch::Merge(&right)).await.unwrap();
    scene.connection_when("it is well", "app", |it| it.status.health.healthy).await;
    scene.healthy("dash").await;
}

#[tokio::test]
async fn a_rate_limit_is_no_fault_of_the_app() {
    let scene = Scene::new().await;
    let app = scene.github.install_app(APP, INSTALLATION);
    scene.connect("app", &app, app.private_key.expose_secret()).await;
    scene.github.fail("/app", 100, Fault::SecondaryLimit(Some(Duration::from_mins(10))));
    let _process = scene.world.start(register, PROVISIONING_CONNECTION);
    let told = |it: &Connection| it.status.health.checked != 0;
    let connection = scene.connection_when("it is told", "app", told).await;
    assert_eq!(ready(&connection).0, reasons::RATE_LIMITED, "{connection:#?}");
}

#[tokio::test]
async fn a_connection_stays_for_as_long_as_a_repository_refers_to_it() {
    let scene = Scene::new().await;
    let app = scene.github.install_app(APP, INSTALLATION);
    scene.connect("app", &app, app.private_key.expose_secret()).await;
    scene.create_connected("dash", "grafana/dash", "app").await;
    // An operator of its own, as well.
    let _processes = (scene.start(), scene.world.start(register, PROVISIONING_CONNECTION));
    let held = |it: &Connection| it.metadata.finalizers.is_some();
    scene.connection_when("it is held", "app", held).await;
    let api = scene.world.api::<Connection>();
    api.delete("app", &DeleteParams::default()).await.unwrap();
    scene.healthy("dash").await;
    assert!(api.get("app").await.unwrap().metadata.deletion_timestamp.is_some());
    scene.world.delete_repository("dash").await;
    eventually("it is gone", || async {
        match api.get_opt("app").await.unwrap() {
            None => Ok(()),
            Some(left) => {
                Err(format!("{left:#?} {:#?}", scene.world.api::<Repository>().get_opt("dash").await))
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_repositories_that_an_app_is_installed_for_are_listed() {
    let scene = Scene::new().await;
    let app = scene.github.install_app(APP, INSTALLATION);
    scene.connect("app", &app, app.private_key.expose_secret()).await;
    let ask = |name: &str| {
        let path = format!(
            "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/connections/{name}/repositories"
        );
        let mut request = http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        request.extensions_mut().insert(Caller::system("somebody"));
        let router = scene.world.router.clone();
        async move {
            let response = tower::ServiceExt::oneshot(router, request).await.unwrap();
            let code = response.status().as_u16();
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            (code, serde_json::from_slice::<Value>(&body).unwrap())
        }
    };
    let (code, body) = ask("app").await;
    let url = format!("{}/grafana/dash", scene.github.api());
    let item = json!({"name": "dash", "owner": "grafana", "url": url});
    assert_eq!(
        (code, &body["kind"], &body["items"]),
        (200, &json!("ExternalRepositoryList"), &json!([item]))
    );
    assert_eq!(ask("other").await.0, 404);
    scene.github.uninstall(INSTALLATION);
    let (code, body) = ask("app").await;
    assert_eq!(code, 422, "{body}");
}
