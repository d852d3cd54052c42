//! What a source says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use windlass_runtime::ObjectKey;

use super::{middle, revision};
use crate::objects::{SecretRef, Source};
use crate::{Revision, SourceKey, SourceKind};

/// What a source of any kind says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFacts {
    /// Which one it is.
    pub key: SourceKey,
    /// Counts the changes of its specification.
    pub generation: u64,
    /// `spec.url`; empty for kinds that have none.
    pub url: String,
    /// Whether it is reached without TLS.
    pub insecure: bool,
    /// The Secret of its namespace that it names.
    pub secret: Option<String>,
    /// The one that it names for certificates.
    pub cert_secret: Option<String>,
    /// The revision that it has now.
    pub revision: Option<Revision>,
    /// When it made the artifact of `revision`. It may have made it anew since it saw the revision first.
    pub seen: Option<Timestamp>,
    /// What the origin says of `revision`, such as the annotations of an OCI manifest.
    pub metadata: BTreeMap<String, String>,
}

impl SourceFacts {
    /// When the source had this revision; none where it has another now.
    pub fn seen(&self, revision: &Revision) -> Option<Timestamp> {
        self.seen.filter(|_| self.revision.as_ref() == Some(revision))
    }
}

impl SourceFacts {
    /// What a source of this kind says.
    pub fn of(kind: SourceKind, source: &Source) -> Self {
        let Source { metadata, spec, status } = source;
        let artifact = status.artifact.as_ref();
        let ObjectKey { namespace, name } = (*metadata.key).clone();
        let secret = |named: &Option<SecretRef>| named.as_ref().map(|secret| secret.name.to_string());
        Self {
            key: SourceKey { kind, namespace, name },
            generation: metadata.generation,
            url: spec.url.as_deref().unwrap_or_default().to_owned(),
            insecure: spec.insecure,
            secret: secret(&spec.secret_ref),
            cert_secret: secret(&spec.cert_secret_ref),
            revision: revision(artifact.map(|artifact| &*artifact.revision)),
            seen: artifact.and_then(|artifact| artifact.last_update_time).map(middle),
            metadata: artifact.map(|artifact| artifact.metadata.clone()).unwrap_or_default(),
        }
    }
}
