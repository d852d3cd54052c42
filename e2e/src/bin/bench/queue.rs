//! The queue under load: a hundred jobs a second, two thousand at once, ten thousand that wait, and a lease that is taken
//! over.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass_e2e::{Operator, eventually};

use crate::api::{HISTORY, JOBS};
use crate::claims::{Latencies, claimed, paced, short_job};
use crate::samples::Samples;
use crate::scene::{self, Fleet};
use crate::table::{Row, Table, Target, Unit};

/// Jobs of one repository run one after the other, so there are some.
const REPOSITORIES: usize = 20;
/// Jobs that are queued one after the other, and how long after one another.
const PACED: usize = 1_000;
const EVERY: Duration = Duration::from_millis(10);
/// Jobs that are queued at once.
const AT_ONCE: usize = 2_000;
/// Jobs that wait.
const WAITING: usize = 10_000;
/// Requests under way.
const CLIENTS: usize = 16;
/// How long a claim holds without a renewal.
const EXPIRY: Duration = Duration::from_secs(9);

const MANY_DRIVERS: [(&str, &str); 2] =
    [("GF_OPERATOR_CONCURRENT_DRIVERS", "32"), ("GF_OPERATOR_MAX_JOBS_PER_NAMESPACE", "32")];
const ONE_DRIVER: [(&str, &str); 1] = [("GF_OPERATOR_CONCURRENT_DRIVERS", "1")];

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    let scene = Fleet::start(REPOSITORIES, |_| {}).await?;
    let jobs = scene.operator(&MANY_DRIVERS).await?;
    let names = &scene.names;
    let Latencies { whole, after } = paced(&scene.api, names, PACED, EVERY).await?;
    let p99 = Samples::one(after.percentile(99));
    let figure = "100 jobs a second over 20 repositories: from the answer to the claim, p50";
    table.add(Row::new(figure, Target::AtMost(5.0), Unit::Millis, after));
    table.add(Row::new("the same, p99", Target::AtMost(50.0), Unit::Millis, p99));
    table.add(Row::new("the same, from the request, p50", Target::None, Unit::Millis, whole));
    at_once(table, &scene).await?;
    drop(jobs);
    waiting(table, &scene).await?;
    drop(scene);
    take_over(table).await
}

/// Runs many jobs that are there when the operator starts.
async fn at_once(table: &mut Table, scene: &Fleet) -> Result<()> {
    let (watch, mut history) = (scene.api.watch(JOBS).await?, scene.api.watch(HISTORY).await?);
    let claims = tokio::spawn(claimed(watch, AT_ONCE));
    let started = Instant::now();
    let queued = scene.queue(AT_ONCE, &short_job()).await?;
    let mut filed = HashSet::new();
    while filed.len() < AT_ONCE {
        let event = history.next().await?;
        let uid = &event["object"]["metadata"]["labels"]["provisioning.grafana.app/original-uid"];
        let uid = uid.as_str().context("a record names no job")?.to_owned();
        ensure!(event["type"] != "ADDED" || filed.insert(uid), "a job ran twice");
    }
    let filed = AT_ONCE as f64 / started.elapsed().as_secs_f64();
    let claims = claims.await??;
    let (first, last) = (claims.values().min(), claims.values().max());
    let (first, last) = first.zip(last).context("nothing was claimed")?;
    let claims = AT_ONCE as f64 / last.duration_since(*first).as_secs_f64();
    let note =
        format!("queued at {:.0}/s meanwhile, by {CLIENTS} clients", AT_ONCE as f64 / queued.as_secs_f64());
    let row = Row::new(
        "2,000 jobs: claims a second",
        Target::AtLeast(1_000.0),
        Unit::PerSecond,
        Samples::one(claims),
    );
    table.add(row.note(note));
    let figure = "2,000 jobs: queued, run and filed a second";
    table.add(Row::new(figure, Target::None, Unit::PerSecond, Samples::one(filed)));
    Ok(())
}

/// The memory of an operator whose only driver is busy while many jobs wait.
async fn waiting(table: &mut Table, scene: &Fleet) -> Result<()> {
    let jobs = scene.operator(&ONE_DRIVER).await?;
    let long = json!({"action": "test", "test": {"duration": "10m"}});
    let watch = scene.api.watch(JOBS).await?;
    scene.queue(1, &long).await?;
    claimed(watch, 1).await?;
    let before = scene::memory(&jobs.process, "VmRSS")?;
    scene.queue(WAITING, &short_job()).await?;
    eventually("all jobs are known to the operator", || async {
        let (_, said) = jobs.ask("/metrics").await?;
        let sizes = said.lines().filter(|line| line.contains("jobs_queue_size{"));
        let sum: f64 = sizes.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
        Ok((sum >= WAITING as f64).then_some(()))
    })
    .await?;
    let figure = "10,000 jobs that wait: memory of the operator";
    let memory = scene::memory(&jobs.process, "VmRSS")?;
    let row = Row::new(figure, Target::AtMost(60.0), Unit::Megabytes, Samples::one(memory));
    table.add(row.note(format!("{before:.0} MB with one job")));
    Ok(())
}

/// From the death of an operator to the claim of its job by another one.
async fn take_over(table: &mut Table) -> Result<()> {
    let scene = Fleet::start(REPOSITORIES, |_| {}).await?;
    let expiry = format!("{}s", EXPIRY.as_secs());
    let settings = [("GF_OPERATOR_LEASE_EXPIRY", &*expiry)];
    let mut times = Vec::new();
    let mut owner = scene.operator(&settings).await?;
    let watch = scene.api.watch(JOBS).await?;
    let mut seen = scene.api.watch(JOBS).await?;
    scene.queue(1, &json!({"action": "test", "test": {"duration": "10m"}})).await?;
    claimed(watch, 1).await?;
    // A job has three attempts.
    for _ in 0..2 {
        let next = scene.operator(&settings).await?;
        let claim = loop {
            let event = seen.next().await?;
            if event["object"]["status"]["state"] == "working" {
                break claim_of(&event["object"]);
            }
        };
        let killed = Instant::now();
        owner.process.kill().await?;
        loop {
            let event = seen.next().await?;
            let job = &event["object"];
            if job["status"]["state"] == "working" && claim_of(job) != claim {
                break;
            }
        }
        times.push(killed.elapsed());
        owner = next;
    }
    let figure = format!("an operator that was killed: until its job is claimed again, leases of {expiry}");
    let target = Target::AtMost((EXPIRY + Duration::from_secs(1)).as_secs_f64() * 1_000.0);
    table.add(Row::new(figure, target, Unit::Millis, Samples::millis(times)));
    Ok(())
}

/// Who holds a job, as far as it tells.
fn claim_of(job: &Value) -> Value {
    job["metadata"]["labels"]["provisioning.grafana.app/claim-owner"].clone()
}

impl Fleet {
    async fn operator(&self, settings: &[(&str, &str)]) -> Result<Operator> {
        Operator::start(&self.server, "provisioning-jobs", settings).await
    }

    /// Queues so many jobs as fast as it goes, the repositories in turn, and answers how long that took.
    async fn queue(&self, count: usize, spec: &Value) -> Result<Duration> {
        let started = Instant::now();
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let (api, names, spec) = (self.api.clone(), self.names.clone(), spec.clone());
            clients.spawn(async move {
                for number in (client..count).step_by(CLIENTS) {
                    api.post_job(&names[number % names.len()], &spec).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        Ok(started.elapsed())
    }
}
