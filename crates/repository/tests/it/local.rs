//! Folders of this machine.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::Client;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use windlass_api::Repository;
use windlass_git::{EntryKind, Git, GitConfig, Limits, Tree};
use windlass_repository::{
    Base, Commit, LocalError, OpenError, Opened, Opener, ReadError, Reader, Signature, Stage, WriteError,
};

use crate::api_server;

struct Folder {
    all: TempDir,
    opener: Opener,
    core: Client,
    cancel: CancellationToken,
}

impl Folder {
    fn new(limits: Limits) -> Self {
        let all = tempfile::tempdir().unwrap();
        fs::create_dir_all(all.path().join("permitted/repo/deep")).unwrap();
        fs::write(all.path().join("secret"), "secret").unwrap();
        let mut config = GitConfig::new(all.path().join("cache"));
        config.limits = limits;
        let opener = Opener::new(Git::new(config).unwrap(), None, vec![all.path().join("permitted")]);
        Self { opener, core: api_server(), all, cancel: CancellationToken::new() }
    }

    fn root(&self) -> PathBuf {
        self.all.path().join("permitted/repo")
    }

    async fn open(&self, path: &Path) -> Result<Opened, OpenError> {
        self.opener.open(&self.core, &repository(path)).await
    }

    async fn opened(&self) -> Opened {
        self.open(&self.root()).await.unwrap()
    }

    async fn reader(&self) -> Arc<dyn Reader> {
        self.opened().await.reader
    }

    /// Everything that is in the folder now.
    async fn tree(&self, reader: &Arc<dyn Reader>) -> Tree {
        let now = reader.resolve("", &self.cancel).await.unwrap();
        reader.tree(&now, "", &self.cancel).await.unwrap()
    }
}

impl Folder {
    /// A stage on what is in the folder now.
    async fn stage(&self, opened: &Opened) -> Stage {
        let revision = opened.reader.resolve("", &self.cancel).await.unwrap();
        opened.writer.as_ref().unwrap().stage(Base { branch: String::new(), revision, is_new: false })
    }

    fn content(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root().join(path)).ok()
    }
}

fn commit() -> Commit {
    let author = Signature { name: "A".to_owned(), email: "a@example.com".to_owned() };
    Commit { message: "m".to_owned(), committer: author.clone(), author, seconds: 1, job: "uid".to_owned() }
}

fn paths(tree: &Tree) -> Vec<&str> {
    tree.entries.iter().map(|entry| entry.path.as_str()).collect()
}

fn local(error: ReadError) -> LocalError {
    match error {
        ReadError::Local(error) => error,
        ReadError::Git(error) => panic!("an error of the folder: {error:?}"),
    }
}

