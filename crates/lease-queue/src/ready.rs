//! Which of the jobs that can be claimed now comes next.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use jiff::Timestamp;

use crate::store::{Key, Record};

/// Jobs that can be claimed, handed out in turn: one of each namespace, within it one of each repository, within that the
/// oldest. However many jobs one repository has waiting, another's first job is at most one round away.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    namespaces: BTreeMap<String, Namespace>,
    /// The namespace served last.
    last: Option<String>,
}

#[derive(Debug, Default)]
struct Namespace {
    repositories: BTreeMap<String, BTreeSet<(Timestamp, String)>>,
    /// The repository served last.
    last: Option<String>,
}

impl Ready {
    pub(crate) fn insert(&mut self, job: &Record) {
        self.namespaces
            .entry(job.key.namespace.clone())
            .or_default()
            .repositories
            .entry(job.repository().to_owned())
            .or_default()
            .insert((job.created, job.key.name.clone()));
    }

    /// Takes `job` out. It must be equal to the one that was inserted, as far as repository and creation go.
    pub(crate) fn remove(&mut self, job: &Record) {
        let Some(namespace) = self.namespaces.get_mut(&job.key.namespace) else { return };
        if let Some(jobs) = namespace.repositories.get_mut(job.repository()) {
            jobs.remove(&(job.created, job.key.name.clone()));
            if jobs.is_empty() {
                namespace.repositories.remove(job.repository());
            }
        }
        if namespace.repositories.is_empty() {
            self.namespaces.remove(&job.key.namespace);
        }
    }

    /// The job whose turn it is. Advances the turn, but leaves the job in.
    pub(crate) fn next(&mut self) -> Option<Key> {
        let (name, namespace) = after(&mut self.namespaces, self.last.as_deref())?;
        let (repository, jobs) = after(&mut namespace.repositories, namespace.last.as_deref())?;
        let key = Key::new(name.clone(), jobs.first()?.1.clone());
        namespace.last = Some(repository);
        self.last = Some(name);
        Some(key)
    }
}

/// The entry that follows `last`, or the first when there is none.
fn after<'a, V>(map: &'a mut BTreeMap<String, V>, last: Option<&str>) -> Option<(String, &'a mut V)> {
    let next = last
        .and_then(|last| map.range::<str, _>((Bound::Excluded(last), Bound::Unbounded)).next())
        .or_else(|| map.iter().next())
        .map(|(name, _)| name.clone())?;
    let value = map.get_mut(&next)?;
    Some((next, value))
}
