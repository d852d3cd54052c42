//! How a store's file is made, opened, closed and refused.

use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngCore as _, SeedableRng as _};
use windlass_store::{EventKind, OpenError, Page, StoreError, StoreOptions, Write, open_file};

use super::{everything, key, of_namespace, put, write};

#[tokio::test]
async fn a_store_that_was_closed_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not/there/yet/store");
    let store = open_file(&path, &StoreOptions::default()).unwrap();
    let first = write(&store, put(key("a", "one"), "1")).await;
    let last = write(&store, put(key("a", "two"), "2")).await;
    drop(store);

    let store = open_file(&path, &StoreOptions::default()).unwrap();
    assert_eq!(store.revision(), last);
    assert_eq!(store.get(&key("a", "one")).await.unwrap().unwrap().revision, first);
    assert!(
        matches!(store.watch(&everything(), first), Err(StoreError::Expired { .. })),
        "the log was in memory"
    );
    let mut watch = store.watch(&everything(), last).unwrap();
    assert_eq!(write(&store, put(key("a", "two"), "3")).await, last + 1);
    let event = watch.next().await.unwrap();
    assert_eq!((event.kind, event.revision), (EventKind::Modified, last + 1));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_file_that_is_mostly_free_is_compacted_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open_file(&path, &StoreOptions::default()).unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let incompressible = |random: &mut StdRng| {
        let mut value = vec![0; 1 << 16];
        random.fill_bytes(&mut value);
        value
    };
    // What stays lies all over the file, so that the end of it cannot just be cut off.
    for index in 0..50 {
        let mut writes: Vec<_> =
            (0..16).map(|n| put(key("a", &format!("{index}-{n}")), incompressible(&mut random))).collect();
        writes.push(put(key("kept", &index.to_string()), "kept"));
        store.commit(writes).await.unwrap();
    }
    let kept = store.list(&of_namespace("kept"), Page::default()).await.unwrap().objects;
    let bulk = store.list(&of_namespace("a"), Page::default()).await.unwrap().objects;
    let (last, rest) = bulk.split_last().unwrap();
    store
        .commit(rest.iter().map(|object| Write::delete(object.key.clone(), object.revision)).collect())
        .await
        .unwrap();
    let revision = store.revision();
    drop(store);
    let before = std::fs::metadata(&path).unwrap().len();
    let store = open_file(&path, &StoreOptions::default()).unwrap();
    let after = std::fs::metadata(&path).unwrap().len();
    assert!(before > 8 << 20 && after < before / 4, "{before} bytes became {after}");
    assert_eq!(store.revision(), revision);
    assert_eq!(
        store.list(&of_namespace("a"), Page::default()).await.unwrap().objects,
        std::slice::from_ref(last)
    );
    assert_eq!(store.list(&of_namespace("kept"), Page::default()).await.unwrap().objects, kept);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_large_for_its_holes_alone_is_not_compacted_and_a_sparse_one_is() {
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open_file(&path, &StoreOptions::default()).unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let mut value = vec![0; 1 << 20];
    // The first ones go: what comes after them would be moved to their place.
    for index in 0..8 {
        random.fill_bytes(&mut value);
        write(&store, put(key("a", &index.to_string()), value.clone())).await;
    }
    for object in store.list(&everything(), Page::default()).await.unwrap().objects.iter().take(3) {
        write(&store, Write::delete(object.key.clone(), object.revision)).await;
    }
    drop(store);
    let (bytes, mut dense) = (std::fs::read(&path).unwrap(), vec![0; 64 << 20]);
    let place = |bytes: &[u8]| bytes.windows(64).rposition(|window| window == &value[..64]);
    let before = place(&bytes);
    assert!(before.is_some());
    // Grown, as a file is before something is written there.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let taken = || std::fs::metadata(&path).unwrap().blocks() * 512;
    assert!(taken() < 20 << 20, "{} bytes are taken: the file system knows no holes", taken());
    std::fs::File::open(&path).unwrap().read_exact(&mut dense).unwrap();
    drop(open_file(&path, &StoreOptions::default()).unwrap());
    assert_eq!(place(&std::fs::read(&path).unwrap()), before, "it is left alone");

    // The same without holes.
    std::fs::write(&path, &dense).unwrap();
    assert!(taken() >= 64 << 20, "{} bytes are taken", taken());
    let store = open_file(&path, &StoreOptions::default()).unwrap();
    assert!(taken() < 20 << 20, "{} bytes are taken", taken());
    assert_eq!(store.get(&key("a", "7")).await.unwrap().unwrap().value, value);
    drop(store);
    assert_ne!(place(&std::fs::read(&path).unwrap()), before, "it is moved");
}

