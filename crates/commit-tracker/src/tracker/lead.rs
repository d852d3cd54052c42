//! Working while this process leads. One that stands by watches, and begins where it takes over.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{Backoff, BackoffPolicy, Clock, Event, Leadership, LogOnChange, Store, Term};
use windlass_telemetry::{ErrorChain, Health, Metrics};

use super::metrics::ProcessMetrics;
use super::queue::{Task, Tasks};
use super::sources::Sources;
use super::state::States;
use crate::changes::ChangesResolver;
use crate::facts::source_of;
use crate::ledger::{Ledger, LedgerConfig, LedgerError};
use crate::objects::Kustomization;
use crate::report::Reporter;
use crate::select::Selected;

/// How long looks that are under way may take at the end; either way nothing is lost or counted twice.
const GRACE: Duration = Duration::from_secs(2);

/// How long the last export may take, with the Lease held.
const FLUSH: Duration = Duration::from_secs(5);

/// What the exporter sees: the ledger of the term that goes on, if one does. Clones share it.
#[derive(Clone, Default)]
pub struct Leading {
    led: Arc<Mutex<Option<LedTerm>>>,
}

/// A term with its ledger.
#[derive(Clone)]
pub struct LedTerm {
    /// What was counted.
    pub ledger: Ledger,
    /// The time in which this process speaks for the ledger.
    pub term: Term,
    /// What is known of each Kustomization besides.
    pub states: Arc<States>,
}

/// Nobody speaks for the ledger any more once this is dropped.
struct TermGuard(Leading);

impl Leading {
    /// The ledger, if this process leads at this moment and its ledger is the newest there is.
    pub fn current(&self) -> Option<LedTerm> {
        let led = self.led.lock().unwrap_or_else(PoisonError::into_inner).clone();
        led.filter(|led| led.term.holds() && !led.ledger.is_lost())
    }

    fn set(&self, led: Option<LedTerm>) {
        *self.led.lock().unwrap_or_else(PoisonError::into_inner) = led;
    }
}

impl Drop for TermGuard {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// What a tracker works with, term by term.
pub(crate) struct Tracker {
    pub(crate) client: Client,
    /// Namespace of the ledger.
    pub(crate) namespace: String,
    pub(crate) ledger: LedgerConfig,
    /// Nothing is written to the cluster.
    pub(crate) observes: bool,
    pub(crate) selected: Selected,
    pub(crate) kustomizations: Store<Kustomization>,
    pub(crate) sources: Arc<Sources>,
    pub(crate) tasks: Tasks,
    pub(crate) ask: ChangesResolver,
    /// Whether the Secrets of sources are read.
    pub(crate) source_secrets: bool,
    pub(crate) leadership: Leadership,
    pub(crate) leading: Leading,
    pub(crate) health: Health,
    pub(crate) metrics: ProcessMetrics,
    /// Where what the ledger says is exported.
    pub(crate) exported: Metrics,
    pub(crate) reporter: Reporter,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The work of one term over one ledger.
pub(crate) struct Work {
    pub(super) tracker: Arc<Tracker>,
    pub(super) ledger: Ledger,
    pub(super) states: Arc<States>,
    /// Since when this process looks.
    pub(super) looking: jiff::Timestamp,
    /// Why the last record was not taken.
    pub(super) unrecorded: Mutex<LogOnChange>,
}

impl Tracker {
    /// Takes in what the watch of Kustomizations saw.
    pub(crate) fn tell(&self, event: &Event<Kustomization>) {
        match event {
            Event::Applied { old, new } => {
                let key = &new.metadata.key;
                let before = old.as_deref().and_then(source_of);
                self.sources.follow(key, before.as_ref(), source_of(new).as_ref());
                self.tasks.add(Task::Reconcile(Arc::clone(key)));
            }
            Event::Deleted(gone) => {
                let key = &gone.metadata.key;
                self.sources.follow(key, source_of(gone).as_ref(), None);
                self.tasks.forget(&Task::Reconcile(Arc::clone(key)));
                self.tasks.add(Task::Forget(Arc::clone(key), gone.metadata.uid.clone()));
            }
            Event::Synced => {}
        }
    }

