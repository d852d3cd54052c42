//! From a job's creation to its claim on a real API server, by one jobs controller and by ten.

use std::time::Duration;

use anyhow::{Context as _, Result};
use windlass_cluster::Cluster;
use windlass_e2e::{Operator, Remote, dashboard};

use super::stage::Stage;
use crate::claims::{Latencies, paced};
use crate::samples::Samples;
use crate::table::{Row, Table, Target, Unit};

/// Fifty jobs a second.
const EVERY: Duration = Duration::from_millis(20);
const COUNT: usize = 1000;
const REPLICAS: usize = 10;
/// Jobs that warm up connections and caches.
const WARM_UP: usize = 50;

/// One controller.
pub(super) async fn one(table: &mut Table, cluster: &Cluster) -> Result<()> {
    let remote = Remote::new(vec![("a.json".to_owned(), dashboard("a", "A"))]).await?;
    let stage = Stage::start(cluster, &remote).await?;
    let _jobs = stage.scene.jobs_controller(&[]).await?;
    paced(&stage.api, &["bench"], WARM_UP, EVERY).await?;
    let Latencies { whole, after } = paced(&stage.api, &["bench"], COUNT, EVERY).await?;
    let p99 = Samples::one(whole.percentile(99));
    let figure = "kube: 50 jobs/s, from the request that creates a job to the claim, seen by a watch, p50";
    table.add(Row::new(figure, Target::AtMost(20.0), Unit::Millis, whole));
    table.add(Row::new("kube: the same, p99", Target::AtMost(100.0), Unit::Millis, p99));
    table.add(Row::new("kube: from the answer to the claim, p50", Target::None, Unit::Millis, after));
    Ok(())
}

/// Ten controllers that see the same jobs.
pub(super) async fn ten(table: &mut Table, cluster: &Cluster) -> Result<()> {
    let remote = Remote::new(vec![("a.json".to_owned(), dashboard("a", "A"))]).await?;
    let stage = Stage::start(cluster, &remote).await?;
    let mut replicas = Vec::new();
    for _ in 0..REPLICAS {
        replicas.push(stage.scene.jobs_controller(&[]).await?);
    }
    let Latencies { whole, .. } = paced(&stage.api, &["bench"], COUNT, EVERY).await?;
    let (mut claimed, mut conflicts) = (Vec::new(), 0.0);
    for replica in &replicas {
        claimed.push(total(replica, "grafana_provisioning_jobs_claimed_total").await?);
        conflicts += total(replica, "grafana_provisioning_jobs_claim_conflicts_total").await?;
    }
    let claims: f64 = claimed.iter().sum();
    let (least, most) =
        (claimed.iter().fold(f64::MAX, |a, b| a.min(*b)), claimed.iter().fold(0.0_f64, |a, b| a.max(*b)));
    let note = format!("{conflicts} of {claims}; a replica claimed {least} to {most}");
    let share = Samples::one(conflicts / claims * 100.0);
    let figure = "kube: ten replicas from their start, claims that conflict";
    table.add(Row::new(figure, Target::AtMost(2.0), Unit::Percent, share).note(note));
    let p99 = format!("p99 {:.1} ms", whole.percentile(99));
    let figure = "kube: ten replicas, from the request that creates a job to the claim, p50";
    table.add(Row::new(figure, Target::None, Unit::Millis, whole).note(p99));
    Ok(())
}

/// The sum of a counter over its labels; one that never counted is not there.
async fn total(operator: &Operator, name: &str) -> Result<f64> {
    let (_, text) = operator.ask("/metrics").await?;
    let mut sum = 0.0;
    for line in text.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
    }) {
        let value = line.rsplit(' ').next().context("a metric has no value")?;
        sum += value.parse::<f64>()?;
    }
    Ok(sum)
}
