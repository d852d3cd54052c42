//! When the status is written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::debug;
use windlass_api::{JobStatus, RepositoryUrls};

use super::phase::Phase;
use super::recorder::Recorder;
use super::result::ResourceResult;
use crate::lease::LeaseGuard;

/// Takes the status of a running job.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Writes it. A failure is the sink's to report: the next write says all that this one would have said.
    async fn write(&self, status: JobStatus);
}

#[async_trait]
impl Sink for LeaseGuard {
    async fn write(&self, status: JobStatus) {
        if let Err(error) = self.progress(status).await {
            debug!(%error, "failed to write a job's progress");
        }
    }
}

/// The least time between two writes.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// When a message or a total has changed.
    pub message: Duration,
    /// When only results have come in.
    pub record: Duration,
}

impl Default for Windows {
    fn default() -> Self {
        Self { message: Duration::from_millis(500), record: Duration::from_secs(5) }
    }
}

/// A worker's end of a job's progress. Cheap to clone; its methods neither block nor wait.
#[derive(Clone)]
pub struct Progress {
    shared: Arc<Shared>,
    writer: Arc<Writer>,
}

struct Shared {
    state: Mutex<State>,
    said: Notify,
    windows: Windows,
}

struct State {
    recorder: Recorder,
    /// When the last write was made; the claim counts as one.
    written: Instant,
    /// When the next one is due, if there is anything to write.
    due: Option<Instant>,
}

/// Stops the writing task with the last clone.
struct Writer(JoinHandle<()>);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Progress {
    /// Progress of a job that was claimed just now, written to `sink`. Has to be called on a tokio runtime.
    pub fn new(recorder: Recorder, sink: Arc<dyn Sink>) -> Self {
        Self::with_windows(recorder, sink, Windows::default())
    }

    /// The same with other windows.
    pub fn with_windows(recorder: Recorder, sink: Arc<dyn Sink>, windows: Windows) -> Self {
        let state = Mutex::new(State { recorder, written: Instant::now(), due: None });
        let shared = Arc::new(Shared { state, said: Notify::new(), windows });
        let writer = Arc::new(Writer(tokio::spawn(write(Arc::clone(&shared), sink))));
        Self { shared, writer }
    }

    /// Says what the worker is doing.
    pub fn message(&self, message: impl Into<String>) {
        self.say(self.shared.windows.message, |recorder| recorder.set_message(message));
    }

    /// Says how many results are to be expected.
    pub fn total(&self, total: usize) {
        self.say(self.shared.windows.message, |recorder| recorder.set_total(total));
    }

    /// Reports a result.
    pub fn record(&self, result: &ResourceResult) {
        self.say(self.shared.windows.record, |recorder| recorder.record(result));
    }

    /// See [`Recorder::list_error`].
    pub fn list_error(&self, message: &str) {
        self.shared.state().recorder.list_error(message);
    }

    /// Sets what the status shall say in the end, unless the job fails.
    pub fn final_message(&self, message: impl Into<String>) {
        self.shared.state().recorder.set_final_message(message);
    }

    /// Sets the links into the provider.
    pub fn urls(&self, urls: RepositoryUrls) {
        self.say(self.shared.windows.record, |recorder| recorder.set_urls(urls));
    }

    /// Names the revision of the repository that the job works on; the job's record in history carries it.
    pub fn revision(&self, revision: impl Into<String>) {
        self.shared.state().recorder.set_revision(revision);
    }

    /// Says what time was spent on, once it is over.
    pub fn phase(&self, phase: Phase) {
        self.shared.state().recorder.add_phase(phase);
    }

    /// See [`Recorder::reset`].
    pub fn reset(&self, keep_warnings: bool) {
        self.say(self.shared.windows.record, |recorder| recorder.reset(keep_warnings));
    }

    /// What was reported so far.
    pub fn recorder(&self) -> Recorder {
        self.shared.state().recorder.clone()
    }

    /// The status to complete the job with (see [`Recorder::finish`]); what is not written by now is in there.
    pub fn finish(&self, outcome: Result<(), String>, finished: i64) -> JobStatus {
        self.writer.0.abort();
        self.shared.state().recorder.finish(outcome, finished)
    }

    fn say(&self, window: Duration, say: impl FnOnce(&mut Recorder)) {
        let mut state = self.shared.state();
        say(&mut state.recorder);
        let due = state.written + window;
        if state.due.is_none_or(|known| due < known) {
            state.due = Some(due);
            self.shared.said.notify_one();
        }
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(shared: Arc<Shared>, sink: Arc<dyn Sink>) {
    loop {
        let due = shared.state().due;
        let now = Instant::now();
        match due {
            Some(due) if due <= now => {
                let status = {
                    let mut state = shared.state();
                    state.due = None;
                    state.written = now;
                    state.recorder.status()
                };
                sink.write(status).await;
            }
            Some(due) => tokio::select! {
                () = shared.said.notified() => {}
                () = tokio::time::sleep_until(due) => {}
            },
            None => shared.said.notified().await,
        }
    }
}
