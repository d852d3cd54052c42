//! Jobs and requests that write: a push of a thousand dashboards, and files over the API.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use windlass_e2e::{Remote, dashboard, kubernetes_dashboard};

use crate::api::{Api, DASHBOARDS, FOLDERS, REPOSITORIES};
use crate::samples::Samples;
use crate::scene::{self, Separate};
use crate::table::{Row, Table, Target, Unit};

/// Dashboards that are pushed.
const COUNT: usize = 1_000;
/// Folders that they are in.
const FOLDERS_MADE: usize = 50;
/// How often the push is measured, each time into a repository of its own.
const RUNS: usize = 3;
/// Files that are written over the API, one after the other.
const WRITES: usize = 30;

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    let (mut times, mut requests, mut memory, mut last) = (Vec::new(), Vec::new(), Vec::new(), None);
    for _ in 0..RUNS {
        drop(last.take());
        let (remote, scene) = writable().await?;
        fill(&scene.api).await?;
        let before = remote.requests();
        times.push(scene.api.run("bench", &json!({"action": "push", "push": {}})).await?);
        requests.push((remote.requests() - before) as f64);
        memory.push(scene::memory(&scene.jobs.process, "VmHWM")?);
        let files = git(&remote.path(), &["ls-tree", "-r", "--name-only", "main"])?;
        let pushed = files.lines().filter(|path| path.contains("/made-by-hand-")).count();
        ensure!(pushed == COUNT, "{pushed} dashboards were pushed");
        last = Some((remote, scene));
    }
    let figure = format!("push of {COUNT} dashboards in {FOLDERS_MADE} folders, one commit");
    table.add(Row::new(figure, Target::AtMost(2_000.0), Unit::Millis, Samples::millis(times)));
    let figure = format!("push of {COUNT} dashboards: Git requests");
    table.add(Row::new(figure, Target::AtMost(5.0), Unit::Count, Samples::new(requests)));
    let figure = format!("push of {COUNT} dashboards: most memory of the operator");
    table.add(Row::new(figure, Target::AtMost(150.0), Unit::Megabytes, Samples::new(memory)));
    let times = by_git(COUNT).await?;
    let figure = format!("the same files by git: add, commit and push of {COUNT}");
    table.add(Row::new(figure, Target::None, Unit::Millis, Samples::millis(times)));

    let (remote, scene) = last.context("nothing was pushed")?;
    let (mut times, before) = (Vec::new(), remote.requests());
    for number in 0..WRITES {
        let path = format!("{REPOSITORIES}/bench/files/written/file-{number}.json");
        let body = dashboard(&format!("written-{number}"), &format!("Written {number}"));
        let started = Instant::now();
        scene.api.post(&path, body).await?;
        times.push(started.elapsed());
    }
    let each = (remote.requests() - before) as f64 / WRITES as f64;
    let figure = format!("a file written over the API beside {COUNT} others, commit and object included");
    let row = Row::new(figure, Target::AtMost(60.0), Unit::Millis, Samples::millis(times));
    table.add(row.note(format!("{each:.1} Git requests each")));
    Ok(())
}

/// A repository that takes pushes, with one file, and the processes that write to it.
async fn writable() -> Result<(Remote, Separate)> {
    let remote = Remote::writable(vec![("README.md".to_owned(), "Dashboards\n".to_owned())]).await?;
    let scene = Separate::start(&remote, "bench").await?;
    let secure = json!({"token": {"create": "a-token"}});
    let patch = json!({"spec": {"workflows": ["write", "branch"]}, "secure": secure}).to_string();
    let arguments = ["patch", "repository/bench", "--type=merge", "--patch", &patch];
    scene.server.kubectl(&arguments).await?;
    scene.server.healthy("bench").await?;
    Ok((remote, scene))
}

/// Makes folders and dashboards that nobody manages.
async fn fill(api: &Api) -> Result<()> {
    for number in 0..FOLDERS_MADE {
        let folder = json!({
            "apiVersion": "folder.grafana.app/v1beta1", "kind": "Folder",
            "metadata": {"name": format!("folder-{number}")}, "spec": {"title": format!("Folder {number}")},
        });
        api.post(FOLDERS, folder.to_string()).await?;
    }
    for number in 0..COUNT {
        let name = format!("made-{number:05}");
        let text = kubernetes_dashboard(&name, &format!("Made by hand {number}"));
        let mut document: serde_json::Value = serde_json::from_str(&text)?;
        let folder = format!("folder-{}", number % FOLDERS_MADE);
        document["metadata"]["annotations"] = json!({"grafana.app/folder": folder});
        api.post(DASHBOARDS, document.to_string()).await?;
    }
    Ok(())
}

/// What git itself takes for as many files of the same size.
async fn by_git(count: usize) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let remote = Remote::writable(vec![("README.md".to_owned(), "Dashboards\n".to_owned())]).await?;
        let (url, files) = (remote.url(), scene::files(count)?);
        let took = tokio::task::spawn_blocking(move || {
            let folder = tempfile::tempdir()?;
            git(folder.path(), &["clone", "--quiet", &url, "."])?;
            for (path, text) in files {
                let path = folder.path().join(path);
                std::fs::create_dir_all(path.parent().context("it is in a folder")?)?;
                std::fs::write(path, text)?;
            }
            let started = Instant::now();
            git(folder.path(), &["add", "--all"])?;
            git(folder.path(), &["commit", "--quiet", "--message", "All"])?;
            git(folder.path(), &["push", "--quiet"])?;
            anyhow::Ok(started.elapsed())
        });
        times.push(took.await??);
    }
    Ok(times)
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments).env("HOME", folder).env("GIT_CONFIG_NOSYSTEM", "1");
    for (name, value) in [("NAME", "bench"), ("EMAIL", "bench@example.com")] {
        command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    let output = command.output()?;
    ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
