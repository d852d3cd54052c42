//! What a sync does, and how many requests it takes.

use std::sync::Arc;

use secrecy::SecretString;
use windlass_git::{
    ChangeKind, Credentials, EntryKind, Git, GitConfig, GitError, GitMetrics, Limits, Remote, Revision,
    UrlPolicy,
};
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::{self, Edit};
use windlass_telemetry::Metrics;

use crate::fixture::{Fixture, generous, git, git_blob, paths};

fn many(count: usize) -> Vec<Edit> {
    (0..count)
        .map(|n| Edit::put(format!("folder-{:02}/board-{n}.json", n % 10), format!("{{\"n\":{n}}}")))
        .collect()
}

#[tokio::test]
async fn a_tree_is_read_with_sizes_kinds_and_git_ids() {
    let fixture = Fixture::new().await;
    fixture.commit([Edit::put("a/b/c.json", "{}"), Edit::put("a/ä ö.yaml", "x: 1"), Edit::put("top", "top")]);
    let tree = fixture.tree("").await;
    assert_eq!(paths(&tree), ["a/b/c.json", "a/ä ö.yaml", "top"]);
    let (first, last) = (&tree.entries[0], &tree.entries[2]);
    assert_eq!((first.id, first.size, first.kind), (git_blob(b"{}"), 2, EntryKind::File));
    let contents = fixture.source().blobs(&[last.id, first.id], &fixture.cancel).await.unwrap();
    assert_eq!(contents, ["top", "{}"]);
    assert_eq!(paths(&fixture.tree("a/b").await), ["c.json"]);
    assert_eq!(paths(&fixture.tree("/a/").await), ["b/c.json", "ä ö.yaml"]);
}

#[tokio::test]
async fn a_missing_prefix_is_an_empty_tree_and_a_file_is_no_directory() {
    let fixture = Fixture::new().await;
    fixture.commit([Edit::put("a/b", "b")]);
    assert_eq!(fixture.tree("nowhere/at/all").await.root, None);
    assert!(fixture.tree("a").await.root.is_some());
    let error = fixture.source().tree(&fixture.tip().await, "a/b", &fixture.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::NotADirectory { .. }), "{error}");
}

#[tokio::test]
async fn an_unchanged_repository_costs_one_request_and_a_changed_one_two() {
    let fixture = Fixture::new().await;
    let old = fixture.commit(many(200));
    assert_eq!(fixture.tree("").await.entries.len(), 200);
    assert_eq!(fixture.server.log().lines(), ["POST /sample.git/git-upload-pack"; 2]);

    let before = fixture.requests();
    assert_eq!(fixture.tip().await, old);
    assert_eq!(fixture.requests() - before, 1);

    fixture.commit([Edit::put("folder-03/board-3.json", "changed")]);
    let before = fixture.requests();
    let new = fixture.tip().await;
    let source = fixture.source();
    let diff = source.diff(&old, &new, "", &fixture.cancel).await.unwrap();
    let content = source.blob(diff.changes[0].id.unwrap(), &fixture.cancel).await.unwrap();
    assert_eq!((diff.changes.len(), &content[..]), (1, &b"changed"[..]));
    assert_eq!(fixture.requests() - before, 2);
    assert_eq!(fixture.git.request_count(), fixture.requests());
}

#[tokio::test]
async fn a_second_transfer_brings_only_what_is_new() {
    let fixture = Fixture::new().await;
    fixture.commit(many(500));
    fixture.tree("").await;
    fixture.commit([Edit::put("folder-03/board-3.json", "changed")]);
    fixture.tree("").await;
    // One commit, the root, one folder, one file.
    let mut counts = Vec::new();
    for entry in std::fs::read_dir(fixture.folder.path().join("cache")).unwrap() {
        let packs = entry.unwrap().path().join("objects/pack");
        for pack in std::fs::read_dir(packs).into_iter().flatten() {
            let pack = pack.unwrap().path();
            if pack.extension().is_some_and(|it| it == "pack") {
                let head = std::fs::read(&pack).unwrap();
                counts.push(u32::from_be_bytes(head[8..12].try_into().unwrap()));
            }
        }
    }
    counts.sort_unstable();
    // A thin pack is completed with the bases of its deltas, at most one for each new object.
    assert!(counts.len() == 2 && counts[0] <= 8 && counts[1] == 512, "{counts:?}");
}

