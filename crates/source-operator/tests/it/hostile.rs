use serde_json::json;

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
async fn a_repository_of_too_many_files_is_refused_and_one_of_many_is_not() {
    let world = World::new().await;
    let commit = world.commit((0..20_000).map(|n| put(&format!("d{}/f{n}", n % 100), "x")));
    let more = [("source.leader_election", "false"), ("operator.git_max_files", "25000")];
    let _process = world.start_as("one", &more).await;
    world.create("app", json!({})).await;
    let artifact = world.ready("app", &commit).await;
    assert!(listed(&fetch(&artifact.url).await.1).len() > 20_000);
    world.commit((0..10_000).map(|n| put(&format!("e{}/f{n}", n % 100), "x")));
    world.request("app", "1").await;
    let (object, message) = world.failed("app", "GitOperationFailed").await;
    assert!(message.contains("git_max_files"), "{message}");
    assert_eq!(object.status.artifact.as_ref(), Some(&artifact));
}