    /// Works whenever this process leads, until `shutdown`.
    pub(crate) async fn run(self: Arc<Self>, shutdown: &CancellationToken) {
        self.leadership.lead(shutdown, |term| self.lead(term, shutdown)).await;
    }

    /// Works over the ledger; one that is lost is opened again.
    async fn lead(self: &Arc<Self>, term: Term, shutdown: &CancellationToken) {
        let component = self.health.component("ledger");
        let (mut backoff, mut failing) = (Backoff::new(BackoffPolicy::CONNECTION), LogOnChange::default());
        while !shutdown.is_cancelled() {
            component.not_ready("the ledger is not open yet");
            match shutdown.run_until_cancelled(self.open(&term)).await {
                None => return,
                Some(Ok(ledger)) => {
                    backoff.reset();
                    failing.clear();
                    component.ready();
                    self.work(&term, ledger, shutdown).await;
                }
                Some(Err(error)) => {
                    let text = ErrorChain(&error).to_string();
                    if failing.is_new(&text) {
                        tracing::error!(
                            error = text,
                            "the ledger cannot be opened, trying again until it works"
                        );
                    }
                    component.not_ready(text);
                }
            }
            shutdown.run_until_cancelled(sleep(backoff.delay())).await;
        }
    }

    async fn open(&self, term: &Term) -> Result<Ledger, LedgerError> {
        let config = self.ledger.clone();
        if self.observes {
            return Ok(Ledger::in_memory(config));
        }
        Ledger::open(term.guard(&self.client), &self.namespace, config).await
    }

    /// Works over one ledger, until it is lost, or `shutdown`.
    async fn work(self: &Arc<Self>, term: &Term, ledger: Ledger, shutdown: &CancellationToken) {
        let work = Arc::new(Work {
            tracker: Arc::clone(self),
            ledger: ledger.clone(),
            states: Arc::default(),
            looking: self.clock.now(),
            unrecorded: Mutex::default(),
        });
        let known =
            || self.kustomizations.list().iter().map(|known| Arc::clone(&known.metadata.key)).collect();
        let tasks = self.tasks.begin(known);
        let led = LedTerm { ledger: ledger.clone(), term: term.clone(), states: Arc::clone(&work.states) };
        self.leading.set(Some(led));
        let _speaking = TermGuard(self.leading.clone());
        tracing::info!(
            kustomizations = self.kustomizations.len(),
            remembered = ledger.len(),
            began = %ledger.began(),
            "tracking {}",
            self.selected
        );
        let worker = Arc::clone(&work);
        let look = move |task| {
            let work = Arc::clone(&worker);
            async move { work.perform(task).await }
        };
        let looks = self.metrics.reconciles.run(tasks.queue.clone(), shutdown.clone(), look);
        let grace = async {
            shutdown.cancelled().await;
            sleep(GRACE).await;
        };
        let looks = async { tokio::join!(looks, shutdown.run_until_cancelled(work.sweep())) };
        tokio::select! {
            biased;
            error = ledger.lost() => {
                tracing::warn!(error = %ErrorChain(&error), "opening the ledger again");
            }
            () = grace => {}
            _ = looks => {}
        }
        if shutdown.is_cancelled() {
            // While the Lease is held still: what was counted last is exported by whoever counted it.
            if let Err(error) = self.exported.flush_sources(FLUSH).await {
                tracing::warn!(error = %ErrorChain(&error), "what was counted last is exported by the next leader");
            }
        }
    }
}

impl Work {
    /// Once all Kustomizations are known: whoever is remembered and not among them may be gone.
    async fn sweep(&self) {
        let kustomizations = &self.tracker.kustomizations;
        kustomizations.synced().await;
        let listed = kustomizations.list();
        let known: HashSet<&str> = listed.iter().map(|kustomization| &*kustomization.metadata.uid).collect();
        for (uid, entry) in self.ledger.entries() {
            if !known.contains(&*uid) {
                let key = Arc::clone(&entry.key);
                self.tracker.tasks.add(Task::Forget(key, uid));
            }
        }
    }
}
