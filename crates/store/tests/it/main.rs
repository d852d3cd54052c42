//! The store's contract, held for both of its implementations through the public interface.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod backup;
mod damage;
mod files;
mod index;
mod kill;
mod model;
mod wal;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tempfile::TempDir;
use windlass_store::{
    EventKind, Filter, Key, ListPage, Op, Page, Precondition, Range, Store, StoreError, StoreOptions,
    WatchStream, Write, in_memory, open_file,
};

/// A store, with the folder that it needs.
struct Subject {
    name: &'static str,
    store: Arc<dyn Store>,
    _folder: TempDir,
}

fn subjects(options: &StoreOptions) -> Vec<Subject> {
    let folder = || tempfile::tempdir().unwrap();
    let (file, memory) = (folder(), folder());
    vec![
        Subject {
            name: "file",
            store: open_file(&file.path().join("store"), options).unwrap(),
            _folder: file,
        },
        Subject { name: "memory", store: in_memory(options).unwrap(), _folder: memory },
    ]
}

fn default_subjects() -> Vec<Subject> {
    subjects(&StoreOptions::default())
}

fn key(namespace: &str, name: &str) -> Key {
    Key::new("example.com", "things", namespace, name).unwrap()
}

fn everything() -> Range {
    Range::new("example.com", "things", None).unwrap()
}

fn of_namespace(namespace: &str) -> Range {
    Range::new("example.com", "things", Some(namespace)).unwrap()
}

fn put(key: Key, value: impl Into<bytes::Bytes>) -> Write {
    Write { key, expect: Precondition::Any, op: Op::Put(value.into()) }
}

async fn write(store: &Arc<dyn Store>, write: Write) -> u64 {
    store.commit(vec![write]).await.unwrap().revision
}

fn names(page: &ListPage) -> Vec<&str> {
    page.objects.iter().map(|object| object.key.name()).collect()
}

/// The kinds and names of the events that are there now.
fn ready(watch: &mut WatchStream) -> Vec<(EventKind, String)> {
    let mut events = Vec::new();
    while let Some(event) = watch.try_next().unwrap() {
        events.push((event.kind, event.object.key.name().to_owned()));
    }
    events
}

#[tokio::test]
async fn a_commit_is_seen_by_every_reader_once_it_is_answered() {
    for Subject { name, store, .. } in default_subjects() {
        let before = store.revision();
        let committed = store.commit(vec![Write::create(key("a", "one"), "value")]).await.unwrap();
        assert_eq!(committed.revision, before + 1, "{name}");
        let object = store.get(&key("a", "one")).await.unwrap().unwrap();
        assert_eq!((object.revision, &object.value[..]), (committed.revision, &b"value"[..]), "{name}");
        let page = store.list(&everything(), Page::default()).await.unwrap();
        assert_eq!((page.objects, page.revision), (vec![object], committed.revision), "{name}");
        assert_eq!(store.revision(), committed.revision, "{name}");
        assert_eq!(store.get(&key("a", "two")).await.unwrap(), None, "{name}");
    }
}

#[tokio::test]
async fn each_write_of_a_commit_has_a_revision_of_its_own_and_sees_those_before_it() {
    for Subject { name, store, .. } in default_subjects() {
        let first = store.revision() + 1;
        let committed = store
            .commit(vec![
                Write::create(key("a", "one"), "1"),
                Write::update(key("a", "one"), first, "2"),
                Write::delete(key("a", "one"), first + 1),
                Write::create(key("a", "one"), "3"),
            ])
            .await
            .unwrap();
        let seen: Vec<_> = committed
            .events
            .iter()
            .map(|event| {
                (event.kind, event.revision, event.previous.as_ref().map(|previous| previous.revision))
            })
            .collect();
        assert_eq!(
            seen,
            [
                (EventKind::Added, first, None),
                (EventKind::Modified, first + 1, Some(first)),
                (EventKind::Deleted, first + 2, Some(first + 1)),
                (EventKind::Added, first + 3, None),
            ],
            "{name}"
        );
        assert_eq!(store.get(&key("a", "one")).await.unwrap().unwrap().revision, first + 3, "{name}");
    }
}

