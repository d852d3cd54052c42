//! The webhook at GitHub: made, healed, removed, and what is done about deliveries that did not come.

use std::collections::BTreeMap;
use std::path::PathBuf;

use secrecy::SecretString;
use serde_json::{Value, json};
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{Repository, annotations, finalizers};
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::{self, Edit};
use windlass_github_stand_in::{Fault, Repository as Upstream, StandIn};
use windlass_jobs_operator::{PROVISIONING_JOBS, register as jobs};
use windlass_repository_operator::{PROVISIONING_REPO, register};

use crate::kit::{Death, Process, World, dashboard, eventually};

/// A GitHub Enterprise Server, and a world that it can reach.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) github: StandIn,
    pub(crate) upstream: Upstream,
    pub(crate) files: PathBuf,
    public: String,
    _folder: tempfile::TempDir,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        windlass_git::init_process().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("grafana/dash");
        seed::commit(&files, "main", [Edit::put("a.json", dashboard("a", "A"))], "first").unwrap();
        let github = StandIn::start_beside(HttpBackend::new(folder.path()).router()).await.unwrap();
        github.allow_token(&SecretString::from("a-t0ken"));
        let upstream = github.repository("grafana/dash");
        let world = World::with_origins(&[github.api().to_owned()]);
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let public = format!("http://{}", listener.local_addr().unwrap());
        let router = world.router.clone();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let world = world.set("operator.provisioning_server_public_url", &public);
        Self { world, github, upstream, files, public, _folder: folder }
    }

    pub(crate) fn start(&self) -> Process {
        self.world.start(register, PROVISIONING_REPO)
    }

    /// Creates the repository. It is polled once an hour.
    pub(crate) async fn create(&self, change: Value) {
        let url = self.github.url_of(&self.upstream);
        let mut document = json!({
            "spec": {"type": "githubEnterprise", "workflows": ["write"],
                "sync": {"enabled": true, "target": "folder", "intervalSeconds": 3600},
                "githubEnterprise": {"serverUrl": self.github.api(), "url": url, "branch": "main"}},
            "secure": {"token": {"create": "a-t0ken"}},
        });
        for (key, value) in change.as_object().unwrap() {
            document["spec"][key] = value.clone();
        }
        self.world.create_repository("dash", document).await;
    }

    fn url(&self) -> String {
        let path = "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/dash/webhook";
        format!("{}{path}", self.public)
    }

    pub(crate) async fn said(&self, reason: &str) -> Repository {
        self.world.repository_when("the hook is told of", "dash", |found| said(found).0 == reason).await
    }

    pub(crate) async fn titles(&self, wish: &str) {
        eventually("the dashboard is there", || async {
            let found = self.world.dashboards().await;
            let is_there = found.get("a.json").map(String::as_str) == Some(wish);
            if is_there { Ok(()) } else { Err((found, self.world.repository("dash").await)) }
        })
        .await;
    }

    pub(crate) async fn quiet(&self) {
        eventually("no pull is under way", || async {
            if self.world.jobs().await.is_empty() { Ok(()) } else { Err(()) }
        })
        .await;
    }

    fn commit(&self, title: &str) -> String {
        seed::commit(&self.files, "main", [Edit::put("a.json", dashboard("a", title))], "next").unwrap()
    }
}

/// Reason and message of the condition.
fn said(repository: &Repository) -> (&str, &str) {
    let found = conditions::find(&repository.status.conditions, types::WEBHOOK);
    found.map_or(("", ""), |found| (&found.reason, &found.message))
}

