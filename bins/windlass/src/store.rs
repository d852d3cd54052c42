//! `windlass store`: what can be done with the store of a server that does not run.
#![expect(clippy::print_stdout, reason = "its answer goes to standard output")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use windlass_apiserver::store;

/// Options of `windlass store`.
#[derive(clap::Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Read every object and its checksum, and name those that are damaged: 1 if there are any.
    Check {
        /// The folder that `windlass serve` was given as `--data-dir`, or the store's file in it.
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
}

/// Does what was asked for.
pub(crate) fn run(args: &StoreArgs) -> Result<ExitCode> {
    match &args.command {
        StoreCommand::Check { path } => check(path),
    }
}

fn check(path: &Path) -> Result<ExitCode> {
    let file = if path.is_dir() { path.join("store.redb") } else { path.to_owned() };
    let checked = store::check_file(&file)?;
    println!("{} objects can be read", checked.objects);
    for problem in &checked.damaged {
        println!("{problem}");
    }
    if checked.damaged.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} are damaged: restore the store from a copy", checked.damaged.len());
    Ok(ExitCode::FAILURE)
}
