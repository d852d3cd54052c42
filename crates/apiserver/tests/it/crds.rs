//! Definitions of users: written, served at once, changed, refused, and deleted with their objects.

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::common::*;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FOO: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.example.org";
const FOOS: &str = "/apis/example.org/v1/namespaces/default/foos";

fn version(name: &str, storage: bool) -> Value {
    json!({ "name": name, "served": true, "storage": storage, "subresources": { "status": {} },
        "selectableFields": [{ "jsonPath": ".spec.color" }],
        "additionalPrinterColumns": [{ "name": "Size", "type": "integer", "jsonPath": ".spec.size" }],
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "size": { "type": "integer", "default": 3, "minimum": 1 }, "color": { "type": "string" } } },
            "status": { "type": "object", "properties": { "replicas": { "type": "integer" } } } } } } })
}

fn crd() -> Value {
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "foos.example.org" },
        "spec": { "group": "example.org", "scope": "Namespaced",
            "names": { "plural": "foos", "kind": "Foo", "shortNames": ["fo"], "categories": ["all"] },
            "versions": [version("v1", true)] } })
}

fn foo(name: &str) -> Value {
    json!({ "apiVersion": "example.org/v1", "kind": "Foo", "metadata": { "name": name }, "spec": { "color": "red" } })
}

fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|one| one["type"] == kind).unwrap_or_default();
    json!([found["status"], found["reason"], found["message"]])
}

/// Waits until the object at this path is gone.
async fn gone(server: &ApiServer, path: &str) {
    let (collection, name) = path.rsplit_once('/').unwrap();
    let watch = format!("{collection}?watch=true&fieldSelector=metadata.name={name}");
    let response = raw(Method::GET, &watch).response(server).await;
    if response.status() == 404 {
        return;
    }
    // Its kind may go while this looks on.
    assert_eq!(response.status(), 200);
    let mut events = Events::of(response);
    if get(server, path).await.status == 404 {
        return;
    }
    while let Some(event) = events.next().await {
        if event["type"] == "DELETED" {
            return;
        }
    }
}

#[tokio::test]
async fn a_definition_is_completed_accepted_and_served_at_once() {
    let server = server();
    get(&server, FOOS).await.expect(404);
    let created = post(&server, CRDS, &crd()).await.expect(201);
    assert_eq!(
        created["status"],
        json!({ "conditions": null, "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": ["v1"] })
    );
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["spec"]["names"]["singular"], "foo");
    assert_eq!(created["spec"]["names"]["listKind"], "FooList");
    assert_eq!(created["spec"]["conversion"], json!({ "strategy": "None" }));

    let stored = get(&server, FOO).await.expect(200);
    assert_eq!(stored["status"]["acceptedNames"], created["spec"]["names"]);
    assert_eq!(condition(&stored, "NamesAccepted"), json!(["True", "NoConflicts", "no conflicts found"]));
    assert_eq!(
        condition(&stored, "Established"),
        json!(["True", "InitialNamesAccepted", "the initial names have been accepted"])
    );
    let one = post(&server, FOOS, &foo("a")).await.expect(201);
    assert_eq!(one["spec"], json!({ "size": 3, "color": "red" }));
    let list = get(&server, &format!("{FOOS}?fieldSelector=spec.color=red")).await.expect(200);
    assert_eq!((&list["kind"], names(&list)), (&json!("FooList"), vec!["a"]));
    let resources = get(&server, "/apis/example.org/v1").await.expect(200);
    assert_eq!(resources["resources"][0]["shortNames"], json!(["fo"]));
    let index = get(&server, "/openapi/v3").await.expect(200);
    assert!(index["paths"]["apis/example.org/v1"].is_object());
    put(&server, &format!("{FOOS}/a"), &json!({ "spec": 3 })).await.expect(400);
}

