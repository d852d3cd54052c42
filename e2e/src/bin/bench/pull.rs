//! Pulls: everything, nothing, one file.

use std::time::Duration;

use anyhow::Result;
use windlass_e2e::{Process, Remote};

use crate::api::Api;
use crate::samples::Samples;
use crate::scene::{self, Demo, Separate};
use crate::table::{Row, Table, Target, Unit};

/// Sizes of repositories, and the most milliseconds that a full pull may take.
const SIZES: [(usize, f64); 2] = [(1_000, 400.0), (10_000, 3_000.0)];
/// How often the small pulls are measured.
const RUNS: usize = 7;

/// Pulls by operators in processes of their own.
pub(crate) async fn separate(table: &mut Table) -> Result<()> {
    for (count, limit) in SIZES {
        // A first pull needs a fresh server each time; the small one is cheap enough to be repeated.
        let runs = if count > 1_000 { 1 } else { 3 };
        let (mut times, mut last, mut note) = (Vec::new(), None, String::new());
        for _ in 0..runs {
            drop(last.take());
            let remote = Remote::new(scene::files(count)?).await?;
            let scene = Separate::start(&remote, "bench").await?;
            let before = (used(&scene.server.process)?, used(&scene.jobs.process)?);
            times.push(scene.api.pull("bench", false).await?);
            let after = (used(&scene.server.process)?, used(&scene.jobs.process)?);
            note = format!(
                "processor: server {:.2} s, operator {:.2} s",
                after.0 - before.0,
                after.1 - before.1
            );
            last = Some((remote, scene));
        }
        let figure = format!("separate processes: full pull of {count}");
        table.add(Row::new(figure, Target::AtMost(limit), Unit::Millis, Samples::millis(times)).note(note));
        if let Some((remote, scene)) = last {
            again(table, "separate processes", count, &scene.api, "bench", &remote).await?;
            memories(table, "provisioning-jobs", count, &scene.jobs.process, Target::None)?;
            memories(table, "windlass serve", count, &scene.server.process, Target::None)?;
        }
    }
    Ok(())
}

/// Pulls inside one process.
pub(crate) async fn demo(table: &mut Table) -> Result<()> {
    for (count, limit) in SIZES {
        let runs = if count > 1_000 { 1 } else { 3 };
        let (mut times, mut last, mut note) = (Vec::new(), None, String::new());
        for _ in 0..runs {
            drop(last.take());
            let remote = Remote::new(scene::files(count)?).await?;
            let demo = Demo::start(&remote).await?;
            note = format!("processor: {:.2} s with its start", used(&demo.process)?);
            times.push(demo.first_pull);
            last = Some((remote, demo));
        }
        let figure = format!("demo: full pull of {count}");
        table.add(Row::new(figure, Target::AtMost(limit), Unit::Millis, Samples::millis(times)).note(note));
        if let Some((remote, demo)) = last {
            let limit = if count > 1_000 { Target::AtMost(200.0) } else { Target::None };
            memories(table, "demo, first pull", count, &demo.process, limit)?;
            again(table, "demo", count, &demo.api, "demo", &remote).await?;
            memories(table, "demo, after the other pulls", count, &demo.process, limit)?;
        }
    }
    Ok(())
}

/// What a repository costs that was pulled before.
async fn again(
    table: &mut Table,
    who: &str,
    count: usize,
    api: &Api,
    repository: &str,
    remote: &Remote,
) -> Result<()> {
    let large = count > 1_000;
    let limit = |millis| if large { Target::AtMost(millis) } else { Target::None };

    let (times, requests) = pulls(api, repository, remote, true, 0).await?;
    let row = Row::new(
        format!("{who}: nothing changed in {count}"),
        limit(25.0),
        Unit::Millis,
        Samples::millis(times),
    );
    table.add(row);
    if large {
        let figure = format!("{who}: Git requests, nothing changed");
        table.add(Row::new(figure, Target::AtMost(1.0), Unit::Count, requests));
    }

    let (times, requests) = pulls(api, repository, remote, true, 1).await?;
    let row = Row::new(
        format!("{who}: one file changed in {count}"),
        limit(80.0),
        Unit::Millis,
        Samples::millis(times),
    );
    table.add(row);
    if large {
        let figure = format!("{who}: Git requests, one file changed");
        table.add(Row::new(figure, Target::AtMost(2.0), Unit::Count, requests));
        let (times, _) = pulls(api, repository, remote, false, 0).await?;
        let figure = format!("{who}: full comparison of {count}, nothing to do");
        table.add(Row::new(figure, Target::None, Unit::Millis, Samples::millis(times)));
    }
    Ok(())
}

/// Pulls a few times, each after a commit to `changed` files, and counts the requests that Git's server saw.
async fn pulls(
    api: &Api,
    repository: &str,
    remote: &Remote,
    incremental: bool,
    changed: usize,
) -> Result<(Vec<Duration>, Samples)> {
    let (mut times, mut requests) = (Vec::new(), Vec::new());
    for run in 1..=RUNS {
        if changed > 0 {
            let change = (0..changed).map(|number| {
                let (path, text) = scene::file(number * 100 + run * 7, run)?;
                Ok((path, Some(text)))
            });
            remote.commit(change.collect::<Result<_>>()?).await?;
        }
        let before = remote.requests();
        times.push(api.pull(repository, incremental).await?);
        requests.push((remote.requests() - before) as f64);
    }
    Ok((times, Samples::new(requests)))
}

fn used(process: &Process) -> Result<f64> {
    scene::processor_seconds(process.id().unwrap_or_default())
}

fn memories(table: &mut Table, who: &str, count: usize, process: &Process, target: Target) -> Result<()> {
    let peak = Samples::one(scene::memory(process, "VmHWM")?);
    let now = scene::memory(process, "VmRSS")?;
    let row = Row::new(format!("{who}: peak memory at {count}"), target, Unit::Megabytes, peak);
    table.add(row.note(format!("now {now:.0} MB")));
    Ok(())
}
