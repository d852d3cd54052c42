//! Artifacts that Flux went past: built after the one that was known and before the one that was applied.
//!
//! Three things say which they are, the cheapest first: the chain of `previous_commit`s, where payloads have it; what
//! this process was asked about meanwhile; and the Git repository that the artifacts say they were built from, where the
//! payload's commits are that repository's. Where nothing tells, the answer is
//! [incomplete](crate::changes::Changes::incomplete).

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use windlass_oci::Digest;

use super::memory::Artifact;
use super::{LookForSkipped, OciChanges, Place, REVISION, git_question};
use crate::Revision;
use crate::changes::{Changes, ChangesError, Commit, ExporterInfo};

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
    /// What was skipped between the newest of `known`, as far as it is there, and `to`.
    pub(super) async fn skipped(
        &self,
        place: &Place<'_>,
        to: &Arc<Artifact>,
        info: &ExporterInfo,
        known: &[Digest],
        from: Option<&Artifact>,
    ) -> Result<Skipped, ChangesError> {
        if known.is_empty() {
            return Ok(Skipped::default());
        }
        let seen = self.memory.artifacts(&place.repository);
        let chain = Chain::of(info, &seen, &known_commits(place, from));
        if let Chain::Whole(artifacts) = chain {
            return Ok(Skipped { artifacts, ..Skipped::default() });
        }
        let is_unsure = matches!(chain, Chain::Broken) || !are_neighbours(place);
        if !is_unsure && self.config.skipped != LookForSkipped::Always {
            return Ok(Skipped::default());
        }
        let mut skipped = Skipped::default();
        let times = from.filter(|from| from.is_of_stream(to)).and_then(|from| from.at().zip(to.at()));
        if let Some((after, before)) = times {
            let is_between = |at: Timestamp| after < at && at < before;
            let of_stream = seen.into_iter().filter(|artifact| {
                let is_new = artifact.digest != to.digest && !known.contains(&artifact.digest);
                is_new && artifact.info.is_some() && artifact.is_of_stream(to)
            });
            skipped.artifacts.extend(of_stream.filter(|artifact| artifact.at().is_some_and(is_between)));
        }
        let walked = match self.config.skipped {
            LookForSkipped::Never => None,
            _ => self.history(place, to, from).await?,
        };
        let own = Ids::of(&info.commits);
        match walked.filter(|walked| walked.commits.iter().any(|commit| own.holds(&commit.id))) {
            Some(walked) => skipped.walked = walked.commits,
            None => skipped.incomplete = is_unsure,
        }
        if skipped.incomplete {
            tracing::info!(
                source = %place.question.source,
                revision = %place.question.to,
                "nothing tells whether artifacts were skipped before this one: write previous_commit into its payload, or \
                 let it name the Git repository of its commits"
            );
        }
        Ok(skipped)
    }

    /// The history between the two artifacts as Git has it; none where that is not to be known: they do not say what
    /// they were built from, or it cannot be read.
    pub(super) async fn history(
        &self,
        place: &Place<'_>,
        to: &Artifact,
        from: Option<&Artifact>,
    ) -> Result<Option<Changes>, ChangesError> {
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
            Ok(changes) => Ok(Some(changes).filter(|changes| !changes.unrelated && !changes.truncated)),
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
    let names = question.known.last().and_then(Revision::name).zip(question.to.name());
    names.is_some_and(|(from, to)| is_next(from, to))
}

/// Whether two names differ in their last number alone, and that by one.
fn is_next(from: &str, to: &str) -> bool {
    let parts = |name: &str| {
        let after = name.rfind(|c: char| c.is_ascii_digit()).map(|last| last + 1)?;
        let first = name[..after]
            .rfind(|c: char| !c.is_ascii_digit())
            .map_or(0, |before| before + name[before..].chars().next().map_or(1, char::len_utf8));
        Some((name[..first].to_owned(), name[first..after].parse::<u64>().ok()?, name[after..].to_owned()))
    };
    match (parts(from), parts(to)) {
        (Some((start, number, end)), Some(next)) => {
            number.checked_add(1).is_some_and(|number| (start, number, end) == next)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Ids, is_next};

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
}
