//! `flux-commit-tracker` as a process, under exactly the Role of `deploy/`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{Process, Programs, eventually, free_port};

/// A Lease that is handed over or kept: nobody loses it because a machine is busy.
const ELECTION: [(&str, &str); 3] = [
    ("GF_OPERATOR_LEADER_ELECTION_LEASE_DURATION", "10m"),
    ("GF_OPERATOR_LEADER_ELECTION_RENEW_DEADLINE", "9m"),
    ("GF_OPERATOR_LEADER_ELECTION_RETRY_PERIOD", "500ms"),
];
/// The message of the line that tells of a commit.
pub const TOLD: &str = "calculated deployment times";
/// How long it may take to end when it is asked to.
const END: Duration = Duration::from_secs(20);

/// A running tracker.
pub struct Tracker {
    /// The process.
    pub process: Process,
    /// Port of the metrics.
    pub metrics: u16,
    /// Port of the probes.
    pub health: u16,
}

/// What a tracker tells of one commit in its log.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The Kustomization's namespace and name.
    pub kustomization: (String, String),
    /// The commit's id.
    pub commit: String,
    /// Seconds from its merge to its apply.
    pub end_to_end: f64,
}

impl Tracker {
    /// Starts a tracker as whoever this kubeconfig names; its log and cache are in a new folder of `folder`. It need not
    /// become ready.
    pub fn spawn(
        folder: &Path,
        kubeconfig: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let program = Programs::path("flux-commit-tracker")?;
        Self::spawn_as(&program, &[], folder, kubeconfig, arguments, environment)
    }

    /// The same from another program and what comes before the flags.
    pub fn spawn_as(
        program: &Path,
        before: &[&str],
        folder: &Path,
        kubeconfig: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let (metrics, health) = (free_port()?, free_port()?);
        let folder: PathBuf = tempfile::Builder::new().prefix("tracker").tempdir_in(folder)?.keep();
        let (metrics_address, health_address) =
            (format!("127.0.0.1:{metrics}"), format!("127.0.0.1:{health}"));
        let (kubeconfig, cache) =
            (kubeconfig.display().to_string(), folder.join("git").display().to_string());
        let mut all = vec![
            ("KUBECONFIG", kubeconfig.as_str()),
            ("METRICS_ADDR", metrics_address.as_str()),
            ("HEALTH_ADDR", health_address.as_str()),
            ("GF_OPERATOR_GIT_CACHE_DIR", cache.as_str()),
            ("GF_COMMIT_TRACKER_OBSERVE_ONLY", "false"),
            ("GF_COMMIT_TRACKER_SCRAPE", "always"),
        ];
        all.extend(ELECTION);
        all.extend(environment);
        let arguments = [before, arguments].concat();
        let process = Process::start(program, &arguments, &all, &folder.join("log"))?;
        Ok(Self { process, metrics, health })
    }

    /// Waits until it is ready.
    pub async fn ready(&self) -> Result<()> {
        let ready = eventually("the tracker is ready", || async {
            let (code, said) = self.ask(self.health, "/readyz").await?;
            if code != 200 {
                bail!("/readyz answers {code}: {said}");
            }
            Ok(Some(()))
        })
        .await;
        ready.with_context(|| format!("the tracker said:\n{}", self.process.output()))
    }

    /// What it answers at a path of one of its ports: the code and the text.
    pub async fn ask(&self, port: u16, path: &str) -> Result<(u16, String)> {
        let answer = reqwest::get(format!("http://127.0.0.1:{port}{path}")).await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    /// What `/metrics` says of this name, summed over the series whose labels hold all of these.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
        let (code, text) = self.ask(self.metrics, "/metrics").await?;
        if code != 200 {
            bail!("/metrics answers {code}: {text}");
        }
        let mut sum = 0.0;
        for line in text.lines() {
            let Some(rest) = line.strip_prefix(name) else { continue };
            let has = |(label, value): &(&str, &str)| rest.contains(&format!("{label}=\"{value}\""));
            if (rest.starts_with('{') || rest.starts_with(' ')) && labels.iter().all(has) {
                let value = rest.rsplit('}').next().unwrap_or(rest).split_whitespace().next();
                sum += value.context("a metric has no value")?.parse::<f64>()?;
            }
        }
        Ok(sum)
    }

    /// What it told of commits, in order.
    pub fn told(&self) -> Vec<Told> {
        self.process.lines(TOLD).iter().map(Told::of).collect()
    }

    /// Asks it to end, and waits until it has; it has to end well.
    pub async fn stop(&mut self) -> Result<()> {
        self.process.signal("TERM").await?;
        match self.process.end(END).await? {
            0 => Ok(()),
            code => bail!("the tracker ended with {code}; it said:\n{}", self.process.output()),
        }
    }
}

impl Told {
    fn of(line: &Value) -> Self {
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        Self {
            kustomization: (text("namespace"), text("name")),
            commit: text("repo.deployment_tools.hash"),
            end_to_end: line["duration.e2e_deployment_tools_commit_to_flux_apply_seconds"]
                .as_f64()
                .unwrap_or(f64::NAN),
        }
    }
}
