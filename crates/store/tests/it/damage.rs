//! Damage of a store's file: whatever bit is another, nothing is lost or changed in silence.

use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use windlass_store::{
    Object, OpenError, Page, StoreOptions, Stored, backup_file, check_file, open_file, read_object,
};

use super::{everything, key, put};

/// How many bits are flipped, each in a file of its own.
const FLIPS: u64 = 200;

/// Everything that is stored, as a list tells it and object by object; `None`: it was told that something is wrong.
async fn read(path: &Path, known: &[Object]) -> Option<(Vec<Object>, Vec<Object>)> {
    let store = open_file(path, &StoreOptions::default()).ok()?;
    let listed = store.list(&everything(), Page::default()).await.ok()?.objects;
    let mut found = Vec::new();
    for object in known {
        found.extend(store.get(&object.key).await.ok()?);
    }
    Some((listed, found))
}

#[tokio::test]
async fn no_flipped_bit_loses_or_changes_an_object_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open_file(&path, &StoreOptions::default()).unwrap();
    let mut random = StdRng::seed_from_u64(1);
    for batch in 0..20 {
        let writes = (0..50).map(|number| {
            let mut value = vec![0; if number % 10 == 0 { 6_000 } else { 150 }];
            random.fill_bytes(&mut value);
            put(key(if batch % 2 == 0 { "a" } else { "b" }, &format!("{batch}-{number}")), value)
        });
        store.commit(writes.collect()).await.unwrap();
    }
    let known = store.list(&everything(), Page::default()).await.unwrap().objects;
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let mut told = 0;
    for flip in 0..FLIPS {
        let mut random = StdRng::seed_from_u64(flip);
        let (at, bit) = (random.random_range(0..whole.len()), random.random_range(0..8_u32));
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(copied) = backup_file(&path, &mut std::io::sink()) {
            let is_whole = copied.objects >= known.len() as u64;
            assert!(is_whole || copied.damaged > 0, "bit {bit} of byte {at}: {copied:?}");
        }
        let Some((listed, found)) = read(&path, &known).await else {
            told += 1;
            continue;
        };
        assert!(listed == known, "bit {bit} of byte {at}: {} objects are listed", listed.len());
        // An object that is looked for in the wrong place is told of by who looks at the whole.
        let is_told = || check_file(&path).map_or(true, |checked| !checked.damaged.is_empty());
        assert!(found == known || is_told(), "bit {bit} of byte {at}: {} are found", found.len());
    }
    assert!(told > FLIPS / 2, "{told} of {FLIPS}");
}

#[tokio::test]
async fn an_object_is_read_out_of_a_file_also_when_it_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open_file(&path, &StoreOptions::default()).unwrap();
    for (name, value) in [("whole", "of the one"), ("wrecked", "of the other")] {
        store.commit(vec![put(key("a", name), value)]).await.unwrap();
    }
    assert!(matches!(read_object(&path, &key("a", "whole")), Err(OpenError::Locked { .. })));
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    let value = b"of the other";
    let found: Vec<usize> =
        (0..bytes.len() - value.len()).filter(|&at| bytes[at..].starts_with(value)).collect();
    for at in found {
        bytes[at] = b'O';
    }
    std::fs::write(&path, &bytes).unwrap();

    let read = |name: &str| read_object(&path, &key("a", name)).unwrap();
    assert_eq!(read("whole"), Some(Stored::Whole("of the one".into())));
    assert_eq!(read("wrecked"), Some(Stored::Damaged("Of the other".into())));
    assert_eq!(read("none"), None);
}

#[tokio::test]
async fn a_write_that_meets_a_key_that_is_none_closes_nothing_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open_file(&path, &StoreOptions::default()).unwrap();
    for number in 0..200 {
        store.commit(vec![put(key("a", &format!("near-{number:03}")), vec![b'x'; 100])]).await.unwrap();
    }
    store.commit(vec![put(key("z", "far"), vec![b'y'; 5_000])]).await.unwrap();
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    let name = b"near-100";
    let found: Vec<usize> =
        (0..bytes.len() - name.len()).filter(|&at| bytes[at..].starts_with(name)).collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at..at + name.len()].fill(0xff);
    }
    std::fs::write(&path, &bytes).unwrap();
    for round in 0..3 {
        let store = open_file(&path, &StoreOptions::default()).unwrap();
        // The second one is in the write-ahead log alone.
        for edition in 0..2 {
            store.commit(vec![put(key("z", "far"), vec![b'y'; 5_000 + edition])]).await.unwrap();
        }
        // Whatever meets it fails, and is told.
        let written = store.commit(vec![put(key("a", "near-100"), format!("{round}"))]).await;
        assert!(written.is_err() && store.problem().is_some(), "{written:?}");
        let far = store.get(&key("z", "far")).await.unwrap().unwrap();
        assert_eq!(far.value.len(), 5_001, "in round {round}");
    }
    assert!(!check_file(&path).unwrap().damaged.is_empty());
}
