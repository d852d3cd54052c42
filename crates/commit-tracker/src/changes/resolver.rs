//! Asking once: whoever has the same question gets the same answer.
//!
//! Many Kustomizations apply the same revision of the same source. The first that asks pays; those that ask meanwhile wait
//! for its answer, and those that ask later get it from the cache. Different questions about one revision go one after the
//! other, so that whoever answers them fetches it once. What fails is asked again no sooner than its back-off says,
//! whoever wants to know; where the source is changed, it is another question.

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use windlass_runtime::{Backoff, BackoffPolicy};
use windlass_telemetry::carried;

use super::{Accounted, Changes, ChangesError, ChangesQuery, FindChanges, Problem};
use crate::{Revision, SourceKind};

/// How long one question may take: longer than whoever answers it is patient by itself.
const DEADLINE: Duration = Duration::from_mins(15);

/// How many commits and revisions are remembered, over all questions and answers.
const REMEMBERED: u64 = 20_000;

/// How many revisions are remembered of which one question is asked at a time.
const LANES: u64 = 1_000;

/// Between attempts at a question that somebody has to mend before it can be answered.
const LASTING: BackoffPolicy =
    BackoffPolicy { first: Duration::from_secs(30), max: Duration::from_hours(1), factor: 2.0, jitter: 0.0 };

/// The longest that a server is left alone because it said so: limits are counted anew each hour.
const LONGEST: Duration = Duration::from_hours(1);

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

/// The one place where questions are asked.
#[derive(Clone)]
pub struct ChangesResolver {
    inner: Arc<Inner>,
}

struct Inner {
    finders: Finders,
    at_a_time: Semaphore,
    /// What is known of each question. Whoever asks it holds it; the number is its size.
    known: Cache<Arc<Key>, (u32, Arc<Mutex<Known>>)>,
    /// Whoever asks about a revision holds its lane.
    lanes: Cache<Lane, Arc<Mutex<()>>>,
    told: Arc<dyn ResolverObserver>,
}

/// A revision at a place: the URL, or the object where it has none.
type Lane = (SourceKind, String, Revision);

/// What makes two questions the same: everything but which object it is that names the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    lane: Lane,
    insecure: bool,
    /// Their namespace and names, where there are any.
    secrets: Option<(Arc<str>, [Option<String>; 2])>,
    known: Vec<Accounted>,
    origin: Option<String>,
    /// Of the source's specification, and of what its artifact says.
    version: u64,
}

/// What is known about a question.
#[derive(Default)]
enum Known {
    /// Nothing yet.
    #[default]
    Nothing,
    /// Its answer.
    Answer(Arc<Changes>),
    /// It failed, and is asked again then.
    Failure(Arc<ChangesError>, Instant, Backoff),
}

impl Key {
    fn of(question: &ChangesQuery) -> Self {
        let source = &question.source;
        let place = match question.url.as_str() {
            "" => format!("{}/{}", source.namespace, source.name),
            url => url.to_owned(),
        };
        let secrets = [question.secret.clone(), question.cert_secret.clone()];
        let mut version = DefaultHasher::new();
        (question.generation, &question.metadata).hash(&mut version);
        Self {
            lane: (source.kind, place, question.to.clone()),
            insecure: question.insecure,
            secrets: secrets.iter().any(Option::is_some).then(|| (source.namespace.clone(), secrets)),
            known: question.known.clone(),
            origin: question.origin.clone(),
            version: version.finish(),
        }
    }

    fn size(&self, commits: usize) -> u32 {
        u32::try_from(1 + self.known.len() + commits).unwrap_or(u32::MAX)
    }
}

