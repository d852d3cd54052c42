//! Git repositories of dashboards.

use std::ops::Deref;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::{self, Edit};

use crate::GitServer;

/// The name of the repository.
const NAME: &str = "dashboards.git";

/// A repository behind Git's own `http-backend`.
pub struct Remote(GitServer);

impl Deref for Remote {
    type Target = GitServer;

    fn deref(&self) -> &GitServer {
        &self.0
    }
}

impl Remote {
    /// A repository with these files on `main`.
    pub async fn new(files: Vec<(String, String)>) -> Result<Self> {
        Self::with(files, |backend| backend).await
    }

    /// A repository that asks for this token.
    pub async fn private(files: Vec<(String, String)>, token: &str) -> Result<Self> {
        Self::with(files, |backend| backend.basic_auth("git", crate::secret(token))).await
    }

    /// A repository that takes pushes, whatever the token.
    pub async fn writable(files: Vec<(String, String)>) -> Result<Self> {
        Self::with(files, HttpBackend::writable).await
    }

    async fn with(
        files: Vec<(String, String)>,
        set_up: impl FnOnce(HttpBackend) -> HttpBackend,
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        commit(folder.path().join(NAME), files.into_iter().map(put).collect()).await?;
        Ok(Self(GitServer::new(folder, NAME, set_up).await?))
    }

    /// Commits changes; a file without content is deleted.
    pub async fn commit(&self, changes: Vec<(String, Option<String>)>) -> Result<()> {
        let edits = changes
            .into_iter()
            .map(|(path, content)| match content {
                Some(content) => put((path, content)),
                None => Edit::Delete(path),
            })
            .collect();
        commit(self.path(), edits).await
    }
}

fn put((path, content): (String, String)) -> Edit {
    Edit::Put(path, content.into_bytes())
}

async fn commit(repository: PathBuf, edits: Vec<Edit>) -> Result<()> {
    tokio::task::spawn_blocking(move || seed::commit(&repository, "main", edits, "a change")).await??;
    Ok(())
}

/// A dashboard as Grafana exports it, some three kilobytes long.
pub fn dashboard(name: &str, title: &str) -> String {
    let mut spec = spec(title);
    spec["uid"] = name.into();
    format!("{spec:#}")
}

/// The same as a Kubernetes-style document.
pub fn kubernetes_dashboard(name: &str, title: &str) -> String {
    let document = json!({
        "apiVersion": "dashboard.grafana.app/v1beta1",
        "kind": "Dashboard",
        "metadata": {"name": name},
        "spec": spec(title),
    });
    format!("{document:#}")
}

fn spec(title: &str) -> serde_json::Value {
    let panels: Vec<serde_json::Value> = (0..4)
        .map(|number| {
            json!({
                "id": number,
                "title": format!("Requests, part {number}"),
                "type": "timeseries",
                "gridPos": {"h": 8, "w": 12, "x": (number % 2) * 12, "y": number / 2 * 8},
                "fieldConfig": {"defaults": {"unit": "reqps", "min": 0}, "overrides": []},
                "targets": [{
                    "refId": "A",
                    "expr": format!("sum by (service) (rate(http_requests_total{{shard=\"{number}\"}}[5m]))"),
                    "legendFormat": "{{service}}",
                }],
            })
        })
        .collect();
    json!({
        "title": title,
        "tags": ["generated"],
        "schemaVersion": 41,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": []},
        "panels": panels,
    })
}
