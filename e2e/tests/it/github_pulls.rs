//! What a pull request would do is told on it, and follows it.

use std::time::Duration;

use serde_json::json;
use windlass_e2e::{Operator, Peers, dashboard, eventually};
use windlass_git_server::seed::{self, Edit};
use windlass_github_stand_in::Fault;

use crate::github::{Hub, title};

impl Hub {
    /// Moves the pull request's branch on, and tells of it; answers what was said to that.
    async fn propose(&self, number: u64, action: &str, title: &str) -> Vec<u16> {
        let edit = Edit::put("a.json", dashboard("a", title));
        let commit = seed::commit(&self.files, "feature", [edit], "proposed").unwrap();
        let page = format!("{}/grafana/dash/pull/{number}", self.github.api());
        let pull =
            json!({"html_url": page, "base": {"ref": "main"}, "head": {"ref": "feature", "sha": commit}});
        let payload = json!({"action": action, "number": number, "pull_request": pull,
            "repository": {"full_name": "grafana/dash"}});
        self.upstream.tell("pull_request", &payload).await
    }

    /// Waits until the last of so many comments says this.
    async fn commented(&self, number: u64, count: usize, text: &str) {
        eventually(&format!("comment {count} says {text:?}"), || async {
            let told = self.upstream.comments(number);
            let is_so = told.len() == count && told.last().is_some_and(|last| last.body.contains(text));
            anyhow::ensure!(is_so, "{told:#?}");
            Ok(Some(()))
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn a_pull_request_gets_one_comment_that_follows_it_or_one_each_time_where_that_is_asked_for() {
    if !Peers::present(&["git", "kubectl"]).unwrap() {
        return;
    }
    let hub = Hub::new().await;
    let (server, _repositories, mut jobs) = hub.served().await;

    seed::commit(&hub.files, "feature", [Edit::put("a.json", dashboard("a", "A"))], "begun").unwrap();
    let number = hub.upstream.open_pull("Change", "feature", &[("a.json", "modified", None)]);
    assert_eq!(hub.propose(number, "opened", "First").await, [202]);
    hub.commented(number, 1, "First").await;
    assert_eq!(hub.propose(number, "synchronize", "Second").await, [202]);
    hub.commented(number, 1, "Second").await;
    title(&server, "A").await;

    // A comment that is under way when the process is to end is awaited, and the job is done.
    hub.github.fail("/issues/comments/", 1, Fault::Late(Duration::from_secs(2)));
    assert_eq!(hub.propose(number, "synchronize", "Third").await, [202]);
    hub.commented(number, 1, "Third").await;
    jobs.process.signal("TERM").await.unwrap();
    jobs.process.end(windlass_e2e::DEADLINE).await.unwrap();
    assert_eq!(server.names("jobs.provisioning.grafana.app").await.unwrap(), [""; 0]);

    let each = [("GF_OPERATOR_PULL_REQUEST_COMMENT_EACH", "true")];
    let _jobs = Operator::start(&server, "provisioning-jobs", &each).await.unwrap();
    assert_eq!(hub.propose(number, "synchronize", "Fourth").await, [202]);
    hub.commented(number, 2, "Fourth").await;
}
