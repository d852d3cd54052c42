use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use windlass_artifact::{
    Algorithm, ArchiveError, Content, Kept, Member, Node, Place, Rules, Store, members, unpack, write_archive,
};
use windlass_git::{Git, GitConfig, ObjectId, Remote, RemoteRepository, UrlPolicy, init_process};
use windlass_git_server::{HttpBackend, Running};

struct Scene {
    folder: tempfile::TempDir,
    server: Running,
    source: Arc<RemoteRepository>,
    store: Arc<Store>,
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(arguments);
    let done =
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {done:?}");
}

/// A repository with everything that an archive treats in its own way.
async fn scene() -> Scene {
    init_process().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    fs::create_dir_all(work.join("deploy/a-b")).unwrap();
    fs::create_dir_all(work.join("deploy/a")).unwrap();
    git(&work, &["init", "--quiet", "-b", "main"]);
    fs::write(work.join("deploy/a/one.yaml"), "one").unwrap();
    fs::write(work.join("deploy/a-b/two.yaml"), "two").unwrap();
    fs::write(work.join("deploy/a.yaml"), "three").unwrap();
    fs::write(work.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::write(work.join("picture.png"), [0, 1, 2]).unwrap();
    fs::write(work.join(format!("{}.txt", "long".repeat(60))), "long").unwrap();
    fs::write(work.join("ünï.txt"), "unicode").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", work.join("link")).unwrap();
    git(&work, &["add", "--all"]);
    git(&work, &["update-index", "--chmod=+x", "run.sh"]);
    git(&work, &["commit", "--quiet", "--message", "all"]);
    git(folder.path(), &["clone", "--quiet", "--bare", "work", "sample.git"]);
    let server = HttpBackend::new(folder.path()).start().await.unwrap();
    let source = source(&folder.path().join("cache"), &server);
    let store = Store::open(folder.path().join("data"), Algorithm::Sha256).unwrap();
    Scene { folder, server, source, store }
}

fn source(cache: &Path, server: &Running) -> Arc<RemoteRepository> {
    let policy = UrlPolicy::default().allow_origin(&server.origin()).unwrap();
    let git = Git::new(GitConfig { policy, ..GitConfig::new(cache) }).unwrap();
    git.remote(Remote { url: format!("{}/sample.git", server.origin()), ..Remote::default() }).unwrap()
}

impl Scene {
    async fn keep(&self, source: &RemoteRepository, ignore: Option<&str>, more: Vec<Member>) -> Kept {
        let cancel = CancellationToken::new();
        let tip = source.resolve("main", &cancel).await.unwrap();
        let tree = source.tree(&tip, "", &cancel).await.unwrap();
        let rules = Rules::new(&BTreeMap::new(), ignore).unwrap();
        let draft = self.store.draft().unwrap();
        let members = members(&tree.entries, more, &rules);
        let written = write_archive(source, members, draft, &cancel).await.unwrap();
        self.store.keep(written).unwrap()
    }

    fn path(&self, kept: &Kept) -> std::path::PathBuf {
        let place = Place::new("gitrepository", "default", "app").unwrap();
        self.store.path(&self.store.publish(kept, &place).unwrap())
    }

    /// What GNU tar says of an archive, a line an entry.
    fn listed(&self, kept: &Kept) -> Vec<String> {
        let mut command = Command::new("tar");
        command.args(["--list", "--verbose", "--numeric-owner", "--full-time", "--utc", "--gzip", "--file"]);
        let done = command.arg(self.path(kept)).env("LC_ALL", "C.UTF-8").output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let text = String::from_utf8(done.stdout).unwrap();
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }
}

#[tokio::test]
async fn an_archive_has_directories_and_plain_files_in_order_and_says_nothing_else() {
    let scene = scene().await;
    let kept = scene.keep(&scene.source, None, Vec::new()).await;
    let epoch = "1970-01-01 00:00:00";
    let long = "long".repeat(60);
    let expected = [
        format!("drwxr-x--- 0/0 0 {epoch} ."),
        format!("drwxr-x--- 0/0 0 {epoch} deploy"),
        format!("drwxr-x--- 0/0 0 {epoch} deploy/a"),
        format!("-rw------- 0/0 3 {epoch} deploy/a/one.yaml"),
        format!("drwxr-x--- 0/0 0 {epoch} deploy/a-b"),
        format!("-rw------- 0/0 3 {epoch} deploy/a-b/two.yaml"),
        format!("-rw------- 0/0 5 {epoch} deploy/a.yaml"),
        format!("-rw------- 0/0 4 {epoch} {long}.txt"),
        format!("-rwx------ 0/0 10 {epoch} run.sh"),
        format!("-rw------- 0/0 7 {epoch} ünï.txt"),
    ];
    assert_eq!(scene.listed(&kept), expected);
}

#[tokio::test]
async fn the_same_tree_is_the_same_bytes_wherever_it_was_fetched() {
    let scene = scene().await;
    let one = scene.keep(&scene.source, None, Vec::new()).await;
    let other = source(&scene.folder.path().join("other"), &scene.server);
    assert_eq!(scene.keep(&other, None, Vec::new()).await, one);
    assert_ne!(scene.keep(&other, Some("run.sh"), Vec::new()).await, one);
}

#[tokio::test]
async fn an_artifact_is_put_into_another_one() {
    let scene = scene().await;
    let first = scene.keep(&scene.source, Some("/*\n!/deploy"), Vec::new()).await;
    let path = scene.path(&first);
    let included = unpack(&path, "deploy/a", "vendor/base", 1_000).unwrap().unwrap();
    let names: Vec<_> = included.iter().map(|member| member.path.as_str()).collect();
    assert_eq!(names, ["vendor/base/one.yaml"]);
    let Node::File { content: Content::Bytes(bytes), .. } = &included[0].node else { panic!("{included:?}") };
    assert_eq!(bytes, &Bytes::from_static(b"one"));
    assert_eq!(unpack(&path, "absent", "x", 1_000).unwrap(), None);
    assert_eq!(unpack(&path, "dep", "x", 1_000).unwrap(), None, "a part of a name is no directory");
    assert!(matches!(unpack(&path, "", "x", 10).unwrap_err(), ArchiveError::TooLarge { max: 10, .. }));

    let with = scene.keep(&scene.source, Some("/*\n!/vendor"), included).await;
    let listed = scene.listed(&with);
    let last: Vec<_> = listed.iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(last, [".", "vendor", "vendor/base", "vendor/base/one.yaml"]);
}

#[tokio::test]
async fn what_is_damaged_is_not_unpacked_for_something_else() {
    let scene = scene().await;
    let kept = scene.keep(&scene.source, None, Vec::new()).await;
    let path = scene.path(&kept);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(unpack(&path, "", "", 1 << 20).unwrap_err(), ArchiveError::Unpack { .. }));
}

#[tokio::test]
async fn files_that_are_too_large_together_are_refused_before_any_is_read() {
    let scene = scene().await;
    let content = Content::Blob { id: ObjectId::from_bytes([1; 20]), size: 1 << 30 };
    let member = |n: u32| Member {
        path: n.to_string(),
        node: Node::File { executable: false, content: content.clone() },
    };
    let members = (0..17).map(member).collect();
    let written = write_archive(&*scene.source, members, Vec::new(), &CancellationToken::new()).await;
    assert!(matches!(written, Err(ArchiveError::FilesTooLarge { .. })), "{written:?}");
}