#[tokio::test]
async fn a_folder_is_read_and_its_revision_follows_its_contents() {
    let folder = Folder::new(Limits::default());
    fs::write(folder.root().join("deep/a.json"), "abc").unwrap();
    fs::write(folder.root().join("b.json"), "b").unwrap();
    fs::create_dir(folder.root().join(".git")).unwrap();
    fs::write(folder.root().join(".git/config"), "x").unwrap();
    let (opened, cancel) = (folder.opened().await, &folder.cancel);
    assert!(opened.versioned.is_none() && opened.urls.is_none());
    let reader = opened.reader;
    let before = reader.resolve("", cancel).await.unwrap();
    let tree = reader.tree(&before, "", cancel).await.unwrap();
    assert_eq!((paths(&tree), tree.rejected.len()), (vec!["b.json", "deep/a.json"], 0));
    // SHA-1 of the raw bytes "abc", as RFC 3174 gives it.
    assert_eq!(tree.entries[1].id.to_string(), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_eq!(reader.blob(tree.entries[1].id, cancel).await.unwrap(), "abc");
    assert_eq!(paths(&reader.tree(&before, "deep", cancel).await.unwrap()), ["a.json"]);
    assert_eq!(reader.tree(&before, "nowhere", cancel).await.unwrap().root, None);

    assert_eq!(reader.resolve("main", cancel).await.unwrap(), before);
    fs::write(folder.root().join("b.json"), "c").unwrap();
    let error = reader.blob(tree.entries[0].id, cancel).await.unwrap_err();
    assert!(matches!(local(error), LocalError::Changed { .. }));
    assert_ne!(reader.resolve("", cancel).await.unwrap(), before);
    let error = reader.tree(&before, "", cancel).await.unwrap_err();
    assert!(matches!(local(error), LocalError::Changed { .. }), "the folder has no past");
}

#[tokio::test]
async fn folders_that_are_not_permitted_are_refused() {
    let folder = Folder::new(Limits::default());
    symlink(folder.all.path(), folder.root().join("out")).unwrap();
    let prefixes = "local_permitted_prefixes";
    for (path, named) in [
        (folder.all.path().to_owned(), prefixes),
        (PathBuf::from("/etc"), prefixes),
        (PathBuf::from("permitted/repo"), "home_path"),
        (folder.root().join("../.."), "contains .."),
        (folder.root().join("out"), prefixes),
        (folder.all.path().join("permitted-not"), prefixes),
    ] {
        let refused = folder.open(&path).await.err();
        assert!(
            matches!(refused, Some(OpenError::Refused(ReadError::Local(LocalError::Refused { .. })))),
            "{path:?}: {refused:?}"
        );
        let message = refused.unwrap().to_string();
        assert!(message.contains(named), "{path:?}: {message}");
    }
}

#[tokio::test]
async fn a_relative_path_starts_at_home() {
    let folder = Folder::new(Limits::default());
    fs::write(folder.root().join("a.json"), "a").unwrap();
    let git = folder.opener.git().clone();
    let permitted = vec![folder.all.path().join("permitted")];
    let opener = Opener::new(git, Some(folder.all.path().join("permitted")), permitted);
    let folder = Folder { opener, ..folder };
    let reader = folder.open(Path::new("repo")).await.unwrap().reader;
    assert_eq!(paths(&folder.tree(&reader).await), ["a.json"]);
}

#[tokio::test]
async fn links_are_listed_and_never_followed() {
    let folder = Folder::new(Limits::default());
    fs::write(folder.root().join("a"), "content").unwrap();
    symlink("a", folder.root().join("inside")).unwrap();
    symlink(folder.all.path().join("secret"), folder.root().join("outside")).unwrap();
    symlink(folder.all.path(), folder.root().join("outside-dir")).unwrap();
    symlink(".", folder.root().join("loop")).unwrap();
    fs::write(folder.root().join(std::ffi::OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    let reader = folder.reader().await;
    let tree = folder.tree(&reader).await;
    assert_eq!(paths(&tree), ["a", "inside", "loop", "outside", "outside-dir"]);
    assert!(tree.entries[1..].iter().all(|entry| entry.kind == EntryKind::Symlink), "{tree:?}");
    let rejected: Vec<_> = tree.rejected.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(rejected, ["bad\\xff"]);
    for link in &tree.entries[1..] {
        let content = reader.blob(link.id, &folder.cancel).await;
        assert!(content.is_err(), "a link has no content: {content:?}");
    }
}

#[tokio::test]
async fn a_folder_that_becomes_a_link_after_it_was_listed_is_not_followed() {
    let folder = Folder::new(Limits::default());
    fs::write(folder.root().join("deep/secret"), "secret").unwrap();
    let reader = folder.reader().await;
    let tree = folder.tree(&reader).await;
    fs::remove_dir_all(folder.root().join("deep")).unwrap();
    symlink(folder.all.path(), folder.root().join("deep")).unwrap();
    let error = reader.blob(tree.entries[0].id, &folder.cancel).await.unwrap_err();
    assert!(matches!(local(error), LocalError::Changed { .. }));
}

#[tokio::test]
async fn a_missing_folder_says_so_until_it_is_made() {
    let folder = Folder::new(Limits::default());
    let path = folder.all.path().join("permitted/later");
    let reader = folder.open(&path).await.unwrap().reader;
    let error = reader.resolve("", &folder.cancel).await.unwrap_err();
    assert_eq!((error.http_code(), error.reason()), (400, "InvalidSpec"));
    assert!(matches!(local(error), LocalError::NotFound { .. }));
    fs::create_dir(&path).unwrap();
    assert_eq!(folder.tree(&reader).await.entries, []);
}

#[tokio::test]
async fn limits_hold_for_folders_too() {
    let folder = Folder::new(Limits { entries: 3, depth: 1, blob_bytes: 2, ..Limits::default() });
    let (reader, cancel) = (folder.reader().await, &folder.cancel);
    let limit = |error: ReadError| {
        let message = error.to_string();
        let LocalError::LimitExceeded { limit, .. } = local(error) else { panic!("{message}") };
        let setting = match limit {
            "blob_bytes" => "git_max_file_bytes",
            "entries" => "git_max_files",
            _ => "",
        };
        assert!(message.contains(setting), "{message}");
        limit
    };
    fs::write(folder.root().join("deep/a"), "too large").unwrap();
    let tree = folder.tree(&reader).await;
    assert_eq!(tree.entries[0].size, 9);
    assert_eq!(limit(reader.blob(tree.entries[0].id, cancel).await.unwrap_err()), "blob_bytes");
    fs::create_dir(folder.root().join("deep/er")).unwrap();
    assert_eq!(limit(reader.resolve("", cancel).await.unwrap_err()), "depth");
    fs::remove_dir(folder.root().join("deep/er")).unwrap();
    (0..3).for_each(|n| fs::write(folder.root().join(n.to_string()), "").unwrap());
    assert_eq!(limit(reader.resolve("", cancel).await.unwrap_err()), "entries");
}

#[tokio::test]
async fn what_is_staged_is_written_and_nothing_of_it_before() {
    let folder = Folder::new(Limits::default());
    fs::write(folder.root().join("old.json"), "old").unwrap();
    fs::write(folder.root().join("deep/moved.json"), "moved").unwrap();
    let opened = folder.opened().await;
    let mut stage = folder.stage(&opened).await;
    let base = opened.reader.resolve("", &folder.cancel).await.unwrap();
    stage.put("new/file.json", "new").unwrap();
    stage.put("old.json", "replaced").unwrap();
    stage.rename("deep/moved.json", "moved/here.json").unwrap();
    assert_eq!(opened.reader.resolve("", &folder.cancel).await.unwrap(), base, "nothing is written yet");
    let written = stage.push(&commit(), &folder.cancel).await.unwrap().revision;
    assert_eq!(opened.reader.resolve("", &folder.cancel).await.unwrap(), written);
    assert_eq!(paths(&folder.tree(&opened.reader).await), ["moved/here.json", "new/file.json", "old.json"]);
    assert_eq!(folder.content("old.json").as_deref(), Some("replaced"));
    assert!(!folder.root().join("deep").exists(), "a directory that became empty is gone, as in Git");

    let mut stage = folder.stage(&opened).await;
    stage.delete("new/file.json").unwrap();
    stage.push(&commit(), &folder.cancel).await.unwrap();
    assert!(folder.content("new/file.json").is_none());
    let nothing = folder.stage(&opened).await;
    assert!(nothing.is_empty());
    nothing.push(&commit(), &folder.cancel).await.unwrap();
}

#[tokio::test]
async fn a_folder_that_changed_meanwhile_is_not_written_to() {
    let folder = Folder::new(Limits::default());
    let opened = folder.opened().await;
    let mut stage = folder.stage(&opened).await;
    stage.put("a.json", "ours").unwrap();
    fs::write(folder.root().join("a.json"), "theirs").unwrap();
    let error = stage.push(&commit(), &folder.cancel).await.unwrap_err();
    assert!(matches!(error, WriteError::Conflict { .. }), "{error:?}");
    assert_eq!(folder.content("a.json").as_deref(), Some("theirs"));
}

#[tokio::test]
async fn nothing_is_written_outside_the_folder_or_through_a_link() {
    let folder = Folder::new(Limits::default());
    symlink(folder.all.path(), folder.root().join("out")).unwrap();
    symlink(folder.all.path().join("secret"), folder.root().join("link.json")).unwrap();
    let opened = folder.opened().await;
    for path in ["../a", "/etc/a", "a/../../b", "", "a//b", ".git/config", "a/.GIT/x", "a\nb", "a/."] {
        let mut stage = folder.stage(&opened).await;
        let error = stage.put(path, "x").unwrap_err();
        assert!(matches!(error, WriteError::Path { .. }), "{path:?}: {error:?}");
        assert!(stage.delete(path).is_err() && stage.rename(path, "b").is_err(), "{path:?}");
        assert!(stage.rename("b", path).is_err(), "{path:?}");
    }
    for path in ["out/secret", "out/new/file"] {
        let mut stage = folder.stage(&opened).await;
        stage.put(path, "overwritten").unwrap();
        let error = stage.push(&commit(), &folder.cancel).await.unwrap_err();
        assert!(matches!(error, WriteError::Write { .. }), "{error:?}");
    }
    let mut stage = folder.stage(&opened).await;
    stage.put("link.json", "in its place").unwrap();
    stage.push(&commit(), &folder.cancel).await.unwrap();
    assert_eq!(fs::read_to_string(folder.all.path().join("secret")).unwrap(), "secret");
    assert_eq!(folder.content("link.json").as_deref(), Some("in its place"));
    assert!(folder.root().join("link.json").symlink_metadata().unwrap().is_file());
    assert!(!folder.all.path().join("new").exists());
}

#[tokio::test]
async fn what_is_not_there_is_neither_deleted_nor_renamed_and_nothing_is_renamed_over() {
    let folder = Folder::new(Limits { blob_bytes: 3, ..Limits::default() });
    fs::write(folder.root().join("a"), "a").unwrap();
    fs::write(folder.root().join("b"), "b").unwrap();
    let opened = folder.opened().await;
    for change in ["gone", "deep/gone", "nowhere/gone"] {
        let mut stage = folder.stage(&opened).await;
        stage.delete(change).unwrap();
        let error = stage.push(&commit(), &folder.cancel).await.unwrap_err();
        assert!(matches!(error, WriteError::NotFound { .. }), "{change}: {error:?}");
        let mut stage = folder.stage(&opened).await;
        stage.rename(change, "c").unwrap();
        let error = stage.push(&commit(), &folder.cancel).await.unwrap_err();
        assert!(matches!(error, WriteError::NotFound { .. }), "{change}: {error:?}");
    }
    let mut stage = folder.stage(&opened).await;
    stage.rename("a", "b").unwrap();
    let error = stage.push(&commit(), &folder.cancel).await.unwrap_err();
    assert!(matches!(error, WriteError::Exists { .. }), "{error:?}");
    assert_eq!(folder.content("b").as_deref(), Some("b"));
    let error = folder.stage(&opened).await.put("c", "four").unwrap_err();
    assert!(matches!(error, WriteError::TooLarge { limit: "blob_bytes", .. }), "{error:?}");
}

/// Waits for a change that something else makes.
async fn changed(changes: &mut windlass_repository::local::Changes) {
    tokio::time::timeout(std::time::Duration::from_mins(1), changes.next())
        .await
        .expect("a change is told of");
}

#[tokio::test]
async fn a_change_deep_in_a_watched_folder_is_told_of_and_reading_it_is_none() {
    let folder = Folder::new(Limits::default());
    let spec = repository(&folder.root()).spec;
    let mut changes = folder.opener.watch(&spec).unwrap();
    fs::write(folder.root().join("deep/a.json"), "a").unwrap();
    changed(&mut changes).await;
    fs::create_dir(folder.root().join("new")).unwrap();
    changed(&mut changes).await;
    fs::write(folder.root().join("new/b.json"), "b").unwrap();
    changed(&mut changes).await;
    let reader = folder.reader().await;
    assert_eq!(paths(&folder.tree(&reader).await), ["deep/a.json", "new/b.json"]);
    fs::create_dir(folder.root().join(".git")).unwrap();
    fs::write(folder.root().join(".git/index"), "x").unwrap();
    // What was read, and what Git keeps, is no change: the next one that is told of is the one that is made now.
    let silent = tokio::time::timeout(std::time::Duration::from_secs(1), changes.next()).await;
    assert!(silent.is_err(), "nothing changed");
    fs::remove_file(folder.root().join("new/b.json")).unwrap();
    changed(&mut changes).await;
    let elsewhere = repository(Path::new("/etc")).spec;
    assert!(matches!(folder.opener.watch(&elsewhere), Err(LocalError::Refused { .. })));
}

/// A repository of this folder.
fn repository(path: &Path) -> Repository {
    let path = path.to_str().unwrap();
    serde_json::from_value(json!({
        "metadata": {"name": "files", "namespace": "default"},
        "spec": {"title": "Files", "type": "local", "workflows": [], "local": {"path": path}, "sync": {"enabled": false}},
    }))
    .unwrap()
}
