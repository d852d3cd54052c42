//! What the definitions alone refuse, on a server without our admission.

use std::path::Path;

use serde_json::json;
use windlass_e2e::{Scene, repository};

/// A value that nobody may keep.
const CANARY: &str = "canary-71c3ab4e";

#[tokio::test]
async fn a_raw_secret_is_refused_and_reaches_neither_etcd_nor_a_log() {
    let Some(scene) = Scene::shared(&[]).await.unwrap() else { return };
    let _controllers =
        (scene.repository_controller(&[]).await.unwrap(), scene.jobs_controller(&[]).await.unwrap());
    let mut raw = repository("raw", "https://git.invalid/x.git");
    scene.create(&raw).await.unwrap();
    raw["secure"] = json!({"token": {"create": CANARY}});
    let document = raw.to_string();
    let patch = json!({"secure": {"token": {"create": CANARY}}}).to_string();
    let mut another = raw.clone();
    another["metadata"]["name"] = "another".into();
    let connection = json!({"apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Connection",
        "metadata": {"name": "raw"},
        "spec": {"title": "c", "type": "github", "github": {"appID": "1", "installationID": "2"}},
        "secure": {"privateKey": {"create": CANARY}}});
    let attempts: [(&[&str], &str); 5] = [
        (&["create", "-f", "-"], &another.to_string()),
        (&["create", "-f", "-"], &connection.to_string()),
        (&["replace", "-f", "-"], &document),
        (&["apply", "--server-side", "-f", "-"], &document),
        (&["patch", "repository", "raw", "--type=merge", "-p", &patch], ""),
    ];
    for (arguments, input) in attempts {
        let refused = scene.kubectl_with(arguments, input).await.expect_err("it was let through").to_string();
        assert!(refused.contains("secure."), "{arguments:?}: {refused}");
        let said = refused.replace(&patch, "");
        assert!(!said.contains(CANARY), "{arguments:?}: the refusal repeats the value: {said}");
    }
    assert_eq!(scene.names("repositories").await.unwrap(), ["raw"]);
    scene.holds_no_secret(&[CANARY]).unwrap();
    assert_eq!(holding(scene.cluster.folder(), CANARY), Vec::<String>::new());
}

#[tokio::test]
async fn a_job_that_makes_no_sense_is_refused_by_the_server() {
    let Some(scene) = Scene::shared(&[]).await.unwrap() else { return };
    let refused = |spec: serde_json::Value| {
        let job = json!({"apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Job",
            "metadata": {"name": "bad"}, "spec": spec});
        let scene = &scene;
        async move { scene.create(&job).await.expect_err("it was let through").to_string() }
    };
    let unknown = refused(json!({"action": "dance", "repository": "r"})).await;
    assert!(unknown.contains("spec.action"), "{unknown}");
    let mixed = refused(json!({"action": "pull", "repository": "r", "pull": {}, "push": {}})).await;
    assert!(mixed.contains("spec.push"), "{mixed}");
    let typo = refused(json!({"action": "pull", "repository": "r", "pul": {}})).await;
    assert!(typo.contains("pul"), "{typo}");
}

/// The files under a folder that contain `text`.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path)
                && bytes.windows(text.len()).any(|window| window == text.as_bytes())
            {
                found.push(path.display().to_string());
            }
        }
    }
    found
}
