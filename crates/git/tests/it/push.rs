//! Commits and pushes, seen with Git's own programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use secrecy::SecretString;
use windlass_git::{
    CommitMeta, Credentials, Git, GitConfig, GitError, Limits, Remote, RemoteRepository, Revision, Signature,
    TreeChange, UrlPolicy,
};
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::Edit;

use crate::cut_proxy::CutProxy;
use crate::fixture::{Fixture, generous, git, paths};

fn put(path: &str, content: &str) -> TreeChange {
    TreeChange::Put { path: path.to_owned(), content: content.to_owned().into(), executable: false }
}

fn delete(path: &str) -> TreeChange {
    TreeChange::Delete { path: path.to_owned() }
}

fn rename(from: &str, to: &str) -> TreeChange {
    TreeChange::Rename { from: from.to_owned(), to: to.to_owned() }
}

fn meta(message: &str) -> CommitMeta {
    let who = |name: &str| Signature {
        name: name.to_owned(),
        email: format!("{}@example.com", name.to_lowercase()),
        seconds: 1_700_000_000,
    };
    CommitMeta {
        author: who("Ada"),
        committer: who("Windlass"),
        message: message.to_owned(),
        signing_key: None,
    }
}

async fn commit(fixture: &Fixture, base: Option<&Revision>, changes: &[TreeChange]) -> Revision {
    let made = fixture.source().commit(base, changes, &meta("a change"), &fixture.cancel).await;
    made.unwrap().expect("something to commit")
}

async fn push(fixture: &Fixture, expected: Option<&Revision>, new: &Revision) -> Result<(), GitError> {
    fixture.source().push("main", expected, new, &fixture.cancel).await
}

