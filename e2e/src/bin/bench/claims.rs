//! From a job's creation to its claim, and the writes that a job costs.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use windlass_e2e::{Remote, dashboard};

use crate::api::{Api, HISTORY, JOBS, Watch};
use crate::samples::Samples;
use crate::scene::Separate;
use crate::table::{Row, Table, Target, Unit};

/// Jobs that are queued, and how long after one another.
const COUNT: usize = 200;
const EVERY: Duration = Duration::from_millis(40);

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    let remote = Remote::new(vec![("a.json".to_owned(), dashboard("a", "A"))]).await?;
    let scene = Separate::start(&remote, "bench").await?;
    cost(table, &scene).await?;

    let Latencies { whole, after } = paced(&scene.api, &["bench"], COUNT, EVERY).await?;
    let p99 = Samples::one(whole.percentile(99));
    let figure = "job: from the request that creates it to the claim, seen by a watch, p50";
    table.add(Row::new(figure, Target::AtMost(10.0), Unit::Millis, whole));
    table.add(Row::new("job: the same, p99", Target::None, Unit::Millis, p99));
    table.add(Row::new("job: from the answer to the claim, p50", Target::AtMost(5.0), Unit::Millis, after));
    Ok(())
}

/// How long jobs took to be seen as claimed.
pub(crate) struct Latencies {
    /// From the request that creates the job.
    pub(crate) whole: Samples,
    /// From the answer to it.
    pub(crate) after: Samples,
}

/// Creates short jobs of these repositories in turn at this pace, whatever becomes of them.
pub(crate) async fn paced(
    api: &Api,
    repositories: &[impl AsRef<str>],
    count: usize,
    every: Duration,
) -> Result<Latencies> {
    let watch = api.watch(JOBS).await?;
    let seen = tokio::spawn(claimed(watch, count));
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut posts = JoinSet::new();
    for repository in repositories.iter().cycle().take(count) {
        interval.tick().await;
        let (api, repository) = (api.clone(), repository.as_ref().to_owned());
        posts.spawn(async move {
            let before = Instant::now();
            let uid = api.post_job(&repository, &short_job()).await?;
            anyhow::Ok((uid, before, Instant::now()))
        });
    }
    let mut posted = Vec::new();
    while let Some(post) = posts.join_next().await {
        posted.push(post??);
    }
    let seen = seen.await??;
    let (mut whole, mut after) = (Vec::new(), Vec::new());
    for (uid, asked, answered) in posted {
        let at = seen.get(&uid).context("a job was never claimed")?;
        whole.push(at.saturating_duration_since(asked));
        after.push(at.saturating_duration_since(answered));
    }
    Ok(Latencies { whole: Samples::millis(whole), after: Samples::millis(after) })
}

/// A job that ends at once.
pub(crate) fn short_job() -> Value {
    json!({"action": "test", "test": {"duration": "1ms"}})
}

/// When the claim of each of so many jobs was seen that were created after the watch began.
pub(crate) async fn claimed(mut watch: Watch, count: usize) -> Result<HashMap<String, Instant>> {
    let (mut created, mut seen) = (HashSet::new(), HashMap::new());
    while seen.len() < count {
        let event = watch.next().await?;
        let job = &event["object"];
        let uid = job["metadata"]["uid"].as_str().context("a job has no UID")?;
        if event["type"] == "ADDED" {
            created.insert(uid.to_owned());
        }
        if job["status"]["state"] == "working" && created.contains(uid) {
            seen.entry(uid.to_owned()).or_insert_with(Instant::now);
        }
    }
    Ok(seen)
}

/// Counts the events of one short job, and the revisions that the whole store went on by.
async fn cost(table: &mut Table, scene: &Separate) -> Result<()> {
    let (mut jobs, mut history) = (scene.api.watch(JOBS).await?, scene.api.watch(HISTORY).await?);
    let before = scene.api.revision(JOBS).await?;
    let uid = scene.api.post_job("bench", &short_job()).await?;
    let mut events = Vec::new();
    loop {
        let event = jobs.next().await?;
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        let gone = kind == "DELETED" && event["object"]["metadata"]["uid"] == uid.as_str();
        events.push(kind);
        if gone {
            break;
        }
    }
    let filed = history.next().await?;
    events.push(format!("history {}", filed["type"].as_str().unwrap_or_default()));
    let after = scene.api.revision(JOBS).await?;
    let note =
        format!("{}; the store's revision went on by {}", events.join(", ").to_lowercase(), after - before);
    let row = Row::new(
        "job: writes of a short job",
        Target::AtMost(4.0),
        Unit::Count,
        Samples::one(events.len() as f64),
    );
    table.add(row.note(note));
    Ok(())
}
