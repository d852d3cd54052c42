//! The main job: from a Git repository to folders and dashboards as custom resources, and back to nothing.

use serde_json::json;
use windlass_e2e::{Remote, Scene, dashboard, eventually, kubernetes_dashboard, repository};

use super::{expect, pulled, titles};

/// A token that may be seen nowhere but in its Secret.
const CANARY: &str = "canary-2f9e61b0";

fn files() -> Vec<(String, String)> {
    vec![
        ("a.json".to_owned(), dashboard("a", "A")),
        ("team/b.json".to_owned(), dashboard("b", "B")),
        ("team/deep/c.yaml".to_owned(), kubernetes_dashboard("c", "C")),
        ("README.md".to_owned(), "# not a resource".to_owned()),
    ]
}

#[tokio::test]
async fn a_private_repository_becomes_custom_resources_and_is_followed() {
    let remote = Remote::private(files(), CANARY).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    let trace = [("GF_OPERATOR_LOG_LEVEL", "trace")];
    let _controllers = (
        scene.repository_controller(&trace).await.unwrap(),
        scene.spawn(windlass_e2e::Controller::Repositories, &[], &trace).unwrap(),
        scene.jobs_controller(&trace).await.unwrap(),
        scene.jobs_controller(&trace).await.unwrap(),
    );

    let mut wanted = repository("follow", &remote.url());
    wanted["spec"]["sync"]["enabled"] = true.into();
    wanted["spec"]["sync"]["intervalSeconds"] = 3600.into();
    wanted["secure"] = json!({"token": {"name": "git-token"}});
    scene.create(&wanted).await.unwrap();
    let unhealthy = eventually("the missing Secret is noticed", || async {
        let found = scene.get(&["repository", "follow"]).await?;
        let ready = found["status"]["conditions"].as_array().and_then(|c| c.first().cloned());
        Ok(ready.filter(|ready| ready["status"] == "False"))
    })
    .await
    .unwrap();
    assert!(unhealthy["message"].as_str().unwrap().contains("git-token"), "{unhealthy:#}");

    let literal = format!("--from-literal=token={CANARY}");
    scene.kubectl(&["create", "secret", "generic", "git-token", &literal]).await.unwrap();
    let urls = format!("windlass.dev/urls={}", remote.origin());
    scene.kubectl(&["annotate", "secret", "git-token", &urls]).await.unwrap();
    // A look at the specification comes at once, and not within the minute that an unhealthy one waits.
    let touched = r#"{"spec":{"description":"its token is there"}}"#;
    scene.kubectl(&["patch", "repository", "follow", "--type=merge", "-p", touched]).await.unwrap();
    scene.healthy("follow").await.unwrap();

    // The repository controller queues the first pull by itself.
    let all = expect(&[("a", "A"), ("b", "B"), ("c", "C")]);
    let repository = eventually("the first pull is done", || async {
        let found = scene.get(&["repository", "follow"]).await?;
        Ok((found["status"]["sync"]["state"] == "success").then_some(found))
    })
    .await
    .unwrap();
    scene
        .kubectl(&["wait", "--for=delete", "jobs.provisioning.grafana.app/follow-sync", "--timeout=60s"])
        .await
        .unwrap();
    assert_eq!(titles(&scene).await, all);
    assert_eq!(repository["status"]["sync"]["lastRef"].as_str().unwrap().len(), 40);
    let folders = scene.items(&["folders"]).await.unwrap();
    assert_eq!(folders.len(), 3, "the repository's, team/ and team/deep/: {folders:#?}");

    let change = vec![
        ("a.json".to_owned(), Some(dashboard("a", "A two"))),
        ("team/b.json".to_owned(), None),
        ("other/d.json".to_owned(), Some(dashboard("d", "D"))),
    ];
    remote.commit(change).await.unwrap();
    let changed = pulled(&scene, "follow", true).await;
    assert_eq!(changed["status"]["state"], "success", "{changed:#}");
    let after = expect(&[("a", "A two"), ("c", "C"), ("d", "D")]);
    assert_eq!(titles(&scene).await, after);
    let unchanged = pulled(&scene, "follow", true).await;
    assert_eq!(unchanged["status"]["message"], "same commit as last time", "{unchanged:#}");

    scene.kubectl(&["delete", "dashboard", "c"]).await.unwrap();
    pulled(&scene, "follow", false).await;
    assert_eq!(titles(&scene).await, after, "a full pull repairs");

    scene.holds_no_secret(&[CANARY]).unwrap();
    let read = scene.get(&["repository", "follow"]).await.unwrap();
    assert_eq!(read["secure"]["token"]["name"], "git-token", "{read:#}");
}

#[tokio::test]
async fn a_deleted_repository_takes_along_or_releases_what_it_made() {
    let named = |prefix: &str| {
        vec![
            (format!("{prefix}/x.json"), dashboard(&format!("{prefix}-x"), "X")),
            (format!("{prefix}/deep/y.json"), dashboard(&format!("{prefix}-y"), "Y")),
        ]
    };
    let (remove, release) =
        (Remote::new(named("rm")).await.unwrap(), Remote::new(named("keep")).await.unwrap());
    let Some(scene) = Scene::shared(&[remove.origin(), release.origin()]).await.unwrap() else { return };
    let _controllers =
        (scene.repository_controller(&[]).await.unwrap(), scene.jobs_controller(&[]).await.unwrap());
    for (name, remote) in [("remove", &remove), ("release", &release)] {
        scene.create_repository(name, &remote.url()).await.unwrap();
        scene.healthy(name).await.unwrap();
        let done = pulled(&scene, name, false).await;
        assert_eq!(done["status"]["state"], "success", "{done:#}");
    }
    let finalizers = r#"{"metadata":{"finalizers":["remove-pending-jobs","release-orphan-resources"]}}"#;
    scene.kubectl(&["patch", "repository", "release", "--type=merge", "-p", finalizers]).await.unwrap();
    scene.kubectl(&["delete", "repository", "remove", "release", "--timeout=180s"]).await.unwrap();
    assert_eq!(titles(&scene).await, expect(&[("keep-x", "X"), ("keep-y", "Y")]));
    for item in scene.items(&["dashboards"]).await.unwrap() {
        assert!(item["metadata"]["annotations"]["grafana.app/managerId"].is_null(), "{item:#}");
    }
    assert_eq!(scene.items(&["folders"]).await.unwrap().len(), 3, "the released ones");
}

