//! Working while this process leads. One that stands by watches, and begins where it takes over.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{
    Backoff, BackoffPolicy, Clock, Event, KeyedQueue, Leadership, ObjectKey, Store, Term,
};
use windlass_telemetry::{ErrorChain, Health, Metrics};

use super::metrics::ReconcileMetrics;
use super::{ProcessMetrics, Sources, States};
use crate::changes::ChangesResolver;
use crate::facts::source_of;
use crate::ledger::{Ledger, LedgerConfig};
use crate::objects::Kustomization;
use crate::report::Reporter;
use crate::select::Selected;

/// How long looks that are under way may take at the end; either way nothing is lost or counted twice.
const GRACE: Duration = Duration::from_secs(2);

/// How long the last export may take, with the Lease held.
const FLUSH: Duration = Duration::from_secs(5);

/// Something to be done about a Kustomization.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    /// Look at it.
    Reconcile(Arc<ObjectKey>),
    /// The one of this UID was not seen: forget it if it is gone.
    Forget(Arc<ObjectKey>, Box<str>),
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reconcile(key) => write!(f, "look at {key}"),
            Self::Forget(key, uid) => write!(f, "forget {key} ({uid})"),
        }
    }
}

/// The queue of the term that goes on, if one does.
#[derive(Clone)]
pub(crate) struct Current {
    queue: Arc<Mutex<Option<KeyedQueue<Task>>>>,
    metrics: ReconcileMetrics,
}

impl Current {
    pub(crate) fn new(metrics: ReconcileMetrics) -> Self {
        Self { queue: Arc::default(), metrics }
    }