#[tokio::test]
async fn a_push_is_in_the_api_with_nobody_having_pasted_a_url() {
    let scene = Scene::new().await;
    scene.create(json!({})).await;
    let _processes = (scene.start(), scene.world.start(jobs, PROVISIONING_JOBS));
    let repository = scene.said(reasons::WEBHOOK_CONFIGURED).await;
    scene.titles("A").await;
    scene.quiet().await;
    let [hook] = &scene.upstream.hooks()[..] else { panic!("one hook") };
    assert_eq!((hook.url.as_str(), hook.content_type.as_str(), hook.active), (&*scene.url(), "json", true));
    assert_eq!(hook.events, ["pull_request", "push"]);
    let webhook = repository.status.webhook.clone().unwrap();
    assert_eq!((webhook.id.unsigned_abs(), webhook.url), (hook.id, scene.url()));
    let shown = serde_json::to_string(&repository).unwrap();
    assert!(!shown.contains(hook.secret.as_deref().unwrap()), "{shown}");
    let pulls = scene.world.history().await.len();
    assert_eq!(pulls, 1, "a hook costs no second pull");

    let commit = scene.commit("B");
    assert_eq!(scene.upstream.tell_of_push("main", &commit).await, [202]);
    scene.titles("B").await;
    eventually("the delivery is known by the job's record", || async {
        let history = scene.world.history().await;
        let of_delivery = |marks: &BTreeMap<String, String>| marks.contains_key(annotations::DELIVERY);
        let is_known =
            history.iter().any(|record| record.metadata.annotations.as_ref().is_some_and(of_delivery));
        if is_known { Ok(()) } else { Err(history) }
    })
    .await;
}

#[tokio::test]
async fn a_hook_that_was_deleted_or_changed_by_hand_is_as_it_was() {
    let scene = Scene::new().await;
    scene.create(json!({})).await;
    let process = scene.start();
    scene.said(reasons::WEBHOOK_CONFIGURED).await;
    process.stop().await;
    scene.upstream.remove_hook(scene.upstream.hooks()[0].id);
    let process = scene.start();
    eventually("it is back", || async { scene.upstream.hooks().pop().ok_or(()) }).await;
    eventually("its number is known", || async {
        let known = scene.world.repository("dash").await.status.webhook.unwrap().id.unsigned_abs();
        if scene.upstream.hooks()[0].id == known { Ok(()) } else { Err(known) }
    })
    .await;
    process.stop().await;
    scene.upstream.change_hook(scene.upstream.hooks()[0].id, |hook| {
        hook.active = false;
        hook.events = vec!["push".to_owned()];
    });
    let _process = scene.start();
    eventually("it is whole", || async {
        let hook = scene.upstream.hooks().remove(0);
        if hook.active && hook.events.len() == 2 { Ok(()) } else { Err(hook) }
    })
    .await;
    assert_eq!(
        scene.upstream.tell_of_push("main", &scene.commit("B")).await,
        [202],
        "the secret is the same"
    );
}

#[tokio::test]
async fn a_hook_that_is_there_already_is_taken_over() {
    let scene = Scene::new().await;
    let other = scene.upstream.add_hook("https://elsewhere.example/hook");
    let lost = scene.upstream.add_hook(&scene.url());
    scene.create(json!({})).await;
    let _process = scene.start();
    let repository = scene.said(reasons::WEBHOOK_CONFIGURED).await;
    assert_eq!(repository.status.webhook.unwrap().id.unsigned_abs(), lost);
    let hooks = scene.upstream.hooks();
    assert_eq!(hooks.len(), 2);
    let untouched = hooks.iter().find(|hook| hook.id == other).unwrap();
    assert_eq!((untouched.secret.as_deref(), untouched.content_type.as_str()), (None, "form"));
    assert_eq!(scene.upstream.tell_of_push("main", &scene.commit("B")).await, [0, 202]);
}

