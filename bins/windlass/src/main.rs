//! `windlass`: the API server, every operator, and the demo, in one program.

use std::process::ExitCode;

mod cli;
mod demo;
mod operators;
mod serve;
mod server;

fn main() -> ExitCode {
    cli::main()
}
