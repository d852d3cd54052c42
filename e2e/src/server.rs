//! `windlass serve` on free ports.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{Kubectl, Process, Programs};

/// A port that is free now.
pub fn free_port() -> Result<u16> {
    let [port] = windlass_cluster::free_ports()?;
    Ok(port)
}

/// A running API server with its own folder.
pub struct Server {
    /// The process.
    pub process: Process,
    /// The folder of everything that belongs to it.
    pub folder: tempfile::TempDir,
    /// Port of the API.
    pub api: u16,
    /// Port of the token exchange.
    pub exchange: u16,
    /// Port of `/metrics` and the probes.
    pub metrics: u16,
    pub(crate) origins: Vec<String>,
    kubectl: Kubectl,
}

impl Deref for Server {
    type Target = Kubectl;

    fn deref(&self) -> &Kubectl {
        &self.kubectl
    }
}

impl Server {
    /// Starts a server; repositories may use `origins` although they are local.
    pub async fn start(origins: &[String]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let ports = [free_port()?, free_port()?, free_port()?];
        let process = spawn(folder.path(), ports, origins).await?;
        let [api, exchange, metrics] = ports;
        let kubectl = Kubectl {
            program: "kubectl".into(),
            kubeconfig: folder.path().join("data/kubeconfig"),
            namespace: "default".to_owned(),
            home: folder.path().to_owned(),
        };
        Ok(Self { process, folder, api, exchange, metrics, origins: origins.to_vec(), kubectl })
    }

    /// Starts it again on the same folder and ports, after it was killed.
    pub async fn restart(&mut self) -> Result<()> {
        self.process =
            spawn(self.folder.path(), [self.api, self.exchange, self.metrics], &self.origins).await?;
        Ok(())
    }

    /// `https://localhost:<port>`.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.api)
    }

    /// The exchange's URL.
    pub fn exchange_url(&self) -> String {
        format!("http://localhost:{}/sign/access-token", self.exchange)
    }

    /// The certificate that signed the server's.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.path().join("data/keys/ca.crt")
    }

    /// The kubeconfig that the server wrote.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubectl.kubeconfig.clone()
    }

    /// Runs a line of shell, with the server's ports as `$API` and `$EXCHANGE`.
    pub async fn shell(&self, line: &str) -> Result<String> {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", line])
            .env("API", self.api.to_string())
            .env("EXCHANGE", self.exchange.to_string())
            .env("CA", self.ca_file())
            .env("HOME", self.folder.path())
            .kill_on_drop(true)
            .output()
            .await?;
        if !output.status.success() {
            bail!("{line}\n{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Asks `/metrics`, `/livez` or `/readyz`; answers the status code and the body.
    pub async fn ask(&self, path: &str) -> Result<(u16, String)> {
        let answer = reqwest::get(format!("http://127.0.0.1:{}{path}", self.metrics)).await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// Posts a job with curl, as a user does, and answers the Job.
    pub async fn post_job(&self, repository: &str, spec: &Value) -> Result<Value> {
        let line = format!(
            "TOKEN=$(curl -sSf -X POST http://localhost:$EXCHANGE/sign/access-token -H 'Content-Type: application/json' \
               -H 'Authorization: Bearer ProvisioningAdminToken' \
               -d '{{\"namespace\": \"*\", \"audiences\": [\"provisioning.grafana.app\"]}}' | jq -r .data.token); \
             curl -sS --fail-with-body --cacert \"$CA\" -X POST https://localhost:$API/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/{repository}/jobs \
               -H 'Content-Type: application/json' -H \"X-Access-Token: Bearer $TOKEN\" -d '{spec}'"
        );
        Ok(serde_json::from_str(&self.shell(&line).await?)?)
    }

    /// Pulls a repository and answers the finished job.
    pub async fn pull(&self, repository: &str, incremental: bool) -> Result<Value> {
        let job = self
            .post_job(repository, &json!({"action": "pull", "pull": {"incremental": incremental}}))
            .await?;
        let uid = job["metadata"]["uid"].as_str().context("the job has no UID")?;
        self.filed(uid).await
    }
}

async fn spawn(folder: &Path, ports: [u16; 3], origins: &[String]) -> Result<Process> {
    let data = folder.join("data").display().to_string();
    let [api, exchange, metrics] = ports.map(|port| format!("127.0.0.1:{port}"));
    let mut arguments = vec![
        "serve",
        "--well-known-token",
        "--api-address",
        &api,
        "--exchange-address",
        &exchange,
        "--metrics-address",
        &metrics,
        "--data-dir",
        &data,
    ];
    for origin in origins {
        arguments.extend(["--allow-git-origin", origin]);
    }
    // As the operators of the tests have it.
    let environment = [("GF_OPERATOR_ENABLE_TEST_JOBS", "true")];
    let mut process =
        Process::start(&Programs::path("windlass")?, &arguments, &environment, &folder.join("serve.log"))?;
    process.says("kubeconfig").await?;
    Ok(process)
}
