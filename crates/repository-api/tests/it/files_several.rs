//! Files of several YAML documents over the API.

use serde_json::json;
use windlass_auth::Caller;

use crate::desk::{Desk, ask, json_of, refused, yaml};

fn all(names: &[(&str, &str)]) -> String {
    names.iter().map(|(name, title)| yaml(name, title)).collect::<Vec<_>>().join("---\n")
}

async fn desk() -> Desk {
    let desk = Desk::new().await;
    desk.ok(200, "POST", "files/all.yaml", all(&[("x", "X"), ("w", "W")])).await;
    desk
}

#[tokio::test]
async fn each_document_of_a_file_is_tried_written_and_shown() {
    let desk = desk().await;
    assert_eq!(desk.world.dashboards_at("all.yaml").await, ["w", "x"]);
    let body = desk.ok(200, "GET", "files/all.yaml", "").await.body;
    let resource = &body["resource"];
    assert_eq!((&resource["type"]["kind"], &resource["action"]), (&json!("Dashboard"), &json!("update")));
    for member in ["file", "existing", "dryRun"] {
        let titles: Vec<_> = resource[member]["documents"].as_array().unwrap().iter().collect();
        assert_eq!(titles.iter().map(|it| &it["spec"]["title"]).collect::<Vec<_>>(), ["X", "W"], "{member}");
    }
    let raw = desk.ok(200, "GET", "files/all.yaml?raw=true", "").await.bytes;
    assert_eq!(raw, all(&[("x", "X"), ("w", "W")]).into_bytes());
    // The second goes, a third comes.
    let body = desk.ok(200, "PUT", "files/all.yaml", all(&[("x", "New"), ("z", "Z")])).await.body;
    assert_eq!(body["resource"]["upsert"]["documents"][0]["spec"]["title"], "New");
    assert_eq!(desk.world.dashboards_at("all.yaml").await, ["x", "z"]);
    desk.ok(200, "DELETE", "files/all.yaml", "").await;
    assert!(desk.world.dashboards_at("all.yaml").await.is_empty());
}

#[tokio::test]
async fn nothing_is_written_of_a_file_with_a_bad_document() {
    let desk = desk().await;
    desk.ok(200, "PUT", "files/a.json", json_of("a", "Another")).await;
    let commits = desk.commits("main");
    let bad = format!("{}---\nkind: [\n", all(&[("x", "New")]));
    let message = refused(&desk.send("PUT", "files/all.yaml", bad).await, 400);
    assert!(message.contains("\"all.yaml\": document 2 of 2: failed to parse"), "{message}");
    let twice = all(&[("x", "A"), ("x", "B")]);
    let message = refused(&desk.send("PUT", "files/all.yaml", twice).await, 400);
    assert!(message.contains("two documents are of the dashboard \"x\""), "{message}");
    let taken = all(&[("x", "A"), ("a", "the object of another file")]);
    let message = refused(&desk.send("PUT", "files/all.yaml", taken).await, 400);
    assert!(message.contains("already comes from file \"a.json\""), "{message}");
    assert_eq!(desk.commits("main"), commits);
}

#[tokio::test]
async fn json_of_one_object_changes_its_document_and_leaves_the_others_byte_for_byte() {
    let desk = desk().await;
    let uid = desk.world.uid_of_dashboard("x").await;
    let headers = [("content-type", "application/json")];
    let put = async |body: String| {
        ask(&desk.world, Caller::system("ann"), ("PUT", "r/files/all.yaml"), &headers, body).await
    };
    let answer = put(json_of("w", "Changed")).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let file = desk.file("main", "all.yaml").unwrap();
    assert!(file.starts_with(&format!("{}---\n# by hand\n", yaml("x", "X"))), "{file}");
    assert!(file.contains("title: Changed"), "{file}");
    assert_eq!(desk.world.dashboards_at("all.yaml").await, ["w", "x"]);
    assert_eq!(desk.world.uid_of_dashboard("x").await, uid);
    let commits = desk.commits("main");
    let message = refused(&put(json_of("other", "Other")).await, 400);
    assert!(message.contains("the file has 2 documents, and none is of this object"), "{message}");
    assert_eq!(desk.commits("main"), commits);
}
