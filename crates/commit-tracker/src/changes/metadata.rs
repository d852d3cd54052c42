//! What an artifact's metadata alone says: the commit that it was built from, and when it was built.
//!
//! `ExternalArtifact`s and `Bucket`s have nothing else, and an artifact in a registry without an exporter's payload has
//! the same annotations. They name one commit, the newest; what else went into the artifact is not said. When that
//! commit was merged is not said either: `created` stands in for it, so that the way is measured from the build on.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Changes, ChangesError, ChangesQuery, Commit, FindChanges, Problem};
use crate::Revision;

/// Where an artifact's source is.
pub(super) const SOURCE: &str = "org.opencontainers.image.source";
/// The revision of its source that an artifact was built from.
pub(crate) const REVISION: &str = "org.opencontainers.image.revision";
/// When it was built, RFC 3339.
pub(super) const CREATED: &str = "org.opencontainers.image.created";
/// The build, as the exporter's payload names it.
const BUILD_LINK: &str = "export_build_link";
/// The W3C trace context of the build.
const TRACEPARENT: &str = "traceparent";
/// Those of an artifact that are read here.
pub(super) const READ: [&str; 4] = [REVISION, CREATED, BUILD_LINK, TRACEPARENT];
/// Characters of a revision that is no digest.
const MAX_REVISION: usize = 128;

/// Changes from the metadata of the artifact, and nothing else: no requests are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetadataChanges;

#[async_trait]
impl FindChanges for MetadataChanges {
    async fn find(&self, question: &ChangesQuery) -> Result<Changes, ChangesError> {
        annotated(&question.metadata, question)
    }
}

/// The commit that these annotations name; none when it came with what was known before.
///
/// They are the artifact's metadata, or the annotations of its manifest where somebody asked the registry.
/// [`ChangesQuery::origin`] is used where they name no revision.
///
/// # Errors
/// [`Problem::Unsupported`] when they name no revision, or not when it was built; [`Problem::Malformed`] when either makes
/// no sense.
pub fn annotated(
    annotations: &BTreeMap<String, String>,
    question: &ChangesQuery,
) -> Result<Changes, ChangesError> {
    let (source, to) = (&question.source, &question.to);
    let text = |key: &str| annotations.get(key).map(|text| text.trim()).filter(|text| !text.is_empty());
    let silent = |what: &str, key: &str| {
        let text = format!("the artifact {to} of {source} does not say {what}: annotate it with {key}");
        ChangesError::new(Problem::Unsupported, text)
    };
    let wrong = |key: &str, what: &str| {
        let text = format!("failed to read {key} of the artifact {to} of {source}: it is {what}");
        ChangesError::new(Problem::Malformed, text)
    };
    let origin = text(REVISION).or(question.origin.as_deref());
    let origin = origin.ok_or_else(|| silent("which commit it was built from", REVISION))?;
    let id = commit_id(origin).ok_or_else(|| wrong(REVISION, "no revision"))?;
    let links = Changes {
        build_link: text(BUILD_LINK).map(str::to_owned),
        traceparent: text(TRACEPARENT).map(str::to_owned),
        ..Changes::default()
    };
    let origins = question.known.iter().filter_map(|known| commit_id(known.origin.as_deref()?));
    let commits = question.known_commits().filter_map(|known| known.digest().map(str::to_owned));
    if origins.chain(commits).any(|known| known == id) {
        return Ok(links);
    }
    let created = text(CREATED).ok_or_else(|| silent("when it was built", CREATED))?;
    let merged: Timestamp =
        created.parse().map_err(|error: jiff::Error| wrong(CREATED, "no time").because(error))?;
    // Nothing says what it was built after: only whether the source writes its revisions as the one before did.
    let unrelated =
        !question.known.is_empty() && !question.known.iter().any(|known| is_alike(&known.revision, to));
    Ok(Changes { commits: vec![Commit::new(id, merged)], unrelated, ..links })
}

/// Whether two revisions can be of one source, by how they are written.
fn is_alike(one: &Revision, other: &Revision) -> bool {
    one.algorithm() == other.algorithm() && one.name().is_some() == other.name().is_some()
}

/// The commit of a revision: its digest, or the whole text where it has none.
fn commit_id(revision: &str) -> Option<String> {
    let parsed: Revision = revision.parse().ok()?;
    if let Some(digest) = parsed.digest() {
        return Some(digest.to_owned());
    }
    let is_plain = revision.len() <= MAX_REVISION && revision.chars().all(|c| c.is_ascii_graphic());
    is_plain.then(|| revision.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceKind;
    use crate::given;

    const SHA: &str = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738";

    /// The commit, or that there is none, or why it is not known.
    fn find(annotations: &[(&str, &str)], [origin, known]: [Option<&str>; 2]) -> Result<Changes, Problem> {
        let question = ChangesQuery {
            origin: origin.map(str::to_owned),
            known: known.map(|known| given::accounted("v1", Some(known))).into_iter().collect(),
            ..given::question(SourceKind::ExternalArtifact, "", "v2", &[])
        };
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        annotated(&annotations.collect(), &question).map_err(|error| error.problem)
    }

    #[test]
    fn the_revision_and_its_time_are_one_commit_and_what_is_missing_or_wrong_is_told() {
        let created = (CREATED, "2026-03-04T09:15:00Z");
        let (branch, upper) = (format!("main@sha1:{SHA}"), format!("main@sha1:{}", SHA.to_uppercase()));
        let (merged, long) = (created.1.parse().unwrap(), "a".repeat(200));
        for (annotations, about, expected) in [
            (&[(REVISION, &*branch), created][..], [None; 2], Ok(Some(SHA))),
            // What the Kustomization says of the origin will do.
            (&[created], [Some(SHA), None], Ok(Some(SHA))),
            (&[created], [Some("build-7"), None], Ok(Some("build-7"))),
            // A build of a commit that is known brings nothing new.
            (&[(REVISION, SHA)], [None, Some(&*upper)], Ok(None)),
            (&[created], [None; 2], Err(Problem::Unsupported)),
            (&[(REVISION, " "), created], [None; 2], Err(Problem::Unsupported)),
            (&[(REVISION, SHA)], [None; 2], Err(Problem::Unsupported)),
            (&[(REVISION, SHA), (CREATED, "yesterday")], [None; 2], Err(Problem::Malformed)),
            (&[(REVISION, "a b"), created], [None; 2], Err(Problem::Malformed)),
            (&[(REVISION, &*long), created], [None; 2], Err(Problem::Malformed)),
        ] {
            let found = find(annotations, about).map(|changes| changes.commits);
            let expected = expected.map(|id| Vec::from_iter(id.map(|id| Commit::new(id, merged))));
            assert_eq!(found, expected, "{annotations:?}");
        }
        let traceparent = (TRACEPARENT, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let link = (BUILD_LINK, "https://ci.example.org/7");
        let changes = find(&[(REVISION, SHA), created, traceparent, link], [None; 2]).unwrap();
        assert_eq!(changes.traceparent.as_deref(), Some(traceparent.1));
        assert_eq!(changes.build_link.as_deref(), Some(link.1));
    }
}
