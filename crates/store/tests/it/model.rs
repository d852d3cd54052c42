//! Random histories against a model: a map, and the list of its changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use windlass_store::{
    Event, EventKind, Key, Op, Page, Precondition, Range, Store, StoreError, StoreOptions, WatchStream,
    Write, in_memory, open_file,
};

/// How many events the log keeps in these histories.
const LOG_EVENTS: usize = 12;

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<ModelWrite>),
    Get(usize),
    List { range: usize, limit: usize },
    NextPage { list: usize },
    Watch { range: usize, back: u64 },
    Read { watch: usize, count: usize },
    Restart,
}

#[derive(Clone, Debug)]
struct ModelWrite {
    key: usize,
    expect: Expect,
    /// `None` deletes.
    value: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Expect {
    Absent,
    /// The revision that is stored, or one that is not.
    Latest,
    Stale,
    Any,
}

fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    for resource in ["r", "rr"] {
        for namespace in ["", "a", "a-", "b"] {
            for name in ["x", "x-y", "z"] {
                keys.push(Key::new("g", resource, namespace, name).unwrap());
            }
        }
    }
    keys
}

fn ranges() -> Vec<Range> {
    [("r", None), ("r", Some("a")), ("r", Some("")), ("rr", None), ("rr", Some("a-")), ("rr", Some("none"))]
        .map(|(resource, namespace)| Range::new("g", resource, namespace).unwrap())
        .to_vec()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let expect = prop_oneof![
        2 => Just(Expect::Absent), 3 => Just(Expect::Latest), 1 => Just(Expect::Stale), 4 => Just(Expect::Any)
    ];
    let write = (0..keys().len(), expect, proptest::option::weighted(0.8, any::<u8>()))
        .prop_map(|(key, expect, value)| ModelWrite { key, expect, value });
    let step = prop_oneof![
        8 => proptest::collection::vec(write, 1..4).prop_map(Step::Commit),
        2 => (0..keys().len()).prop_map(Step::Get),
        3 => (0..ranges().len(), 0..5_usize).prop_map(|(range, limit)| Step::List { range, limit }),
        4 => any::<usize>().prop_map(|list| Step::NextPage { list }),
        2 => (0..ranges().len(), 0..20_u64).prop_map(|(range, back)| Step::Watch { range, back }),
        4 => (any::<usize>(), 1..6_usize).prop_map(|(watch, count)| Step::Read { watch, count }),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..60)
}

type State = BTreeMap<Key, (u64, u8)>;
/// Kind, key, revision, value, value before.
type ModelEvent = (EventKind, Key, u64, u8, Option<u8>);

/// What the store should hold.
#[derive(Default)]
struct Model {
    state: State,
    revision: u64,
    events: Vec<ModelEvent>,
    /// Events up to here are not in the log.
    opened: u64,
}

impl Model {
    /// What the commit should answer: the revision, or the write that fails.
    fn commit(&mut self, writes: &[Write]) -> Result<u64, Key> {
        let (mut state, mut revision, mut events) = (self.state.clone(), self.revision, Vec::new());
        for write in writes {
            let before = state.get(&write.key).copied();
            let holds = match write.expect {
                Precondition::Absent => before.is_none(),
                Precondition::Revision(expected) => before.is_some_and(|(actual, _)| actual == expected),
                Precondition::Any => true,
            };
            revision += 1;
            let kind = match (&write.op, before) {
                (Op::Put(_), None) if holds => EventKind::Added,
                (Op::Put(_), Some(_)) if holds => EventKind::Modified,
                (Op::Delete, Some(_)) if holds => EventKind::Deleted,
                _ => return Err(write.key.clone()),
            };
            let before = before.map(|(_, value)| value);
            let value = match &write.op {
                Op::Put(value) => {
                    state.insert(write.key.clone(), (revision, value[0]));
                    value[0]
                }
                Op::Delete => {
                    state.remove(&write.key);
                    before.unwrap()
                }
            };
            events.push((kind, write.key.clone(), revision, value, before));
        }
        (self.state, self.revision) = (state, revision);
        self.events.extend(events);
        Ok(revision)
    }

