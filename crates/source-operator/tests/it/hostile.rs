use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Redirect, Response};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use windlass_git_server::{HttpBackend, ssh_key};

use crate::world::{World, fetch, is_ready, listed, put};

#[tokio::test]
async fn an_artifact_that_unpacks_to_too_much_is_not_put_into_another() {
    let world = World::new().await;
    let zeros = vec![0_u8; 9 << 20];
    let bomb = (0..32).map(|n| windlass_git_server::seed::Edit::put(format!("bomb/{n}"), zeros.clone()));
    let folder = world.folder.path().join("bomb.git");
    windlass_git_server::seed::commit(&folder, "main", bomb, "bomb").unwrap();
    let commit = world.commit([put("a", "1")]);
    let _process = world.start().await;
    world.create("bomb", json!({"url": format!("{}/bomb.git", world.server.origin())})).await;
    world.when("the bomb is made", "bomb", is_ready).await;
    world.create("app", json!({"include": [{"repository": {"name": "bomb"}}]})).await;
    let (object, message) = world.failed("app", "CopyFailure").await;
    assert!(message.contains("unpacks to more than"), "{message}");
    assert_eq!(object.status.artifact, None);
    // One directory of it is not the whole.
    world
        .patch("app", json!({"spec": {"include": [{"repository": {"name": "bomb"}, "fromPath": "gone"}]}}))
        .await;
    let told = |object: &windlass_api::flux::GitRepository| {
        let failed = windlass_api::conditions::find(&object.status.conditions, "StorageOperationFailed");
        failed.is_some_and(|it| it.message.contains("gone"))
    };
    world.when("there is no such directory", "app", told).await;
    world.patch("app", json!({"spec": {"include": null}})).await;
    world.ready("app", &commit).await;
}

#[tokio::test]
async fn no_path_of_a_specification_leads_out_of_its_repository() {
    let world = World::new().await;
    let commit = world.commit([put("deploy/a", "1"), put("..b/c", "2")]);
    let _process = world.start().await;
    world.create("other", json!({})).await;
    world.ready("other", &commit).await;
    world.create("app", json!({"sparseCheckout": ["deploy"]})).await;
    let artifact = world.ready("app", &commit).await;
    let include = |from: &str, to: &str| json!({"sparseCheckout": null, "include": [{"repository": {"name": "other"}, "fromPath": from, "toPath": to}]});
    for (spec, reason) in [
        (json!({"sparseCheckout": ["../../etc"]}), "GitOperationFailed"),
        (json!({"sparseCheckout": ["deploy/../../x"]}), "GitOperationFailed"),
        (include("../..", "x"), "IllegalPath"),
        (include("", "../x"), "IllegalPath"),
        (include("", "x/../../y"), "IllegalPath"),
    ] {
        world.patch("app", json!({"spec": spec})).await;
        let told = |object: &windlass_api::flux::GitRepository| {
            let ready = windlass_api::conditions::find(&object.status.conditions, "Ready");
            ready.is_some_and(|it| it.reason == reason && it.message.contains("leads out of the repository"))
        };
        let object = world.when("it is refused", "app", told).await;
        assert_eq!(object.status.artifact.as_ref(), Some(&artifact), "{spec}");
    }
    // An absolute path is one within the repository.
    world.patch("app", json!({"spec": {"include": null, "sparseCheckout": ["/..b"]}})).await;
    let object = world.when("it is made", "app", is_ready).await;
    let paths = listed(&fetch(&object.status.artifact.unwrap().url).await.1);
    assert!(paths.iter().any(|path| path.ends_with("..b/c")), "{paths:?}");
}

#[tokio::test]
async fn paths_that_differ_in_case_alone_make_no_artifact_unless_one_is_left_out() {
    let world = World::new().await;
    let first = world.commit([put("deploy/app.yaml", "a: 1")]);
    let _process = world.start().await;
    world.create("app", json!({})).await;
    let artifact = world.ready("app", &first).await;
    let second = world.commit([put("Deploy/app.yaml", "a: 2")]);
    world.request("app", "1").await;
    let (object, message) = world.failed("app", "ArchiveOperationFailed").await;
    assert!(message.contains("\"Deploy\" and \"deploy\""), "{message}");
    assert_eq!(object.status.artifact.as_ref(), Some(&artifact), "the last one is served");
    world.patch("app", json!({"spec": {"ignore": "/Deploy"}})).await;
    world.ready("app", &second).await;
}

#[tokio::test]
async fn a_repository_of_a_hundred_thousand_files_is_packed_and_one_of_more_than_allowed_refused() {
    let world = World::new().await;
    let commit = world.commit((0..100_000).map(|n| put(&format!("d{}/f{n}", n % 1_000), "x")));
    // Directories count, too.
    let more = [("source.leader_election", "false"), ("operator.git_max_files", "101500")];
    let _process = world.start_as("one", &more).await;
    world.create("app", json!({"timeout": "5m"})).await;
    let artifact = world.ready("app", &commit).await;
    assert_eq!(listed(&fetch(&artifact.url).await.1).len(), 101_001);
    world.commit((0..1_000).map(|n| put(&format!("e{n}/f"), "x")));
    world.request("app", "1").await;
    let (object, message) = world.failed("app", "GitOperationFailed").await;
    assert!(message.contains("git_max_files"), "{message}");
    assert_eq!(object.status.artifact.as_ref(), Some(&artifact));
}