    pub(crate) fn add(&self, task: Task) {
        if let Some(queue) = &*self.lock() {
            self.metrics.added();
            queue.add(task);
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.lock().as_ref().map_or(0, KeyedQueue::waiting)
    }

    fn forget(&self, task: &Task) {
        if let Some(queue) = &*self.lock() {
            queue.forget(task);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<KeyedQueue<Task>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the exporter sees: the ledger of the term that goes on, if one does. Clones share it.
#[derive(Clone, Default)]
pub struct Leading {
    led: Arc<Mutex<Option<Led>>>,
}

/// A term with its ledger.
#[derive(Clone)]
pub struct Led {
    /// What was counted.
    pub ledger: Ledger,
    /// The time in which this process speaks for the ledger.
    pub term: Term,
    /// What is known of each Kustomization besides.
    pub states: Arc<States>,
}

impl Leading {
    /// The ledger, if this process leads at this moment and its ledger is the newest there is.
    pub fn current(&self) -> Option<Led> {
        let led = self.led.lock().unwrap_or_else(PoisonError::into_inner).clone();
        led.filter(|led| led.term.holds() && !led.ledger.is_lost())
    }

    fn set(&self, led: Option<Led>) {
        *self.led.lock().unwrap_or_else(PoisonError::into_inner) = led;
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
    pub(crate) sources: Sources,
    pub(crate) current: Current,
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
    /// Why the last record was not taken, as it was logged.
    pub(super) unrecorded: Mutex<Option<String>>,
}

impl Tracker {
    /// Takes in what the watch of Kustomizations saw.
    pub(crate) fn tell(&self, event: &Event<Kustomization>) {
        match event {
            Event::Applied { old, new } => {
                let key = &new.metadata.key;
                let before = old.as_deref().and_then(source_of);
                self.sources.follow(key, before.as_ref(), source_of(new).as_ref());
                self.current.add(Task::Reconcile(Arc::clone(key)));
            }
            Event::Deleted(gone) => {
                let key = &gone.metadata.key;
                self.sources.follow(key, source_of(gone).as_ref(), None);
                self.current.forget(&Task::Reconcile(Arc::clone(key)));
                self.current.add(Task::Forget(Arc::clone(key), gone.metadata.uid.clone()));
            }
            Event::Synced => {}
        }
    }

    /// Works whenever this process leads, until `shutdown`.
    pub(crate) async fn run(self: Arc<Self>, shutdown: &CancellationToken) {
        while let Some(term) = shutdown.run_until_cancelled(self.leadership.term()).await {
            self.lead(&term, shutdown).await;
            if shutdown.is_cancelled() {
                // While the Lease is held still: what was counted last is exported by whoever counted it.
                if let Err(error) = self.exported.flush_sources(FLUSH).await {
                    tracing::warn!(
                        error = %ErrorChain(&error),
                        "what was counted last is exported by the next leader"
                    );
                }
            }
            self.leading.set(None);
            if shutdown.is_cancelled() {
                return;
            }
        }
    }

    /// Works until the term is over: then everything is dropped where it is. A ledger that is lost is opened again.
    async fn lead(self: &Arc<Self>, term: &Term, shutdown: &CancellationToken) {
        let component = self.health.component("ledger");
        let mut backoff = Backoff::new(BackoffPolicy::CONNECTION);
        let mut last_logged = String::new();
        while term.holds() && !shutdown.is_cancelled() {
            component.not_ready("the ledger is not open yet");
            let open = async {
                let config = self.ledger.clone();
                if self.observes {
                    return Ok(Ledger::in_memory(config));
                }
                Ledger::open(term.guard(&self.client), &self.namespace, config).await
            };
            let opened = tokio::select! {
                biased;
                () = term.ended() => return,
                () = shutdown.cancelled() => return,
                opened = open => opened,
            };
            match opened {
                Ok(ledger) => {
                    backoff.reset();
                    last_logged.clear();
                    component.ready();
                    self.work(term, ledger, shutdown).await;
                }
                Err(error) => {
                    let text = ErrorChain(&error).to_string();
                    component.not_ready(text.clone());
                    if text != last_logged {
                        tracing::error!(
                            error = text,
                            "the ledger cannot be opened, trying again until it works"
                        );
                        last_logged = text;
                    }
                }
            }
            tokio::select! {
                () = term.ended() => return,
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(backoff.delay()) => {}
            }
        }
    }

    /// Works over one ledger, until it is lost, or the term is over, or `shutdown`.
    async fn work(self: &Arc<Self>, term: &Term, ledger: Ledger, shutdown: &CancellationToken) {
        let states = Arc::<States>::default();
        let led = Led { ledger: ledger.clone(), term: term.clone(), states: Arc::clone(&states) };
        let work = Arc::new(Work {
            tracker: Arc::clone(self),
            ledger: ledger.clone(),
            states,
            looking: self.clock.now(),
            unrecorded: Mutex::default(),
        });
        let queue = KeyedQueue::new(BackoffPolicy::OBJECT);
        // First the queue, then what is known already: nothing can fall between the two.
        *self.current.lock() = Some(queue.clone());
        for kustomization in self.kustomizations.list() {
            queue.add(Task::Reconcile(Arc::clone(&kustomization.metadata.key)));
        }
        self.leading.set(Some(led));
        tracing::info!(
            kustomizations = self.kustomizations.len(),
            remembered = ledger.len(),
            began = %ledger.began(),
            "tracking {}",
            self.selected
        );
        let (worker, janitor) = (Arc::clone(&work), Arc::clone(&work));
        let look = move |task| {
            let work = Arc::clone(&worker);
            async move { work.perform(task).await }
        };
        let looks = self.metrics.reconciles.run(queue, shutdown.clone(), look);
        let grace = async {
            shutdown.cancelled().await;
            tokio::time::sleep(GRACE).await;
        };
        let looks = async { tokio::join!(looks, shutdown.run_until_cancelled(janitor.sweep())) };
        tokio::select! {
            biased;
            () = term.ended() => {}
            error = ledger.lost() => {
                tracing::warn!(error = %ErrorChain(&error), "opening the ledger again");
            }
            () = grace => {}
            _ = looks => {}
        }
        *self.current.lock() = None;
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
                let key = Arc::new(ObjectKey::new(&*entry.namespace, &*entry.name));
                self.tracker.current.add(Task::Forget(key, uid));
            }
        }
    }
}
