//! The object cache on disk: shared, bounded, and disposable.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use secrecy::SecretString;
use windlass_git::{
    CommitMeta, Credentials, GitError, HistoryQuery, Limits, ObjectId, Remote, RemoteRepository, Signature,
    Tree, TreeChange,
};
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::Edit;

use crate::fixture::{Fixture, generous, git, paths};

fn stores(fixture: &Fixture) -> Vec<PathBuf> {
    let entries = fs::read_dir(fixture.folder.path().join("cache")).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

fn packs(store: &std::path::Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(store.join("objects/pack")).unwrap();
    entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "pack"))
        .collect()
}

#[tokio::test]
async fn another_process_finds_what_was_fetched() {
    let fixture = Fixture::new().await;
    let tip = fixture.commit([Edit::put("a", "1")]);
    fixture.tree("").await;
    let before = fixture.requests();
    let second = git(&fixture.folder, &fixture.server.origin(), Limits::default(), generous());
    let source = second.remote(Remote { url: fixture.url(), ..Remote::default() }).unwrap();
    assert_eq!(paths(&source.tree(&tip, "", &fixture.cancel).await.unwrap()), ["a"]);
    assert_eq!(fixture.requests(), before);
    // And the first one finds what the second brought.
    let next = fixture.commit([Edit::put("b", "2")]);
    source.tree(&next, "", &fixture.cancel).await.unwrap();
    let before = fixture.requests();
    let tree = fixture.source().tree(&next, "", &fixture.cancel).await.unwrap();
    assert_eq!((paths(&tree), fixture.requests()), (vec!["a", "b"], before));
}

#[tokio::test]
async fn damage_is_found_and_fetched_again() {
    let fixture = Fixture::new().await;
    let tip = fixture.commit((0..50).map(|n| Edit::put(format!("{n}"), format!("content {n}"))));
    let harm: [fn(&std::path::Path); 4] = [
        |store| packs(store).iter().for_each(|pack| fs::remove_file(pack).unwrap()),
        |store| fs::write(store.join("HEAD"), "nonsense").unwrap(),
        |store| fs::write(store.join("tips"), "of another format").unwrap(),
        |store| {
            for pack in packs(store) {
                let mut bytes = fs::read(&pack).unwrap();
                let middle = bytes.len() / 2;
                bytes[20..middle].fill(0xaa);
                fs::remove_file(&pack).unwrap();
                fs::write(&pack, bytes).unwrap();
            }
        },
    ];
    for harm in harm {
        fixture.source().tree(&tip, "", &fixture.cancel).await.unwrap();
        harm(&stores(&fixture)[0]);
        let again = git(&fixture.folder, &fixture.server.origin(), Limits::default(), generous());
        let source = again.remote(Remote { url: fixture.url(), ..Remote::default() }).unwrap();
        let tree = source.tree(&tip, "", &fixture.cancel).await.unwrap();
        let ids: Vec<_> = tree.entries.iter().map(|entry| entry.id).collect();
        let contents = source.blobs(&ids, &fixture.cancel).await.unwrap();
        for (entry, content) in tree.entries.iter().zip(contents) {
            assert_eq!(content, format!("content {}", entry.path));
        }
    }
}

/// Bytes that no compressor makes smaller, the same ones for the same seed.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..bytes.div_ceil(8)).flat_map(|_| next()).take(bytes).collect()
}

/// The checksum at the end of compressed data (RFC 1950).
fn adler(content: &[u8]) -> [u8; 4] {
    let sums = content.iter().fold((1_u32, 0_u32), |(one, other), byte| {
        let one = (one + u32::from(*byte)) % 65_521;
        (one, (one + other) % 65_521)
    });
    (sums.1 << 16 | sums.0).to_be_bytes()
}

async fn read_in_pieces(fixture: &Fixture, id: ObjectId) -> Result<Vec<u8>, std::io::Error> {
    let mut blob = fixture.source().open_blob(id, &fixture.cancel).await.unwrap();
    let mut content = Vec::new();
    assert!(blob.left() > 0);
    blob.read_to_end(&mut content).map(|_| content)
}

