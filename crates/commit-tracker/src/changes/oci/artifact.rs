//! What is remembered of an artifact.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windlass_oci::Digest;

use crate::Revision;
use crate::changes::Changes;
use crate::changes::metadata::{CREATED, READ, REVISION, SOURCE};
use crate::measure::FIRST_COMMIT;

/// Bytes of an annotation that is kept: what is longer is no commit, time or link.
const MAX_ANNOTATION: usize = 1 << 10;

/// One artifact.
#[derive(Debug)]
pub(super) struct Artifact {
    pub(super) digest: Digest,
    /// When it was built, as it says.
    pub(super) created: Option<Timestamp>,
    /// The exporter's payload.
    pub(super) info: Option<Changes>,
    /// Those that say where it is from.
    pub(super) annotations: BTreeMap<String, String>,
}

impl Artifact {
    pub(super) fn new(
        digest: Digest,
        mut annotations: BTreeMap<String, String>,
        info: Option<Changes>,
    ) -> Self {
        // Reproducible builds have a date that is none, such as 1970.
        let created = annotations.get(CREATED).and_then(|created| created.trim().parse().ok());
        let created = created.filter(|created| *created >= FIRST_COMMIT);
        let is_read = |key: &str| key == SOURCE || key == REVISION || (info.is_none() && READ.contains(&key));
        annotations.retain(|key, value| is_read(key) && value.len() <= MAX_ANNOTATION);
        Self { digest, created, info, annotations }
    }

    /// How many commits and annotations are kept of it, and one.
    pub(super) fn size(&self) -> u32 {
        u32::try_from(1 + self.ids().count() + self.annotations.len()).unwrap_or(u32::MAX)
    }

    /// When it was built, or else its newest commit.
    pub(super) fn at(&self) -> Option<Timestamp> {
        self.created.or_else(|| self.info.as_ref()?.commits.last().map(|commit| commit.merged))
    }

    /// Whether it was built after the other, as both say. Dates of commits do not tell: an old branch is merged late.
    pub(super) fn is_younger(&self, other: &Self) -> bool {
        self.created.zip(other.created).is_some_and(|(own, other)| own > other)
    }

    /// The commits that came with it.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.info.iter().flat_map(|info| &info.commits).map(|commit| commit.id.as_str())
    }

    /// Whether the two can be of one series, as far as both name their source and its branch: a repository may have
    /// artifacts of several.
    pub(super) fn is_of_stream(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        let revision = |of: &Self| of.annotations.get(REVISION)?.parse::<Revision>().ok();
        let (one, two) = (revision(self), revision(other));
        agree(self.annotations.get(SOURCE), other.annotations.get(SOURCE))
            && agree(one.as_ref().and_then(Revision::name), two.as_ref().and_then(Revision::name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_annotations_only_those_are_kept_that_are_read() {
        let digest = || format!("sha256:{:064}", 1).parse().unwrap();
        let mut annotations: BTreeMap<String, String> =
            (0..1_000).map(|number| (format!("org.example.{number}"), "x".repeat(4_000))).collect();
        annotations.insert(SOURCE.into(), "x".repeat(100_000));
        annotations.insert(REVISION.into(), "main@sha1:1".into());
        annotations.insert("traceparent".into(), "00-1".into());
        let keys = |artifact: Artifact| artifact.annotations.into_keys().collect::<Vec<_>>();
        let bare = Artifact::new(digest(), annotations.clone(), None);
        assert_eq!(keys(bare), [REVISION, "traceparent"]);
        let told = Artifact::new(digest(), annotations.clone(), Some(Changes::default()));
        assert_eq!(keys(told), [REVISION]);
    }
}
