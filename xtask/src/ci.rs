//! The gate: one order of steps, the same locally and on the build server.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use tokio::runtime::Runtime;
use windlass_cluster::{Cluster, OwnCluster, VARIABLE};

use crate::shell::{cargo, run as run_command};
use crate::{codegen, peers, tidy};

/// Options of `cargo xtask ci`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the tests only, without the formatting, lint and documentation checks.
    #[arg(long)]
    tests_only: bool,
}

/// Runs every step; the first that fails ends the run.
pub(crate) fn run_step(name: &str, step: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("==> {name}");
    let started = Instant::now();
    step().with_context(|| format!("step '{name}' failed"))?;
    println!("    {name}: {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run_step("peers", peers::install)?;
    if !args.tests_only {
        run_step("format", || run_cargo(&["fmt", "--all", "--check"]))?;
        run_step("generated files", || codegen::run(&codegen::Args { check: true }))?;
        run_step("tidy", tidy::run)?;
        run_step("lints", || {
            run_cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])
        })?;
        run_step("documentation", || {
            run_command(
                cargo()
                    .args(["doc", "--locked", "--workspace", "--no-deps"])
                    .env("RUSTDOCFLAGS", "-D warnings"),
            )
        })?;
    }
    run_step("examples in documentation", || {
        run_cargo(&["test", "--locked", "--workspace", "--doc", "--quiet"])
    })?;
    run_step("binaries", || run_cargo(&["build", "--locked", "--workspace", "--bins"]))?;
    let cluster = RunningCluster::start()?;
    println!("==> tests");
    let totals = tests(cluster.folder.as_deref())?;
    drop(cluster);
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
    fn start() -> Result<Self> {
        if std::env::var_os(VARIABLE).is_some() {
            println!("    the tests use the cluster that {VARIABLE} names");
            return Ok(Self { folder: None, _own: None, _runtime: None });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let mut started = None;
        run_step("cluster", || {
            started = runtime.block_on(Box::pin(Cluster::own()))?;
            Ok(())
        })?;
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
