//! `flux-commit-tracker`: the commit tracker as a program of its own.
#![expect(clippy::print_stderr, reason = "a program says on standard error why it could not start")]

use std::process::ExitCode;

use clap::Parser;
use windlass_commit_tracker::options::TrackerArgs;
use windlass_commit_tracker::{FLUX_COMMIT_TRACKER, configure, register};
use windlass_launch::{Launch, process_setup};
use windlass_runtime::Registry;

/// What is kept of ten thousand Kustomizations is small and stays, between much that is gone in a moment: glibc keeps the
/// holes. How many arenas there are, and that pages go back at once, is said in `.cargo/config.toml`. On other
/// machines pages may be larger than where it was built, which jemalloc does not take.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

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
