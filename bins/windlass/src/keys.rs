//! `windlass keys`: the keys that sign access tokens, of a server that may run.
#![expect(clippy::print_stdout, reason = "its answer goes to standard output")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Subcommand;
use windlass_auth::SigningKeys;

/// Options of `windlass keys`.
#[derive(clap::Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Sign access tokens with a new key. Those of the key before stay good until they end. A server that runs follows
    /// within half a minute.
    Rotate {
        /// The folder that `windlass serve` was given as `--data-dir`.
        #[arg(value_name = "DIR")]
        data: PathBuf,
        /// Refuse all tokens of the key before at once, as when it became known to somebody.
        #[arg(long)]
        forget: bool,
    },
    /// Refuse an access token from now on. A server that runs follows within half a minute.
    Revoke {
        /// The folder that `windlass serve` was given as `--data-dir`.
        #[arg(value_name = "DIR")]
        data: PathBuf,
        /// The token, or its id (its claim `jti`).
        #[arg(value_name = "TOKEN")]
        token: String,
    },
}

/// Does what was asked for.
pub(crate) fn run(args: KeysArgs) -> Result<ExitCode> {
    let (KeysCommand::Rotate { data, .. } | KeysCommand::Revoke { data, .. }) = &args.command;
    let folder = data.join("keys");
    ensure!(folder.is_dir(), "there are no keys in {}", data.display());
    match args.command {
        KeysCommand::Rotate { forget, .. } => SigningKeys::rotate(&folder, forget)?,
        KeysCommand::Revoke { token, .. } => {
            println!("revoked {}", SigningKeys::revoke(&folder, &token)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}
