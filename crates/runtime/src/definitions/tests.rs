use serde_json::json;

use super::*;
use crate::testing::Server;

fn definition(fields: &[&str]) -> CustomResourceDefinition {
    let schema = schema(fields);
    serde_json::from_value(json!({
        "metadata": {"name": "gears.example.dev"},
        "spec": {"group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "gears", "kind": "Gear"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    }))
    .unwrap()
}

fn schema(fields: &[&str]) -> Value {
    let fields: serde_json::Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
}

fn document(fields: &[&str]) -> Value {
    let mut schema = schema(fields);
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": "example.dev", "version": "v1", "kind": "Gear"}]);
    json!({"openapi": "3.0.0", "components": {"schemas": {"dev.example.v1.Gear": schema}}})
}

/// What keeps the process from being ready, once the next question has come.
async fn said_when_asked_again(server: &mut Server, health: &Health, answer: &Value) -> String {
    server.next().await.answer(answer);
    // The next question comes after the answer was taken in.
    server.next().await.refuse(503, "ServiceUnavailable");
    health.not_ready().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn a_field_that_a_definition_lacks_keeps_the_process_from_being_ready_until_it_is_there() {
    let (mut server, client) = Server::new();
    let (health, shutdown) = (Health::new(), CancellationToken::new());
    let definitions = Definitions::new(client, &[definition(&["old", "new"])]);
    let run = tokio::spawn(definitions.run(health.clone(), shutdown.clone()));

    let asked = server.next().await;
    assert_eq!(asked.path, "/openapi/v3/apis/example.dev/v1");
    asked.refuse(404, "NotFound");
    let said = said_when_asked_again(&mut server, &health, &document(&["old"])).await;
    for words in ["gears.example.dev", "spec.new", "deploy/crds"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("spec.old"), "{said}");
    assert_eq!(said_when_asked_again(&mut server, &health, &document(&["old", "new", "newer"])).await, "");
    let said = said_when_asked_again(&mut server, &health, &document(&["new"])).await;
    assert!(said.contains("spec.old"), "older ones were applied: {said}");
    shutdown.cancel();
    run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_known_is_no_reason_not_to_be_ready() {
    let (mut server, client) = Server::new();
    let (health, shutdown) = (Health::new(), CancellationToken::new());
    let definitions = Definitions::new(client, &[definition(&["a"])]);
    tokio::spawn(definitions.run(health.clone(), shutdown.clone()));
    for code in [404, 403, 500, 403] {
        server.next().await.refuse(code, "Refused");
    }
    assert_eq!(said_when_asked_again(&mut server, &health, &json!({})).await, "");
    shutdown.cancel();
}
