//! What clients read before anything else: discovery and `OpenAPI`.

use http::Method;
use serde_json::{Value, json};

use crate::common::*;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

async fn document(path: &str) -> Value {
    get(&server(), &format!("/openapi/v3/{path}")).await.expect(200)
}

/// Every `$ref` of a document.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
                found.push(reference.to_owned());
            }
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_reference_of_every_document_leads_somewhere() {
    let server = server();
    let index = get(&server, "/openapi/v3").await.expect(200);
    let paths = index["paths"].as_object().unwrap();
    assert!(paths.contains_key("api/v1") && paths.contains_key("apis/apiextensions.k8s.io/v1"));
    for place in paths.values() {
        let url = place["serverRelativeURL"].as_str().unwrap();
        let document = get(&server, url).await.expect(200);
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty(), "{url}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{url}: {reference}");
        }
    }
}

#[tokio::test]
async fn a_custom_kind_keeps_its_schema_and_gets_metadata_and_a_list() {
    let document = document("apis/example.dev/v1").await;
    let schemas = &document["components"]["schemas"];
    let widget = &schemas["dev.example.v1.Widget"];
    assert_eq!(widget["properties"]["spec"]["properties"]["color"]["default"], "red");
    assert_eq!(
        widget["properties"]["metadata"]["allOf"][0]["$ref"],
        format!("#/components/schemas/{META}ObjectMeta")
    );
    assert_eq!(widget["x-kubernetes-selectable-fields"], json!([{ "fieldPath": "spec.color" }]));
    let free = &widget["properties"]["spec"]["properties"]["free"];
    assert_eq!(free["x-kubernetes-preserve-unknown-fields"], true);
    let list = &schemas["dev.example.v1.WidgetList"];
    assert_eq!(list["x-kubernetes-group-version-kind"][0]["kind"], "WidgetList");
    assert_eq!(list["properties"]["items"]["items"]["$ref"], "#/components/schemas/dev.example.v1.Widget");
    let meta = &schemas[format!("{META}ObjectMeta").as_str()]["properties"];
    assert_eq!(meta["ownerReferences"]["x-kubernetes-patch-merge-key"], "uid");
    assert_eq!(meta["finalizers"]["x-kubernetes-list-type"], "set");
    for (name, property) in meta.as_object().unwrap() {
        assert!(property["description"].is_string(), "{name}");
    }
    for name in ["ListMeta", "OwnerReference", "ManagedFieldsEntry", "Status", "DeleteOptions", "Patch"] {
        assert!(schemas[format!("{META}{name}").as_str()].is_object(), "{name}");
    }
    assert_eq!(
        schemas[format!("{META}Status").as_str()]["x-kubernetes-group-version-kind"][0]["kind"],
        "Status"
    );
}

#[tokio::test]
async fn paths_say_what_each_method_takes() {
    let document = document("apis/example.dev/v1").await;
    let item = &document["paths"]["/apis/example.dev/v1/namespaces/{namespace}/widgets/{name}"];
    let patch = &item["patch"]["requestBody"]["content"];
    let types: Vec<&String> = patch.as_object().unwrap().keys().collect();
    assert_eq!(
        types,
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    );
    assert_eq!(item["get"]["x-kubernetes-action"], "get");
    let parameters: Vec<&str> =
        item["parameters"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(parameters, ["name", "namespace", "pretty"]);
    let list = &document["paths"]["/apis/example.dev/v1/widgets"]["get"];
    assert_eq!(list["operationId"], "listExampleDevV1WidgetForAllNamespaces");
    assert!(document["paths"]["/apis/example.dev/v1/namespaces/{namespace}/gadgets/{name}/status"].is_null());
}

#[tokio::test]
async fn a_document_is_kept_by_its_hash_until_it_changes() {
    let server = server();
    let answer = get(&server, "/openapi/v3/apis/example.dev/v1").await;
    let tag = answer.headers["etag"].to_str().unwrap().to_owned();
    let path = "/openapi/v3/apis/example.dev/v1";
    let same = raw(Method::GET, path).header("if-none-match", &tag).send(&server).await;
    assert_eq!(same.status, 304);
    let hash = tag.trim_matches('"');
    let kept = get(&server, &format!("{path}?hash={hash}")).await;
    assert_eq!(kept.headers["cache-control"], "public, immutable");
    let old = get(&server, &format!("{path}?hash=OLD")).await;
    assert_eq!(
        (old.status.as_u16(), &old.headers["location"]),
        (301, &format!("{path}?hash={hash}")[..].parse().unwrap())
    );

    let index = get(&server, "/openapi/v3").await;
    let tag = index.headers["etag"].to_str().unwrap().to_owned();
    let unchanged = raw(Method::GET, "/openapi/v3").header("if-none-match", &tag);
    assert_eq!(unchanged.send(&server).await.status, 304);
    let crd = json!({ "metadata": { "name": "foos.example.org" }, "spec": { "group": "example.org",
        "scope": "Cluster", "names": { "plural": "foos", "kind": "Foo" }, "versions": [{ "name": "v1",
        "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } } }] } });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&server, crds, &crd).await.expect(201);
    let changed = raw(Method::GET, "/openapi/v3").header("if-none-match", &tag).send(&server).await;
    assert!(changed.expect(200)["paths"]["apis/example.org/v1"].is_object());
    assert_eq!(get(&server, &format!("{path}?hash={hash}")).await.status, 200, "other documents stay");
}

#[tokio::test]
async fn aggregated_discovery_is_negotiated_and_kept() {
    let server = server();
    let accept = format!(
        "{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
    );
    let answer = raw(Method::GET, "/apis").accept(&accept).send(&server).await;
    assert_eq!(answer.headers["content-type"], AGGREGATED);
    let tag = answer.headers["etag"].to_str().unwrap().to_owned();
    let groups = answer.expect(200);
    let group =
        groups["items"].as_array().unwrap().iter().find(|one| one["metadata"]["name"] == "example.dev");
    let resources = &group.unwrap()["versions"][0]["resources"];
    assert_eq!(resources[1]["resource"], "widgets");
    assert_eq!(resources[1]["subresources"][0]["subresource"], "status");
    let again =
        raw(Method::GET, "/apis").accept(AGGREGATED).header("if-none-match", &tag).send(&server).await;
    assert_eq!(again.status, 304);
    let core = raw(Method::GET, "/api").accept(AGGREGATED).send(&server).await.expect(200);
    let namespaces = core["items"][0]["versions"][0]["resources"].as_array().unwrap().clone();
    let namespaces = namespaces.iter().find(|one| one["resource"] == "namespaces").unwrap();
    assert_eq!(namespaces["responseKind"], json!({ "group": "", "version": "", "kind": "Namespace" }));
    assert_eq!(
        raw(Method::GET, "/apis").accept("application/json").send(&server).await.expect(200)["kind"],
        "APIGroupList"
    );
    let older = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    raw(Method::GET, "/apis").accept(older).send(&server).await.expect(406);
}

#[tokio::test]
async fn storage_version_hashes_are_those_of_a_real_server() {
    let server = server();
    let core = get(&server, "/api/v1").await.expect(200);
    let secrets = core["resources"].as_array().unwrap().iter().find(|one| one["name"] == "secrets").unwrap();
    assert_eq!(secrets["storageVersionHash"], "S6u1pOWzb84=");
}
