//! Ten thousand objects of five hundred repositories that do not change, looked at every minute. It takes three minutes at
//! most: what is not ready by then is said, and what there is is measured.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
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
const DEADLINE: Duration = Duration::from_secs(110);

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
    let (origin, mut ready) = (git.origin(), 0);
    // Who is created first becomes ready while others are created.
    let created = async { tokio::time::timeout(DEADLINE, create(&scene, &origin)).await.unwrap_or(Ok(())) };
    let watched = async {
        while ready < OBJECTS && begun.elapsed() < DEADLINE {
            tokio::time::sleep(Duration::from_secs(5)).await;
            ready = count_ready(&scene).await?;
            eprintln!("    {ready} of {OBJECTS} sources are ready after {:.0?}", begun.elapsed());
        }
        anyhow::Ok(())
    };
    tokio::try_join!(created, watched)?;
    let settled = begun.elapsed();
    let figure = format!("source: {OBJECTS} objects of {REPOSITORIES} URLs, created and ready");
    let note = format!("{ready} of them");
    table.add(Row::new(figure, Target::None, Unit::Millis, Samples::millis([settled])).note(note));
    eprintln!("    an interval in which nothing happens");
    let id = scene.process.id().context("the controller is gone")?;
    let (used, asked, since) = (processor_seconds(id)?, git.log().count(), Instant::now());
    tokio::time::sleep(INTERVAL).await;
    let share = (processor_seconds(id)? - used) / since.elapsed().as_secs_f64() * 100.0;
    let asked = git.log().count() - asked;
    let what = format!("{OBJECTS} objects of {REPOSITORIES} URLs in an interval of a minute");
    let note = format!("{asked} requests to the Git server; {ready} were ready after {settled:.0?}");
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

/// How many are ready, as the controller counts them: a list of all would cost more than what is measured.
async fn count_ready(scene: &Scene) -> Result<usize> {
    let url = format!("http://127.0.0.1:{}/metrics", scene.metrics);
    let text = reqwest::get(url).await?.text().await?;
    let is_it = |line: &&str| line.starts_with("windlass_source_objects{") && line.contains("ready=\"true\"");
    let count = text.lines().find(is_it).and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of objects")]
    Ok(count.unwrap_or_default() as usize)
}
