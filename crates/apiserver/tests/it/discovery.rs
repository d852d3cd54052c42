use http::Method;
use serde_json::json;

use crate::common::*;

#[tokio::test]
async fn groups_versions_and_resources_are_found() {
    let server = server();
    assert_eq!(get(&server, "/api").await.expect(200)["versions"], json!(["v1"]));
    let groups = get(&server, "/apis").await.expect(200);
    let group =
        groups["groups"].as_array().unwrap().iter().find(|group| group["name"] == "example.dev").unwrap();
    assert_eq!(group["preferredVersion"]["groupVersion"], "example.dev/v1");
    assert_eq!(group["versions"].as_array().unwrap().len(), 2);
    assert_eq!(get(&server, "/apis/example.dev").await.expect(200)["kind"], "APIGroup");
    let resources = get(&server, "/apis/example.dev/v1").await.expect(200);
    let names: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["gadgets", "widgets", "widgets/status"]);
    let widgets = &resources["resources"][1];
    assert_eq!(widgets["shortNames"], json!(["wi"]));
    assert_eq!(widgets["categories"], json!(["all"]));
    let core = get(&server, "/api/v1").await.expect(200);
    let names: Vec<&str> =
        core["resources"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    let expected =
        ["configmaps", "events", "namespaces", "namespaces/finalize", "namespaces/status", "secrets"];
    assert_eq!(names, expected);
    get(&server, "/apis/nothing.dev").await.expect(404);
    get(&server, "/apis/example.dev/v7").await.expect(404);
    raw(Method::POST, "/apis").send(&server).await.expect(405);
}

#[tokio::test]
async fn a_kube_client_discovers_the_server() {
    let server = server();
    let client = server.client_for_tests();
    assert_eq!(client.apiserver_version().await.unwrap().major, "1");
    let discovery = kube::discovery::Discovery::new(client.clone()).run().await.unwrap();
    assert!(discovery.groups().any(|group| group.name() == "example.dev"));
    let aggregated = client.list_api_groups_aggregated().await.unwrap();
    assert!(aggregated.items.iter().any(|group| {
        group.metadata.as_ref().is_some_and(|metadata| metadata.name.as_deref() == Some("example.dev"))
    }));
}

#[tokio::test]
async fn openapi_says_which_patches_and_parameters_a_kind_takes() {
    let server = server();
    let index = get(&server, "/openapi/v3").await.expect(200);
    let url = index["paths"]["apis/example.dev/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = get(&server, url).await.expect(200);
    let gvk = json!({ "group": "example.dev", "version": "v1", "kind": "Widget" });
    let patch = &document["paths"]["/apis/example.dev/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"], gvk);
    let parameters: Vec<&str> =
        patch["parameters"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(parameters, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let schema = &document["components"]["schemas"]["dev.example.v1.Widget"];
    assert_eq!(schema["x-kubernetes-group-version-kind"], json!([gvk]));
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["type"], "integer");
    get(&server, "/openapi/v3/api/v1").await.expect(200);
    assert_eq!(get(&server, "/openapi/v2").await.expect(200)["swagger"], "2.0");
}

#[tokio::test]
async fn definitions_of_custom_kinds_are_objects() {
    let server = server();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let list = get(&server, crds).await.expect(200);
    assert!(names(&list).contains(&"widgets.example.dev"));
    let one = get(&server, &format!("{crds}/widgets.example.dev")).await.expect(200);
    assert_eq!(one["spec"]["names"]["kind"], "Widget");
    assert_eq!(one["status"]["storedVersions"], json!(["v1"]));
    get(&server, &format!("{crds}/nothing.example.dev")).await.expect(404);
    let selected =
        get(&server, &format!("{crds}?fieldSelector=metadata.name=gadgets.example.dev")).await.expect(200);
    assert_eq!(names(&selected), ["gadgets.example.dev"]);
}
