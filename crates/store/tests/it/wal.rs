//! The write-ahead log of a store: what a process leaves that ends without notice, and what is refused.
//!
//! Copies of the files of an open store are what is found after it was killed. Loss of power is in `crash_tests.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use windlass_store::{
    BackupError, Object, Page, Store, StoreOptions, Stored, Write, backup_file, check_file, open_file,
    read_object, restore,
};

use super::{everything, key, put, write};

/// A folder with what a store would leave if it were killed now.
fn killed(path: &Path) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("store");
    fs::copy(path, &copy).unwrap();
    if log_of(path).exists() {
        fs::copy(log_of(path), log_of(&copy)).unwrap();
    }
    (folder, copy)
}

fn log_of(path: &Path) -> PathBuf {
    path.with_added_extension("wal")
}

fn open(path: &Path) -> Arc<dyn Store> {
    open_file(path, &StoreOptions::default()).unwrap()
}

async fn state(store: &Arc<dyn Store>) -> (u64, Vec<Object>) {
    (store.revision(), store.list(&everything(), Page::default()).await.unwrap().objects)
}

/// Why the store in this file is not opened.
fn refused(path: &Path) -> String {
    open_file(path, &StoreOptions::default()).err().expect("it is refused").to_string()
}

#[tokio::test]
async fn a_store_that_is_killed_at_any_moment_has_all_that_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut store = open(&path);
    let mut random = StdRng::seed_from_u64(1);
    for number in 0..80_usize {
        let name = |random: &mut StdRng| format!("{}", random.random_range(0..40));
        let mut value = vec![0; *[0, 10, 300, 20_000, 200_000, 3_000_000].get(number % 23).unwrap_or(&50)];
        random.fill_bytes(&mut value);
        let mut writes =
            vec![put(key("a", &name(&mut random)), value), put(key("b", &name(&mut random)), "b")];
        if let Some(object) = state(&store).await.1.first().filter(|_| number % 5 == 0) {
            writes = vec![Write::delete(object.key.clone(), object.revision)];
        }
        store.commit(writes).await.unwrap();
        let answered = state(&store).await;
        let (_folder, copy) = killed(&path);
        if number % 4 == 0 {
            // Whoever looks at it first changes nothing of that.
            assert_eq!(check_file(&copy).unwrap().objects, answered.1.len());
        }
        let found = open(&copy);
        assert_eq!(state(&found).await, answered, "after commit {number}");
        write(&found, put(key("b", "on"), "it goes on")).await;
        let on = state(&found).await;
        let (_folder, copy) = killed(&copy);
        assert_eq!(state(&open(&copy)).await, on, "after commit {number}, killed twice");
        if number % 40 == 39 {
            drop(store);
            assert!(!log_of(&path).exists(), "what was closed is whole without it");
            store = open(&path);
            assert_eq!(state(&store).await, answered);
        }
    }
}

#[tokio::test]
async fn tools_see_what_is_in_the_log_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path);
    for name in ["one", "two", "three"] {
        write(&store, put(key("a", name), name)).await;
    }
    let (_folder, copy) = killed(&path);
    assert_eq!(read_object(&copy, &key("a", "three")).unwrap(), Some(Stored::Whole("three".into())));
    let (_folder, copy) = killed(&path);
    let mut written = Vec::new();
    assert_eq!(backup_file(&copy, &mut written).unwrap().objects, 3);
    // A log is of the store that was moved away: neither a copy nor an empty store takes its place.
    fs::remove_file(&copy).unwrap();
    let error = restore(&mut &written[..], &copy).unwrap_err();
    assert!(matches!(&error, BackupError::Exists { path } if *path == log_of(&copy)), "{error}");
    assert!(refused(&copy).contains("it is gone, and its write-ahead log is there"));
}

#[tokio::test]
async fn a_log_that_is_missing_or_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path);
    write(&store, put(key("a", "first"), "1")).await;
    let (_old_folder, old) = killed(&path);
    // Beyond a checkpoint.
    for number in 0..100 {
        write(&store, put(key("a", &number.to_string()), "x")).await;
    }

    let (_folder, copy) = killed(&path);
    fs::remove_file(log_of(&copy)).unwrap();
    let message = refused(&copy);
    assert!(
        message.contains("its write-ahead log, which has the last commits, is not beside it"),
        "{message}"
    );
    let checked = check_file(&copy).unwrap();
    assert!(checked.objects < 101 && checked.damaged[0].contains("write-ahead log"), "{checked:?}");

    fs::copy(log_of(&path), log_of(&old)).unwrap();
    assert!(refused(&old).contains("older than its write-ahead log"));

    let other = folder.path().join("other");
    let other_store = open(&other);
    write(&other_store, put(key("a", "first"), "1")).await;
    let (_folder, copy) = killed(&path);
    fs::copy(log_of(&other), log_of(&copy)).unwrap();
    assert!(refused(&copy).contains("that of another store"));
}

#[tokio::test]
async fn no_flipped_bit_of_a_log_loses_a_commit_before_the_last_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path);
    let mut states = Vec::new();
    let mut random = StdRng::seed_from_u64(1);
    for number in 0..12_usize {
        let mut value = vec![0; 3_500 + number * 40];
        random.fill_bytes(&mut value);
        write(&store, put(key("a", &number.to_string()), value)).await;
        states.push(state(&store).await);
    }
    let whole = fs::read(log_of(&path)).unwrap();
    let used = whole.iter().rposition(|&byte| byte != 0).unwrap();
    let (mut told, mut torn) = (0, 0);
    for flip in 0..200 {
        let mut random = StdRng::seed_from_u64(flip);
        let at = random.random_range(0..=used);
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << random.random_range(0..8_u32);
        let (_folder, copy) = killed(&path);
        fs::write(log_of(&copy), &bytes).unwrap();
        match open_file(&copy, &StoreOptions::default()) {
            Err(_) => told += 1,
            Ok(store) => {
                let found = state(&store).await;
                // The last record, as if it had never been answered, or what lies between two.
                torn += u32::from(found == states[states.len() - 2]);
                assert!(states[states.len() - 2..].contains(&found), "byte {at}: {:?}", found.0);
            }
        }
    }
    assert!(told > 100 && torn > 5, "{told} told, {torn} torn");
}
