//! What was counted, kept in the cluster: the durable memory that makes "counted once" true.
//!
//! For each Kustomization's UID the ledger holds which revisions were applied and are pending, which are accounted for, and
//! the cumulative series themselves: histograms, counters, the last applied commit. One write, guarded by the `resourceVersion` that it was made from, moves
//! all of it together. So a crash before the write changed nothing, a crash after it loses nothing, and whoever leads next
//! goes on with the same series.
//!
//! It is a head and up to 128 shards, all of them `ConfigMap`s in the tracker's namespace; a UID's hash says which shard its
//! entry is in ([`format`]). Records of many callers that wait for the same shard go in one write (`shard`). A write
//! without an answer is not taken for a failure, nor for a success: the shard is read again, and says which write is in it
//! (`write`). When somebody else wrote, the ledger is [lost](Ledger::lost): it answers nothing but errors from then on,
//! and has to be opened again by whoever leads then.
//!
//! It knows neither where commits come from nor how series are exported.

mod deleted;
mod entry;
mod error;
mod format;
mod open;
mod shard;
mod write;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use tokio::sync::{Semaphore, oneshot, watch};
use uuid::Uuid;
use windlass_runtime::Clock;

use self::deleted::DeletedEntries;
pub use self::entry::{
    Accounted, CommitCounts, Entry, FRONTIER, LastApplied, Outcome, Pending, Record, mark, mark_of,
};
pub use self::error::{LedgerError, Refusal};
use self::format::Head;
use self::shard::{PendingWrite, Shard};

/// How many shards are written at a time.
const WRITES: usize = 8;

/// Where the ledger is, and how patient it is.
#[derive(Clone, Debug)]
pub struct LedgerConfig {
    /// The name of its head; shards append `-00` to `-7f`.
    pub name: String,
    /// How long one request may take.
    pub call_deadline: Duration,
    /// How long a write is tried, while its outcome is not known or the server is not there, before the ledger is lost.
    pub write_deadline: Duration,
    /// How long a write waits for further records. The only delay of a record when there is no other.
    pub gather: Duration,
    /// How long what is forgotten is shown when nobody takes it. Prometheus looks back as long for a series that ended.
    pub show_deleted_for: Duration,
    /// Tells when the ledger and its entries begin.
    pub clock: Arc<dyn Clock>,
}

impl LedgerConfig {
    /// The ledger `flux-commit-tracker-ledger`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            name: "flux-commit-tracker-ledger".to_owned(),
            call_deadline: Duration::from_secs(5),
            write_deadline: Duration::from_secs(30),
            gather: Duration::from_millis(10),
            show_deleted_for: Duration::from_mins(5),
            clock,
        }
    }
}

/// The ledger, as one leader has it in its hands. Clones share it.
#[derive(Clone, Debug)]
pub struct Ledger {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// None where it is kept in memory alone.
    api: Option<Api<ConfigMap>>,
    namespace: String,
    config: LedgerConfig,
    head: Head,
    shards: Box<[Shard]>,
    deleted: Mutex<DeletedEntries>,
    writes: Semaphore,
    lost: watch::Sender<Option<Arc<str>>>,
}

impl Ledger {
    /// Opens the ledger in `namespace`, and begins it where there is none. `client` has to be guarded by the term
    /// ([`windlass_runtime::Term::guard`]): no other process may write meanwhile.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or is of a later format; nothing is changed then.
    pub async fn open(client: Client, namespace: &str, config: LedgerConfig) -> Result<Self, LedgerError> {
        let api = Api::namespaced(client, namespace);
        let (head, shards) = open::open(&api, namespace, &config).await?;
        let ledger = Self::of(Some(api), namespace, config, head, shards);
        for (key, _) in ledger.entries().into_iter().filter(|(key, _)| format::is_former(key)) {
            ledger.forget(&key);
        }
        Ok(ledger)
    }

    /// A ledger that nobody writes down: it begins now and ends with this process.
    pub fn in_memory(config: LedgerConfig) -> Self {
        let head =
            Head { identity: Uuid::new_v4().to_string(), began: open::whole_second(config.clock.now()) };
        let shards = (0..format::SHARDS).map(|_| Shard::default()).collect();
        Self::of(None, "", config, head, shards)
    }

