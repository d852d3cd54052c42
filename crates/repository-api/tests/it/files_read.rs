//! `GET …/files`.

use serde_json::json;
use windlass_git_server::seed::Edit;

use crate::desk::{Desk, json_of, paths, refused, yaml};

#[tokio::test]
async fn files_are_listed_with_their_hashes_and_below_a_folder() {
    let desk = Desk::new().await;
    for path in ["files", "files/"] {
        let list = desk.ok(200, "GET", path, "").await.body;
        assert_eq!((&list["kind"], paths(&list)), (&json!("FileList"), vec!["a.json", "team/b.json"]));
        let hash = desk.git.git(&["rev-parse", "main:grafana/a.json"]);
        assert_eq!(list["items"][0]["hash"], hash);
        assert_eq!(list["items"][0]["size"], json_of("a", "A").len());
    }
    for path in ["files/team/", "files/team"] {
        assert_eq!(paths(&desk.ok(200, "GET", path, "").await.body), ["team/b.json"]);
    }
    for path in ["files/nope/", "files/nope.json"] {
        assert!(refused(&desk.send("GET", path, "").await, 404).contains("file not found"));
    }
}

#[tokio::test]
async fn a_file_is_answered_with_its_object_and_what_writing_it_would_do() {
    let desk = Desk::new().await;
    desk.git.commit([Edit::put("grafana/team/c.yaml", yaml("c", "C"))]);
    let answer = desk.ok(200, "GET", "files/team/c.yaml", "").await;
    let body = &answer.body;
    assert_eq!(
        (&body["kind"], &body["path"], &body["ref"]),
        (&json!("ResourceWrapper"), &json!("team/c.yaml"), &json!("main"))
    );
    assert_eq!(body["repository"], json!({"type": "git", "title": "r", "namespace": "default", "name": "r"}));
    let resource = &body["resource"];
    assert_eq!(
        resource["type"],
        json!({"group": "dashboard.grafana.app", "version": "v1beta1", "kind": "Dashboard", "resource": "dashboards"})
    );
    assert_eq!((&resource["action"], &resource["existing"]), (&json!("create"), &json!(null)));
    assert_eq!(
        (&resource["file"]["metadata"]["name"], &resource["file"]["spec"]["title"]),
        (&json!("c"), &json!("C"))
    );
    let tried = &resource["dryRun"]["metadata"];
    assert_eq!(tried["annotations"]["grafana.app/sourcePath"], "team/c.yaml");
    assert!(tried["uid"].is_string(), "the server was asked: {tried}");
    assert_eq!(body["hash"], desk.git.git(&["rev-parse", "main:grafana/team/c.yaml"]));
    assert_eq!(answer.headers["etag"], format!("\"{}\"", body["hash"].as_str().unwrap()));
    assert!(desk.world.dashboards().await.is_empty() && desk.world.folders().await.is_empty());
    let body = desk.ok(200, "GET", "files/team/c.yaml?skipDryRun=true", "").await.body;
    assert_eq!(body["resource"]["dryRun"], json!(null));
}

#[tokio::test]
async fn a_raw_file_is_answered_byte_for_byte() {
    let desk = Desk::new().await;
    desk.git.commit([
        Edit::put("grafana/c.yaml", yaml("c", "C")),
        Edit::put("grafana/README.md", "# Hi"),
        Edit::put("grafana/logo.png", [0x89, b'P', 0, 255].to_vec()),
    ]);
    for (path, kind, bytes) in [
        ("c.yaml", "application/yaml", yaml("c", "C").into_bytes()),
        ("a.json", "application/json", json_of("a", "A").into_bytes()),
        ("README.md", "text/markdown; charset=utf-8", b"# Hi".to_vec()),
        ("logo.png", "application/octet-stream", vec![0x89, b'P', 0, 255]),
    ] {
        let answer = desk.ok(200, "GET", &format!("files/{path}?raw=true"), "").await;
        assert_eq!((answer.headers["content-type"].to_str().unwrap(), answer.bytes), (kind, bytes));
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
    let body = desk.ok(200, "GET", "files/README.md", "").await.body;
    assert_eq!(body["resource"]["file"], json!({"content": "# Hi"}));
    assert!(refused(&desk.send("GET", "files/logo.png", "").await, 400).contains("raw=true"));
}

#[tokio::test]
async fn what_is_wrong_with_a_file_is_said_beside_it() {
    let desk = Desk::new().await;
    desk.git.commit([
        Edit::put("grafana/broken.json", "{\"apiVersion\": "),
        Edit::put("grafana/other.json", json_of("taken", "T")),
    ]);
    let body = desk.ok(206, "GET", "files/broken.json", "").await.body;
    assert!(body["errors"][0].as_str().unwrap().contains("parse"), "{body}");
    desk.world.create_dashboard("taken").await;
    let body = desk.ok(206, "GET", "files/other.json", "").await.body;
    assert!(body["errors"][0].as_str().unwrap().contains("not managed by a repository"), "{body}");
    assert_eq!(
        (&body["resource"]["action"], &body["resource"]["existing"]["metadata"]["name"]),
        (&json!("update"), &json!("taken"))
    );
}

#[tokio::test]
async fn branches_and_commits_are_read() {
    let desk = Desk::new().await;
    let old = desk.git.git(&["rev-parse", "main"]);
    desk.git.git(&["branch", "feature/x"]);
    desk.git.put(&[("grafana/new.json", "n", "N")]);
    for reference in ["feature/x", old.as_str()] {
        let list = desk.ok(200, "GET", &format!("files/?ref={reference}"), "").await.body;
        assert_eq!(paths(&list), ["a.json", "team/b.json"], "{reference}");
    }
    let body = desk.ok(200, "GET", "files/a.json?ref=feature/x", "").await.body;
    assert_eq!(body["ref"], "feature/x");
    assert_eq!(paths(&desk.ok(200, "GET", "files/?ref=main", "").await.body).len(), 3);
    let message = refused(&desk.send("GET", "files/?ref=nope", "").await, 404);
    assert!(message.contains("ref not found"), "{message}");
    refused(&desk.send("GET", &format!("files/?ref={}", "0".repeat(40)), "").await, 404);
}

#[tokio::test]
async fn an_unhealthy_repository_is_read_and_not_written() {
    let desk = Desk::new().await;
    desk.world
        .patch_status(
            "r",
            json!({"status": {"health": {"healthy": false, "checked": 5, "message": ["gone"]}}}),
        )
        .await;
    desk.ok(200, "GET", "files/a.json", "").await;
    desk.ok(200, "GET", "refs", "").await;
    let message = refused(&desk.send("PUT", "files/a.json", json_of("a", "A2")).await, 424);
    assert!(message.contains("gone"), "{message}");
}
