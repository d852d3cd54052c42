//! The one way to follow a collection of API objects.
//!
//! [`Watch::run`] lists the collection by pages, then watches it from that version on, and tells a handler what
//! changed. Whatever goes wrong (an unreachable server, a broken or silent connection, a version that is no
//! longer kept) ends in another attempt after this watch's own back-off; after a new list, the handler is told
//! the difference to what it knew, deletions included.
//!
//! `kube::runtime::watcher` serves programs that look on (the demo, tests). A controller needs what it does not do; each
//! point has its test beside this file:
//!
//! - An object that cannot be read is named and skipped, and the others go on; there it is an error of the whole stream
//!   (`an_object_that_cannot_be_read_is_skipped_with_one_line_that_names_it`).
//! - A half-open connection is found dead a margin after the time at which the server was to end it
//!   (`a_half_open_connection_is_noticed_after_its_limit_and_margin`).
//! - Liveness follows signs of life of the server, readiness follows failures in a row
//!   (`liveness_follows_signs_of_life_of_the_server`).
//! - A list is read item by item, so that no page of it is in memory as text, may take long and not be silent
//!   (`a_server_that_sends_a_list_slowly_is_alive_and_one_that_falls_silent_is_not`), and is one state although a
//!   compaction overtakes it (`a_list_that_is_overtaken_by_a_compaction_is_read_in_one_page`).
//! - After another list the handler is told the difference, with what was known before
//!   (`a_version_that_is_gone_leads_to_a_new_list_and_the_difference_is_told`).
//! - The back-off starts over when a connection came further than the last one, not when it was merely opened
//!   (`connections_that_end_at_once_are_made_again_with_growing_delays`).
//! - A kind that is not served is explained, and taken up when it appears
//!   (`a_kind_that_is_not_served_is_named_and_taken_up_when_it_appears`).

mod collection;
mod config;
mod connection;
mod served;
mod store;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use windlass_telemetry::{ComponentHandle, ErrorChain, Health, ProgressHandle};

use self::collection::Collection;
pub use self::config::WatchConfig;
use self::connection::{Change, Connection, WatchError};
pub(crate) use self::served::APPLY;
pub use self::store::{ObjectKey, Store, Watched};
use crate::Backoff;
use crate::log_on_change::LogOnChange;

/// A connection that lasted this long was a working one, even if nothing happened on it.
const SETTLED: Duration = Duration::from_secs(5);

/// The process is not ready after this many failed attempts in a row.
const FAILURES_BEFORE_NOT_READY: u32 = 3;

/// What happened to an object, or to the watch.
#[derive(Debug)]
pub enum Event<K> {
    /// An object was created or changed, or is told again by a resync (`old` and `new` are then the same `Arc`).
    Applied {
        /// The version that was known before.
        old: Option<Arc<K>>,
        /// The current version.
        new: Arc<K>,
    },
    /// An object is gone; this is its last known version.
    Deleted(Arc<K>),
    /// The store holds all that a list held: after the first list, and after each further one.
    Synced,
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Applied { old, new } => Self::Applied { old: old.clone(), new: Arc::clone(new) },
            Self::Deleted(object) => Self::Deleted(Arc::clone(object)),
            Self::Synced => Self::Synced,
        }
    }
}

/// A watch that is ready to run.
pub struct Watch<K> {
    client: Client,
    url: String,
    config: WatchConfig,
    collection: Collection<K>,
}

impl<K> Watch<K>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    /// A watch over what `api` is scoped to.
    pub fn new(api: Api<K>, config: WatchConfig) -> Self {
        Self::reading(api, config)
    }
}

impl<K> Watch<K>
where
    K: Watched + DeserializeOwned + Send + Sync + 'static,
{
    /// A watch over what `api` is scoped to, reading of each object what `K` keeps of it.
    pub fn reading<R: Resource>(api: Api<R>, config: WatchConfig) -> Self {
        let collection = Collection::new(config.name.clone());
        let url = api.resource_url().to_owned();
        Self { client: api.into_client(), url, config, collection }
    }

    /// The objects as the watch knows them, kept current while it runs.
    pub fn store(&self) -> Store<K> {
        self.collection.store()
    }

    /// Runs until `shutdown`.
    ///
    /// The store is current before `handler` is told of a change. The handler must not block: it is called on the
    /// watch's own task. The process is ready after the first list, and not while attempts keep failing.
    pub async fn run(
        self,
        health: Health,
        shutdown: CancellationToken,
        handler: impl FnMut(Event<K>) + Send,
    ) {
        let name = format!("watch {}", self.config.name);
        let component = health.component(name.as_str());
        component.not_ready("the first list is not finished");
        let mut driver = Driver {
            progress: health.progress(name, self.config.stall_limit),
            component,
            backoff: Backoff::new(self.config.backoff),
            resync: self.config.resync.map(resync_interval),
            connection: Connection { client: self.client, url: self.url, config: self.config },
            collection: self.collection,
            version: None,
            failures: 0,
            logged: LogOnChange::default(),
            advanced: false,
            handler,
        };
        shutdown.run_until_cancelled(driver.drive()).await;
    }
}

