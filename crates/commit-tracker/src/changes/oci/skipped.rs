//! Artifacts that Flux went past: built after the one that was known and before the one that was applied.
//!
//! Four things say which they are, the cheapest first: the chain of `previous_commit`s, where payloads have it; what
//! this process was asked about meanwhile; the tags of the registry; and the Git repository that the artifacts say they
//! were built from, where the payload's commits are that repository's. The registry tells only where each artifact has a
//! tag of its own and says when it was built: one that had nothing but a tag that moved on is not to be found by anybody.
//! Where nothing tells, the answer is [incomplete](crate::changes::Changes::incomplete).

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use windlass_oci::{Digest, Manifest, OciError, Reference};

use super::memory::{Artifact, Looked, is_of_stream};
use super::{LookForSkipped, OciChanges, Place, REVISION, explained, git_question};
use crate::Revision;
use crate::changes::{ChangesError, Commit, ExporterInfo};

/// Longest chain of predecessors that is followed.
const MAX_CHAIN: usize = 256;
/// Characters of a commit's id that name it, where it is written short.
const SHORT: usize = 7;

/// What was skipped.
#[derive(Default)]
pub(super) struct Skipped {
    /// In no order.
    pub(super) artifacts: Vec<Arc<Artifact>>,
    /// All commits between the two, of whichever artifact, where only Git tells.
    pub(super) walked: Vec<Commit>,
    /// There may be more than these.
    pub(super) incomplete: bool,
}

impl OciChanges {
    /// What was skipped between the newest of `known` and `to`. With that one, as far as it is there, comes whether this
    /// process had seen it.
    pub(super) async fn skipped(
        &self,
        place: &Place<'_>,
        to: &Arc<Artifact>,
        info: &ExporterInfo,
        known: &[Digest],
        (from, was_seen): (Option<&Arc<Artifact>>, bool),
    ) -> Result<Skipped, ChangesError> {
        if known.is_empty() {
            return Ok(Skipped::default());
        }
        let from = from.map(|from| &**from);
        let seen = self.memory.artifacts(&place.repository);
        let known_commits = known_commits(place, from);
        let chain = Chain::of(info, &seen, &known_commits);
        if let Chain::Whole(artifacts) = chain {
            return Ok(Skipped { artifacts, ..Skipped::default() });
        }
        // What it is asked about was there before this process, which does not know what was known: after a restart, or
        // rolled back to something old.
        let built = to.at().or(place.question.seen);
        let before_us = !was_seen && built.is_some_and(|built| built < self.began);
        let is_unsure = matches!(chain, Chain::Broken) || before_us || !are_neighbours(place);
        let wants_look = match self.config.skipped {
            LookForSkipped::Never => false,
            LookForSkipped::Always => true,
            LookForSkipped::WhenUnsure => is_unsure,
        };
        let candidates: Vec<_> = seen
            .into_iter()
            .filter(|artifact| artifact.digest != to.digest && !known.contains(&artifact.digest))
            .filter(|artifact| artifact.info.is_some() && artifact.is_of_stream(to))
            .collect();
        let mut skipped = Skipped::default();
        if candidates.is_empty() && !wants_look && !is_unsure {
            return Ok(skipped);
        }
        let times = from.filter(|from| from.is_of_stream(to)).and_then(|from| from.at().zip(to.at()));
        let mut is_told = false;
        // Dates of commits may run backwards, and say nothing then.
        if let Some((after, before)) = times.filter(|(after, before)| after <= before) {
            let between = Between { after, before };
            skipped.artifacts.extend(candidates.into_iter().filter(|artifact| between.holds(artifact.at())));
            if wants_look {
                is_told = self.look(place, to, known, &between, &mut skipped).await?;
            }
        }
        if !is_unsure || is_told {
            return Ok(skipped);
        }
        // What was found may be all that the chain lacked.
        if let Chain::Whole(artifacts) = Chain::of(info, &skipped.artifacts, &known_commits) {
            return Ok(Skipped { artifacts, ..Skipped::default() });
        }
        let walked = match self.config.skipped {
            LookForSkipped::Never => None,
            _ => self.walked(place, to, info, from).await?,
        };
        match walked {
            Some(walked) => skipped.walked = walked,
            None => {
                skipped.incomplete = true;
                tracing::info!(
                    source = %place.question.source,
                    revision = %place.question.to,
                    "nothing tells whether artifacts were skipped before this one: give each a tag of its own, or write \
                     previous_commit into its payload"
                );
            }
        }
        Ok(skipped)
    }

