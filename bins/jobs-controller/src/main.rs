//! `jobs-controller`: the jobs operator as a program of its own.
#![expect(clippy::print_stderr, reason = "a program says on standard error why it could not start")]

use std::process::ExitCode;

use clap::Parser;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};
use windlass_launch::{Launch, OperatorArgs, process_setup};
use windlass_runtime::Registry;

/// Runs provisioning jobs from the queue of an API server.
#[derive(Parser)]
#[command(name = "jobs-controller", version = env!("WINDLASS_VERSION"))]
struct Args {
    #[command(flatten)]
    operator: OperatorArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match process_setup() {
        Ok(runtime) => {
            let registry =
                register(Registry::new().elsewhere(&["provisioning-repo", "provisioning-connection"]));
            Launch::new(registry, env!("WINDLASS_VERSION"))
                .or_else(PROVISIONING_JOBS)
                .run(&runtime, args.operator)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