impl ChangesResolver {
    /// Asks `at_a_time` questions at a time.
    pub fn new(finders: Finders, at_a_time: usize, told: Arc<dyn ResolverObserver>) -> Self {
        let known = Cache::builder().weigher(|_, (size, _): &(u32, _)| *size).max_capacity(REMEMBERED);
        let lanes = Cache::builder().max_capacity(LANES);
        Self {
            inner: Arc::new(Inner {
                finders,
                at_a_time: Semaphore::new(at_a_time.max(1)),
                known: known.eviction_policy(EvictionPolicy::lru()).build(),
                lanes: lanes.eviction_policy(EvictionPolicy::lru()).build(),
                told,
            }),
        }
    }

    /// The answer to a question.
    ///
    /// # Errors
    /// It failed, or failed not long ago.
    pub async fn ask(&self, question: &ChangesQuery) -> Result<Arc<Changes>, NoAnswer> {
        let key = Arc::new(Key::of(question));
        let (_, slot) = self.inner.known.get_with(Arc::clone(&key), || (key.size(0), Arc::default()));
        let mut known = Arc::clone(&slot).lock_owned().await;
        match &*known {
            Known::Answer(changes) => return Ok(Arc::clone(changes)),
            Known::Failure(error, at, _) if *at > Instant::now() => {
                let (error, again) = (Arc::clone(error), at.saturating_duration_since(Instant::now()));
                return Err(NoAnswer { error, again, is_new: false });
            }
            Known::Failure(..) | Known::Nothing => {}
        }
        let (inner, question) = (Arc::clone(&self.inner), question.clone());
        // A task of its own: whoever waits for it may go away, and what it holds others wait for.
        let asked = tokio::spawn(carried(async move {
            match inner.find(&key.lane, &question).await {
                Ok(changes) => {
                    let changes = Arc::new(changes);
                    *known = Known::Answer(Arc::clone(&changes));
                    let size = key.size(changes.commits.len());
                    inner.known.insert(key, (size, slot));
                    Ok(changes)
                }
                Err(error) => Err(known.fail(error)),
            }
        }));
        asked.await.unwrap_or_else(|ended| {
            let text = "failed to find the commits of a revision: the question was cut off";
            let error = Arc::new(ChangesError::new(Problem::Unavailable, text).because(ended));
            Err(NoAnswer { error, again: BackoffPolicy::OBJECT.first, is_new: true })
        })
    }
}

impl Inner {
    async fn find(&self, lane: &Lane, question: &ChangesQuery) -> Result<Changes, ChangesError> {
        let lane = self.lanes.get_with_by_ref(lane, Arc::default);
        let _lane = lane.lock().await;
        // Never closed.
        let _turn = self.at_a_time.acquire().await;
        let kind = question.source.kind;
        let found = AssertUnwindSafe(self.finders.of(kind).find(question)).catch_unwind();
        let failed = |why: String| {
            let text = format!("failed to find the commits of {}: {why}", question.to);
            Err(ChangesError::new(Problem::Unavailable, text))
        };
        let found = match tokio::time::timeout(DEADLINE, found).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => {
                self.told.panicked(kind);
                return failed("whoever was asked panicked".to_owned());
            }
            Err(_) => failed(format!("no answer within {DEADLINE:?}")),
        };
        self.told.asked(kind, found.as_ref().err().map(|error| error.problem));
        found
    }
}

impl Known {
    /// Remembers a failure: when it is worth asking again, and whether it is another one than the last time.
    fn fail(&mut self, error: ChangesError) -> NoAnswer {
        let lasts = error.problem.is_permanent();
        let (is_new, mut backoff) = match std::mem::take(self) {
            Self::Failure(before, _, backoff) if before.problem.is_permanent() == lasts => {
                (before.message != error.message, backoff)
            }
            _ => (true, Backoff::new(if lasts { LASTING } else { BackoffPolicy::OBJECT })),
        };
        let delay = backoff.delay();
        let said = error.retry_after.filter(|_| !lasts).unwrap_or_default();
        let again = said.min(LONGEST).max(delay);
        let error = Arc::new(error);
        *self = Self::Failure(Arc::clone(&error), Instant::now() + again, backoff);
        NoAnswer { error, again, is_new }
    }
}
