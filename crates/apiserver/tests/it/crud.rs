use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::common::*;

#[tokio::test]
async fn an_object_is_created_read_replaced_and_deleted_by_a_kube_client() {
    let server = server();
    let api: Api<ConfigMap> = Api::namespaced(server.client_for_tests(), "default");
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some("a".into()), ..ObjectMeta::default() },
        data: Some([("k".to_owned(), "v".to_owned())].into()),
        ..ConfigMap::default()
    };
    let mut created = api.create(&PostParams::default(), &map).await.unwrap();
    assert!(created.metadata.uid.is_some() && created.metadata.creation_timestamp.is_some());
    assert_eq!(api.get("a").await.unwrap(), created);
    created.data.as_mut().unwrap().insert("k".into(), "w".into());
    let replaced = api.replace("a", &PostParams::default(), &created).await.unwrap();
    assert_ne!(replaced.metadata.resource_version, created.metadata.resource_version);
    let stale = api.replace("a", &PostParams::default(), &created).await.unwrap_err();
    assert!(matches!(&stale, kube::Error::Api(status) if status.is_conflict()), "{stale:?}");
    let patched = api
        .patch("a", &PatchParams::default(), &Patch::Merge(json!({ "data": { "x": "y" } })))
        .await
        .unwrap();
    assert_eq!(patched.data.unwrap().len(), 2);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    assert!(api.delete("a", &DeleteParams::default()).await.unwrap().is_right());
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_new_object_gets_what_the_server_sets_and_keeps_nothing_that_only_it_sets() {
    let server = server();
    let mut body = widget("a");
    body["metadata"]["uid"] = json!("mine");
    body["metadata"]["generation"] = json!(9);
    body["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    body["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    body["status"] = json!({ "phase": "made up" });
    let created = post(&server, WIDGETS, &body).await.expect(201);
    let metadata = &created["metadata"];
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["generation"], 1);
    assert_ne!(metadata["uid"], "mine");
    assert_ne!(metadata["creationTimestamp"], "2001-01-01T00:00:00Z");
    assert_eq!(metadata.get("deletionTimestamp"), None);
    assert_eq!(created.get("status"), None);
    assert_eq!(created["spec"], json!({ "size": 3, "color": "red" }), "defaults are filled in");
    assert_eq!(get(&server, &format!("{WIDGETS}/a")).await.expect(200), created);
}

#[tokio::test]
async fn creating_refuses_what_a_real_server_refuses() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let twice = post(&server, WIDGETS, &widget("a")).await;
    assert_eq!(twice.message(), "widgets.example.dev \"a\" already exists");
    assert_eq!(twice.expect(409)["reason"], "AlreadyExists");
    let mut other = widget("b");
    other["metadata"]["namespace"] = json!("elsewhere");
    let answer = post(&server, WIDGETS, &other).await;
    assert_eq!(
        answer.message(),
        "the namespace of the provided object does not match the namespace sent on the request"
    );
    answer.expect(400);
    let mut other = widget("b");
    other["apiVersion"] = json!("example.dev/v2");
    let answer = post(&server, WIDGETS, &other).await;
    assert_eq!(
        answer.message(),
        "the API version in the data (example.dev/v2) does not match the expected API version (example.dev/v1)"
    );
    answer.expect(400);
    post(&server, WIDGETS, &gadget("b")).await.expect(422);
    post(&server, WIDGETS, &json!([])).await.expect(400);
    post(&server, WIDGETS, &json!({ "metadata": { "name": "b" } })).await.expect(400);
    raw(Method::POST, WIDGETS).text("{").send(&server).await.expect(400);
    raw(Method::POST, WIDGETS).header("content-type", "text/html").text("x").send(&server).await.expect(415);
    let huge = format!("{{\"x\":\"{}\"}}", "x".repeat(3 << 20));
    raw(Method::POST, WIDGETS).text(huge).send(&server).await.expect(413);
    post(&server, "/apis/example.dev/v1/widgets", &widget("b")).await.expect(404);
    // Of a custom kind the name in the path is not looked at.
    post(&server, &format!("{WIDGETS}/b"), &widget("c")).await.expect(201);
    get(&server, "/apis/example.dev/v1/namespaces/default/nothing").await.expect(404);
    get(&server, "/nothing/at/all").await.expect(404);
}

