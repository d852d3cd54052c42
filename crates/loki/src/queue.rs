//! What waits for Loki, so that no job has to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use crate::client::{Loki, LokiError};
use crate::entry::Entry;

/// Pauses between tries while Loki does not take anything.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(500))
    .with_max_delay(Duration::from_secs(30))
    .without_max_times();
/// What is sent at a time. Loki takes 4 MiB a request unless it is told otherwise.
const BATCH_ENTRIES: usize = 200;
const BATCH_BYTES: usize = 1 << 20;

/// How much waits at most.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Records.
    pub entries: usize,
    /// Bytes of their lines.
    pub bytes: usize,
    /// How long after the shutdown records are still taken in, from jobs that end then.
    pub linger: Duration,
    /// How long what waits is still sent after that, or after the last job has ended.
    pub flush: Duration,
}

impl Default for QueueLimits {
    /// 5,000 records, 32 MiB; 26 s for jobs that end, then 3 s.
    fn default() -> Self {
        Self {
            entries: 5000,
            bytes: 32 << 20,
            linger: Duration::from_secs(26),
            flush: Duration::from_secs(3),
        }
    }
}

/// Why a record is not in Loki.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// As much waited as may.
    QueueFull,
    /// Loki refused it.
    Refused,
    /// The process ended before Loki took it.
    Shutdown,
}

impl DropReason {
    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Refused => "refused",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Called as things happen: must not block.
pub trait Observer: Send + Sync + 'static {
    /// So many records wait now.
    fn waiting(&self, count: usize) {
        let _ = count;
    }

    /// Loki took so many.
    fn pushed(&self, count: usize) {
        let _ = count;
    }

    /// So many are lost.
    fn dropped(&self, why: DropReason, count: usize) {
        let _ = (why, count);
    }
}

impl Observer for () {}

/// Where records are handed in. Cheap to clone; the writer ends soon after the last clone is dropped.
#[derive(Clone)]
pub struct HistoryQueue {
    sender: mpsc::Sender<Entry>,
    shared: Arc<Shared>,
    /// Tells the writer that nobody is left to hand anything in.
    _gone: Arc<DropGuard>,
}

/// Sends what was handed in. Made by [`queue`], to be run as a task.
pub struct HistoryWriter {
    loki: Loki,
    receiver: mpsc::Receiver<Entry>,
    limits: QueueLimits,
    shared: Arc<Shared>,
    gone: CancellationToken,
    /// What is being sent.
    batch: Vec<Entry>,
    /// Whether Loki did not take the last request.
    failing: bool,
}

struct Shared {
    observer: Box<dyn Observer>,
    most: usize,
    entries: AtomicUsize,
    bytes: AtomicUsize,
    dropping: AtomicBool,
}

/// A queue in front of `loki`.
pub fn queue(loki: Loki, limits: QueueLimits, observer: impl Observer) -> (HistoryQueue, HistoryWriter) {
    let (sender, receiver) = mpsc::channel(limits.entries.max(1));
    let shared = Arc::new(Shared {
        observer: Box::new(observer),
        most: limits.bytes,
        entries: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        dropping: AtomicBool::new(false),
    });
    let gone = CancellationToken::new();
    let guard = Arc::new(gone.clone().drop_guard());
    let writer = HistoryWriter {
        loki,
        receiver,
        limits,
        shared: Arc::clone(&shared),
        gone,
        batch: Vec::new(),
        failing: false,
    };
    (HistoryQueue { sender, shared, _gone: guard }, writer)
}

