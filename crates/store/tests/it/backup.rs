use std::path::Path;

use windlass_store::{
    BackupError, Copied, OpenError, Page, StoreError, StoreOptions, backup_file, check_copy, compact_file,
    open_file, restore,
};

use super::{everything, key, of_namespace, put, write};

fn opened(path: &Path) -> std::sync::Arc<dyn windlass_store::Store> {
    open_file(path, &StoreOptions::default()).unwrap()
}

/// How many copies of a store that is written to are made stores again.
const RESTORED: usize = 10;

#[tokio::test]
async fn a_copy_is_one_state_whatever_is_written_meanwhile_and_becomes_a_store_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("store"), folder.path().join("other"));
    let store = opened(&path);
    for index in 0..200 {
        // Two objects that always say the same.
        let value = format!("{index} {}", "x".repeat(index * 7));
        let writes = vec![put(key("a", "left"), value.clone()), put(key("b", "right"), value)];
        store.commit(writes).await.unwrap();
    }
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for index in 0..300 {
                let value = format!("again {index}");
                let writes = vec![put(key("a", "left"), value.clone()), put(key("b", "right"), value)];
                store.commit(writes).await.unwrap();
            }
        })
    };
    let mut copies = Vec::new();
    while !writer.is_finished() {
        let copying = store.clone();
        let copy = tokio::task::spawn_blocking(move || {
            let mut copy = Vec::new();
            (copying.backup(&mut copy).unwrap(), copy)
        });
        copies.push(copy.await.unwrap());
    }
    writer.await.unwrap();
    assert!(!copies.is_empty());
    for (copied, copy) in &copies {
        assert_eq!(check_copy(&mut &copy[..]).unwrap(), *copied);
        assert_eq!((copied.objects, copied.damaged), (2, 0));
    }
    // As many copies were made as the writer left time for; each that is restored waits for the disk.
    let every = copies.len().div_ceil(RESTORED);
    for (copied, copy) in copies.into_iter().step_by(every) {
        let _ = std::fs::remove_file(&other);
        assert_eq!(restore(&mut &copy[..], &other).unwrap(), copied);
        let restored = opened(&other);
        let page = restored.list(&everything(), Page { limit: 1, ..Page::default() }).await.unwrap();
        assert_eq!((page.objects.len(), page.remaining), (1, Some(1)), "the counts are there too");
        let both = restored.list(&everything(), Page::default()).await.unwrap().objects;
        assert_eq!(both[0].value, both[1].value);
        assert_eq!(both[0].revision + 1, both[1].revision);
        // No revision that a client may have seen after the copy was made comes again.
        assert!(restored.revision() > store.revision());
        let expired = restored.watch(&everything(), store.revision()).map(drop).unwrap_err();
        assert!(matches!(expired, StoreError::Expired { .. }), "{expired:?}");
        assert_eq!(write(&restored, put(key("a", "new"), "1")).await, restored.revision());
    }
}

#[tokio::test]
async fn a_copy_that_is_cut_off_or_damaged_becomes_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("store"), folder.path().join("other"));
    let store = opened(&path);
    for index in 0..20 {
        write(&store, put(key("a", &index.to_string()), "y".repeat(index * 20))).await;
    }
    let mut copy = Vec::new();
    store.backup(&mut copy).unwrap();
    drop(store);
    for length in (0..copy.len()).step_by(97) {
        let failed = restore(&mut &copy[..length], &other).unwrap_err();
        assert!(matches!(failed, BackupError::NotWhole(_)), "{length}: {failed:?}");
    }
    for at in (0..copy.len()).step_by(31) {
        let mut damaged = copy.clone();
        damaged[at] ^= 4;
        restore(&mut &damaged[..], &other).unwrap_err();
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, std::slice::from_ref(&path), "nothing is left of them");
    let exists = restore(&mut &copy[..], &path).unwrap_err();
    assert!(matches!(exists, BackupError::Exists { .. }), "{exists:?}");
}

#[tokio::test]
async fn a_file_is_copied_and_compacted_while_nobody_has_it_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = opened(&path);
    let noise = |index: usize| {
        (0..20_000).map(|at| u8::try_from((at * 7 + index) * 31 % 251).unwrap()).collect::<Vec<_>>()
    };
    for index in 0..100 {
        write(&store, put(key("a", &index.to_string()), noise(index))).await;
    }
    for index in 1..100 {
        let object = store.get(&key("a", &index.to_string())).await.unwrap().unwrap();
        store.commit(vec![windlass_store::Write::delete(object.key, object.revision)]).await.unwrap();
    }
    let locked = backup_file(&path, &mut Vec::new()).unwrap_err();
    assert!(matches!(locked, BackupError::Open(OpenError::Locked { .. })), "{locked:?}");
    assert!(matches!(compact_file(&path).unwrap_err(), OpenError::Locked { .. }));
    let revision = store.revision();
    drop(store);
    let mut copy = Vec::new();
    let copied = backup_file(&path, &mut copy).unwrap();
    assert_eq!(copied, Copied { objects: 1, revision, damaged: 0 });
    let compacted = compact_file(&path).unwrap();
    assert!(compacted.after < compacted.before / 2, "{compacted:?}");
    let store = opened(&path);
    assert_eq!(store.revision(), revision);
    let left = store.list(&of_namespace("a"), Page::default()).await.unwrap().objects;
    assert_eq!((left.len(), &left[0].value[..]), (1, &noise(0)[..]));
}

#[tokio::test]
async fn what_is_damaged_is_left_out_of_a_copy_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = opened(&path);
    for name in ["whole", "wrecked"] {
        write(&store, put(key("a", name), format!("value of {name}"))).await;
    }
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    let sought = b"value of wrecked";
    let found: Vec<usize> =
        (0..bytes.len() - sought.len()).filter(|at| bytes[*at..].starts_with(sought)).collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at] ^= 1;
    }
    std::fs::write(&path, bytes).unwrap();
    let mut copy = Vec::new();
    let copied = backup_file(&path, &mut copy).unwrap();
    assert_eq!((copied.objects, copied.damaged), (1, 1));
    assert_eq!(check_copy(&mut &copy[..]).unwrap(), copied);
}

#[test]
fn a_file_of_zero_bytes_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    std::fs::write(&path, "").unwrap();
    for error in [
        open_file(&path, &StoreOptions::default()).map(drop).unwrap_err(),
        windlass_store::check_file(&path).unwrap_err(),
        compact_file(&path).unwrap_err(),
    ] {
        assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains("0 bytes"), "{error}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}
