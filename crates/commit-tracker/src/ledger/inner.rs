//! What all handles of a ledger share: its shards, and the tasks that write them.

use std::mem;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::config::LedgerConfig;
use super::deleted::DeletedEntries;
use super::error::LedgerError;
use super::format::{Head, is_former, shard_of};
use super::shard::{LIMIT, PendingWrite, Shard};
use super::write::Write;

/// How many shards are written at a time.
const WRITES: usize = 8;

#[derive(Debug)]
pub(super) struct Inner {
    /// None where it is kept in memory alone.
    pub(super) api: Option<Api<ConfigMap>>,
    pub(super) namespace: String,
    pub(super) config: LedgerConfig,
    pub(super) head: Head,
    pub(super) shards: Box<[Shard]>,
    pub(super) deleted: DeletedEntries,
    writes: Semaphore,
    lost: watch::Sender<Option<Arc<str>>>,
}

impl Inner {
    pub(super) fn new(
        api: Option<Api<ConfigMap>>,
        namespace: &str,
        config: LedgerConfig,
        head: Head,
        shards: Box<[Shard]>,
    ) -> Self {
        let (writes, lost) = (Semaphore::new(WRITES), watch::Sender::default());
        let (namespace, deleted) = (namespace.to_owned(), DeletedEntries::default());
        Self { api, namespace, config, head, shards, deleted, writes, lost }
    }

    pub(super) fn shard(&self, uid: &str) -> &Shard {
        &self.shards[usize::from(shard_of(uid))]
    }

    /// Marks the ledger lost, for the first reason that there was.
    pub(super) fn lose(&self, why: impl Into<Arc<str>>) -> LedgerError {
        let why = why.into();
        self.lost.send_if_modified(|lost| {
            let is_first = lost.is_none();
            lost.get_or_insert_with(|| Arc::clone(&why));
            is_first
        });
        self.why_lost().unwrap_or(LedgerError::Lost(why))
    }

    /// Why the ledger is lost, if it is.
    pub(super) fn why_lost(&self) -> Option<LedgerError> {
        self.lost.borrow().clone().map(LedgerError::Lost)
    }

    pub(super) async fn lost(&self) -> LedgerError {
        // The sender is here.
        let _ = self.lost.subscribe().wait_for(Option::is_some).await;
        self.why_lost().unwrap_or_else(|| LedgerError::Lost("it was closed".into()))
    }

    /// Namespace and name of a shard's `ConfigMap`.
    pub(super) fn full_name(&self, shard: u8) -> String {
        format!("{}/{}", self.namespace, self.config.shard_name(shard))
    }

    /// Shows what is remembered under this key only until somebody took it.
    pub(super) fn retire(self: &Arc<Self>, key: &str) {
        self.evict(&[]);
        let removed = self.shard(key).lock().slots.remove_entry(key);
        if let Some((key, slot)) = removed {
            self.deleted.add(key, slot.entry, Instant::now() + self.config.show_deleted_for);
        }
    }

    /// Lets these go, and those that nobody took for long enough.
    pub(super) fn evict(self: &Arc<Self>, taken: &[Arc<str>]) {
        for uid in self.deleted.evict(taken) {
            self.ask(shard_of(&uid), PendingWrite::Forget(uid));
        }
    }

    /// Queues `ask`, and sees to it that somebody writes.
    pub(super) fn ask(self: &Arc<Self>, number: u8, ask: PendingWrite) {
        let shard = &self.shards[usize::from(number)];
        let mut state = shard.lock();
        state.queue.push(ask);
        if state.is_awaited() {
            shard.hurry.notify_one();
        }
        if !mem::replace(&mut state.is_written, true) {
            tokio::spawn(self.clone().write_all(number));
        }
    }

    /// Writes what is queued for a shard until nothing is.
    async fn write_all(self: Arc<Self>, number: u8) {
        let shard = &self.shards[usize::from(number)];
        loop {
            shard.gather(&self.config).await;
            // Never closed. What is asked for while others write is written with the rest.
            let _turn = self.writes.acquire().await;
            let asks = mem::take(&mut shard.lock().queue);
            let left = self.write_once(number, asks).await;
            let mut state = shard.lock();
            let is_done = state.queue.is_empty();
            // What is to be forgotten yet is left for the next write; sooner it would fail as this one did.
            state.queue.extend(left.into_iter().map(PendingWrite::Forget));
            if is_done {
                state.is_written = false;
                return;
            }
        }
    }

    /// Writes `asks` together and answers them. What was to be forgotten comes back when it is not.
    async fn write_once(self: &Arc<Self>, number: u8, asks: Vec<PendingWrite>) -> Vec<Arc<str>> {
        let (shard, header) = (&self.shards[usize::from(number)], self.header());
        let (changed, answers, base, bytes) = {
            let state = shard.lock();
            let (changed, answers) = state.stage(asks, self.config.clock.now());
            let bytes = state.bytes_after(&changed, &header.text());
            (changed, answers, state.version.clone(), bytes)
        };
        let outcome = if let Some(lost) = self.why_lost() {
            Err(lost)
        } else if changed.is_empty() {
            Ok(None)
        } else if bytes > LIMIT {
            Err(LedgerError::Full { config_map: self.full_name(number), bytes, limit: LIMIT })
        } else {
            let values =
                changed.iter().map(|(uid, next)| (&**uid, next.as_ref().map(|(_, text)| text.as_str())));
            let write = Write { shard: number, base: base.as_deref(), header, values: values.collect() };
            self.write(&write).await.map(Some)
        };
        let mut left = Vec::new();
        let answer = match outcome {
            Ok(Some(version)) => {
                let former: Vec<_> = changed.keys().filter(|key| is_former(key)).cloned().collect();
                shard.lock().commit(changed, version);
                for key in &former {
                    self.retire(key);
                }
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                if !error.is_lost() {
                    left.extend(changed.into_iter().filter(|(_, next)| next.is_none()).map(|(uid, _)| uid));
                }
                Err(error)
            }
        };
        for waiting in answers {
            let _ = waiting.send(answer.clone());
        }
        left
    }
}
