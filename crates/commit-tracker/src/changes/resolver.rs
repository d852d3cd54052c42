//! Asking once: whoever has the same question gets the same answer.
//!
//! Many Kustomizations apply the same revision of the same source. The first that asks pays; those that ask meanwhile wait
//! for its answer, and those that ask later get it from memory. Different questions about one revision go one after the
//! other, so that whoever answers them fetches it once. What fails is asked again no sooner than its back-off says,
//! whoever wants to know.

mod memory;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use windlass_runtime::BackoffPolicy;
use windlass_telemetry::carried;

use self::memory::{Key, Memory, Slot};
use super::{Changes, ChangesError, ChangesQuery, FindChanges, Problem};
use crate::SourceKind;

/// How long one question may take: longer than whoever answers it is patient by itself.
const DEADLINE: Duration = Duration::from_mins(15);

/// Between attempts at a question that fails.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_secs(1), max: Duration::from_mins(5), factor: 2.0, jitter: 0.2 };

/// Who answers questions about each kind of source.
#[derive(Clone)]
pub struct Finders {
    /// Of Git repositories.
    pub git: Arc<dyn FindChanges>,
    /// Of artifacts in registries.
    pub oci: Arc<dyn FindChanges>,
    /// Of buckets, and of artifacts that others make.
    pub metadata: Arc<dyn FindChanges>,
}

impl Finders {
    fn of(&self, kind: SourceKind) -> &Arc<dyn FindChanges> {
        match kind {
            SourceKind::GitRepository => &self.git,
            SourceKind::OciRepository => &self.oci,
            SourceKind::Bucket | SourceKind::ExternalArtifact => &self.metadata,
        }
    }
}

/// No answer now.
#[derive(Clone, Debug)]
pub struct NoAnswer {
    /// Why.
    pub error: Arc<ChangesError>,
    /// After which time it is worth asking again.
    pub again: Duration,
    /// Nobody was told of this failure before.
    pub is_new: bool,
}

/// Is told how a question ended that was really asked.
pub trait ResolverObserver: Send + Sync + 'static {
    /// The outcome of a question about a source of this kind; none is an answer.
    fn asked(&self, kind: SourceKind, problem: Option<Problem>);

    /// A question ended in a panic: that ends nothing else, and it is asked again.
    fn panicked(&self, kind: SourceKind);
}

type Flight = Shared<BoxFuture<'static, Result<Arc<Changes>, Arc<ChangesError>>>>;

/// The one place where questions are asked.
#[derive(Clone)]
pub struct ChangesResolver {
    inner: Arc<Inner>,
}

struct Inner {
    finders: Finders,
    at_a_time: Semaphore,
    memory: Mutex<Memory>,
    told: Arc<dyn ResolverObserver>,
}

impl ChangesResolver {
    /// Asks `at_a_time` questions at a time.
    pub fn new(finders: Finders, at_a_time: usize, told: Arc<dyn ResolverObserver>) -> Self {
        let (at_a_time, memory) = (Semaphore::new(at_a_time.max(1)), Mutex::default());
        Self { inner: Arc::new(Inner { finders, at_a_time, memory, told }) }
    }

    /// The answer to a question.
    ///
    /// `told` is when the asker was told of a failure last, if something has changed since that may mend it: such a failure
    /// is no answer any more, and whoever asks first about the change asks for all.
    ///
    /// # Errors
    /// It failed, or failed not long ago.
    pub async fn ask(
        &self,
        question: &ChangesQuery,
        told: Option<Instant>,
    ) -> Result<Arc<Changes>, NoAnswer> {
        let key = Arc::new(Key::of(question));
        let flight = {
            let mut memory = self.lock();
            match memory.slot(&key) {
                Some(Slot::Known(changes)) => return Ok(Arc::clone(changes)),
                Some(Slot::Failed(failed)) if failed.holds(told) => {
                    let (error, again) = (Arc::clone(&failed.error), failed.left());
                    return Err(NoAnswer { error, again, is_new: false });
                }
                Some(Slot::Flying(flight, _)) => flight.clone(),
                Some(Slot::Failed(_)) | None => {
                    let flight = self.start(&key, question.clone(), &mut memory);
                    memory.fly(&key, flight.clone());
                    flight
                }
            }
        };
        match flight.await {
            Ok(changes) => {
                self.lock().learn(&key, &changes);
                Ok(changes)
            }
            Err(error) => {
                let (again, is_new) = self.lock().fail(&key, &error, BACKOFF);
                Err(NoAnswer { error, again, is_new })
            }
        }
    }

    fn start(&self, key: &Key, question: ChangesQuery, memory: &mut Memory) -> Flight {
        let (inner, lane) = (Arc::clone(&self.inner), memory.lane(key));
        let (told, kind) = (Arc::clone(&inner.told), question.source.kind);
        // A task of its own: whoever waits for it may go away, and what it holds others wait for.
        let flight = tokio::spawn(carried(async move {
            let _lane = lane.lock().await;
            // Never closed.
            let _turn = inner.at_a_time.acquire().await;
            let found = tokio::time::timeout(DEADLINE, inner.finders.of(kind).find(&question)).await;
            let found = found.unwrap_or_else(|_| {
                let text =
                    format!("failed to find the commits of {}: no answer within {DEADLINE:?}", question.to);
                Err(ChangesError::new(Problem::Unavailable, text))
            });
            inner.told.asked(kind, found.as_ref().err().map(|error| error.problem));
            found.map(Arc::new).map_err(Arc::new)
        }));
        let answer = flight.map(move |ended| {
            ended.unwrap_or_else(|error| {
                if error.is_panic() {
                    told.panicked(kind);
                }
                let text = "failed to find the commits of a revision: the question was cut off";
                Err(Arc::new(ChangesError::new(Problem::Unavailable, text).because(error)))
            })
        });
        answer.boxed().shared()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.inner.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
