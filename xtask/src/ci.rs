//! The gate: one order of steps, the same locally and on the build server.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::runtime::Runtime;
use windlass_cluster::{Cluster, OwnCluster, VARIABLE};

use crate::shell::{cargo, root, run as run_command};
use crate::{codegen, peers, tidy};

/// Options of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the tests only, without the formatting, lint and documentation checks.
    #[arg(long)]
    tests_only: bool,
}

/// The steps of a run, with the time that each took.
struct Steps {
    started: Instant,
    done: Vec<(String, Duration)>,
}

impl Steps {
    fn start() -> Self {
        Self { started: Instant::now(), done: Vec::new() }
    }

    /// Runs a step, says so before and after; one that fails ends the run.
    fn run<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("==> {name}");
        let started = Instant::now();
        let result = step().with_context(|| format!("step '{name}' failed"))?;
        let took = started.elapsed();
        println!("    {name}: {:.0} s", took.as_secs_f64());
        self.done.push((name.to_owned(), took));
        Ok(result)
    }

    /// Where the time went, in the order of the steps.
    fn print(&self) {
        println!("==> time");
        for (name, took) in &self.done {
            println!("    {:>5.0} s  {name}", took.as_secs_f64());
        }
        println!("    {:>5.0} s  in all", self.started.elapsed().as_secs_f64());
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut steps = Steps::start();
    // Go waits for downloads and links on one processor while cargo does the same: together they take less time.
    println!("==> peers, beside the steps that need none");
    let peers = std::thread::spawn(peers::install);
    if !args.tests_only {
        steps.run("format", || run_cargo(&["fmt", "--all", "--check"]))?;
        steps.run("generated files", || codegen::run(&codegen::Args { check: true }))?;
        steps.run("tidy", tidy::run)?;
        steps.run("lints", || {
            run_cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])
        })?;
        steps.run("windlass without its features, and with each alone", lint_features)?;
        steps.run("documentation", || {
            run_command(
                cargo()
                    .args(["doc", "--locked", "--workspace", "--no-deps"])
                    .env("RUSTDOCFLAGS", "-D warnings"),
            )
        })?;
    }
    steps.run("examples in documentation", || {
        run_cargo(&["test", "--locked", "--workspace", "--doc", "--quiet"])
    })?;
    steps.run("binaries", || run_cargo(&["build", "--locked", "--workspace", "--bins"]))?;
    steps.run("test binaries", || {
        run_cargo(&["test", "--locked", "--workspace", "--all-targets", "--no-run"])
    })?;
    steps.run("peers, what is left of them", || match peers.join() {
        Ok(installed) => installed,
        Err(_panic) => bail!("the thread that installs them panicked"),
    })?;
    let cluster = RunningCluster::start(&mut steps)?;
    let totals = steps.run("tests", || tests(cluster.folder.as_deref()))?;
    drop(cluster);
    steps.print();
    println!("{} passed, {} failed", totals.passed, totals.failed);
    if totals.failed > 0 || !totals.succeeded {
        bail!("tests failed");
    }
    if totals.passed == 0 {
        bail!("no test was run");
    }
    Ok(())
}

fn run_cargo(arguments: &[&str]) -> Result<()> {
    run_command(cargo().args(arguments))
}

/// Lints the program of README's first command, which has no feature, and the program with each feature alone.
fn lint_features() -> Result<()> {
    let metadata =
        cargo_metadata::MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec()?;
    let windlass = metadata.packages.iter().find(|package| package.name == "windlass");
    let features = windlass.context("there is a package windlass")?.features.keys();
    let alone = features.filter(|feature| *feature != "default").map(String::as_str);
    for feature in [""].into_iter().chain(alone) {
        let chosen = ["--no-default-features", "--features", feature];
        let program = ["clippy", "--locked", "-p", "windlass"];
        run_cargo(&[&program[..], &chosen, &["--", "-D", "warnings"]].concat())?;
    }
    Ok(())
}

#[derive(Default)]
struct Totals {
    passed: u64,
    failed: u64,
    succeeded: bool,
}

/// The cluster of all tests, which ends when this is dropped.
struct RunningCluster {
    folder: Option<PathBuf>,
    _own: Option<OwnCluster>,
    _runtime: Option<Runtime>,
}

impl RunningCluster {
    /// Starts one, unless the caller named another.
    fn start(steps: &mut Steps) -> Result<Self> {
        if std::env::var_os(VARIABLE).is_some() {
            println!("    the tests use the cluster that {VARIABLE} names");
            return Ok(Self { folder: None, _own: None, _runtime: None });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let started = steps.run("cluster", || runtime.block_on(Box::pin(Cluster::own())))?;
        let folder = started.as_ref().map(|cluster| cluster.folder().to_owned());
        Ok(Self { folder, _own: started, _runtime: Some(runtime) })
    }
}

/// Runs `cargo test` for the whole workspace, on the cluster of this folder, and adds up its summaries.
fn tests(cluster: Option<&Path>) -> Result<Totals> {
    let mut child = cargo()
        .args(["test", "--locked", "--workspace", "--all-targets", "--no-fail-fast"])
        .env("PATH", peers::search_path()?)
        .envs(cluster.map(|folder| (VARIABLE, folder)))
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to start cargo test")?;
    let mut totals = Totals::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.context("failed to read the output of cargo test")?;
            println!("{line}");
            if let Some(summary) = line.strip_prefix("test result: ") {
                totals.passed += counted(summary, " passed");
                totals.failed += counted(summary, " failed");
            }
        }
    }
    totals.succeeded = child.wait().context("failed to wait for cargo test")?.success();
    Ok(totals)
}

/// The number before `word` in cargo's summary line.
fn counted(summary: &str, word: &str) -> u64 {
    summary
        .split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(word.trim()))
        .filter_map(|number| number.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn a_summary_line_is_counted() {
        let summary = "ok. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        assert_eq!((counted(summary, " passed"), counted(summary, " failed")), (12, 3));
    }
}
