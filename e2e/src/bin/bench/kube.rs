//! A real kube-apiserver with etcd, and the embedded server, in one run.
//!
//! etcd waits for the disk at each write, as the embedded store does. Controllers are the real programs, each under the
//! Roles that `deploy/` grants.

mod claims;
mod pull;
mod servers;
mod stage;

use std::time::Instant;

use anyhow::Result;

use crate::samples::Samples;
use crate::table::{Row, Table, Target, Unit};

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    let started = Instant::now();
    let Some(cluster) = Box::pin(stage::cluster()).await? else { return Ok(()) };
    let took = Samples::millis([started.elapsed()]);
    table.add(Row::new("kube: ready, with our definitions", Target::None, Unit::Millis, took));
    claims::one(table, &cluster).await?;
    claims::ten(table, &cluster).await?;
    pull::measure(table, &cluster).await?;
    drop(cluster);
    servers::measure(table).await
}
