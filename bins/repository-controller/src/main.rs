//! `repository-controller`: the repository operator as a program of its own.
#![expect(clippy::print_stderr, reason = "a program says on standard error why it could not start")]

use std::process::ExitCode;

use clap::Parser;
use windlass_launch::{Launch, OperatorArgs, process_setup};
use windlass_repository_operator::{PROVISIONING_REPO, register};
use windlass_runtime::Registry;

/// Looks after the repositories of an API server: health, syncs, clean-up.
#[derive(Parser)]
#[command(name = "repository-controller", version = env!("WINDLASS_VERSION"))]
struct Args {
    #[command(flatten)]
    operator: OperatorArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match process_setup() {
        Ok(runtime) => {
            let registry =
                register(Registry::new().elsewhere(&["provisioning-jobs", "provisioning-jobqueue"]));
            Launch::new(registry, env!("WINDLASS_VERSION"))
                .or_else(PROVISIONING_REPO)
                .run(&runtime, args.operator)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