    /// Looks for artifacts between the two behind the registry's tags. Answers whether tags tell all: the new one has a tag
    /// of its own, so that those between them had one, too, and all of them were looked at.
    async fn look(
        &self,
        place: &Place<'_>,
        to: &Arc<Artifact>,
        known: &[Digest],
        between: &Between,
        skipped: &mut Skipped,
    ) -> Result<bool, ChangesError> {
        let (mut is_told, mut manifests) = match self.memory.was_listed(&place.repository, &to.digest) {
            // Of versions, others are between others.
            Some(is_told) if !are_numbered(place) => (is_told, HashMap::new()),
            _ => match self.list(place, to).await? {
                Some(listed) => listed,
                None => return Ok(false),
            },
        };
        let looked = self.memory.looked(&place.repository);
        is_told &= are_numbered(place) || looked.iter().any(|looked| looked.digest == to.digest);
        for Looked { digest, created, annotations } in looked.iter().map(|looked| &**looked) {
            let is_known = *digest == to.digest
                || known.contains(digest)
                || skipped.artifacts.iter().any(|artifact| artifact.digest == *digest);
            let may_be = created.is_none() || between.holds(*created);
            if is_known || !may_be || !is_of_stream(annotations, &to.annotations) {
                continue;
            }
            let artifact = match manifests.remove(digest) {
                Some(manifest) => self.read(place, digest, manifest).await,
                None => self.artifact(place, digest).await,
            };
            match artifact {
                Ok(artifact) if artifact.info.is_some() && between.holds(artifact.at()) => {
                    skipped.artifacts.push(artifact);
                }
                Ok(_) => {}
                Err(error) if !error.problem.is_permanent() => return Err(error),
                Err(error) => {
                    tracing::warn!(source = %place.question.source, %digest, %error, "a skipped artifact is of no use");
                    is_told = false;
                }
            }
        }
        Ok(is_told)
    }

    /// Looks at the tags that are new, or at the newest by name where none were known. Answers whether these were all, and
    /// what they stand for; nothing where the tags cannot be listed.
    async fn list(
        &self,
        place: &Place<'_>,
        to: &Artifact,
    ) -> Result<Option<(bool, HashMap<Digest, Manifest>)>, ChangesError> {
        let tags = match place.client.tags(&place.repository, &place.login, self.config.max_tags).await {
            Ok(tags) => tags,
            Err(error) if error.is_transient() => {
                return Err(explained(place.question, "list the tags", error));
            }
            Err(error) => {
                // Not every registry lets everybody list; the artifact itself was read.
                tracing::debug!(source = %place.question.source, %error, "skipped artifacts are not looked for");
                return Ok(None);
            }
        };
        let names = place.question.known.iter().chain([&place.question.to]).filter_map(Revision::name);
        let moving: Vec<&str> = names.collect();
        let mut new = self.memory.new_tags(&place.repository, tags.tags);
        // Versions beyond these are somebody's next question.
        new.retain(|tag| !moving.contains(&tag.as_str()) && is_between(tag, place));
        new.sort_by(|one, other| by_numbers(other, one));
        let is_told = tags.complete && new.len() <= self.config.max_skipped;
        let (mut looked, mut manifests) = (Vec::new(), HashMap::new());
        for tag in new.iter().take(self.config.max_skipped) {
            if let Some(manifest) = self.tagged(place, tag).await? {
                looked.push(Looked::new(manifest.digest.clone(), manifest.annotations()));
                manifests.insert(manifest.digest.clone(), manifest);
            }
        }
        self.memory.saw(&place.repository, new, looked);
        self.memory.listed(&place.repository, &to.digest, is_told);
        Ok(Some((is_told, manifests)))
    }

    /// What a tag stands for; nothing where that is nobody's artifact.
    async fn tagged(&self, place: &Place<'_>, tag: &str) -> Result<Option<Manifest>, ChangesError> {
        let reference = Reference::Tag(tag.to_owned());
        match place.client.manifest(&place.repository, &place.login, &reference).await {
            Ok(manifest) => Ok(Some(manifest)),
            Err(error @ (OciError::Unauthorized { .. } | OciError::Forbidden { .. })) => {
                Err(explained(place.question, "look at the tags", error))
            }
            Err(error) if error.is_transient() => Err(explained(place.question, "look at the tags", error)),
            Err(error) => {
                tracing::debug!(source = %place.question.source, tag, %error, "a tag is passed over");
                Ok(None)
            }
        }
    }

