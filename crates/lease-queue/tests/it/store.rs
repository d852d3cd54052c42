//! A simulated store, shared by simulated replicas, and each replica's unreliable way to it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_lease_queue::{
    Change, Event, HistoryEntry, HistoryPage, Key, NewRecord, Precondition, Record, Store, StoreError,
};

pub(crate) const CLAIM: &str = "provisioning.grafana.app/claim";
pub(crate) const OWNER: &str = "provisioning.grafana.app/claim-owner";
pub(crate) const ATTEMPT: &str = "windlass.dev/attempt";
const ORIGINAL_UID: &str = "provisioning.grafana.app/original-uid";

/// How a store can be broken, to see whether the checker notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flaw {
    #[default]
    None,
    /// Preconditions are not looked at.
    Unguarded,
    /// History takes a second record of the same name.
    ForgetfulHistory,
    /// Nobody can read which jobs are claimed.
    HiddenClaims,
}

/// What happened to the store, in its own order.
#[derive(Clone, Debug)]
pub(crate) enum Happened {
    Created {
        uid: String,
        exclusion: Option<Key>,
    },
    Patched {
        uid: String,
        base_owner: Option<String>,
        before: Option<String>,
        attempt: u32,
        change: Change,
    },
    Deleted {
        uid: String,
        base_owner: Option<String>,
        before: Option<String>,
    },
    DeletedByUser {
        uid: String,
    },
    Filed {
        uid: String,
        state: String,
    },
    /// A worker changed something outside the queue.
    Effect {
        uid: String,
        owner: String,
        current: Option<String>,
    },
}

#[derive(Default)]
pub(crate) struct Server {
    state: Mutex<State>,
    flaw: Flaw,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<Key, Record>,
    history: BTreeMap<Key, Filed>,
    version: u64,
    /// Before each version: not empty where versions are no numbers, so that nobody can tell which is newer.
    prefix: &'static str,
    owner_at: HashMap<String, Option<String>>,
    log: Vec<Happened>,
    watches: Vec<mpsc::UnboundedSender<Event>>,
}

#[derive(Clone)]
pub(crate) struct Filed {
    pub(crate) record: NewRecord,
    uid: String,
    pub(crate) created: Timestamp,
}

impl State {
    fn put(&mut self, mut record: Record) -> Record {
        self.version += 1;
        record.version = format!("{}{}", self.prefix, self.version);
        self.owner_at.insert(record.version.clone(), record.owner().map(String::from));
        self.jobs.insert(record.key.clone(), record.clone());
        self.tell(Event::applied(&record));
        record
    }

    fn remove(&mut self, key: &Key, uid: &str) {
        self.version += 1;
        self.jobs.remove(key);
        self.tell(Event::Deleted { key: key.clone(), uid: uid.to_owned() });
    }

    fn tell(&mut self, event: Event) {
        self.watches.retain(|watch| watch.send(event.clone()).is_ok());
    }
}

impl Server {
    pub(crate) fn new(flaw: Flaw) -> Arc<Self> {
        Arc::new(Self { flaw, ..Self::default() })
    }

    pub(crate) fn with_opaque_versions(flaw: Flaw) -> Arc<Self> {
        let state = Mutex::new(State { prefix: "v", ..State::default() });
        Arc::new(Self { state, flaw })
    }

    pub(crate) fn add(&self, namespace: &str, repository: &str, name: &str) -> Option<Record> {
        self.add_with(namespace, name, json!({"action": "pull", "repository": repository}), Value::Null)
    }

    pub(crate) fn add_with(&self, namespace: &str, name: &str, spec: Value, status: Value) -> Option<Record> {
        let mut state = self.state.lock().unwrap();
        let key = Key::new(namespace, name);
        if state.jobs.contains_key(&key) {
            return None;
        }
        let uid = format!("uid-{}", state.version + 1);
        let record = Record {
            key,
            uid,
            version: String::new(),
            created: now(),
            deleting: false,
            labels: BTreeMap::new(),
            annotations: BTreeMap::from([("note".into(), "kept".into())]),
            spec,
            status,
        };
        state.log.push(Happened::Created { uid: record.uid.clone(), exclusion: record.exclusion() });
        Some(state.put(record))
    }