#[tokio::test]
async fn a_file_that_returns_to_what_it_was_before_the_shallow_past_is_had() {
    let fixture = Fixture::new().await;
    fixture.commit([Edit::put("a", "one")]);
    fixture.commit([Edit::put("a", "two")]);
    fixture.tree("").await; // the cache has never seen "one"
    fixture.commit([Edit::put("a", "one")]);
    let tree = fixture.tree("").await;
    assert_eq!(fixture.source().blob(tree.entries[0].id, &fixture.cancel).await.unwrap(), "one");
}

#[tokio::test]
async fn changes_are_added_modified_deleted_and_renamed() {
    let fixture = Fixture::new().await;
    let put = |path: &str, content: &str| Edit::put(path, content);
    let old = fixture.commit([
        put("d/gone", "gone"),
        put("d/kept", "kept"),
        put("d/moved", "moved"),
        put("d/edited", "1"),
        put("becomes-dir", "file"),
        put("crossing", "crossing"),
    ]);
    let new = fixture.commit([
        Edit::delete("d/gone"),
        Edit::delete("d/moved"),
        put("d/deep/moved", "moved"),
        put("d/edited", "22"),
        put("d/new", "new"),
        Edit::delete("becomes-dir"),
        Edit::delete("crossing"),
        put("d/crossing", "crossing"),
    ]);
    let source = fixture.source();
    let diff = source.diff(&old, &new, "d", &fixture.cancel).await.unwrap();
    let short: Vec<_> = diff
        .changes
        .iter()
        .map(|it| (it.path.as_str(), it.kind, it.previous_path.as_deref(), it.size))
        .collect();
    assert_eq!(
        short,
        [
            ("crossing", ChangeKind::Added, None, 8),
            ("deep/moved", ChangeKind::Renamed, Some("moved"), 5),
            ("edited", ChangeKind::Modified, None, 2),
            ("gone", ChangeKind::Deleted, None, 0),
            ("new", ChangeKind::Added, None, 3),
        ]
    );
    let edited = &diff.changes[2];
    assert_eq!((edited.previous_id, edited.id), (Some(git_blob(b"1")), Some(git_blob(b"22"))));
    assert_eq!(source.diff(&new, &new, "d", &fixture.cancel).await.unwrap().changes, []);

    let last =
        fixture.commit([put("becomes-dir/inside", "x"), Edit::delete("d/new"), put("d/new/leaf", "y")]);
    let diff = source.diff(&new, &last, "", &fixture.cancel).await.unwrap();
    let kinds: Vec<_> = diff.changes.iter().map(|it| (it.path.as_str(), it.kind)).collect();
    let expected = [
        ("becomes-dir/inside", ChangeKind::Added),
        ("d/new", ChangeKind::Deleted),
        ("d/new/leaf", ChangeKind::Added),
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn an_old_revision_is_fetched_again_while_the_server_has_it() {
    let fixture = Fixture::new().await;
    let old = fixture.commit([Edit::put("a", "1")]);
    let new = fixture.commit([Edit::put("a", "2")]);
    let diff = fixture.source().diff(&old, &new, "", &fixture.cancel).await.unwrap();
    assert_eq!(diff.changes.len(), 1);
}

#[tokio::test]
async fn a_revision_that_nobody_has_is_missing() {
    let fixture = Fixture::new().await;
    let new = fixture.commit([Edit::put("a", "1")]);
    for name in ["1111111111111111111111111111111111111111", "not a commit", ""] {
        let error = fixture.source().diff(&Revision::new(name), &new, "", &fixture.cancel).await.unwrap_err();
        assert!(matches!(error, GitError::RevisionMissing { .. }), "{name}: {error:?}");
        assert_eq!((error.reason(), error.http_code()), ("InvalidSpec", 404));
    }
    assert_eq!(paths(&fixture.tree("").await), ["a"]);
}

#[tokio::test]
async fn branches_tags_and_the_default_branch_are_resolved() {
    let fixture = Fixture::new().await;
    let tip = fixture.commit([Edit::put("a", "1")]);
    seed::commit(&fixture.repository(), "feature/x", [Edit::put("b", "1")], "b").unwrap();
    let repository = fixture.raw();
    let object = repository.revparse_single("main").unwrap();
    let who = git2::Signature::now("a", "a@localhost").unwrap();
    repository.tag("v1", &object, &who, "first", false).unwrap();
    let (source, cancel) = (fixture.source(), &fixture.cancel);
    assert_eq!(source.resolve("", cancel).await.unwrap(), tip);
    assert_eq!(source.resolve("refs/heads/main", cancel).await.unwrap(), tip);
    assert_eq!(source.resolve("refs/tags/v1", cancel).await.unwrap(), tip);
    let branches = source.refs("refs/heads/", cancel).await.unwrap();
    let names: Vec<_> = branches.iter().filter_map(|it| it.branch()).collect();
    assert_eq!(names, ["feature/x", "main"]);
    let error = source.resolve("mai", cancel).await.unwrap_err();
    assert!(matches!(&error, GitError::BranchNotFound { branch, .. } if branch == "mai"), "{error}");
}

#[tokio::test]
async fn a_server_without_v2_is_read_with_v0() {
    let fixture = Fixture::with(Limits::default(), HttpBackend::without_v2).await;
    let old = fixture.commit(many(50));
    assert_eq!(fixture.tree("").await.entries.len(), 50);
    fixture.commit([Edit::put("folder-03/board-3.json", "changed")]);
    let before = fixture.requests();
    let new = fixture.tip().await;
    let diff = fixture.source().diff(&old, &new, "", &fixture.cancel).await.unwrap();
    assert_eq!((diff.changes.len(), fixture.requests() - before), (1, 2));
    let head = fixture.source().refs("HEAD", &fixture.cancel).await.unwrap();
    assert_eq!(head[0].symref_target.as_deref(), Some("refs/heads/main"));
    let gone = Revision::new("1111111111111111111111111111111111111111");
    let error = fixture.source().tree(&gone, "", &fixture.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::RevisionMissing { .. }), "{error:?}");
}

#[tokio::test]
async fn an_empty_repository_has_no_branch() {
    for v2 in [true, false] {
        let fixture =
            Fixture::with(Limits::default(), |backend| if v2 { backend } else { backend.without_v2() }).await;
        git2::Repository::init_bare(fixture.repository()).unwrap();
        let error = fixture.source().resolve("main", &fixture.cancel).await.unwrap_err();
        assert!(matches!(error, GitError::Empty { .. }), "{error:?}");
        assert_eq!(fixture.source().refs("", &fixture.cancel).await.unwrap(), []);
    }
}

#[tokio::test]
async fn credentials_are_sent_and_their_absence_and_refusal_told_apart() {
    let protect = |backend: HttpBackend| backend.basic_auth("git", SecretString::from("s3cret"));
    let fixture = Fixture::with(Limits::default(), protect).await;
    let tip = fixture.commit([Edit::put("a", "1")]);
    let remote = |token: Option<&str>| {
        let credentials = token.map(|token| Credentials::Basic {
            user: String::new(),
            token: SecretString::from(token.to_owned()),
        });
        fixture.git.remote(Remote { url: fixture.url(), credentials, ..Remote::default() }).unwrap()
    };
    assert_eq!(remote(Some("s3cret")).resolve("main", &fixture.cancel).await.unwrap(), tip);
    for (token, sent) in [(None, false), (Some("wr0ng"), true)] {
        let error = remote(token).resolve("main", &fixture.cancel).await.unwrap_err();
        assert!(matches!(error, GitError::Unauthorized { sent: it, .. } if it == sent), "{error:?}");
        assert_eq!((error.reason(), error.http_code()), ("AuthenticationFailed", 401));
        assert!(!error.to_string().contains("wr0ng"));
    }
}

#[tokio::test]
async fn ten_users_of_one_url_share_one_transfer() {
    let fixture = Fixture::new().await;
    let tip = fixture.commit(many(50));
    let reads = (0..10).map(|_| {
        let (source, tip, cancel) = (fixture.source(), tip.clone(), fixture.cancel.clone());
        tokio::spawn(async move { source.tree(&tip, "", &cancel).await.unwrap().entries.len() })
    });
    for read in reads.collect::<Vec<_>>() {
        assert_eq!(read.await.unwrap(), 50);
    }
    // The question which protocol it speaks, and the transfer.
    assert_eq!(fixture.requests(), 2);
}

#[tokio::test]
async fn a_missing_repository_is_not_found() {
    let fixture = Fixture::new().await;
    let error = fixture.source().resolve("main", &fixture.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::NotFound { .. }), "{error:?}");
    assert_eq!((error.reason(), error.http_code()), ("InvalidSpec", 404));
}