#[tokio::test]
async fn a_large_file_is_read_in_pieces_also_one_that_came_as_a_delta() {
    let limits = Limits { blob_bytes: 1_000, pack_bytes: 6 << 20, ..Limits::default() };
    let fixture = Fixture::limited(limits).await;
    let mut content = noise(7, 3 << 20);
    let others = (0..300).map(|n| Edit::put(format!("{n}"), format!("content {n}")));
    fixture.commit(others.chain([Edit::put("large", content.clone())]));
    let large = |tree: &Tree| tree.entries.iter().find(|entry| entry.path == "large").unwrap().id;
    let first = large(&fixture.tree("").await);
    assert_eq!(read_in_pieces(&fixture, first).await.unwrap(), content);
    // The second version is sent as its difference from the first.
    content[1 << 20] ^= 1;
    fixture.commit([Edit::put("large", content.clone())]);
    let second = large(&fixture.tree("").await);
    let listed = packs(&stores(&fixture)[0]).into_iter().map(|pack| {
        let index = pack.with_extension("idx");
        fixture.git_says(&["verify-pack", "--verbose", index.to_str().unwrap()])
    });
    // Id, kind, sizes and place; of a delta its depth and what it is based on.
    let is_delta = |line: &str| line.starts_with(&second.to_string()) && line.split_whitespace().count() == 7;
    assert!(listed.into_iter().any(|listed| listed.lines().any(is_delta)), "{second} is no delta");
    assert_eq!(read_in_pieces(&fixture, second).await.unwrap(), content);
    fixture.commit([Edit::put("empty", ""), Edit::put("too large", vec![b'x'; 7 << 20])]);
    let tree = fixture.tree("").await;
    let open = async |path: &str| {
        let id = tree.entries.iter().find(|entry| entry.path == path).unwrap().id;
        fixture.source().open_blob(id, &fixture.cancel).await
    };
    assert_eq!(open("empty").await.unwrap().read_to_end(&mut Vec::new()).unwrap(), 0);
    let error = open("too large").await.err().unwrap();
    assert!(matches!(error, GitError::LimitExceeded { limit: "pack_bytes", .. }), "{error:?}");
}

#[tokio::test]
async fn few_large_files_that_came_as_deltas_are_in_memory_at_a_time() {
    let fixture = Fixture::new().await;
    let mut content = noise(7, 2 << 20);
    fixture.commit([Edit::put("large", content.clone())]);
    fixture.tree("").await;
    content[1 << 20] ^= 1;
    fixture.commit([Edit::put("large", content.clone())]);
    let id = fixture.tree("").await.entries[0].id;
    let source = fixture.source();
    let first = source.open_blob(id, &fixture.cancel).await.unwrap();
    let _second = source.open_blob(id, &fixture.cancel).await.unwrap();
    let cancel = fixture.cancel.child_token();
    let third = source.open_blob(id, &cancel);
    let mut third = std::pin::pin!(third);
    // The two hold their places for as long as they are, so that this one is not there however long it is waited for.
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut third).await.is_err());
    cancel.cancel();
    assert!(matches!(third.await, Err(GitError::Cancelled)));
    drop(first);
    let mut last = source.open_blob(id, &fixture.cancel).await.unwrap();
    let mut read = Vec::new();
    last.read_to_end(&mut read).unwrap();
    assert!(read == content);
}

#[tokio::test]
async fn damage_in_a_large_file_is_found_at_its_end_and_fetched_again() {
    let fixture = Fixture::new().await;
    // It is in the pack as it is, so that it can be made another one that unpacks.
    let content = noise(7, 3 << 20);
    fixture.commit([Edit::put("large", content.clone()), Edit::put("small", "small")]);
    let id = fixture.tree("").await.entries[0].id;
    let pack = packs(&stores(&fixture)[0]).remove(0);
    let mut bytes = fs::read(&pack).unwrap();
    let mut other = content.clone();
    other[1 << 20] ^= 1;
    let at =
        |bytes: &[u8], wanted: &[u8]| bytes.windows(wanted.len()).position(|found| found == wanted).unwrap();
    let (middle, sum) = (at(&bytes, &content[1 << 20..][..16]), at(&bytes, &adler(&content)));
    bytes[middle] ^= 1;
    bytes[sum..][..4].copy_from_slice(&adler(&other));
    fs::set_permissions(&pack, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&pack, &bytes).unwrap();
    let mut late = fixture.source().open_blob(id, &fixture.cancel).await.unwrap();
    let error = read_in_pieces(&fixture, id).await.unwrap_err();
    assert!(error.to_string().contains("is something else"), "{error}");
    assert_eq!(read_in_pieces(&fixture, id).await.unwrap(), content);
    // Who reads the old pack to its end takes nothing of the new one away.
    late.read_to_end(&mut Vec::new()).unwrap_err();
    let before = fixture.requests();
    assert_eq!(read_in_pieces(&fixture, id).await.unwrap(), content);
    assert_eq!(fixture.requests(), before);
}

#[tokio::test]
async fn a_changed_file_whose_delta_is_too_large_comes_whole() {
    let limits = Limits { delta_bytes: 1 << 20, ..Limits::default() };
    let fixture = Fixture::limited(limits).await;
    let mut content = noise(7, 3 << 20);
    fixture.commit([Edit::put("large", content.clone())]);
    fixture.tree("").await;
    content[1 << 20] ^= 1;
    fixture.commit([Edit::put("large", content.clone())]);
    let tip = fixture.tip().await;
    let before = fixture.requests();
    let tree = fixture.source().tree(&tip, "", &fixture.cancel).await.unwrap();
    assert_eq!(fixture.requests() - before, 2, "as a difference, and then whole");
    assert_eq!(read_in_pieces(&fixture, tree.entries[0].id).await.unwrap(), content);
}

