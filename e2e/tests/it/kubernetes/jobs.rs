//! Jobs as plain objects, without the API beside the repository controller.

use serde_json::json;
use windlass_e2e::{Remote, Scene, dashboard};

use super::{expect, titles};

#[tokio::test]
async fn a_job_that_kubectl_creates_is_run_whatever_its_name_and_labels() {
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    let _controllers =
        (scene.repository_controller(&[]).await.unwrap(), scene.jobs_controller(&[]).await.unwrap());
    scene.create_repository("plain", &remote.url()).await.unwrap();
    scene.healthy("plain").await.unwrap();
    let job = |metadata, spec| {
        json!({"apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Job",
            "metadata": metadata, "spec": spec})
    };
    let pull = json!({"action": "pull", "repository": "plain", "pull": {}});
    let filed = scene.run_job(&job(json!({"generateName": "of-mine-"}), pull)).await.unwrap();
    assert_eq!(filed["status"]["state"], "success", "{filed:#}");
    assert_eq!(filed["metadata"]["labels"]["provisioning.grafana.app/repository"], "plain", "{filed:#}");
    assert_eq!(titles(&scene).await, expect(&[("a", "A")]));
    let test = json!({"action": "test", "repository": "plain", "test": {"duration": "100ms"}});
    let filed = scene.run_job(&job(json!({"name": "t"}), test)).await.unwrap();
    assert_eq!(filed["status"]["state"], "success", "{filed:#}");
    let missing = json!({"action": "pull", "repository": "nowhere", "pull": {}});
    let filed = scene.run_job(&job(json!({"name": "lost"}), missing)).await.unwrap();
    assert_eq!(filed["status"]["state"], "error", "{filed:#}");
    assert!(filed["status"]["message"].as_str().unwrap().contains("nowhere"), "{filed:#}");
    assert_eq!(scene.names("jobs.provisioning.grafana.app").await.unwrap(), Vec::<String>::new());
}
