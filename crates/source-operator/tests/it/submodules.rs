use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Router, routing::any};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use windlass_git_server::seed;

use crate::world::{World, fetch, is_ready, listed, put};

/// Commits a submodule to the repository `name` on top of what it has.
fn add_submodule(world: &World, name: &str, path: &str, url: &str, commit: &str) -> String {
    let folder = world.folder.path().join(name);
    let said = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(&folder).args(["-c", "user.name=A", "-c", "user.email=a@b"]).args(arguments);
        command.env("GIT_INDEX_FILE", folder.join("index-of-test")).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let done = command.output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    let modules = format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n");
    seed::commit(&folder, "main", [put(".gitmodules", &modules)], "modules").unwrap();
    said(&["read-tree", "main"]);
    said(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]);
    let tree = said(&["write-tree"]);
    let made = said(&["commit-tree", &tree, "-p", "main", "-m", "submodule"]);
    said(&["update-ref", "refs/heads/main", &made]);
    made
}

fn commit(world: &World, name: &str, path: &str, content: &str) -> String {
    seed::commit(&world.folder.path().join(name), "main", [put(path, content)], "change").unwrap()
}

#[tokio::test]
async fn the_files_of_submodules_are_among_those_of_the_artifact() {
    let world = World::new().await;
    let inner = commit(&world, "inner.git", "deep.yaml", "inner");
    commit(&world, "lib.git", "lib.yaml", "lib");
    commit(&world, "lib.git", ".sourceignore", "skipped.yaml");
    commit(&world, "lib.git", "skipped.yaml", "skipped");
    let lib = add_submodule(&world, "lib.git", "vendor/inner", "../inner.git", &inner);
    world.commit([put("a.yaml", "1")]);
    let url = format!("{}/lib.git", world.server.origin());
    let tip = add_submodule(&world, "app.git", "libs/lib", &url, &lib);
    let _process = world.start().await;
    world.create("app", json!({})).await;
    let without = world.ready("app", &tip).await;
    let paths = |archive: &[u8]| {
        let all = listed(archive).into_iter();
        all.filter(|path| path.contains(".yaml")).collect::<Vec<_>>()
    };
    assert_eq!(paths(&fetch(&without.url).await.1), ["a.yaml"]);
    world.patch("app", json!({"spec": {"recurseSubmodules": true}})).await;
    let object = world
        .when("it is made again", "app", |it| is_ready(it) && it.status.observed_recurse_submodules)
        .await;
    let with = object.status.artifact.unwrap();
    let wanted = ["a.yaml", "libs/lib/lib.yaml", "libs/lib/vendor/inner/deep.yaml"];
    assert_eq!(paths(&fetch(&with.url).await.1), wanted);
    world.patch("app", json!({"spec": {"sparseCheckout": ["libs/lib/vendor"]}})).await;
    let object =
        world.when("less", "app", |it| is_ready(it) && !it.status.observed_sparse_checkout.is_empty()).await;
    let less = object.status.artifact.unwrap();
    assert_eq!(paths(&fetch(&less.url).await.1), ["libs/lib/vendor/inner/deep.yaml"]);
}

#[tokio::test]
async fn a_submodule_of_another_server_is_asked_for_as_nobody() {
    let world = World::with(|backend| backend.basic_auth("me", "hidden-token".into())).await;
    let seen = Arc::new(Mutex::new(Vec::<HeaderMap>::new()));
    let answer = async |State(seen): State<Arc<Mutex<Vec<HeaderMap>>>>, headers: HeaderMap| {
        seen.lock().unwrap().push(headers);
        StatusCode::NOT_FOUND
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(any(answer)).with_state(Arc::clone(&seen));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let inner = commit(&world, "inner.git", "a", "1");
    world.commit([put("a", "1")]);
    add_submodule(&world, "app.git", "theirs", &format!("{other}/inner.git"), &inner);
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "default");
    let data = json!({"username": "me", "password": "hidden-token"});
    let secret = json!({"metadata": {"name": "git"}, "stringData": data});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let origins = format!("{}|{other}", world.server.origin());
    let more = [("source.leader_election", "false"), ("operator.allowed_git_origins", origins.as_str())];
    let _process = world.start_as("one", &more).await;
    world.create("app", json!({"secretRef": {"name": "git"}, "recurseSubmodules": true})).await;
    let (_, message) = world.failed("app", "GitOperationFailed").await;
    assert!(message.contains("of the submodule theirs"), "{message}");
    let requests = seen.lock().unwrap().clone();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|headers| !headers.contains_key("authorization")), "{requests:?}");
    // One of the same server is asked for as its parent is.
    let tip = add_submodule(&world, "app.git", "theirs", "../inner.git", &inner);
    world.request("app", "1").await;
    world.ready("app", &tip).await;
}

#[tokio::test]
async fn what_a_repository_says_of_submodules_leads_to_servers_and_comes_to_an_end() {
    let world = World::new().await;
    let inner = commit(&world, "inner.git", "a", "1");
    world.commit([put("a", "1")]);
    let process = world.start().await;
    add_submodule(&world, "app.git", "theirs", "../inner.git", &inner);
    world.create("app", json!({"recurseSubmodules": true})).await;
    world.when("it is made", "app", is_ready).await;
    let local = format!("file://{}", world.folder.path().join("inner.git").display());
    let path = world.folder.path().join("inner.git").display().to_string();
    for (at, url) in
        [local.as_str(), &path, "../../../inner.git", "ext::sh -c id", "https://10.0.0.1/x", "git@10.0.0.1:x"]
            .into_iter()
            .enumerate()
    {
        add_submodule(&world, "app.git", "theirs", url, &inner);
        world.request("app", &format!("refused {at}")).await;
        let told = |object: &windlass_api::flux::GitRepository| {
            let asked = object.status.last_handled_reconcile_at.as_deref() == Some(&*format!("refused {at}"));
            asked && windlass_api::conditions::is_true(&object.status.conditions, "FetchFailed")
        };
        let object = world.when(url, "app", told).await;
        let failed = windlass_api::conditions::find(&object.status.conditions, "FetchFailed").unwrap();
        assert!(failed.message.contains("the submodule theirs cannot be had"), "{url}: {}", failed.message);
    }
    // Each in the next.
    let mut deepest = inner;
    for level in 0..12 {
        let name = format!("level-{level}.git");
        commit(&world, &name, "a", &level.to_string());
        let below = if level == 0 { "inner.git".to_owned() } else { format!("level-{}.git", level - 1) };
        deepest = add_submodule(&world, &name, "next", &format!("../{below}"), &deepest);
    }
    add_submodule(&world, "app.git", "theirs", "../level-11.git", &deepest);
    world.request("app", "deep").await;
    let told = |object: &windlass_api::flux::GitRepository| {
        let failed = windlass_api::conditions::find(&object.status.conditions, "FetchFailed");
        failed.is_some_and(|it| it.message.contains("more than 10 submodules deep"))
    };
    world.when("it is too deep", "app", told).await;
    process.stop().await;
}