impl HistoryQueue {
    /// Hands a record in. Never waits: what there is no room for is dropped, counted, and logged when that begins.
    pub fn offer(&self, entry: Entry) {
        let bytes = entry.bytes();
        let before = self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.shared.entries.fetch_add(1, Ordering::Relaxed);
        // One that is larger than all that may wait is taken when nothing else does.
        let refused = if before > 0 && before + bytes > self.shared.most {
            Some(DropReason::QueueFull)
        } else {
            match self.sender.try_send(entry) {
                Ok(()) => None,
                Err(TrySendError::Full(_)) => Some(DropReason::QueueFull),
                Err(TrySendError::Closed(_)) => Some(DropReason::Shutdown),
            }
        };
        if let Some(why) = refused {
            self.shared.left(1, bytes);
            self.shared.observer.dropped(why, 1);
            if !self.shared.dropping.swap(true, Ordering::Relaxed) {
                warn!(reason = why.as_str(), "records of finished jobs are lost: Loki does not take them");
            }
        }
        self.shared.told();
    }
}

impl Shared {
    fn left(&self, entries: usize, bytes: usize) {
        self.entries.fetch_sub(entries, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn told(&self) {
        self.observer.waiting(self.entries.load(Ordering::Relaxed));
    }
}

impl HistoryWriter {
    /// Sends until the last [`HistoryQueue`] is dropped, or for a while after `stop`. What was not taken then is lost,
    /// counted and logged.
    pub async fn run(mut self, stop: CancellationToken) {
        let (limits, gone) = (self.limits, self.gone.clone());
        let end = async {
            tokio::select! {
                () = gone.cancelled() => {}
                () = async {
                    stop.cancelled().await;
                    tokio::time::sleep(limits.linger).await;
                } => {}
            }
            tokio::time::sleep(limits.flush).await;
        };
        tokio::select! {
            biased;
            () = self.send_all() => {}
            () = end => {}
        }
        self.receiver.close();
        while let Ok(entry) = self.receiver.try_recv() {
            self.batch.push(entry);
        }
        let count = self.batch.len();
        if count > 0 {
            self.drop_first(count, DropReason::Shutdown);
            warn!(count, "records of finished jobs are lost: the process ends before Loki takes them");
        }
    }

    async fn send_all(&mut self) {
        while self.receiver.recv_many(&mut self.batch, BATCH_ENTRIES).await > 0 {
            while !self.batch.is_empty() {
                self.send_some().await;
            }
        }
    }

    /// Sends the first of what waits, again and again until Loki takes or refuses it.
    async fn send_some(&mut self) {
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            bytes += entry.bytes();
            bytes <= BATCH_BYTES
        };
        let mut count = self.batch.iter().take_while(fits).count().max(1);
        let mut pauses = PAUSES.build();
        loop {
            match self.loki.push(&self.batch[..count]).await {
                Ok(()) => {
                    self.pushed(count);
                    return;
                }
                // One of them may be at fault: each is sent alone. Loki keeps what it has already once.
                Err(error) if error.is_about_content() && count > 1 => count = 1,
                Err(error) if error.is_about_content() => {
                    self.drop_first(1, DropReason::Refused);
                    if !self.shared.dropping.swap(true, Ordering::Relaxed) {
                        warn!(%error, "the record of a finished job is lost: Loki refuses it");
                    }
                    return;
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        warn!(%error, "Loki does not take records of finished jobs; they wait in memory");
                    }
                    let asked = match error {
                        LokiError::Unavailable { retry_after, .. } => retry_after,
                        _ => None,
                    };
                    tokio::time::sleep(pauses.next().max(asked).unwrap_or_default()).await;
                }
            }
        }
    }

    fn pushed(&mut self, count: usize) {
        self.forget_first(count);
        self.shared.observer.pushed(count);
        let dropping = self.shared.dropping.swap(false, Ordering::Relaxed);
        if std::mem::take(&mut self.failing) || dropping {
            info!("Loki takes records of finished jobs again");
        }
    }

    fn drop_first(&mut self, count: usize, why: DropReason) {
        self.forget_first(count);
        self.shared.observer.dropped(why, count);
    }

    fn forget_first(&mut self, count: usize) {
        let bytes = self.batch.drain(..count).map(|entry| entry.bytes()).sum();
        self.shared.left(count, bytes);
        self.shared.told();
    }
}
