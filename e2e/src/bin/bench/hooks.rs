//! Webhooks: deliveries that are answered and refused, and from a push to the changed dashboard.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::hmac;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use windlass_e2e::{Operator, Remote, Server, dashboard, eventually};

use crate::api::{Api, DASHBOARDS, JOBS, REPOSITORIES};
use crate::samples::Samples;
use crate::scene::{self, Fleet};
use crate::table::{Row, Table, Target, Unit};

const SECRET: &str = "a-secret-of-the-benchmark";
/// Deliveries, and how long after one another; over so many repositories, since each takes ten a second for long.
const DELIVERIES: usize = 2_500;
const EVERY: Duration = Duration::from_millis(2);
const REPOSITORIES_MADE: usize = 100;
/// Deliveries without a good signature, and who sends them.
const UNSIGNED: usize = 40_000;
const SENDERS: usize = 16;
/// Pushes that are followed to their dashboards.
const PUSHES: usize = 40;

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    let fleet = Fleet::start(REPOSITORIES_MADE, |document| {
        document["spec"]["sync"]["enabled"] = true.into();
        document["secure"] = json!({"webhookSecret": {"create": SECRET}});
    });
    let Fleet { server, api, remote, names, .. } = &fleet.await?;
    let body = push_event(remote)?;
    answered(table, api, names, &body).await?;
    let jobs = Operator::start(server, "provisioning-jobs", &[]).await?;
    followed(table, api, remote, &names[0], &body).await?;
    drop(jobs);
    // Last: nothing is taken any more from an address that was wrong so often.
    refused(table, api, server, names, &body).await
}

/// What a forge says of a push.
fn push_event(remote: &Remote) -> Result<String> {
    let url = remote.url();
    let path = url.rsplit('/').next().context("the URL has no path")?;
    let event = json!({
        "ref": "refs/heads/main", "after": "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c",
        "repository": {"id": 7, "full_name": path.trim_end_matches(".git")},
    });
    Ok(event.to_string())
}

fn path_of(name: &str) -> String {
    format!("{REPOSITORIES}/{name}/webhook")
}

/// Signed deliveries at a pace; nobody runs the pulls that they queue.
async fn answered(table: &mut Table, api: &Api, names: &[String], body: &str) -> Result<()> {
    let signature = sign(body);
    let mut interval = tokio::time::interval(EVERY);
    interval.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut tasks = JoinSet::new();
    for number in 0..DELIVERIES {
        interval.tick().await;
        let (api, path) = (api.clone(), path_of(&names[number % names.len()]));
        let (body, signature) = (body.to_owned(), signature.clone());
        tasks.spawn(async move {
            let begun = Instant::now();
            let code = api.deliver(&path, body, &signature).await?;
            ensure!(code == 202, "a delivery was answered with {code}");
            Ok(begun.elapsed())
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        times.push(ended??);
    }
    let times = Samples::millis(times);
    let p99 = Samples::one(times.percentile(99));
    let figure = "webhook: 500 signed deliveries a second over 100 repositories, answered, p50";
    table.add(Row::new(figure, Target::None, Unit::Millis, times));
    table.add(Row::new("webhook: the same, p99", Target::AtMost(5.0), Unit::Millis, p99));
    Ok(())
}

/// Deliveries with a wrong signature, as fast as they go.
async fn refused(table: &mut Table, api: &Api, server: &Server, names: &[String], body: &str) -> Result<()> {
    let process = server.process.id().context("the server is gone")?;
    let (before, begun) = (scene::processor_seconds(process)?, Instant::now());
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let (api, body) = (api.clone(), body.to_owned());
        let path = path_of(&names[sender % names.len()]);
        senders.spawn(async move {
            let wrong = "0".repeat(64);
            for _ in 0..UNSIGNED / SENDERS {
                let code = api.deliver(&path, body.clone(), &wrong).await?;
                ensure!(code == 401 || code == 429, "a wrong signature was answered with {code}");
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = senders.join_next().await {
        ended??;
    }
    let (used, took) = (scene::processor_seconds(process)? - before, begun.elapsed().as_secs_f64());
    let rate = UNSIGNED as f64 / used;
    let figure = "webhook: deliveries with a wrong signature that are refused, by a core";
    let row = Row::new(figure, Target::AtLeast(20_000.0), Unit::PerSecond, Samples::one(rate));
    let told = UNSIGNED as f64 / took;
    table.add(row.note(format!("over TLS, {told:.0}/s beside the {SENDERS} senders; 429 from the 100th on")));
    Ok(())
}

/// From a push, whose delivery is sent at once, to the changed dashboard.
async fn followed(table: &mut Table, api: &Api, remote: &Remote, name: &str, body: &str) -> Result<()> {
    let (path, signature) = (path_of(name), sign(body));
    // Those that were queued before.
    eventually("the queue is empty", || async {
        let jobs = api.get_json(JOBS).await?;
        Ok(jobs["items"].as_array().is_some_and(Vec::is_empty).then_some(()))
    })
    .await?;
    let mut dashboards = api.watch(DASHBOARDS).await?;
    let mut times = Vec::new();
    for number in 0..PUSHES {
        // No more than a repository takes.
        tokio::time::sleep(Duration::from_millis(150)).await;
        let title = format!("Pushed {number}");
        let text = dashboard(name, &title);
        let begun = Instant::now();
        remote.commit(vec![(format!("{name}/a.json"), Some(text))]).await?;
        let code = api.deliver(&path, body.to_owned(), &signature).await?;
        ensure!(code == 202, "the delivery was answered with {code}");
        loop {
            let event: Value = dashboards.next().await?;
            if event["object"]["spec"]["title"] == title.as_str() {
                break;
            }
        }
        times.push(begun.elapsed());
    }
    let times = Samples::millis(times);
    let p99 = Samples::one(times.percentile(99));
    let figure = "webhook: from a commit to the changed dashboard, p50";
    table.add(Row::new(figure, Target::AtMost(150.0), Unit::Millis, times));
    table.add(Row::new("webhook: the same, p99", Target::AtMost(500.0), Unit::Millis, p99));
    Ok(())
}

fn sign(body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    hex::encode(hmac::sign(&key, body.as_bytes()))
}