#[tokio::test]
async fn a_cancelled_call_says_so() {
    let fixture = Fixture::new().await;
    let tip = fixture.commit([Edit::put("a", "1")]);
    fixture.cancel.cancel();
    for error in [
        fixture.source().resolve("main", &fixture.cancel).await.unwrap_err(),
        fixture.source().tree(&tip, "", &fixture.cancel).await.unwrap_err(),
    ] {
        assert!(matches!(error, GitError::Cancelled), "{error:?}");
    }
}

#[tokio::test]
async fn a_commit_and_a_tag_are_read_by_their_ids() {
    for v2 in [true, false] {
        let fixture =
            Fixture::with(Limits::default(), |backend| if v2 { backend } else { backend.without_v2() }).await;
        let first = fixture.commit([Edit::put("a", "1")]);
        let repository = fixture.raw();
        let who = git2::Signature::now("a", "a@localhost").unwrap();
        let object = repository.revparse_single("main").unwrap();
        let tag = repository.tag("v1", &object, &who, "first", false).unwrap();
        let tag = Revision::new(tag.to_string());
        fixture.commit([Edit::put("b", "2")]);
        let (source, cancel) = (fixture.source(), &fixture.cancel);
        assert_eq!(source.resolve("refs/tags/v1", cancel).await.unwrap(), first);
        assert_eq!(paths(&source.tree(&tag, "", cancel).await.unwrap()), ["a"]);
        let diff = source.diff(&tag, &fixture.tip().await, "", cancel).await.unwrap();
        assert_eq!(diff.changes.len(), 1);
        // One that no ref points at, which servers without v2 do not give.
        repository.tag_delete("v1").unwrap();
        if v2 {
            let fresh = tempfile::tempdir().unwrap();
            let other = git(&fresh, &fixture.server.origin(), Limits::default(), generous());
            let other = other.remote(Remote { url: fixture.url(), ..Remote::default() }).unwrap();
            assert_eq!(paths(&other.tree(&first, "", cancel).await.unwrap()), ["a"]);
        }
    }
}

