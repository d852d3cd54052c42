//! The foreign programs that the end-to-end tests talk to.
//!
//! What the system has is used; git, curl, jq, OpenSSH, gpg, squid, dante, Prometheus, Python and Node.js come from its
//! packages. The programs of a Kubernetes cluster, kubectl among them, OpenTelemetry's collector and clients in Go are built with
//! Go by `windlass-cluster`; what clients in Python and JavaScript need is installed for them alone.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use windlass_cluster::{Program, Programs, Script, go_program, in_ci};

use crate::shell::{root, run, which};

/// Programs and libraries of the system, and the packages that have them.
const PACKAGES: [(&str, &str); 13] = [
    ("git", "git"),
    ("curl", "curl"),
    ("jq", "jq"),
    ("ssh-keygen", "openssh-client"),
    ("sshd", "openssh-server"),
    ("gpg", "gnupg"),
    ("squid", "squid"),
    ("danted", "dante-server"),
    // Says who may log in to dante.
    ("libnss_wrapper.so", "libnss-wrapper"),
    ("prometheus", "prometheus"),
    ("promtool", "prometheus"),
    ("python3", "python3-venv"),
    ("npm", "npm"),
];

/// The search path with our own kubectl behind the system's.
pub(crate) fn search_path() -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let kubectl = Program::Kubectl.find()?;
    let folder = kubectl.as_deref().and_then(std::path::Path::parent);
    let folders = std::env::split_paths(&path).chain(folder.map(Into::into));
    std::env::join_paths(folders).context("failed to extend the search path")
}

/// Makes sure that every peer is there; a missing one is a printed skip, or in CI, where it cannot be installed, a
/// failure.
pub(crate) fn install() -> Result<()> {
    for (program, package) in PACKAGES {
        let is_library =
            Path::new(program).extension().is_some_and(|it| it == "so") && can_be_loaded(program);
        if which(program).is_some() || Path::new("/usr/sbin").join(program).is_file() || is_library {
            continue;
        }
        if in_ci() {
            install_package(package)?;
        } else {
            println!(
                "skip: {program} is missing, tests that need it are skipped; install it with your system's packages"
            );
        }
    }
    // Debian has Python's environments in a package of their own.
    if in_ci() && !Command::new("python3").args(["-c", "import ensurepip"]).status()?.success() {
        install_package("python3-venv")?;
    }
    Programs::find_or_build()?;
    Program::KustomizeController.find_or_build()?;
    Program::Registry.find_or_build()?;
    Program::Collector.find_or_build()?;
    let clients = root().join("e2e/clients");
    go_program(&clients.join("drivers"))?;
    Script::Python.ready(&clients.join("python"))?;
    Script::Node.ready(&clients.join("node"))?;
    Ok(())
}

/// Whether the library can stand before the system's.
fn can_be_loaded(library: &str) -> bool {
    let tried = Command::new("true").env("LD_PRELOAD", library).output();
    tried.is_ok_and(|tried| tried.stderr.is_empty())
}

fn install_package(package: &str) -> Result<()> {
    if which("apt-get").is_none() {
        bail!("{package} is missing and there is no apt-get to install it with");
    }
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    let install = ["install", "-y", "-qq", "--no-install-recommends", package];
    run(Command::new("apt-get").args(install).env("DEBIAN_FRONTEND", "noninteractive"))
}
