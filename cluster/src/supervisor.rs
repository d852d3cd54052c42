//! Keeps processes, and ends them when the one who asked for them is gone.
//!
//! The `windlass-cluster` binary runs [`run`]: orders come as lines of JSON on standard input, an answer each goes to
//! standard output. When the input ends, because its holder ended or was killed, every process is killed and the folder
//! removed. Once told to stay it ends on SIGTERM or SIGINT instead.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// What the holder of the pipe asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Order {
    /// Starts a process; what it says goes to `<folder>/<name>.log`.
    Start { name: String, program: PathBuf, arguments: Vec<String>, environment: Vec<(String, String)> },
    /// Sends a signal by its name (`STOP`, `CONT`).
    Signal { name: String, signal: String },
    /// Sends a signal and waits until the process is gone; kills it when that takes longer than `timeout`.
    End { name: String, signal: String, timeout: Duration },
    /// Asks whether a process runs.
    Look { name: String },
    /// Goes on when the input ends.
    Stay,
}

/// What it gets.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Answer {
    /// The process runs, under this number.
    Running(u32),
    /// The process is gone, in this way.
    Gone(String),
    /// Done.
    Done,
    /// The order could not be followed.
    Failed(String),
}

/// Name of the file that is locked for as long as the supervisor lives.
pub(crate) const LOCK: &str = "lock";

/// Follows orders until the end.
///
/// # Errors
/// When the folder is another supervisor's, or its signals cannot be listened to.
pub async fn run(folder: &Path) -> Result<()> {
    let lock = File::create(folder.join(LOCK)).context("failed to make the supervisor's lock")?;
    lock.try_lock().with_context(|| format!("{} belongs to another supervisor", folder.display()))?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut orders = read_orders();
    let mut children = Children { folder: folder.to_owned(), running: HashMap::new() };
    let (mut listens, mut stays) = (true, false);
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            order = orders.recv(), if listens => match order {
                Some(order) => {
                    stays |= matches!(order, Order::Stay);
                    let answer = children.follow(order).await;
                    let line = serde_json::to_string(&answer)?;
                    // Nobody may be there any more to read it.
                    let _ = writeln!(std::io::stdout(), "{line}");
                }
                None if stays => listens = false,
                None => break,
            },
        }
    }
    children.kill_all().await;
    let _ = std::fs::remove_dir_all(folder);
    drop(lock);
    Ok(())
}

/// Reads on a thread of its own: a read of standard input cannot be given up.
fn read_orders() -> mpsc::Receiver<Order> {
    let (send, receive) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Ok(order) = serde_json::from_str(&line) else { break };
            if send.blocking_send(order).is_err() {
                break;
            }
        }
    });
    receive
}

struct Children {
    folder: PathBuf,
    running: HashMap<String, Child>,
}

impl Children {
    async fn follow(&mut self, order: Order) -> Answer {
        let followed = match order {
            Order::Start { name, program, arguments, environment } => {
                self.start(name, &program, &arguments, environment)
            }
            Order::Signal { name, signal } => self.signal(&name, &signal).await,
            Order::End { name, signal, timeout } => self.end(&name, &signal, timeout).await,
            Order::Look { name } => self.look(&name),
            Order::Stay => Ok(Answer::Done),
        };
        followed.unwrap_or_else(|error| Answer::Failed(format!("{error:#}")))
    }

    fn start(
        &mut self,
        name: String,
        program: &Path,
        arguments: &[String],
        environment: Vec<(String, String)>,
    ) -> Result<Answer> {
        if let Ok(Answer::Running(_)) = self.look(&name) {
            bail!("{name} runs already");
        }
        let log = File::options().create(true).append(true).open(self.folder.join(format!("{name}.log")))?;
        let mut command = tied_to_us(program);
        command
            .args(arguments)
            .envs(environment)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("failed to start {}", program.display()))?;
        let id = child.id().unwrap_or_default();
        self.running.insert(name, child);
        Ok(Answer::Running(id))
    }

    async fn signal(&mut self, name: &str, signal: &str) -> Result<Answer> {
        let Answer::Running(id) = self.look(name)? else { bail!("{name} does not run") };
        let status = Command::new("kill").arg(format!("-{signal}")).arg(id.to_string()).status().await?;
        if !status.success() {
            bail!("kill -{signal} {id} failed");
        }
        Ok(Answer::Running(id))
    }

    async fn end(&mut self, name: &str, signal: &str, timeout: Duration) -> Result<Answer> {
        if let Answer::Running(_) = self.look(name)? {
            self.signal(name, signal).await?;
        }
        let Some(child) = self.running.get_mut(name) else { bail!("{name} was not started") };
        let how = match tokio::time::timeout(timeout, child.wait()).await {
            Ok(status) => status?.to_string(),
            Err(_elapsed) => {
                child.kill().await?;
                format!("killed, after {timeout:?}")
            }
        };
        self.running.remove(name);
        Ok(Answer::Gone(how))
    }

    fn look(&mut self, name: &str) -> Result<Answer> {
        let Some(child) = self.running.get_mut(name) else {
            return Ok(Answer::Gone("not started".to_owned()));
        };
        Ok(match child.try_wait()? {
            Some(status) => Answer::Gone(status.to_string()),
            None => Answer::Running(child.id().unwrap_or_default()),
        })
    }

    /// Nothing of a cluster outlives its folder, so nothing needs to end in peace.
    async fn kill_all(&mut self) {
        for child in self.running.values_mut() {
            let _ = child.start_kill();
        }
        for child in self.running.values_mut() {
            let _ = child.wait().await;
        }
    }
}

/// A command whose process the kernel kills when this one is killed, where the system has a program to ask for it.
pub(crate) fn tied_to_us(program: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).map(|folder| folder.join("setpriv")).find(|file| file.is_file()) {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    }
}
