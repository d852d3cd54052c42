//! The command line.
#![expect(clippy::print_stderr, reason = "a command-line tool says on standard error why it failed")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use windlass_launch::{OperatorArgs, process_setup};

use crate::demo::DemoArgs;
use crate::keys::KeysArgs;
use crate::serve::ServeArgs;
use crate::store::StoreArgs;
use crate::why::WhyArgs;
use crate::{demo, keys, operators, serve, store, why};

/// Keeps Git and Kubernetes-style APIs in step.
#[derive(Parser)]
#[command(name = "windlass", version = env!("WINDLASS_VERSION"), arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start everything, pull a sample repository (or yours), and stay up for a look around.
    Demo(DemoArgs),
    /// Run the API server and the token exchange.
    Serve(Box<ServeArgs>),
    /// Check, read, copy, restore and compact the store of a server.
    Store(StoreArgs),
    /// Rotate the keys that sign access tokens, and revoke tokens.
    Keys(KeysArgs),
    /// Say what a repository or a job waits for.
    ///
    /// It tells what the API's objects say: conditions, the queue, who holds a job, the last delivery of the webhook and
    /// what came of it, and until when a Git server that asked for it is left alone. What is left of the host's share and of
    /// GitHub's rate limit is told by the metrics of the repository controller, where they are to be had.
    Why(WhyArgs),
    /// Run an operator, as Grafana's `server target` does.
    Server(ServerArgs),
}

#[derive(clap::Args)]
struct ServerArgs {
    #[command(subcommand)]
    command: ServerCommand,
}

#[derive(Subcommand)]
enum ServerCommand {
    /// Run the operator that `GF_OPERATOR_NAME` names.
    Target(Box<OperatorArgs>),
}

/// Runs the command and answers the process's exit code: 2 for a command line or settings that make no sense, 1 for
/// everything else that failed.
pub(crate) fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match process_setup() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&*error),
    };
    let ended = match args.command {
        Command::Demo(args) => runtime.block_on(demo::run(args)),
        Command::Why(args) => runtime.block_on(why::run(args)),
        Command::Serve(args) => runtime.block_on(serve::run(*args)),
        Command::Store(args) => runtime.block_on(store::run(args)),
        Command::Keys(args) => keys::run(args),
        Command::Server(ServerArgs { command: ServerCommand::Target(args) }) => {
            return operators::launch().run(&runtime, *args);
        }
    };
    // What still blocks in the background (a transfer that is being cut off) does not hold the process up.
    runtime.shutdown_background();
    match ended {
        Ok(code) => code,
        Err(error) => failed(&*error),
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    eprintln!("error: {}", windlass_telemetry::ErrorChain(error));
    ExitCode::FAILURE
}
