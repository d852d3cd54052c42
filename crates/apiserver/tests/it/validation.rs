use http::Method;
use serde_json::{Value, json};

use crate::common::*;

fn with_spec(spec: Value) -> Value {
    let mut body = widget("a");
    body["spec"] = spec;
    body
}

#[tokio::test]
async fn unknown_and_duplicate_fields_are_refused_warned_about_or_dropped() {
    let server = server();
    let text = r#"{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"name":"a","nom":"x"},
        "spec":{"size":1,"size":2,"extra":1,"parts":[{"id":"x","no":1}],"free":{"any":1}},"more":1}"#;
    let send = |validation: &str| {
        raw(Method::POST, &format!("{WIDGETS}?dryRun=All&fieldValidation={validation}")).text(text)
    };
    let strict = send("Strict").send(&server).await;
    assert_eq!(
        strict.message(),
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: duplicate field \"spec.size\", \
         unknown field \"metadata.nom\", unknown field \"more\", unknown field \"spec.extra\", unknown field \
         \"spec.parts[0].no\""
    );
    strict.expect(400);
    let warned = send("Warn").send(&server).await;
    let warnings: Vec<&str> =
        warned.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(warnings.len(), 5);
    assert_eq!(warnings[0], r#"299 - "duplicate field \"spec.size\"""#);
    let body = warned.expect(201);
    assert_eq!(
        body["spec"],
        json!({ "size": 2, "color": "red", "parts": [{ "id": "x", "count": 1 }], "free": { "any": 1 } }),
        "pruned and defaulted"
    );
    assert_eq!(body.get("more"), None);
    let ignored = send("Ignore").send(&server).await;
    assert_eq!(ignored.headers.get("warning"), None);
    ignored.expect(201);
    send("Perhaps").send(&server).await.expect(422);
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a?fieldValidation=Strict");
    let patched = patch(&server, &path, MERGE, &json!({ "spec": { "extra": 1 } })).await;
    assert!(
        patched.message().contains("strict decoding error: unknown field \"spec.extra\""),
        "{}",
        patched.message()
    );
    patched.expect(422);
}

#[tokio::test]
async fn the_schema_is_held_with_kubernetes_words() {
    let server = server();
    for (spec, expected) in [
        (
            json!({ "size": "x" }),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (json!({}), "spec.size: Required value"),
        (
            json!({ "size": 0 }),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({ "size": 11 }),
            "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
        ),
        (
            json!({ "size": 1, "color": "green" }),
            "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        ),
        (
            json!({ "size": 1, "name": "A" }),
            "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'",
        ),
        (json!({ "size": 1, "name": "abcdef" }), "spec.name: Too long: may not be more than 5 bytes"),
        (
            json!({ "size": 1, "tags": [1] }),
            "spec.tags[0]: Invalid value: \"integer\": spec.tags[0] in body must be of type string: \"integer\"",
        ),
    ] {
        let answer = post(&server, WIDGETS, &with_spec(spec)).await;
        assert_eq!(answer.message(), format!("Widget.example.dev \"a\" is invalid: {expected}"));
        answer.expect(422);
    }
    let two = post(&server, WIDGETS, &with_spec(json!({ "size": 0, "color": 1 }))).await;
    let body = two.expect(422);
    let causes = body["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 3, "a wrong type is no value of the enum either");
    assert_eq!(causes[0]["reason"], "FieldValueTypeInvalid");
    assert_eq!(causes[0]["field"], "spec.color");
    assert_eq!((&body["details"]["kind"], &body["details"]["name"]), (&json!("Widget"), &json!("a")));
}

#[tokio::test]
async fn metadata_is_judged() {
    let server = server();
    let check = async |metadata: Value, status: u16, part: &str| {
        let mut body = widget("a");
        body["metadata"] = metadata.clone();
        let answer = post(&server, &format!("{WIDGETS}?dryRun=All"), &body).await;
        assert!(answer.message().contains(part), "{metadata}: {}", answer.message());
        answer.expect(status);
    };
    check(json!({ "name": "Not_A_Name" }), 422, "a lowercase RFC 1123 subdomain must consist of").await;
    check(json!({ "name": "a", "labels": { "-x": "y" } }), 422, "metadata.labels: Invalid value: \"-x\"")
        .await;
    check(json!({ "name": "a", "labels": { "x": "not ok" } }), 422, "a valid label must be an empty string")
        .await;
    check(json!({ "name": "a", "labels": { "x": 1 } }), 400, "metadata.labels must be of type string").await;
    check(
        json!({ "name": "a", "annotations": { "x": "y".repeat(300_000) } }),
        422,
        "metadata.annotations: Too long",
    )
    .await;
    check(json!({ "name": "a", "ownerReferences": [{ "kind": "X" }] }), 422, "metadata.ownerReferences.uid")
        .await;
    check(json!({ "name": "a", "finalizers": ["not ok"] }), 422, "metadata.finalizers").await;
    check(json!({ "generateName": "Bad-" }), 422, "metadata.generateName").await;
    check(json!("text"), 400, "metadata must be of type object").await;
    let nowhere = post(&server, &WIDGETS.replace("default", "Not_A_Namespace"), &widget("a")).await;
    assert!(nowhere.message().contains("metadata.namespace"), "{}", nowhere.message());
    nowhere.expect(422);
}

#[tokio::test]
async fn null_is_absent_where_it_may_not_stand() {
    let server = server();
    let mut body = widget("a");
    body["spec"]["name"] = json!(null);
    body["spec"]["color"] = json!(null);
    body["spec"]["parts"] = json!([{ "id": null, "count": null }]);
    body["spec"]["free"] = json!({ "kept": null });
    let created = post(&server, WIDGETS, &body).await.expect(201);
    assert_eq!(
        created["spec"],
        json!({ "size": 3, "color": "red", "parts": [{ "count": 1 }], "free": { "kept": null } })
    );
}
