//! What programs that were written for a real API server rely on: nulls, numbers of a scale, `OpenAPI` v2, versions of the
//! future.

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::common::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FLEETS: &str = "/apis/example.org/v1/namespaces/default/fleets";
const STATUS_OF_A: &str = "/apis/example.org/v1/namespaces/default/fleets/a/status";

fn fleet(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "example.org/v1", "kind": "Fleet", "metadata": { "name": name }, "spec": spec })
}

/// A server with a kind that has a scale, and objects where null may stand and where not.
async fn with_fleets() -> ApiServer {
    let server = server();
    let object = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let ship = json!({ "type": "object", "required": ["hull"], "properties": { "hull": object } });
    let mut optional = object.clone();
    optional["nullable"] = json!(true);
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": { "size": { "type": "integer" }, "ship": ship,
            "optional": optional, "ships": { "type": "array", "items": object },
            "any": { "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": { "a": { "type": "string" } } } } },
        "status": { "type": "object", "properties": { "size": { "type": "integer" } } } } });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
        "subresources": { "status": {},
            "scale": { "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size" } } });
    let crd = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "fleets.example.org" },
        "spec": { "group": "example.org", "scope": "Namespaced",
            "names": { "plural": "fleets", "kind": "Fleet" }, "versions": [version] } });
    post(&server, CRDS, &crd).await.expect(201);
    server
}

#[tokio::test]
async fn null_in_place_of_an_object_is_refused_where_it_cannot_be_left_out() {
    let server = with_fleets().await;
    for spec in [json!({ "ships": [null] }), json!({ "ship": { "hull": null } })] {
        let refused = post(&server, FLEETS, &fleet("refused", &spec)).await;
        assert_eq!(refused.body["reason"], "Invalid", "{spec}: {:#}", refused.body);
    }
    let spec = json!({ "ship": null, "optional": null, "any": { "b": null } });
    let made = post(&server, FLEETS, &fleet("made", &spec)).await.expect(201);
    assert_eq!(made["spec"], json!({ "optional": null, "any": { "b": null } }));
}

#[tokio::test]
async fn numbers_of_a_scale_are_from_0_to_the_largest_of_32_bits() {
    let server = with_fleets().await;
    for (size, code) in [(-1_i64, 422), (1 << 31, 422), ((1 << 31) - 1, 201)] {
        let answer = post(&server, FLEETS, &fleet("a", &json!({ "size": size }))).await.expect(code);
        if code == 422 {
            assert_eq!(answer["details"]["causes"][0]["field"], ".spec.size", "{answer:#}");
        }
    }
    let path = format!("{FLEETS}/a");
    patch(&server, &path, MERGE, &json!({ "spec": { "size": -1 } })).await.expect(422);
    for size in [-1_i64, 1 << 31] {
        let status = json!({ "status": { "size": size } });
        let refused = patch(&server, STATUS_OF_A, MERGE, &status).await.expect(422);
        assert_eq!(refused["details"]["causes"][0]["field"], ".status.size", "{refused:#}");
        let scale = json!({ "spec": { "replicas": size } });
        let refused = patch(&server, &format!("{path}/scale"), MERGE, &scale).await;
        assert!(matches!(refused.status.as_u16(), 400 | 422), "{:#}", refused.body);
    }
    patch(&server, &format!("{path}/scale"), MERGE, &json!({ "spec": { "replicas": 0 } })).await.expect(200);
}

#[tokio::test]
async fn every_kind_is_in_openapi_v2_and_all_that_it_refers_to() {
    let server = with_fleets().await;
    let document = get(&server, "/openapi/v2").await.expect(200);
    let kinds: Vec<String> = document["definitions"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|schema| schema["x-kubernetes-group-version-kind"].as_array().cloned().unwrap_or_default())
        .map(|kind| format!("{}/{}", kind["group"].as_str().unwrap(), kind["kind"].as_str().unwrap()))
        .collect();
    for kind in [
        "/ConfigMap",
        "/Secret",
        "/Namespace",
        "coordination.k8s.io/Lease",
        "example.org/Fleet",
        "example.org/FleetList",
        "example.dev/Widget",
        "provisioning.grafana.app/Repository",
    ] {
        assert!(kinds.iter().any(|known| known == kind), "{kind} is not among {kinds:?}");
    }
    let fleet = &document["definitions"]["org.example.v1.Fleet"]["properties"];
    assert_eq!(fleet["metadata"]["$ref"], "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let spec = &fleet["spec"]["properties"];
    assert_eq!(spec["optional"], json!({}), "null may stand there, for which v2 has no words");
    assert_eq!(spec["ship"]["required"], json!(["hull"]));
    let patch = &document["paths"]["/apis/example.org/v1/namespaces/{namespace}/fleets/{name}"]["patch"];
    let named = |name: &str| patch["parameters"].as_array().unwrap().iter().find(|one| one["name"] == name);
    assert_eq!(named("fieldManager").unwrap()["type"], "string");
    assert!(named("body").unwrap()["schema"]["$ref"].as_str().unwrap().ends_with("v1.Patch"));
    let mut wrong = Vec::new();
    check_references(&document, &document["definitions"], &mut wrong);
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Every reference names a definition, and nothing is said that v2 has no words for.
fn check_references(value: &Value, definitions: &Value, wrong: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            if let Some(name) = object.get("$ref").and_then(Value::as_str)
                && name.strip_prefix("#/definitions/").is_none_or(|name| definitions.get(name).is_none())
            {
                wrong.push(name.to_owned());
            }
            wrong.extend(object.keys().filter(|key| *key == "requestBody").cloned());
            object.values().for_each(|value| check_references(value, definitions, wrong));
        }
        Value::Array(items) => items.iter().for_each(|item| check_references(item, definitions, wrong)),
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_at_a_version_of_the_future_waits_for_it() {
    let server = with_fleets().await;
    let now = version(&get(&server, FLEETS).await.expect(200));
    let path = format!("{FLEETS}?watch=true&resourceVersion={}", now + 1);
    let mut events = raw(Method::GET, &path).watch(&server).await;
    let next = tokio::spawn(async move { events.brief().await });
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(!next.is_finished(), "the version is not there yet");
    for name in ["first", "second"] {
        post(&server, FLEETS, &fleet(name, &json!({}))).await.expect(201);
    }
    assert_eq!(next.await.unwrap(), "ADDED second");
}
