//! A full pull into a real API server, and a client that creates the same objects without knowing why.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;
use windlass_cluster::Cluster;
use windlass_e2e::{Remote, Scene};

use super::stage::Stage;
use crate::api::{Api, DASHBOARDS, FOLDERS};
use crate::samples::Samples;
use crate::scene;
use crate::table::{Row, Table, Target, Unit};

const COUNT: usize = 1_000;
const RUNS: usize = 3;
/// `max_sync_workers`: so many creates at a time.
const WORKERS: usize = 10;

pub(super) async fn measure(table: &mut Table, cluster: &Cluster) -> Result<()> {
    let (mut pulls, mut bare, mut ratios, mut created) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..RUNS {
        let remote = Remote::new(scene::files(COUNT)?).await?;
        let stage = Stage::start(cluster, &remote).await?;
        let _jobs = stage.scene.jobs_controller(&[]).await?;
        let pull = stage.api.pull("bench", false).await?;
        let documents = documents(&stage.api).await?;
        created = documents.len();
        let took = create(cluster, documents).await?;
        ratios.push(took.as_secs_f64() / pull.as_secs_f64());
        pulls.push(pull);
        bare.push(took);
    }
    let note = format!("{created} creates, {WORKERS} at a time");
    let figure = format!("kube: full pull of {COUNT}");
    table.add(Row::new(figure, Target::None, Unit::Millis, Samples::millis(pulls)).note(&note));
    let figure = "kube: a bare client creates the same";
    table.add(Row::new(figure, Target::None, Unit::Millis, Samples::millis(bare)).note(&note));
    let figure = "kube: rate of the pull ÷ rate of the bare client";
    table.add(Row::new(figure, Target::AtLeast(0.8), Unit::Times, Samples::new(ratios)));
    Ok(())
}

/// What a pull created, as it was sent.
async fn documents(api: &Api) -> Result<Vec<(&'static str, String)>> {
    let mut documents = Vec::new();
    for collection in [FOLDERS, DASHBOARDS] {
        let mut list = api.get_json(collection).await?;
        let (version, kind) = (list["apiVersion"].clone(), list["kind"].clone());
        let kind = kind.as_str().and_then(|kind| kind.strip_suffix("List")).context("not a list")?.to_owned();
        for object in list["items"].as_array_mut().context("a list has no items")? {
            object["apiVersion"] = version.clone();
            object["kind"] = kind.as_str().into();
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.retain(|field, _| matches!(field.as_str(), "name" | "labels" | "annotations"));
            }
            documents.push((collection, Value::take(object).to_string()));
        }
    }
    Ok(documents)
}

/// Creates documents in a fresh namespace, as the identity that the jobs controller would have there.
async fn create(cluster: &Cluster, documents: Vec<(&'static str, String)>) -> Result<Duration> {
    let scene = Scene::on(cluster, &[]).await?;
    let waiting = Arc::new(Mutex::new(documents.into_iter().rev().collect::<Vec<_>>()));
    let mut clients = Vec::new();
    for _ in 0..WORKERS {
        clients.push(Api::of_cluster(cluster, scene.namespace.name(), &scene.jobs.token)?);
    }
    let started = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for api in clients {
        let waiting = Arc::clone(&waiting);
        workers.spawn(async move {
            loop {
                let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some((collection, document)) = next else { return anyhow::Ok(()) };
                api.post(collection, document).await?;
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    Ok(started.elapsed())
}
