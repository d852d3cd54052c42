//! `windlass`: the API server, every operator, and the demo, in one program.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test may panic"))]

use std::process::ExitCode;

mod cli;
mod demo;
mod keys;
mod operators;
mod serve;
mod server;
mod store;
mod why;

/// The API server's threads give back what others asked for, which this one is made for.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