#[tokio::test]
async fn whatever_github_says_of_hooks_is_told_with_what_to_do_and_stops_no_sync() {
    for (fault, reason, advice) in [
        (Fault::Status(403), reasons::PERMISSION_DENIED, "admin:repo_hook"),
        (Fault::Status(404), reasons::PERMISSION_DENIED, "spec.webhook.disabled"),
        (Fault::Status(401), reasons::AUTHENTICATION_FAILED, "secure.token"),
        (Fault::Status(422), reasons::WEBHOOK_REJECTED, "spec.webhook.baseUrl"),
        (
            Fault::SecondaryLimit(Some(std::time::Duration::from_mins(10))),
            reasons::RATE_LIMITED,
            "rate limit",
        ),
    ] {
        let scene = Scene::new().await;
        scene.github.fail("/hooks", 100, fault.clone());
        scene.create(json!({})).await;
        let _processes = (scene.start(), scene.world.start(jobs, PROVISIONING_JOBS));
        let repository = scene.said(reason).await;
        assert!(said(&repository).1.contains(advice), "{fault:?}: {repository:#?}");
        assert!(said(&repository).1.ends_with("is polled"), "{repository:#?}");
        scene.titles("A").await;
        let repository = scene.world.repository("dash").await;
        assert!(repository.status.health.healthy, "{repository:#?}");
        assert_eq!(Some(repository.status.observed_generation), repository.metadata.generation);
        scene.quiet().await;
        assert_eq!(scene.world.history().await.len(), 1, "it is not pulled again and again");
    }
}

#[tokio::test]
async fn a_push_that_github_could_not_tell_of_is_pulled_after_all() {
    let scene = Scene::new().await;
    scene.create(json!({})).await;
    let process = scene.start();
    let _jobs = scene.world.start(jobs, PROVISIONING_JOBS);
    scene.said(reasons::WEBHOOK_CONFIGURED).await;
    scene.titles("A").await;
    scene.quiet().await;
    process.stop().await;
    scene.commit("B");
    for _ in 0..10 {
        scene.upstream.deliver(scene.upstream.hooks()[0].id, "push", 502);
    }
    let _process = scene.start();
    scene.titles("B").await;
    scene.quiet().await;
    assert_eq!(scene.world.history().await.len(), 2, "one pull makes up for ten");
}

#[tokio::test]
async fn a_pull_request_that_github_could_not_tell_of_is_looked_at_after_all() {
    let scene = Scene::new().await;
    scene.create(json!({})).await;
    let process = scene.start();
    scene.said(reasons::WEBHOOK_CONFIGURED).await;
    process.stop().await;
    let payload = json!({
        "action": "opened", "number": 3,
        "pull_request": {
            "html_url": "https://github.example/grafana/dash/pull/3",
            "base": {"ref": "main", "sha": "0".repeat(40)}, "head": {"ref": "feature", "sha": "1".repeat(40)},
        },
        "repository": {"full_name": "grafana/dash"},
    });
    scene.upstream.miss("pull_request", &payload);
    let _process = scene.start();
    eventually("the pull request is to be looked at", || async {
        let jobs = scene.world.jobs().await;
        let is_there = jobs.iter().any(|job| job.spec.pr.as_ref().is_some_and(|pr| pr.pr == 3));
        if is_there { Ok(()) } else { Err(jobs) }
    })
    .await;
}

#[tokio::test]
async fn a_push_that_came_during_a_pull_is_pulled_after_it() {
    let scene = Scene::new().await;
    scene.create(json!({})).await;
    scene.world.fault.hold(|method, path| method == "POST" && path.ends_with("/dashboards"));
    let _processes = (scene.start(), scene.world.start(jobs, PROVISIONING_JOBS));
    scene.said(reasons::WEBHOOK_CONFIGURED).await;
    scene.world.fault.holding().await;
    let commit = scene.commit("B");
    assert_eq!(scene.upstream.tell_of_push("main", &commit).await, [202]);
    scene.world.fault.resume();
    scene.titles("B").await;
}