    /// All commits between the two artifacts as Git has them; none where that is not to be known: they do not say what
    /// they were built from, the payload's commits are another repository's, or it cannot be read.
    async fn walked(
        &self,
        place: &Place<'_>,
        to: &Artifact,
        info: &ExporterInfo,
        from: Option<&Artifact>,
    ) -> Result<Option<Vec<Commit>>, ChangesError> {
        let Some(git) = &self.git else { return Ok(None) };
        let mut question = place.question.clone();
        let Some(origin) = question.known_origins.last_mut() else { return Ok(None) };
        if origin.is_none() {
            *origin = from.and_then(|from| from.annotations.get(REVISION).cloned());
        }
        if origin.is_none() {
            return Ok(None);
        }
        let mut annotations = to.annotations.clone();
        annotations.extend(question.metadata.clone());
        let Some(asked) = git_question(&annotations, &question) else { return Ok(None) };
        match git.find(&asked).await {
            Ok(changes) if changes.unrelated || changes.truncated => Ok(None),
            Ok(changes) => {
                let own = Ids::of(&info.commits);
                let is_same_repository = changes.commits.iter().any(|commit| own.holds(&commit.id));
                Ok(is_same_repository.then_some(changes.commits))
            }
            Err(error) if !error.problem.is_permanent() => Err(error),
            Err(error) => {
                tracing::debug!(source = %place.question.source, %error, "Git does not tell what was skipped");
                Ok(None)
            }
        }
    }
}

/// Ids of commits, some of which may be written short.
pub(super) struct Ids {
    ids: HashSet<String>,
}

impl Ids {
    pub(super) fn of<'a>(commits: impl IntoIterator<Item = &'a Commit>) -> Self {
        Self { ids: commits.into_iter().map(|commit| commit.id.clone()).collect() }
    }

    /// Whether this one is among them, as it is or short.
    pub(super) fn holds(&self, id: &str) -> bool {
        self.ids.contains(id)
            || (SHORT..id.len()).any(|end| id.get(..end).is_some_and(|id| self.ids.contains(id)))
    }
}

/// Two times, neither of which is between them.
struct Between {
    after: Timestamp,
    before: Timestamp,
}

impl Between {
    fn holds(&self, at: Option<Timestamp>) -> bool {
        at.is_some_and(|at| self.after < at && at < self.before)
    }
}

/// The exporter's commits of what was known.
fn known_commits(place: &Place<'_>, from: Option<&Artifact>) -> Vec<String> {
    let origins = place.question.known_origins.iter().flatten();
    let digests = origins.filter_map(|origin| origin.parse::<Revision>().ok()?.digest().map(str::to_owned));
    let commits = place.question.known_commits().filter_map(|known| known.digest().map(str::to_owned));
    digests.chain(commits).chain(from.and_then(Artifact::commit).map(str::to_owned)).collect()
}

/// What `previous_commit`s say.
enum Chain {
    /// Nothing: the payload has none.
    Unsaid,
    /// These were skipped, and nothing else.
    Whole(Vec<Arc<Artifact>>),
    /// The predecessor is neither what was known, nor anything that was seen.
    Broken,
}

impl Chain {
    fn of(info: &ExporterInfo, seen: &[Arc<Artifact>], known: &[String]) -> Self {
        let Some(mut previous) = info.previous_commit.as_deref() else { return Self::Unsaid };
        let mut artifacts = Vec::new();
        for _ in 0..MAX_CHAIN {
            // One of the two may be written short.
            if known.iter().any(|known| same_commit(known, previous)) {
                return Self::Whole(artifacts);
            }
            let found = seen.iter().find(|artifact| artifact.commit() == Some(previous));
            let next = found.and_then(|artifact| artifact.info.as_ref()?.previous_commit.as_deref());
            let (Some(found), Some(next)) = (found, next) else { return Self::Broken };
            artifacts.push(Arc::clone(found));
            previous = next;
        }
        Self::Broken
    }
}

/// Whether two ids name one commit: one of the two may be written short.
pub(super) fn same_commit(one: &str, other: &str) -> bool {
    let shorter = one.len().min(other.len());
    shorter >= SHORT && one.get(..shorter) == other.get(..shorter) || one == other
}

/// Whether nothing can be between the tags of the revisions: the one is the next number after the other. One and the same
/// has moved, and nobody knows how often.
fn are_neighbours(place: &Place<'_>) -> bool {
    let question = place.question;
    match (question.known.last().and_then(Revision::name), question.to.name()) {
        (Some(from), Some(to)) => is_next(from, to),
        _ => false,
    }
}