#[tokio::test]
async fn what_no_real_server_takes_is_refused_with_its_words() {
    const PROPERTIES: &str = "/spec/versions/0/schema/openAPIV3Schema/properties";
    const AT: &str = "spec.validation.openAPIV3Schema.properties";
    let server = server();
    let changed = |pointer: &str, value: Value| {
        let mut document = crd();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[field] = value;
        document
    };
    let label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
        character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
        '[a-z]([-a-z0-9]*[a-z0-9])?')";
    for (document, expected) in [
        (
            changed("/spec/group", json!("example")),
            "[metadata.name: Invalid value: \"foos.example.org\": must be spec.names.plural+\".\"+spec.group, \
             spec.group: Invalid value: \"example\": should be a domain with at least one dot]"
                .to_owned(),
        ),
        (
            changed("/spec", json!({})),
            "[metadata.name: Invalid value: \"foos.example.org\": must be spec.names.plural+\".\"+spec.group, \
             spec.group: Required value, spec.scope: Required value, spec.versions: Invalid value: []: must have \
             exactly one version marked as storage version, spec.names.plural: Required value, spec.names.singular: \
             Required value, spec.names.kind: Required value, spec.names.listKind: Required value, \
             status.storedVersions: Invalid value: null: must have at least one stored version]"
                .to_owned(),
        ),
        (
            changed("/spec/versions/0/storage", json!(false)),
            "[spec.versions: Invalid value: [\"v1\"]: must have exactly one version marked as storage version, \
             status.storedVersions: Invalid value: null: must have at least one stored version]"
                .to_owned(),
        ),
        (
            changed("/spec/scope", json!("Other")),
            "spec.scope: Unsupported value: \"Other\": supported values: \"Cluster\", \"Namespaced\"".to_owned(),
        ),
        (
            changed("/spec/versions/0/name", json!("V1")),
            format!(
                "[spec.versions[0].name: Invalid value: \"V1\": {label}, spec.version: Invalid value: \"V1\": {label}]"
            ),
        ),
        (
            changed(&format!("{PROPERTIES}/x"), json!({})),
            format!("{AT}[x].type: Required value: must not be empty for specified object fields"),
        ),
        (
            changed(&format!("{PROPERTIES}/x"), json!({ "type": "string", "pattern": "(" })),
            format!("{AT}[x].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: "),
        ),
        (
            changed("/spec/versions/0/selectableFields", json!([{ "jsonPath": ".spec.nope" }, { "jsonPath": ".spec" }])),
            "[spec.selectableFields[0].jsonPath: Invalid value: \".spec.nope\": is an invalid path: does not refer to a \
             valid field, spec.selectableFields[1].jsonPath: Invalid value: \".spec\": must point to a field of type \
             string, boolean or integer. Enum string fields and strings with formats are allowed.]"
                .to_owned(),
        ),
        (
            changed(
                "/spec/versions/0/additionalPrinterColumns",
                json!([{ "name": "a", "type": "x", "jsonPath": "y" }]),
            ),
            "[spec.additionalPrinterColumns[0].type: Invalid value: \"x\": must be one of \
             boolean,date,integer,number,string, spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"y\": must \
             be a simple json path starting with .]"
                .to_owned(),
        ),
        (
            changed("/spec/preserveUnknownFields", json!(true)),
            "[spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema, \
             spec.preserveUnknownFields: Invalid value: true: cannot set to true, set \
             x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead]"
                .to_owned(),
        ),
        (
            changed("/spec/conversion", json!({ "strategy": "Webhook" })),
            "spec.conversion.strategy: Forbidden: this server does not convert by webhook".to_owned(),
        ),
    ] {
        let answer = post(&server, CRDS, &document).await;
        let prefix = "CustomResourceDefinition.apiextensions.k8s.io \"foos.example.org\" is invalid: ";
        let message = answer.message().strip_prefix(prefix).unwrap_or_else(|| answer.message()).to_owned();
        assert!(message.starts_with(&expected), "{message}\n{expected}");
        answer.expect(422);
    }
    let mut protected = changed("/spec/group", json!("foo.k8s.io"));
    protected["metadata"]["name"] = json!("foos.foo.k8s.io");
    let answer = post(&server, CRDS, &protected).await;
    assert!(
        answer.message().contains("protected groups must have approval annotation"),
        "{}",
        answer.message()
    );
    answer.expect(422);
    get(&server, FOO).await.expect(404);
}

#[tokio::test]
async fn unknown_fields_and_formats_are_warned_about() {
    let server = server();
    let mut document = crd();
    document["spec"]["nope"] = json!(1);
    let properties = &mut document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    properties["at"] = json!({ "type": "string", "format": "hello" });
    let answer = post(&server, CRDS, &document).await;
    let warnings: Vec<&str> =
        answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(
        warnings,
        ["299 - \"unknown field \\\"spec.nope\\\"\"", "299 - \"unrecognized format \\\"hello\\\"\"",]
    );
    let created = answer.expect(201);
    assert_eq!(created["spec"].get("nope"), None);
    let strict = post(&server, &format!("{CRDS}?fieldValidation=Strict"), &document).await;
    assert!(strict.message().contains("unknown field \"spec.nope\""), "{}", strict.message());
    strict.expect(400);
}

