//! What was read of registries, so that nothing is asked for twice.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use windlass_oci::{Digest, Repository};

use super::{CREATED, REVISION, SOURCE};
use crate::Revision;
use crate::changes::ExporterInfo;
use crate::changes::metadata::READ;

/// Artifacts that are remembered.
const MAX_ARTIFACTS: usize = 4_096;
/// Commits of remembered artifacts, beyond which the oldest are forgotten.
const MAX_COMMITS: usize = 40_000;
/// Bytes of an annotation that is kept: what is longer is no commit, time or link.
const MAX_ANNOTATION: usize = 1 << 10;
/// Tags that are remembered of all repositories together, each some 100 bytes, and twice that where it is remembered what
/// they stood for.
const MAX_TAGS: usize = 100_000;
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
        let kept = annotations.iter().filter(|(key, value)| is_of_use(key) && value.len() <= MAX_ANNOTATION);
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

impl Tags {
    fn size(&self) -> usize {
        self.seen.len() + 2 * self.looked.len()
    }
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
        let count = |inner: &Inner| inner.tags.values().map(Tags::size).sum::<usize>();
        // Those of a repository that are forgotten are looked at again, and no more than at a time.
        let listed = |inner: &Inner| inner.tags.len() + usize::from(!inner.tags.contains_key(repository));
        while listed(&inner) > MAX_LISTED || count(&inner) + seen.len() > MAX_TAGS {
            let largest = inner.tags.iter().max_by_key(|(of, tags)| (*of != repository, tags.size()));
            let Some(largest) = largest.map(|(of, _)| of.clone()) else { break };
            inner.tags.remove(&largest);
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
        assert_eq!(Looked::new(digest(), &annotations).annotations.len(), 1);
    }

    #[test]
    fn tags_are_bounded_over_all_repositories() {
        let memory = Memory::default();
        let repository =
            |number: usize| Repository::parse(&format!("oci://r.example/{number}"), false).unwrap();
        let tags = || (0..10_000).map(|tag| tag.to_string()).collect::<Vec<_>>();
        for number in 0..20 {
            memory.saw(&repository(number), tags(), Vec::new());
            assert!(memory.new_tags(&repository(number), tags()).is_empty());
        }
        // One that tags each push, for years.
        for push in 0..100 {
            let names = (0..1_000).map(|tag| format!("{push}-{tag}")).collect();
            memory.saw(&repository(0), names, Vec::new());
        }
        let held: usize = memory.lock().tags.values().map(Tags::size).sum();
        assert!(held <= MAX_TAGS, "{held}");
        for number in 100..1_000 {
            memory.saw(&repository(number), vec!["latest".to_owned()], Vec::new());
        }
        assert!(memory.lock().tags.len() <= MAX_LISTED);
    }
}