/// Has the server run `script` before it takes a push.
fn hook(fixture: &Fixture, name: &str, script: &str) {
    let hooks = fixture.repository().join("hooks");
    fs::create_dir_all(&hooks).unwrap();
    let hook = hooks.join(name);
    fs::write(&hook, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
}

fn id(revision: &Revision) -> String {
    revision.to_string()
}

#[tokio::test]
async fn a_commit_is_pushed_with_two_requests_and_git_finds_it_sound() {
    let fixture = Fixture::writable().await;
    let base = fixture.commit([
        Edit::put("kept/deep/a", "a"),
        Edit::put("edited", "1"),
        Edit::put("gone/b", "b"),
        Edit::put("moved/c", "c"),
        Edit::put("moved/deep/d", "d"),
    ]);
    let changes = [
        put("edited", "2"),
        put("new/ä ö.json", "{}"),
        delete("gone/b"),
        rename("moved", "kept/here"),
        rename("kept/here/c", "c"),
        TreeChange::Put { path: "run".into(), content: "#!".into(), executable: true },
    ];
    fixture.source().tree(&base, "", &fixture.cancel).await.unwrap();
    let before = fixture.requests();
    let meta = meta("Move things\n\nWindlass-Job: 7");
    let made = fixture.source().commit(Some(&base), &changes, &meta, &fixture.cancel).await;
    let new = made.unwrap().unwrap();
    assert_eq!(fixture.requests(), before, "a commit is made here");
    push(&fixture, Some(&base), &new).await.unwrap();
    assert_eq!(fixture.requests() - before, 2);

    assert_eq!(fixture.git_says(&["rev-parse", "main", "main^"]), format!("{new}\n{base}"));
    assert_eq!(
        fixture.git_says(&["log", "-1", "--format=%an|%ae|%at|%cn|%ct|%B", "main"]),
        "Ada|ada@example.com|1700000000|Windlass|1700000000|Move things\n\nWindlass-Job: 7"
    );
    let tree = fixture.git_says(&["-c", "core.quotePath=false", "ls-tree", "-r", "main"]);
    let listed: Vec<_> = tree.lines().map(|line| (&line[..6], line.split('\t').nth(1).unwrap())).collect();
    let files = ["c", "edited", "kept/deep/a", "kept/here/deep/d", "new/ä ö.json"];
    let mut expected: Vec<_> = files.map(|path| ("100644", path)).to_vec();
    expected.push(("100755", "run"));
    assert_eq!(listed, expected);
    assert_eq!(fixture.git_says(&["show", "main:edited"]), "2");
    fixture.git_says(&["fsck", "--strict", "--full"]);

    // What was pushed is here already: the next look at it fetches nothing.
    let before = fixture.requests();
    assert_eq!(fixture.tree("kept").await.entries.len(), 2);
    assert_eq!(fixture.requests() - before, 1);
    // And what somebody else builds on it is fetched on top of it.
    let next = fixture.commit([Edit::put("edited", "3")]);
    let diff = fixture.source().diff(&new, &next, "", &fixture.cancel).await.unwrap();
    assert_eq!(diff.changes.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["edited"]);
}

#[tokio::test]
async fn the_same_change_is_the_same_commit_on_any_machine() {
    let fixture = Fixture::writable().await;
    let base = fixture.commit([Edit::put("a", "1")]);
    let new = commit(&fixture, Some(&base), &[put("a", "2")]).await;
    assert_eq!(commit(&fixture, Some(&base), &[put("a", "2")]).await, new);
    let elsewhere = tempfile::tempdir().unwrap();
    let other = git(&elsewhere, &fixture.server.origin(), Limits::default(), generous());
    let other = other.remote(Remote { url: fixture.url(), ..Remote::default() }).unwrap();
    let again = other.commit(Some(&base), &[put("a", "2")], &meta("a change"), &fixture.cancel).await;
    assert_eq!(again.unwrap(), Some(new.clone()));
    // Both push it, and the second is told that it is there.
    push(&fixture, Some(&base), &new).await.unwrap();
    let before = fixture.requests();
    other.push("main", Some(&base), &new, &fixture.cancel).await.unwrap();
    assert_eq!(fixture.requests() - before, 1);
    assert_eq!(fixture.git_says(&["rev-list", "--count", "main"]), "2");
}

#[tokio::test]
async fn changes_that_change_nothing_are_nothing_to_commit() {
    let fixture = Fixture::writable().await;
    let base = fixture.commit([Edit::put("a/b", "1"), Edit::put("c", "2")]);
    for changes in [
        &[][..],
        &[put("a/b", "1")],
        &[put("new", "x"), delete("new")],
        &[rename("a", "z"), rename("z/b", "a/b")],
    ] {
        let made = fixture.source().commit(Some(&base), changes, &meta("nothing"), &fixture.cancel).await;
        assert_eq!(made.unwrap(), None, "{changes:?}");
    }
    assert_eq!(fixture.source().commit(None, &[], &meta("nothing"), &fixture.cancel).await.unwrap(), None);
}

#[tokio::test]
async fn an_empty_repository_gets_its_first_commit() {
    let fixture = Fixture::writable().await;
    git2::Repository::init_bare(fixture.repository()).unwrap();
    let first = commit(&fixture, None, &[put("a/b", "1")]).await;
    push(&fixture, None, &first).await.unwrap();
    assert_eq!(fixture.git_says(&["rev-list", "refs/heads/main"]), id(&first));
    fixture.git_says(&["fsck", "--strict"]);
    // Whoever thinks that it is still empty is told otherwise.
    let other = commit(&fixture, None, &[put("c", "1")]).await;
    let error = push(&fixture, None, &other).await.unwrap_err();
    assert!(matches!(error, GitError::RefMoved { expected: None, actual: Some(_), .. }), "{error:?}");
}

#[tokio::test]
async fn commits_on_top_of_each_other_are_pushed_at_once() {
    let fixture = Fixture::writable().await;
    let base = fixture.commit([Edit::put("a", "0"), Edit::put("d/kept", "kept")]);
    let mut tip = base.clone();
    for n in 1..=40 {
        // More packs than a cache keeps.
        tip = commit(&fixture, Some(&tip), &[put(&format!("d/{n}"), &format!("{n}"))]).await;
    }
    assert_eq!(fixture.source().tree(&tip, "d", &fixture.cancel).await.unwrap().entries.len(), 41);
    push(&fixture, Some(&base), &tip).await.unwrap();
    assert_eq!(fixture.git_says(&["rev-list", "--count", "main"]), "41");
    fixture.git_says(&["fsck", "--strict", "--full"]);
}

#[tokio::test]
async fn a_branch_is_created_at_a_commit_and_with_one() {
    let fixture = Fixture::writable().await;
    let base = fixture.commit([Edit::put("a", "1")]);
    let (source, cancel) = (fixture.source(), &fixture.cancel);
    source.push("at-base", None, &base, cancel).await.unwrap();
    let new = commit(&fixture, Some(&base), &[put("a", "2")]).await;
    source.push("refs/heads/feature/x", None, &new, cancel).await.unwrap();
    assert_eq!(fixture.git_says(&["rev-parse", "at-base", "feature/x"]), format!("{base}\n{new}"));
    fixture.git_says(&["fsck", "--strict"]);
}

#[tokio::test]
async fn a_branch_that_moved_is_left_where_it_is() {
    let fixture = Fixture::writable().await;
    let base = fixture.commit([Edit::put("a", "1")]);
    let new = commit(&fixture, Some(&base), &[put("a", "mine")]).await;
    let theirs = fixture.commit([Edit::put("a", "theirs")]);
    let error = push(&fixture, Some(&base), &new).await.unwrap_err();
    assert_eq!((error.http_code(), error.is_transient()), (409, false));
    let text = error.to_string();
    assert!(text.contains(&id(&base)) && text.contains(&id(&theirs)), "{text}");
    assert_eq!(fixture.git_says(&["rev-parse", "main"]), id(&theirs));
}

#[tokio::test]
async fn a_branch_that_moves_in_the_middle_of_a_push_is_left_where_it_is() {
    let mut fixture = Fixture::writable().await;
    // The one place of the host is free again when what the server said is judged.
    let mut config = GitConfig::new(fixture.folder.path().join("one at a time"));
    config.policy = UrlPolicy::default().allow_origin(&fixture.server.origin()).unwrap();
    config.deadlines = generous();
    config.requests_per_host = 1;
    fixture.git = Git::new(config).unwrap();
    let base = fixture.commit([Edit::put("a", "1")]);
    fixture.git_says(&["branch", "theirs", "main"]);
    let new = commit(&fixture, Some(&base), &[put("a", "mine")]).await;
    let their = commit(&fixture, Some(&base), &[put("a", "theirs")]).await;
    fixture.source().push("refs/heads/theirs", Some(&base), &their, &fixture.cancel).await.unwrap();
    // Between the refs that we are told and the update.
    hook(&fixture, "pre-receive", "unset GIT_QUARANTINE_PATH; git update-ref refs/heads/main theirs");
    let error = push(&fixture, Some(&base), &new).await.unwrap_err();
    assert!(
        matches!(&error, GitError::RefMoved { actual: Some(actual), .. } if actual.to_string() == id(&their)),
        "{error:?}"
    );
}

#[tokio::test]
async fn what_a_hook_says_reaches_the_user_and_no_more_than_a_bit_of_it() {
    let fixture = Fixture::writable().await;
    let base = fixture.commit([Edit::put("a", "1")]);
    let new = commit(&fixture, Some(&base), &[put("a", "2")]).await;
    let script = "yes 'a line of nothing that anybody reads' | head -c 300000 >&2\n\
                  printf 'checking 1%%\\rchecked\\n\\033[31mno dashboards on Fridays\\n' >&2\nexit 1";
    hook(&fixture, "pre-receive", script);
    let error = push(&fixture, Some(&base), &new).await.unwrap_err();
    assert!(matches!(error, GitError::PushRefused { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("refused to update refs/heads/main: pre-receive hook declined"), "{text:.200}");
    assert!(text.ends_with("; checked;  [31mno dashboards on Fridays"), "{text}");
    assert!(text.len() < 5_000 && !text.contains(char::is_control), "{} bytes", text.len());
    assert_eq!((error.http_code(), error.reason(), error.is_transient()), (403, "InvalidSpec", false));
    assert_eq!(fixture.git_says(&["rev-parse", "main"]), id(&base));
}

#[tokio::test]
async fn a_hook_that_echoes_the_token_does_not_tell_it() {
    const TOKEN: &str = "t0ken-of-the-user";
    let protect = |backend: HttpBackend| backend.writable().basic_auth("git", SecretString::from(TOKEN));
    let fixture = Fixture::with(Limits::default(), protect).await;
    let base = fixture.commit([Edit::put("a", "1")]);
    let source = authorized(&fixture, TOKEN);
    let made = source.commit(Some(&base), &[put("a", "2")], &meta("x"), &fixture.cancel).await;
    let new = made.unwrap().unwrap();
    // "git:t0ken-of-the-user" in base64, and a flood that the token is cut in.
    let script = format!(
        "yes {TOKEN} | head -c 60000 | tr -d '\\n' >&2; echo >&2\n\
         echo Authorization: Basic Z2l0OnQwa2VuLW9mLXRoZS11c2Vy, {TOKEN} >&2; exit 1"
    );
    hook(&fixture, "pre-receive", &script);
    let error = source.push("main", Some(&base), &new, &fixture.cancel).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("Authorization: Basic [redacted], [redacted]"), "{text}");
    assert!(!text.contains("t0ken") && !text.contains("Z2l0") && !text.contains("of-the-user"), "{text}");
}

fn authorized(fixture: &Fixture, token: &str) -> std::sync::Arc<RemoteRepository> {
    let credentials =
        Some(Credentials::Basic { user: String::new(), token: SecretString::from(token.to_owned()) });
    fixture.git.remote(Remote { url: fixture.url(), credentials, ..Remote::default() }).unwrap()
}

#[tokio::test]
async fn who_may_not_push_is_told_before_anything_is_sent() {
    let protect = |backend: HttpBackend| backend.writable().basic_auth("git", SecretString::from("s3cret"));
    let fixture = Fixture::with(Limits::default(), protect).await;
    let base = fixture.commit([Edit::put("a", "1")]);
    let error = authorized(&fixture, "wr0ng").check_push_access(&fixture.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::Unauthorized { sent: true, .. }), "{error:?}");
    authorized(&fixture, "s3cret").check_push_access(&fixture.cancel).await.unwrap();

    let read_only = Fixture::new().await;
    read_only.commit([Edit::put("a", "1")]);
    let new = commit(&read_only, None, &[put("a", "2")]).await;
    for error in [
        read_only.source().check_push_access(&read_only.cancel).await.unwrap_err(),
        push(&read_only, Some(&base), &new).await.unwrap_err(),
    ] {
        assert!(matches!(error, GitError::PushDenied { .. }), "{error:?}");
        assert!(error.to_string().contains("needs write access"), "{error}");
        assert_eq!((error.http_code(), error.reason()), (403, "AuthenticationFailed"));
    }
    let pushed = read_only.server.log().lines().iter().filter(|line| line.starts_with("POST")).count();
    assert_eq!(pushed, 0);
}

#[tokio::test]
async fn a_push_whose_answer_is_lost_is_recognised() {
    let fixture = Fixture::writable().await;
    let base = fixture.commit([Edit::put("a", "1")]);
    let proxy = CutProxy::start(fixture.server.address()).await;
    let client = git(&fixture.folder, &proxy.origin(), Limits::default(), generous());
    let url = format!("{}/sample.git", proxy.origin());
    let source = client.remote(Remote { url, ..Remote::default() }).unwrap();
    let made = source.commit(Some(&base), &[put("a", "2")], &meta("x"), &fixture.cancel).await;
    let new = made.unwrap().unwrap();
    source.push("main", Some(&base), &new, &fixture.cancel).await.unwrap();
    assert_eq!(proxy.cut(), 1);
    assert_eq!(fixture.git_says(&["rev-parse", "main"]), id(&new));

    // One that was not taken is not believed to be.
    hook(&fixture, "pre-receive", "exit 1");
    let made = source.commit(Some(&new), &[put("a", "3")], &meta("x"), &fixture.cancel).await;
    let next = made.unwrap().unwrap();
    let error = source.push("main", Some(&new), &next, &fixture.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::PushUnanswered { .. }) && error.is_transient(), "{error:?}");
    assert_eq!(proxy.cut(), 2);
    // And can be pushed again, here without the proxy.
    fs::remove_file(fixture.repository().join("hooks/pre-receive")).unwrap();
    assert_eq!(commit(&fixture, Some(&new), &[put("a", "3")]).await.as_str().len(), 40);
    let again = fixture.source().commit(Some(&new), &[put("a", "3")], &meta("x"), &fixture.cancel).await;
    assert_eq!(again.unwrap(), Some(next.clone()));
    push(&fixture, Some(&new), &next).await.unwrap();
}

