//! `cargo xtask bench`: the release build against its targets.

use anyhow::Result;

use crate::peers;
use crate::shell::{cargo, run as run_command};

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure; everything when left out.
    #[arg(value_name = "PART")]
    parts: Vec<String>,
    /// Also let kubectl apply 10,000 documents, which takes minutes.
    #[arg(long)]
    large: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run_command(cargo().args(["build", "--release", "--locked", "--bins", "--workspace"]))?;
    run_command(
        cargo()
            .args(["run", "--release", "--locked", "--package", "windlass-e2e", "--bin", "bench", "--"])
            .args(&args.parts)
            .args(args.large.then_some("--large"))
            .env("PATH", peers::search_path()?),
    )
}
