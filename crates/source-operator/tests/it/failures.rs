use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use windlass_api::conditions;

use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_git_server::HttpBackend;

use crate::world::{World, fetch, is_ready, put};

#[tokio::test]
async fn a_failure_is_told_the_last_artifact_is_served_and_recovery_follows() {
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    let _process = world.start().await;
    world.create("app", json!({"ref": {"branch": "main"}})).await;
    let artifact = world.ready("app", &commit).await;
    world.patch("app", json!({"spec": {"ref": {"branch": "later"}}})).await;
    let (object, message) = world.failed("app", "GitOperationFailed").await;
    assert!(message.contains("branch \"later\""), "{message}");
    assert!(conditions::is_true(&object.status.conditions, "FetchFailed"));
    assert!(conditions::is_true(&object.status.conditions, "Reconciling"));
    assert_eq!(object.status.artifact.as_ref(), Some(&artifact));
    assert_eq!(fetch(&artifact.url).await.0, 200);
    world.git(&["branch", "later", "main"]);
    let object = world.when("it recovers", "app", is_ready).await;
    assert_eq!(object.status.artifact.unwrap().revision, format!("later@sha1:{commit}"));
}

#[tokio::test]
async fn credentials_come_from_the_secret_and_are_shown_nowhere() {
    let world = World::with(|backend| backend.basic_auth("me", "hidden-token".into())).await;
    let commit = world.commit([put("a", "1")]);
    let _process = world.start().await;
    world.create("app", json!({"secretRef": {"name": "git"}})).await;
    let (_, message) = world.failed("app", "AuthenticationFailed").await;
    assert!(message.contains("there is no Secret \"git\""), "{message}");
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "default");
    let secret = |password: &str| -> Secret {
        let data = json!({"username": "me", "password": password});
        serde_json::from_value(json!({"metadata": {"name": "git"}, "stringData": data})).unwrap()
    };
    secrets.create(&PostParams::default(), &secret("hidden-wrong")).await.unwrap();
    let refused = |object: &windlass_api::flux::GitRepository| {
        let ready = conditions::find(&object.status.conditions, "Ready");
        ready.is_some_and(|ready| {
            ready.reason == "AuthenticationFailed" && !ready.message.contains("no Secret")
        })
    };
    let object = world.when("it is refused", "app", refused).await;
    assert!(!serde_json::to_string(&object).unwrap().contains("hidden"), "{object:#?}");
    let patch = kube::api::Patch::Merge(json!({"stringData": {"password": "hidden-token"}}));
    secrets.patch("git", &kube::api::PatchParams::default(), &patch).await.unwrap();
    world.ready("app", &commit).await;
    let object = world.objects.get("app").await.unwrap();
    assert!(!serde_json::to_string(&object).unwrap().contains("hidden"));
}

#[tokio::test]
async fn what_cannot_work_stalls_until_it_is_changed() {
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    let _process = world.start().await;
    world.create("app", json!({"provider": "azure"})).await;
    let (object, message) = world.failed("app", "InvalidProviderConfiguration").await;
    assert!(message.contains("\"azure\""), "{message}");
    assert!(conditions::is_true(&object.status.conditions, "Stalled"));
    assert_eq!(object.status.observed_generation, object.metadata.generation);
    world
        .patch("app", json!({"spec": {"provider": "generic", "url": "ssh://git:pw@localhost/app.git"}}))
        .await;
    let (object, _) = world.failed("app", "URLInvalid").await;
    assert!(conditions::is_true(&object.status.conditions, "Stalled"));
    world.patch("app", json!({"spec": {"url": world.url()}})).await;
    world.ready("app", &commit).await;
}

