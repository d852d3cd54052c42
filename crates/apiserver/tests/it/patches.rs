use serde_json::{Value, json};

use crate::common::*;

const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

#[tokio::test]
async fn a_merge_patch_merges() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let patched = patch(
        &server,
        &path,
        MERGE,
        &json!({ "spec": { "tags": ["x"], "color": null }, "metadata": { "annotations": { "n": "1" } } }),
    )
    .await
    .expect(200);
    assert_eq!(
        patched["spec"],
        json!({ "size": 3, "tags": ["x"], "color": "red" }),
        "null asks for the default"
    );
    assert_eq!(patched["metadata"]["annotations"]["n"], "1");
    assert_eq!(patched["metadata"]["generation"], 2);
    let removed = patch(&server, &path, MERGE, &json!({ "metadata": { "annotations": { "n": null } } }))
        .await
        .expect(200);
    assert_eq!(removed["metadata"].get("annotations"), None);
    patch(&server, &format!("{WIDGETS}/b"), MERGE, &json!({})).await.expect(404);
}

#[tokio::test]
async fn a_json_patch_is_applied_whole_or_not() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let patched = patch(
        &server,
        &path,
        JSON,
        &json!([
        { "op": "test", "path": "/spec/size", "value": 3 },
        { "op": "replace", "path": "/spec/size", "value": 4 },
        { "op": "add", "path": "/metadata/labels", "value": { "a": "b" } }]),
    )
    .await
    .expect(200);
    assert_eq!((&patched["spec"]["size"], &patched["metadata"]["labels"]["a"]), (&json!(4), &json!("b")));
    let failed = patch(
        &server,
        &path,
        JSON,
        &json!([
        { "op": "replace", "path": "/spec/size", "value": 5 },
        { "op": "test", "path": "/spec/size", "value": 3 }]),
    )
    .await;
    assert_eq!(failed.message(), "the server rejected our request due to an error in our request");
    assert_eq!(failed.expect(422)["reason"], "Invalid");
    assert_eq!(get(&server, &path).await.expect(200), patched);
    patch(&server, &path, JSON, &json!([{ "op": "fly", "path": "/a" }])).await.expect(422);
    let failed = patch(&server, &path, JSON, &json!({})).await;
    assert_eq!(failed.message(), "error decoding patch: it must be a list of operations, not object");
    failed.expect(400);
    let absent = json!([{ "op": "test", "path": "/spec/absent", "value": null }]);
    patch(&server, &path, JSON, &absent).await.expect(200);
}

#[tokio::test]
async fn a_patch_that_names_a_version_is_a_precondition() {
    let server = server();
    let created = post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let change = |version: &Value, size: i64| json!({ "metadata": { "resourceVersion": version }, "spec": { "size": size } });
    let at = &created["metadata"]["resourceVersion"];
    let patched = patch(&server, &path, MERGE, &change(at, 4)).await.expect(200);
    assert_eq!(patch(&server, &path, MERGE, &change(at, 5)).await.expect(409)["reason"], "Conflict");
    let test = json!([{ "op": "test", "path": "/metadata/resourceVersion", "value": at },
        { "op": "replace", "path": "/spec/size", "value": 6 }]);
    patch(&server, &path, JSON, &test).await.expect(422);
    assert_eq!(get(&server, &path).await.expect(200), patched);
}

#[tokio::test]
async fn the_status_sub_resource_takes_patches() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a/status");
    let patched = patch(&server, &path, MERGE, &json!({ "status": { "phase": "x" }, "spec": { "size": 9 } }))
        .await
        .expect(200);
    assert_eq!((&patched["status"]["phase"], &patched["spec"]["size"]), (&json!("x"), &json!(3)));
}

#[tokio::test]
async fn strategic_merge_is_for_core_kinds() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let refused = patch(&server, &path, STRATEGIC, &json!({})).await;
    assert!(refused.message().contains("application/merge-patch+json"), "{}", refused.message());
    refused.expect(415);
    let body =
        json!({ "metadata": { "name": "s", "finalizers": ["example.dev/a"] }, "stringData": { "k": "v" } });
    post(&server, SECRETS, &body).await.expect(201);
    let patched = patch(
        &server,
        &format!("{SECRETS}/s"),
        STRATEGIC,
        &json!({ "data": { "x": "eQ==" },
        "metadata": { "finalizers": ["example.dev/b"] } }),
    )
    .await
    .expect(200);
    assert_eq!(patched["data"], json!({ "k": "dg==", "x": "eQ==" }));
    assert_eq!(patched["metadata"]["finalizers"], json!(["example.dev/b", "example.dev/a"]));
}

#[tokio::test]
async fn concurrent_patches_of_different_fields_all_arrive() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let changes = (0..5).map(|index| {
        let (server, path) = (server.clone(), path.clone());
        async move {
            let label = json!({ "metadata": { "labels": { format!("l{index}"): "x" } } });
            patch(&server, &path, MERGE, &label).await.expect(200);
        }
    });
    futures::future::join_all(changes).await;
    assert_eq!(get(&server, &path).await.expect(200)["metadata"]["labels"].as_object().unwrap().len(), 5);
}
