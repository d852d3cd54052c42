//! The release build against its targets, on this machine, in one run. Started by `cargo xtask bench`.
//!
//! It asserts nothing: a missed target is a word in the table. It ends with a failure only when something could not be
//! measured. Each part stands in a file of its own and adds [`Row`](table::Row)s to one [table](table::Table).
#![expect(clippy::print_stderr, reason = "it says what it is doing")]

mod api;
mod attacks;
mod claims;
mod hooks;
mod idle;
mod jobs;
mod kube;
mod kubectl;
mod machine;
mod provisioner;
mod pull;
mod queue;
mod samples;
mod scene;
mod server;
mod source;
mod store;
mod table;
mod tracker;
mod writes;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use windlass_e2e::Peers;

use self::table::Table;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What the machine can do: commits to the disk.
    Machine,
    /// Pulls by separate processes over TLS.
    Pull,
    /// Pulls inside the demo's one process, and its memory.
    Demo,
    /// `kubectl apply` of as many documents, beside.
    Kubectl,
    /// From a job's creation to its claim, and what a job costs.
    Claims,
    /// The queue under load: many jobs at once, many that wait, and a lease that is taken over.
    Queue,
    /// Webhooks: deliveries that are answered and refused, and from a push to the changed dashboard.
    Hooks,
    /// A thousand repositories that nothing happens to.
    Idle,
    /// Jobs that write to a repository, and files over the API.
    Jobs,
    /// Durable writes a second.
    Writes,
    /// The size of the store's file after many changes; with `--large`, writes to a store of ten gigabytes.
    Store,
    /// A real kube-apiserver with etcd and the embedded server, in one run.
    Kube,
    /// The API server with many objects and many watchers, beside a real one.
    Server,
    /// What a normal client notices while the API server is attacked.
    Attacks,
    /// The commit tracker with ten thousand Kustomizations.
    Tracker,
    /// Trees of provisioners: a node, a settled tree, and from an event to the visit that it wakes.
    Provisioner,
    /// The source controller with a hundred objects of one repository.
    Source,
}

/// Measures the release build against its targets.
#[derive(Parser)]
struct Args {
    /// What to measure; everything when left out.
    parts: Vec<Part>,
    /// Also let kubectl apply 10,000 documents, and fill a store with ten gigabytes: it takes minutes, and the disk.
    #[arg(long)]
    large: bool,
    /// How many objects of two kilobytes the API server is measured with; a million take a while.
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000)]
    objects: usize,
    /// How many clients create them at once.
    #[arg(long, value_name = "NUMBER", default_value_t = writes::CLIENTS)]
    clients: usize,
    /// Also write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(error) = windlass_git::init_process() {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    match Peers::present(&["git", "curl", "jq", "kubectl"]) {
        Ok(true) => {}
        Ok(false) => return ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    let parts = if args.parts.is_empty() { Part::value_variants().to_vec() } else { args.parts.clone() };
    let mut table = Table::default();
    let mut failed = false;
    for part in parts {
        eprintln!("== {part:?}");
        if let Err(error) = measure(part, &args, &mut table).await {
            eprintln!("{part:?} could not be measured: {error:#}");
            failed = true;
        }
    }
    table.print();
    if let Some(file) = &args.json {
        let text = format!("{:#}\n", table.report());
        if let Err(error) = std::fs::write(file, text) {
            eprintln!("error: failed to write {}: {error}", file.display());
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

async fn measure(part: Part, args: &Args, table: &mut Table) -> Result<()> {
    if cfg!(debug_assertions) {
        eprintln!("this is a debug build: its figures mean nothing");
    }
    match part {
        Part::Machine => machine::measure(table),
        Part::Pull => pull::separate(table).await,
        Part::Demo => pull::demo(table).await,
        Part::Kubectl => kubectl::measure(table, args.large).await,
        Part::Claims => claims::measure(table).await,
        Part::Queue => Box::pin(queue::measure(table)).await,
        Part::Hooks => Box::pin(hooks::measure(table)).await,
        Part::Idle => Box::pin(idle::measure(table)).await,
        Part::Jobs => Box::pin(jobs::measure(table)).await,
        Part::Writes => writes::measure(table).await,
        Part::Store => store::measure(table, args.large).await,
        Part::Kube => Box::pin(kube::measure(table)).await,
        Part::Server => {
            let load = server::Load { objects: args.objects, clients: args.clients };
            Box::pin(server::measure(table, load)).await
        }
        Part::Attacks => Box::pin(attacks::measure(table)).await,
        Part::Tracker => Box::pin(tracker::measure(table)).await,
        Part::Provisioner => Box::pin(provisioner::measure(table)).await,
        Part::Source => Box::pin(source::measure(table)).await,
    }
}
