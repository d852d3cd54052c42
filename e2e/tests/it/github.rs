//! A push to GitHub is in the API with nobody having pasted a URL, on the embedded server over TLS and beside a real
//! kube-apiserver.

use std::path::PathBuf;

use serde_json::json;
use windlass_e2e::{Kubectl, Operator, Peers, Scene, Server, dashboard, eventually, free_port, secret};
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::{self, Edit};
use windlass_github_stand_in::{Repository, StandIn};

const TOKEN: &str = "ghp_e2e_t0ken";

/// A GitHub Enterprise Server with one repository.
pub(crate) struct Hub {
    pub(crate) github: StandIn,
    pub(crate) upstream: Repository,
    pub(crate) files: PathBuf,
    _folder: tempfile::TempDir,
}

impl Hub {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("grafana/dash.git");
        seed::commit(&files, "main", [Edit::put("a.json", dashboard("a", "A"))], "first").unwrap();
        let github = StandIn::start_beside(HttpBackend::new(folder.path()).router()).await.unwrap();
        github.allow_token(&secret(TOKEN));
        let upstream = github.repository("grafana/dash");
        Self { github, upstream, files, _folder: folder }
    }

    /// The repository as an object; it is polled once an hour. `token` is what `secure.token` says.
    pub(crate) fn object(&self, token: &serde_json::Value) -> String {
        let url = self.github.url_of(&self.upstream);
        let enterprise = json!({"serverUrl": self.github.api(), "url": url, "branch": "main"});
        let object = json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository", "metadata": {"name": "dash"},
            "spec": {"title": "Dash", "type": "githubEnterprise", "workflows": ["write"],
                "sync": {"enabled": true, "target": "folder", "intervalSeconds": 3600},
                "githubEnterprise": enterprise},
            "secure": {"token": token},
        });
        object.to_string()
    }

    /// An embedded server with both operators, on which the repository is and has its hook and the first title.
    pub(crate) async fn served(&self) -> (Server, Operator, Operator) {
        let server = Server::start(&[self.github.api().to_owned()]).await.unwrap();
        self.upstream.trust(&server.ca_file());
        // GitHub makes no hook for localhost.
        let url = server.url().replace("localhost", "127.0.0.1");
        let public = [("GF_OPERATOR_PROVISIONING_SERVER_PUBLIC_URL", url.as_str())];
        let repositories = Operator::start(&server, "provisioning-repo", &public).await.unwrap();
        let jobs = Operator::start(&server, "provisioning-jobs", &[]).await.unwrap();
        server.kubectl_with(&["apply", "-f", "-"], &self.object(&json!({"create": TOKEN}))).await.unwrap();
        self.hooked(&server).await;
        title(&server, "A").await;
        (server, repositories, jobs)
    }

    /// Pushes, and tells whoever wants to be told; answers what they said.
    pub(crate) async fn push(&self, title: &str) -> Vec<u16> {
        let edit = Edit::put("a.json", dashboard("a", title));
        let commit = seed::commit(&self.files, "main", [edit], "next").unwrap();
        self.upstream.tell_of_push("main", &commit).await
    }

    pub(crate) async fn hooked(&self, kubectl: &Kubectl) {
        let path = "{.status.conditions[?(@.type==\"Webhook\")].reason}";
        says(kubectl, &["get", "repository", "dash"], path, "WebhookConfigured").await;
        assert_eq!(self.upstream.hooks().len(), 1);
    }
}

pub(crate) async fn says(kubectl: &Kubectl, what: &[&str], path: &str, expected: &str) {
    let output = format!("--output=jsonpath={path}");
    let arguments = [what, &[output.as_str()]].concat();
    eventually(&format!("{path} is {expected}"), || async {
        let found = kubectl.kubectl(&arguments).await.unwrap_or_default();
        if found != expected {
            let status =
                kubectl.kubectl(&["get", "repository", "dash", "--output=jsonpath={.status}"]).await?;
            anyhow::bail!("it is {found:?}; the repository's status: {status}");
        }
        Ok(Some(()))
    })
    .await
    .unwrap();
}

