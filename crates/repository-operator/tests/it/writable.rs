//! What is said of writing to a repository, and refused: reading goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::{Response, StatusCode};
use serde_json::{Value, json};
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{DeleteOptions, JobAction, JobSpec, JobState, Repository};
use windlass_git_server::HttpBackend;
use windlass_github_stand_in::{Fault, Rule};
use windlass_jobs_operator::{PROVISIONING_JOBS, register as jobs};
use windlass_repository_operator::{PROVISIONING_REPO, register};

use crate::health::ready;
use crate::hooks::Scene;
use crate::kit::{Death, GitServer, World, dashboard, end_of};

/// Status, reason and message of the condition.
fn writable(repository: &Repository) -> (&str, &str, &str) {
    let found = conditions::find(&repository.status.conditions, types::WRITABLE);
    found.map_or(("", "", ""), |found| (&found.status, &found.reason, &found.message))
}

async fn said(world: &World, name: &str, status: &str, reason: &str) -> Repository {
    let is_said = |found: &Repository| (writable(found).0, writable(found).1) == (status, reason);
    world.repository_when("it is said whether it can be written to", name, is_said).await
}

fn delete(path: &str) -> JobSpec {
    let delete = DeleteOptions { paths: vec![path.to_owned()], ..DeleteOptions::default() };
    JobSpec {
        action: JobAction::Delete,
        repository: "dash".to_owned(),
        delete: Some(delete),
        ..JobSpec::default()
    }
}

#[tokio::test]
async fn a_protected_branch_is_pulled_and_not_written_to() {
    let scene = Scene::new().await;
    let at = "2026-03-04T09:15:00Z".parse().unwrap();
    scene.upstream.push("first", at, &[("a.json", Some(b"{}"))]);
    scene.upstream.cover(&[Rule::new("pull_request", 7)]);
    scene.create(json!({})).await;
    let process = scene.start();
    let _jobs = scene.world.start(jobs, PROVISIONING_JOBS);
    let repository = said(&scene.world, "dash", "False", reasons::BRANCH_PROTECTED).await;
    let (_, _, message) = writable(&repository);
    assert!(message.contains("changes go in by pull request (ruleset 7)"), "{message}");
    scene.titles("A").await;
    let repository = scene.world.repository("dash").await;
    assert!(repository.status.health.healthy, "{repository:#?}");

    let (code, answer) = scene.world.send("PUT", "dash/files/a.json", dashboard("a", "B")).await;
    assert_eq!(code, 403, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("ruleset 7"), "{answer}");
    let ended = scene.world.run(delete("a.json")).await;
    let (state, text) = end_of(&ended);
    assert!(state == JobState::Error && text.contains("ruleset 7"), "{ended:#?}");
    let (code, answer) = scene.world.send("POST", "dash/test", "").await;
    assert_eq!((code, &answer["errors"][0]["field"]), (400, &json!("spec.workflows")), "{answer}");

    // Another look, once the specification is another or its time has come.
    scene.upstream.cover(&[]);
    scene.world.patch_repository("dash", json!({"spec": {"title": "Other"}})).await;
    said(&scene.world, "dash", "True", reasons::BRANCH_WRITABLE).await;
    let (code, answer) = scene.world.send("POST", "dash/test", "").await;
    assert_eq!(code, 200, "{answer}");
    scene.world.patch_repository("dash", json!({"spec": {"workflows": ["branch"]}})).await;
    said(&scene.world, "dash", "False", reasons::READ_ONLY).await;
    process.stop().await;
}

#[tokio::test]
async fn a_token_that_may_not_push_is_told_of_and_reads_on() {
    let scene = Scene::new().await;
    scene.github.let_people(false, false);
    scene.create(json!({})).await;
    let _processes = (scene.start(), scene.world.start(jobs, PROVISIONING_JOBS));
    let repository = said(&scene.world, "dash", "False", reasons::PERMISSION_DENIED).await;
    assert!(writable(&repository).2.contains("Contents: read and write"), "{repository:#?}");
    scene.titles("A").await;
    let (code, answer) = scene.world.send("POST", "dash/test", "").await;
    assert_eq!((code, &answer["errors"][0]["field"]), (403, &json!("secure.token")), "{answer}");
}