#[tokio::test]
async fn a_large_push_is_sent_in_pieces() {
    let fixture = Fixture::writable().await;
    let base = fixture.commit([Edit::put("a", "1")]);
    // Not compressible: SHA-1 of a counter.
    let noise = |file: u32| -> Vec<u8> {
        let hash = |n: u32| {
            git2::Oid::hash_object(git2::ObjectType::Blob, &[file.to_le_bytes(), n.to_le_bytes()].concat())
        };
        (0..100_000).flat_map(|n| hash(n).unwrap().as_bytes().to_vec()).collect()
    };
    let changes: Vec<_> = (0..6)
        .map(|n| TreeChange::Put { path: format!("{n}"), content: noise(n).into(), executable: false })
        .collect();
    let new = commit(&fixture, Some(&base), &changes).await;
    push(&fixture, Some(&base), &new).await.unwrap();
    assert_eq!(fixture.git_says(&["cat-file", "-s", "main:5"]), "2000000");
    fixture.git_says(&["fsck", "--strict", "--full"]);
}

#[tokio::test]
async fn a_change_that_cannot_be_made_is_named() {
    let fixture = Fixture::limited(Limits { blob_bytes: 100, depth: 5, ..Limits::default() }).await;
    let base = fixture.commit([Edit::put("a/b", "1"), Edit::put("c", "2")]);
    let (large, deep) = ("x".repeat(101), "d/".repeat(6) + "x");
    for (change, said) in [
        (put("c/d", "x"), "no directory"),
        (put("a", "x"), "a directory is there"),
        (put("../x", "x"), "\"..\""),
        (put(".GIT/config", "x"), ".git"),
        (put("/x", "x"), "empty"),
        (put("", "x"), "empty"),
        (put("x\ny", "x"), "control character"),
        (put(&deep, "x"), "too deep"),
        (put("large", &large), "blob_bytes"),
        (delete("nowhere"), "file not found: \"nowhere\""),
        (delete("nowhere/at/all"), "file not found"),
        (rename("c", "a/b"), "something is there"),
        (rename("a", "a/b/c"), "into itself"),
        (rename("nowhere", "x"), "file not found"),
    ] {
        let changes = std::slice::from_ref(&change);
        let made = fixture.source().commit(Some(&base), changes, &meta("x"), &fixture.cancel).await;
        let error = made.unwrap_err();
        assert!(error.to_string().contains(said), "{change:?}: {error}");
        assert!(matches!(error.http_code(), 400 | 404 | 413), "{error:?}");
    }
    let new = commit(&fixture, Some(&base), &[put("c", "3")]).await;
    for name in ["", "a..b", "a b", "x.lock", "refs/heads/", "refs/heads/a\nb", "~x"] {
        let error = fixture.source().push(name, None, &new, &fixture.cancel).await.unwrap_err();
        assert!(matches!(error, GitError::InvalidChange { .. }), "{name:?}: {error:?}");
    }
}

