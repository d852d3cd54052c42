//! What was read of registries, so that nothing is asked for twice.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use windlass_oci::{Digest, Repository};

use super::{CREATED, REVISION, SOURCE};
use crate::Revision;
use crate::changes::ExporterInfo;

/// Artifacts that are remembered.
const MAX_ARTIFACTS: usize = 4_096;
/// Commits of remembered artifacts, beyond which the oldest are forgotten.
const MAX_COMMITS: usize = 40_000;
/// Repositories whose tags are remembered.
const MAX_LISTED: usize = 256;
/// Tags of a repository of which it is remembered what they stood for, the newest.
const MAX_LOOKED: usize = 256;

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
        let created = annotations.get(CREATED).and_then(|created| created.trim().parse().ok());
        if info.is_some() {
            // The rest is of no more use.
            annotations.retain(|key, _| key == SOURCE || key == REVISION);
        }
        Self { digest, created, info, annotations }
    }

    /// When it was built, or else its newest commit.
    pub(super) fn at(&self) -> Option<Timestamp> {
        self.created.or_else(|| self.info.as_ref()?.commits.last().map(|commit| commit.merged))
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

/// Whether annotations speak of the same source and branch, as far as both say.
pub(super) fn is_of_stream(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> bool {
    let agrees =
        |one: Option<String>, other: Option<String>| one.is_none() || other.is_none() || one == other;
    let source = |annotations: &BTreeMap<String, String>| annotations.get(SOURCE).cloned();
    let branch = |annotations: &BTreeMap<String, String>| {
        annotations.get(REVISION)?.parse::<Revision>().ok()?.name().map(str::to_owned)
    };
    agrees(source(one), source(other)) && agrees(branch(one), branch(other))
}

/// What a tag stood for when it was looked at.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) digest: Digest,
    /// When it was built, as it says.
    pub(super) created: Option<Timestamp>,
    /// Those that say where it is from.
    pub(super) annotations: BTreeMap<String, String>,
}

impl Looked {
    pub(super) fn new(digest: Digest, annotations: &BTreeMap<String, String>) -> Self {
        let created = annotations.get(CREATED).and_then(|created| created.trim().parse().ok());
        let kept = annotations.iter().filter(|(key, _)| *key == SOURCE || *key == REVISION);
        Self { digest, created, annotations: kept.map(|(key, value)| (key.clone(), value.clone())).collect() }
    }
}

/// The tags of a repository.
#[derive(Default)]
struct Tags {
    /// Those that need not be looked at again.
    seen: HashSet<String>,
    looked: VecDeque<Arc<Looked>>,
    /// The artifacts that tags were listed for, with whether the list told all.
    listed: VecDeque<(Digest, bool)>,
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
    tags: HashMap<Repository, Tags>,
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

    /// The tags of this list that were not seen yet.
    pub(super) fn new_tags(&self, repository: &Repository, tags: Vec<String>) -> Vec<String> {
        let inner = self.lock();
        match inner.tags.get(repository) {
            None => tags,
            Some(known) => tags.into_iter().filter(|tag| !known.seen.contains(tag)).collect(),
        }
    }

    /// These were seen, and this is what those stood for that were looked at: once all of it is known, so that whoever
    /// could not finish begins again.
    pub(super) fn saw(&self, repository: &Repository, seen: Vec<String>, looked: Vec<Looked>) {
        let mut inner = self.lock();
        if inner.tags.len() >= MAX_LISTED && !inner.tags.contains_key(repository) {
            inner.tags.clear();
        }
        let tags = inner.tags.entry(repository.clone()).or_default();
        tags.seen.extend(seen);
        tags.looked.extend(looked.into_iter().map(Arc::new));
        let surplus = tags.looked.len().saturating_sub(MAX_LOOKED);
        tags.looked.drain(..surplus);
    }

    /// The tags were listed for this artifact: what is made later is built later, and no news to whoever asks again.
    pub(super) fn listed(&self, repository: &Repository, digest: &Digest, is_told: bool) {
        let mut inner = self.lock();
        if let Some(tags) = inner.tags.get_mut(repository) {
            tags.listed.push_back((digest.clone(), is_told));
            let surplus = tags.listed.len().saturating_sub(MAX_LOOKED);
            tags.listed.drain(..surplus);
        }
    }

    /// Whether the list of tags told all, where they were listed for this artifact.
    pub(super) fn was_listed(&self, repository: &Repository, digest: &Digest) -> Option<bool> {
        let inner = self.lock();
        let (_, is_told) = inner.tags.get(repository)?.listed.iter().find(|(known, _)| known == digest)?;
        Some(*is_told)
    }

    /// What tags of a repository stood for when they were looked at.
    pub(super) fn looked(&self, repository: &Repository) -> Vec<Arc<Looked>> {
        let inner = self.lock();
        inner.tags.get(repository).map(|tags| tags.looked.iter().cloned().collect()).unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
