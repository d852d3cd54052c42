//! What is in a cluster's folder, and what of it is written down for others.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// What another process needs to know to use a running cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    /// `https://127.0.0.1:<port>`.
    pub(crate) url: String,
    pub(crate) port: u16,
    /// Whoever has it may do everything.
    pub(crate) admin_token: String,
    pub(crate) etcd_port: u16,
    pub(crate) etcd_peer_port: u16,
    /// The process that keeps the others.
    pub(crate) supervisor: u32,
    pub(crate) kubectl: PathBuf,
    /// Version of Kubernetes.
    pub(crate) version: String,
    /// Whether Flux's definitions and controller are there.
    pub(crate) flux: bool,
}

/// The files of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// A new one, which the supervisor removes.
    pub(crate) fn fresh() -> Result<Self> {
        Ok(Self::new(tempfile::Builder::new().prefix("windlass-cluster-").tempdir()?.keep()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.0.join("ca.crt")
    }

    pub(crate) fn ca_key(&self) -> PathBuf {
        self.0.join("ca.key")
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.0.join("tls.crt")
    }

    pub(crate) fn certificate_key(&self) -> PathBuf {
        self.0.join("tls.key")
    }

    pub(crate) fn account_key(&self) -> PathBuf {
        self.0.join("service-accounts.key")
    }

    pub(crate) fn account_public_key(&self) -> PathBuf {
        self.0.join("service-accounts.pub")
    }

    pub(crate) fn tokens(&self) -> PathBuf {
        self.0.join("tokens.csv")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.0.join("kubeconfig")
    }

    pub(crate) fn log(&self, program: &str) -> PathBuf {
        self.0.join(format!("{program}.log"))
    }

    /// The last lines of a program's log.
    pub(crate) fn tail(&self, program: &str) -> String {
        const LINES: usize = 15;
        let text = std::fs::read_to_string(self.log(program)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
        format!("{program} said last:\n{}", tail.join("\n"))
    }

    fn state(&self) -> PathBuf {
        self.0.join("cluster.json")
    }

    /// Writes whole or not at all: whoever finds the file finds a cluster that answers.
    pub(crate) fn write_state(&self, state: &State) -> Result<()> {
        let unfinished = self.0.join("cluster.json.tmp");
        std::fs::write(&unfinished, serde_json::to_vec_pretty(state)?)?;
        std::fs::rename(&unfinished, self.state())?;
        Ok(())
    }

    pub(crate) fn read_state(&self) -> Result<State> {
        let file = self.state();
        let text = std::fs::read(&file).with_context(|| format!("failed to read {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("failed to read {}", file.display()))
    }
}