    /// Writes to a job as some other program would.
    pub(crate) fn meddle(&self, key: &Key, meddle: impl FnOnce(&mut Record)) {
        let mut state = self.state.lock().unwrap();
        let mut record = state.jobs[key].clone();
        meddle(&mut record);
        state.put(record);
    }

    pub(crate) fn delete_by_user(&self, key: &Key) {
        let mut state = self.state.lock().unwrap();
        if let Some(record) = state.jobs.get(key).cloned() {
            state.remove(key, &record.uid);
            state.log.push(Happened::DeletedByUser { uid: record.uid });
        }
    }

    pub(crate) fn effect(&self, key: &Key, uid: &str, owner: &str) {
        let mut state = self.state.lock().unwrap();
        let record = state.jobs.get(key).filter(|record| record.uid == uid);
        let current = record.map(|record| record.owner().unwrap_or_default().to_owned());
        state.log.push(Happened::Effect { uid: uid.to_owned(), owner: owner.to_owned(), current });
    }

    pub(crate) fn jobs(&self) -> Vec<Record> {
        self.state.lock().unwrap().jobs.values().cloned().collect()
    }

    pub(crate) fn job(&self, key: &Key) -> Option<Record> {
        self.state.lock().unwrap().jobs.get(key).cloned()
    }

    pub(crate) fn history(&self) -> Vec<Filed> {
        self.state.lock().unwrap().history.values().cloned().collect()
    }

    pub(crate) fn log(&self) -> Vec<Happened> {
        self.state.lock().unwrap().log.clone()
    }

    pub(crate) fn watch(&self) -> mpsc::UnboundedReceiver<Event> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.state.lock().unwrap().watches.push(sender);
        receiver
    }

    fn get(&self, key: &Key) -> Result<Record, StoreError> {
        self.job(key).ok_or(StoreError::NotFound)
    }

    fn claimed(&self, namespace: &str) -> Vec<Record> {
        let claimed = |job: &Record| job.key.namespace == namespace && job.claimed();
        if self.flaw == Flaw::HiddenClaims {
            Vec::new()
        } else {
            self.jobs().into_iter().filter(claimed).collect()
        }
    }

    fn history_page(&self, next: Option<&str>) -> HistoryPage {
        const PAGE: usize = 3;
        let state = self.state.lock().unwrap();
        let entry = |(key, filed): (&Key, &Filed)| HistoryEntry {
            key: key.clone(),
            uid: filed.uid.clone(),
            job_uid: filed.record.labels[ORIGINAL_UID].clone(),
            repository: filed.record.labels["provisioning.grafana.app/repository"].clone(),
            created: filed.created,
            bytes: filed.record.annotations["windlass.dev/bytes"].parse().ok(),
        };
        let from =
            state.history.iter().filter(|(key, _)| next.is_none_or(|next| key.to_string().as_str() > next));
        let entries: Vec<_> = from.map(entry).take(PAGE).collect();
        let next = entries.last().filter(|_| entries.len() == PAGE).map(|entry| entry.key.to_string());
        HistoryPage { entries, next }
    }

    fn patch(&self, key: &Key, expected: &Precondition, change: &Change) -> Result<Record, StoreError> {
        let mut state = self.state.lock().unwrap();
        let mut record = state.jobs.get(key).cloned().ok_or(StoreError::NotFound)?;
        let current = record.precondition();
        if current != *expected && self.flaw != Flaw::Unguarded {
            return Err(StoreError::Conflict);
        }
        let before = record.owner().map(String::from);
        for (label, value) in &change.labels {
            match value {
                Some(value) => record.labels.insert((*label).to_owned(), value.clone()),
                None => record.labels.remove(*label),
            };
        }
        if let Some(status) = &change.status {
            merge(&mut record.status, status);
        }
        let happened = Happened::Patched {
            uid: record.uid.clone(),
            base_owner: state.owner_at[&expected.version].clone(),
            before,
            attempt: record.labels.get(ATTEMPT).map_or(0, |attempt| attempt.parse().unwrap()),
            change: change.clone(),
        };
        state.log.push(happened);
        Ok(state.put(record))
    }

    fn delete(&self, key: &Key, expected: &Precondition) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap();
        let record = state.jobs.get(key).cloned().ok_or(StoreError::NotFound)?;
        if record.precondition() != *expected && self.flaw != Flaw::Unguarded {
            return Err(StoreError::Conflict);
        }
        let base_owner = state.owner_at[&expected.version].clone();
        let before = record.owner().map(String::from);
        state.log.push(Happened::Deleted { uid: record.uid.clone(), base_owner, before });
        state.remove(key, &record.uid);
        Ok(())
    }

    fn file(&self, record: NewRecord) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap();
        if state.history.contains_key(&record.key) && self.flaw != Flaw::ForgetfulHistory {
            return Err(StoreError::AlreadyExists);
        }
        state.version += 1;
        let uid = format!("uid-{}", state.version);
        state.log.push(Happened::Filed {
            uid: record.labels[ORIGINAL_UID].clone(),
            state: record.status["state"].as_str().unwrap_or_default().to_owned(),
        });
        state.history.insert(record.key.clone(), Filed { record, uid, created: now() });
        Ok(())
    }
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (field, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(field);
        } else {
            merge(&mut target[field], value);
        }
    }
}

