//! `cargo xtask dev`: the whole set as separate processes, restarted when their source changes.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use windlass_cluster::cache_dir;

use crate::shell::{cargo, root, target_dir};

/// Options of `cargo xtask dev`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder for the store, keys and the Git cache.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// How often the source is looked at for changes.
const POLL: Duration = Duration::from_millis(700);
/// How long the API server may take to start.
const START: Duration = Duration::from_secs(20);
/// How long a process may take to end before it is killed: longer than it gives its own tasks.
const STOP: Duration = Duration::from_secs(35);

struct Part {
    name: &'static str,
    colour: u8,
    arguments: Vec<String>,
    operator: Option<&'static str>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let data = args.data_dir.clone().unwrap_or_else(|| cache_dir().join("dev"));
    std::fs::create_dir_all(&data)?;
    let config = root().join("conf/operator.ini");
    let target = ["server", "target", "--config"].map(str::to_owned).to_vec();
    let operator = |name, colour, operator| {
        let mut arguments = target.clone();
        arguments.push(config.display().to_string());
        Part { name, colour, arguments, operator: Some(operator) }
    };
    let parts = [
        Part {
            name: "serve",
            colour: 36,
            arguments: ["serve", "--well-known-token", "--log-format", "pretty", "--data-dir"]
                .map(str::to_owned)
                .into_iter()
                .chain([data.display().to_string()])
                .collect(),
            operator: None,
        },
        operator("jobs", 32, "provisioning-jobs"),
        operator("repo", 33, "provisioning-repo"),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let ended = end_asked()?;
        // Whichever comes first, the other is dropped, and with it every process that it started.
        tokio::select! {
            biased;
            () = ended => Ok(()),
            failed = follow(&parts, &data) => failed,
        }
    })
}

/// Waits for the signals that end a program. Those that come before the wait count too.
fn end_asked() -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

/// Builds and starts everything, and again after each change. Ends only by failing, or by being dropped.
async fn follow(parts: &[Part], data: &Path) -> Result<()> {
    build().await?;
    let (said, mut lines) = unbounded_channel();
    let mut running = start_all(parts, data, &said, &mut lines).await?;
    let mut seen = newest_change();
    println!("ready: edit a file and what it changes is restarted; Ctrl-C ends all");
    loop {
        if let Ok(line) = timeout(POLL, lines.recv()).await {
            println!("{}", line.context("nothing runs any more")?);
            continue;
        }
        let now = newest_change();
        let ended = running.0.iter_mut().any(|child| matches!(child.try_wait(), Ok(Some(_))));
        if now <= seen && !ended {
            continue;
        }
        seen = now;
        if let Err(error) = build().await {
            println!("not restarted: {error:#}");
            continue;
        }
        drop(running);
        running = start_all(parts, data, &said, &mut lines).await?;
    }
}

async fn build() -> Result<()> {
    let mut command = tokio::process::Command::from(cargo());
    command.args(["build", "--package", "windlass"]).kill_on_drop(true);
    let status = command.status().await.context("failed to start cargo build")?;
    if !status.success() {
        bail!("cargo build ended with {status}");
    }
    Ok(())
}

/// Starts the server, then, once it says that it listens, everything else.
async fn start_all(
    parts: &[Part],
    data: &Path,
    said: &UnboundedSender<String>,
    lines: &mut UnboundedReceiver<String>,
) -> Result<Running> {
    let program = target_dir()?.join("debug/windlass");
    let mut running = Running(Vec::new());
    for part in parts {
        running.0.push(start(&program, part, data, said)?);
        while part.operator.is_none() {
            let line = timeout(START, lines.recv()).await.context("the API server did not start")?;
            let line = line.context("nothing runs any more")?;
            println!("{line}");
            if line.contains("kubeconfig") {
                break;
            }
        }
    }
    Ok(running)
}

fn start(program: &Path, part: &Part, data: &Path, said: &UnboundedSender<String>) -> Result<Child> {
    let mut command = Command::new(program);
    command.args(&part.arguments).env("GF_OPERATOR_LOG_FORMAT", "pretty").current_dir(root());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(operator) = part.operator {
        command
            .env("GF_DEFAULT_TARGET", "operator")
            .env("GF_OPERATOR_NAME", operator)
            .env("GF_OPERATOR_METRICS_ADDRESS", "127.0.0.1:0")
            .env("GF_OPERATOR_TLS_CA_FILE", data.join("keys/ca.crt"))
            .env("GF_OPERATOR_GIT_CACHE_DIR", data.join("git").join(part.name));
    }
    let mut child = command.spawn().with_context(|| format!("failed to start {}", part.name))?;
    if let Some(output) = child.stdout.take() {
        relay(part, output, said.clone());
    }
    if let Some(output) = child.stderr.take() {
        relay(part, output, said.clone());
    }
    Ok(child)
}

/// Passes a process's lines on, each with the process's name.
fn relay(part: &Part, output: impl std::io::Read + Send + 'static, said: UnboundedSender<String>) {
    let (name, colour) = (part.name, part.colour);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if said.send(format!("\x1b[{colour}m{name:>6}\x1b[0m {line}")).is_err() {
                break;
            }
        }
    });
}

/// Processes that run for as long as this is kept.
struct Running(Vec<Child>);

impl Drop for Running {
    /// Ends the processes, the last started first, and waits for each.
    fn drop(&mut self) {
        while let Some(mut child) = self.0.pop() {
            stop(&mut child);
        }
    }
}

/// Asks a process to end, and kills one that does not.
fn stop(child: &mut Child) {
    // The number of a process that has ended already may be somebody else's.
    if matches!(child.try_wait(), Ok(Some(_))) {
        return;
    }
    let _ = Command::new("kill").arg(child.id().to_string()).status();
    let deadline = Instant::now() + STOP;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The time of the newest change to a source file.
fn newest_change() -> SystemTime {
    fn walk(folder: &Path, newest: &mut SystemTime) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, newest);
            } else if path
                .extension()
                .is_some_and(|ending| ending == "rs" || ending == "toml" || ending == "ini")
                && let Ok(changed) = entry.metadata().and_then(|metadata| metadata.modified())
            {
                *newest = (*newest).max(changed);
            }
        }
    }
    let mut newest = SystemTime::UNIX_EPOCH;
    for folder in ["crates", "bins", "conf"] {
        walk(&root().join(folder), &mut newest);
    }
    newest
}