#[tokio::test]
async fn a_commit_with_one_failing_precondition_writes_nothing() {
    for Subject { name, store, .. } in default_subjects() {
        let revision = write(&store, Write::create(key("a", "one"), "1")).await;
        let writes = |second: Write| vec![Write::create(key("a", "new"), "1"), second];
        for (second, actual) in [
            (Write::create(key("a", "one"), "2"), Some(revision)),
            (Write::update(key("a", "one"), revision - 1, "2"), Some(revision)),
            (Write::update(key("a", "two"), revision, "2"), None),
            (Write::delete(key("a", "one"), revision + 1), Some(revision)),
            (Write { key: key("a", "two"), expect: Precondition::Any, op: Op::Delete }, None),
        ] {
            let failing = second.key.clone();
            match store.commit(writes(second)).await {
                Err(StoreError::Conflict { key, actual: found, .. }) => {
                    assert_eq!((key, found), (failing, actual), "{name}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        assert_eq!(store.revision(), revision, "{name}");
        assert_eq!(names(&store.list(&everything(), Page::default()).await.unwrap()), ["one"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_made_at_once_succeed_and_fail_each_on_its_own() {
    for Subject { name, store, .. } in default_subjects() {
        let before = store.revision();
        let mut watch = store.watch(&everything(), before).unwrap();
        // Of each eight, four create the same object.
        let commits = (0..64).map(|index| {
            let store = store.clone();
            let object =
                if index % 2 == 0 { format!("shared-{}", index / 8) } else { format!("own-{index}") };
            tokio::spawn(async move { store.commit(vec![Write::create(key("a", &object), "x")]).await })
        });
        let outcomes: Vec<_> = join_all(commits).await.into_iter().map(Result::unwrap).collect();
        let mut revisions: Vec<u64> = outcomes.iter().flatten().map(|committed| committed.revision).collect();
        revisions.sort_unstable();
        assert_eq!(revisions, (before + 1..=before + 40).collect::<Vec<_>>(), "{name}: no gap, none twice");
        for failed in outcomes.into_iter().filter_map(Result::err) {
            assert!(matches!(failed, StoreError::Conflict { .. }), "{name}: {failed}");
        }
        for expected in revisions {
            assert_eq!(watch.try_next().unwrap().unwrap().revision, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn a_commit_whose_caller_went_away_is_done_all_the_same() {
    for Subject { name, store, .. } in default_subjects() {
        let mut watch = store.watch(&everything(), 0).unwrap();
        {
            let mut commit = store.commit(vec![Write::create(key("a", "one"), "1")]);
            // Polled once, then dropped.
            let _ = futures::poll!(&mut commit);
        }
        let event = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
        assert_eq!(event.unwrap().unwrap().object.key, key("a", "one"), "{name}");
    }
}

#[test]
fn lists_without_end_keep_no_commit_waiting() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(40).build().unwrap();
    let (keeping, kept) = std::sync::mpsc::channel::<()>();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let store = open_file(&folder.path().join("store"), &StoreOptions::default()).unwrap();
        write(&store, put(key("a", "one"), "1")).await;
        let kept = std::sync::Mutex::new(kept);
        // It looks at an object for as long as it is kept at that.
        let filter: Filter = Arc::new(move |_| kept.lock().unwrap().recv().is_ok());
        let lists: Vec<_> = (0..100)
            .map(|_| {
                let (store, filter) = (store.clone(), filter.clone());
                let page = Page { filter: Some(filter), ..Page::default() };
                tokio::spawn(async move { store.list(&everything(), page).await.unwrap() })
            })
            .collect();
        tokio::task::yield_now().await;
        let commit = write(&store, put(key("a", "two"), "2"));
        tokio::time::timeout(Duration::from_secs(30), commit).await.expect("the commit is answered");
        drop(keeping);
        for list in lists {
            list.await.unwrap();
        }
    });
}

#[tokio::test(start_paused = true)]
async fn committing_and_listing_take_no_paused_time() {
    for Subject { name, store, .. } in default_subjects() {
        let ticking = tokio::spawn(tokio::time::sleep(Duration::from_hours(1)));
        let before = tokio::time::Instant::now();
        write(&store, put(key("a", "one"), "1")).await;
        store.list(&everything(), Page::default()).await.unwrap();
        assert_eq!(before.elapsed(), Duration::ZERO, "{name}");
        ticking.abort();
    }
}

#[tokio::test]
async fn a_list_is_ordered_and_holds_its_range_only() {
    for Subject { name, store, .. } in default_subjects() {
        for (namespace, object) in [("b", "1"), ("a-b", "2"), ("a", "3"), ("", "4"), ("ab", "5"), ("a", "10")]
        {
            write(&store, put(key(namespace, object), "x")).await;
        }
        for other in
            [("example.com", "thing"), ("example.com", "things2"), ("example.co", "things"), ("", "things")]
        {
            write(&store, put(Key::new(other.0, other.1, "a", "other").unwrap(), "x")).await;
        }
        let list = async |range: Range| {
            let page = store.list(&range, Page::default()).await.unwrap();
            names(&page).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(list(everything()).await, ["4", "10", "3", "2", "5", "1"], "{name}");
        assert_eq!(list(of_namespace("a")).await, ["10", "3"], "{name}");
        assert_eq!(list(of_namespace("")).await, ["4"], "{name}");
        assert_eq!(list(of_namespace("none")).await, [""; 0], "{name}");
    }
}

#[tokio::test]
async fn pages_of_a_list_come_from_one_state() {
    for Subject { name, store, .. } in default_subjects() {
        for index in 0..10 {
            write(&store, put(key(if index < 6 { "a" } else { "b" }, &index.to_string()), "old")).await;
        }
        let mut page = Page { limit: 4, ..Page::default() };
        let mut seen = Vec::new();
        let mut remaining = Vec::new();
        loop {
            let answer = store.list(&everything(), page).await.unwrap();
            seen.extend(names(&answer).into_iter().map(str::to_owned));
            remaining.push(answer.remaining);
            assert!(answer.objects.iter().all(|object| object.value == "old"), "{name}");
            if !answer.more {
                break;
            }
            page = Page {
                limit: 4,
                after: answer.objects.last().map(|object| object.key.clone()),
                snapshot: Some(answer.revision),
                ..Page::default()
            };
            // What happens meanwhile is not in the list.
            write(&store, put(key("a", "9"), "new")).await;
            let deleted = store.get(&key("b", "8")).await.unwrap();
            if let Some(deleted) = deleted {
                write(&store, Write::delete(deleted.key, deleted.revision)).await;
            }
        }
        assert_eq!(seen, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"], "{name}");
        assert_eq!(remaining, [Some(6), Some(2), Some(0)], "{name}");
        // A page may be asked for again, also one that starts where none ended.
        let revision =
            store.list(&everything(), Page { limit: 1, ..Page::default() }).await.unwrap().revision;
        let page =
            Page { limit: 2, after: Some(key("a", "40")), snapshot: Some(revision), ..Page::default() };
        let answer = store.list(&everything(), page).await.unwrap();
        assert_eq!((names(&answer), answer.remaining), (vec!["5", "9"], Some(3)), "{name}");
        // A key outside of the range ends it, or starts it.
        for (after, expected) in [(key("c", "0"), 0), (key("", "x"), 10)] {
            let page = Page { after: Some(after), ..Page::default() };
            assert_eq!(store.list(&everything(), page).await.unwrap().objects.len(), expected, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_nobody_reads_expires() {
    for Subject { name, store, .. } in default_subjects() {
        for index in 0..3 {
            write(&store, put(key("a", &index.to_string()), "x")).await;
        }
        let first = store.list(&everything(), Page { limit: 1, ..Page::default() }).await.unwrap();
        let next = Page {
            limit: 1,
            after: Some(first.objects[0].key.clone()),
            snapshot: Some(first.revision),
            ..Page::default()
        };
        let current = write(&store, put(key("a", "0"), "y")).await;
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(40)).await;
            assert_eq!(
                names(&store.list(&everything(), next.clone()).await.unwrap()),
                ["1"],
                "{name}: it is in use"
            );
        }
        tokio::time::advance(Duration::from_mins(1)).await;
        match store.list(&everything(), next).await {
            Err(StoreError::Expired { requested, current: found }) => {
                assert_eq!((requested, found), (first.revision, current), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        // The latest state needs no snapshot to have been kept.
        let latest = Page { snapshot: Some(current), ..Page::default() };
        assert_eq!(store.list(&everything(), latest).await.unwrap().objects.len(), 3, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_whose_lists_are_read_to_their_end_is_kept_for_a_lost_answer_only() {
    for Subject { name, store, .. } in default_subjects() {
        for index in 0..3 {
            write(&store, put(key("a", &index.to_string()), "x")).await;
        }
        let first = Page { limit: 2, ..Page::default() };
        let answer = store.list(&everything(), first.clone()).await.unwrap();
        store.list(&everything(), first).await.unwrap();
        let after = Some(answer.objects[1].key.clone());
        let last = Page { limit: 2, after, snapshot: Some(answer.revision), ..Page::default() };
        write(&store, put(key("a", "0"), "y")).await;
        // Two lists were begun; one of them takes its time.
        store.list(&everything(), last.clone()).await.unwrap();
        tokio::time::advance(Duration::from_secs(30)).await;
        store.list(&everything(), last.clone()).await.unwrap();
        tokio::time::advance(Duration::from_secs(3)).await;
        store.list(&everything(), last.clone()).await.unwrap();
        tokio::time::advance(Duration::from_secs(6)).await;
        let gone = store.list(&everything(), last).await;
        assert!(matches!(gone, Err(StoreError::Expired { .. })), "{name}");
    }
}

#[tokio::test]
async fn a_filter_chooses_what_a_list_returns_and_what_its_limit_counts() {
    for Subject { name, store, .. } in default_subjects() {
        for index in 0..10 {
            write(&store, put(key("a", &index.to_string()), if index % 3 == 0 { "yes" } else { "no" })).await;
        }
        let filtered = |limit, after| Page {
            limit,
            after,
            snapshot: None,
            filter: Some(Arc::new(|object| object.value == "yes")),
            ..Page::default()
        };
        let all = store.list(&everything(), filtered(0, None)).await.unwrap();
        assert_eq!((names(&all), all.more, all.remaining), (vec!["0", "3", "6", "9"], false, None), "{name}");
        let first = store.list(&everything(), filtered(2, None)).await.unwrap();
        assert_eq!((names(&first), first.more), (vec!["0", "3"], true), "{name}");
        let rest = store.list(&everything(), filtered(2, Some(key("a", "3")))).await.unwrap();
        assert_eq!((names(&rest), rest.more), (vec!["6", "9"], false), "{name}: nothing is left to look at");
    }
}

#[tokio::test]
async fn the_number_of_snapshots_is_bounded() {
    for Subject { name, store, .. } in subjects(&StoreOptions { snapshots: 2, ..StoreOptions::default() }) {
        let mut revisions = Vec::new();
        for index in 0..5 {
            write(&store, put(key("a", &index.to_string()), "x")).await;
            revisions.push(
                store.list(&everything(), Page { limit: 1, ..Page::default() }).await.unwrap().revision,
            );
        }
        write(&store, put(key("a", "9"), "x")).await;
        let mut kept = Vec::new();
        for revision in revisions {
            let page = Page { limit: 1, snapshot: Some(revision), ..Page::default() };
            kept.push(store.list(&everything(), page).await.is_ok());
        }
        assert_eq!(kept, [false, false, false, true, true], "{name}");
    }
}

#[tokio::test]
async fn a_snapshot_expires_when_much_is_written_between_two_reads_of_it() {
    let options = StoreOptions { snapshot_bytes: 100_000, ..StoreOptions::default() };
    for Subject { name, store, .. } in subjects(&options) {
        for index in 0..3 {
            write(&store, put(key("a", &index.to_string()), "x")).await;
        }
        let first = store.list(&everything(), Page { limit: 1, ..Page::default() }).await.unwrap();
        let next = Page {
            limit: 1,
            after: Some(first.objects[0].key.clone()),
            snapshot: Some(first.revision),
            ..Page::default()
        };
        let value = "y".repeat(40_000);
        for _ in 0..4 {
            write(&store, put(key("a", "0"), value.clone())).await;
            let page = store.list(&everything(), next.clone()).await.unwrap();
            assert_eq!(names(&page), ["1"], "{name}: it is in use");
        }
        for _ in 0..3 {
            write(&store, put(key("a", "0"), value.clone())).await;
        }
        let gone = store.list(&everything(), next).await;
        assert!(matches!(gone, Err(StoreError::Expired { .. })), "{name}: {gone:?}");

        // A list that was read to its end waits for a lost answer, but not for long.
        let first = store.list(&everything(), Page { limit: 1, ..Page::default() }).await.unwrap();
        let rest = Page {
            after: Some(first.objects[0].key.clone()),
            snapshot: Some(first.revision),
            ..Page::default()
        };
        store.list(&everything(), rest.clone()).await.unwrap();
        write(&store, put(key("a", "0"), value.clone())).await;
        let gone = store.list(&everything(), rest).await;
        assert!(matches!(gone, Err(StoreError::Expired { .. })), "{name}: {gone:?}");
    }
}

#[tokio::test]
async fn a_watch_replays_what_the_log_keeps_and_goes_on() {
    for Subject { name, store, .. } in default_subjects() {
        let start = write(&store, put(key("a", "one"), "1")).await;
        write(&store, put(key("a", "one"), "2")).await;
        write(&store, put(key("b", "two"), "1")).await;
        let last = write(&store, Write::delete(key("a", "one"), start + 1)).await;

        let mut watch = store.watch(&of_namespace("a"), start).unwrap();
        let modified = watch.next().await.unwrap();
        assert_eq!((modified.kind, &modified.object.value[..]), (EventKind::Modified, &b"2"[..]), "{name}");
        assert_eq!(&modified.previous.as_ref().unwrap().value[..], b"1", "{name}");
        assert_eq!(watch.position().unwrap(), start + 1, "{name}: the deletion was not returned yet");
        let deleted = watch.next().await.unwrap();
        assert_eq!((deleted.kind, deleted.object.revision), (EventKind::Deleted, last), "{name}");
        assert_eq!(
            (&deleted.object.value[..], deleted.revision),
            (&b"2"[..], last),
            "{name}: its last value"
        );
        assert_eq!(deleted.previous.as_ref().unwrap().revision, start + 1, "{name}");

        // Another namespace's events only move the position.
        let later = write(&store, put(key("b", "two"), "2")).await;
        assert_eq!(watch.try_next().unwrap(), None, "{name}");
        assert_eq!(watch.position().unwrap(), later, "{name}");

        // From now on.
        let mut now = store.watch(&everything(), 0).unwrap();
        assert_eq!(ready(&mut now), [], "{name}");
        write(&store, put(key("a", "three"), "1")).await;
        for watch in [&mut watch, &mut now] {
            assert_eq!(watch.next().await.unwrap().object.key, key("a", "three"), "{name}");
        }
    }
}

#[tokio::test]
async fn a_waiting_watch_is_woken_by_a_commit() {
    for Subject { name, store, .. } in default_subjects() {
        let mut watch = store.watch(&everything(), 0).unwrap();
        assert!(futures::poll!(std::pin::pin!(watch.next())).is_pending(), "{name}");
        let (event, _) = tokio::join!(
            tokio::time::timeout(Duration::from_secs(30), watch.next()),
            write(&store, put(key("a", "one"), "1"))
        );
        assert_eq!(event.unwrap().unwrap().object.key, key("a", "one"), "{name}");
    }
}

#[tokio::test]
async fn a_watch_that_falls_behind_the_log_expires_and_a_burst_of_another_kind_does_not_matter() {
    let options =
        StoreOptions { log_events: 16, log_grace: std::time::Duration::ZERO, ..StoreOptions::default() };
    for Subject { name, store, .. } in subjects(&options) {
        let quiet = Range::new("example.com", "quiet", None).unwrap();
        let start = write(&store, put(Key::new("example.com", "quiet", "a", "one").unwrap(), "x")).await;
        let mut behind = store.watch(&everything(), start).unwrap();
        for index in 0..40 {
            write(&store, put(key("a", &index.to_string()), vec![b'x'; 100])).await;
        }
        for _ in 0..2 {
            assert!(matches!(behind.try_next(), Err(StoreError::Expired { .. })), "{name}");
            assert!(matches!(behind.next().await, Err(StoreError::Expired { .. })), "{name}");
        }
        assert!(matches!(store.watch(&everything(), start), Err(StoreError::Expired { .. })), "{name}");
        let mut recent = store.watch(&everything(), store.revision() - 10).unwrap();
        assert_eq!(ready(&mut recent).len(), 10, "{name}");
        // The other kind's event is still there.
        let mut quiet = store.watch(&quiet, start - 1).unwrap();
        assert_eq!(ready(&mut quiet), [(EventKind::Added, "one".to_owned())], "{name}");
    }
}

#[tokio::test]
async fn the_log_is_bounded_by_bytes() {
    let options =
        StoreOptions { log_bytes: 200_000, log_grace: std::time::Duration::ZERO, ..StoreOptions::default() };
    for Subject { name, store, .. } in subjects(&options) {
        let start = store.revision();
        for index in 0..20 {
            write(&store, put(key("a", &index.to_string()), vec![b'x'; 10_000])).await;
        }
        assert!(matches!(store.watch(&everything(), start), Err(StoreError::Expired { .. })), "{name}");
        let mut recent = store.watch(&everything(), store.revision() - 9).unwrap();
        assert_eq!(ready(&mut recent).len(), 9, "{name}");
    }
}

#[tokio::test]
async fn a_watch_from_a_revision_that_was_never_reached_expires() {
    for Subject { name, store, .. } in default_subjects() {
        let revision = write(&store, put(key("a", "one"), "x")).await;
        assert!(
            matches!(store.watch(&everything(), revision + 1), Err(StoreError::Expired { .. })),
            "{name}"
        );
        assert!(store.watch(&everything(), revision).is_ok(), "{name}");
    }
}

#[tokio::test]
async fn keys_take_any_text_but_nul() {
    assert!(matches!(Key::new("g", "r", "a\0b", "n"), Err(StoreError::InvalidKey { part: "namespace", .. })));
    assert!(matches!(Key::new("g", "r", "a", ""), Err(StoreError::InvalidKey { part: "name", .. })));
    assert!(matches!(Range::new("g", "", None), Err(StoreError::InvalidKey { part: "resource", .. })));
    for Subject { name, store, .. } in default_subjects() {
        let odd = Key::new("", "r", "näme space", "../\u{10ffff}%").unwrap();
        write(&store, put(odd.clone(), "x")).await;
        let found = store.list(&Range::new("", "r", None).unwrap(), Page::default()).await.unwrap();
        assert_eq!(found.objects[0].key, odd, "{name}");
        assert_eq!((odd.group(), odd.resource()), ("", "r"));
        assert_eq!((odd.namespace(), odd.name()), ("näme space", "../\u{10ffff}%"));
    }
}
