//! A running control plane, as tests use it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use jiff::SignedDuration;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::io::AsyncWriteExt as _;

use crate::certificates;
use crate::definitions;
use crate::programs::has_go;
use crate::state::{Folder, State};

/// A running control plane.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    folder: Folder,
    state: State,
    ca_file: PathBuf,
    kubeconfig: PathBuf,
}

impl Cluster {
    pub(crate) fn new(folder: Folder, state: State) -> Self {
        let (ca_file, kubeconfig) = (folder.ca(), folder.kubeconfig());
        Self(Arc::new(Inner { folder, state, ca_file, kubeconfig }))
    }

    /// `https://127.0.0.1:<port>`.
    pub fn url(&self) -> &str {
        &self.0.state.url
    }

    /// The certificate that the API server's own is verified with.
    pub fn ca_file(&self) -> &Path {
        &self.0.ca_file
    }

    /// A kubeconfig of somebody who may do everything.
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.0.kubeconfig
    }

    /// The token of somebody who may do everything.
    pub fn admin_token(&self) -> &str {
        &self.0.state.admin_token
    }

    /// A client certificate of whoever has this name, and its key, both in PEM. The account `a` of the namespace `n` is
    /// `system:serviceaccount:n:a`. It is good for `remaining`, or for that long no more.
    pub fn client_certificate(&self, name: &str, remaining: SignedDuration) -> Result<(String, String)> {
        certificates::client(&self.0.folder, name, remaining)
    }

    /// The cluster's folder: logs of each program, keys and kubeconfigs.
    pub fn folder(&self) -> &Path {
        self.0.folder.path()
    }

    /// Serves Argo CD's applications on this cluster, without anybody who deploys them. False: there is no Go to find their
    /// definition with, and that was said; with `CI=true` it is an error.
    pub async fn establish_argo_cd(&self) -> Result<bool> {
        if !has_go("Argo CD's definition", "")? {
            return Ok(false);
        }
        definitions::establish(&self.admin().await?, &definitions::argo_cd()?).await?;
        Ok(true)
    }

    pub(crate) fn files(&self) -> &Folder {
        &self.0.folder
    }

    pub(crate) fn state(&self) -> &State {
        &self.0.state
    }

    /// A new client on the calling runtime, of somebody who may do everything.
    pub async fn admin(&self) -> Result<kube::Client> {
        client(&self.0.kubeconfig).await
    }

    /// A new client on the calling runtime, of whoever a kubeconfig names.
    pub async fn client(&self, kubeconfig: &Path) -> Result<kube::Client> {
        client(kubeconfig).await
    }

    /// Whether the API server says that it is ready.
    pub async fn ready(&self) -> Result<()> {
        const PATIENCE: Duration = Duration::from_secs(30);
        let client = self.admin().await?;
        let asked = client.request_text(http_get("/readyz")?);
        tokio::time::timeout(PATIENCE, asked).await.context("no answer to /readyz")??;
        Ok(())
    }

    /// Runs kubectl as somebody who may do everything, and answers what it printed; a failure carries what it complained
    /// of. `input` is its standard input.
    pub async fn kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        self.kubectl_as(&self.0.kubeconfig, args, input).await
    }

    /// The same as whoever a kubeconfig names.
    pub async fn kubectl_as(&self, kubeconfig: &Path, args: &[&str], input: &str) -> Result<String> {
        let mut child = tokio::process::Command::new(&self.0.state.kubectl)
            .args(args)
            .env("KUBECONFIG", kubeconfig)
            .env("HOME", self.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("failed to start kubectl")?;
        let mut stdin = child.stdin.take().context("kubectl has no standard input")?;
        let give = async move {
            // A kubectl that does not read ends the pipe, which is no failure.
            let _ = stdin.write_all(input.as_bytes()).await;
        };
        let ((), output) = tokio::join!(give, child.wait_with_output());
        let output = output?;
        if !output.status.success() {
            bail!("kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}

async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let file = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("failed to read {}", kubeconfig.display()))?;
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    // The server is on this machine.
    config.proxy_url = None;
    Ok(kube::Client::try_from(config)?)
}
