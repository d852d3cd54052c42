use http::Method;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use serde_json::json;

use crate::common::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[tokio::test]
async fn a_list_is_a_table_when_asked() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    patch(&server, &format!("{WIDGETS}/a/status"), MERGE, &status).await.expect(200);
    let table = raw(Method::GET, WIDGETS).accept(TABLE).send(&server).await.expect(200);
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(version(&table), server.revision());
    let columns: Vec<(&str, &str, i64)> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            (
                column["name"].as_str().unwrap(),
                column["type"].as_str().unwrap(),
                column["priority"].as_i64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        columns,
        [
            ("Name", "string", 0),
            ("Size", "integer", 0),
            ("Ready", "string", 0),
            ("Color", "string", 1),
            ("Age", "date", 0)
        ]
    );
    let row = &table["rows"][0];
    assert_eq!(row["cells"].as_array().unwrap()[..4], [json!("a"), json!(3), json!("True"), json!("red")]);
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"]["name"], "a");
    let whole = raw(Method::GET, &format!("{WIDGETS}?includeObject=Object"))
        .accept(TABLE)
        .send(&server)
        .await
        .expect(200);
    assert_eq!(whole["rows"][0]["object"]["spec"]["size"], 3);
    let none = raw(Method::GET, &format!("{WIDGETS}?includeObject=None"))
        .accept(TABLE)
        .send(&server)
        .await
        .expect(200);
    assert!(none["rows"][0]["object"].is_null());
    let one = raw(Method::GET, &format!("{WIDGETS}/a")).accept(TABLE).send(&server).await.expect(200);
    assert_eq!(one["rows"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_watched_table_names_its_columns_once() {
    let server = server();
    for name in ["a", "b"] {
        post(&server, WIDGETS, &widget(name)).await.expect(201);
    }
    let mut events = raw(Method::GET, &format!("{WIDGETS}?watch=true")).accept(TABLE).watch(&server).await;
    let first = events.next().await.unwrap();
    assert_eq!(
        (&first["object"]["kind"], &first["object"]["rows"][0]["cells"][0]),
        (&json!("Table"), &json!("a"))
    );
    assert!(first["object"]["columnDefinitions"].is_array());
    let second = events.next().await.unwrap();
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
    assert!(second["object"]["columnDefinitions"].is_null());
}

#[tokio::test]
async fn metadata_alone_is_served_to_kube_clients() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.dev", "v1", "Widget"), "widgets");
    let api: Api<DynamicObject> = Api::namespaced_with(server.client_for_tests(), "default", &resource);
    let list = api.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(list.items[0].metadata.name.as_deref(), Some("a"));
    assert!(list.metadata.resource_version.is_some());
    let one = api.get_metadata("a").await.unwrap();
    assert!(one.metadata.uid.is_some());
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let created =
        raw(Method::POST, WIDGETS).accept(accept).json(&widget("b")).send(&server).await.expect(201);
    assert_eq!((&created["kind"], created.get("spec")), (&json!("PartialObjectMetadata"), None));
}

#[tokio::test]
async fn what_cannot_be_served_is_not_acceptable() {
    let server = server();
    let refused = raw(Method::GET, WIDGETS).accept("application/vnd.kubernetes.protobuf").send(&server).await;
    assert_eq!(refused.expect(406)["reason"], "NotAcceptable");
    let accept = "application/vnd.kubernetes.protobuf,application/json";
    raw(Method::GET, WIDGETS).accept(accept).send(&server).await.expect(200);
}

#[tokio::test]
async fn core_kinds_have_their_columns() {
    let server = server();
    post(&server, SECRETS, &json!({ "metadata": { "name": "s" }, "stringData": { "a": "1", "b": "2" } }))
        .await
        .expect(201);
    let table = raw(Method::GET, SECRETS).accept(TABLE).send(&server).await.expect(200);
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..3], [json!("s"), json!("Opaque"), json!(2)]);
}
