//! Clients of tests that are written in Go, built once for what their sources say.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::folders::{cache_dir, say};
use crate::programs::{has_go, lock};

/// The program of the Go module in `module`, from the user's cache folder, or built now if its files changed.
/// `None`: there is no Go to build it with, and that was said; with `CI=true` it is an error.
pub fn go_program(module: &Path) -> Result<Option<PathBuf>> {
    let name = module.file_name().context("a module's folder has a name")?.to_string_lossy().into_owned();
    let clients = cache_dir().join("clients");
    let folder = clients.join(format!("{name}-{:016x}", hash_of(module)?));
    let file = folder.join(&name);
    if file.is_file() {
        return Ok(Some(file));
    }
    if !has_go(&name, "")? {
        return Ok(None);
    }
    let _lock = lock(&clients)?;
    if file.is_file() {
        // Somebody else built it while we waited.
        return Ok(Some(file));
    }
    say(&format!("building {name} with Go; the first time this takes three minutes"));
    std::fs::create_dir_all(&folder)?;
    let unfinished = folder.join(format!("{name}.tmp"));
    let status = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o"])
        .arg(&unfinished)
        .arg(".")
        .env("CGO_ENABLED", "0")
        .current_dir(module)
        .status()
        .context("failed to start go")?;
    if !status.success() {
        bail!("failed to build {name}: go ended with {status}");
    }
    std::fs::rename(&unfinished, &file)?;
    Ok(Some(file))
}

/// Names and contents of a folder's files.
pub(crate) fn hash_of(module: &Path) -> Result<u64> {
    let mut files = Vec::new();
    let entries =
        std::fs::read_dir(module).with_context(|| format!("failed to read {}", module.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.file_name().hash(&mut hasher);
        std::fs::read(&file)?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}
