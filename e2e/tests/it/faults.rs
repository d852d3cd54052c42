//! Programs that are killed in the middle of their work.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};
use windlass_e2e::{DEADLINE, Operator, Peers, Remote, Server, dashboard, eventually};

/// Enough files for a pull to be killed in the middle.
const FILES: usize = 1500;

/// A short lease, so that a test need not wait a minute for it to lapse.
const SHORT_LEASE: [(&str, &str); 5] = [
    ("GF_OPERATOR_LEASE_EXPIRY", "10s"),
    ("GF_OPERATOR_LEASE_RENEWAL_INTERVAL", "3s"),
    ("GF_OPERATOR_JOB_INTERVAL", "2s"),
    ("GF_OPERATOR_MAX_ATTEMPTS", "100"),
    ("GF_OPERATOR_MAX_SYNC_WORKERS", "1"),
];

async fn names(server: &Server) -> anyhow::Result<BTreeSet<String>> {
    let list = server.get(&["dashboards"]).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    Ok(items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

/// Waits until a pull has begun to write dashboards. The server's own figures are seen sooner than a list by kubectl, which
/// on a busy machine may take longer than the rest of the pull.
async fn under_way(server: &Server) {
    let until = Instant::now() + DEADLINE;
    loop {
        let (_, told) = server.ask("/metrics").await.unwrap();
        let written = told.lines().any(|line| {
            line.starts_with("apiserver_request_total{")
                && line.contains("resource=\"dashboards\"")
                && line.contains("verb=\"POST\"")
        });
        if written {
            return;
        }
        assert!(Instant::now() < until, "nothing is written: {told}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_pull_whose_controller_is_killed_is_taken_over_and_ends_once() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let file =
        |number: usize| (format!("f{:02}/{number}.json", number % 20), dashboard(&format!("d{number}"), "D"));
    let remote = Remote::new((0..FILES).map(file).collect()).await.unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let mut first = Operator::start(&server, "provisioning-jobs", &SHORT_LEASE).await.unwrap();
    server.create_repository("large", &remote.url()).await.unwrap();
    server.healthy("large").await.unwrap();
    let job =
        server.post_job("large", &json!({"action": "pull", "pull": {"incremental": false}})).await.unwrap();
    let uid = job["metadata"]["uid"].as_str().unwrap();
    under_way(&server).await;
    first.process.kill().await.unwrap();
    let halfway = names(&server).await.unwrap().len();
    assert!(halfway < FILES, "the pull was over before it could be killed");

    let second = Operator::start(&server, "provisioning-jobs", &SHORT_LEASE).await.unwrap();
    let filed = server.filed(uid).await.unwrap();
    assert_eq!(filed["status"]["state"], "success", "{filed:#}\n{}", second.process.output());
    let held = names(&server).await.unwrap();
    assert_eq!(held.len(), FILES);
    assert_eq!(held, (0..FILES).map(|number| format!("d{number}")).collect());
    let history = server.get(&["historicjobs"]).await.unwrap();
    assert_eq!(history["items"].as_array().unwrap().len(), 1, "{history:#}");
    let queue = server.get(&["jobs.provisioning.grafana.app"]).await.unwrap();
    assert_eq!(queue["items"].as_array().unwrap().len(), 0, "{queue:#}");
}

#[tokio::test]
async fn a_paused_controller_changes_nothing_after_its_lease_lapsed() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let first = Operator::start(&server, "provisioning-jobs", &SHORT_LEASE).await.unwrap();
    server.create_repository("paused", &remote.url()).await.unwrap();
    server.healthy("paused").await.unwrap();
    let spec = json!({"action": "test", "test": {"duration": "20s", "progressUpdates": 10}});
    let job = server.post_job("paused", &spec).await.unwrap();
    let uid = job["metadata"]["uid"].as_str().unwrap().to_owned();
    eventually("the job is claimed", || async {
        let jobs = server.get(&["jobs.provisioning.grafana.app"]).await?;
        Ok((jobs["items"][0]["status"]["state"] == "working").then_some(()))
    })
    .await
    .unwrap();
    first.process.signal("STOP").await.unwrap();
    let _second = Operator::start(&server, "provisioning-jobs", &SHORT_LEASE).await.unwrap();
    let filed = server.filed(&uid).await.unwrap();
    assert_eq!(filed["status"]["state"], "success", "{filed:#}");
    let version = filed["metadata"]["resourceVersion"].clone();
    first.process.signal("CONT").await.unwrap();
    eventually("the paused controller notices", || async {
        let said = first.process.output();
        Ok(said.contains("lease was lost").then_some(()))
    })
    .await
    .unwrap();
    let history = server.get(&["historicjobs"]).await.unwrap();
    assert_eq!(history["items"].as_array().unwrap().len(), 1, "{history:#}");
    assert_eq!(history["items"][0]["metadata"]["resourceVersion"], version);
}

#[tokio::test]
async fn an_api_server_that_is_killed_keeps_what_it_answered_and_operators_come_back() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let mut server = Server::start(&[remote.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let _jobs = Operator::start(&server, "provisioning-jobs", &[]).await.unwrap();
    server.create_repository("durable", &remote.url()).await.unwrap();
    server.healthy("durable").await.unwrap();
    server.pull("durable", false).await.unwrap();
    let before: Value = server.get(&["repository", "durable"]).await.unwrap();
    server.process.kill().await.unwrap();
    server.restart().await.unwrap();
    let after: Value = server.get(&["repository", "durable"]).await.unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["status"]["sync"], before["status"]["sync"]);
    remote.commit(vec![("b.json".to_owned(), Some(dashboard("b", "B")))]).await.unwrap();
    let filed = server.pull("durable", true).await.unwrap();
    assert_eq!(filed["status"]["state"], "success", "{filed:#}");
    assert_eq!(names(&server).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_controller_that_is_told_to_end_gives_its_job_back() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let mut first = Operator::start(&server, "provisioning-jobs", &[]).await.unwrap();
    server.create_repository("back", &remote.url()).await.unwrap();
    server.healthy("back").await.unwrap();
    server.post_job("back", &json!({"action": "test", "test": {"duration": "10m"}})).await.unwrap();
    eventually("the job is claimed", || async {
        let jobs = server.get(&["jobs.provisioning.grafana.app"]).await?;
        Ok((jobs["items"][0]["status"]["state"] == "working").then_some(()))
    })
    .await
    .unwrap();
    first.process.signal("TERM").await.unwrap();
    assert_eq!(first.process.end(std::time::Duration::from_secs(30)).await.unwrap(), 0);
    let jobs = server.get(&["jobs.provisioning.grafana.app"]).await.unwrap();
    let job = &jobs["items"][0];
    assert_eq!(job["status"]["state"], "pending", "{job:#}");
    assert_eq!(job["metadata"]["labels"]["provisioning.grafana.app/claim"], Value::Null, "{job:#}");
}

#[tokio::test]
async fn a_pull_outlives_a_restart_of_the_api_server() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let file =
        |number: usize| (format!("f{:02}/{number}.json", number % 20), dashboard(&format!("d{number}"), "D"));
    let remote = Remote::new((0..FILES).map(file).collect()).await.unwrap();
    let mut server = Server::start(&[remote.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let jobs = Operator::start(&server, "provisioning-jobs", &[("GF_OPERATOR_MAX_SYNC_WORKERS", "2")])
        .await
        .unwrap();
    server.create_repository("outage", &remote.url()).await.unwrap();
    server.healthy("outage").await.unwrap();
    let job =
        server.post_job("outage", &json!({"action": "pull", "pull": {"incremental": false}})).await.unwrap();
    under_way(&server).await;
    server.process.kill().await.unwrap();
    server.restart().await.unwrap();
    let filed = server.filed(job["metadata"]["uid"].as_str().unwrap()).await.unwrap();
    assert_eq!(filed["status"]["state"], "success", "{filed:#}\n{}", jobs.process.output());
    assert_eq!(names(&server).await.unwrap().len(), FILES);
    let repository = server.get(&["repository", "outage"]).await.unwrap();
    assert_eq!(repository["status"]["sync"]["state"], "success", "{repository:#}");
}
