//! Which source a Kustomization applies.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kinds of Flux sources that a Kustomization can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SourceKind {
    /// A Git repository.
    GitRepository,
    /// An artifact in a registry.
    #[serde(rename = "OCIRepository")]
    OciRepository,
    /// A bucket of an object store.
    Bucket,
    /// An artifact that another controller makes.
    ExternalArtifact,
}

impl SourceKind {
    /// Every kind.
    pub const ALL: [Self; 4] =
        [Self::GitRepository, Self::OciRepository, Self::Bucket, Self::ExternalArtifact];

    /// The kind's name in `spec.sourceRef.kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::GitRepository => "GitRepository",
            Self::OciRepository => "OCIRepository",
            Self::Bucket => "Bucket",
            Self::ExternalArtifact => "ExternalArtifact",
        }
    }

    /// The kind of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One source object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey {
    /// Its kind.
    pub kind: SourceKind,
    /// Its namespace; that of the Kustomization where `sourceRef` names none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}
