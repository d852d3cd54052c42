//! Where things are kept, and what the surroundings ask for.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// The folder that built programs are kept in, for each user: `$XDG_CACHE_HOME/windlass` or `~/.cache/windlass`.
pub fn cache_dir() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .unwrap_or_else(std::env::temp_dir);
    base.join("windlass")
}

/// Whether a thing that is missing is a failure (`CI=true`) instead of a printed skip.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// A program of this workspace, in the folder that the running one was built into.
pub fn built_program(name: &str) -> Result<PathBuf> {
    let me = std::env::current_exe()?;
    match me.ancestors().map(|folder| folder.join(name)).find(|file| file.is_file()) {
        Some(file) => Ok(file),
        None => bail!("{name} is not built; run `cargo build --workspace --bins` first"),
    }
}

/// The workspace's folder of pinned Go modules.
pub(crate) fn tools_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../xtask/tools")
}

/// Says something to whoever waits. Unlike `eprintln!`, it is seen while a test runs.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}