#[tokio::test]
async fn a_git_server_that_takes_no_pushes_is_told_of() {
    for (writes, status, reason) in
        [(false, "False", reasons::PERMISSION_DENIED), (true, "True", reasons::BRANCH_WRITABLE)]
    {
        let adapt = |backend: HttpBackend| if writes { backend.writable() } else { backend };
        let git = GitServer::with(adapt).await;
        git.put(&[("a.json", "a", "A")]);
        let world = World::with_git(&git);
        let _process = world.start(register, PROVISIONING_REPO);
        let spec = json!({"git": {"url": git.url(), "branch": "main"}, "workflows": ["write"]});
        let document = json!({"spec": spec, "secure": {"token": {"create": "a-token"}}});
        world.create_repository("test6", document).await;
        let repository = said(&world, "test6", status, reason).await;
        world.repository_when("it is healthy", "test6", |found| found.status.health.healthy).await;
        assert!(!writable(&repository).2.is_empty());
    }
}

#[tokio::test]
async fn a_used_up_limit_of_github_says_nothing_about_the_branch_and_stops_nothing() {
    let scene = Scene::new().await;
    scene.github.fail("/rules/", 100, Fault::SecondaryLimit(Some(Duration::from_mins(10))));
    scene.create(json!({})).await;
    let _processes = (scene.start(), scene.world.start(jobs, PROVISIONING_JOBS));
    said(&scene.world, "dash", "Unknown", reasons::RATE_LIMITED).await;
    scene.titles("A").await;
    let asked = scene.github.requests().iter().filter(|line| line.contains("/rules/")).count();
    assert_eq!(asked, 1, "it is left alone");
}

#[tokio::test]
async fn a_repository_that_is_only_read_gets_its_number_too() {
    let scene = Scene::new().await;
    let url = scene.github.url_of(&scene.upstream);
    let github = json!({"url": url, "branch": ""});
    scene
        .create(json!({"type": "github", "workflows": [], "githubEnterprise": null, "github": github}))
        .await;
    let api = scene.github.api().to_owned();
    let start = |context: &mut windlass_launch::Context| {
        context.opener = context.opener.clone().with_github_api(&api);
    };
    let _process = scene.world.start_with(register, PROVISIONING_REPO, Death::Never, start);
    let is_filled = |found: &Repository| {
        found.spec.github.as_ref().is_some_and(|it| it.repo_id != 0 && it.branch == "main")
    };
    let repository = scene.world.repository_when("it is filled in", "dash", is_filled).await;
    assert_eq!(repository.metadata.generation, Some(2), "in one write");
    assert!(repository.secure.webhook_secret.name.is_empty());
    assert_eq!(writable(&repository), ("", "", ""));
}

#[tokio::test]
async fn a_server_that_asks_to_be_left_alone_is_rate_limited_and_left_alone_by_all() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let limited = move || {
        let count = Arc::clone(&count);
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            let answer =
                Response::builder().status(StatusCode::TOO_MANY_REQUESTS).header("retry-after", "1200");
            answer.body(axum::body::Body::empty()).unwrap()
        }
    };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(limited);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let world = World::with_origins(std::slice::from_ref(&origin));
    let _process = world.start(register, PROVISIONING_REPO);
    for name in ["test6", "other"] {
        let spec: Value = json!({"spec": {"git": {"url": format!("{origin}/{name}.git"), "branch": "main"}}});
        world.create_repository(name, spec).await;
        let is_limited = |found: &Repository| ready(found).1 == reasons::RATE_LIMITED;
        let repository = world.repository_when("it is told", name, is_limited).await;
        assert!(ready(&repository).2.contains("slow down"), "{repository:#?}");
        let health = &repository.status.health;
        let until = health.retry_at - health.checked;
        assert!((1_100_000..=1_200_000).contains(&until), "{repository:#?}");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{name}");
    }
}
