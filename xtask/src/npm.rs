//! Files of packages that GitHub publishes about its API.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// A package that was fetched with npm, in a folder of its own.
pub(crate) struct Package(TempDir);

impl Package {
    /// Fetches that version and unpacks it.
    pub(crate) fn fetch(name: &str, version: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("failed to make a folder for the package")?;
        let mut pack = Command::new("npm");
        pack.args(["pack", "--silent", &format!("{name}@{version}"), "--pack-destination"]);
        let packed = run(pack.arg(folder.path()), "npm pack")?;
        let archive = folder.path().join(String::from_utf8(packed)?.trim());
        run(Command::new("tar").args(["xzf"]).arg(archive).arg("-C").arg(folder.path()), "tar")?;
        Ok(Self(folder))
    }

    /// The folder that holds the package's files.
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.0.path().join("package")
    }

    /// A file of JSON.
    pub(crate) fn json(&self, file: impl AsRef<Path>) -> Result<Value> {
        let path = self.path().join(file);
        let text = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))
    }
}

fn run(command: &mut Command, name: &str) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("failed to run {name}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(output.stdout)
}
