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

    /// The folder that holds the repository.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("sample.git")
    }

    /// Has a repository that nobody has committed to.
    pub(crate) fn make_empty(&self) {
        seed::commit(&self.path(), "other", [], "x").unwrap();
        self.git(&["update-ref", "-d", "refs/heads/other"]);
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

    /// What `git` says of the repository.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output =
            std::process::Command::new("git").arg("-C").arg(self.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Paths of a branch's files.
    pub(crate) fn files(&self, branch: &str) -> Vec<String> {
        self.git(&["ls-tree", "-r", "--name-only", "-z", branch])
            .split_terminator('\0')
            .map(str::to_owned)
            .collect()
    }

    /// What a file of a branch says.
    pub(crate) fn file(&self, branch: &str, path: &str) -> String {
        self.git(&["show", &format!("{branch}:{path}")])
    }

    /// How many commits a branch has.
    pub(crate) fn commits(&self, branch: &str) -> usize {
        self.git(&["rev-list", "--count", branch]).parse().unwrap()
    }

    /// Has a hook of the repository run this script, whose working directory is the repository.
    pub(crate) fn hook(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let hooks = self.path().join("hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        let path = hooks.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
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
