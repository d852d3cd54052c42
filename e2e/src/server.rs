//! `windlass serve` on free ports, and the operators that stand beside it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{Process, Programs, eventually};

/// A port that is free now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
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
    origins: Vec<String>,
}

impl Server {
    /// Starts a server; repositories may use `origins` although they are local.
    pub async fn start(origins: &[String]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (api, exchange) = (free_port()?, free_port()?);
        let process = spawn(folder.path(), api, exchange, origins).await?;
        Ok(Self { process, folder, api, exchange, origins: origins.to_vec() })
    }

    /// Starts it again on the same folder and ports, after it was killed.
    pub async fn restart(&mut self) -> Result<()> {
        self.process = spawn(self.folder.path(), self.api, self.exchange, &self.origins).await?;
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
        self.folder.path().join("data/kubeconfig")
    }

    /// Runs kubectl to its end and answers what it printed; a failure carries what it complained of.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with(arguments, "").await
    }

    /// Runs kubectl with `input` on its standard input.
    pub async fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        let file = self.folder.path().join("input");
        std::fs::write(&file, input)?;
        let output = Command::new("kubectl")
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.folder.path())
            .stdin(std::fs::File::open(&file)?)
            .kill_on_drop(true)
            .output()
            .await
            .context("failed to start kubectl")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {}: {}", arguments.join(" "), said.trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// An object or list as JSON.
    pub async fn get(&self, arguments: &[&str]) -> Result<Value> {
        let mut all = vec!["get", "-o", "json"];
        all.extend(arguments);
        Ok(serde_json::from_str(&self.kubectl(&all).await?)?)
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

    /// Creates a repository object for `url`.
    pub async fn create_repository(&self, name: &str, url: &str) -> Result<()> {
        let repository = json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1",
            "kind": "Repository",
            "metadata": {"name": name},
            "spec": {
                "title": name,
                "type": "git",
                "workflows": [],
                "sync": {"enabled": false, "target": "folder"},
                "git": {"url": url, "branch": "main"},
            },
        });
        self.kubectl_with(&["create", "-f", "-"], &repository.to_string()).await?;
        Ok(())
    }

    /// Waits until a repository is healthy.
    pub async fn healthy(&self, name: &str) -> Result<()> {
        self.kubectl(&["wait", "--for=condition=Ready", &format!("repository/{name}"), "--timeout=60s"])
            .await?;
        Ok(())
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

    /// Waits until the job with this UID is in history, and answers it.
    pub async fn filed(&self, uid: &str) -> Result<Value> {
        let selector = format!("provisioning.grafana.app/original-uid={uid}");
        eventually("the job is in history", || async {
            let list = self.get(&["historicjobs", "-l", &selector]).await?;
            Ok(list["items"].get(0).cloned())
        })
        .await
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

async fn spawn(folder: &Path, api: u16, exchange: u16, origins: &[String]) -> Result<Process> {
    let data = folder.join("data").display().to_string();
    let (api, exchange) = (format!("127.0.0.1:{api}"), format!("127.0.0.1:{exchange}"));
    let mut arguments =
        vec!["serve", "--api-address", &api, "--exchange-address", &exchange, "--data-dir", &data];
    for origin in origins {
        arguments.extend(["--allow-git-origin", origin]);
    }
    let mut process =
        Process::start(&Programs::path("windlass")?, &arguments, &[], &folder.join("serve.log"))?;
    process.says("kubeconfig").await?;
    Ok(process)
}

/// An operator as a process of its own, set up by environment and `operator.ini` alone.
pub struct Operator {
    /// The process.
    pub process: Process,
    /// Port of metrics and health.
    pub health: u16,
}

impl Operator {
    /// Starts `windlass server target` with this `GF_OPERATOR_NAME`.
    pub async fn start(server: &Server, name: &str, more: &[(&str, &str)]) -> Result<Self> {
        let program = Programs::path("windlass")?;
        let ini = server.folder.path().join("operator.ini");
        std::fs::write(&ini, ini_for(server))?;
        let config = format!("--config={}", ini.display());
        let arguments = ["server", "target", &config];
        let environment = [&[("GF_DEFAULT_TARGET", "operator"), ("GF_OPERATOR_NAME", name)], more].concat();
        Self::run(server, &program, &arguments, &environment).await
    }

    /// Starts any operator binary and waits until it is ready.
    pub async fn run(
        server: &Server,
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let health = free_port()?;
        let folder = tempfile::Builder::new().prefix("operator").tempdir_in(server.folder.path())?.keep();
        let (address, cache) = (format!("127.0.0.1:{health}"), folder.join("git").display().to_string());
        let origins = server.origins.join("|");
        let mut all = vec![
            ("GF_OPERATOR_METRICS_ADDRESS", address.as_str()),
            ("GF_OPERATOR_GIT_CACHE_DIR", cache.as_str()),
            ("GF_OPERATOR_ALLOWED_GIT_ORIGINS", origins.as_str()),
        ];
        all.extend(environment);
        let process = Process::start(program, arguments, &all, &folder.join("log"))?;
        let operator = Self { process, health };
        let ready = eventually("the operator is ready", || async {
            server.shell(&format!("curl -sf http://127.0.0.1:{health}/readyz")).await.map(Some)
        })
        .await;
        match ready {
            Ok(_) => Ok(operator),
            Err(error) => bail!("{error:#}; the operator said:\n{}", operator.process.output()),
        }
    }
}

fn ini_for(server: &Server) -> String {
    format!(
        "[grpc_client_authentication]\n\
         token = ProvisioningAdminToken\n\
         token_exchange_url = {exchange}\n\
         [operator]\n\
         provisioning_server_url = {url}\n\
         folders_server_url = {url}\n\
         dashboards_server_url = {url}\n\
         tls_ca_file = {ca}\n",
        exchange = server.exchange_url(),
        url = server.url(),
        ca = server.ca_file().display(),
    )
}