/// Whether the revisions' tags are their own, and not one that moves: different ones with numbers.
fn are_numbered(place: &Place<'_>) -> bool {
    let question = place.question;
    let has_number = |name: &str| parts(name).iter().any(|part| part.number.is_some());
    match (question.known.last().and_then(Revision::name), question.to.name()) {
        (Some(from), Some(to)) => from != to && has_number(from) && has_number(to),
        _ => false,
    }
}

/// Whether two names differ in their last number alone, and that by one.
fn is_next(from: &str, to: &str) -> bool {
    let (from, to) = (parts(from), parts(to));
    let last = from.iter().rposition(|part| part.number.is_some());
    let Some(at) = last.filter(|_| from.len() == to.len()) else { return false };
    from.iter().zip(&to).enumerate().all(|(position, (from, to))| match (from.number, to.number) {
        (Some(from), Some(to)) if position == at => from.checked_add(1) == Some(to),
        _ => from.text == to.text,
    })
}

/// Whether a tag can be of something between the revisions: of versions, those between; of others, any.
fn is_between(tag: &str, place: &Place<'_>) -> bool {
    let question = place.question;
    let (Some(from), Some(to)) = (question.known.last().and_then(Revision::name), question.to.name()) else {
        return true;
    };
    let (first, last, this) = (parts(from), parts(to), parts(tag));
    let alike = |one: &[Part<'_>], other: &[Part<'_>]| {
        one.len() == other.len()
            && one.iter().zip(other).all(|(one, other)| one.number.is_some() == other.number.is_some())
            && one.iter().zip(other).all(|(one, other)| one.number.is_some() || one.text == other.text)
    };
    let are_versions = from != to && alike(&first, &last) && by_numbers(from, to) == Ordering::Less;
    // A commit's hash has digits, too, so only what looks like the two is held against them.
    if are_versions && alike(&this, &first) {
        return by_numbers(from, tag) == Ordering::Less && by_numbers(tag, to) == Ordering::Less;
    }
    true
}

/// By the numbers in the names, as numbers.
fn by_numbers(one: &str, other: &str) -> Ordering {
    let (one, other) = (parts(one), parts(other));
    let pairs = one.iter().zip(&other).map(|(one, other)| match (one.number, other.number) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => one.text.cmp(other.text),
    });
    pairs.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
}

/// A run of digits, or of anything else.
struct Part<'a> {
    text: &'a str,
    number: Option<u64>,
}

fn parts(name: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let is_digit = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        // One that is too long to be a number is a name like any other.
        parts.push(Part { text, number: is_digit.then(|| text.parse().ok()).flatten() });
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{Ids, by_numbers, is_next};
    use std::cmp::Ordering;

    #[test]
    fn the_next_number_is_a_neighbour() {
        for (from, to) in
            [("1.4.2", "1.4.3"), ("v9", "v10"), ("main-41", "main-42"), ("1.0.0-rc.1", "1.0.0-rc.2")]
        {
            assert!(is_next(from, to), "{from} {to}");
        }
        for (from, to) in [
            ("1.4.2", "1.4.4"),
            ("1.4.9", "1.5.0"),
            ("main-41", "test-42"),
            ("a", "b"),
            ("v2", "v1"),
            ("v2", "v2"),
            ("latest", "latest"),
            ("1", "1.1"),
            ("", "1"),
        ] {
            assert!(!is_next(from, to), "{from} {to}");
        }
    }

    #[test]
    fn a_commit_is_known_by_its_id_whole_or_short() {
        let ids = Ids { ids: ["0123456", "89abcdef01", "long-enough"].map(str::to_owned).into() };
        for (id, holds) in [
            ("0123456", true),
            ("0123456789", true),
            ("89abcdef0123", true),
            ("012345", false),
            ("89abcdef", false),
            ("", false),
        ] {
            assert_eq!(ids.holds(id), holds, "{id}");
        }
    }

    #[test]
    fn names_are_ordered_by_their_numbers() {
        assert_eq!(by_numbers("v9", "v10"), Ordering::Less);
        assert_eq!(by_numbers("1.10.0", "1.9.7"), Ordering::Greater);
        assert_eq!(by_numbers("1.0", "1.0.1"), Ordering::Less);
        assert_eq!(by_numbers("a1", "a1"), Ordering::Equal);
        assert_eq!(by_numbers("99999999999999999999999", "1"), Ordering::Greater);
    }
}