/// Zeros, of which a gigabyte is a megabyte on the wire.
#[tokio::test]
async fn a_file_over_a_gigabyte_is_refused_and_never_in_memory() {
    let world = World::new().await;
    let good = world.commit([put("a", "1")]);
    let _process = world.start().await;
    world.create("app", json!({"timeout": "5m"})).await;
    let artifact = world.ready("app", &good).await;
    let git = format!("git -C '{}/app.git'", world.folder.path().display());
    let script = format!(
        "set -e; export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
         blob=$(head -c 1073741825 /dev/zero | {git} -c core.compression=1 hash-object -w --stdin)
         tree=$(printf '100644 blob %s\\tlarge\\n' $blob | {git} mktree)
         commit=$({git} -c user.name=a -c user.email=a@example.org commit-tree $tree -m large)
         {git} update-ref refs/heads/main $commit"
    );
    let made = tokio::process::Command::new("sh").args(["-c", &script]).output().await.unwrap();
    assert!(made.status.success(), "{made:?}");
    world.request("app", "1").await;
    let (object, message) = world.failed("app", "GitOperationFailed").await;
    assert!(message.contains("\"large\"") && message.contains("git_max_pack_bytes"), "{message}");
    assert_eq!(object.status.artifact.as_ref(), Some(&artifact));
    // Of all that this process ever had in memory, the other tests' included.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(most < 1 << 20, "{most} KiB");
}

/// A server of the world's repositories that calls `before` with the number of each request, counted from 1.
async fn served(
    world: &World,
    before: impl Fn(usize, &Request) -> Option<Response> + Clone + Send + Sync + 'static,
) -> String {
    let count = Arc::new(AtomicUsize::new(0));
    let layer = from_fn(move |request: Request, next: Next| {
        let answer = before(count.fetch_add(1, Ordering::SeqCst) + 1, &request);
        async move {
            match answer {
                Some(answer) => answer,
                None => next.run(request).await,
            }
        }
    });
    let router = HttpBackend::new(world.folder.path()).router().layer(layer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    origin
}

#[tokio::test]
async fn a_tag_that_moves_after_it_was_read_changes_nothing_of_what_was_verified() {
    let world = World::new().await;
    let keys = tempfile::tempdir().unwrap();
    let (_, public) = ssh_key(&keys.path().join("key"), &["ed25519"], "").unwrap();
    let key = format!("user.signingkey={}", keys.path().join("key").display());
    let config = ["-c", "gpg.format=ssh", "-c", &key, "-c", "user.name=A", "-c", "user.email=a@example.com"];
    let signed = world.commit([put("a", "signed")]);
    world.git(&[&config[..], &["tag", "-s", "-m", "one", "v1", &signed]].concat());
    world.git(&["branch", "held", &signed]);
    let evil = world.commit([put("a", "evil")]);
    world.git(&[
        "-c",
        "user.name=E",
        "-c",
        "user.email=e@example.com",
        "tag",
        "-a",
        "-m",
        "e",
        "evil",
        &evil,
    ]);
    let repository = world.folder.path().join("app.git");
    // The list of refs is the first request; what is fetched comes after it.
    let origin = served(&world, move |number, _request| {
        if number == 2 {
            let arguments = ["update-ref", "refs/tags/v1", "refs/tags/evil"];
            let done = Command::new("git").arg("-C").arg(&repository).args(arguments).status().unwrap();
            assert!(done.success());
        }
        None
    })
    .await;
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "default");
    let secret = json!({"metadata": {"name": "keys"}, "stringData": {"one.sshpub": public}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let more = [("source.leader_election", "false"), ("operator.allowed_git_origins", origin.as_str())];
    let _process = world.start_as("one", &more).await;
    let verify = json!({"mode": "Tag", "secretRef": {"name": "keys"}});
    let url = format!("{origin}/app.git");
    world.create("app", json!({"url": url, "ref": {"tag": "v1"}, "verify": verify})).await;
    let artifact = world.ready("app", &signed).await;
    let bytes = fetch(&artifact.url).await.1;
    let file = world.folder.path().join("got.tar.gz");
    std::fs::write(&file, bytes).unwrap();
    let read = Command::new("tar").args(["-xzOf"]).arg(&file).arg("a").output().unwrap();
    assert_eq!(read.stdout, b"signed", "{read:?}");
    // The next look sees where it went, and takes nothing of it.
    world.request("app", "1").await;
    let refused = |object: &windlass_api::flux::GitRepository| {
        let verified = windlass_api::conditions::find(&object.status.conditions, "SourceVerified");
        verified.is_some_and(|it| it.status == "False")
    };
    let object = world.when("it is refused", "app", refused).await;
    assert_eq!(object.status.artifact.as_ref(), Some(&artifact));
}

#[tokio::test]
async fn a_server_that_leads_to_another_host_is_not_followed_and_no_token_goes_there() {
    let world = World::new().await;
    world.commit([put("a", "1")]);
    let seen = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&seen);
    let other = served(&world, move |_, _| {
        asked.fetch_add(1, Ordering::SeqCst);
        None
    })
    .await;
    let target = other.clone();
    let origin = served(&world, move |_, request| {
        let to = format!("{target}{}", request.uri().path_and_query().unwrap());
        Some(Redirect::temporary(&to).into_response())
    })
    .await;
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), "default");
    let secret =
        json!({"metadata": {"name": "login"}, "stringData": {"username": "me", "password": "hidden"}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let origins = format!("{origin}|{other}");
    let more = [("source.leader_election", "false"), ("operator.allowed_git_origins", origins.as_str())];
    let _process = world.start_as("one", &more).await;
    let url = format!("{origin}/app.git");
    world.create("app", json!({"url": url, "secretRef": {"name": "login"}})).await;
    let (object, message) = world.failed("app", "GitOperationFailed").await;
    assert!(message.contains("redirect"), "{message}");
    assert!(!serde_json::to_string(&object).unwrap().contains("hidden"));
    assert_eq!(seen.load(Ordering::SeqCst), 0, "nobody else was asked");
}
