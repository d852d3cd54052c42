//! As much of an object as decisions need.

use serde::Deserialize;
use windlass_api::annotations::MANAGER_KIND_REPO;

use super::annotations::{Annotations, has_drifted};
use crate::names;
use crate::plan::Existing;

#[derive(Debug, Deserialize)]
pub(super) struct Head {
    pub(super) metadata: HeadMetadata,
    #[serde(default)]
    pub(super) spec: HeadSpec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HeadMetadata {
    #[serde(default)]
    pub(super) resource_version: String,
    #[serde(default)]
    pub(super) uid: String,
    pub(super) generation: Option<i64>,
    annotations: Option<Annotations>,
    labels: Option<Labels>,
    pub(super) deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Labels {
    #[serde(rename = "windlass.dev/managed-by")]
    managed_by: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct HeadSpec {
    pub(super) title: Option<String>,
}

impl Head {
    pub(super) fn marks(&self) -> &Annotations {
        const NONE: &Annotations = &Annotations::NONE;
        self.metadata.annotations.as_ref().unwrap_or(NONE)
    }

    pub(super) fn path(&self) -> &str {
        self.marks().source_path.as_deref().unwrap_or_default().trim_end_matches('/')
    }

    pub(super) fn is_managed_by(&self, repository: &str) -> bool {
        let marks = self.marks();
        marks.managed_by.as_deref() == Some(MANAGER_KIND_REPO)
            && marks.manager_id.as_deref() == Some(repository)
    }

    /// Whether a list of what the repository manages has it.
    pub(super) fn is_listed_for(&self, repository: &str) -> bool {
        let label = self.metadata.labels.as_ref().and_then(|labels| labels.managed_by.as_deref());
        label == Some(&*names::label_value(repository))
    }

    /// Whether somebody else changed the spec since our last write.
    pub(super) fn has_drifted(&self) -> bool {
        has_drifted(self.metadata.generation, self.marks().written_generation())
    }
}

/// What is known about an object before the next request.
#[derive(Debug, Clone)]
pub(crate) enum Observed {
    /// There is none.
    Absent,
    /// It is there.
    At(At),
    /// Nothing: it has to be looked at.
    Unknown,
}

impl Observed {
    /// An object of which only the version is known, if that.
    pub(super) fn at_version(version: Option<&str>) -> Self {
        version.map_or(Self::Unknown, |version| Self::At(At { version: version.to_owned(), ..At::default() }))
    }
}

/// An object as it was looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct At {
    pub(crate) version: String,
    pub(crate) uid: String,
    pub(crate) has_labels: bool,
    pub(crate) has_annotations: bool,
    pub(crate) file_metadata: Option<String>,
    pub(crate) generation: Option<i64>,
    /// Hash of the file or document that the spec was last written from, empty for a folder without a file; nothing if the
    /// spec has changed since, or may have.
    pub(crate) spec_of: Option<String>,
    pub(crate) manager: Manager,
}

/// Who has managed an object so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Manager {
    /// We.
    #[default]
    Repository,
    /// We, but it lacks the label by which what we manage is listed.
    RepositoryUnlisted,
    /// Nobody, or another manager.
    Other,
}

impl At {
    /// The generation that writing the content of this hash leads to: a write that leaves the spec as it is does not
    /// count.
    pub(super) fn next_generation(&self, checksum: Option<&str>) -> Option<i64> {
        let same = self.spec_of.as_deref() == Some(checksum.unwrap_or_default());
        Some(self.generation? + i64::from(!same))
    }
}

impl From<&Existing> for At {
    fn from(existing: &Existing) -> Self {
        Self {
            version: existing.resource_version.clone(),
            uid: existing.uid.clone(),
            has_labels: true,
            has_annotations: true,
            file_metadata: existing.file_metadata.clone(),
            generation: existing.generation,
            spec_of: (!existing.drifted).then(|| existing.checksum.clone().unwrap_or_default()),
            manager: Manager::Repository,
        }
    }
}

impl Head {
    pub(super) fn into_at(self, repository: &str) -> At {
        let drifted = self.has_drifted();
        let manager = match (self.is_managed_by(repository), self.is_listed_for(repository)) {
            (true, true) => Manager::Repository,
            (true, false) => Manager::RepositoryUnlisted,
            (false, _) => Manager::Other,
        };
        let HeadMetadata { resource_version, uid, generation, annotations, labels, .. } = self.metadata;
        let has_annotations = annotations.is_some();
        let marks = annotations.unwrap_or_default();
        let content_hash = marks.content_hash().map(str::to_owned);
        At {
            version: resource_version,
            uid,
            has_labels: labels.is_some(),
            has_annotations,
            file_metadata: marks.file_metadata,
            generation,
            spec_of: (!drifted && manager != Manager::Other).then(|| content_hash.unwrap_or_default()),
            manager,
        }
    }
}
