//! A process of ours, its output, and its end.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::process::{Child, Command};

/// A running program whose output goes to a file. Killed when dropped.
pub struct Process {
    child: Child,
    output: PathBuf,
}

impl Process {
    /// Starts `program`; everything it says goes to `output`. Its environment is only what `environment` names, and a
    /// search path.
    pub fn start(
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
        output: &Path,
    ) -> Result<Self> {
        let file =
            std::fs::File::create(output).with_context(|| format!("failed to make {}", output.display()))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", output.parent().unwrap_or(Path::new("/")))
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("failed to start {}", program.display()))?;
        Ok(Self { child, output: output.to_owned() })
    }

    /// What it has said so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// The lines of its log with this message.
    pub fn lines(&self, message: &str) -> Vec<serde_json::Value> {
        self.output()
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter(|line| line["msg"] == message)
            .collect()
    }

    /// How many lines of its log have this message: sooner found than the lines themselves.
    pub fn count(&self, message: &str) -> usize {
        let message = format!("\"msg\":{}", serde_json::Value::from(message));
        self.output().lines().filter(|line| line.contains(&message)).count()
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills it at once, as `kill -9` does, and waits until it is gone.
    pub async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.context("failed to kill a process")
    }

    /// Sends a signal by its name (`TERM`, `STOP`, `CONT`).
    pub async fn signal(&self, name: &str) -> Result<()> {
        let Some(id) = self.child.id() else { bail!("the process is gone") };
        let status = Command::new("kill").arg(format!("-{name}")).arg(id.to_string()).status().await?;
        if !status.success() {
            bail!("kill -{name} {id} failed");
        }
        Ok(())
    }

    /// Waits for its end and answers the exit code.
    pub async fn end(&mut self, within: Duration) -> Result<i32> {
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(status) => Ok(status?.code().unwrap_or(-1)),
            Err(_elapsed) => bail!("still running after {within:?}; it said:\n{}", self.output()),
        }
    }

    /// Waits until its output contains `text`; fails when it ends before.
    pub async fn says(&mut self, text: &str) -> Result<()> {
        let until = Instant::now() + crate::DEADLINE;
        let mut interval = tokio::time::interval(Duration::from_millis(20));
        while Instant::now() < until {
            interval.tick().await;
            if self.output().contains(text) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("ended with {status} before it said {text:?}; it said:\n{}", self.output());
            }
        }
        bail!("did not say {text:?} in time; it said:\n{}", self.output())
    }
}
