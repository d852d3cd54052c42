//! What all requests, and the server's own tasks, share.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_store::Store;

use crate::admission::Admission;
use crate::catalog::Catalog;
use crate::label_indexes::LabelIndexes;
use crate::namespaces::Namespaces;
use crate::seal::Sealer;
use crate::turns::Turns;

/// What all requests share.
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    /// What is served.
    pub(crate) catalog: Catalog,
    /// Set when the stored definitions were read.
    pub(crate) started: tokio::sync::OnceCell<()>,
    /// Definitions and namespaces whose objects are being removed, by UID.
    pub(crate) cleaning: Mutex<HashSet<String>>,
    pub(crate) sealer: Sealer,
    pub(crate) admission: Arc<dyn Admission>,
    pub(crate) now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// Cancelled at shutdown and when the server is dropped: its own tasks end.
    pub(crate) stop: CancellationToken,
    /// The server's own tasks.
    pub(crate) tasks: Mutex<JoinSet<()>>,
    /// Where objects of labels are found without looking at all of their kind.
    pub(crate) label_indexes: LabelIndexes,
    /// What is known of namespaces.
    pub(crate) namespaces: tokio::sync::RwLock<Namespaces>,
    /// Who writes to an object that others write to as well takes turns with them.
    pub(crate) turns: Turns,
    /// A turn of a request that is too large to be worked on beside others.
    pub(crate) large: Arc<tokio::sync::Semaphore>,
    /// A turn of evaluating the rules of a definition.
    pub(crate) evaluating: tokio::sync::Semaphore,
    /// Held from admission to commit by writes that are judged beside other objects of their kind.
    pub(crate) neighbours: Arc<tokio::sync::Mutex<()>>,
}

impl Inner {
    /// Starts a task of the server's own, which ends with it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks();
        // Those that have ended are forgotten.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    pub(crate) fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time as metadata carries it: whole seconds, UTC.
    pub(crate) fn now_text(&self) -> String {
        (self.now)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
