//! Folders of this machine.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use windlass_git::{EntryKind, Git, GitConfig, GitError, Limits, Revision, Source};

use crate::fixture::paths;

struct Folder {
    all: TempDir,
    git: Git,
    cancel: CancellationToken,
}

impl Folder {
    fn new(limits: Limits) -> Self {
        let all = tempfile::tempdir().unwrap();
        fs::create_dir_all(all.path().join("permitted/repo/deep")).unwrap();
        fs::write(all.path().join("secret"), "secret").unwrap();
        let mut config = GitConfig::new(all.path().join("cache"));
        config.limits = limits;
        Self { git: Git::new(config).unwrap(), all, cancel: CancellationToken::new() }
    }

    fn root(&self) -> PathBuf {
        self.all.path().join("permitted/repo")
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Source>, GitError> {
        self.git.local(path, &[self.all.path().join("permitted")])
    }

    fn source(&self) -> Arc<dyn Source> {
        self.open(&self.root()).unwrap()
    }
}

fn any() -> Revision {
    Revision::new("")
}

#[tokio::test]
async fn a_folder_is_read_and_its_revision_follows_its_contents() {
    let folder = Folder::new(Limits::default());
    fs::write(folder.root().join("deep/a.json"), "abc").unwrap();
    fs::write(folder.root().join("b.json"), "b").unwrap();
    fs::create_dir(folder.root().join(".git")).unwrap();
    fs::write(folder.root().join(".git/config"), "x").unwrap();
    let (source, cancel) = (folder.source(), &folder.cancel);
    assert!(!source.versioned());
    let tree = source.tree(&any(), "", cancel).await.unwrap();
    assert_eq!((paths(&tree), tree.rejected.len()), (vec!["b.json", "deep/a.json"], 0));
    // SHA-1 of the raw bytes "abc", as RFC 3174 gives it.
    assert_eq!(tree.entries[1].id.to_string(), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_eq!(source.blob(tree.entries[1].id, cancel).await.unwrap(), "abc");
    assert_eq!(paths(&source.tree(&any(), "deep", cancel).await.unwrap()), ["a.json"]);
    assert_eq!(source.tree(&any(), "nowhere", cancel).await.unwrap().root, None);

    let before = source.resolve("", cancel).await.unwrap();
    assert_eq!(source.resolve("main", cancel).await.unwrap(), before);
    fs::write(folder.root().join("b.json"), "c").unwrap();
    assert_ne!(source.resolve("", cancel).await.unwrap(), before);
    let error = source.blob(tree.entries[0].id, cancel).await.unwrap_err();
    assert!(matches!(error, GitError::ChangedMeanwhile { .. }), "{error:?}");
    let error = source.diff(&before, &before, "", cancel).await.unwrap_err();
    assert!(matches!(error, GitError::RevisionMissing { .. }), "{error:?}");
}

#[tokio::test]
async fn folders_that_are_not_permitted_are_refused() {
    let folder = Folder::new(Limits::default());
    symlink(folder.all.path(), folder.root().join("out")).unwrap();
    for path in [
        folder.all.path().to_owned(),
        PathBuf::from("/etc"),
        PathBuf::from("permitted/repo"),
        folder.root().join("../.."),
        folder.root().join("out"),
        folder.all.path().join("permitted-not"),
    ] {
        let refused = folder.open(&path).err();
        assert!(matches!(refused, Some(GitError::PolicyRefused { .. })), "{path:?}: {refused:?}");
    }
}

#[tokio::test]
async fn links_are_reported_inside_and_refused_outside() {
    let folder = Folder::new(Limits::default());
    fs::write(folder.root().join("a"), "a").unwrap();
    symlink("a", folder.root().join("inside")).unwrap();
    symlink(folder.all.path().join("secret"), folder.root().join("outside")).unwrap();
    symlink(folder.all.path(), folder.root().join("outside-dir")).unwrap();
    symlink(".", folder.root().join("loop")).unwrap();
    fs::write(folder.root().join(std::ffi::OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    let source = folder.source();
    let tree = source.tree(&any(), "", &folder.cancel).await.unwrap();
    assert_eq!(paths(&tree), ["a", "inside", "loop"]);
    assert_eq!(tree.entries[1].kind, EntryKind::Symlink);
    let rejected: Vec<_> = tree.rejected.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(rejected, ["bad\\xff", "outside", "outside-dir"]);
    let error = source.tree(&any(), "outside-dir", &folder.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::PolicyRefused { .. }), "{error:?}");
}

#[tokio::test]
async fn a_folder_that_becomes_a_link_after_it_was_listed_is_not_followed() {
    let folder = Folder::new(Limits::default());
    fs::write(folder.root().join("deep/secret"), "secret").unwrap();
    let source = folder.source();
    let tree = source.tree(&any(), "", &folder.cancel).await.unwrap();
    fs::remove_dir_all(folder.root().join("deep")).unwrap();
    symlink(folder.all.path(), folder.root().join("deep")).unwrap();
    let error = source.blob(tree.entries[0].id, &folder.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::ChangedMeanwhile { .. }), "{error:?}");
}

#[tokio::test]
async fn a_missing_folder_says_so_until_it_is_made() {
    let folder = Folder::new(Limits::default());
    // Permitted prefixes are compared as they really are.
    let path = folder.all.path().canonicalize().unwrap().join("permitted/later");
    let source = folder.open(&path).unwrap();
    let error = source.tree(&any(), "", &folder.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::DirectoryNotFound { .. }), "{error:?}");
    assert_eq!(error.http_code(), 400);
    fs::create_dir(&path).unwrap();
    assert_eq!(source.tree(&any(), "", &folder.cancel).await.unwrap().entries, []);
}

#[tokio::test]
async fn limits_hold_for_folders_too() {
    let folder = Folder::new(Limits { entries: 3, depth: 1, blob_bytes: 2, ..Limits::default() });
    let (source, cancel) = (folder.source(), &folder.cancel);
    let limit = |error: GitError| match error {
        GitError::LimitExceeded { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    fs::write(folder.root().join("deep/a"), "too large").unwrap();
    let tree = source.tree(&any(), "", cancel).await.unwrap();
    assert_eq!(tree.entries[0].size, 9);
    assert_eq!(limit(source.blob(tree.entries[0].id, cancel).await.unwrap_err()), "blob_bytes");
    fs::create_dir(folder.root().join("deep/er")).unwrap();
    assert_eq!(limit(source.tree(&any(), "", cancel).await.unwrap_err()), "depth");
    fs::remove_dir(folder.root().join("deep/er")).unwrap();
    (0..3).for_each(|n| fs::write(folder.root().join(n.to_string()), "").unwrap());
    assert_eq!(limit(source.tree(&any(), "", cancel).await.unwrap_err()), "entries");
}
