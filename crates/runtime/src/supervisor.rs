//! The owner of every task.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{FutureExt as _, Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_telemetry::{ErrorChain, Health};

use crate::{BoxError, Signal};

/// How long aborted tasks may take to be dropped.
const ABORT_LIMIT: Duration = Duration::from_secs(1);

/// Owns every task of a process, by name.
///
/// A task ends when [`Supervisor::token`] is cancelled. One that ends before is reported by
/// [`Supervisor::ended`], and ends the process in [`Supervisor::run`].
#[derive(Clone)]
pub struct Supervisor {
    inner: Arc<Inner>,
}

struct Inner {
    tracker: TaskTracker,
    token: CancellationToken,
    running: Mutex<Running>,
    report: mpsc::UnboundedSender<TaskEnded>,
    reports: tokio::sync::Mutex<mpsc::UnboundedReceiver<TaskEnded>>,
}

#[derive(Default)]
struct Running {
    next_id: u64,
    tasks: BTreeMap<u64, (String, AbortHandle)>,
}

/// A task ended that nobody had asked to end.
#[derive(Debug, thiserror::Error)]
pub enum TaskEnded {
    /// It returned.
    #[error("task {name} ended unasked")]
    Returned {
        /// The name that it was spawned under.
        name: String,
    },
    /// It failed.
    #[error("task {name} failed")]
    Failed {
        /// The name that it was spawned under.
        name: String,
        /// What it failed with.
        #[source]
        source: BoxError,
    },
    /// It panicked.
    #[error("task {name} panicked: {message}")]
    Panicked {
        /// The name that it was spawned under.
        name: String,
        /// The panic's message.
        message: String,
    },
}

/// Tasks did not end within the grace period and were aborted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tasks did not end within {grace:?}: {}", names.join(", "))]
pub struct Unfinished {
    /// The grace period.
    pub grace: Duration,
    /// The names of the tasks, in the order they were spawned.
    pub names: Vec<String>,
}

/// Why a process did not end well.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A task ended unasked.
    #[error(transparent)]
    Task(#[from] TaskEnded),
    /// Tasks were aborted after the grace period.
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
    /// A second signal came during the shutdown.
    #[error("shutdown was cut short by {0}")]
    Interrupted(Signal),
}

/// What a task may return: nothing, or a result without a value.
pub trait TaskResult {
    /// The error, if it is one.
    fn into_error(self) -> Option<BoxError>;
}

impl TaskResult for () {
    fn into_error(self) -> Option<BoxError> {
        None
    }
}

impl<E: Into<BoxError>> TaskResult for Result<(), E> {
    fn into_error(self) -> Option<BoxError> {
        self.err().map(Into::into)
    }
}

impl Default for Supervisor {
    fn default() -> Self {
        Self::new()
    }
}

impl Supervisor {
    /// Makes a supervisor without tasks.
    pub fn new() -> Self {
        let (report, reports) = mpsc::unbounded_channel();
        let inner = Inner {
            tracker: TaskTracker::new(),
            token: CancellationToken::new(),
            running: Mutex::default(),
            report,
            reports: tokio::sync::Mutex::new(reports),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Is cancelled when the process shall end; cancelling it asks for that.
    pub fn token(&self) -> &CancellationToken {
        &self.inner.token
    }

    /// Starts a task that lives as long as the process: ending before it is asked to is a failure.
    pub fn spawn<F>(&self, name: impl Into<String>, task: F)
    where
        F: Future<Output: TaskResult> + Send + 'static,
    {
        let name: String = name.into();
        let inner = Arc::clone(&self.inner);
        // Held over the spawn, so that the task cannot take itself off the list before it is on it.
        let mut running = self.inner.running();
        running.next_id += 1;
        let id = running.next_id;
        let listed = Listed { inner: Arc::clone(&inner), id };
        let task_name = name.clone();
        let handle = self.inner.tracker.spawn(async move {
            let _listed = listed;
            let outcome = AssertUnwindSafe(task).catch_unwind().await;
            inner.judge(task_name, outcome.map(TaskResult::into_error));
        });
        running.tasks.insert(id, (name, handle.abort_handle()));
    }

    /// The next task that ended unasked.
    pub async fn ended(&self) -> TaskEnded {
        match self.inner.reports.lock().await.recv().await {
            Some(ended) => ended,
            // Unreachable while `self` holds the sender.
            None => std::future::pending().await,
        }
    }

    /// Asks every task to end and waits for that; what is left after `grace` is aborted and named.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), Unfinished> {
        self.inner.token.cancel();
        self.inner.tracker.close();
        if tokio::time::timeout(grace, self.inner.tracker.wait()).await.is_ok() {
            return Ok(());
        }
        let names = {
            let running = self.inner.running();
            running.tasks.values().for_each(|(_, task)| task.abort());
            running.tasks.values().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        if names.is_empty() {
            return Ok(());
        }
        let _ = tokio::time::timeout(ABORT_LIMIT, self.inner.tracker.wait()).await;
        Err(Unfinished { grace, names })
    }

    /// Runs until a signal, a task that ends unasked, or somebody cancels the token; then shuts down.
    ///
    /// The process says that it is not ready before any task is asked to end. A second signal cuts the grace
    /// period short: the caller should then exit at once, without waiting for blocking calls.
    pub async fn run(
        &self,
        signals: impl Stream<Item = Signal>,
        health: &Health,
        grace: Duration,
    ) -> Result<(), RunError> {
        let mut signals = pin!(signals.chain(futures::stream::pending()));
        let mut failure = None;
        tokio::select! {
            biased;
            ended = self.ended() => {
                tracing::error!(error = %ErrorChain(&ended), "shutting down since a task ended");
                failure = Some(ended);
            }
            Some(signal) = signals.next() => tracing::info!(%signal, "shutting down"),
            () = self.inner.token.cancelled() => tracing::info!("shutting down"),
        }
        health.shutting_down();
        let finished = tokio::select! {
            finished = self.shutdown(grace) => finished,
            Some(signal) = signals.next() => return Err(RunError::Interrupted(signal)),
        };
        // A panic during the shutdown is a failure too.
        let failure = failure.or_else(|| self.inner.reports.try_lock().ok()?.try_recv().ok());
        match failure {
            Some(ended) => Err(ended.into()),
            None => Ok(finished?),
        }
    }
}

impl Inner {
    fn judge(&self, name: String, outcome: Result<Option<BoxError>, Box<dyn Any + Send>>) {
        let asked = self.token.is_cancelled();
        let ended = match outcome {
            Err(panic) => TaskEnded::Panicked { name, message: panic_message(&*panic) },
            Ok(Some(error)) if asked => {
                tracing::warn!(task = name, error = %ErrorChain(&*error), "a task failed while it shut down");
                return;
            }
            Ok(Some(source)) => TaskEnded::Failed { name, source },
            Ok(None) if asked => return,
            Ok(None) => TaskEnded::Returned { name },
        };
        // The receiver lives as long as `self`.
        let _ = self.report.send(ended);
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.inner.running();
        f.debug_set().entries(running.tasks.values().map(|(name, _)| name)).finish()
    }
}

/// Takes a task off the list when it ends, however it does.
struct Listed {
    inner: Arc<Inner>,
    id: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.inner.running().tasks.remove(&self.id);
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}

#[cfg(test)]
mod tests;
