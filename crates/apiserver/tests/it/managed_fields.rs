use http::Method;
use serde_json::{Value, json};

use crate::common::*;

/// The entries of an object by manager, operation and sub-resource, with their sets.
fn owners(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
    entries
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default();
            (
                format!("{} {} {}", text("manager"), text("operation"), text("subresource")),
                entry["fieldsV1"].clone(),
            )
        })
        .collect()
}

/// What one of them owns.
fn owned(object: &Value, by: &str) -> Value {
    owners(object).into_iter().find(|(name, _)| name == by).map(|(_, set)| set).unwrap_or_default()
}

async fn send(server: &windlass_apiserver::ApiServer, method: Method, path: &str, body: &Value) -> Answer {
    raw(method, path).header("user-agent", "kubectl/v1.36.3 (linux/amd64)").json(body).send(server).await
}

#[tokio::test]
async fn a_create_owns_what_it_sets_and_what_is_defaulted() {
    let server = server();
    let mut body = widget("a");
    body["metadata"]["labels"] = json!({ "x": "1" });
    body["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    body["status"] = json!({ "phase": "not by a create" });
    let created = send(&server, Method::POST, WIDGETS, &body).await.expect(201);
    let entry = &created["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["operation"]), (&json!("kubectl"), &json!("Update")));
    assert_eq!((&entry["apiVersion"], &entry["fieldsType"]), (&json!("example.dev/v1"), &json!("FieldsV1")));
    assert_eq!(entry["time"], created["metadata"]["creationTimestamp"]);
    assert_eq!(
        owners(&created)[0].1,
        json!({ "f:metadata": { "f:labels": { ".": {}, "f:x": {} },
                "f:finalizers": { ".": {}, "v:\"example.dev/hold\"": {} } },
            "f:spec": { ".": {}, "f:color": {}, "f:size": {} } })
    );
    let read = get(&server, &format!("{WIDGETS}/a")).await.expect(200);
    assert_eq!(read["metadata"]["managedFields"], created["metadata"]["managedFields"]);
}

#[tokio::test]
async fn fields_move_to_who_changes_them() {
    let server = server();
    let path = format!("{WIDGETS}/a?fieldManager=second");
    post(&server, &format!("{WIDGETS}?fieldManager=first"), &widget("a")).await.expect(201);
    let changed =
        patch(&server, &path, MERGE, &json!({ "spec": { "size": 4, "tags": ["x"] } })).await.expect(200);
    assert_eq!(
        owners(&changed),
        [
            ("first Update ".to_owned(), json!({ "f:spec": { ".": {}, "f:color": {} } })),
            ("second Update ".to_owned(), json!({ "f:spec": { "f:size": {}, "f:tags": {} } })),
        ]
    );
    let gone = patch(&server, &path, MERGE, &json!({ "spec": { "tags": null } })).await.expect(200);
    assert_eq!(owners(&gone)[1].1, json!({ "f:spec": { "f:size": {} } }));
}

#[tokio::test]
async fn a_write_that_changes_nothing_changes_no_version() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let before = get(&server, &format!("{WIDGETS}/a")).await.expect(200);
    let path = format!("{WIDGETS}/a?fieldManager=other");
    let after = patch(&server, &path, MERGE, &json!({ "spec": { "size": 3 } })).await.expect(200);
    assert_eq!(after, before);
    let after = put(&server, &path, &before).await.expect(200);
    assert_eq!(after, before);
}

#[tokio::test]
async fn the_status_is_owned_through_its_sub_resource() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a/status?fieldManager=controller");
    let body = json!({ "status": { "phase": "Ready" }, "spec": { "size": 9 }, "metadata": { "labels": { "a": "b" } } });
    let written = patch(&server, &path, MERGE, &body).await.expect(200);
    assert_eq!(
        owned(&written, "controller Update status"),
        json!({ "f:status": { ".": {}, "f:phase": {} } })
    );
    // An update of the object that leaves the status out takes nothing from it.
    let mut body = widget("a");
    body["spec"]["size"] = json!(5);
    body["metadata"]["resourceVersion"] = written["metadata"]["resourceVersion"].clone();
    let updated = put(&server, &format!("{WIDGETS}/a"), &body).await.expect(200);
    assert_eq!(owners(&updated).len(), 2, "{updated:#}");
}

#[tokio::test]
async fn clients_can_forget_the_managers_but_not_spoil_them() {
    let server = server();
    post(&server, &format!("{WIDGETS}?fieldManager=first"), &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let invalid = json!({ "metadata": { "managedFields": [{ "manager": "x", "operation": "Steal" }] } });
    let kept = patch(&server, &path, MERGE, &invalid).await.expect(200);
    assert_eq!(owners(&kept)[0].0, "first Update ");
    let forgotten =
        patch(&server, &path, MERGE, &json!({ "metadata": { "managedFields": [{}] } })).await.expect(200);
    assert_eq!(forgotten["metadata"].get("managedFields"), None);
    let untracked = patch(&server, &path, MERGE, &json!({ "spec": { "size": 4 } })).await.expect(200);
    assert_eq!(untracked["metadata"].get("managedFields"), None);
}

#[tokio::test]
async fn names_of_managers_are_judged() {
    let server = server();
    let long = "x".repeat(129);
    let answer = post(&server, &format!("{WIDGETS}?fieldManager={long}"), &widget("a")).await;
    assert!(
        answer.message().contains("fieldManager: Too long: may not be more than 128 bytes"),
        "{answer:?}"
    );
    answer.expect(422);
    let answer = post(&server, &format!("{WIDGETS}?fieldManager=a%07"), &widget("a")).await;
    assert!(answer.message().contains("invalid character U+0007 (at position 1)"), "{answer:?}");
    let answer = patch(&server, &format!("{WIDGETS}/a?force=true"), MERGE, &json!({})).await;
    assert!(
        answer.message().contains("force: Forbidden: may not be specified for non-apply patch"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_raw_secret_value_is_owned_by_its_name() {
    let server = server();
    let mut body = widget("a");
    body["secure"] = json!({ "token": { "create": "s3cret-canary" } });
    let created = post(&server, WIDGETS, &body).await.expect(201);
    assert!(!created.to_string().contains("canary"));
    assert_eq!(owners(&created)[0].1["f:secure"], json!({ ".": {}, "f:token": { ".": {}, "f:name": {} } }));
}

#[tokio::test]
async fn core_kinds_are_owned_as_their_types_are() {
    let server = server();
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" },
        "stringData": { "k": "v" } });
    let created = post(&server, SECRETS, &secret).await.expect(201);
    assert_eq!(owners(&created)[0].1, json!({ "f:data": { ".": {}, "f:k": {} }, "f:type": {} }));
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "a" },
        "spec": { "holderIdentity": "me" } });
    let created =
        post(&server, "/apis/coordination.k8s.io/v1/namespaces/default/leases", &lease).await.expect(201);
    assert_eq!(owners(&created)[0].1, json!({ "f:spec": { "f:holderIdentity": {} } }));
}
