//! Requests that mean no good, or make no sense: each is answered, and none with an error of ours.

use http::{Method, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::common::*;

const JSON_PATCH: &str = "application/json-patch+json";
const REPOSITORIES: &str = "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories";
const JOBS: &str = "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/jobs";

#[tokio::test]
async fn a_patch_that_copies_a_document_into_itself_is_too_large() {
    let server = server();
    let mut body = widget("a");
    body["spec"]["free"] = json!({ "x": "y".repeat(1000) });
    post(&server, WIDGETS, &body).await.expect(201);
    let copies: Vec<Value> = (0..60)
        .map(|index| json!({ "op": "copy", "from": "/spec/free", "path": format!("/spec/free/c{index}") }))
        .collect();
    let answer = patch(&server, &format!("{WIDGETS}/a"), JSON_PATCH, &json!(copies)).await;
    assert_eq!(answer.expect(413)["reason"], "RequestEntityTooLarge");
}

#[tokio::test]
async fn an_object_does_not_grow_without_bound_patch_by_patch() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let mut statuses = Vec::new();
    for index in 0..5 {
        let change = json!({ "spec": { "free": { format!("f{index}"): "y".repeat(1_000_000) } } });
        statuses.push(patch(&server, &path, MERGE, &change).await.status.as_u16());
    }
    assert_eq!(statuses[0], 200);
    assert_eq!(statuses[4], 413, "{statuses:?}");
    let stored = get(&server, &path).await.expect(200).to_string();
    assert!(stored.len() < 4 << 20);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_its_length_is_told_or_not() {
    let server = server();
    let body = || "x".repeat((3 << 20) + 1);
    for request in
        [raw(Method::POST, WIDGETS), raw(Method::POST, WIDGETS).header("content-length", "3145729")]
    {
        assert_eq!(request.text(body()).send(&server).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    }
}

#[tokio::test]
async fn bottomless_documents_are_bad_requests() {
    let server = server();
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(50_000), close.repeat(50_000));
    for (kind, text) in [
        ("application/json", deep("[", "]")),
        ("application/json", deep("{\"a\":", "}")),
        ("application/yaml", deep("[", "]")),
        ("application/yaml", "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n".repeat(20)),
    ] {
        let answer = raw(Method::POST, WIDGETS).header("content-type", kind).text(text).send(&server).await;
        assert!(answer.status.is_client_error(), "{answer:?}");
    }
}

/// Collections, and an object that each would take.
fn kinds() -> Vec<(&'static str, Value)> {
    let of = |api_version: &str, kind: &str, rest: Value| {
        let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "a" } });
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    };
    let repository = json!({ "spec": { "title": "t", "type": "git", "workflows": [],
        "sync": { "enabled": false, "target": "folder", "intervalSeconds": 60 },
        "git": { "url": "https://example.com/r.git", "branch": "main" } },
        "secure": { "token": { "create": "hunter2" } } });
    let job = json!({ "spec": { "action": "pull", "repository": "a", "pull": { "incremental": false } } });
    vec![
        (WIDGETS, widget("a")),
        ("/apis/example.dev/v1beta1/namespaces/default/widgets", {
            let mut object = widget("a");
            object["apiVersion"] = json!("example.dev/v1beta1");
            object
        }),
        (GADGETS, gadget("a")),
        (SECRETS, of("v1", "Secret", json!({ "stringData": { "a": "b" } }))),
        ("/api/v1/namespaces/default/configmaps", of("v1", "ConfigMap", json!({ "data": { "a": "b" } }))),
        ("/api/v1/namespaces", of("v1", "Namespace", json!({}))),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            of("coordination.k8s.io/v1", "Lease", json!({})),
        ),
        (REPOSITORIES, of("provisioning.grafana.app/v0alpha1", "Repository", repository)),
        (JOBS, of("provisioning.grafana.app/v0alpha1", "Job", job)),
    ]
}

fn paths() -> impl Strategy<Value = String> {
    let parts = proptest::sample::select(vec![
        "api",
        "apis",
        "v1",
        "namespaces",
        "default",
        "example.dev",
        "widgets",
        "secrets",
        "a",
        "status",
        "openapi",
        "v3",
        "..",
        "%00",
        "%2F",
        "%ff",
        "%",
        "",
        "%2e%2e",
    ]);
    proptest::collection::vec(parts, 0..7).prop_map(|parts| format!("/{}", parts.join("/")))
}

fn queries() -> impl Strategy<Value = String> {
    let names = proptest::sample::select(vec![
        "labelSelector",
        "fieldSelector",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "dryRun",
        "fieldValidation",
        "timeoutSeconds",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "includeObject",
        "propagationPolicy",
        "pretty",
        "%",
        "=",
    ]);
    let values = prop_oneof![
        proptest::sample::select(vec![
            "",
            "0",
            "1",
            "-1",
            "18446744073709551615",
            "99999999999999999999",
            "true",
            "false",
            "All",
            "Exact",
            "NotOlderThan",
            "Strict",
            "Ignore",
            "a%3Db",
            "a%20in%20(b,c)",
            "!a",
            "a%3E5",
            "metadata.name%3Da",
            "spec.color!%3Dred",
            "spec.color%3D%5C",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
            "None",
            "Object",
            "Metadata",
            "%00",
            "%ff",
        ])
        .prop_map(str::to_owned),
        "[a-z!=<>(),. %\\\\]{0,12}".prop_map(|text| text
            .replace('%', "%25")
            .replace(' ', "%20")
            .replace('<', "%3C")
            .replace('>', "%3E")
            .replace('\\', "%5C")),
    ];
    let pairs = prop_oneof![2 => Just(Vec::new()), 1 => proptest::collection::vec((names, values), 1..4)];
    pairs.prop_map(|pairs: Vec<(&str, String)>| {
        pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    })
}