    /// Whether a watch from this revision must not expire. There are two kinds, and the larger loses its oldest
    /// events first: nearly half of the log at least is left to each.
    fn surely_kept(&self, from: u64) -> bool {
        from >= self.opened && self.events.iter().filter(|event| event.2 > from).count() < LOG_EVENTS / 2
    }

    /// The first event of the range after this revision.
    fn event_after(&self, range: &Range, revision: u64) -> Option<&ModelEvent> {
        self.events.iter().find(|event| event.2 > revision && range.contains(&event.1))
    }
}

struct ModelList {
    range: Range,
    state: State,
    revision: u64,
    after: Key,
}

struct ModelWatch {
    range: Range,
    stream: WatchStream,
    seen: u64,
}

fn expected_page(state: &State, range: &Range, after: Option<&Key>) -> Vec<(Key, u64, u8)> {
    state
        .iter()
        .filter(|(key, _)| range.contains(key) && after.is_none_or(|after| *key > after))
        .map(|(key, (revision, value))| (key.clone(), *revision, *value))
        .collect()
}

async fn check_page(
    store: &Arc<dyn Store>,
    list: (&Range, &State, u64, Option<&Key>),
    limit: usize,
    snapshot: Option<u64>,
) -> Option<Key> {
    let (range, state, revision, after) = list;
    let page =
        store.list(range, Page { limit, after: after.cloned(), snapshot, ..Page::default() }).await.unwrap();
    let expected = expected_page(state, range, after);
    let count = if limit == 0 { expected.len() } else { expected.len().min(limit) };
    let found: Vec<_> =
        page.objects.iter().map(|object| (object.key.clone(), object.revision, object.value[0])).collect();
    assert_eq!(found, expected[..count]);
    assert_eq!((page.revision, page.remaining), (revision, Some(expected.len() - count)));
    assert_eq!(page.more, page.remaining > Some(0));
    page.more.then(|| found.last().unwrap().0.clone())
}

/// A history as it is played, on a store and on the model at once.
struct Play {
    store: Arc<dyn Store>,
    model: Model,
    lists: Vec<ModelList>,
    watches: Vec<ModelWatch>,
}

