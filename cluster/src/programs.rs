//! The control plane's programs: found, or built with Go from the modules that `xtask/tools` pins.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::folders::{cache_dir, in_ci, say, tools_dir};

/// A folder with `etcd`, `kube-apiserver` and `kubectl`, as controller tests of other projects use it.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// A program that tests run, and how it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The store beneath the API server.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// Garbage collection by owner reference, and deletion of namespaces.
    KubeControllerManager,
    /// The command-line client.
    Kubectl,
    /// Flux's consumer of artifacts.
    KustomizeController,
    /// An OCI registry.
    Registry,
    /// OpenTelemetry's collector, with what the compose stack's configuration names.
    Collector,
}

/// Everything that a control plane is started from.
#[derive(Clone, Debug)]
pub struct Programs {
    pub(crate) etcd: PathBuf,
    pub(crate) apiserver: PathBuf,
    pub(crate) controller_manager: PathBuf,
    pub(crate) kubectl: PathBuf,
}

impl Programs {
    /// Finds every program, and builds what is missing. `None`: there is no Go to build them with, and that was said;
    /// with `CI=true` it is an error.
    pub fn find_or_build() -> Result<Option<Self>> {
        let find = Program::find_or_build;
        let (Some(etcd), Some(apiserver), Some(controller_manager), Some(kubectl)) = (
            find(Program::Etcd)?,
            find(Program::KubeApiserver)?,
            find(Program::KubeControllerManager)?,
            find(Program::Kubectl)?,
        ) else {
            return Ok(None);
        };
        Ok(Some(Self { etcd, apiserver, controller_manager, kubectl }))
    }
}

impl Program {
    /// Its name as a command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::KustomizeController => "kustomize-controller",
            Self::Registry => "registry",
            Self::Collector => "otelcol",
        }
    }

    /// The folder beneath `xtask/tools` that pins it.
    fn tool(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver | Self::KubeControllerManager | Self::Kubectl => "kubernetes",
            Self::KustomizeController => "kustomize-controller",
            Self::Registry => "registry",
            Self::Collector => "otelcol",
        }
    }

    /// The Go module that its version is the version of.
    fn module(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver | Self::KubeControllerManager | Self::Kubectl => "k8s.io/kubernetes",
            Self::KustomizeController => "github.com/fluxcd/kustomize-controller",
            Self::Registry => "github.com/distribution/distribution/v3",
            Self::Collector => "go.opentelemetry.io/collector/otelcol",
        }
    }

    /// The Go package of its `main`.
    fn package(self) -> String {
        match self {
            Self::Etcd | Self::KustomizeController => self.module().to_owned(),
            // A main of our own, without what no test uses: it builds in half the time.
            Self::Registry | Self::Collector => ".".to_owned(),
            _ => format!("{}/cmd/{}", self.module(), self.name()),
        }
    }

    /// How long a build takes on two processors with nothing built before.
    fn usual_time(self) -> &'static str {
        match self {
            Self::Etcd | Self::Registry | Self::Collector => "a minute",
            Self::KubeApiserver => "four minutes",
            Self::KubeControllerManager => "one minute, or five alone",
            Self::Kubectl => "half a minute, or three alone",
            Self::KustomizeController => "three minutes",
        }
    }

    /// The version that `go.mod` pins.
    pub fn version(self) -> Result<String> {
        pinned(self.tool(), self.module())
    }

    /// Where it is, in `KUBEBUILDER_ASSETS` or the user's cache folder.
    pub fn find(self) -> Result<Option<PathBuf>> {
        if let Some(assets) = std::env::var_os(ASSETS) {
            let file = PathBuf::from(assets).join(self.name());
            if file.is_file() {
                return Ok(Some(file));
            }
        }
        let file = self.cached()?;
        Ok(file.is_file().then_some(file))
    }

    /// Finds it, or builds it. `None`: there is no Go to build it with, and that was said; with `CI=true` it is an error.
    pub fn find_or_build(self) -> Result<Option<PathBuf>> {
        if let Some(file) = self.find()? {
            return Ok(Some(file));
        }
        let instead = format!(", or set {ASSETS} to a folder that has it");
        if has_go(self.name(), &instead)? { self.build().map(Some) } else { Ok(None) }
    }

    /// `<cache>/windlass/peers/<tool>-<version>/<program>`.
    fn cached(self) -> Result<PathBuf> {
        Ok(self.folder()?.join(self.name()))
    }

    /// The folder of programs of the same module and version.
    pub fn folder(self) -> Result<PathBuf> {
        Ok(peers().join(format!("{}-{}", self.tool(), self.version()?)))
    }

    fn build(self) -> Result<PathBuf> {
        let (name, version) = (self.name(), self.version()?);
        let _lock = lock(&peers())?;
        let file = self.cached()?;
        if file.is_file() {
            // Somebody else built it while we waited.
            return Ok(file);
        }
        say(&format!("building {name} {version} with Go, once; this takes about {}", self.usual_time()));
        let started = Instant::now();
        let folder = self.folder()?;
        std::fs::create_dir_all(&folder)?;
        let unfinished = folder.join(format!("{name}.tmp"));
        let status = Command::new("go")
            .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &self.linker_flags(&version), "-o"])
            .arg(&unfinished)
            .arg(self.package())
            .env("CGO_ENABLED", "0")
            .current_dir(tools_dir().join(self.tool()))
            .status()
            .context("failed to start go")?;
        if !status.success() {
            bail!("failed to build {name} {version}: go ended with {status}");
        }
        std::fs::rename(&unfinished, &file)?;
        say(&format!("built {name} in {:.0} s: {}", started.elapsed().as_secs_f64(), file.display()));
        Ok(file)
    }

    /// Kubernetes' programs know their version from the linker alone.
    fn linker_flags(self, version: &str) -> String {
        let mut flags = vec!["-s -w".to_owned()];
        if self.tool() == "kubernetes" {
            let mut parts = version.trim_start_matches('v').split('.');
            let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
                for (variable, value) in [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)] {
                    flags.push(format!("-X {package}.{variable}={value}"));
                }
            }
        }
        flags.join(" ")
    }
}