#[tokio::test]
async fn a_yaml_body_is_read() {
    let server = server();
    let text = "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 2}\n";
    raw(Method::POST, WIDGETS)
        .header("content-type", "application/yaml")
        .text(text)
        .send(&server)
        .await
        .expect(201);
    let yaml = raw(Method::GET, &format!("{WIDGETS}/a")).accept("application/yaml").send(&server).await;
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    assert!(yaml.body.as_str().unwrap().contains("size: 2"), "{}", yaml.body);
}

#[tokio::test]
async fn names_are_generated_when_asked() {
    let server = server();
    let mut body = widget("");
    body["metadata"] = json!({ "generateName": "w-" });
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let created = post(&server, WIDGETS, &body).await.expect(201);
        let name = created["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("w-") && name.len() == 7, "{name}");
        assert!(seen.insert(name));
    }
    body["metadata"] = json!({});
    let nameless = post(&server, WIDGETS, &body).await;
    assert_eq!(
        nameless.message(),
        "Widget.example.dev \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
    nameless.expect(422);
}

#[tokio::test]
async fn an_update_needs_the_latest_version_and_cannot_change_identity() {
    let server = server();
    let path = format!("{WIDGETS}/a");
    let created = post(&server, WIDGETS, &widget("a")).await.expect(201);
    let mut next = created.clone();
    next["spec"]["size"] = json!(4);
    let updated = put(&server, &path, &next).await.expect(200);
    assert_eq!(updated["metadata"]["generation"], 2);
    assert!(version(&updated) > version(&created));
    let stale = put(&server, &path, &next).await;
    assert_eq!(
        stale.message(),
        "Operation cannot be fulfilled on widgets.example.dev \"a\": the object has been modified; please apply \
         your changes to the latest version and try again"
    );
    assert_eq!(stale.expect(409)["reason"], "Conflict");
    let unversioned = put(&server, &path, &widget("a")).await;
    assert_eq!(
        unversioned.message(),
        "widgets.example.dev \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for \
         an update"
    );
    unversioned.expect(422);
    let mut renamed = updated.clone();
    renamed["metadata"]["name"] = json!("b");
    let answer = put(&server, &path, &renamed).await;
    assert_eq!(answer.message(), "the name of the object (b) does not match the name on the URL (a)");
    answer.expect(400);
    let mut other = updated.clone();
    other["metadata"]["uid"] = json!("other");
    put(&server, &path, &other).await.expect(409);
    put(&server, &format!("{WIDGETS}/zz"), &widget("zz")).await.expect(404);
    let mut same = updated.clone();
    same["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    same["metadata"]["generation"] = json!(77);
    assert_eq!(
        put(&server, &path, &same).await.expect(200),
        updated,
        "what clients cannot set is not a change"
    );
}

#[tokio::test]
async fn core_kinds_may_be_replaced_without_a_version() {
    let server = server();
    let maps = "/api/v1/namespaces/default/configmaps";
    let body = json!({ "metadata": { "name": "a" }, "data": { "k": "v" } });
    post(&server, maps, &body).await.expect(201);
    let replaced =
        put(&server, &format!("{maps}/a"), &json!({ "metadata": { "name": "a" }, "data": { "k": "w" } }))
            .await
            .expect(200);
    assert_eq!(replaced["data"]["k"], "w");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    put(&server, &format!("{leases}/l"), &json!({ "metadata": { "name": "l" }, "spec": {} }))
        .await
        .expect(201);
    put(&server, &format!("{leases}/l"), &json!({ "metadata": { "name": "l" }, "spec": {} }))
        .await
        .expect(422);
}

#[tokio::test]
async fn status_and_the_rest_are_written_apart() {
    let server = server();
    let path = format!("{WIDGETS}/a");
    let created = post(&server, WIDGETS, &widget("a")).await.expect(201);
    let mut body = created.clone();
    body["status"] = json!({ "phase": "ready" });
    body["spec"]["size"] = json!(5);
    body["metadata"]["labels"] = json!({ "x": "y" });
    let with_status = put(&server, &format!("{path}/status"), &body).await.expect(200);
    assert_eq!(with_status["status"]["phase"], "ready");
    assert_eq!(with_status["spec"]["size"], 3, "the rest is left alone");
    assert_eq!(with_status["metadata"]["generation"], 1);
    assert_eq!(with_status["metadata"].get("labels"), None);
    let mut body = with_status.clone();
    body["status"]["phase"] = json!("forged");
    body["spec"]["size"] = json!(5);
    let updated = put(&server, &path, &body).await.expect(200);
    assert_eq!(updated["status"]["phase"], "ready", "status is left alone");
    assert_eq!(updated["metadata"]["generation"], 2);
    assert_eq!(get(&server, &format!("{path}/status")).await.expect(200), updated);
    get(&server, &format!("{GADGETS}/a/status")).await.expect(404);
}

#[tokio::test]
async fn without_a_status_sub_resource_status_is_part_of_the_object() {
    let server = server();
    let mut body = gadget("a");
    body["status"] = json!({ "phase": "new" });
    let created = post(&server, GADGETS, &body).await.expect(201);
    assert_eq!(created["status"]["phase"], "new");
    let path = format!("{GADGETS}/a");
    let updated = patch(&server, &path, MERGE, &json!({ "status": { "phase": "old" } })).await.expect(200);
    assert_eq!(updated["metadata"]["generation"], 2);
    let labelled =
        patch(&server, &path, MERGE, &json!({ "metadata": { "labels": { "a": "b" } } })).await.expect(200);
    assert_eq!(labelled["metadata"]["generation"], 2, "metadata does not count");
}

#[tokio::test]
async fn a_dry_run_answers_as_a_write_and_writes_nothing() {
    let server = server();
    server.start().await.unwrap();
    let before = server.revision();
    let created = post(&server, &format!("{WIDGETS}?dryRun=All"), &widget("a")).await.expect(201);
    assert!(created["metadata"]["uid"].is_string());
    get(&server, &format!("{WIDGETS}/a")).await.expect(404);
    let bad = post(&server, &format!("{WIDGETS}?dryRun=some"), &widget("a")).await;
    assert!(bad.message().contains("dryRun: Unsupported value: [\"some\"]"), "{}", bad.message());
    bad.expect(422);
    assert_eq!(server.revision(), before);
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let patched = patch(&server, &format!("{path}?dryRun=All"), MERGE, &json!({ "spec": { "size": 9 } }))
        .await
        .expect(200);
    assert_eq!(patched["spec"]["size"], 9);
    delete(&server, &format!("{path}?dryRun=All")).await.expect(200);
    assert_eq!(get(&server, &path).await.expect(200)["spec"]["size"], 3);
    post(&server, &format!("{WIDGETS}?dryRun=All"), &widget("a")).await.expect(409);
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_its_version() {
    let server = server();
    let created = post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a");
    assert_eq!(put(&server, &path, &created).await.expect(200), created);
    assert_eq!(patch(&server, &path, MERGE, &json!({ "spec": { "size": 3 } })).await.expect(200), created);
    assert_eq!(server.revision(), version(&created));
}

#[tokio::test]
async fn an_object_is_served_under_each_version_of_its_kind() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let other = "/apis/example.dev/v1beta1/namespaces/default/widgets";
    let read = get(&server, &format!("{other}/a")).await.expect(200);
    assert_eq!(read["apiVersion"], "example.dev/v1beta1");
    let mut body = widget("b");
    body["apiVersion"] = json!("example.dev/v1beta1");
    post(&server, other, &body).await.expect(201);
    let list = get(&server, WIDGETS).await.expect(200);
    assert_eq!(names(&list), ["a", "b"]);
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["apiVersion"] == "example.dev/v1"));
}

#[tokio::test]
async fn events_of_both_groups_are_one_storage() {
    let server = server();
    let body = json!({ "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "e" },
        "regarding": { "kind": "Widget", "name": "a" }, "note": "hello", "reason": "Made", "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Making", "reportingController": "tests",
        "reportingInstance": "one" });
    let created = post(&server, "/apis/events.k8s.io/v1/namespaces/default/events", &body).await.expect(201);
    assert_eq!(created["note"], "hello");
    let core = get(&server, "/api/v1/namespaces/default/events/e").await.expect(200);
    assert_eq!(core["apiVersion"], "v1");
    assert_eq!(core["message"], "hello");
    assert_eq!(core["involvedObject"]["name"], "a");
    let found =
        get(&server, "/api/v1/events?fieldSelector=involvedObject.name=a,reason=Made").await.expect(200);
    assert_eq!(names(&found), ["e"]);
}
