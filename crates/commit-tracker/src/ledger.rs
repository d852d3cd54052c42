//! What was counted, kept in the cluster: the durable memory that makes "counted once" true.
//!
//! For each Kustomization's UID the ledger holds which revisions were applied and are pending, which are accounted for,
//! and the cumulative series themselves: histograms, counters, the last applied commit. One write, guarded by the
//! `resourceVersion` that it was made from, moves all of it together. So a crash before the write changed nothing, a
//! crash after it loses nothing, and whoever leads next goes on with the same series.
//!
//! It is a head and up to 128 shards, all of them `ConfigMap`s in the tracker's namespace; a UID's hash says which
//! shard its entry is in ([`format`]). Records of many callers that wait for the same shard go in one write (`shard`).
//! A write without an answer is not taken for a failure, nor for a success: it is sent again with the same guard, and
//! where that is in conflict the shard says which write is in it (`write`). When somebody else wrote, the ledger is
//! [lost](Ledger::lost): it answers nothing but errors from then on, and has to be opened again by whoever leads then.
//!
//! It knows neither where commits come from nor how series are exported.

mod config;
mod deleted;
mod entry;
mod error;
mod format;
mod inner;
mod open;
mod shard;
mod write;

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Api, Client};
use tokio::sync::oneshot;
use uuid::Uuid;

pub use self::config::LedgerConfig;
pub use self::entry::{CommitCounts, Entry, FRONTIER, LastApplied, Outcome, Pending, Record, mark, mark_of};
pub use self::error::{LedgerError, Refusal};
use self::format::Head;
use self::inner::Inner;
use self::shard::{PendingWrite, Shard};
pub use crate::changes::Accounted;

/// The ledger, as one leader has it in its hands. Clones share it.
#[derive(Clone, Debug)]
pub struct Ledger {
    inner: Arc<Inner>,
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
        let ledger = Self { inner: Arc::new(Inner::new(Some(api), namespace, config, head, shards)) };
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
        Self { inner: Arc::new(Inner::new(None, "", config, head, shards)) }
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
        self.inner.shard(uid).lock().slots.get(uid).map(|slot| Arc::clone(&slot.entry))
    }

    /// How many Kustomizations are remembered.
    pub fn len(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.lock().slots.len()).sum()
    }

    /// Whether no Kustomization is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Remembers, from the call on; answered when it is on the API server. Many at once cost one write a shard.
    ///
    /// A caller that stops waiting does not take the record back.
    ///
    /// # Errors
    /// Nothing of the record is remembered, but for [`LedgerError::Lost`]: then the ledger says when it is opened again.
    pub fn record(&self, record: Record) -> impl Future<Output = Result<(), LedgerError>> {
        let (answer, answered) = oneshot::channel();
        self.queue(record, Some(answer));
        // Without an answer the task that writes is gone, and what it did is not known.
        async move { answered.await.unwrap_or_else(|_| Err(self.inner.lose("the task that writes it ended"))) }
    }

    /// Remembers soon, with whatever is recorded next, if that is within a moment.
    pub fn note(&self, record: Record) {
        self.queue(record, None);
    }

    fn queue(&self, record: Record, answer: Option<oneshot::Sender<Result<(), LedgerError>>>) {
        self.inner.ask(format::shard_of(&record.uid), PendingWrite::Record(Box::new(record), answer));
    }

    /// Every UID with what is remembered of it now, in no order. Shared, not copied: it stays as it is while others record.
    pub fn entries(&self) -> Vec<(Arc<str>, Arc<Entry>)> {
        let entries = |shard: &Shard| {
            let slots = &shard.lock().slots;
            slots.iter().map(|(uid, slot)| (Arc::clone(uid), Arc::clone(&slot.entry))).collect::<Vec<_>>()
        };
        self.inner.shards.iter().flat_map(entries).collect()
    }

    /// Forgets a Kustomization that was deleted. It is [shown](Ledger::deleted) until that was [taken](Ledger::taken), or
    /// nobody did for long enough, and leaves the cluster with a later write.
    pub fn forget(&self, uid: &str) {
        self.inner.retire(uid);
    }

    /// Every UID that was forgotten, with what was remembered of it, the first to be forgotten first.
    pub fn deleted(&self) -> Vec<(Arc<str>, Arc<Entry>)> {
        self.inner.evict(&[]);
        let newest = |(uid, entry): (Arc<str>, Arc<Entry>)| {
            // A record of it may have been on its way still.
            let entry = self.entry(&uid).unwrap_or(entry);
            (uid, entry)
        };
        self.inner.deleted.all().into_iter().map(newest).collect()
    }

    /// Somebody has what was remembered of these: they need not be shown any more.
    pub fn taken(&self, uids: &[Arc<str>]) {
        self.inner.evict(uids);
    }

    /// Waits until nothing can be recorded any more: somebody else writes, or the outcome of a write is not known. What is
    /// remembered here stays readable, and is not the newest any more.
    pub async fn lost(&self) -> LedgerError {
        self.inner.lost().await
    }

    /// Whether nothing can be recorded any more.
    pub fn is_lost(&self) -> bool {
        self.inner.why_lost().is_some()
    }
}
