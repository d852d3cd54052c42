//! The sub-resources of repositories beside a real kube-apiserver: callers by `TokenReview`, rights by
//! `SubjectAccessReview`.

use std::time::Duration;

use serde_json::Value;
use windlass_e2e::{Remote, Scene, dashboard, deployed, eventually, free_port};

/// One request: the code and the answer.
async fn ask(method: &str, url: &str, token: Option<&str>, body: &str) -> anyhow::Result<(u16, Value)> {
    let client = reqwest::Client::new();
    let mut request = client.request(method.parse()?, url).body(body.to_owned());
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = request.send().await?;
    Ok((answer.status().as_u16(), serde_json::from_slice(&answer.bytes().await?).unwrap_or_default()))
}

#[tokio::test]
async fn a_caller_is_asked_for_its_token_and_held_to_its_role() {
    let remote = Remote::new(vec![("a.json".to_owned(), dashboard("a", "A"))]).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    let port = free_port().unwrap();
    let address = format!("127.0.0.1:{port}");
    let controller =
        scene.repository_controller(&[("GF_OPERATOR_REPOSITORY_API_ADDRESS", &address)]).await.unwrap();
    scene.create_repository("r", &remote.url()).await.unwrap();
    scene.healthy("r").await.unwrap();

    let namespace = scene.namespace.name();
    scene.kubectl(&["create", "serviceaccount", "alice"]).await.unwrap();
    scene.kubectl(&["create", "serviceaccount", "bob"]).await.unwrap();
    scene.kubectl(&["apply", "-f", &deployed("rbac/users.yaml").display().to_string()]).await.unwrap();
    for role in ["windlass-edit", "windlass-view"] {
        let account = format!("--serviceaccount={namespace}:alice");
        let (name, role) = (format!("alice-{role}"), format!("--clusterrole={role}"));
        scene.kubectl(&["create", "rolebinding", &name, &role, &account]).await.unwrap();
    }
    let hour = Duration::from_hours(1);
    let alice = scene.namespace.token("alice", hour).await.unwrap();
    let bob = scene.namespace.token("bob", hour).await.unwrap();
    let base = format!(
        "http://{address}/apis/provisioning.grafana.app/v0alpha1/namespaces/{namespace}/repositories/r"
    );

    // Without its own right to ask, nobody is let in, and nobody is told that it is their fault.
    let (code, answer) = ask("GET", &format!("{base}/jobs"), Some(&alice), "").await.unwrap();
    assert_eq!(code, 503, "{answer:#}");
    let delegator = std::fs::read_to_string(deployed("rbac/token-review.yaml")).unwrap();
    let delegator = delegator
        .replace("namespace: windlass", &format!("namespace: {namespace}"))
        .replace("windlass-repository-controller-token-review", &format!("token-review-{namespace}"));
    scene.kubectl_with(&["apply", "-f", "-"], &delegator).await.unwrap();
    eventually("alice is let in", || async {
        let (code, _) = ask("GET", &format!("{base}/jobs"), Some(&alice), "").await?;
        Ok((code == 200).then_some(()))
    })
    .await
    .unwrap();

    let (code, answer) = ask("POST", &format!("{base}/test"), Some(&alice), "").await.unwrap();
    assert_eq!((code, &answer["success"]), (200, &true.into()), "{answer:#}");
    let (code, job) = ask("POST", &format!("{base}/jobs"), Some(&alice), r#"{"action": "pull", "pull": {}}"#)
        .await
        .unwrap();
    assert_eq!((code, &job["metadata"]["name"]), (202, &"r-sync".into()), "{job:#}");
    let (code, answer) = ask("GET", &format!("{base}/resources"), Some(&alice), "").await.unwrap();
    assert_eq!(code, 200, "{answer:#}");

    let (code, answer) = ask("POST", &format!("{base}/jobs"), Some(&bob), "{}").await.unwrap();
    let refusal = format!(
        "repositories.provisioning.grafana.app \"r\" is forbidden: User \"system:serviceaccount:{namespace}:bob\" \
         cannot create resource \"repositories/jobs\" in API group \"provisioning.grafana.app\" in the namespace \
         \"{namespace}\""
    );
    assert_eq!((code, answer["message"].as_str()), (403, Some(refusal.as_str())));
    let elsewhere = scene
        .kubectl(&["create", "token", "alice", "--audience=https://elsewhere.example.com"])
        .await
        .unwrap();
    for stranger in [None, Some("x.y.z"), Some(elsewhere.trim())] {
        let (code, answer) = ask("GET", &format!("{base}/jobs"), stranger, "").await.unwrap();
        assert_eq!((code, &answer["reason"]), (401, &"Unauthorized".into()), "{answer:#}");
    }
    scene.kubectl(&["delete", "clusterrolebinding", &format!("token-review-{namespace}")]).await.unwrap();
    let said = controller.process.output();
    assert!(!said.contains(&alice) && !said.contains(&bob), "a token is in the log");
}
