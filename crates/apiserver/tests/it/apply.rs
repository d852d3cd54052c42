use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::common::*;

/// Applies a document to a widget (or its status) as this manager.
async fn apply(server: &ApiServer, path: &str, query: &str, document: &Value) -> Answer {
    raw(Method::PATCH, &format!("{WIDGETS}/{path}?{query}"))
        .header("content-type", "application/apply-patch+yaml")
        .json(document)
        .send(server)
        .await
}

fn document(spec: &Value) -> Value {
    json!({ "apiVersion": "example.dev/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": spec })
}

fn managers(object: &Value) -> Vec<&str> {
    object["metadata"]["managedFields"]
        .as_array()
        .map(|entries| entries.iter().filter_map(|entry| entry["manager"].as_str()).collect())
        .unwrap_or_default()
}

#[tokio::test]
async fn an_apply_creates_then_changes_then_leaves_alone() {
    let server = server();
    let created = apply(&server, "a", "fieldManager=one", &document(&json!({ "size": 3 }))).await.expect(201);
    assert_eq!(created["spec"], json!({ "size": 3, "color": "red" }));
    assert_eq!(created["metadata"]["managedFields"][0]["fieldsV1"], json!({ "f:spec": { "f:size": {} } }));
    assert_eq!(created["metadata"]["managedFields"][0]["operation"], "Apply");
    let changed = apply(&server, "a", "fieldManager=one", &document(&json!({ "size": 4 }))).await.expect(200);
    assert_eq!(
        (changed["spec"]["size"].as_i64(), changed["metadata"]["generation"].as_i64()),
        (Some(4), Some(2))
    );
    let same = apply(&server, "a", "fieldManager=one", &document(&json!({ "size": 4 }))).await.expect(200);
    assert_eq!(same, changed);
}

#[tokio::test]
async fn what_another_owns_is_a_conflict_until_forced() {
    let server = server();
    apply(&server, "a", "fieldManager=one", &document(&json!({ "size": 3, "name": "x" }))).await.expect(201);
    let both = document(&json!({ "size": 4, "name": "z" }));
    let refused = apply(&server, "a", "fieldManager=two", &both).await.expect(409);
    assert_eq!(
        refused["message"],
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.name\n- .spec.size"
    );
    assert_eq!(
        refused["details"]["causes"][0],
        json!({ "reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".spec.name" })
    );
    let forced = apply(&server, "a", "fieldManager=two&force=true", &both).await.expect(200);
    assert_eq!(managers(&forced), ["two"], "nothing is left of the first one");
}

#[tokio::test]
async fn what_is_not_applied_any_more_is_removed() {
    let server = server();
    let first = document(&json!({ "size": 3, "tags": ["x"], "free": { "a": 1, "b": { "c": 2 } } }));
    apply(&server, "a", "fieldManager=one", &first).await.expect(201);
    let kept = document(&json!({ "size": 3, "free": { "a": 1 } }));
    apply(&server, "a", "fieldManager=two", &kept).await.expect(200);
    let left = apply(&server, "a", "fieldManager=one", &document(&json!({ "size": 3 }))).await.expect(200);
    assert_eq!(left["spec"], json!({ "size": 3, "color": "red", "free": { "a": 1 } }));
}

#[tokio::test]
async fn a_raw_secret_value_is_sealed_and_shown_nowhere() {
    let server = server();
    let mut secret = document(&json!({ "size": 3 }));
    secret["secure"] = json!({ "token": { "create": "s3cret-canary" } });
    let created = apply(&server, "a", "fieldManager=kubectl", &secret).await.expect(201);
    assert!(!created.to_string().contains("canary"));
    let name = created["secure"]["token"]["name"].as_str().unwrap().to_owned();
    get(&server, &format!("{SECRETS}/{name}")).await.expect(200);
    assert_eq!(
        created["metadata"]["managedFields"][0]["fieldsV1"]["f:secure"],
        json!({ "f:token": { "f:name": {} } })
    );
    // A conflict names the field only.
    secret["secure"]["token"]["create"] = json!("other-canary");
    let refused = apply(&server, "a", "fieldManager=two", &secret).await.expect(409);
    assert!(!refused.to_string().contains("canary"), "{refused:#}");
    // What fits no schema is refused without its value.
    secret["secure"]["token"]["create"] = json!({ "deep": "deep-canary" });
    let refused = apply(&server, "a", "fieldManager=two", &secret).await;
    assert!(!refused.body.to_string().contains("canary"), "{refused:?}");
    refused.expect(422);
    // Not applying it any more removes it, and the Secret with it.
    let gone =
        apply(&server, "a", "fieldManager=kubectl", &document(&json!({ "size": 3 }))).await.expect(200);
    assert_eq!(gone.get("secure"), None, "{gone:#}");
    get(&server, &format!("{SECRETS}/{name}")).await.expect(404);
}

#[tokio::test]
async fn the_record_of_client_side_apply_follows_without_raw_values() {
    let server = server();
    let mut body = widget("a");
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    body["metadata"]["annotations"] = json!({ key: widget("a").to_string() });
    post(&server, &format!("{WIDGETS}?fieldManager=kubectl-client-side-apply"), &body).await.expect(201);
    let mut applied = document(&json!({ "size": 5 }));
    applied["secure"] = json!({ "token": { "create": "s3cret-canary" } });
    let upgraded = apply(&server, "a", "fieldManager=kubectl", &applied).await.expect(200);
    let record = upgraded["metadata"]["annotations"][key].as_str().unwrap();
    assert!(record.contains(r#""size":5"#) && record.ends_with('\n'), "{record}");
    assert!(!upgraded.to_string().contains("canary"));
}

#[tokio::test]
async fn yaml_is_applied_as_json_is() {
    let server = server();
    let text = "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n  size: 3\n";
    let created = raw(Method::PATCH, &format!("{WIDGETS}/a?fieldManager=one"))
        .header("content-type", "application/apply-patch+yaml")
        .text(text)
        .send(&server)
        .await
        .expect(201);
    assert_eq!(created["spec"]["size"], 3);
}

#[tokio::test]
async fn concurrent_appliers_each_own_what_they_apply() {
    let server = server();
    apply(&server, "a", "fieldManager=base", &document(&json!({ "size": 3 }))).await.expect(201);
    let writes = (0..8).map(|number| {
        let server = server.clone();
        async move {
            let document = document(&json!({ "free": { format!("k{number}"): number } }));
            apply(&server, "a", &format!("fieldManager=m{number}"), &document).await.expect(200);
        }
    });
    futures::future::join_all(writes).await;
    let object = get(&server, &format!("{WIDGETS}/a")).await.expect(200);
    assert_eq!(object["spec"]["free"].as_object().unwrap().len(), 8);
    assert_eq!(managers(&object).len(), 9);
}