#[tokio::test]
async fn a_secret_is_changed_after_thirty_days_and_no_delivery_is_refused_meanwhile() {
    let scene = Scene::new().await;
    scene.create(json!({})).await;
    let process = scene.start();
    let repository = scene.said(reasons::WEBHOOK_CONFIGURED).await;
    process.stop().await;
    let before = scene.upstream.hooks().remove(0).secret;
    let then = repository.status.webhook.unwrap().last_rotated - 31 * 86_400_000;
    scene.world.patch_status("dash", json!({"status": {"webhook": {"lastRotated": then}}})).await;
    // GitHub is not told of the new one yet.
    let id = scene.upstream.hooks()[0].id;
    scene.github.fail(&format!("/hooks/{id}"), 100, Fault::Status(500));
    let process = scene.start();
    scene.said(reasons::SERVICE_UNAVAILABLE).await;
    process.stop().await;
    assert_eq!(scene.upstream.hooks()[0].secret, before);
    assert_eq!(scene.upstream.tell_of_push("main", &scene.commit("B")).await, [202], "with the one before");
    scene.github.heal();
    let _process = scene.start();
    eventually("GitHub has the new one", || async {
        if scene.upstream.hooks()[0].secret == before { Err(()) } else { Ok(()) }
    })
    .await;
    assert_eq!(scene.upstream.tell_of_push("main", &scene.commit("C")).await, [202], "with the new one");
    let rotated =
        |found: &Repository| found.status.webhook.as_ref().is_some_and(|hook| hook.last_rotated > then);
    scene.world.repository_when("it is written down", "dash", rotated).await;
}

#[tokio::test]
async fn a_hook_goes_with_its_repository_and_with_the_wish_for_it() {
    let scene = Scene::new().await;
    scene.create(json!({})).await;
    let _process = scene.start();
    scene.said(reasons::WEBHOOK_CONFIGURED).await;
    scene.world.patch_repository("dash", json!({"spec": {"webhook": {"disabled": true}}})).await;
    let repository = scene.said(reasons::WEBHOOK_DISABLED).await;
    assert_eq!((scene.upstream.hooks(), repository.status.webhook), (vec![], None));
    scene.world.patch_repository("dash", json!({"spec": {"webhook": {"disabled": false}}})).await;
    scene.said(reasons::WEBHOOK_CONFIGURED).await;
    scene.world.delete_repository("dash").await;
    gone(&scene).await;
    assert_eq!(scene.upstream.hooks(), []);
}

#[tokio::test]
async fn a_hook_that_cannot_be_removed_is_in_the_way_until_somebody_says_otherwise() {
    let scene = Scene::new().await;
    scene.create(json!({})).await;
    let _process = scene.start();
    scene.said(reasons::WEBHOOK_CONFIGURED).await;
    scene.github.fail("/hooks", 1_000, Fault::Status(403));
    scene.world.delete_repository("dash").await;
    let blocked = |found: &Repository| found.status.deletion.is_some();
    let repository = scene.world.repository_when("it says what is in the way", "dash", blocked).await;
    let deletion = repository.status.deletion.unwrap();
    assert_eq!(deletion.finalizer, finalizers::CLEANUP);
    assert!(deletion.message.contains(annotations::FORCE_DELETE), "{deletion:?}");
    let force = json!({"metadata": {"annotations": {annotations::FORCE_DELETE: "true"}}});
    scene.world.patch_repository("dash", force).await;
    gone(&scene).await;
}

#[tokio::test]
async fn where_github_cannot_tell_it_is_said_why() {
    let scene = Scene::new().await;
    scene.create(json!({"workflows": []})).await;
    let _process = scene.start();
    let repository = scene.said(reasons::READ_ONLY).await;
    assert!(said(&repository).1.contains("spec.workflows"));
    assert!(repository.secure.webhook_secret.name.is_empty());
    scene.world.patch_repository("dash", json!({"spec": {"workflows": ["write"]}})).await;
    scene.said(reasons::WEBHOOK_CONFIGURED).await;
    assert_eq!(scene.upstream.hooks().len(), 1);
}

