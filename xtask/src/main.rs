//! `cargo xtask`: everything that the project does to itself, in one place.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

mod bench;
mod ci;
mod codegen;
mod dev;
mod github_examples;
mod github_schema;
mod kube;
mod npm;
mod peers;
mod shell;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Project tasks: `cargo xtask <task>`.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check and every test, as the gate does.
    Ci(ci::Args),
    /// Write generated files (CRDs, configuration reference), or check that they are current.
    Codegen(codegen::Args),
    /// Check what no compiler checks: layers, headers, versions in one place, links in documents.
    Tidy,
    /// Run the API server and every operator with readable logs; restart what changed.
    Dev(dev::Args),
    /// Measure the release build against its targets, side by side with `kubectl apply`.
    Bench(bench::Args),
    /// Install or build the programs that the end-to-end tests talk to, where they are missing.
    Peers,
    /// Cut the operations that the stand-in of GitHub answers out of GitHub's published description; needs npm.
    GithubSchema,
    /// Gather the payloads that GitHub publishes as examples of its webhooks; needs npm.
    GithubExamples,
    /// Start, end or look at a real Kubernetes control plane on this machine.
    Kube(kube::Args),
}

fn main() -> ExitCode {
    let ended = match Args::parse().task {
        Task::Ci(args) => ci::run(&args),
        Task::Codegen(args) => codegen::run(&args),
        Task::Tidy => tidy::run(),
        Task::Dev(args) => dev::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Peers => peers::install(),
        Task::GithubSchema => github_schema::run(),
        Task::GithubExamples => github_examples::run(),
        Task::Kube(args) => kube::run(&args),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
