//! Repositories that mean harm: each gets a result for the file, or a typed limit error.

use git2::Oid;
use windlass_git::{ChangeKind, EntryKind, GitError, Limits};
use windlass_git_server::seed::Edit;

use crate::fixture::{Fixture, blob, commit_tree, paths, raw_tree};

const FILE: u32 = 0o100_644;
const DIRECTORY: u32 = 0o040_000;

fn limit_of(error: &GitError) -> &'static str {
    match error {
        GitError::LimitExceeded { limit, .. } => {
            assert_eq!((error.reason(), error.http_code()), ("InvalidSpec", 413));
            limit
        }
        other => panic!("a limit error, not {other:?}"),
    }
}

#[tokio::test]
async fn names_that_git_refuses_are_rejected_one_by_one() {
    let fixture = Fixture::new().await;
    let repository = fixture.raw();
    let content = blob(&repository, b"x");
    let inner = raw_tree(&repository, &[(FILE, b"config", content)]);
    let names: [&[u8]; 9] = [
        b"..",
        b".",
        b".git",
        b".GiT",
        b"git~1",
        b"/etc/passwd",
        b"a\nb",
        b"bad\xff",
        ".g\u{200c}it".as_bytes(),
    ];
    let mut entries: Vec<(u32, &[u8], Oid)> = names.iter().map(|name| (FILE, *name, content)).collect();
    entries.extend([
        (DIRECTORY, &b".git "[..], inner),
        (FILE, b"good", content),
        (0o100_000, b"mode", content),
    ]);
    fixture.plant(&entries);
    let tree = fixture.tree("").await;
    assert_eq!(paths(&tree), ["good"]);
    assert_eq!(tree.rejected.len(), names.len() + 2, "{:?}", tree.rejected);
    assert!(tree.rejected.iter().all(|it| !it.path.contains(char::is_control)), "{:?}", tree.rejected);
}

#[tokio::test]
async fn entries_of_one_name_are_all_rejected() {
    let fixture = Fixture::new().await;
    let repository = fixture.raw();
    let (one, two) = (blob(&repository, b"1"), blob(&repository, b"2"));
    let inner = raw_tree(&repository, &[(FILE, b"x", one)]);
    let old =
        fixture.plant(&[(FILE, b"a", one), (FILE, b"a", two), (DIRECTORY, b"a", inner), (FILE, b"b", one)]);
    let tree = fixture.tree("").await;
    assert_eq!((paths(&tree), tree.rejected.len()), (vec!["b"], 3));
    // Once only one is left it is new, since it was never handled.
    let new = fixture.plant(&[(FILE, b"a", one), (FILE, b"b", one), (FILE, b"c", two), (FILE, b"c", two)]);
    let diff = fixture.source().diff(&old, &new, "", &fixture.cancel).await.unwrap();
    assert_eq!(
        diff.changes.iter().map(|it| (it.path.as_str(), it.kind)).collect::<Vec<_>>(),
        [("a", ChangeKind::Added)]
    );
    assert_eq!(diff.rejected.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["c", "c"]);
}

#[tokio::test]
async fn links_and_submodules_are_reported_and_not_followed() {
    let fixture = Fixture::new().await;
    let repository = fixture.raw();
    let target = blob(&repository, b"/etc/passwd");
    let elsewhere = Oid::from_str("1234567890123456789012345678901234567890").unwrap();
    fixture.plant(&[
        (0o120_000, b"link", target),
        (0o160_000, b"module", elsewhere),
        (0o100_755, b"run", target),
    ]);
    let kinds: Vec<_> = fixture.tree("").await.entries.iter().map(|it| (it.kind, it.size)).collect();
    assert_eq!(kinds, [(EntryKind::Symlink, 11), (EntryKind::Submodule, 0), (EntryKind::Executable, 11)]);
}

#[tokio::test]
async fn too_many_entries_are_a_limit() {
    let fixture = Fixture::limited(Limits { entries: 100, ..Limits::default() }).await;
    fixture.commit((0..101).map(|n| Edit::put(format!("{n}"), "x")));
    let error = fixture.source().tree(&fixture.tip().await, "", &fixture.cancel).await.unwrap_err();
    assert_eq!(limit_of(&error), "entries");
}

#[tokio::test]
async fn directories_that_multiply_are_a_limit() {
    let fixture = Fixture::limited(Limits { entries: 1_000, ..Limits::default() }).await;
    let repository = fixture.raw();
    let mut tree = raw_tree(&repository, &[]);
    for _ in 0..30 {
        tree = raw_tree(
            &repository,
            &[(DIRECTORY, b"a", tree), (DIRECTORY, b"b", tree), (DIRECTORY, b"c", tree)],
        );
    }
    let bomb = commit_tree(&repository, tree);
    let error = fixture.source().tree(&bomb, "", &fixture.cancel).await.unwrap_err();
    assert_eq!(limit_of(&error), "entries");
}

#[tokio::test]
async fn deep_nesting_is_a_limit() {
    let fixture = Fixture::limited(Limits { depth: 20, ..Limits::default() }).await;
    let repository = fixture.raw();
    let content = blob(&repository, b"x");
    let mut tree = raw_tree(&repository, &[(FILE, b"leaf", content)]);
    for _ in 0..5_000 {
        tree = raw_tree(&repository, &[(DIRECTORY, b"d", tree)]);
    }
    let deep = commit_tree(&repository, tree);
    let error = fixture.source().tree(&deep, "", &fixture.cancel).await.unwrap_err();
    assert_eq!(limit_of(&error), "depth");
}