/// The message of an error that opening must give.
fn refused(path: &Path) -> String {
    match open_file(path, &StoreOptions::default()) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains(&path.display().to_string()), "the message names the file: {message}");
            message
        }
    }
}

#[tokio::test]
async fn a_store_that_is_open_is_not_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open_file(&path, &StoreOptions::default()).unwrap();
    assert!(refused(&path).contains("another process has it open"));
    write(&store, put(key("a", "one"), "1")).await;
    drop(store);
    open_file(&path, &StoreOptions::default()).unwrap();
}

/// Makes a store and puts this format version into its record.
fn store_of_format(path: &Path, format: u64) {
    drop(open_file(path, &StoreOptions::default()).unwrap());
    let database = redb::Database::open(path).unwrap();
    let writing = database.begin_write().unwrap();
    writing
        .open_table(redb::TableDefinition::<&str, u64>::new("meta"))
        .unwrap()
        .insert("format", format)
        .unwrap();
    writing.commit().unwrap();
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    store_of_format(&path, 99);
    assert!(matches!(open_file(&path, &StoreOptions::default()), Err(OpenError::Format { found: 99, .. })));
    assert!(refused(&path).contains("format version is 99"));
}

/// Format 1 held values without their form: read as they are now, they would be other values.
#[tokio::test]
async fn an_older_format_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    store_of_format(&path, 1);
    assert!(matches!(
        open_file(&path, &StoreOptions::default()),
        Err(OpenError::Format { found: 1, known: 4, .. })
    ));
    let message = refused(&path);
    assert!(message.contains("format version is 1, this program knows only 4"), "{message}");
    assert!(message.contains("start with a new data folder"), "{message}");
    let database = redb::Database::open(&path).unwrap();
    let meta = redb::ReadableDatabase::begin_read(&database)
        .unwrap()
        .open_table(redb::TableDefinition::<&str, u64>::new("meta"))
        .unwrap();
    assert_eq!(meta.get("format").unwrap().unwrap().value(), 1);
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage");
    std::fs::write(&garbage, "this is not a database").unwrap();
    let foreign = folder.path().join("foreign");
    let database = redb::Database::create(&foreign).unwrap();
    let writing = database.begin_write().unwrap();
    writing.open_table(redb::TableDefinition::<&str, u64>::new("other")).unwrap().insert("a", 1).unwrap();
    writing.commit().unwrap();
    drop(database);
    let truncated = folder.path().join("truncated");
    let store = open_file(&truncated, &StoreOptions::default()).unwrap();
    write(&store, put(key("a", "one"), vec![b'x'; 100_000])).await;
    drop(store);
    std::fs::File::options().write(true).open(&truncated).unwrap().set_len(50_000).unwrap();

    for path in [&garbage, &foreign, &truncated] {
        let before = std::fs::metadata(path).unwrap().len();
        let message = refused(path);
        assert!(message.contains("damaged"), "{message}");
        assert_eq!(std::fs::metadata(path).unwrap().len(), before, "{}", path.display());
    }
}

#[tokio::test]
async fn a_half_made_store_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // A process that died while it made the store leaves this, and nothing under the store's own name.
    std::fs::write(folder.path().join("store.new"), vec![0; 10_000]).unwrap();
    let store = open_file(&path, &StoreOptions::default()).unwrap();
    write(&store, put(key("a", "one"), "1")).await;
    drop(store);
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["store"]);
}

#[tokio::test]
async fn a_store_of_before_checksums_is_read_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open_file(&path, &StoreOptions::default()).unwrap();
    write(&store, put(key("a", "b"), "value")).await;
    drop(store);
    let database = redb::Database::open(&path).unwrap();
    let writing = database.begin_write().unwrap();
    {
        let meta = redb::TableDefinition::<&str, u64>::new("meta");
        writing.open_table(meta).unwrap().insert("format", 2).unwrap();
    }
    writing.commit().unwrap();
    drop(database);
    for _ in 0..2 {
        let store = open_file(&path, &StoreOptions::default()).unwrap();
        assert_eq!(store.get(&key("a", "b")).await.unwrap().unwrap().value, "value");
    }
}
