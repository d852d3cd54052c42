//! Durable writes a second: creates of three-kilobyte objects by many clients at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use windlass_apiserver::ApiServer;
use windlass_apiserver::store::{self, Key, Store, StoreOptions, Write};
use windlass_auth::Caller;
use windlass_e2e::{Server, kubernetes_dashboard};

use crate::api::{Api, DASHBOARDS};
use crate::samples::Samples;
use crate::scene;
use crate::table::{Row, Table, Target, Unit};

/// Clients at a time.
pub(crate) const CLIENTS: usize = 32;
/// How long each run lasts, and how many there are.
const RUN: Duration = Duration::from_secs(3);
const RUNS: usize = 5;
/// Words in a title, so that the object without its white space has three kilobytes as well.
const TITLE: usize = 200;
/// Where the name goes.
const PLACE: &str = "the-name";

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    let figures = [
        (
            format!("durable writes, {CLIENTS} clients over HTTPS"),
            Target::AtLeast(4_000.0),
            over_https().await?,
        ),
        (format!("the same, {CLIENTS} clients inside the process"), Target::None, in_process().await?),
        (format!("the same, {CLIENTS} writers on the bare store"), Target::None, bare().await?),
    ];
    for (figure, target, Rates { rates, processor }) in figures {
        table.add(Row::new(figure, target, Unit::PerSecond, rates).note(processor));
    }
    Ok(())
}

/// Writes a second, and the processor time that one costs.
pub(crate) struct Rates {
    pub(crate) rates: Samples,
    pub(crate) processor: String,
}

/// Makes documents without spending the time that is being measured.
struct Documents {
    used: AtomicU64,
    /// What stands before and after the name.
    halves: (String, String),
}

impl Documents {
    fn new() -> Self {
        let whole = kubernetes_dashboard(PLACE, &"Written".repeat(TITLE));
        let (before, after) = whole.split_once(PLACE).unwrap_or_default();
        Self { used: AtomicU64::new(0), halves: (before.to_owned(), after.to_owned()) }
    }

    fn count(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// A name that was not used before, and the document of that name.
    fn next(&self) -> (String, String) {
        let name = format!("written-{:08}", self.used.fetch_add(1, Ordering::Relaxed));
        let document = [&self.halves.0, &name, &self.halves.1].map(String::as_str).concat();
        (name, document)
    }
}

async fn over_https() -> Result<Rates> {
    let server = Server::start(&[]).await?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Api::of(&server).await?);
    }
    by_clients(clients, server.process.id().into_iter().collect()).await
}

/// Creates by clients over HTTPS, each with a connection of its own, to a server of these processes.
pub(crate) async fn by_clients(clients: Vec<Api>, servers: Vec<u32>) -> Result<Rates> {
    rates(
        clients,
        servers,
        |api, (_, document)| async move { api.post(DASHBOARDS, document).await.map(drop) },
    )
    .await
}

async fn in_process() -> Result<Rates> {
    let folder = tempfile::tempdir()?;
    let store = store::open_file(&folder.path().join("store"), &StoreOptions::default())?;
    let server = ApiServer::builder(store).crds(windlass_api::crds::all()).build()?;
    let client = server.client(Caller::system("bench"));
    rates(vec![client; CLIENTS], Vec::new(), |client, (_, document)| async move {
        let request = http::Request::post(DASHBOARDS)
            .header("content-type", "application/json")
            .body(document.into_bytes())?;
        client.request_text(request).await?;
        Ok(())
    })
    .await
}

async fn bare() -> Result<Rates> {
    let folder = tempfile::tempdir()?;
    let store: Arc<dyn Store> = store::open_file(&folder.path().join("store"), &StoreOptions::default())?;
    rates(vec![store; CLIENTS], Vec::new(), |store, (name, document)| async move {
        let key = Key::new("dashboard.grafana.app", "dashboards", "default", &name)?;
        store.commit(vec![Write::create(key, document)]).await?;
        Ok(())
    })
    .await
}

/// Lets every client write one after the other, all at a time, and answers the writes a second of each run. `servers`
/// are the processes that are written to, if they are not this one.
async fn rates<C, F>(
    clients: Vec<C>,
    servers: Vec<u32>,
    write: impl Fn(C, (String, String)) -> F + Clone + Send + 'static,
) -> Result<Rates>
where
    C: Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let me = std::process::id();
    let used = || {
        anyhow::Ok((
            scene::processor_seconds(me)?,
            servers.iter().copied().map(scene::processor_seconds).sum::<Result<f64>>()?,
        ))
    };
    let documents = Arc::new(Documents::new());
    let mut rates = Vec::new();
    let (mut total, mut processor) = (0, (0.0, 0.0));
    // The first run warms up connections and caches, and does not count.
    for run in 0..=RUNS {
        let (started, before, used_before) = (Instant::now(), documents.count(), used()?);
        let mut tasks = tokio::task::JoinSet::new();
        for client in &clients {
            let (client, write, documents) = (client.clone(), write.clone(), documents.clone());
            tasks.spawn(async move {
                while started.elapsed() < RUN {
                    write(client.clone(), documents.next()).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        let (count, used_after) = (documents.count() - before, used()?);
        if run > 0 {
            rates.push(count as f64 / started.elapsed().as_secs_f64());
            total += count;
            processor.0 += used_after.0 - used_before.0;
            processor.1 += used_after.1 - used_before.1;
        }
    }
    let each = |seconds: f64| seconds * 1e6 / total as f64;
    let processor = if servers.is_empty() {
        format!("processor: {:.0} µs a write", each(processor.0))
    } else {
        let (server, clients) = (each(processor.1), each(processor.0));
        format!("processor: server {server:.0} µs, clients {clients:.0} µs a write")
    };
    Ok(Rates { rates: Samples::new(rates), processor })
}