/// The version of `module` that the tool's `go.mod` requires.
pub(crate) fn pinned(tool: &str, module: &str) -> Result<String> {
    let file = tools_dir().join(tool).join("go.mod");
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
    required(&text, module).with_context(|| format!("{} does not require {module}", file.display()))
}

fn required(text: &str, module: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line = line.trim().strip_prefix("require ").unwrap_or(line.trim());
        let (path, rest) = line.split_once(' ')?;
        (path == module && !rest.starts_with("=>")).then(|| rest.split(' ').next().map(str::to_owned))?
    })
}

fn peers() -> PathBuf {
    cache_dir().join("peers")
}

/// Whether there is a Go to build `program` with. If not, that was said; with `CI=true` it is an error.
pub(crate) fn has_go(program: &str, instead: &str) -> Result<bool> {
    if Command::new("go").arg("version").output().is_ok() {
        return Ok(true);
    }
    let advice = format!(
        "{program} is missing: install Go (https://go.dev/doc/install), with which it is built{instead}"
    );
    if in_ci() {
        bail!(advice);
    }
    say(&format!("skipped: {advice}"));
    Ok(false)
}

/// Keeps others from building at the same time, until it is dropped.
pub(crate) fn lock(folder: &Path) -> Result<File> {
    std::fs::create_dir_all(folder)?;
    let file = File::create(folder.join("lock"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            say("waiting for another process that builds the same programs");
            file.lock()?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).context("failed to lock the folder of programs");
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::{Program, required};

    #[test]
    fn versions_are_those_of_go_mod() -> anyhow::Result<()> {
        let text = "module a\nrequire b.org/c v1.2.3\nrequire (\n\td.org/e v0.1.0 // indirect\n)\nreplace d.org/f => ./f\n";
        assert_eq!(required(text, "b.org/c").as_deref(), Some("v1.2.3"));
        assert_eq!(required(text, "d.org/e").as_deref(), Some("v0.1.0"));
        assert_eq!(required(text, "d.org/f"), None);
        for program in [
            Program::Etcd,
            Program::KubeApiserver,
            Program::KustomizeController,
            Program::Registry,
            Program::Collector,
        ] {
            assert!(program.version()?.starts_with('v'));
        }
        Ok(())
    }

    #[test]
    fn the_linker_gets_the_version_in_its_parts() {
        let flags = Program::Kubectl.linker_flags("v1.36.3");
        assert!(flags.contains("component-base/version.gitMajor=1"), "{flags}");
        assert!(flags.contains("client-go/pkg/version.gitMinor=36"), "{flags}");
    }
}