#[tokio::test]
async fn a_suspended_object_is_left_alone_and_deleted_all_the_same() {
    let world = World::new().await;
    let first = world.commit([put("a", "1")]);
    let _process = world.start().await;
    world.create("app", json!({})).await;
    let artifact = world.ready("app", &first).await;
    world.patch("app", json!({"spec": {"suspend": true}})).await;
    let before = world.requests();
    world.commit([put("a", "2")]);
    world.request("app", "1").await;
    let object = world
        .when("it was looked at", "app", |it| it.status.last_handled_reconcile_at.as_deref() == Some("1"))
        .await;
    assert_eq!((object.status.artifact.unwrap(), world.requests()), (artifact, before));
    world.delete("app").await;
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    while world.objects.get_opt("app").await.unwrap().is_some() {
        assert!(tokio::time::Instant::now() < until, "it is not deleted");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_empty_repository_is_told_and_taken_once_it_is_pushed_to() {
    let world = World::new().await;
    std::fs::create_dir_all(world.folder.path().join("app.git")).unwrap();
    world.git(&["init", "--quiet", "--bare", "-b", "main"]);
    let _process = world.start().await;
    world.create("app", json!({})).await;
    world.failed("app", "EmptyGitRepository").await;
    let commit = world.commit([put("a", "1")]);
    world.ready("app", &commit).await;
}

#[tokio::test]
async fn a_revision_with_a_path_that_git_refuses_is_refused_and_the_last_one_served() {
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    let _process = world.start().await;
    world.create("app", json!({})).await;
    let artifact = world.ready("app", &commit).await;
    // What no Git tool would write: a tree whose entry is `.git` in disguise.
    let script = "blob=$(echo hook | git hash-object -w --stdin) && \
        tree=$(printf '100644 .GIT\\0%b' \"$(echo $blob | sed 's/../\\\\x&/g')\" | git hash-object -t tree -w --literally --stdin) && \
        commit=$(GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b \
        git commit-tree -m planted $tree) && git update-ref refs/heads/main $commit";
    let mut command = std::process::Command::new("bash");
    let done =
        command.args(["-c", script]).current_dir(world.folder.path().join("app.git")).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    world.request("app", "1").await;
    let (object, message) = world.failed("app", "GitOperationFailed").await;
    assert!(message.contains(".GIT"), "{message}");
    assert_eq!(object.status.artifact.as_ref(), Some(&artifact));
    assert_eq!(fetch(&artifact.url).await.0, 200);
}

#[tokio::test]
async fn a_storage_that_takes_nothing_is_told_and_the_last_artifact_is_served_until_it_does() {
    let world = World::new().await;
    let first = world.commit([put("a", "1")]);
    let process = world.start().await;
    world.create("app", json!({})).await;
    let artifact = world.ready("app", &first).await;
    // Whoever runs this, root too, can make no file below a file.
    let drafts = process.data.join(".drafts");
    std::fs::remove_dir_all(&drafts).unwrap();
    std::fs::write(&drafts, "").unwrap();
    let second = world.commit([put("a", "2")]);
    world.request("app", "1").await;
    let (object, _) = world.failed("app", "ArchiveOperationFailed").await;
    assert!(conditions::is_true(&object.status.conditions, "StorageOperationFailed"));
    assert_eq!(object.status.artifact.as_ref(), Some(&artifact));
    assert_eq!(fetch(&artifact.url).await.0, 200);
    std::fs::remove_file(&drafts).unwrap();
    std::fs::create_dir(&drafts).unwrap();
    world.ready("app", &second).await;
}

/// The day is on a paused clock; what fails is a connection that is refused, which takes no time of it.
#[tokio::test]
async fn a_git_server_that_is_down_for_a_day_is_asked_now_and_then_and_the_artifact_is_served() {
    let world = World::new().await;
    let first = world.commit([put("a", "1")]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = |listener: TcpListener| {
        let stop = CancellationToken::new();
        let backend = HttpBackend::new(world.folder.path());
        let served = tokio::spawn(backend.serve(listener, stop.clone()));
        (stop, served)
    };
    let (stop, served) = serve(listener);
    let origin = format!("http://{address}");
    let more = [
        ("source.leader_election", "false"),
        ("operator.allowed_git_origins", origin.as_str()),
        ("source.min_retry_delay", "750ms"),
        ("source.max_retry_delay", "15m"),
    ];
    let process = world.start_as("one", &more).await;
    world.create("app", json!({"url": format!("{origin}/app.git"), "interval": "10m"})).await;
    let artifact = world.ready("app", &first).await;
    stop.cancel();
    served.await.unwrap().unwrap();
    world.request("app", "1").await;
    world.failed("app", "GitOperationFailed").await;
    let failures = || {
        let rendered = process.context.metrics.render().unwrap();
        let series = "windlass_source_failures_total{reason=\"GitOperationFailed\"} ";
        let line = rendered.lines().find_map(|line| line.strip_prefix(series)).unwrap();
        line.parse::<f64>().unwrap()
    };
    let before = failures();
    tokio::time::pause();
    tokio::time::sleep(Duration::from_hours(24)).await;
    tokio::time::resume();
    let tried = failures() - before;
    assert!((90.0..400.0).contains(&tried), "{tried} times in a day");
    let object = world.objects.get("app").await.unwrap();
    assert_eq!(object.status.artifact.as_ref(), Some(&artifact));
    assert_eq!(fetch(&artifact.url).await.0, 200, "it is served all the while");
    let second = world.commit([put("a", "2")]);
    let (stop, served) = serve(TcpListener::bind(address).await.unwrap());
    world.request("app", "2").await;
    world.ready("app", &second).await;
    stop.cancel();
    served.await.unwrap().unwrap();
}
