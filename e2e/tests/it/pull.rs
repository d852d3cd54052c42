//! What a pull does to the API, over real HTTP.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_e2e::{Operator, Peers, Remote, Server, dashboard, kubernetes_dashboard};

async fn titles(server: &Server) -> BTreeMap<String, String> {
    let list = server.get(&["dashboards"]).await.unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| (text(&d["metadata"]["name"]), text(&d["spec"]["title"])))
        .collect()
}

fn expect(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, title)| ((*name).to_owned(), (*title).to_owned())).collect()
}

#[tokio::test]
async fn the_api_follows_the_branch_by_full_and_incremental_pulls() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let files = vec![
        ("a.json".to_owned(), dashboard("a", "A")),
        ("team/b.json".to_owned(), dashboard("b", "B")),
        ("team/deep/c.yaml".to_owned(), kubernetes_dashboard("c", "C")),
        ("README.md".to_owned(), "# not a resource".to_owned()),
    ];
    let remote = Remote::new(files).await.unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let _jobs = Operator::start(&server, "provisioning-jobs", &[]).await.unwrap();
    server.create_repository("follow", &remote.url()).await.unwrap();
    server.healthy("follow").await.unwrap();

    let first = server.pull("follow", false).await.unwrap();
    assert_eq!(first["status"]["state"], "success", "{first:#}");
    assert_eq!(titles(&server).await, expect(&[("a", "A"), ("b", "B"), ("c", "C")]));

    let before = remote.requests();
    let unchanged = server.pull("follow", true).await.unwrap();
    assert_eq!(unchanged["status"]["message"], "same commit as last time", "{unchanged:#}");
    assert_eq!(remote.requests() - before, 1, "{:?}", remote.request_lines());

    let change = vec![
        ("a.json".to_owned(), Some(dashboard("a", "A two"))),
        ("team/b.json".to_owned(), None),
        ("other/d.json".to_owned(), Some(dashboard("d", "D"))),
    ];
    remote.commit(change).await.unwrap();
    let before = remote.requests();
    let changed = server.pull("follow", true).await.unwrap();
    assert_eq!(changed["status"]["state"], "success", "{changed:#}");
    assert_eq!(remote.requests() - before, 2, "{:?}", remote.request_lines());
    assert_eq!(titles(&server).await, expect(&[("a", "A two"), ("c", "C"), ("d", "D")]));

    server.kubectl(&["delete", "dashboard", "c"]).await.unwrap();
    server.pull("follow", false).await.unwrap();
    assert_eq!(
        titles(&server).await,
        expect(&[("a", "A two"), ("c", "C"), ("d", "D")]),
        "a full pull repairs"
    );

    let repository = server.get(&["repository", "follow"]).await.unwrap();
    let status = &repository["status"];
    assert_eq!(status["sync"]["state"], "success", "{status:#}");
    assert_eq!(status["sync"]["lastRef"].as_str().unwrap().len(), 40);
    let count = |resource: &str| {
        status["stats"]
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["resource"] == resource)
            .map(|s| s["count"].clone())
    };
    assert_eq!(count("dashboards"), Some(3.into()), "{status:#}");
    let pulled = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "PullStatus").unwrap();
    assert_eq!((pulled["status"].as_str(), pulled["reason"].as_str()), (Some("True"), Some("Success")));
}

