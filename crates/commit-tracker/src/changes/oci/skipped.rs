//! Artifacts that Flux went past: built after the one that was known and before the one that was applied.
//!
//! Three things say which they are, the cheapest first: the chain of `previous_commit`s, where payloads have it; what
//! this process was asked about meanwhile; and the tags of the registry. An artifact that has no tag of its own, that
//! was deleted, or that does not say when it was built, is not found.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use windlass_oci::{Digest, OciError, Reference};

use super::memory::{Artifact, is_of_stream};
use super::{CREATED, LookForSkipped, OciChanges, Place, explained};
use crate::Revision;
use crate::changes::{ChangesError, ExporterInfo};

/// Longest chain of predecessors that is followed.
const MAX_CHAIN: usize = 256;

/// What was skipped.
#[derive(Default)]
pub(super) struct Skipped {
    /// In no order.
    pub(super) artifacts: Vec<Arc<Artifact>>,
    /// There were more tags than are looked at.
    pub(super) may_lack: bool,
    /// None, because the new one is older than what was known.
    pub(super) is_back: bool,
}

impl OciChanges {
    /// What was skipped between the newest of `known` and `to`.
    pub(super) async fn skipped(
        &self,
        place: &Place<'_>,
        to: &Arc<Artifact>,
        info: &ExporterInfo,
        known: &[Digest],
    ) -> Result<Skipped, ChangesError> {
        let Some(newest) = known.last() else { return Ok(Skipped::default()) };
        let seen = self.memory.artifacts(&place.repository);
        let from = self.memory.artifact(&place.repository, newest);
        let chain = Chain::of(info, &seen, &known_commits(place, from.as_deref()));
        if let Chain::Whole(artifacts) = chain {
            return Ok(Skipped { artifacts, ..Skipped::default() });
        }
        // What it is asked about was there before this process, which does not know what was known: after a restart, or
        // rolled back to something old.
        let built = to.at().or(place.question.seen);
        let before_us = from.is_none() && built.is_some_and(|built| built < self.began);
        let wants_look = match self.config.skipped {
            LookForSkipped::Never => false,
            LookForSkipped::Always => true,
            LookForSkipped::WhenUnsure => {
                matches!(chain, Chain::Broken) || before_us || !are_neighbours(place)
            }
        };
        let candidates: Vec<_> = seen
            .into_iter()
            .filter(|artifact| artifact.digest != to.digest && !known.contains(&artifact.digest))
            .filter(|artifact| artifact.info.is_some() && artifact.is_of_stream(to))
            .collect();
        let mut skipped = Skipped::default();
        if candidates.is_empty() && !wants_look && !before_us {
            return Ok(skipped);
        }
        let Some(between) = self.between(place, from, newest, to).await? else { return Ok(skipped) };
        if between.after > between.before {
            skipped.is_back = true;
            return Ok(skipped);
        }
        skipped.artifacts.extend(candidates.into_iter().filter(|artifact| between.holds(artifact.at())));
        if wants_look {
            self.look(place, to, known, &between, &mut skipped).await?;
        }
        Ok(skipped)
    }

    /// The time between the known artifact and the new one; none where either does not say when it was built, or the
    /// known one is gone, or of another series.
    async fn between(
        &self,
        place: &Place<'_>,
        from: Option<Arc<Artifact>>,
        newest: &Digest,
        to: &Artifact,
    ) -> Result<Option<Between>, ChangesError> {
        let from = match from {
            Some(from) => from,
            None => match self.artifact(place, newest).await {
                Ok(from) => from,
                Err(error) if !error.problem.is_permanent() => return Err(error),
                Err(_) => return Ok(None),
            },
        };
        let times = from.at().zip(to.at()).filter(|_| from.is_of_stream(to));
        Ok(times.map(|(after, before)| Between { after, before }))
    }

