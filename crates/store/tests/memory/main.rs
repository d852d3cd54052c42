//! What stored objects cost in memory. The heap is the process's, so that this is a program of its own.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use windlass_counted_heap::CountedHeap;
use windlass_store::{Key, Page, Range, StoreOptions, Write, open_file};

#[global_allocator]
static HEAP: CountedHeap = CountedHeap::new();

const OBJECTS: usize = 20_000;
/// Commits of so many objects each, so that the test does not wait for the disk.
const AT_ONCE: usize = 500;
const BYTES: usize = 2_000;
/// What the store has beside its cache and its log of events: the rooms of maps and queues.
const REST: usize = 4 << 20;

#[tokio::test(start_paused = true)]
async fn objects_that_nobody_reads_cost_no_memory_beyond_the_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions::default();
    let before = HEAP.in_use();
    let store = open_file(&folder.path().join("store"), &options).unwrap();
    let range = Range::new("example.com", "things", None).unwrap();
    let mut watch = store.watch(&range, store.revision()).unwrap();
    let mut told = 0;
    for first in (0..OBJECTS).step_by(AT_ONCE) {
        let key = |number| Key::new("example.com", "things", "a", &format!("{number:05}")).unwrap();
        let writes = (first..first + AT_ONCE).map(|number| Write::create(key(number), vec![b'x'; BYTES]));
        store.commit(writes.collect()).await.unwrap();
        while let Some(event) = watch.try_next().unwrap() {
            event.encoded.get_or_make(|| event.object.value.to_vec().into());
            told += 1;
        }
    }
    assert_eq!(told, OBJECTS);
    let found = store.list(&range, Page::default()).await.unwrap();
    assert_eq!(found.objects.len(), OBJECTS);
    drop(found);
    // Nothing is written any more; those that watch look on now and then.
    tokio::time::advance(options.log_grace + Duration::from_secs(1)).await;
    watch.position().unwrap();
    let held = HEAP.in_use() - before;
    let most = options.cache_bytes + options.log_bytes + REST;
    assert!(held <= most, "{held} bytes, {most} at most");
}
