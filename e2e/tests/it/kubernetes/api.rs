//! The sub-resources of repositories that the repository controller answers, for callers that the API server knows.

use serde_json::{Value, json};
use windlass_e2e::{Remote, Scene, dashboard, deployed, eventually, free_port};

use super::{expect, pull, titles};

/// An account that may do this to repositories' jobs, and nothing else.
fn account(name: &str, verbs: &[&str]) -> String {
    let documents = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": ["provisioning.grafana.app"], "resources": ["repositories/jobs"], "verbs": verbs}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name}]}),
    ];
    documents.map(|document| document.to_string()).join("\n---\n")
}

/// Asks for a job, with a token or without one.
async fn post(url: &str, token: Option<&str>, spec: &Value) -> anyhow::Result<(u16, Value)> {
    let mut request =
        reqwest::Client::new().post(url).header("content-type", "application/json").body(spec.to_string());
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let answer = request.send().await?;
    let code = answer.status().as_u16();
    Ok((code, serde_json::from_str(&answer.text().await?)?))
}

#[tokio::test]
async fn a_job_is_asked_for_by_whoever_the_api_server_lets() {
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    // What asks the API server about callers is a Role of its own.
    let both = ["rbac/repository-controller.yaml", "rbac/token-review.yaml"]
        .map(|file| std::fs::read_to_string(deployed(file)).unwrap())
        .join("\n---\n");
    scene.namespace.service_account_from(&both).await.unwrap();
    let may = scene.namespace.service_account_from(&account("poster", &["create", "get"])).await.unwrap();
    let may_not = scene.namespace.service_account_from(&account("reader", &["get"])).await.unwrap();
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let serving = [("GF_OPERATOR_REPOSITORY_API_ADDRESS", address.as_str())];
    let controller = scene.repository_controller(&serving).await.unwrap();
    let _jobs = scene.jobs_controller(&[]).await.unwrap();
    scene.create_repository("asked", &remote.url()).await.unwrap();
    scene.healthy("asked").await.unwrap();

    let namespace = scene.namespace.name();
    let url = format!(
        "http://{address}/apis/provisioning.grafana.app/v0alpha1/namespaces/{namespace}/repositories/asked/jobs"
    );
    for token in [None, Some("nonsense")] {
        let (code, status) = post(&url, token, &pull(false)).await.unwrap();
        assert_eq!((code, &status["reason"]), (401, &json!("Unauthorized")), "{status:#}");
    }
    let (code, status) = post(&url, Some(&may_not.token), &pull(false)).await.unwrap();
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")), "{status:#}");
    let (code, status) =
        post(&url.replace(namespace, "default"), Some(&may.token), &pull(false)).await.unwrap();
    assert!(code == 403 || code == 404, "another namespace: {code} {status:#}");
    assert_eq!(scene.items(&["historicjobs"]).await.unwrap(), Vec::<Value>::new());

    let (code, job) = post(&url, Some(&may.token), &pull(false)).await.unwrap();
    assert_eq!((code, &job["kind"]), (202, &json!("Job")), "{job:#}");
    let uid = job["metadata"]["uid"].as_str().unwrap();
    let filed = scene.filed(uid).await.unwrap();
    assert_eq!(filed["status"]["state"], "success", "{filed:#}");
    assert_eq!(titles(&scene).await, expect(&[("a", "A")]));
    let listed = eventually("the finished job is answered", || async {
        let answer =
            reqwest::Client::new().get(format!("{url}/{uid}")).bearer_auth(&may_not.token).send().await?;
        Ok(Some(answer.json::<Value>().await?))
    })
    .await
    .unwrap();
    assert_eq!(listed["status"]["state"], "success", "{listed:#}");
    scene.holds_no_secret(&[&may.token, &may_not.token]).unwrap();
    drop(controller);
}
