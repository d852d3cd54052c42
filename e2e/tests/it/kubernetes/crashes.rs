//! Many jobs, several controllers, and a kill every few seconds. It takes longest, so its name comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_e2e::{Operator, Remote, Scene, dashboard, eventually, job};

/// Jobs in all.
const JOBS: usize = 200;
/// Kills: one every three seconds make a minute.
const KILLS: usize = 20;
const BETWEEN_KILLS: Duration = Duration::from_secs(3);
/// Repositories that are pulled meanwhile, in turn.
const REPOSITORIES: usize = 4;
/// Files of each.
const FILES: usize = 5;

/// Leases that lapse soon, and no end to attempts: nothing is wrong with the jobs.
const SETTINGS: [(&str, &str); 5] = [
    ("GF_OPERATOR_LEASE_EXPIRY", "3s"),
    ("GF_OPERATOR_LEASE_RENEWAL_INTERVAL", "1s"),
    ("GF_OPERATOR_JOB_INTERVAL", "2s"),
    ("GF_OPERATOR_CONCURRENT_DRIVERS", "4"),
    ("GF_OPERATOR_MAX_ATTEMPTS", "1000"),
];

/// The jobs that come between two kills: a pull, and tests of which some take long enough to be killed in.
fn batch(round: usize) -> Vec<Value> {
    let repository = format!("r{}", round % REPOSITORIES);
    let pull = json!({"action": "pull", "pull": {"incremental": false}});
    let mut jobs = vec![job(&format!("pull-{round}"), &repository, &pull)];
    for number in 1..JOBS / KILLS {
        let duration = if number % 3 == 0 { "2500ms" } else { "300ms" };
        let test = json!({"action": "test", "test": {"duration": duration, "progressUpdates": 0}});
        jobs.push(job(&format!("test-{round}-{number}"), &format!("r{}", number % REPOSITORIES), &test));
    }
    jobs
}

#[tokio::test]
async fn every_job_is_in_history_once_although_controllers_are_killed_for_a_minute() {
    let file = |repository: usize, number: usize| {
        let name = format!("r{repository}-d{number}");
        (format!("team-{}/{name}.json", number % 2), dashboard(&name, &name))
    };
    let mut remotes = Vec::new();
    for repository in 0..REPOSITORIES {
        let files = (0..FILES).map(|number| file(repository, number)).collect();
        remotes.push(Remote::new(files).await.unwrap());
    }
    let origins: Vec<String> = remotes.iter().map(|remote| remote.origin()).collect();
    let Some(scene) = Scene::shared(&origins).await.unwrap() else { return };
    let _repositories = scene.repository_controller(&[]).await.unwrap();
    for (number, remote) in remotes.iter().enumerate() {
        scene.create_repository(&format!("r{number}"), &remote.url()).await.unwrap();
    }
    for number in 0..REPOSITORIES {
        scene.healthy(&format!("r{number}")).await.unwrap();
    }
    let spawn = || scene.spawn(windlass_e2e::Controller::Jobs, &[], &SETTINGS).unwrap();
    let mut running: Vec<Operator> = (0..3).map(|_| spawn()).collect();
    let mut ended: Vec<Operator> = Vec::new();
    for operator in &running {
        operator.ready().await.unwrap();
    }

    let mut uids = BTreeSet::new();
    let mut pace = tokio::time::interval(BETWEEN_KILLS);
    for round in 0..KILLS {
        pace.tick().await;
        let documents: Vec<String> = batch(round).iter().map(Value::to_string).collect();
        let created =
            scene.kubectl_with(&["create", "-o", "json", "-f", "-"], &documents.join("\n")).await.unwrap();
        uids.extend(created_uids(&created));
        let mut victim = std::mem::replace(&mut running[round % 3], spawn());
        victim.process.kill().await.unwrap();
        ended.push(victim);
    }
    assert_eq!(uids.len(), JOBS);

    let filed = eventually("every job is in history", || async {
        let items = scene.items(&["historicjobs"]).await?;
        if items.len() < JOBS {
            anyhow::bail!("{} of {JOBS}", items.len());
        }
        Ok(Some(items))
    })
    .await
    .unwrap();
    assert_eq!(filed.len(), JOBS, "a job is in history twice");
    let original = |job: &Value| {
        job["metadata"]["labels"]["provisioning.grafana.app/original-uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(filed.iter().map(original).collect::<BTreeSet<_>>(), uids);
    for job in filed.iter().filter(|job| job["spec"]["action"] == "test") {
        assert_eq!(job["status"]["state"], "success", "{job:#}");
    }
    eventually("no job is left", || async {
        let left = scene.names("jobs.provisioning.grafana.app").await?;
        if !left.is_empty() {
            anyhow::bail!("left: {left:?}");
        }
        Ok(Some(()))
    })
    .await
    .unwrap();

    let mut attempts: BTreeMap<u64, usize> = BTreeMap::new();
    for operator in running.iter().chain(&ended) {
        for line in operator.lines("job started") {
            *attempts.entry(line["attempt"].as_u64().unwrap()).or_default() += 1;
        }
    }
    let again: usize = attempts.range(2..).map(|(_, count)| count).sum();
    assert!(again > 0, "no job was taken over from a killed controller: starts by attempt {attempts:?}");

    // What killed pulls left behind is made good by the next one, without a thing made twice.
    for number in 0..REPOSITORIES {
        let done = super::pulled(&scene, &format!("r{number}"), false).await;
        assert_eq!(done["status"]["state"], "success", "{done:#}");
    }
    let mut expected: Vec<String> = (0..REPOSITORIES)
        .flat_map(|repository| (0..FILES).map(move |number| format!("r{repository}-d{number}")))
        .collect();
    expected.sort();
    assert_eq!(scene.names("dashboards").await.unwrap(), expected);
    let folders = scene.names("folders").await.unwrap();
    assert_eq!(folders.len(), REPOSITORIES * 3, "one a repository and two inside: {folders:?}");
}

/// The UIDs of what kubectl says that it created: one document after another, or a list.
fn created_uids(text: &str) -> Vec<String> {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
    serde_json::Deserializer::from_str(text)
        .into_iter::<Value>()
        .filter_map(Result::ok)
        .flat_map(|value| match value["items"].as_array() {
            Some(items) => items.iter().filter_map(uid).collect::<Vec<_>>(),
            None => uid(&value).into_iter().collect(),
        })
        .collect()
}
