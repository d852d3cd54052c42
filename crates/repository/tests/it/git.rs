//! Repositories behind Git's own `http-backend`.

use std::path::PathBuf;

use kube::Client;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_api::Repository;
use windlass_git::{Git, GitConfig, HistoryQuery, UrlPolicy};
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{HttpBackend, Running};
use windlass_repository::{Base, Commit, Opened, Opener, Signature, Stage, WriteError};

use crate::api_server;

struct World {
    folder: tempfile::TempDir,
    server: Running,
    core: Client,
    cancel: CancellationToken,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        windlass_git::init_process().unwrap();
        let bare = folder.path().join("dash.git");
        seed::commit(&bare, "main", [Edit::put("dash/a.json", "a"), Edit::put("other", "o")], "first")
            .unwrap();
        let server = HttpBackend::new(folder.path()).writable().start().await.unwrap();
        Self { folder, server, core: api_server(), cancel: CancellationToken::new() }
    }

    /// The repository as another process sees it: with a cache of its own.
    async fn open(&self, process: &str) -> Opened {
        let origin = self.server.origin();
        let policy = UrlPolicy::default().allow_origin(&origin).unwrap();
        let config = GitConfig { policy, ..GitConfig::new(self.folder.path().join(process)) };
        let opener = Opener::new(Git::new(config).unwrap(), None, Vec::<PathBuf>::new());
        let repository: Repository = serde_json::from_value(json!({
            "metadata": {"name": "dash", "namespace": "default"},
            "spec": {"title": "Dash", "type": "git", "workflows": [], "sync": {"enabled": false},
                "git": {"url": format!("{origin}/dash.git"), "branch": "main", "path": "dash/"}},
        }))
        .unwrap();
        opener.open(&self.core, &repository).await.unwrap()
    }

    async fn base(&self, opened: &Opened) -> Base {
        let revision = opened.reader.resolve("main", &self.cancel).await.unwrap();
        Base { branch: "main".to_owned(), revision, is_new: false }
    }
}

fn commit() -> Commit {
    let author = Signature { name: "A".to_owned(), email: "a@example.com".to_owned() };
    Commit {
        message: "Move dashboards".to_owned(),
        committer: author.clone(),
        author,
        seconds: 1_700_000_000,
        job: "job-uid".to_owned(),
    }
}

fn changes(opened: &Opened, base: &Base) -> Stage {
    let mut stage = opened.writer.as_ref().unwrap().stage(base.clone());
    stage.put("new/b.json", "b").unwrap();
    stage.rename("a.json", "moved.json").unwrap();
    stage
}

#[tokio::test]
async fn what_is_staged_becomes_one_commit_that_a_repeated_job_recognises() {
    let world = World::new().await;
    let opened = world.open("one").await;
    assert!(opened.urls.is_none());
    let base = world.base(&opened).await;
    let pushed = changes(&opened, &base).push(&commit(), &world.cancel).await.unwrap().revision;
    assert_ne!(pushed, base.revision);
    assert_eq!(world.base(&opened).await.revision, pushed);

    // Whoever runs the job again, since its answer was lost, makes the same commit and finds it there.
    let another = world.open("two").await;
    let again = changes(&another, &base).push(&commit(), &world.cancel).await.unwrap();
    assert_eq!(again.revision, pushed);
    let tree = another.reader.tree(&pushed, "", &world.cancel).await.unwrap();
    let paths: Vec<&str> = tree.entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(
        paths,
        ["dash/moved.json", "dash/new/b.json", "other"],
        "only the repository's folder changed"
    );
    let query = HistoryQuery { new: pushed, known: vec![base.revision.clone()], max: 10 };
    let history = another.versioned.as_ref().unwrap().history(&query, &world.cancel).await.unwrap();
    assert_eq!(history.commits.len(), 1, "one commit, once");
    assert_eq!(
        (history.commits[0].committed, &*history.commits[0].subject),
        (1_700_000_000, "Move dashboards")
    );
}

#[tokio::test]
async fn a_branch_that_moved_is_not_written_over() {
    let world = World::new().await;
    let opened = world.open("one").await;
    let base = world.base(&opened).await;
    let remote = world.folder.path().join("dash.git");
    seed::commit(&remote, "main", [Edit::put("dash/c.json", "c")], "theirs").unwrap();
    let error = changes(&opened, &base).push(&commit(), &world.cancel).await.unwrap_err();
    assert!(matches!(error, WriteError::Conflict { .. }) && error.is_transient(), "{error:?}");

    let base = world.base(&opened).await;
    let mut stage = opened.writer.as_ref().unwrap().stage(base.clone());
    stage.delete("gone.json").unwrap();
    let error = stage.push(&commit(), &world.cancel).await.unwrap_err();
    assert!(matches!(error, WriteError::NotFound { .. }), "{error:?}");
    let mut stage = opened.writer.as_ref().unwrap().stage(base.clone());
    stage.put("a.json", "a").unwrap();
    let same = stage.push(&commit(), &world.cancel).await.unwrap().revision;
    assert_eq!(same, base.revision, "what changes nothing makes no commit");
}