/// Values that fit nowhere in particular.
fn scraps() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(vec![
            "",
            "a",
            "default",
            "Widget",
            "example.dev/v1",
            "red",
            "18446744073709551616",
            "-1",
            "\u{0}",
            "é",
            "/",
            "2001-01-01T00:00:00Z",
            "pull",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let names = proptest::sample::select(vec![
            "name",
            "namespace",
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "uid",
            "generateName",
            "resourceVersion",
            "a",
            "",
            "create",
            "size",
            "type",
            "$patch",
            "$setElementOrder/a",
            "$retainKeys",
        ]);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::vec((names, inner), 0..4).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

/// What is put into an object, and where.
fn changes() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let places = proptest::sample::select(vec![
        "/metadata",
        "/metadata/name",
        "/metadata/labels",
        "/metadata/annotations",
        "/metadata/finalizers",
        "/metadata/ownerReferences",
        "/metadata/generateName",
        "/metadata/resourceVersion",
        "/metadata/uid",
        "/metadata/deletionTimestamp",
        "/metadata/managedFields",
        "/spec",
        "/spec/size",
        "/spec/parts",
        "/spec/free",
        "/spec/git",
        "/spec/pull",
        "/spec/action",
        "/status",
        "/secure",
        "/secure/token",
        "/data",
        "/stringData",
        "/kind",
        "/apiVersion",
        "/preconditions",
    ]);
    proptest::collection::vec((places, scraps()), 0..3)
}

fn changed(mut object: Value, changes: Vec<(&'static str, Value)>) -> Value {
    for (place, scrap) in changes {
        let (parent, field) = place.rsplit_once('/').unwrap();
        match object.pointer_mut(parent) {
            Some(Value::Object(parent)) => drop(parent.insert(field.to_owned(), scrap)),
            _ => object[parent.trim_start_matches('/')] = json!({ field: scrap }),
        }
    }
    object
}

fn operations() -> impl Strategy<Value = Value> {
    let operation = (
        proptest::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "x"]),
        proptest::sample::select(vec![
            "",
            "/",
            "/metadata/name",
            "/metadata/labels",
            "/spec/size",
            "/spec/parts/0",
            "/spec/free/-",
            "/data/a",
            "x",
        ]),
        proptest::sample::select(vec!["", "/spec", "/metadata", "/metadata/name", "/status", "x"]),
        scraps(),
    );
    proptest::collection::vec(operation, 0..4).prop_map(|operations| {
        operations
            .into_iter()
            .map(|(op, path, from, value)| json!({ "op": op, "path": path, "from": from, "value": value }))
            .collect()
    })
}

/// One request: method, path with query, content type, body.
fn requests() -> impl Strategy<Value = (Method, String, &'static str, String)> {
    let kind = proptest::sample::select(kinds());
    let own = (kind, changes(), scraps(), operations(), 0..12_usize).prop_map(
        |((collection, object), changes, scrap, operations, choice)| {
            let one = format!("{collection}/a");
            let (json, merge, strategic) =
                ("application/json", MERGE, "application/strategic-merge-patch+json");
            let object = changed(object, changes);
            let (method, path, kind, body) = match choice {
                0..4 => (Method::POST, collection.to_owned(), json, object),
                4 | 5 => (Method::PUT, one, json, object),
                6 => (Method::PUT, format!("{one}/status"), json, object),
                7 => (Method::PATCH, one, merge, changed(json!({}), vec![("/metadata", scrap)])),
                8 => (Method::PATCH, one, strategic, object),
                9 => (Method::PATCH, one, JSON_PATCH, operations),
                10 => (Method::DELETE, one, json, scrap),
                _ => (Method::GET, collection.to_owned(), json, Value::Null),
            };
            (method, path, kind, body.to_string())
        },
    );
    let stray = (
        proptest::sample::select(vec![
            Method::GET,
            Method::POST,
            Method::DELETE,
            Method::HEAD,
            Method::OPTIONS,
        ]),
        paths(),
        proptest::sample::select(vec!["application/yaml", "application/apply-patch+yaml", "text/plain"]),
        ".{0,20}",
    );
    (prop_oneof![6 => own, 1 => stray], queries())
        .prop_map(|((method, path, kind, body), query)| (method, format!("{path}?{query}"), kind, body))
}

async fn answered(server: &ApiServer, method: Method, path: &str, content_type: &str, body: String) {
    let shown = format!("{method} {path} {content_type} {body}");
    let Ok(uri) = path.parse::<http::Uri>() else { return };
    let answer = raw(method.clone(), &uri.to_string())
        .header("content-type", content_type)
        .text(body)
        .send(server)
        .await;
    // 504 is the answer to a version of the future.
    assert!(answer.status.as_u16() < 500 || answer.status.as_u16() == 504, "{shown}: {answer:?}");
    if !answer.status.is_success() && method != Method::HEAD {
        assert_eq!(answer.body["kind"], "Status", "{shown}: {answer:?}");
        assert_eq!(answer.body["code"], answer.status.as_u16(), "{shown}: {answer:?}");
        assert!(!answer.message().is_empty(), "{shown}: {answer:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_is_answered(requests in proptest::collection::vec(requests(), 1..20)) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let server = server();
            for (collection, object) in kinds() {
                let created = post(&server, collection, &object).await;
                // Widgets are there already, in their other version.
                assert!(matches!(created.status.as_u16(), 201 | 409), "{created:?}");
            }
            for (method, path, content_type, body) in requests {
                answered(&server, method, &path, content_type, body).await;
            }
            // It goes on, and what it stores can be read.
            for (collection, _) in kinds() {
                get(&server, collection).await.expect(200);
            }
        });
    }
}