#[tokio::test]
async fn what_no_change_names_stays_as_it_is() {
    let fixture = Fixture::writable().await;
    let repository = fixture.raw();
    let content = crate::fixture::blob(&repository, b"x");
    let module = git2::Oid::from_str("1234567890123456789012345678901234567890").unwrap();
    let inner =
        crate::fixture::raw_tree(&repository, &[(0o100_664, b"group", content), (0o100_644, b"x", content)]);
    let base = fixture.plant(&[
        (0o100_644, b"bad\nname", content),
        (0o040_000, b"d", inner),
        (0o120_000, b"link", content),
        (0o160_000, b"module", module),
    ]);
    let new = commit(&fixture, Some(&base), &[put("d/x", "2"), put("d-", "after d in Git's order")]).await;
    push(&fixture, Some(&base), &new).await.unwrap();
    let listed = fixture.git_says(&["ls-tree", "-r", "main"]);
    let modes: Vec<_> = listed.lines().map(|line| (&line[..6], line.split('\t').nth(1).unwrap())).collect();
    assert_eq!(
        modes,
        [
            ("100644", "\"bad\\nname\""),
            ("100644", "d-"),
            ("100644", "d/group"),
            ("100644", "d/x"),
            ("120000", "link"),
            ("160000", "module"),
        ]
    );
    // Git shows that mode as another.
    let directory = git2::Oid::from_str(&fixture.git_says(&["rev-parse", "main:d"])).unwrap();
    assert!(repository.odb().unwrap().read(directory).unwrap().data().starts_with(b"100664 group\0"));
    assert_eq!(paths(&fixture.tree("d").await), ["group", "x"]);
}
