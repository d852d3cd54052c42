//! `cargo xtask bench`: the release build against its targets.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::peers;
use crate::shell::{cargo, run as run_command, target_dir};

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure; everything when left out.
    #[arg(value_name = "PART")]
    parts: Vec<String>,
    /// Also let kubectl apply 10,000 documents, which takes minutes.
    #[arg(long)]
    large: bool,
    /// How many objects of two kilobytes the API server is measured with; 100,000 when left out.
    #[arg(long, value_name = "NUMBER")]
    objects: Option<usize>,
    /// Also write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    run_command(cargo().args(["build", "--release", "--locked", "--bins", "--workspace"]))?;
    // Not by `cargo run`, which would build it and what it needs once more, with fewer features.
    let program = target_dir()?.join("release").join("bench");
    run_command(
        Command::new(program)
            .args(&args.parts)
            .args(args.large.then_some("--large"))
            .args(args.objects.iter().map(|number| format!("--objects={number}")))
            .args(args.json.iter().flat_map(|file| [OsStr::new("--json"), file.as_os_str()]))
            .env("PATH", peers::search_path()?),
    )
}