#[tokio::test]
async fn names_that_kubernetes_refuses_are_named_and_the_others_applied() {
    let files = vec![
        ("good.json".to_owned(), dashboard("good", "Good")),
        ("capitals.json".to_owned(), dashboard("gBrQVdxMz", "Capitals")),
    ];
    let remote = Remote::new(files).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    let _controllers =
        (scene.repository_controller(&[]).await.unwrap(), scene.jobs_controller(&[]).await.unwrap());
    scene.create_repository("mixed", &remote.url()).await.unwrap();
    scene.healthy("mixed").await.unwrap();
    let done = pulled(&scene, "mixed", false).await;
    assert_eq!(done["status"]["state"], "warning", "{done:#}");
    assert!(done["status"]["warnings"].to_string().contains("capitals.json"), "{done:#}");
    assert_eq!(titles(&scene).await, expect(&[("good", "Good")]));
}

#[tokio::test]
async fn kubectl_tells_the_story_of_a_repository() {
    let remote = Remote::new(files()).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    let _controllers =
        (scene.repository_controller(&[]).await.unwrap(), scene.jobs_controller(&[]).await.unwrap());
    scene.create_repository("story", &remote.url()).await.unwrap();
    scene.healthy("story").await.unwrap();
    pulled(&scene, "story", false).await;
    let shows = |text: &str, expected: &[&str]| {
        for word in expected {
            assert!(text.contains(word), "{word:?} is missing in:\n{text}");
        }
    };
    let row = eventually("the repository shows its sync", || async {
        let table = scene.kubectl(&["get", "repo"]).await?;
        Ok(table.contains("success").then_some(table))
    })
    .await
    .unwrap();
    shows(&row, &["TYPE", "URL", "BRANCH", "HEALTHY", "SYNC", "LAST REF", &remote.url(), "true"]);
    let history = scene.kubectl(&["get", "hjob"]).await.unwrap();
    shows(&history, &["ACTION", "STATE", "MESSAGE", "pull", "success", "completed successfully"]);
    let told = scene.kubectl(&["describe", "repository", "story"]).await.unwrap();
    shows(&told, &["Finalizers", "Resource is available", "Last Ref", "folders"]);
    let category = scene.kubectl(&["get", "windlass"]).await.unwrap();
    shows(&category, &["repository.provisioning.grafana.app/story", "dashboard.dashboard.grafana.app/a"]);
    let explained = scene.kubectl(&["explain", "repository.spec.sync"]).await.unwrap();
    shows(&explained, &["FIELDS:", "intervalSeconds", "target"]);
}

#[tokio::test]
async fn a_kind_that_the_settings_allow_is_followed_like_a_dashboard() {
    let map = |value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: limits}}\ndata: {{most: '{value}'}}\n")
    };
    let files = vec![("limits.yaml".to_owned(), map("10")), ("a.json".to_owned(), dashboard("a", "A"))];
    let remote = Remote::new(files).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    let rule = json!([{"op": "add", "path": "/rules/-", "value": {"apiGroups": [""], "resources": ["configmaps"],
        "verbs": ["get", "list", "create", "patch", "delete"]}}]);
    for role in [&scene.jobs.name, &scene.repositories.name] {
        scene.kubectl(&["patch", "role", role, "--type=json", "-p", &rule.to_string()]).await.unwrap();
        let account = format!("--as=system:serviceaccount:{}:{role}", scene.namespace.name());
        eventually("the right is there", || async {
            scene.kubectl(&["auth", "can-i", "create", "configmaps", &account]).await.map(Some)
        })
        .await
        .unwrap();
    }
    let allowed = [("GF_PROVISIONING_RESOURCE_KINDS", "configmaps")];
    let _controllers = (
        scene.repository_controller(&allowed).await.unwrap(),
        scene.jobs_controller(&allowed).await.unwrap(),
    );
    scene.create_repository("further", &remote.url()).await.unwrap();
    scene.healthy("further").await.unwrap();
    let done = pulled(&scene, "further", false).await;
    assert_eq!(done["status"]["state"], "success", "{done:#}");
    let found = scene.get(&["configmap", "limits"]).await.unwrap();
    assert_eq!(found["data"]["most"], "10", "{found:#}");
    assert_eq!(found["metadata"]["annotations"]["grafana.app/managerId"], "further", "{found:#}");
    remote.commit(vec![("limits.yaml".into(), Some(map("20")))]).await.unwrap();
    assert_eq!(pulled(&scene, "further", true).await["status"]["state"], "success");
    assert_eq!(scene.get(&["configmap", "limits"]).await.unwrap()["data"]["most"], "20");
    scene.kubectl(&["delete", "repository", "further", "--timeout=180s"]).await.unwrap();
    let left = scene.names("configmaps").await.unwrap();
    assert!(!left.contains(&"limits".to_owned()), "{left:?}");
}