    /// Looks at the tags that are new, or at the newest by name where none were known.
    async fn look(
        &self,
        place: &Place<'_>,
        to: &Arc<Artifact>,
        known: &[Digest],
        between: &Between,
        skipped: &mut Skipped,
    ) -> Result<(), ChangesError> {
        let tags = match place.client.tags(&place.repository, &place.login, self.config.max_tags).await {
            Ok(tags) => tags,
            Err(error) if error.is_transient() => {
                return Err(explained(place.question, "list the tags", error));
            }
            Err(error) => {
                // Not every registry lets everybody list; the artifact itself was read.
                tracing::debug!(source = %place.question.source, %error, "skipped artifacts are not looked for");
                return Ok(());
            }
        };
        skipped.may_lack |= !tags.complete;
        let (mut tags, _) = self.memory.new_tags(&place.repository, tags.tags);
        let moving = place.question.known.iter().chain([&place.question.to]).filter_map(Revision::name);
        let moving: Vec<&str> = moving.collect();
        tags.retain(|tag| !moving.contains(&tag.as_str()) && is_between(tag, place));
        tags.sort_by(|one, other| by_numbers(other, one));
        skipped.may_lack |= tags.len() > self.config.max_skipped;
        for tag in tags.into_iter().take(self.config.max_skipped) {
            let manifest =
                match place.client.manifest(&place.repository, &place.login, &Reference::Tag(tag)).await {
                    Ok(manifest) => manifest,
                    Err(error) if error.is_transient() => {
                        return Err(explained(place.question, "look at the tags", error));
                    }
                    Err(OciError::NotFound { .. } | OciError::Malformed { .. }) => continue,
                    Err(error) => return Err(explained(place.question, "look at the tags", error)),
                };
            let digest = manifest.digest.clone();
            let annotations = manifest.annotations();
            let created = annotations.get(CREATED).and_then(|created| created.trim().parse().ok());
            let is_known = digest == to.digest
                || known.contains(&digest)
                || skipped.artifacts.iter().any(|artifact| artifact.digest == digest);
            let may_be = created.is_none() || between.holds(created);
            if is_known || !may_be || !is_of_stream(annotations, &to.annotations) {
                continue;
            }
            match self.read(place, &digest, manifest).await {
                Ok(artifact) if artifact.info.is_some() && between.holds(artifact.at()) => {
                    skipped.artifacts.push(artifact);
                }
                Ok(_) => {}
                Err(error) if !error.problem.is_permanent() => return Err(error),
                Err(error) => {
                    tracing::warn!(source = %place.question.source, %digest, %error, "a skipped artifact is of no use");
                    skipped.may_lack = true;
                }
            }
        }
        Ok(())
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
    digests.chain(from.and_then(Artifact::commit).map(str::to_owned)).collect()
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

fn same_commit(one: &str, other: &str) -> bool {
    let shorter = one.len().min(other.len());
    shorter >= 7 && one.get(..shorter) == other.get(..shorter) || one == other
}

/// Whether nothing can be between the tags of the revisions: it is one and the same, or the next number.
fn are_neighbours(place: &Place<'_>) -> bool {
    let question = place.question;
    match (question.known.last().and_then(Revision::name), question.to.name()) {
        (Some(from), Some(to)) => from == to || is_next(from, to),
        _ => false,
    }
}

/// Whether two names differ in their last number alone, and that by one.
fn is_next(from: &str, to: &str) -> bool {
    let (from, to) = (parts(from), parts(to));
    let Some(at) = (from.len() == to.len()).then(|| from.iter().rposition(|part| part.number.is_some()))
    else {
        return false;
    };
    from.iter().zip(&to).enumerate().all(|(position, (from, to))| match (from.number, to.number) {
        (Some(from), Some(to)) if Some(position) == at => from.checked_add(1) == Some(to),
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
    use super::{by_numbers, is_next};
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
            ("1", "1.1"),
            ("", "1"),
        ] {
            assert!(!is_next(from, to), "{from} {to}");
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