#[tokio::test]
async fn a_pack_with_a_file_that_is_too_large_to_be_packed_again_stays() {
    const SIZE: usize = 130 << 20;
    let fixture = Fixture::new().await;
    fixture.commit([Edit::put("large", vec![0; SIZE])]);
    let large = fixture.tree("").await.entries[0].id;
    let store = stores(&fixture).remove(0);
    let first = packs(&store).remove(0);
    let inode = || fs::metadata(&first).unwrap().ino();
    let before = inode();
    let started = std::time::Instant::now();
    let mut most = 0;
    for n in 0.. {
        fixture.commit([Edit::put("small", format!("content {n}"))]);
        assert_eq!(paths(&fixture.tree("").await), ["large", "small"]);
        let count = packs(&store).len();
        if most > 32 && count < 5 {
            break;
        }
        most = most.max(count);
        assert!(started.elapsed() < Duration::from_mins(2), "{most} packs");
    }
    assert_eq!(inode(), before);
    assert!(read_in_pieces(&fixture, large).await.unwrap() == vec![0; SIZE]);
}

#[tokio::test]
async fn many_packs_become_one_that_holds_what_is_needed() {
    let fixture = Fixture::new().await;
    let job = fixture.source();
    fixture.commit([Edit::put("first", "first")]);
    let listed = job.tree(&fixture.tip().await, "", &fixture.cancel).await.unwrap();
    for n in 0..40 {
        fixture.commit([Edit::put(format!("{n}"), format!("content {n}"))]);
        fixture.tree("").await;
    }
    let started = std::time::Instant::now();
    while packs(&stores(&fixture)[0]).len() > 32 {
        assert!(started.elapsed() < Duration::from_mins(1), "{:?}", packs(&stores(&fixture)[0]));
        tokio::task::yield_now().await;
    }
    let tree = fixture.tree("").await;
    let ids: Vec<_> = tree.entries.iter().map(|entry| entry.id).collect();
    let before = fixture.requests();
    assert_eq!(fixture.source().blobs(&ids, &fixture.cancel).await.unwrap().len(), 41);
    assert_eq!(fixture.requests(), before);
    // Whoever still works on what was dropped gets it back.
    assert_eq!(job.blob(listed.entries[0].id, &fixture.cancel).await.unwrap(), "first");
    assert_eq!(fixture.requests(), before + 1);
}

#[tokio::test]
async fn credentials_do_not_share_a_cache() {
    let fixture = Fixture::new().await;
    let tip = fixture.commit([Edit::put("a", "1")]);
    fixture.tree("").await;
    let credentials = windlass_git::Credentials::Basic { user: "u".into(), token: "t".to_owned().into() };
    let other = fixture
        .git
        .remote(Remote { url: fixture.url(), credentials: Some(credentials), ..Remote::default() })
        .unwrap();
    other.tree(&tip, "", &fixture.cancel).await.unwrap();
    let stores = stores(&fixture);
    assert_eq!(stores.len(), 2);
    // One spelling more of the same URL is the same cache.
    let url = fixture.url().replace("http://", "HTTP://") + "/";
    fixture
        .git
        .remote(Remote { url, ..Remote::default() })
        .unwrap()
        .tree(&tip, "", &fixture.cancel)
        .await
        .unwrap();
    assert_eq!(self::stores(&fixture).len(), 2);
}

#[tokio::test]
async fn a_cache_that_nobody_used_for_long_is_removed_when_another_is_made() {
    let fixture = Fixture::new().await;
    let cache = fixture.folder.path().join("cache");
    for (name, days) in [("old", 3), ("recent", 0)] {
        fs::create_dir(cache.join(format!("{name}.git"))).unwrap();
        let lock = fs::File::create(cache.join(format!("{name}.lock"))).unwrap();
        lock.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400)).unwrap();
    }
    fixture.commit([Edit::put("a", "1")]);
    fixture.tree("").await;
    assert!(!cache.join("old.git").exists());
    assert!(cache.join("recent.git").exists());
}

fn opened(fixture: &Fixture, token: &str, identity: &str) -> Arc<RemoteRepository> {
    let token = SecretString::from(token.to_owned());
    let credentials = Some(Credentials::Basic { user: String::new(), token });
    let cache_identity = Some(identity.to_owned());
    let remote = Remote { url: fixture.url(), credentials, cache_identity, ..Remote::default() };
    fixture.git.remote(remote).unwrap()
}