/// The samples of every metric of this crate but the buckets, by name and labels.
fn figures(metrics: &Metrics) -> Vec<String> {
    let text = metrics.render().unwrap();
    let own = text.lines().filter_map(|line| line.strip_prefix("grafana_provisioning_git_client_"));
    own.filter(|line| !line.contains("_bucket{") && !line.contains("_sum{")).map(str::to_owned).collect()
}

#[tokio::test]
async fn what_a_sync_costs_is_told() {
    let mut fixture = Fixture::new().await;
    let metrics = Metrics::new().unwrap();
    let mut config = GitConfig::new(fixture.folder.path().join("told"));
    config.policy = UrlPolicy::default().allow_origin(&fixture.server.origin()).unwrap();
    config.metrics = Some(Arc::new(GitMetrics::new(&metrics)));
    fixture.git = Git::new(config).unwrap();
    let remote = |url| Remote { url, kind: "github", ..Remote::default() };
    let source = fixture.git.remote(remote(fixture.url())).unwrap();
    let tip = fixture.commit(many(10));
    source.resolve("main", &fixture.cancel).await.unwrap();
    for _ in 0..3 {
        source.tree(&tip, "", &fixture.cancel).await.unwrap();
    }
    let missing = fixture.git.remote(remote(format!("{}x", fixture.url()))).unwrap();
    missing.resolve("main", &fixture.cancel).await.unwrap_err();
    let told = figures(&metrics);
    for line in [
        r#"http_requests_total{operation="ls-refs",repository_type="github",status_code="200"} 1"#,
        r#"http_requests_total{operation="fetch",repository_type="github",status_code="200"} 1"#,
        r#"http_requests_total{operation="discover",repository_type="github",status_code="404"} 1"#,
        r#"http_request_duration_seconds_count{operation="fetch",repository_type="github"} 1"#,
        // A commit, a tree with ten in it, and a file in each.
        r#"objects_fetched_total{repository_type="github"} 22"#,
        r#"cache_accesses_total{repository_type="github",result="miss"} 1"#,
        r#"cache_accesses_total{repository_type="github",result="hit"} 2"#,
    ] {
        assert!(told.iter().any(|other| other == line), "no {line} in {told:#?}");
    }
    assert!(told.iter().any(|line| line.starts_with("fetched_bytes_total{")), "{told:#?}");
    let text = metrics.render().unwrap();
    let host = fixture.server.origin().replace("http://", "");
    for state in ["under_way", "waiting"] {
        let line = format!(r#"windlass_git_host_requests{{host="{host}",state="{state}"}} 0"#);
        assert!(text.contains(&line), "no {line} in {text}");
    }
}
