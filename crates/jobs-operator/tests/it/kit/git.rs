use std::path::PathBuf;

use tempfile::TempDir;
use windlass_git::init_process;
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{HttpBackend, Running};

/// A real Git server on this machine with one repository.
pub(crate) struct GitServer {
    folder: TempDir,
    server: Running,
}

impl GitServer {
    pub(crate) async fn new() -> Self {
        Self::with(|backend| backend).await
    }

    pub(crate) async fn with(adapt: impl FnOnce(HttpBackend) -> HttpBackend) -> Self {
        init_process().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let server = adapt(HttpBackend::new(folder.path())).start().await.unwrap();
        Self { folder, server }
    }

    pub(crate) fn origin(&self) -> String {
        self.server.origin()
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/sample.git", self.server.origin())
    }

    /// Runs `git` in the repository, and answers what it writes.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let run = std::process::Command::new("git").arg("-C").arg(self.path()).args(args).output().unwrap();
        assert!(run.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8(run.stdout).unwrap().trim_end().to_owned()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("sample.git")
    }

    /// Takes the repository away, as a server does that has lost it.
    pub(crate) fn hide(&self) {
        std::fs::rename(self.path(), self.folder.path().join("hidden")).unwrap();
    }

    pub(crate) fn unhide(&self) {
        std::fs::rename(self.folder.path().join("hidden"), self.path()).unwrap();
    }

    pub(crate) fn commit(&self, edits: impl IntoIterator<Item = Edit>) -> String {
        seed::commit(&self.path(), "main", edits, "change").unwrap()
    }

    /// Commits dashboards: path, name and title.
    pub(crate) fn put(&self, files: &[(&str, &str, &str)]) -> String {
        self.commit(files.iter().map(|(path, name, title)| Edit::put(*path, dashboard(name, title))))
    }

    /// Requests served so far.
    pub(crate) fn requests(&self) -> u64 {
        self.server.log().count()
    }
}

/// A dashboard as a document of the API.
pub(crate) fn dashboard(name: &str, title: &str) -> String {
    serde_json::json!({
        "apiVersion": "dashboard.grafana.app/v1beta1", "kind": "Dashboard",
        "metadata": {"name": name}, "spec": {"title": title},
    })
    .to_string()
}
