//! The program, and its HTTP API.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::process::Command;
use windlass_e2e::{Process, eventually, free_port, page};

const CONFIG: &str = "deploy/compose/prometheus.yaml";
const RULES: &str = "deploy/alerts/commit-delivery.yaml";
/// Where the compose stack's container has its files.
const CONTAINER: &str = "/etc/prometheus/";

/// A running Prometheus that scrapes one target each half second, and evaluates the rules of `deploy/` as often.
pub(super) struct Prometheus {
    process: Process,
    port: u16,
    expressions: usize,
    _folder: tempfile::TempDir,
}

/// Has `promtool` judge the rules, and the compose stack's configuration with the rules where the container has them.
pub(super) async fn check_with_promtool() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let config = config(folder.path(), "")?;
    for (what, file) in [("rules", page::root().join(RULES)), ("config", config)] {
        let output = Command::new("promtool").arg("check").arg(what).arg(&file).output().await?;
        if !output.status.success() {
            let (out, err) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            bail!("promtool check {what} {}: {out}{err}", file.display());
        }
    }
    Ok(())
}

/// Writes the compose stack's configuration with more of it to a folder, beside the rules.
fn config(folder: &Path, more: &str) -> Result<PathBuf> {
    let read = |file: &str| std::fs::read_to_string(page::root().join(file)).context(file.to_owned());
    std::fs::write(
        folder.join("commit-delivery.yaml"),
        read(RULES)?.replace("interval: 1m", "interval: 1s"),
    )?;
    let file = folder.join("prometheus.yaml");
    let config = read(CONFIG)?.replace(CONTAINER, &format!("{}/", folder.display()));
    std::fs::write(&file, config.replace("evaluation_interval: 30s", "evaluation_interval: 1s") + more)?;
    Ok(file)
}

impl Prometheus {
    /// Starts one whose target is a port of this machine, and waits until it is ready.
    pub(super) async fn start(target: u16) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let scrape = format!(
            "scrape_configs:\n- job_name: tracker\n  scrape_interval: 2s\n  scrape_timeout: 2s\n  \
             static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n"
        );
        let config = config(folder.path(), &scrape)?;
        let rules = std::fs::read_to_string(folder.path().join("commit-delivery.yaml"))?;
        let expressions = rules.lines().filter(|line| line.trim_start().starts_with("expr:")).count();
        let port = free_port()?;
        let program = std::env::split_paths(&std::env::var_os("PATH").context("no PATH")?)
            .map(|folder| folder.join("prometheus"))
            .find(|file| file.is_file())
            .context("there is no prometheus")?;
        let arguments = [
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", folder.path().join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--enable-feature=native-histograms,exemplar-storage".to_owned(),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let process = Process::start(&program, &arguments, &[], &folder.path().join("log"))?;
        let this = Self { process, port, expressions, _folder: folder };
        eventually("Prometheus is ready", || async {
            let answer = reqwest::get(format!("http://127.0.0.1:{port}/-/ready")).await?;
            if answer.status().is_success() { Ok(Some(())) } else { bail!("{}", this.said()) }
        })
        .await
        .with_context(|| this.said())?;
        Ok(this)
    }

    /// How many rules it has.
    pub(super) fn expressions(&self) -> usize {
        self.expressions
    }

    /// What it has said.
    pub(super) fn said(&self) -> String {
        self.process.output()
    }

    /// The data that a path of its API answers.
    pub(super) async fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let url = format!("http://127.0.0.1:{}/api/v1/{path}", self.port);
        let url = reqwest::Url::parse_with_params(&url, parameters)?;
        let mut answer: Value = reqwest::get(url).await?.json().await?;
        if answer["status"] != "success" {
            bail!("{path} {parameters:?}: {answer:#}");
        }
        Ok(answer["data"].take())
    }

    /// The value of each series that a query answers.
    pub(super) async fn query(&self, query: &str) -> Result<Vec<f64>> {
        let answer = self.ask("query", &[("query", query)]).await?;
        let series = answer["result"].as_array().context("no vector")?;
        let value = |series: &Value| Ok(series["value"][1].as_str().context("no value")?.parse()?);
        series.iter().map(value).collect()
    }
}