impl Play {
    async fn commit(&mut self, writes: Vec<ModelWrite>) {
        let keys = keys();
        let writes: Vec<Write> = writes
            .into_iter()
            .map(|write| {
                let key = keys[write.key].clone();
                let latest = self.model.state.get(&key).map_or(0, |(revision, _)| *revision);
                let expect = match write.expect {
                    Expect::Absent => Precondition::Absent,
                    Expect::Latest => Precondition::Revision(latest),
                    Expect::Stale => Precondition::Revision(latest.wrapping_sub(1)),
                    Expect::Any => Precondition::Any,
                };
                let op = write.value.map_or(Op::Delete, |value| Op::Put(vec![value; 40].into()));
                Write { key, expect, op }
            })
            .collect();
        let expected = self.model.commit(&writes);
        let found = match self.store.commit(writes).await {
            Ok(committed) => Ok(committed.revision),
            Err(StoreError::Conflict { key, .. }) => Err(key),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(found, expected);
        assert_eq!(self.store.revision(), self.model.revision);
    }

    async fn get(&self, key: &Key) {
        let found = self.store.get(key).await.unwrap();
        let found = found.map(|object| (object.revision, object.value[0]));
        assert_eq!(found, self.model.state.get(key).copied());
    }

    async fn list(&mut self, range: &Range, limit: usize) {
        let (state, revision) = (&self.model.state, self.model.revision);
        if let Some(after) = check_page(&self.store, (range, state, revision, None), limit, None).await {
            self.lists.push(ModelList { range: range.clone(), state: state.clone(), revision, after });
        }
    }

    async fn next_page(&mut self, list: usize) {
        if self.lists.is_empty() {
            return;
        }
        let index = list % self.lists.len();
        let list = &mut self.lists[index];
        let expected = (&list.range, &list.state, list.revision, Some(&list.after));
        match check_page(&self.store, expected, 1, Some(list.revision)).await {
            Some(after) => list.after = after,
            None => drop(self.lists.remove(index)),
        }
    }

    fn watch(&mut self, range: &Range, from: u64) {
        match self.store.watch(range, from) {
            Ok(stream) => self.watches.push(ModelWatch { range: range.clone(), stream, seen: from }),
            Err(StoreError::Expired { .. }) => assert!(!self.model.surely_kept(from), "from {from} is kept"),
            Err(other) => panic!("{other}"),
        }
    }

    fn read(&mut self, watch: usize, count: usize) {
        if self.watches.is_empty() {
            return;
        }
        let index = watch % self.watches.len();
        for _ in 0..count {
            let ModelWatch { range, stream, seen } = &mut self.watches[index];
            match stream.try_next() {
                Ok(Some(event)) => {
                    check_event(self.model.event_after(range, *seen), &event);
                    *seen = event.revision;
                }
                Ok(None) => {
                    assert_eq!(self.model.event_after(range, *seen), None);
                    *seen = stream.position().unwrap();
                    assert_eq!(*seen, self.model.revision);
                    return;
                }
                Err(StoreError::Expired { .. }) => {
                    assert!(!self.model.surely_kept(*seen));
                    self.watches.remove(index);
                    return;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    async fn restart(self, open: impl Fn() -> Arc<dyn Store>) -> Self {
        let Self { store, mut model, .. } = self;
        drop(store);
        let store = open();
        assert_eq!(store.revision(), model.revision);
        model.opened = model.revision;
        for range in ranges() {
            check_page(&store, (&range, &model.state, model.revision, None), 0, None).await;
        }
        Self { store, model, lists: Vec::new(), watches: Vec::new() }
    }
}

fn check_event(expected: Option<&ModelEvent>, event: &Event) {
    let found = (
        event.kind,
        event.object.key.clone(),
        event.revision,
        event.object.value[0],
        event.previous.as_ref().map(|previous| previous.value[0]),
    );
    assert_eq!(Some(&found), expected);
    assert_eq!(event.object.revision, event.revision);
}

/// Plays a history on the store that `open` opens; again after each restart, if it outlives one.
async fn play(steps: Vec<Step>, open: impl Fn() -> Arc<dyn Store>, outlives: bool) {
    let (keys, ranges) = (keys(), ranges());
    let store = open();
    let model = Model { revision: store.revision(), opened: store.revision(), ..Model::default() };
    let mut play = Play { store, model, lists: Vec::new(), watches: Vec::new() };
    for step in steps {
        match step {
            Step::Commit(writes) => play.commit(writes).await,
            Step::Get(key) => play.get(&keys[key]).await,
            Step::List { range, limit } => play.list(&ranges[range], limit).await,
            Step::NextPage { list } => play.next_page(list).await,
            Step::Watch { range, back } => {
                let from = play.model.revision.saturating_sub(back).max(1);
                play.watch(&ranges[range], from);
            }
            Step::Read { watch, count } => play.read(watch, count),
            Step::Restart if outlives => play = play.restart(&open).await,
            Step::Restart => {}
        }
    }
}

fn options() -> StoreOptions {
    StoreOptions {
        log_events: LOG_EVENTS,
        log_grace: std::time::Duration::ZERO,
        snapshots: 1000,
        ..StoreOptions::default()
    }
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn any_history_of_the_store_in_memory_follows_the_model(steps in steps()) {
        block_on(play(steps, || in_memory(&options()).unwrap(), false));
    }
}

proptest! {
    // Each commit is synced to disk.
    #![proptest_config(cases(32))]

    #[test]
    fn any_history_of_the_store_in_a_file_follows_the_model(steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        block_on(play(steps, || open_file(&path, &options()).unwrap(), true));
    }
}