pub(crate) async fn title(kubectl: &Kubectl, expected: &str) {
    says(kubectl, &["get", "dashboards.dashboard.grafana.app", "a"], "{.spec.title}", expected).await;
}

/// Each of the stages is told of by one of the operators.
async fn timed(operators: &[&Operator], stages: &[&str]) {
    eventually("every stage is timed", || async {
        let mut told = String::new();
        for operator in operators {
            told += &operator.ask("/metrics").await?.1;
        }
        let name =
            |stage: &str| format!("grafana_provisioning_sync_stage_seconds_count{{stage=\"{stage}\"}}");
        let missing: Vec<&&str> = stages.iter().filter(|stage| !told.contains(&name(stage))).collect();
        anyhow::ensure!(missing.is_empty(), "{missing:?} are not timed");
        Ok(Some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_push_to_github_changes_the_embedded_server_over_tls_and_its_hook_heals() {
    if !Peers::present(&["git", "kubectl"]).unwrap() {
        return;
    }
    let hub = Hub::new().await;
    let (server, repositories, jobs) = hub.served().await;
    assert!(hub.upstream.hooks()[0].url.starts_with("https://127.0.0.1:"));
    assert_eq!(hub.push("B").await, [202]);
    title(&server, "B").await;
    timed(&[&repositories, &jobs], &["claimed", "fetched", "applied", "healthy"]).await;
    assert_eq!(server.ask("/readyz").await.unwrap().0, 200);
    let (_, told) = server.ask("/metrics").await.unwrap();
    for line in [
        "grafana_provisioning_webhook_events_processed_total{job=\"pull\"} 1",
        "grafana_provisioning_sync_stage_seconds_count{stage=\"queued\"} 1",
    ] {
        assert!(told.contains(line), "no {line} in\n{told}");
    }

    hub.upstream.remove_hook(hub.upstream.hooks()[0].id);
    eventually("the hook is back", || async { Ok((!hub.upstream.hooks().is_empty()).then_some(())) })
        .await
        .unwrap();
    assert_eq!(hub.push("C").await, [202]);
    title(&server, "C").await;
    for said in [repositories.process.output(), jobs.process.output()] {
        assert!(!said.contains(TOKEN), "a token is in the log");
    }
}

#[tokio::test]
async fn a_push_to_github_changes_a_real_kube_apiserver() {
    if !Peers::present(&["git"]).unwrap() {
        return;
    }
    let hub = Hub::new().await;
    let Some(scene) = Scene::shared(&[hub.github.api().to_owned()]).await.unwrap() else { return };
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let public = format!("http://{address}");
    let receiving = [
        ("GF_OPERATOR_REPOSITORY_API_ADDRESS", address.as_str()),
        ("GF_OPERATOR_PROVISIONING_SERVER_PUBLIC_URL", public.as_str()),
    ];
    let repositories = scene.repository_controller(&receiving).await.unwrap();
    let jobs = scene.jobs_controller(&[]).await.unwrap();
    let token = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "github", "annotations": {"windlass.dev/urls": hub.github.api()}},
        "stringData": {"token": TOKEN},
    });
    scene.kubectl_with(&["apply", "-f", "-"], &token.to_string()).await.unwrap();
    scene.kubectl_with(&["apply", "-f", "-"], &hub.object(&json!({"name": "github"}))).await.unwrap();
    hub.hooked(&scene).await;
    title(&scene, "A").await;
    assert_eq!(hub.push("B").await, [202]);
    title(&scene, "B").await;
    timed(&[&repositories, &jobs], &["queued", "claimed", "fetched", "applied", "healthy"]).await;
    scene.holds_no_secret(&[TOKEN]).unwrap();

    scene.kubectl(&["delete", "repository", "dash", "--wait=true"]).await.unwrap();
    assert_eq!(hub.upstream.hooks(), [], "it went with its repository");
}
