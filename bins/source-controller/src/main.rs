//! `source-controller`: the source operator as a program of its own.
#![expect(clippy::print_stderr, reason = "a program says on standard error why it could not start")]

use std::process::ExitCode;

use clap::Parser;
use windlass_launch::{Launch, process_setup};
use windlass_runtime::Registry;
use windlass_source_operator::options::SourceArgs;
use windlass_source_operator::{SOURCE_CONTROLLER, configure, register};

/// Makes artifacts of Git repositories, which Flux applies.
#[derive(Parser)]
#[command(name = "source-controller", version = env!("WINDLASS_VERSION"))]
struct Args {
    #[command(flatten)]
    source: SourceArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match process_setup() {
        Ok(runtime) => {
            let launch =
                Launch::new(register(Registry::new()), env!("WINDLASS_VERSION")).or_else(SOURCE_CONTROLLER);
            configure(launch).run(&runtime, args.source)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
