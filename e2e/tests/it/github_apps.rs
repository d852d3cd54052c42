//! GitHub Apps: tokens that end, and Apps that go away.

use std::time::Duration;

use secrecy::ExposeSecret as _;
use serde_json::json;
use windlass_e2e::{Operator, Peers, Server, dashboard, eventually};
use windlass_git_server::seed::{self, Edit};
use windlass_github_stand_in::InstalledApp;

use crate::github::{Hub, says, title};

impl Hub {
    /// A connection of the App.
    fn connection(&self, name: &str, app: &InstalledApp) -> String {
        let object = json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Connection", "metadata": {"name": name},
            "spec": {"title": name, "type": "githubEnterprise", "githubEnterprise": {
                "serverUrl": self.github.api(), "appID": app.id, "installationID": app.installation.to_string()}},
            "secure": {"privateKey": {"create": app.private_key.expose_secret()}},
        });
        object.to_string()
    }

    /// A repository of the one of this name in GitHub's `grafana`, by way of a connection.
    fn connected(&self, name: &str, connection: &str) -> String {
        let url = self.github.url_of(&self.github.repository(&format!("grafana/{name}")));
        let object = json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository", "metadata": {"name": name},
            "spec": {"title": name, "type": "githubEnterprise", "workflows": [], "connection": {"name": connection},
                "sync": {"enabled": true, "target": "folder", "intervalSeconds": 60},
                "githubEnterprise": {"serverUrl": self.github.api(), "url": url, "branch": "main"}},
        });
        object.to_string()
    }
}

#[tokio::test]
async fn a_token_that_ends_in_the_middle_of_a_pull_is_replaced_and_the_pull_ends_well() {
    if !Peers::present(&["git", "kubectl"]).unwrap() {
        return;
    }
    let hub = Hub::new().await;
    let server = Server::start(&[hub.github.api().to_owned()]).await.unwrap();
    let _repositories = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let jobs = Operator::start(&server, "provisioning-jobs", &[]).await.unwrap();
    hub.github.guard_git();
    hub.github.let_tokens_live(Duration::from_secs(10));
    hub.github.hold_transfers();
    let app = hub.github.install_app("12345", 67);
    server.kubectl_with(&["apply", "-f", "-"], &hub.connection("app", &app)).await.unwrap();
    server.kubectl_with(&["apply", "-f", "-"], &hub.connected("dash", "app")).await.unwrap();
    let token = eventually("the pull asks for the files", || async { Ok(hub.github.held_transfers().pop()) })
        .await
        .unwrap();
    eventually("its token has ended, and there is another", || async {
        let ended = !hub.github.lets_in(&token) && hub.github.minted() > 1;
        Ok(ended.then_some(()))
    })
    .await
    .unwrap();
    hub.github.let_transfers_go_on();
    title(&server, "A").await;
    let state = "{.items[*].status.state}";
    says(&server, &["get", "historicjobs"], state, "success").await;
    let begun_again = jobs.lines(
        "the repository's token is not good any more; the pull begins again with the one that is there now",
    );
    // More than once where the machine is slower than a token lives.
    assert!(!begun_again.is_empty(), "the pull met the end of its token");
    assert!(!jobs.process.output().contains(token.expose_secret()), "a token is in the log");
}

#[tokio::test]
async fn an_app_that_goes_away_is_told_by_name_and_other_repositories_go_on() {
    if !Peers::present(&["git", "kubectl"]).unwrap() {
        return;
    }
    let hub = Hub::new().await;
    let lost = hub.files.with_file_name("lost.git");
    seed::commit(&lost, "main", [Edit::put("b.json", dashboard("b", "B"))], "first").unwrap();
    let server = Server::start(&[hub.github.api().to_owned()]).await.unwrap();
    let _repositories = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let _jobs = Operator::start(&server, "provisioning-jobs", &[]).await.unwrap();
    hub.github.guard_git();
    let good = hub.github.install_app("12345", 67);
    let bad = hub.github.install_app("99", 5);
    for (name, app) in [("good", &good), ("bad", &bad)] {
        server.kubectl_with(&["apply", "-f", "-"], &hub.connection(name, app)).await.unwrap();
    }
    server.kubectl_with(&["apply", "-f", "-"], &hub.connected("dash", "good")).await.unwrap();
    // Its tokens are replaced all the time, so that it notices soon.
    hub.github.let_tokens_live(Duration::from_secs(10));
    server.kubectl_with(&["apply", "-f", "-"], &hub.connected("lost", "bad")).await.unwrap();
    title(&server, "A").await;
    let ready = "{.status.conditions[?(@.type==\"Ready\")].status}";
    says(&server, &["get", "repository", "lost"], ready, "True").await;

    hub.github.delete_app("99");
    let reason = "{.status.conditions[?(@.type==\"Token\")].reason}";
    let message = "{.status.conditions[?(@.type==\"Token\")].message}";
    says(&server, &["get", "repository", "lost"], ready, "False").await;
    let output = format!("--output=jsonpath={message}");
    // That its token is refused may be told first.
    let told = eventually("the repository says what became of its App", || async {
        let told = server.kubectl(&["get", "repository", "lost", &output]).await?;
        anyhow::ensure!(told.contains("connection \"bad\"") && told.contains("no App 99 any more"), "{told}");
        Ok(Some(()))
    });
    told.await.unwrap();
    // A connection is looked at every five minutes, and when somebody changes it.
    let patch = r#"{"spec": {"title": "Bad"}}"#;
    server.kubectl(&["patch", "connection", "bad", "--type=merge", "-p", patch]).await.unwrap();
    says(&server, &["get", "connection", "bad"], ready, "False").await;
    says(&server, &["get", "connection", "bad"], reason, "TokenInvalid").await;
    let told = server.kubectl(&["get", "connection", "bad", &output]).await.unwrap();
    assert!(told.contains("no App 99 any more"), "{told}");

    says(&server, &["get", "connection", "good"], ready, "True").await;
    hub.push("B").await;
    let pull = json!({"action": "pull", "pull": {"incremental": true}});
    server.post_job("dash", &pull).await.unwrap();
    title(&server, "B").await;
    says(&server, &["get", "repository", "dash"], ready, "True").await;
}
