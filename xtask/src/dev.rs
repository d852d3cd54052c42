//! `cargo xtask dev`: the whole set as separate processes, restarted when their source changes.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};

use crate::shell::{cache_dir, cargo, root, run as run_command, target_dir};

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
            arguments: ["serve", "--log-format", "pretty", "--data-dir"]
                .map(str::to_owned)
                .into_iter()
                .chain([data.display().to_string()])
                .collect(),
            operator: None,
        },
        operator("jobs", 32, "provisioning-jobs"),
        operator("repo", 33, "provisioning-repo"),
    ];
    build()?;
    let (said, lines) = channel();
    let mut children = start_all(&parts, &data, &said, &lines)?;
    let mut seen = newest_change();
    println!("ready: edit a file and what it changes is restarted; Ctrl-C ends all");
    loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => {
                println!("{line}");
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("nothing runs any more"),
        }
        let now = newest_change();
        let ended = children.iter_mut().any(|child| matches!(child.try_wait(), Ok(Some(_))));
        if now <= seen && !ended {
            continue;
        }
        seen = now;
        if let Err(error) = build() {
            println!("not restarted: {error:#}");
            continue;
        }
        stop_all(&mut children);
        children = start_all(&parts, &data, &said, &lines)?;
    }
}

fn build() -> Result<()> {
    run_command(cargo().args(["build", "--package", "windlass"]))
}

/// Starts the server, then, once it says that it listens, everything else.
fn start_all(
    parts: &[Part],
    data: &Path,
    said: &Sender<String>,
    lines: &Receiver<String>,
) -> Result<Vec<Child>> {
    let program = target_dir()?.join("debug/windlass");
    let mut children = Vec::new();
    for part in parts {
        children.push(start(&program, part, data, said)?);
        while part.operator.is_none() {
            let line = lines.recv_timeout(START).context("the API server did not start")?;
            println!("{line}");
            if line.contains("kubeconfig") {
                break;
            }
        }
    }
    Ok(children)
}

fn start(program: &Path, part: &Part, data: &Path, said: &Sender<String>) -> Result<Child> {
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
fn relay(part: &Part, output: impl std::io::Read + Send + 'static, said: Sender<String>) {
    let (name, colour) = (part.name, part.colour);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if said.send(format!("\x1b[{colour}m{name:>6}\x1b[0m {line}")).is_err() {
                break;
            }
        }
    });
}

/// Ends the processes that were started here, the last started first, and waits for each.
fn stop_all(children: &mut Vec<Child>) {
    while let Some(mut child) = children.pop() {
        let _ = Command::new("kill").arg(child.id().to_string()).status();
        let _ = child.wait();
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
