//! Every payload that GitHub publishes as an example of its webhooks, as a delivery that is signed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::World;
use crate::webhook::{delivery_to, send, sign};

const SECRET: &str = "webhook-s3cret";
const URL: &str = "https://github.com/Codertocat/Hello-World";
const BRANCH: &str = "master";

/// Payloads by their event; of github.com and of GitHub Enterprise Servers.
pub(crate) fn published() -> BTreeMap<String, Vec<Value>> {
    let packed = include_bytes!("../../../repository/src/webhook/examples.json.gz");
    let mut examples: Value = serde_json::from_reader(flate2::read::GzDecoder::new(&packed[..])).unwrap();
    serde_json::from_value(examples["events"].take()).unwrap()
}

/// The code and the text that a delivery is answered with, by what Grafana answers. A job has no text.
fn expected(event: &str, payload: &Value) -> (u16, Option<String>) {
    let is_ours = payload["repository"]["full_name"] == "Codertocat/Hello-World";
    let text = |text: &str| Some(text.to_owned());
    match event {
        "ping" => (200, text("ping received")),
        "push" | "pull_request" if !is_ours => (400, text("repository mismatch")),
        "push" => {
            let is_moved = payload["ref"] == format!("refs/heads/{BRANCH}") && payload["deleted"] == false;
            (if is_moved { 202 } else { 200 }, None)
        }
        "pull_request" => {
            let base = payload["pull_request"]["base"]["ref"].as_str().unwrap();
            let action = payload["action"].as_str().unwrap();
            match action {
                _ if base != BRANCH => {
                    (200, Some(format!("ignoring pull request event as {base} is not the configured branch")))
                }
                "opened" | "reopened" | "synchronize" => (202, None),
                _ => (200, Some(format!("ignore pull request event: {action}"))),
            }
        }
        other => (501, Some(format!("unsupported messageType: {other}"))),
    }
}

/// On a clock that can be moved on: no limit of deliveries a second is met.
#[tokio::test(start_paused = true)]
async fn every_example_that_github_publishes_is_answered_as_grafana_answers_it() {
    let world = World::new();
    let document = json!({
        "spec": {"type": "github", "workflows": ["write"], "sync": {"enabled": true, "target": "folder"},
            "github": {"url": URL, "branch": BRANCH}},
        "secure": {"token": {"create": "t"}, "webhookSecret": {"create": SECRET}},
    });
    world.create_repository("hub", document).await;
    world.patch_status("hub", json!({"status": {"health": {"healthy": true, "checked": 1}}})).await;
    let mut answered: BTreeMap<u16, usize> = BTreeMap::new();
    for (event, payloads) in published() {
        for payload in payloads {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let body = payload.to_string().into_bytes();
            let (code, answer) = send(&world, delivery_to("hub", &event, &sign(&body, SECRET), body)).await;
            let wanted = expected(&event, &payload);
            // A pull request whose job is queued already is answered with a text.
            let added = answer["added"].as_str().filter(|_| code != 202).map(str::to_owned);
            assert_eq!((code, added), wanted, "{event}: {answer}");
            *answered.entry(code).or_default() += 1;
        }
    }
    let of = |code| answered.get(&code).copied().unwrap_or_default();
    assert!(of(200) > 20 && of(202) > 3 && of(501) > 300, "{answered:?}");
    assert!(!world.jobs().await.is_empty());
}