#[tokio::test]
async fn deleting_a_repository_removes_or_releases_what_it_manages() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let files = |prefix: &str| {
        vec![
            (format!("{prefix}/x.json"), dashboard(&format!("{prefix}-x"), "X")),
            (format!("{prefix}/deep/y.json"), dashboard(&format!("{prefix}-y"), "Y")),
        ]
    };
    let (remove, release) =
        (Remote::new(files("rm")).await.unwrap(), Remote::new(files("keep")).await.unwrap());
    let server = Server::start(&[remove.origin(), release.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let _jobs = Operator::start(&server, "provisioning-jobs", &[]).await.unwrap();
    for (name, remote) in [("remove", &remove), ("release", &release)] {
        server.create_repository(name, &remote.url()).await.unwrap();
        server.healthy(name).await.unwrap();
        let pulled = server.pull(name, false).await.unwrap();
        assert_eq!(pulled["status"]["state"], "success", "{pulled:#}");
    }
    let finalizers = r#"{"metadata":{"finalizers":["remove-pending-jobs","release-orphan-resources"]}}"#;
    server.kubectl(&["patch", "repository", "release", "--type=merge", "-p", finalizers]).await.unwrap();
    server.kubectl(&["delete", "repository", "remove", "release", "--timeout=60s"]).await.unwrap();
    let left = server.get(&["dashboards"]).await.unwrap();
    let names: Vec<&str> =
        left["items"].as_array().unwrap().iter().filter_map(|d| d["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["keep-x", "keep-y"]);
    for item in left["items"].as_array().unwrap() {
        assert_eq!(item["metadata"]["annotations"]["grafana.app/managerId"], Value::Null, "{item:#}");
    }
    let folders = server.get(&["folders"]).await.unwrap();
    assert_eq!(folders["items"].as_array().unwrap().len(), 3, "the released ones: {folders:#}");
}

#[tokio::test]
async fn a_bad_file_is_named_and_the_others_are_applied() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let files = vec![
        ("good.json".to_owned(), dashboard("good", "Good")),
        ("broken.yaml".to_owned(), "a: [unclosed".to_owned()),
        ("strange.json".to_owned(), "{\"hello\": \"world\"}".to_owned()),
        ("one.json".to_owned(), dashboard("twice", "First")),
        ("two.json".to_owned(), dashboard("twice", "Second")),
    ];
    let remote = Remote::new(files).await.unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let _jobs = Operator::start(&server, "provisioning-jobs", &[]).await.unwrap();
    server.create_repository("mixed", &remote.url()).await.unwrap();
    server.healthy("mixed").await.unwrap();
    let ended = server.pull("mixed", false).await.unwrap();
    assert_eq!(ended["status"]["state"], "warning", "{ended:#}");
    let warnings = ended["status"]["warnings"].to_string();
    for file in ["broken.yaml", "two.json"] {
        assert!(warnings.contains(file), "{file} is not named in {warnings}");
    }
    // It is no resource at all, which is nobody's mistake.
    assert!(!warnings.contains("strange.json"), "{warnings}");
    let found = titles(&server).await;
    assert_eq!(found.get("good").map(String::as_str), Some("Good"));
    assert!(found.contains_key("twice"));
}

#[tokio::test]
async fn a_path_that_is_not_there_changes_nothing_and_says_so() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let remote = Remote::new(vec![("team/a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let _jobs = Operator::start(&server, "provisioning-jobs", &[]).await.unwrap();
    server.create_repository("typo", &remote.url()).await.unwrap();
    server.healthy("typo").await.unwrap();
    server.pull("typo", false).await.unwrap();
    let mistyped = r#"{"spec":{"git":{"path":"taem"}}}"#;
    server.kubectl(&["patch", "repository", "typo", "--type=merge", "-p", mistyped]).await.unwrap();
    server.healthy("typo").await.unwrap();
    let filed = server.pull("typo", false).await.unwrap();
    assert_eq!(filed["status"]["state"], "error", "{filed:#}");
    assert!(filed["status"]["message"].as_str().unwrap().contains("taem"), "{filed:#}");
    assert_eq!(titles(&server).await, expect(&[("a", "A")]));
}

#[tokio::test]
async fn a_local_folder_is_pulled_where_it_is_permitted_and_again_when_it_changes() {
    if !Peers::present(&["curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("dashboards");
    std::fs::create_dir_all(home.join("team")).unwrap();
    std::fs::write(home.join("team/a.json"), dashboard("local-a", "A")).unwrap();
    let server = Server::start(&[]).await.unwrap();
    let prefixes = folder.path().display().to_string();
    let settings = [
        ("GF_OPERATOR_LOCAL_PERMITTED_PREFIXES", prefixes.as_str()),
        ("GF_OPERATOR_HOME_PATH", prefixes.as_str()),
    ];
    let _repo = Operator::start(&server, "provisioning-repo", &settings).await.unwrap();
    let _jobs = Operator::start(&server, "provisioning-jobs", &settings).await.unwrap();
    let repository = |name: &str, path: &str| {
        serde_json::json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository", "metadata": {"name": name},
            "spec": {"title": name, "type": "local", "workflows": [],
                     "sync": {"enabled": true, "target": "folder", "intervalSeconds": 86400},
                     "local": {"path": path}},
        })
        .to_string()
    };
    let inside = repository("inside", &home.display().to_string());
    server.kubectl_with(&["create", "-f", "-"], &inside).await.unwrap();
    server.healthy("inside").await.unwrap();
    let synced = |wanted: &'static [(&'static str, &'static str)]| {
        let server = &server;
        windlass_e2e::eventually("the folder's files are in the API", move || async move {
            let found = titles(server).await;
            anyhow::ensure!(found == expect(wanted), "{found:?}");
            Ok(Some(()))
        })
    };
    synced(&[("local-a", "A")]).await.unwrap();
    // Its interval is a day: the change itself brings the next sync.
    std::fs::write(home.join("team/b.json"), dashboard("local-b", "B")).unwrap();
    synced(&[("local-a", "A"), ("local-b", "B")]).await.unwrap();
    std::fs::remove_file(home.join("team/a.json")).unwrap();
    synced(&[("local-b", "B")]).await.unwrap();

    server.kubectl_with(&["create", "-f", "-"], &repository("outside", "/etc")).await.unwrap();
    let refused = windlass_e2e::eventually("the folder outside is refused", || async {
        let found = server.get(&["repository", "outside"]).await?;
        Ok(found["status"]["conditions"].as_array().and_then(|conditions| conditions.first().cloned()))
    })
    .await
    .unwrap();
    assert_eq!(
        (refused["status"].as_str(), refused["reason"].as_str()),
        (Some("False"), Some("InvalidSpec"))
    );
}