    fn of(
        api: Option<Api<ConfigMap>>,
        namespace: &str,
        config: LedgerConfig,
        head: Head,
        shards: Box<[Shard]>,
    ) -> Self {
        let (lost, _) = watch::channel(None);
        let writes = Semaphore::new(WRITES);
        let (namespace, deleted) = (namespace.to_owned(), Mutex::default());
        Self { inner: Arc::new(Inner { api, namespace, config, head, shards, deleted, writes, lost }) }
    }

    /// When the ledger was begun: commits from before are baseline.
    pub fn began(&self) -> Timestamp {
        self.inner.head.began
    }

    /// The ledger's own UUID: the instance of its series, whichever process exports them.
    pub fn identity(&self) -> &str {
        &self.inner.head.identity
    }

    /// What is remembered of a Kustomization.
    pub fn entry(&self, uid: &str) -> Option<Arc<Entry>> {
        self.inner.shard(uid).lock().entry(uid)
    }

    /// How many Kustomizations are remembered.
    pub fn len(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Whether no Kustomization is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Remembers; answered when it is on the API server. Many at once cost one write a shard.
    ///
    /// A caller that stops waiting does not take the record back.
    ///
    /// # Errors
    /// Nothing of the record is remembered, but for [`LedgerError::Lost`]: then the ledger says when it is opened again.
    pub async fn record(&self, record: Record) -> Result<(), LedgerError> {
        match self.enqueue(record).await {
            Ok(answer) => answer,
            // The task that writes is gone, and what it did is not known.
            Err(_) => Err(self.inner.lose("the task that writes it ended")),
        }
    }

    /// Remembers soon: with whatever is recorded next, if that is at once.
    pub fn enqueue(&self, record: Record) -> oneshot::Receiver<Result<(), LedgerError>> {
        let (answer, answered) = oneshot::channel();
        let shard = format::shard_of(&record.uid);
        self.inner.ask(shard, PendingWrite::Record(Box::new(record), answer));
        answered
    }

    /// Every UID with what is remembered of it now, in no order. Shared, not copied: it stays as it is while others record.
    pub fn entries(&self) -> Vec<(Box<str>, Arc<Entry>)> {
        self.inner.shards.iter().flat_map(|shard| shard.lock().entries()).collect()
    }

    /// Waits until nothing can be recorded any more: somebody else writes, or the outcome of a write is not known. What is
    /// remembered here stays readable, and is not the newest any more.
    pub async fn lost(&self) -> LedgerError {
        let mut lost = self.inner.lost.subscribe();
        let why = lost.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        LedgerError::Lost(why.unwrap_or_else(|| "it was closed".into()))
    }

    /// Whether nothing can be recorded any more.
    pub fn is_lost(&self) -> bool {
        self.inner.lost.borrow().is_some()
    }
}

impl Inner {
    fn shard(&self, uid: &str) -> &Shard {
        &self.shards[usize::from(format::shard_of(uid))]
    }

    /// Marks the ledger lost, for the first reason that there was.
    fn lose(&self, why: impl Into<Arc<str>>) -> LedgerError {
        let mut why = why.into();
        self.lost.send_if_modified(|lost| match lost {
            Some(first) => {
                why = first.clone();
                false
            }
            None => {
                *lost = Some(why.clone());
                true
            }
        });
        LedgerError::Lost(why)
    }

    /// Why the ledger is lost, if it is.
    fn why_lost(&self) -> Option<LedgerError> {
        self.lost.borrow().clone().map(LedgerError::Lost)
    }

    /// Namespace and name of a shard's `ConfigMap`.
    fn full_name(&self, shard: u8) -> String {
        format!("{}/{}", self.namespace, shard_name(&self.config.name, shard))
    }
}

fn shard_name(ledger: &str, shard: u8) -> String {
    format!("{ledger}-{shard:02x}")
}

impl Shard {
    fn lock(&self) -> std::sync::MutexGuard<'_, shard::State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
