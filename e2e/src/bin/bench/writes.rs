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
use crate::table::{Row, Table, Target, Unit};

/// Clients at a time.
const CLIENTS: usize = 32;
/// How long each run lasts, and how many there are.
const RUN: Duration = Duration::from_secs(3);
const RUNS: usize = 5;

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    let figure = format!("durable writes, {CLIENTS} clients over HTTPS");
    table.add(Row::new(figure, Target::AtLeast(4_000.0), Unit::PerSecond, over_https().await?));
    let figure = format!("the same, {CLIENTS} clients inside the process");
    table.add(Row::new(figure, Target::None, Unit::PerSecond, in_process().await?));
    let figure = format!("the same, {CLIENTS} writers on the bare store");
    table.add(Row::new(figure, Target::None, Unit::PerSecond, bare().await?));
    Ok(())
}

/// A name that was not used before, and the document of that name.
fn document(numbers: &AtomicU64) -> (String, String) {
    let name = format!("written-{:08}", numbers.fetch_add(1, Ordering::Relaxed));
    let document = kubernetes_dashboard(&name, "Written");
    (name, document)
}

async fn over_https() -> Result<Samples> {
    let server = Server::start(&[]).await?;
    // A client each, as each has a connection of its own.
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Api::of(&server).await?);
    }
    rates(clients, |api, (_, document)| async move { api.post(DASHBOARDS, document).await.map(drop) }).await
}

async fn in_process() -> Result<Samples> {
    let folder = tempfile::tempdir()?;
    let store = store::open_file(&folder.path().join("store"), &StoreOptions::default())?;
    let server = ApiServer::builder(store).crds(windlass_api::crds::all()).build()?;
    let client = server.client(Caller::system("bench"));
    rates(vec![client; CLIENTS], |client, (_, document)| async move {
        let request = http::Request::post(DASHBOARDS)
            .header("content-type", "application/json")
            .body(document.into_bytes())?;
        client.request_text(request).await?;
        Ok(())
    })
    .await
}

async fn bare() -> Result<Samples> {
    let folder = tempfile::tempdir()?;
    let store: Arc<dyn Store> = store::open_file(&folder.path().join("store"), &StoreOptions::default())?;
    rates(vec![store; CLIENTS], |store, (name, document)| async move {
        let key = Key::new("dashboard.grafana.app", "dashboards", "default", &name)?;
        store.commit(vec![Write::create(key, document)]).await?;
        Ok(())
    })
    .await
}

/// Lets every client write one after the other, all at a time, and answers the writes a second of each run.
async fn rates<C, F>(
    clients: Vec<C>,
    write: impl Fn(C, (String, String)) -> F + Clone + Send + 'static,
) -> Result<Samples>
where
    C: Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let numbers = Arc::new(AtomicU64::new(0));
    let mut rates = Vec::new();
    // The first run warms up connections and caches, and does not count.
    for run in 0..=RUNS {
        let started = Instant::now();
        let before = numbers.load(Ordering::Relaxed);
        let mut tasks = tokio::task::JoinSet::new();
        for client in &clients {
            let (client, write, numbers) = (client.clone(), write.clone(), numbers.clone());
            tasks.spawn(async move {
                while started.elapsed() < RUN {
                    write(client.clone(), document(&numbers)).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        let count = numbers.load(Ordering::Relaxed) - before;
        if run > 0 {
            rates.push(count as f64 / started.elapsed().as_secs_f64());
        }
    }
    Ok(Samples::new(rates))
}
