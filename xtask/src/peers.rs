//! The foreign programs that the end-to-end tests talk to.
//!
//! What the system has is used. A missing kubectl is built from its published Go modules, pinned in
//! `xtask/tools/kubectl`, into the user's cache folder; jq and curl come from the system's packages.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::ci::in_ci;
use crate::shell::{cache_dir, root, run, which};

/// kubectl takes its version from the linker; the module's version is in `xtask/tools/kubectl/go.mod`.
const KUBECTL_LDFLAGS: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.34.2 \
    -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34";

/// The folder that built peers are put in.
fn bin_dir() -> PathBuf {
    cache_dir().join("bin")
}

/// The search path with our own folder of peers behind the system's.
pub(crate) fn search_path() -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(std::iter::once(bin_dir()));
    std::env::join_paths(folders).context("failed to extend the search path")
}

/// Makes sure that every peer is there; outside CI a missing one is a printed skip.
pub(crate) fn install() -> Result<()> {
    for (program, how) in [
        ("git", Install::Packages("git")),
        ("curl", Install::Packages("curl")),
        ("jq", Install::Packages("jq")),
        ("kubectl", Install::Kubectl),
    ] {
        if which(program).is_some() || bin_dir().join(program).is_file() {
            continue;
        }
        if !in_ci() {
            println!("skip: {program} is missing, tests that need it are skipped; {}", how.advice());
            continue;
        }
        how.install(program)?;
    }
    Ok(())
}

enum Install {
    Packages(&'static str),
    Kubectl,
}

impl Install {
    fn advice(&self) -> String {
        match self {
            Self::Packages(package) => format!("install the package `{package}` of your system"),
            Self::Kubectl => "install kubectl, or Go and run `CI=true cargo xtask peers`".to_owned(),
        }
    }

    fn install(&self, program: &str) -> Result<()> {
        match self {
            Self::Packages(package) => {
                if which("apt-get").is_none() {
                    bail!("{program} is missing and there is no apt-get to install it with");
                }
                run(Command::new("apt-get").args(["update", "-qq"]))?;
                run(Command::new("apt-get").args(["install", "-y", "-qq", package]))
            }
            Self::Kubectl => {
                println!("building kubectl with Go into {}", bin_dir().display());
                std::fs::create_dir_all(bin_dir())?;
                run(Command::new("go")
                    .args(["build", "-trimpath", "-ldflags", KUBECTL_LDFLAGS, "-o"])
                    .arg(bin_dir().join("kubectl"))
                    .arg(".")
                    .env("CGO_ENABLED", "0")
                    .current_dir(root().join("xtask/tools/kubectl")))
            }
        }
    }
}