#[tokio::test]
async fn a_rotated_token_of_one_identity_fetches_nothing_again_and_a_wrong_one_reads_nothing() {
    let protect = |backend: HttpBackend| backend.basic_auth("git", SecretString::from("first-token"));
    let fixture = Fixture::with(Limits::default(), protect).await;
    let tip = fixture.commit([Edit::put("a", "1")]);
    let cancel = &fixture.cancel;
    let first = opened(&fixture, "first-token", "secret-7");
    assert_eq!(first.resolve("main", cancel).await.unwrap(), tip);
    let listed = first.tree(&tip, "", cancel).await.unwrap();

    fixture.server.rotate_token(SecretString::from("second-token"));
    let second = opened(&fixture, "second-token", "secret-7");
    let before = fixture.requests();
    assert_eq!(second.resolve("main", cancel).await.unwrap(), tip);
    assert_eq!(second.tree(&tip, "", cancel).await.unwrap(), listed);
    assert_eq!(second.blob(listed.entries[0].id, cancel).await.unwrap(), "1");
    assert_eq!(fixture.requests() - before, 1);
    assert_eq!(stores(&fixture).len(), 1);

    let wrong = opened(&fixture, "wrong-token", "secret-7");
    let query = HistoryQuery { new: tip.clone(), known: vec![], max: 10 };
    second.history(&query, cancel).await.unwrap();
    let who = Signature { name: "A".to_owned(), email: "a@b".to_owned(), seconds: 1 };
    let meta = CommitMeta { author: who.clone(), committer: who, message: "x".to_owned(), signing_key: None };
    let changes = [TreeChange::Delete { path: "a".to_owned() }];
    for error in [
        wrong.tree(&tip, "", cancel).await.unwrap_err(),
        wrong.diff(&tip, &tip, "", cancel).await.unwrap_err(),
        wrong.blob(listed.entries[0].id, cancel).await.unwrap_err(),
        wrong.history(&query, cancel).await.unwrap_err(),
        wrong.commit(Some(&tip), &changes, &meta, cancel).await.unwrap_err(),
    ] {
        assert!(matches!(error, GitError::Unauthorized { sent: true, .. }), "{error:?}");
    }

    // Nobody has to be asked twice, and another identity has another cache.
    let before = fixture.requests();
    second.tree(&tip, "", cancel).await.unwrap();
    assert_eq!(fixture.requests(), before);
    opened(&fixture, "second-token", "secret-8").tree(&tip, "", cancel).await.unwrap();
    assert_eq!(stores(&fixture).len(), 2);
}

/// What somebody else might open, with its mode.
fn open_to_others(path: &Path) -> Vec<(PathBuf, u32)> {
    let metadata = fs::symlink_metadata(path).unwrap();
    let mode = metadata.permissions().mode() & 0o7777;
    let mut found = Vec::new();
    if mode & 0o077 != 0 {
        found.push((path.to_owned(), mode));
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            found.extend(open_to_others(&entry.unwrap().path()));
        }
    }
    found
}

fn widen(path: &Path) {
    let is_dir = path.is_dir();
    fs::set_permissions(path, fs::Permissions::from_mode(if is_dir { 0o755 } else { 0o644 })).unwrap();
    if is_dir {
        for entry in fs::read_dir(path).unwrap() {
            widen(&entry.unwrap().path());
        }
    }
}

#[tokio::test]
async fn a_cache_is_its_users_alone_also_one_that_was_not() {
    let fixture = Fixture::new().await;
    let cache = fixture.folder.path().join("cache");
    let first = fixture.commit([Edit::put("a", "1")]);
    fixture.tree("").await;
    for n in 0..40 {
        fixture.commit([Edit::put("a", format!("{n}"))]);
        fixture.tree("").await;
    }
    let started = std::time::Instant::now();
    while packs(&stores(&fixture)[0]).len() > 32 {
        assert!(started.elapsed() < Duration::from_mins(1), "{:?}", packs(&stores(&fixture)[0]));
        tokio::task::yield_now().await;
    }
    let who = Signature { name: "A".to_owned(), email: "a@b".to_owned(), seconds: 1 };
    let meta = CommitMeta { author: who.clone(), committer: who, message: "x".to_owned(), signing_key: None };
    let change = TreeChange::Put { path: "b".to_owned(), content: "b".into(), executable: false };
    fixture.source().commit(Some(&first), &[change], &meta, &fixture.cancel).await.unwrap();
    assert_eq!(open_to_others(&cache), []);

    widen(&cache);
    let again = git(&fixture.folder, &fixture.server.origin(), Limits::default(), generous());
    let source = again.remote(Remote { url: fixture.url(), ..Remote::default() }).unwrap();
    source.tree(&first, "", &fixture.cancel).await.unwrap();
    assert_eq!(open_to_others(&cache), []);
}