/// The store's clock, which follows tokio's.
pub(crate) fn now() -> Timestamp {
    thread_local! { static START: std::cell::RefCell<Option<Instant>> = const { std::cell::RefCell::new(None) }; }
    let start = START.with_borrow_mut(|start| *start.get_or_insert_with(Instant::now));
    let elapsed = SignedDuration::try_from(Instant::now().saturating_duration_since(start)).unwrap();
    Timestamp::from_second(1_800_000_000).unwrap() + elapsed
}

/// How often things go wrong on the way to the store, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Odds {
    pub(crate) request_lost: u32,
    pub(crate) answer_lost: u32,
    pub(crate) crash_before_write: u32,
    pub(crate) crash_after_write: u32,
    /// A request is under way for longer than a lease lasts.
    pub(crate) stuck: u32,
    pub(crate) event_lost: u32,
}

/// One incarnation of a replica, as far as the world can hurt it.
pub(crate) struct Fate {
    rng: Mutex<StdRng>,
    odds: Odds,
    /// No more faults anywhere.
    pub(crate) calm: Arc<AtomicBool>,
    pub(crate) crashed: CancellationToken,
    paused_until: Mutex<Instant>,
    /// Crashes at this write: its number from 0, and whether it is still applied.
    crash_at: Option<(usize, bool)>,
    writes: Mutex<usize>,
}

impl Fate {
    pub(crate) fn new(seed: u64, odds: Odds, calm: Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self {
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            odds,
            calm,
            crashed: CancellationToken::new(),
            paused_until: Mutex::new(Instant::now()),
            crash_at: None,
            writes: Mutex::new(0),
        })
    }

    pub(crate) fn crashing_at(write: usize, applied: bool) -> Arc<Self> {
        let calm = Arc::default();
        let fate = Arc::into_inner(Self::new(0, Odds::default(), calm)).unwrap();
        Arc::new(Self { crash_at: Some((write, applied)), ..fate })
    }

    pub(crate) fn pause(&self, length: Duration) {
        *self.paused_until.lock().unwrap() = Instant::now() + length;
    }

    pub(crate) fn paused_until(&self) -> Option<Instant> {
        let until = *self.paused_until.lock().unwrap();
        (until > Instant::now()).then_some(until)
    }

    pub(crate) fn chance(&self, percent: u32) -> bool {
        !self.calm.load(Ordering::Relaxed) && self.rng.lock().unwrap().random_range(0..100) < percent
    }

    pub(crate) fn millis(&self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.lock().unwrap().random_range(range))
    }

    pub(crate) fn event_lost(&self) -> bool {
        self.chance(self.odds.event_lost)
    }

    async fn while_paused(&self) {
        while let Some(until) = self.paused_until() {
            sleep_until(until).await;
        }
    }

    async fn crash(&self) {
        self.crashed.cancel();
        self.dead().await;
    }

    async fn dead(&self) {
        if self.crashed.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }
}

