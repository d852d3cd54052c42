//! kubectl with a kubeconfig, and what every story asks of an API server through it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::process::Command;
use windlass_cluster::{Cluster, Namespace, Program};

use crate::eventually;

/// kubectl as one caller, in one namespace of one API server, embedded or real.
#[derive(Clone, Debug)]
pub struct Kubectl {
    /// The program.
    pub program: PathBuf,
    /// How it reaches the server, and as whom.
    pub kubeconfig: PathBuf,
    /// Where it looks when it is not told.
    pub namespace: String,
    /// Its home, which holds what it caches.
    pub home: PathBuf,
}

impl Kubectl {
    /// The administrator of a cluster, in this namespace.
    pub fn administrator(cluster: &Cluster, namespace: &Namespace, home: &Path) -> Result<Self> {
        Ok(Self {
            program: Program::Kubectl.find_or_build()?.context("there is a cluster and no kubectl")?,
            kubeconfig: cluster.admin_kubeconfig().to_owned(),
            namespace: namespace.name().to_owned(),
            home: home.to_owned(),
        })
    }

    /// Runs kubectl to its end and answers what it printed; a failure carries what it complained of.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with(arguments, "").await
    }

    /// Runs kubectl with `input` on its standard input.
    pub async fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut file = tempfile::NamedTempFile::new_in(&self.home)?;
        std::io::Write::write_all(&mut file, input.as_bytes())?;
        let output = Command::new(&self.program)
            .args(["--namespace", &self.namespace])
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .stdin(file.reopen()?)
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
        let all = [&["get", "-o", "json"], arguments].concat();
        Ok(serde_json::from_str(&self.kubectl(&all).await?)?)
    }

    /// The items of a list.
    pub async fn items(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        Ok(self.get(arguments).await?["items"].as_array().cloned().unwrap_or_default())
    }

    /// The names of a list, in order.
    pub async fn names(&self, resource: &str) -> Result<Vec<String>> {
        let items = self.items(&[resource]).await?;
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut names: Vec<String> = items.iter().map(name).collect();
        names.sort();
        Ok(names)
    }

    /// Creates an object.
    pub async fn create(&self, object: &Value) -> Result<Value> {
        let created = self.kubectl_with(&["create", "-o", "json", "-f", "-"], &object.to_string()).await?;
        Ok(serde_json::from_str(&created)?)
    }

    /// Creates a repository object for `url`.
    pub async fn create_repository(&self, name: &str, url: &str) -> Result<()> {
        self.create(&repository(name, url)).await.map(drop)
    }

    /// Waits until a repository is healthy.
    pub async fn healthy(&self, name: &str) -> Result<()> {
        self.kubectl(&["wait", "--for=condition=Ready", &format!("repository/{name}"), "--timeout=180s"])
            .await?;
        Ok(())
    }

    /// Waits until the job with this UID is in history and no longer in the queue, and answers it.
    pub async fn filed(&self, uid: &str) -> Result<Value> {
        let selector = format!("provisioning.grafana.app/original-uid={uid}");
        eventually("the job is in history, and there alone", || async {
            let filed = self.items(&["historicjobs", "-l", &selector]).await?.into_iter().next();
            let Some(filed) = filed else { return Ok(None) };
            let queue = self.items(&["jobs.provisioning.grafana.app"]).await?;
            Ok(queue.iter().all(|job| job["metadata"]["uid"] != uid).then_some(filed))
        })
        .await
    }

    /// Runs a job that is a plain object, and answers the finished one.
    pub async fn run_job(&self, job: &Value) -> Result<Value> {
        let created = self.create(job).await?;
        self.filed(created["metadata"]["uid"].as_str().context("the job has no UID")?).await
    }
}

/// A repository object with this name, a Git repository at `url`.
pub fn repository(name: &str, url: &str) -> Value {
    json!({
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
    })
}

/// A job as a plain object, for repository `repository`.
pub fn job(name: &str, repository: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["repository"] = repository.into();
    json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"provisioning.grafana.app/repository": repository}},
        "spec": spec,
    })
}
