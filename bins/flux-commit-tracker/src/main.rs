//! `flux-commit-tracker`: the commit tracker as a program of its own.
#![expect(clippy::print_stderr, reason = "a program says on standard error why it could not start")]

use std::process::ExitCode;

use clap::Parser;
use windlass_commit_tracker::options::TrackerArgs;
use windlass_commit_tracker::{FLUX_COMMIT_TRACKER, configure, register};
use windlass_launch::{Launch, process_setup};
use windlass_runtime::Registry;

/// Tells how long each commit took from merge to applied by Flux, counted once.
#[derive(Parser)]
#[command(name = "flux-commit-tracker", version = env!("WINDLASS_VERSION"))]
struct Args {
    #[command(flatten)]
    tracker: TrackerArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match process_setup() {
        Ok(runtime) => {
            let launch =
                Launch::new(register(Registry::new()), env!("WINDLASS_VERSION")).or_else(FLUX_COMMIT_TRACKER);
            configure(launch).run(&runtime, args.tracker)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
