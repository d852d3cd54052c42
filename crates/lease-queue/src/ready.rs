//! Which of the jobs that can be claimed now comes next.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use crate::job::QueuedJob;
use crate::store::Key;

/// Jobs that can be claimed, handed out in turn: one of each namespace, within it one of each lane, within that one whose
/// worker vanished, else the oldest. However many jobs one repository has waiting, another's first job is at most one
/// round away.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    namespaces: BTreeMap<String, Namespace>,
    /// The namespace served last.
    last: Option<String>,
}

#[derive(Debug, Default)]
struct Namespace {
    lanes: BTreeMap<Lane, BTreeSet<Place>>,
    /// The lane served last.
    last: Option<Lane>,
}

/// Whether nobody has claimed it, since when it waits, and which one it is.
type Place = (bool, Timestamp, Arc<Key>);

fn place_of(job: &QueuedJob) -> Place {
    (!job.claimed, job.created, Arc::clone(&job.key))
}

/// The jobs of one repository that exclude each other, or its others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lane {
    repository: Box<str>,
    exclusive: bool,
}

impl Lane {
    fn of(job: &QueuedJob) -> Self {
        Self { repository: job.repository.clone(), exclusive: job.is_exclusive() }
    }
}

impl Ready {
    pub(crate) fn insert(&mut self, job: &QueuedJob) {
        let namespace = self.namespaces.entry(job.key.namespace.clone()).or_default();
        namespace.lanes.entry(Lane::of(job)).or_default().insert(place_of(job));
    }

    /// Takes `job` out. It must be equal to the one that was inserted, as far as specification, creation and claim go.
    pub(crate) fn remove(&mut self, job: &QueuedJob) {
        let Some(namespace) = self.namespaces.get_mut(&job.key.namespace) else { return };
        let lane = Lane::of(job);
        if let Some(jobs) = namespace.lanes.get_mut(&lane) {
            jobs.remove(&place_of(job));
            if jobs.is_empty() {
                namespace.lanes.remove(&lane);
            }
        }
        if namespace.lanes.is_empty() {
            self.namespaces.remove(&job.key.namespace);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// The job whose turn it is, of those whose namespace is not `full` and whose exclusion key is not `excluded`.
    /// Advances the turn, but leaves the job in.
    pub(crate) fn next(
        &mut self,
        full: impl Fn(&str) -> bool,
        excluded: impl Fn(&Key) -> bool,
    ) -> Option<Arc<Key>> {
        let mut name = self.last.clone();
        for _ in 0..self.namespaces.len() {
            name = following(&self.namespaces, name.as_ref());
            let Some(name) = name.clone().filter(|name| !full(name)) else { continue };
            let Some(namespace) = self.namespaces.get_mut(&name) else { continue };
            if let Some(job) = namespace.next(|repository| excluded(&Key::new(&*name, repository))) {
                self.last = Some(name);
                return Some(job);
            }
        }
        None
    }
}

impl Namespace {
    /// The job whose turn it is, of those whose repository is not `excluded`.
    fn next(&mut self, excluded: impl Fn(&str) -> bool) -> Option<Arc<Key>> {
        let mut lane = self.last.clone();
        for _ in 0..self.lanes.len() {
            lane = following(&self.lanes, lane.as_ref());
            let Some(open) = lane.as_ref().filter(|lane| !lane.exclusive || !excluded(&lane.repository))
            else {
                continue;
            };
            let job = Arc::clone(&self.lanes.get(open)?.first()?.2);
            self.last = lane;
            return Some(job);
        }
        None
    }
}

/// The key that follows `last`, or the first when there is none.
fn following<K: Ord + Clone, V>(map: &BTreeMap<K, V>, last: Option<&K>) -> Option<K> {
    let after = last.and_then(|last| map.range((Bound::Excluded(last), Bound::Unbounded)).next());
    after.or_else(|| map.iter().next()).map(|(key, _)| key.clone())
}
