//! What was answered, what is being asked, and what failed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass_runtime::{Backoff, BackoffPolicy};

use super::Flight;
use crate::changes::{Changes, ChangesError, ChangesQuery};
use crate::{Revision, SourceKind};

/// How many commits and revisions are remembered, over all questions and answers.
const COMMITS: usize = 20_000;

/// How many failed questions are remembered.
const FAILED: usize = 1_000;

/// How long a failure that lasts is believed without asking again.
const LASTING: Duration = Duration::from_secs(30);

/// The longest that a server is left alone because it said so: limits are counted anew each hour.
const LONGEST: Duration = Duration::from_hours(1);

/// What makes two questions the same: everything but which object it is that names the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    lane: LaneKey,
    insecure: bool,
    /// Their namespace and names, where there are any.
    secrets: Option<(String, [Option<String>; 2])>,
    known: Vec<(Revision, Option<String>)>,
    origin: Option<String>,
}

/// A revision at a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LaneKey {
    kind: SourceKind,
    /// The URL, or the object where it has none.
    place: String,
    to: Revision,
}

impl Key {
    pub(super) fn of(question: &ChangesQuery) -> Self {
        let source = &question.source;
        let place = match question.url.as_str() {
            "" => format!("{}/{}", source.namespace, source.name),
            url => url.to_owned(),
        };
        let secrets = [question.secret.clone(), question.cert_secret.clone()];
        let origins = question.known_origins.iter().cloned().chain(std::iter::repeat(None));
        Self {
            lane: LaneKey { kind: source.kind, place, to: question.to.clone() },
            insecure: question.insecure,
            secrets: secrets.iter().any(Option::is_some).then(|| (source.namespace.clone(), secrets)),
            known: question.known.iter().cloned().zip(origins).collect(),
            origin: question.origin.clone(),
        }
    }
}

/// What is known about a question.
pub(super) enum Slot {
    /// Its answer.
    Known(Arc<Changes>),
    /// It is being asked; it may have failed before.
    Flying(Flight, Option<Box<Failed>>),
    /// It failed.
    Failed(Box<Failed>),
}

/// A question that failed.
pub(super) struct Failed {
    pub(super) error: Arc<ChangesError>,
    at: Instant,
    again: Instant,
    backoff: Backoff,
}

impl Failed {
    /// Whether it is an answer still to somebody who was `told` of a failure before something changed. A server that is to
    /// be left alone for a while is left alone whatever changed.
    pub(super) fn holds(&self, told: Option<Instant>) -> bool {
        let is_outdated = self.error.problem.is_permanent() && told.is_some_and(|told| self.at <= told);
        !is_outdated && !self.left().is_zero()
    }

    /// How long it is not asked again.
    pub(super) fn left(&self) -> Duration {
        self.again.saturating_duration_since(Instant::now())
    }
}

#[derive(Default)]
pub(super) struct Memory {
    slots: HashMap<Arc<Key>, Slot>,
    /// Answers from the oldest on, with how many commits each has.
    known: VecDeque<(Arc<Key>, usize)>,
    commits: usize,
    /// Failures from the oldest on.
    failed: VecDeque<Arc<Key>>,
    lanes: HashMap<LaneKey, Weak<Mutex<()>>>,
}

impl Memory {
    pub(super) fn slot(&self, key: &Key) -> Option<&Slot> {
        self.slots.get(key)
    }

    /// Whoever asks about a revision holds its lane.
    pub(super) fn lane(&mut self, key: &Key) -> Arc<Mutex<()>> {
        if let Some(lane) = self.lanes.get(&key.lane).and_then(Weak::upgrade) {
            return lane;
        }
        if self.lanes.len() >= FAILED {
            self.lanes.retain(|_, lane| lane.strong_count() > 0);
        }
        let lane = Arc::new(Mutex::new(()));
        self.lanes.insert(key.lane.clone(), Arc::downgrade(&lane));
        lane
    }

    pub(super) fn fly(&mut self, key: &Arc<Key>, flight: Flight) {
        let before = match self.slots.remove(key) {
            Some(Slot::Failed(failed)) => {
                self.failed.retain(|known| known != key);
                Some(failed)
            }
            _ => None,
        };
        self.slots.insert(Arc::clone(key), Slot::Flying(flight, before));
    }

    /// Remembers an answer; the first of those who waited for it does.
    pub(super) fn learn(&mut self, key: &Arc<Key>, changes: &Arc<Changes>) {
        if !matches!(self.slots.get(key), Some(Slot::Flying(..))) {
            return;
        }
        let size = 1 + changes.commits.len() + key.known.len();
        self.slots.insert(Arc::clone(key), Slot::Known(Arc::clone(changes)));
        self.known.push_back((Arc::clone(key), size));
        self.commits += size;
        while self.commits > COMMITS
            && self.known.len() > 1
            && let Some((oldest, size)) = self.known.pop_front()
        {
            self.commits -= size;
            self.slots.remove(&oldest);
        }
    }

    /// Remembers a failure, and answers after which time it is worth asking again, and whether it is another one than the
    /// last time. The first of those who waited for it is told so.
    pub(super) fn fail(
        &mut self,
        key: &Arc<Key>,
        error: &Arc<ChangesError>,
        policy: BackoffPolicy,
    ) -> (Duration, bool) {
        match self.slots.remove(key) {
            Some(Slot::Flying(_, before)) => {
                let is_new = before.as_ref().is_none_or(|before| before.error.message != error.message);
                let mut backoff = before.map_or_else(|| Backoff::new(policy), |failed| failed.backoff);
                let delay = backoff.delay();
                let delay = match (error.problem.is_permanent(), error.retry_after) {
                    (true, _) => LASTING,
                    (false, Some(said)) => said.min(LONGEST).max(delay),
                    (false, None) => delay,
                };
                let now = Instant::now();
                let again = now.checked_add(delay).unwrap_or(now);
                let failed = Box::new(Failed { error: Arc::clone(error), at: now, again, backoff });
                self.slots.insert(Arc::clone(key), Slot::Failed(failed));
                self.failed.push_back(Arc::clone(key));
                if self.failed.len() > FAILED
                    && let Some(oldest) = self.failed.pop_front()
                {
                    self.slots.remove(&oldest);
                }
                (delay, is_new)
            }
            Some(Slot::Failed(failed)) => {
                let left = failed.left();
                self.slots.insert(Arc::clone(key), Slot::Failed(failed));
                (left, false)
            }
            // Answered meanwhile, or forgotten.
            Some(known @ Slot::Known(_)) => {
                self.slots.insert(Arc::clone(key), known);
                (Duration::ZERO, false)
            }
            None => (policy.first, false),
        }
    }
}