#[tokio::test]
async fn a_long_path_is_rejected_by_itself() {
    let fixture = Fixture::limited(Limits { path_bytes: 50, ..Limits::default() }).await;
    fixture.commit([Edit::put(format!("d/{}", "n".repeat(60)), "x"), Edit::put("d/short", "x")]);
    let tree = fixture.tree("").await;
    assert_eq!((paths(&tree), tree.rejected.len()), (vec!["d/short"], 1));
}

#[tokio::test]
async fn a_large_file_is_listed_with_its_size_and_refused_when_read() {
    let fixture = Fixture::limited(Limits { blob_bytes: 1_000, ..Limits::default() }).await;
    fixture.commit([Edit::put("large", vec![b'x'; 1_001]), Edit::put("small", vec![b'x'; 1_000])]);
    let tree = fixture.tree("").await;
    assert_eq!(tree.entries[0].size, 1_001);
    let read = |position: usize| {
        let (source, id) = (fixture.source(), tree.entries[position].id);
        let cancel = fixture.cancel.clone();
        async move { source.blob(id, &cancel).await }
    };
    assert_eq!(limit_of(&read(0).await.unwrap_err()), "blob_bytes");
    assert_eq!(read(1).await.unwrap().len(), 1_000);
}

#[tokio::test]
async fn a_transfer_over_the_cap_stops_and_leaves_nothing() {
    let fixture = Fixture::limited(Limits { pack_bytes: 100_000, ..Limits::default() }).await;
    // Not compressible: SHA-1 of a counter.
    let noise = |n: usize| Oid::hash_object(git2::ObjectType::Blob, &n.to_le_bytes()).unwrap();
    let content: Vec<u8> = (0..50_000).flat_map(|n| noise(n).as_bytes().to_vec()).collect();
    fixture.commit([Edit::put("noise", content)]);
    let error = fixture.source().tree(&fixture.tip().await, "", &fixture.cancel).await.unwrap_err();
    assert_eq!(limit_of(&error), "pack_bytes");

    // The commit is as large the next time, and is not fetched again to find that out.
    let (tip, requests) = (fixture.tip().await, fixture.requests());
    let error = fixture.source().tree(&tip, "", &fixture.cancel).await.unwrap_err();
    assert_eq!((limit_of(&error), fixture.requests()), ("pack_bytes", requests));
    fixture.commit([Edit::delete("noise"), Edit::put("small", "x")]);
    let moved = fixture.tip().await;
    let error = fixture.source().tree(&moved, "", &fixture.cancel).await.err();
    assert!(error.is_none(), "what was too large is no part of the newer commit: {error:?}");
}

#[tokio::test]
async fn too_many_objects_are_a_limit() {
    let fixture = Fixture::limited(Limits { objects: 10, ..Limits::default() }).await;
    fixture.commit((0..20).map(|n| Edit::put(format!("{n}"), format!("{n}"))));
    let error = fixture.source().tree(&fixture.tip().await, "", &fixture.cancel).await.unwrap_err();
    assert_eq!(limit_of(&error), "objects");
}

#[tokio::test]
async fn a_large_directory_is_a_limit() {
    let fixture = Fixture::limited(Limits { tree_bytes: 1_000, ..Limits::default() }).await;
    fixture.commit((0..100).map(|n| Edit::put(format!("{n}"), "x")));
    let error = fixture.source().tree(&fixture.tip().await, "", &fixture.cancel).await.unwrap_err();
    assert_eq!(limit_of(&error), "tree_bytes");
}

#[tokio::test]
async fn too_many_refs_are_a_limit() {
    let fixture = Fixture::limited(Limits { refs: 5, ..Limits::default() }).await;
    let repository = fixture.raw();
    let tip = repository.refname_to_id("refs/heads/main").unwrap();
    for n in 0..10 {
        repository.reference(&format!("refs/heads/b{n}"), tip, true, "").unwrap();
    }
    let error = fixture.source().refs("refs/heads/", &fixture.cancel).await.unwrap_err();
    assert_eq!(limit_of(&error), "refs");
    fixture.source().resolve("main", &fixture.cancel).await.unwrap();
}

#[tokio::test]
async fn a_directory_under_a_files_name_is_rejected_and_not_fetched_again_and_again() {
    let fixture = Fixture::new().await;
    let repository = fixture.raw();
    let content = blob(&repository, b"x");
    let disguised = raw_tree(&repository, &[(FILE, b"inner", content)]);
    fixture.plant(&[(FILE, b"disguised", disguised), (FILE, b"good", content)]);
    let tree = fixture.tree("").await;
    assert_eq!(paths(&tree), ["good"]);
    let rejected: Vec<_> = tree.rejected.iter().map(|it| (it.path.as_str(), it.reason.as_str())).collect();
    assert_eq!(rejected, [("disguised", "it is a tree, not a file")]);
    for _ in 0..3 {
        let before = fixture.requests();
        assert_eq!(fixture.tree("").await.rejected.len(), 1);
        assert_eq!(fixture.requests() - before, 1, "the refs alone");
    }
    let disguised = disguised.to_string().parse().unwrap();
    let before = fixture.requests();
    let error = fixture.source().blob(disguised, &fixture.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::Damaged { .. }), "{error:?}");
    assert_eq!((fixture.requests(), error.reason(), error.is_transient()), (before, "InvalidSpec", false));
}

#[tokio::test]
async fn a_tree_over_a_limit_is_fetched_once() {
    let fixture = Fixture::limited(Limits { tree_bytes: 1_000, ..Limits::default() }).await;
    fixture.commit((0..100).map(|n| Edit::put(format!("d/{n}"), "x")));
    for expected in [2, 1, 1] {
        let before = fixture.requests();
        let tip = fixture.tip().await;
        let error = fixture.source().tree(&tip, "", &fixture.cancel).await.unwrap_err();
        assert_eq!((limit_of(&error), fixture.requests() - before), ("tree_bytes", expected));
    }
}