fn resync_interval(period: Duration) -> Interval {
    // An interval of zero panics, and one that cannot be told from zero would do nothing else.
    let period = period.max(Duration::from_secs(1));
    let mut interval = tokio::time::interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

struct Driver<K, H> {
    connection: Connection,
    collection: Collection<K>,
    /// Where to go on watching; none before a list.
    version: Option<String>,
    component: ComponentHandle,
    progress: ProgressHandle,
    backoff: Backoff,
    failures: u32,
    /// What was logged of the failures since it last worked.
    logged: LogOnChange,
    /// Whether the current attempt came further than the last one.
    advanced: bool,
    resync: Option<Interval>,
    handler: H,
}

impl<K, H> Driver<K, H>
where
    K: Watched + DeserializeOwned + Send + Sync + 'static,
    H: FnMut(Event<K>) + Send,
{
    async fn drive(&mut self) {
        loop {
            self.advanced = false;
            let ended = self.attempt().await;
            if self.advanced {
                self.backoff.reset();
                self.failures = 0;
                self.works();
            }
            match ended {
                // The server ended the connection in time, as it was asked to.
                Ok(()) if self.advanced => continue,
                Ok(()) => {}
                Err(error) => self.failed(&error).await,
            }
            tokio::time::sleep(self.backoff.delay()).await;
        }
    }

    async fn failed(&mut self, error: &WatchError) {
        if error.answered() {
            self.progress.tick();
        }
        // A kind that comes back is another collection.
        if error.is_gone() || error.is_not_served() {
            self.version = None;
        }
        self.failures += 1;
        let mut text = ErrorChain(error).to_string();
        if error.is_not_served() {
            text = format!("{text}: {}", served::why_not(&self.connection).await);
        } else if error.is_lasting() {
            text.push_str("; give this account the right: see deploy/rbac");
        }
        if error.is_lasting() || self.failures >= FAILURES_BEFORE_NOT_READY {
            self.component.not_ready(text.clone());
        }
        let watched = self.collection.name();
        if error.is_gone() && self.failures == 1 {
            tracing::info!(watch = watched, "the version that was watched is no longer kept, listing again");
        } else if self.logged.is_new(&text) {
            tracing::warn!(watch = watched, error = text, "watch failed, trying again until it works");
        } else {
            tracing::debug!(watch = watched, failures = self.failures, error = text, "watch failed again");
        }
    }

    /// Lists if need be, then watches until the connection ends.
    async fn attempt(&mut self) -> Result<(), WatchError> {
        let version = match self.version.clone() {
            Some(version) => version,
            None => self.list().await?,
        };
        self.watch(version).await
    }

    async fn list(&mut self) -> Result<String, WatchError> {
        let progress = &self.progress;
        let list = self.connection.list(|| progress.tick()).await?;
        self.collection.replace(list.objects, list.undecodable, &mut self.handler);
        self.version = Some(list.version.clone());
        (self.handler)(Event::Synced);
        self.component.ready();
        self.works();
        Ok(list.version)
    }

    fn works(&mut self) {
        if self.logged.clear() {
            tracing::info!(watch = self.collection.name(), "the watch works again");
        }
    }

    async fn watch(&mut self, version: String) -> Result<(), WatchError> {
        let mut lines = self.connection.watch(&version).await?;
        self.progress.tick();
        self.component.ready();
        let connected = Instant::now();
        let dead =
            connected + self.connection.config.connection_limit + self.connection.config.connection_margin;
        loop {
            tokio::select! {
                change = lines.next::<K>() => {
                    self.progress.tick();
                    let Some(change) = change? else { break };
                    self.observe(change);
                }
                () = tick(self.resync.as_mut()) => self.collection.tell_again(&mut self.handler),
                () = tokio::time::sleep_until(dead) => {
                    self.advanced = true;
                    return Err(WatchError::Dead { after: connected.elapsed() });
                }
            }
        }
        self.advanced |= connected.elapsed() >= SETTLED;
        Ok(())
    }

    fn observe(&mut self, change: Change<K>) {
        if let Some(version) = change.version()
            && self.version.as_deref() != Some(version)
        {
            self.version = Some(version.to_owned());
            self.advanced = true;
        }
        match change {
            Change::Applied(object) => self.collection.apply(object, &mut self.handler),
            Change::Deleted { key, last, .. } => self.collection.delete(&key, last, &mut self.handler),
            Change::Undecodable(object) => self.collection.skip(object),
            Change::Bookmark { .. } => {}
        }
    }
}

async fn tick(interval: Option<&mut Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}
