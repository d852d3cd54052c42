//! `source-controller` as a process, under exactly the Role of `deploy/`.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use windlass_cluster::Identity;

use super::FluxScene;
use crate::{Process, Programs, deployed, eventually, free_port};

/// A source controller of a scene's namespace. Its artifacts outlive its processes.
pub struct SourceController {
    identity: Identity,
    folder: PathBuf,
    origin: String,
    namespace: String,
    /// Ports of artifacts, metrics and probes.
    ports: [u16; 3],
    /// Arguments beside those that it always has.
    more: Vec<String>,
    starts: usize,
}

impl SourceController {
    /// One that is not started yet; it may use this Git server although it is local.
    pub async fn new(scene: &FluxScene, origin: &str) -> Result<Self> {
        Self::with(scene, origin, &[], &[]).await
    }

    /// The same with these components of `deploy/source-controller`, and the arguments that they add.
    pub async fn with(
        scene: &FluxScene,
        origin: &str,
        components: &[&str],
        arguments: &[&str],
    ) -> Result<Self> {
        let mut roles = std::fs::read_to_string(deployed("source-controller/rbac.yaml"))?;
        for component in components {
            let file = deployed(&format!("source-controller/{component}/rbac.yaml"));
            roles = format!("{roles}\n---\n{}", std::fs::read_to_string(file)?);
        }
        let identity = scene.namespace.service_account_from(&roles).await?;
        let folder = scene.folder.path().join("source-controller");
        std::fs::create_dir_all(&folder)?;
        let namespace = scene.namespace.name().to_owned();
        let ports = [free_port()?, free_port()?, free_port()?];
        let more = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Ok(Self { identity, folder, origin: origin.to_owned(), namespace, ports, more, starts: 0 })
    }

    /// Where its artifacts are kept.
    pub fn storage(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Starts a process and waits until it is ready.
    pub async fn start(&mut self) -> Result<Process> {
        self.starts += 1;
        let [artifacts, metrics, health] = self.ports;
        let arguments = [
            format!("--namespace={}", self.namespace),
            format!("--allow-git-origin={}", self.origin),
            format!("--storage-path={}", self.storage().display()),
            format!("--storage-addr=127.0.0.1:{artifacts}"),
            format!("--metrics-addr=127.0.0.1:{metrics}"),
            format!("--health-addr=127.0.0.1:{health}"),
            "--log-encoding=json".to_owned(),
            // Nobody waits for the Lease of one that was killed.
            "--enable-leader-election=false".to_owned(),
        ];
        let arguments: Vec<&str> = arguments.iter().chain(&self.more).map(String::as_str).collect();
        let (kubeconfig, cache) =
            (self.identity.kubeconfig.display().to_string(), self.folder.join("git").display().to_string());
        let environment =
            [("GF_OPERATOR_KUBECONFIG", kubeconfig.as_str()), ("GF_OPERATOR_GIT_CACHE_DIR", cache.as_str())];
        let log = self.folder.join(format!("log-{}", self.starts));
        let process = Process::start(&Programs::path("source-controller")?, &arguments, &environment, &log)?;
        let ready = eventually("the source controller is ready", || async {
            let answer = reqwest::get(format!("http://127.0.0.1:{health}/readyz")).await?;
            if !answer.status().is_success() {
                bail!("/readyz answers {}", answer.status());
            }
            Ok(Some(()))
        });
        ready.await.with_context(|| format!("it said:\n{}", process.output()))?;
        Ok(process)
    }
}
