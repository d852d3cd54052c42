//! The embedded server beside the real one: creates a second, memory, and the time until it is ready.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use windlass_e2e::{Process, Programs, Server, free_port};

use super::stage;
use crate::api::{Api, client};
use crate::samples::Samples;
use crate::scene;
use crate::table::{Row, Table, Target, Unit};
use crate::writes::{CLIENTS, by_clients};

const STARTS: usize = 5;
const DEADLINE: Duration = Duration::from_secs(20);

pub(super) async fn measure(table: &mut Table) -> Result<()> {
    let real = Box::pin(real(table)).await?.context("the cluster's programs are gone")?;
    let embedded = embedded(table).await?;
    let ratio = Samples::one(embedded.rate / real.rate);
    let figure = format!("embedded ÷ real: durable creates a second, {CLIENTS} clients");
    table.add(Row::new(figure, Target::AtLeast(3.0), Unit::Times, ratio));
    let share = Samples::one(embedded.idle / real.idle);
    table.add(Row::new("embedded ÷ real: memory at rest", Target::AtMost(0.2), Unit::Times, share));
    let share = Samples::one(embedded.after / real.after);
    let note = format!("{:.0} objects there, {:.0} here", real.objects, embedded.objects);
    let figure = "embedded ÷ real: memory after the creates";
    table.add(Row::new(figure, Target::AtMost(0.2), Unit::Times, share).note(note));
    ready(table).await
}

struct Figures {
    /// Creates a second.
    rate: f64,
    /// Megabytes before and after the creates.
    idle: f64,
    after: f64,
    /// Objects that it holds afterwards.
    objects: f64,
}

async fn real(table: &mut Table) -> Result<Option<Figures>> {
    let Some(cluster) = stage::cluster().await? else { return Ok(None) };
    let namespace = cluster.namespace("writes").await?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Api::of_cluster(&cluster, namespace.name(), cluster.admin_token())?);
    }
    let processes = cluster.processes().await?.to_vec();
    written(table, "real", clients, processes).await.map(Some)
}

async fn embedded(table: &mut Table) -> Result<Figures> {
    let server = Server::start(&[]).await?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Api::of(&server).await?);
    }
    let process = server.process.id().context("the server is gone")?;
    written(table, "embedded", clients, vec![process]).await
}

/// Lets clients write to a server of these processes.
async fn written(table: &mut Table, who: &str, clients: Vec<Api>, processes: Vec<u32>) -> Result<Figures> {
    let memory = || processes.iter().map(|id| scene::memory_of(*id, "VmRSS")).sum::<Result<f64>>();
    let first = clients.first().cloned().context("there are no clients")?;
    let idle = memory()?;
    let writes = by_clients(clients, processes.clone()).await?;
    let after = memory()?;
    let page = first.get_json(&format!("{}?limit=1", crate::api::DASHBOARDS)).await?;
    let objects = 1 + crate::api::whole(&page["metadata"]["remainingItemCount"], "the count")?;
    let rate = writes.rates.median();
    let figure = format!("{who}: durable creates, {CLIENTS} clients");
    table.add(Row::new(figure, Target::None, Unit::PerSecond, writes.rates).note(writes.processor));
    let figure = format!("{who}: memory at rest");
    table.add(Row::new(figure, Target::None, Unit::Megabytes, Samples::one(idle)));
    let figure = format!("{who}: memory with {objects} objects");
    table.add(Row::new(figure, Target::None, Unit::Megabytes, Samples::one(after)));
    Ok(Figures { rate, idle, after, objects: objects as f64 })
}

/// From the start of `windlass serve` in an empty folder to an answer of `/readyz`.
async fn ready(table: &mut Table) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let folder = tempfile::tempdir()?;
        let (api, exchange) = (free_port()?, free_port()?);
        let (api_address, exchange_address) = (format!("127.0.0.1:{api}"), format!("127.0.0.1:{exchange}"));
        let data = folder.path().join("data");
        let data_text = data.display().to_string();
        let arguments = [
            "serve",
            "--well-known-token",
            "--api-address",
            &api_address,
            "--exchange-address",
            &exchange_address,
            "--data-dir",
            &data_text,
        ];
        let program = Programs::path("windlass")?;
        let started = Instant::now();
        let process = Process::start(&program, &arguments, &[], &folder.path().join("log"))?;
        let ca_file = data.join("keys/ca.crt");
        let mut http = None;
        loop {
            if http.is_none() && ca_file.is_file() {
                http = client(&ca_file).ok();
            }
            if let Some(http) = &http
                && let Ok(answer) = http.get(format!("https://localhost:{api}/readyz")).send().await
                && answer.status().is_success()
            {
                break;
            }
            if started.elapsed() > DEADLINE {
                bail!("the server is not ready; it said:\n{}", process.output());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        times.push(started.elapsed());
    }
    let figure = "embedded: from its first start to ready";
    table.add(Row::new(figure, Target::AtMost(200.0), Unit::Millis, Samples::millis(times)));
    Ok(())
}
