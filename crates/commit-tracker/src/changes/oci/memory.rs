//! What was read of registries, so that nothing is asked for twice.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use windlass_oci::{Digest, Repository};

use super::{CREATED, REVISION, SOURCE};
use crate::Revision;
use crate::changes::ExporterInfo;
use crate::changes::metadata::READ;
use crate::measure::FIRST_COMMIT;

/// Artifacts that are remembered.
const MAX_ARTIFACTS: usize = 4_096;
/// Commits of remembered artifacts, beyond which the oldest are forgotten.
const MAX_COMMITS: usize = 40_000;
/// Bytes of an annotation that is kept: what is longer is no commit, time or link.
const MAX_ANNOTATION: usize = 1 << 10;

/// One artifact.
#[derive(Debug)]
pub(super) struct Artifact {
    pub(super) digest: Digest,
    /// When it was built, as it says.
    pub(super) created: Option<Timestamp>,
    /// The exporter's payload.
    pub(super) info: Option<ExporterInfo>,
    /// Those that say where it is from.
    pub(super) annotations: BTreeMap<String, String>,
}

impl Artifact {
    pub(super) fn new(
        digest: Digest,
        mut annotations: BTreeMap<String, String>,
        info: Option<ExporterInfo>,
    ) -> Self {
        // Reproducible builds have a date that is none, such as 1970.
        let created = annotations.get(CREATED).and_then(|created| created.trim().parse().ok());
        let created = created.filter(|created| *created >= FIRST_COMMIT);
        let is_read = |key: &str| is_of_use(key) || (info.is_none() && READ.contains(&key));
        annotations.retain(|key, value| is_read(key) && value.len() <= MAX_ANNOTATION);
        Self { digest, created, info, annotations }
    }

    /// When it was built, or else its newest commit.
    pub(super) fn at(&self) -> Option<Timestamp> {
        self.created.or_else(|| self.info.as_ref()?.commits.last().map(|commit| commit.merged))
    }

    /// Whether it was built after the other, as both say. Dates of commits do not tell: an old branch is merged late.
    pub(super) fn is_younger(&self, other: &Self) -> bool {
        self.created.zip(other.created).is_some_and(|(own, other)| own > other)
    }

    /// The exporter's commit.
    pub(super) fn commit(&self) -> Option<&str> {
        self.info.as_ref()?.commit.as_deref()
    }

    /// The commits that came with it.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.info.iter().flat_map(|info| &info.commits).map(|commit| commit.id.as_str())
    }

    /// Whether the two can be of one series: a repository may have those of several branches, or sources.
    pub(super) fn is_of_stream(&self, other: &Self) -> bool {
        is_of_stream(&self.annotations, &other.annotations)
    }
}

/// Whether it says which series an artifact is of.
fn is_of_use(key: &str) -> bool {
    key == SOURCE || key == REVISION
}

/// Whether annotations speak of the same source and branch, as far as both say.
fn is_of_stream(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> bool {
    let agrees =
        |one: Option<String>, other: Option<String>| one.is_none() || other.is_none() || one == other;
    let source = |annotations: &BTreeMap<String, String>| annotations.get(SOURCE).cloned();
    let branch = |annotations: &BTreeMap<String, String>| {
        annotations.get(REVISION)?.parse::<Revision>().ok()?.name().map(str::to_owned)
    };
    agrees(source(one), source(other)) && agrees(branch(one), branch(other))
}

type Key = (Repository, Digest);

/// The newest of what was read.
#[derive(Default)]
pub(super) struct Memory {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    artifacts: HashMap<Key, Arc<Artifact>>,
    order: VecDeque<Key>,
    commits: usize,
}

impl Memory {
    pub(super) fn artifact(&self, repository: &Repository, digest: &Digest) -> Option<Arc<Artifact>> {
        self.lock().artifacts.get(&(repository.clone(), digest.clone())).cloned()
    }

    /// All of a repository.
    pub(super) fn artifacts(&self, repository: &Repository) -> Vec<Arc<Artifact>> {
        let inner = self.lock();
        let of = inner.artifacts.iter().filter(|((of, _), _)| of == repository);
        of.map(|(_, artifact)| Arc::clone(artifact)).collect()
    }

    pub(super) fn remember(&self, repository: &Repository, artifact: &Arc<Artifact>) {
        let key = (repository.clone(), artifact.digest.clone());
        let mut inner = self.lock();
        if inner.artifacts.insert(key.clone(), Arc::clone(artifact)).is_some() {
            return;
        }
        inner.commits += artifact.ids().count();
        inner.order.push_back(key);
        while inner.order.len() > 1 && (inner.order.len() > MAX_ARTIFACTS || inner.commits > MAX_COMMITS) {
            let Some(oldest) = inner.order.pop_front() else { break };
            if let Some(forgotten) = inner.artifacts.remove(&oldest) {
                inner.commits -= forgotten.ids().count();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest() -> Digest {
        format!("sha256:{:064}", 1).parse().unwrap()
    }

    #[test]
    fn of_annotations_only_those_are_kept_that_are_read() {
        let mut annotations: BTreeMap<String, String> =
            (0..1_000).map(|number| (format!("org.example.{number}"), "x".repeat(4_000))).collect();
        annotations.insert(SOURCE.into(), "x".repeat(100_000));
        annotations.insert(REVISION.into(), "main@sha1:1".into());
        annotations.insert("traceparent".into(), "00-1".into());
        let keys = |artifact: Artifact| artifact.annotations.into_keys().collect::<Vec<_>>();
        let bare = Artifact::new(digest(), annotations.clone(), None);
        assert_eq!(keys(bare), [REVISION, "traceparent"]);
        let told = Artifact::new(digest(), annotations.clone(), Some(ExporterInfo::default()));
        assert_eq!(keys(told), [REVISION]);
    }
}
