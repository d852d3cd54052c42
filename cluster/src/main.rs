//! `windlass-cluster`: keeps the processes of a control plane for whoever holds its standard input.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Keeps the processes of a control plane; started by tests and by `cargo xtask kube up`.
#[derive(Parser)]
struct Args {
    /// The folder of the cluster, with the logs; it is removed at the end.
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    // One thread: the kernel ties a child's life to the thread that started it.
    let ended = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(windlass_cluster::supervisor::run(&args.folder)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
