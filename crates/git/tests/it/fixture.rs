//! A folder with repositories, a server over it, and a `Git` that may talk to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use git2::{ObjectType, Oid, Repository};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use windlass_git::{
    Deadlines, Git, GitConfig, Limits, ObjectId, Remote, RemoteRepository, Revision, Tree, UrlPolicy,
    init_process,
};
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{HttpBackend, Running};

pub(crate) struct Fixture {
    pub(crate) folder: TempDir,
    pub(crate) server: Running,
    pub(crate) git: Git,
    pub(crate) cancel: CancellationToken,
}

/// Deadlines that a healthy peer on this machine never meets and a test can wait for.
pub(crate) fn generous() -> Deadlines {
    let long = Duration::from_mins(1);
    Deadlines { connect: long, read: long, refs: long, fetch: long, ..Deadlines::default() }
}

pub(crate) fn git(folder: &TempDir, origin: &str, limits: Limits, deadlines: Deadlines) -> Git {
    init_process().unwrap();
    let mut config = GitConfig::new(folder.path().join("cache"));
    config.policy = UrlPolicy::default().allow_origin(origin).unwrap();
    config.limits = limits;
    config.deadlines = deadlines;
    Git::new(config).unwrap()
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(Limits::default(), |backend| backend).await
    }

    pub(crate) async fn limited(limits: Limits) -> Self {
        Self::with(limits, |backend| backend).await
    }

    /// One that takes pushes.
    pub(crate) async fn writable() -> Self {
        Self::with(Limits::default(), HttpBackend::writable).await
    }

    pub(crate) async fn with(limits: Limits, adapt: impl FnOnce(HttpBackend) -> HttpBackend) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = adapt(HttpBackend::new(folder.path())).start().await.unwrap();
        let git = git(&folder, &server.origin(), limits, generous());
        Self { folder, server, git, cancel: CancellationToken::new() }
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.folder.path().join("sample.git")
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/sample.git", self.server.origin())
    }

    pub(crate) fn commit(&self, edits: impl IntoIterator<Item = Edit>) -> Revision {
        Revision::new(seed::commit(&self.repository(), "main", edits, "change").unwrap())
    }

    pub(crate) fn source(&self) -> Arc<RemoteRepository> {
        self.git.remote(Remote { url: self.url(), ..Remote::default() }).unwrap()
    }

    pub(crate) async fn tip(&self) -> Revision {
        self.source().resolve("main", &self.cancel).await.unwrap()
    }

    pub(crate) async fn tree(&self, prefix: &str) -> Tree {
        self.source().tree(&self.tip().await, prefix, &self.cancel).await.unwrap()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.server.log().count()
    }

    /// What Git's own program says of the repository on the server; nothing but success is expected.
    pub(crate) fn git_says(&self, arguments: &[&str]) -> String {
        let mut command = std::process::Command::new("git");
        command.arg("-C").arg(self.repository()).args(arguments);
        let output =
            command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Points `main` at a commit of a tree that no Git tool would write.
    pub(crate) fn plant(&self, entries: &[(u32, &[u8], Oid)]) -> Revision {
        let repository = self.raw();
        let tree = raw_tree(&repository, entries);
        commit_tree(&repository, tree)
    }

    pub(crate) fn raw(&self) -> Repository {
        if !self.repository().exists() {
            self.commit([Edit::put("first", "first")]);
        }
        Repository::open_bare(self.repository()).unwrap()
    }
}

pub(crate) fn blob(repository: &Repository, content: &[u8]) -> Oid {
    repository.odb().unwrap().write(ObjectType::Blob, content).unwrap()
}

pub(crate) fn raw_tree(repository: &Repository, entries: &[(u32, &[u8], Oid)]) -> Oid {
    let mut data = Vec::new();
    for (mode, name, id) in entries {
        data.extend(format!("{mode:o} ").bytes());
        data.extend(*name);
        data.push(0);
        data.extend(id.as_bytes());
    }
    repository.odb().unwrap().write(ObjectType::Tree, &data).unwrap()
}

pub(crate) fn commit_tree(repository: &Repository, tree: Oid) -> Revision {
    let who = "A <a@localhost> 1700000000 +0000";
    let data = format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nplanted\n");
    let commit = repository.odb().unwrap().write(ObjectType::Commit, data.as_bytes()).unwrap();
    repository.reference("refs/heads/main", commit, true, "planted").unwrap();
    Revision::new(commit.to_string())
}

pub(crate) fn paths(tree: &Tree) -> Vec<&str> {
    tree.entries.iter().map(|entry| entry.path.as_str()).collect()
}

pub(crate) fn git_blob(content: &[u8]) -> ObjectId {
    Oid::hash_object(ObjectType::Blob, content).unwrap().to_string().parse().unwrap()
}