#[tokio::test]
async fn rules_of_a_definition_are_held_against_its_objects() {
    let server = server();
    let mut document = crd();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let rules = json!([
        { "rule": "!has(self.color) || self.color != 'black'", "message": "no black", "fieldPath": ".color" },
        { "rule": "!has(oldSelf.color) || self.size >= oldSelf.size", "messageExpression": "'was ' + string(oldSelf.size)",
          "reason": "FieldValueForbidden" },
    ]);
    document.pointer_mut(schema).unwrap()["x-kubernetes-validations"] = json!([{ "rule": "self.sise > 1" }]);
    let refused = post(&server, CRDS, &document).await;
    let cause = &refused.body["details"]["causes"][0];
    assert!(cause["message"].as_str().unwrap().contains("undefined field 'sise'"), "{refused:?}");
    let field = cause["field"].as_str().unwrap();
    assert!(field.ends_with("properties[spec].x-kubernetes-validations[0].rule"), "{field}");
    refused.expect(422);
    document.pointer_mut(schema).unwrap()["x-kubernetes-validations"] = rules;
    post(&server, CRDS, &document).await.expect(201);

    let mut black = foo("black");
    black["spec"]["color"] = json!("black");
    let refused = post(&server, FOOS, &black).await;
    assert_eq!(
        refused.body["details"]["causes"],
        json!([{ "field": "spec.color", "reason": "FieldValueInvalid",
        "message": "Invalid value: no black" }])
    );
    refused.expect(422);
    post(&server, FOOS, &foo("a")).await.expect(201);
    let path = format!("{FOOS}/a");
    patch(&server, &path, MERGE, &json!({ "spec": { "size": 7 } })).await.expect(200);
    for (kind, force) in [(MERGE, ""), ("application/apply-patch+yaml", "&force=true")] {
        let mut smaller =
            json!({ "apiVersion": "example.org/v1", "kind": "Foo", "metadata": { "name": "a" } });
        smaller["spec"] = json!({ "size": 5 });
        let refused = patch(&server, &format!("{path}?fieldManager=x{force}"), kind, &smaller).await;
        assert!(refused.message().ends_with("spec: Forbidden: was 7"), "{refused:?}");
        refused.expect(422);
    }
    // What was there before a rule is let through until it changes.
    let mut stricter = get(&server, FOO).await.expect(200);
    stricter.pointer_mut(schema).unwrap()["properties"]["size"]["x-kubernetes-validations"] =
        json!([{ "rule": "self < 5" }]);
    put(&server, FOO, &stricter).await.expect(200);
    patch(&server, &path, MERGE, &json!({ "spec": { "color": "blue" } })).await.expect(200);
    patch(&server, &path, MERGE, &json!({ "spec": { "size": 8 } })).await.expect(422);
}