/// A replica's way to the store.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) server: Arc<Server>,
    pub(crate) fate: Arc<Fate>,
}

impl Client {
    pub(crate) fn reliable(server: &Arc<Server>) -> Arc<dyn Store> {
        let fate = Fate::new(0, Odds::default(), Arc::default());
        Arc::new(Self { server: Arc::clone(server), fate })
    }

    async fn call<T>(
        &self,
        write: bool,
        apply: impl FnOnce(&Server) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let fate = &self.fate;
        fate.while_paused().await;
        sleep(fate.millis(1..20)).await;
        if fate.chance(fate.odds.stuck) {
            sleep(fate.millis(1_000..150_000)).await;
        }
        fate.dead().await;
        if fate.chance(fate.odds.request_lost) {
            return Err(lost());
        }
        let number = *fate.writes.lock().unwrap();
        if write {
            *fate.writes.lock().unwrap() += 1;
            if fate.crash_at == Some((number, false)) || fate.chance(fate.odds.crash_before_write) {
                fate.crash().await;
            }
        }
        let answer = apply(&self.server);
        if write && (fate.crash_at == Some((number, true)) || fate.chance(fate.odds.crash_after_write)) {
            fate.crash().await;
        }
        sleep(fate.millis(1..20)).await;
        fate.while_paused().await;
        fate.dead().await;
        if fate.chance(fate.odds.answer_lost) { Err(lost()) } else { answer }
    }
}

fn lost() -> StoreError {
    StoreError::Unavailable("lost on the way".into())
}

#[async_trait]
impl Store for Client {
    async fn get(&self, key: &Key) -> Result<Record, StoreError> {
        self.call(false, |server| server.get(key)).await
    }

    async fn list(&self) -> Result<Vec<Record>, StoreError> {
        self.call(false, |server| Ok(server.jobs())).await
    }

    async fn list_claimed(&self, namespace: &str) -> Result<Vec<Record>, StoreError> {
        self.call(false, |server| Ok(server.claimed(namespace))).await
    }

    async fn patch(&self, key: &Key, expected: &Precondition, change: &Change) -> Result<Record, StoreError> {
        self.call(true, |server| server.patch(key, expected, change)).await
    }

    async fn delete(&self, key: &Key, expected: &Precondition) -> Result<(), StoreError> {
        self.call(true, |server| server.delete(key, expected)).await
    }

    async fn history_create(&self, record: NewRecord) -> Result<(), StoreError> {
        self.call(true, |server| server.file(record)).await
    }

    async fn history_contains(&self, key: &Key) -> Result<bool, StoreError> {
        self.call(false, |server| Ok(server.state.lock().unwrap().history.contains_key(key))).await
    }

    async fn history_page(&self, next: Option<String>) -> Result<HistoryPage, StoreError> {
        self.call(false, |server| Ok(server.history_page(next.as_deref()))).await
    }

    async fn history_delete(&self, key: &Key, uid: &str) -> Result<(), StoreError> {
        self.call(true, |server| {
            let mut state = server.state.lock().unwrap();
            let found = state.history.get(key).ok_or(StoreError::NotFound)?;
            if found.uid != uid {
                return Err(StoreError::Conflict);
            }
            state.history.remove(key);
            Ok(())
        })
        .await
    }
}
