//! Which source a Kustomization applies.

use std::fmt;
use std::sync::Arc;

use crate::names::named;

named! {
    /// The kinds of Flux sources that a Kustomization can name.
    pub enum SourceKind {
        /// A Git repository.
        GitRepository = "GitRepository",
        /// An artifact in a registry.
        OciRepository = "OCIRepository",
        /// A bucket of an object store.
        Bucket = "Bucket",
        /// An artifact that another controller makes.
        ExternalArtifact = "ExternalArtifact",
    }
}

/// One source object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey {
    /// Its kind.
    pub kind: SourceKind,
    /// Its namespace; that of the Kustomization where `sourceRef` names none.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}