#[tokio::test]
async fn a_changed_schema_is_in_effect_for_the_next_request_and_ends_watches() {
    let server = server();
    post(&server, CRDS, &crd()).await.expect(201);
    post(&server, FOOS, &foo("a")).await.expect(201);
    let from = server.revision();
    let mut events =
        raw(Method::GET, &format!("{FOOS}?watch=true&resourceVersion={from}")).watch(&server).await;
    let current = get(&server, FOO).await.expect(200);
    let mut changed = current.clone();
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    changed.pointer_mut(schema).unwrap()["weight"] = json!({ "type": "integer", "maximum": 5 });
    let mut no_version = changed.clone();
    no_version["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    put(&server, FOO, &no_version).await.expect(422);
    let updated = put(&server, FOO, &changed).await.expect(200);
    assert_eq!(updated["metadata"]["generation"], 2);
    assert_eq!(events.next().await, None);
    let mut heavy = foo("b");
    heavy["spec"]["weight"] = json!(7);
    post(&server, FOOS, &heavy).await.expect(422);
    heavy["spec"]["weight"] = json!(4);
    assert_eq!(post(&server, FOOS, &heavy).await.expect(201)["spec"]["weight"], 4);
    // Labels alone change nothing that is served: watches go on.
    let from = server.revision();
    let mut events =
        raw(Method::GET, &format!("{FOOS}?watch=true&resourceVersion={from}")).watch(&server).await;
    patch(&server, FOO, MERGE, &json!({ "metadata": { "labels": { "a": "b" } } })).await.expect(200);
    post(&server, FOOS, &foo("c")).await.expect(201);
    assert_eq!(events.brief().await, "ADDED c");
}

#[tokio::test]
async fn group_names_and_scope_stay_and_stored_versions_are_kept() {
    let server = server();
    post(&server, CRDS, &crd()).await.expect(201);
    for (field, value) in [("group", json!("other.org")), ("scope", json!("Cluster"))] {
        let answer = patch(&server, FOO, MERGE, &json!({ "spec": { field: value } })).await;
        assert!(
            answer.message().contains(&format!("spec.{field}: Invalid value: {value}: field is immutable"))
        );
        answer.expect(422);
    }
    let answer = patch(&server, FOO, MERGE, &json!({ "spec": { "names": { "kind": "Bar" } } })).await;
    assert!(answer.message().contains("spec.names.kind: Invalid value: \"Bar\": field is immutable"));
    post(&server, FOOS, &foo("a")).await.expect(201);

    let versions = json!([version("v1", false), version("v2", true)]);
    let updated = patch(&server, FOO, MERGE, &json!({ "spec": { "versions": versions } })).await.expect(200);
    assert_eq!(updated["status"]["storedVersions"], json!(["v1", "v2"]));
    let old = get(&server, "/apis/example.org/v2/namespaces/default/foos/a").await.expect(200);
    assert_eq!((&old["apiVersion"], &old["spec"]["color"]), (&json!("example.org/v2"), &json!("red")));
    let answer = patch(&server, FOO, MERGE, &json!({ "spec": { "versions": [version("v2", true)] } })).await;
    assert!(
        answer
            .message()
            .contains("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions")
    );
    answer.expect(422);
    let versions = json!([{ "served": false }, {}]);
    let mut hidden = json!([version("v1", false), version("v2", true)]);
    hidden[0]["served"] = versions[0]["served"].clone();
    patch(&server, FOO, MERGE, &json!({ "spec": { "versions": hidden } })).await.expect(200);
    get(&server, FOOS).await.expect(404);
    get(&server, "/apis/example.org/v2/namespaces/default/foos").await.expect(200);
    get(&server, "/apis/example.org/v1").await.expect(404);
}

#[tokio::test]
async fn a_name_that_is_taken_is_not_accepted_until_it_is_free() {
    let server = server();
    post(&server, CRDS, &crd()).await.expect(201);
    let mut other = crd();
    other["metadata"]["name"] = json!("bars.example.org");
    other["spec"]["names"] = json!({ "plural": "bars", "kind": "Foo", "listKind": "BarList" });
    post(&server, CRDS, &other).await.expect(201);
    let path = format!("{CRDS}/bars.example.org");
    let stored = get(&server, &path).await.expect(200);
    assert_eq!(condition(&stored, "NamesAccepted")[1], "KindConflict");
    assert_eq!(
        condition(&stored, "Established"),
        json!(["False", "NotAccepted", "not all names are accepted"])
    );
    let bars = FOOS.replace("foos", "bars");
    get(&server, &bars).await.expect(404);
    delete(&server, FOO).await.expect(200);
    gone(&server, FOO).await;
    get(&server, &bars).await.expect(200);
    assert_eq!(condition(&get(&server, &path).await.expect(200), "NamesAccepted")[0], "True");
}

#[tokio::test]
async fn objects_go_before_their_definition_and_watches_end() {
    let server = server();
    post(&server, CRDS, &crd()).await.expect(201);
    post(&server, FOOS, &foo("a")).await.expect(201);
    let mut held = foo("held");
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    post(&server, FOOS, &held).await.expect(201);
    let from = server.revision();
    let mut events =
        raw(Method::GET, &format!("{FOOS}?watch=true&resourceVersion={from}")).watch(&server).await;
    let deleted = delete(&server, FOO).await.expect(200);
    assert_eq!(deleted["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(condition(&deleted, "Terminating")[1], "InstanceDeletionPending");
    assert_eq!(deleted["metadata"].get("deletionGracePeriodSeconds"), None);
    assert_eq!(events.brief().await, "DELETED a");
    assert_eq!(events.brief().await, "MODIFIED held");
    let refused = post(&server, FOOS, &foo("b")).await;
    assert!(refused.message().contains("create not allowed while custom resource definition is terminating"));
    refused.expect(403);
    let path = format!("{FOOS}/held");
    patch(&server, &path, MERGE, &json!({ "metadata": { "finalizers": null } })).await.expect(200);
    assert_eq!(events.brief().await, "DELETED held");
    assert_eq!(events.next().await, None, "the watch ends with its kind");
    gone(&server, FOO).await;
    get(&server, FOOS).await.expect(404);
    post(&server, CRDS, &crd()).await.expect(201);
    assert_eq!(names(&get(&server, FOOS).await.expect(200)), [""; 0]);
}

#[tokio::test]
async fn definitions_and_their_removal_go_on_after_a_restart() {
    let store = memory();
    let server = server_over(store.clone());
    post(&server, CRDS, &crd()).await.expect(201);
    let mut held = foo("held");
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    post(&server, FOOS, &held).await.expect(201);
    drop(server);

    let server = server_over(store.clone());
    server.start().await.unwrap();
    let before = server.revision();
    assert_eq!(names(&get(&server, FOOS).await.expect(200)), ["held"]);
    assert_eq!(server.revision(), before, "a start writes nothing that is there");
    delete(&server, FOO).await.expect(200);
    drop(server);

    let server = server_over(store);
    let path = format!("{FOOS}/held");
    patch(&server, &path, MERGE, &json!({ "metadata": { "finalizers": null } })).await.expect(200);
    gone(&server, FOO).await;
    get(&server, FOOS).await.expect(404);
}

#[tokio::test]
async fn our_own_definitions_take_labels_and_the_same_document_and_nothing_else() {
    let server = server();
    let path = format!("{CRDS}/widgets.example.dev");
    let own = get(&server, &path).await.expect(200);
    assert_eq!(condition(&own, "Established")[0], "True");
    post(&server, CRDS, &own).await.expect(400);
    let mut same = own.clone();
    same["metadata"] = json!({ "name": "widgets.example.dev" });
    post(&server, CRDS, &same).await.expect(409);
    let applied = json!({ "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "x" } },
        "spec": own["spec"] });
    let kept = patch(&server, &path, MERGE, &applied).await.expect(200);
    assert_eq!((&kept["spec"], &kept["metadata"]["generation"]), (&own["spec"], &json!(1)));
    let refused =
        patch(&server, &path, MERGE, &json!({ "spec": { "names": { "shortNames": ["x"] } } })).await;
    assert!(refused.message().contains("it belongs to Windlass"), "{}", refused.message());
    refused.expect(403);
    delete(&server, &path).await.expect(403);
    patch(&server, &format!("{path}/status"), MERGE, &json!({ "status": { "storedVersions": ["x"] } }))
        .await
        .expect(403);
    post(&server, WIDGETS, &widget("a")).await.expect(201);
}

#[tokio::test]
async fn a_deprecated_version_says_so_in_each_answer() {
    let server = server();
    let mut document = crd();
    let mut old = version("v1beta1", false);
    old["deprecated"] = json!(true);
    document["spec"]["versions"].as_array_mut().unwrap().push(old);
    post(&server, CRDS, &document).await.expect(201);
    let answer = get(&server, "/apis/example.org/v1beta1/foos").await;
    assert_eq!(
        answer.headers["warning"],
        "299 - \"example.org/v1beta1 Foo is deprecated; use example.org/v1 Foo\""
    );
}

#[tokio::test]
async fn what_was_stored_under_another_definition_is_read_by_the_present_one() {
    let server = server();
    post(&server, CRDS, &crd()).await.expect(201);
    post(&server, FOOS, &foo("old")).await.expect(201);
    let mut changed = get(&server, FOO).await.expect(200);
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let fields = changed.pointer_mut(properties).unwrap();
    fields.as_object_mut().unwrap().remove("color");
    fields["shape"] = json!({ "type": "string", "default": "round" });
    changed["spec"]["versions"][0].as_object_mut().unwrap().remove("selectableFields");
    put(&server, FOO, &changed).await.expect(200);
    let present = json!({ "size": 3, "shape": "round" });
    let read = get(&server, &format!("{FOOS}/old")).await.expect(200);
    assert_eq!(read["spec"], present);
    assert_eq!(get(&server, FOOS).await.expect(200)["items"][0]["spec"], present);
    let mut events = raw(Method::GET, &format!("{FOOS}?watch=true")).watch(&server).await;
    assert_eq!(events.next().await.unwrap()["object"]["spec"], present);
    // A change of something else writes what is read.
    let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
    let patched = patch(&server, &format!("{FOOS}/old"), MERGE, &labelled).await.expect(200);
    assert_eq!(patched["spec"], present);
    assert_eq!(patched["metadata"]["generation"], read["metadata"]["generation"]);
}

#[tokio::test]
async fn an_object_is_judged_by_the_schema_of_the_version_that_it_is_written_in() {
    let server = server();
    let mut document = crd();
    let mut older = version("v1alpha1", false);
    older.as_object_mut().unwrap().remove("selectableFields");
    let size = "/schema/openAPIV3Schema/properties/spec/properties/size";
    *older.pointer_mut(size).unwrap() = json!({ "type": "integer", "maximum": 2 });
    document["spec"]["versions"] = json!([version("v1", true), older]);
    post(&server, CRDS, &document).await.expect(201);
    let alpha = FOOS.replace("/v1/", "/v1alpha1/");
    let sized = |version: &str, name: &str, size: i64| {
        let mut object = foo(name);
        object["apiVersion"] = json!(format!("example.org/{version}"));
        object["spec"]["size"] = json!(size);
        object
    };
    // 0 is too small for v1, 3 too large for v1alpha1.
    post(&server, &alpha, &sized("v1alpha1", "a", 3)).await.expect(422);
    post(&server, &alpha, &sized("v1alpha1", "a", 0)).await.expect(201);
    post(&server, FOOS, &sized("v1", "b", 0)).await.expect(422);
    post(&server, FOOS, &sized("v1", "b", 3)).await.expect(201);
    patch(&server, &format!("{alpha}/b"), MERGE, &json!({ "spec": { "size": 4 } })).await.expect(422);
    patch(&server, &format!("{FOOS}/b"), MERGE, &json!({ "spec": { "size": 4 } })).await.expect(200);
}

#[tokio::test]
async fn what_a_stricter_schema_refuses_is_let_through_until_it_changes() {
    let server = server();
    let mut document = crd();
    let item = json!({ "type": "object", "required": ["name"],
        "properties": { "name": { "type": "string" }, "level": { "type": "integer" } } });
    let fields =
        document.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties").unwrap();
    fields["parts"] = json!({ "type": "array", "items": item, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"] });
    post(&server, CRDS, &document).await.expect(201);
    let mut old = foo("old");
    old["spec"]["parts"] = json!([{ "name": "high", "level": 9 }, { "name": "low", "level": 1 }]);
    post(&server, FOOS, &old).await.expect(201);
    let mut stricter = get(&server, FOO).await.expect(200);
    let fields =
        stricter.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties").unwrap();
    fields["parts"]["items"]["properties"]["level"]["maximum"] = json!(5);
    put(&server, FOO, &stricter).await.expect(200);
    let path = format!("{FOOS}/old");
    for (parts, code) in [
        // The one that is wrong stays as it is, wherever it stands.
        (json!([{ "name": "low", "level": 2 }, { "name": "high", "level": 9 }]), 200),
        (json!([{ "name": "new", "level": 3 }, { "name": "high", "level": 9 }]), 200),
        (json!([{ "name": "new", "level": 3 }, { "name": "high", "level": 8 }]), 422),
        (json!([{ "name": "new", "level": 9 }, { "name": "high", "level": 9 }]), 422),
    ] {
        let change = json!({ "spec": { "parts": parts } });
        patch(&server, &path, MERGE, &change).await.expect(code);
    }
}

#[tokio::test]
async fn a_namespace_in_what_is_in_none_is_cleared_and_a_namespaces_metadata_change_with_its_status() {
    let server = server();
    let mut document = crd();
    document["metadata"]["namespace"] = json!("default");
    let created = post(&server, CRDS, &document).await.expect(201);
    assert_eq!(created["metadata"].get("namespace"), None);
    let mut team = json!({ "metadata": { "name": "team", "namespace": "other" } });
    let created = post(&server, "/api/v1/namespaces", &team).await.expect(201);
    assert_eq!(created["metadata"].get("namespace"), None);
    let annotated = json!({ "metadata": { "annotations": { "a": "b" } }, "status": { "phase": "Active" } });
    let path = "/api/v1/namespaces/team";
    let answer = patch(&server, &format!("{path}/status"), MERGE, &annotated).await.expect(200);
    assert_eq!(answer["metadata"]["annotations"]["a"], "b");
    team["metadata"]["annotations"] = json!({ "c": "d" });
    put(&server, path, &team).await.expect(200);
    assert_eq!(get(&server, path).await.expect(200)["metadata"]["annotations"], json!({ "c": "d" }));
}