#[tokio::test]
async fn what_github_knows_of_a_repository_is_filled_in_once() {
    let scene = Scene::new().await;
    let url = scene.github.url_of(&scene.upstream);
    scene
        .create(json!({"type": "github", "githubEnterprise": null, "github": {"url": url, "branch": ""}}))
        .await;
    let api = scene.github.api().to_owned();
    let start = |context: &mut windlass_launch::Context| {
        context.opener = context.opener.clone().with_github_api(&api);
    };
    let _process = scene.world.start_with(register, PROVISIONING_REPO, Death::Never, start);
    let _jobs = scene.world.start(jobs, PROVISIONING_JOBS);
    let repository = scene.said(reasons::WEBHOOK_CONFIGURED).await;
    let settings = repository.spec.github.clone().unwrap();
    assert_eq!(settings.branch, "main");
    assert!(settings.repo_id != 0);
    assert_eq!(repository.metadata.generation, Some(2), "with the name of the Secret, in one write");
    scene.titles("A").await;
    scene.quiet().await;
    assert_eq!(scene.world.history().await.len(), 1);
    assert_eq!(scene.upstream.tell_of_push("main", &scene.commit("B")).await, [202]);
    scene.titles("B").await;
}

#[tokio::test]
async fn a_token_goes_to_no_other_server_than_the_repositorys() {
    let scene = Scene::new().await;
    let url = scene.github.url_of(&scene.upstream);
    let elsewhere = json!({"serverUrl": "https://elsewhere.example", "url": url, "branch": "main"});
    scene.create(json!({"githubEnterprise": elsewhere})).await;
    let _process = scene.start();
    let repository = scene.said(reasons::INVALID_SPEC).await;
    assert!(said(&repository).1.contains("serverUrl"), "{repository:#?}");
}

async fn gone(scene: &Scene) {
    eventually("the repository is gone", || async {
        match scene.world.api::<Repository>().get_opt("dash").await.unwrap() {
            None => Ok(()),
            Some(left) => Err(format!("{left:#?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_left_of_githubs_limit_and_of_the_hosts_share_is_told() {
    let scene = Scene::new().await;
    scene.create(json!({})).await;
    let process = scene.start();
    scene.said(reasons::WEBHOOK_CONFIGURED).await;
    let host = scene.github.api().strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    let text = process.context.metrics.render().unwrap();
    for gauge in ["windlass_github_rate_limit_remaining", "windlass_git_host_requests_left"] {
        let line = text.lines().find(|line| line.starts_with(&format!("{gauge}{{host=\"{host}\"}} ")));
        let value: f64 = line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect(&text);
        assert!(value > 0.0, "{line:?}");
    }
}

#[tokio::test]
async fn git_and_github_are_asked_through_the_proxy_that_the_settings_name() {
    let proxy = windlass_git_server::TestProxy::http("me", "hidden-password").await.unwrap();
    for (password, is_let_in) in [("hidden-wrong", false), ("hidden-password", true)] {
        let mut scene = Scene::new().await;
        for (key, value) in [("", proxy.address()), ("_user", "me"), ("_password", password)] {
            scene.world = scene.world.set(&format!("operator.git_proxy{key}"), value);
        }
        scene.create(json!({})).await;
        let _process = scene.start();
        let told = |it: &Repository| it.status.health.checked != 0 && !said(it).0.is_empty();
        let repository = scene.world.repository_when("it is told", "dash", told).await;
        assert!(!json!(repository).to_string().contains("hidden"), "{repository:#?}");
        if is_let_in {
            scene.said(reasons::WEBHOOK_CONFIGURED).await;
            assert!(repository.status.health.healthy && proxy.passed() > 0, "{repository:#?}");
        } else {
            assert!(!repository.status.health.healthy, "{repository:#?}");
            assert_eq!((scene.github.requests().len(), proxy.passed()), (0, 0), "{repository:#?}");
        }
    }
}
