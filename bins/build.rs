//! Names the commit that a program is built from: `WINDLASS_VERSION` is the version with it, `0.1.0 (1a2b3c4d5e6f)`.
//!
//! The commit is what the variable `WINDLASS_COMMIT` says (builds of images see no `.git`), or else what is checked out;
//! without either it is left out. Git is not run, and a program is built anew only when the checked-out commit is another.

use std::fs;
use std::path::{Path, PathBuf};

/// Digits of the commit's id that are shown.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-env-changed=WINDLASS_COMMIT");
    println!("cargo::rerun-if-changed=../build.rs");
    let given = std::env::var("WINDLASS_COMMIT").ok().filter(|commit| !commit.trim().is_empty());
    let commit = given.or_else(|| checked_out(Path::new("../../.git")));
    let version = env("CARGO_PKG_VERSION");
    let named = match commit.as_deref().map(str::trim) {
        Some(commit) if commit.chars().all(|c| c.is_ascii_alphanumeric()) => {
            format!("{version} ({})", &commit[..commit.len().min(DIGITS)])
        }
        _ => version,
    };
    println!("cargo::rustc-env=WINDLASS_VERSION={named}");
}

/// The id of the commit that is checked out in the repository at `git`, which is a folder, or a file that names one.
fn checked_out(git: &Path) -> Option<String> {
    let folder = match fs::read_to_string(git) {
        Ok(file) => git.parent()?.join(file.strip_prefix("gitdir: ")?.trim()),
        Err(_) => git.to_path_buf(),
    };
    // Grows with each commit and check-out; a branch's own file may not be there.
    watched(folder.join("logs/HEAD"));
    let head = fs::read_to_string(watched(folder.join("HEAD"))).ok()?;
    let Some(branch) = head.strip_prefix("ref: ").map(str::trim) else { return Some(head) };
    // A worktree has its own HEAD, and the branches of the repository.
    let shared = fs::read_to_string(folder.join("commondir")).ok();
    let shared = shared.map_or(folder.clone(), |path| folder.join(path.trim()));
    if let Ok(commit) = fs::read_to_string(watched(shared.join(branch))) {
        return Some(commit);
    }
    let packed = fs::read_to_string(watched(shared.join("packed-refs"))).ok()?;
    packed.lines().find_map(|line| line.strip_suffix(branch)?.strip_suffix(' ').map(str::to_owned))
}

/// A file whose change has this run again. One that is not there would have it run at each build.
fn watched(path: PathBuf) -> PathBuf {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    path
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
