//! An operator as a process of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{Process, Programs, Server, eventually, free_port};

/// An operator as a process of its own, set up by environment, flags and files alone.
pub struct Operator {
    /// The process.
    pub process: Process,
    /// Port of metrics and health.
    pub health: u16,
}

impl Operator {
    /// Starts `windlass server target` beside an embedded server, with this `GF_OPERATOR_NAME`.
    pub async fn start(server: &Server, name: &str, more: &[(&str, &str)]) -> Result<Self> {
        let program = Programs::path("windlass")?;
        let ini = server.folder.path().join("operator.ini");
        std::fs::write(&ini, ini_for(server))?;
        let config = format!("--config={}", ini.display());
        let arguments = ["server", "target", &config];
        let environment = [&[("GF_DEFAULT_TARGET", "operator"), ("GF_OPERATOR_NAME", name)], more].concat();
        Self::run(server, &program, &arguments, &environment).await
    }

    /// Starts any operator binary beside an embedded server and waits until it is ready.
    pub async fn run(
        server: &Server,
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let operator = Self::spawn(server.folder.path(), &server.origins, program, arguments, environment)?;
        operator.ready().await?;
        Ok(operator)
    }

    /// Starts an operator binary, whose log and Git cache are in a new folder of `folder`. Repositories may use
    /// `origins` although they are local. It need not become ready.
    pub fn spawn(
        folder: &Path,
        origins: &[String],
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let health = free_port()?;
        let folder: PathBuf = tempfile::Builder::new().prefix("operator").tempdir_in(folder)?.keep();
        let (address, cache) = (format!("127.0.0.1:{health}"), folder.join("git").display().to_string());
        let origins = origins.join("|");
        let mut all = vec![
            ("GF_OPERATOR_METRICS_ADDRESS", address.as_str()),
            ("GF_OPERATOR_GIT_CACHE_DIR", cache.as_str()),
            ("GF_OPERATOR_ALLOWED_GIT_ORIGINS", origins.as_str()),
            ("GF_OPERATOR_ENABLE_TEST_JOBS", "true"),
        ];
        all.extend(environment);
        let process = Process::start(program, arguments, &all, &folder.join("log"))?;
        Ok(Self { process, health })
    }

    /// Waits until it is ready.
    pub async fn ready(&self) -> Result<()> {
        let ready = eventually("the operator is ready", || async {
            let (code, said) = self.ask("/readyz").await?;
            if code != 200 {
                bail!("/readyz answers {code}: {said}");
            }
            Ok(Some(()))
        })
        .await;
        ready.with_context(|| format!("the operator said:\n{}", self.process.output()))
    }

    /// What it answers at a path of its metrics and health: the code and the text.
    pub async fn ask(&self, path: &str) -> Result<(u16, String)> {
        let answer = reqwest::get(format!("http://127.0.0.1:{}{path}", self.health)).await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// The lines of its log with this message.
    pub fn lines(&self, message: &str) -> Vec<serde_json::Value> {
        self.process.lines(message)
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
