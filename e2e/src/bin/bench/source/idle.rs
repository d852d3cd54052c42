//! Ten thousand objects of five hundred repositories that do not change, looked at every minute.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use futures::TryStreamExt as _;
use kube::api::PostParams;
use serde_json::json;
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::{self, Edit};

use super::Scene;
use crate::samples::Samples;
use crate::scene::{memory, processor_seconds};
use crate::table::{Row, Table, Target, Unit};

const OBJECTS: usize = 10_000;
const REPOSITORIES: usize = 500;
const INTERVAL: Duration = Duration::from_mins(1);
/// How long they may take until all are ready.
const DEADLINE: Duration = Duration::from_mins(10);

pub(super) async fn measure(table: &mut Table) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let one = folder.path().join("app.git");
    seed::commit(&one, "main", [Edit::put("deploy/app.yaml", "kind: ConfigMap\n")], "all")?;
    for number in 0..REPOSITORIES {
        // Another URL is another repository to whoever asks.
        std::os::unix::fs::symlink(&one, folder.path().join(format!("app-{number}.git")))?;
    }
    let git = HttpBackend::new(folder.path()).start().await?;
    let scene = Scene::start(&git).await?;
    let begun = Instant::now();
    create(&scene, &git.origin()).await?;
    ready(&scene).await?;
    let settled = begun.elapsed();
    // Each has been looked at once more, and is spread over the interval.
    tokio::time::sleep(INTERVAL).await;
    let id = scene.process.id().context("the controller is gone")?;
    let (used, asked, since) = (processor_seconds(id)?, git.log().count(), Instant::now());
    tokio::time::sleep(INTERVAL).await;
    let share = (processor_seconds(id)? - used) / since.elapsed().as_secs_f64() * 100.0;
    let asked = git.log().count() - asked;
    let what = format!("{OBJECTS} objects of {REPOSITORIES} URLs in an interval of a minute");
    let note = format!("{asked} requests to the Git server; all ready after {settled:.0?}");
    let figure = format!("source: share of a core for {what}");
    let share = Samples::one(share);
    table.add(Row::new(figure, Target::AtMost(10.0), Unit::Percent, share).note(note));
    let bytes = Samples::one(memory(&scene.process, "VmRSS")?);
    let figure = format!("source: memory for {what}");
    table.add(Row::new(figure, Target::AtMost(200.0), Unit::Megabytes, bytes));
    Ok(())
}

async fn create(scene: &Scene, origin: &str) -> Result<()> {
    let create = |number: usize| async move {
        let object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": format!("idle-{number}"), "namespace": "default"},
            "spec": {
                "url": format!("{origin}/app-{}.git", number % REPOSITORIES),
                "interval": format!("{}s", INTERVAL.as_secs()),
                "ref": {"branch": "main"},
            },
        });
        scene.objects.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        anyhow::Ok(())
    };
    futures::stream::iter(0..OBJECTS).map(create).buffer_unordered(16).try_collect().await
}

/// Waits until the controller says that all are ready.
async fn ready(scene: &Scene) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < DEADLINE {
        tokio::time::sleep(Duration::from_secs(2)).await;
        if scene.count_ready().await? >= OBJECTS {
            return Ok(());
        }
    }
    bail!("not ready in time; the controller said:\n{}", scene.process.output())
}
