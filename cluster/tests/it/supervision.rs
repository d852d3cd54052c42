use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use windlass_cluster::Cluster;

/// Set in the process that is killed.
const HOLDER: &str = "WINDLASS_TEST_HOLDER";

#[tokio::test]
async fn a_killed_runner_leaves_no_process() -> Result<()> {
    if std::env::var_os(HOLDER).is_some() {
        return hold().await;
    }
    let mut holder = Killed(
        Command::new(std::env::current_exe()?)
            .args(["--exact", "supervision::a_killed_runner_leaves_no_process", "--nocapture"])
            .env(HOLDER, "1")
            .stdout(Stdio::piped())
            .spawn()?,
    );
    let output = holder.0.stdout.take().context("no output")?;
    let mut lines = BufReader::new(output).lines();
    let line = loop {
        // No programs and no Go: the holder said so, and ended.
        let Some(line) = lines.next().transpose()? else { return Ok(()) };
        if let Some((_, processes)) = line.split_once("holding ") {
            break processes.to_owned();
        }
    };
    let processes: Vec<&str> = line.split(' ').collect();
    assert_eq!(processes.len(), 3, "{line}");
    holder.0.kill()?;
    holder.0.wait()?;
    until_gone(&processes)
}

#[tokio::test]
async fn a_killed_supervisor_leaves_no_process() -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let Some(cluster) = Cluster::own().await? else { return Ok(()) };
    let mut processes = cluster.processes().await?.map(|id| id.to_string()).to_vec();
    let supervisor = cluster.supervisor().to_string();
    let folder = cluster.folder().to_owned();
    assert!(Command::new("kill").args(["-KILL", &supervisor]).status()?.success());
    drop(cluster);
    processes.push(supervisor);
    until_gone(&processes.iter().map(String::as_str).collect::<Vec<_>>())?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Prints what it holds, and waits to be killed.
async fn hold() -> Result<()> {
    let Some(cluster) = Cluster::own().await? else { return Ok(()) };
    let [apiserver, etcd] = cluster.processes().await?;
    // Not `println!`: the tests' harness may keep that to itself.
    writeln!(std::io::stdout(), "holding {} {apiserver} {etcd}", cluster.supervisor())?;
    std::future::pending::<()>().await;
    Ok(())
}

fn until_gone(processes: &[&str]) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        if processes.iter().all(|id| !Path::new("/proc").join(id).exists()) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("one of these still runs: {processes:?}")
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
