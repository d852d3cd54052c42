//! Generated files: written from the code, committed, and checked to be current.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::shell::root;

/// Options of `cargo xtask codegen`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change nothing; fail when a generated file is not what the code says.
    #[arg(long)]
    pub(crate) check: bool,
}

/// Every generated file with its content, by path from the workspace's root.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for crd in windlass_api::crds::all().into_iter().chain(windlass_api::crds::flux()) {
        let name = windlass_api::crds::file_name(&crd);
        let text = windlass_api::crds::yaml(&crd).with_context(|| format!("failed to write {name}"))?;
        files.push((PathBuf::from("deploy/crds").join(name), text));
    }
    files.push(("docs/reference/configuration.md".into(), windlass_settings::reference_markdown()));
    files.push((
        "docs/reference/commit-tracker-metrics.md".into(),
        windlass_commit_tracker::metrics::reference_markdown(),
    ));
    files.push(("docs/reference/metrics.md".into(), windlass_jobs_operator::metrics_reference()));
    files.push(("docs/reference/telemetry.md".into(), windlass_telemetry::reference_markdown()));
    Ok(files)
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut stale = Vec::new();
    for (path, content) in files()? {
        let target = root().join(&path);
        if std::fs::read_to_string(&target).is_ok_and(|current| current == content) {
            continue;
        }
        if args.check {
            stale.push(path.display().to_string());
            continue;
        }
        if let Some(folder) = target.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&target, content).with_context(|| format!("failed to write {}", path.display()))?;
        println!("wrote {}", path.display());
    }
    if !stale.is_empty() {
        bail!("not current: {}; run `cargo xtask codegen` and commit the result", stale.join(", "));
    }
    Ok(())
}
