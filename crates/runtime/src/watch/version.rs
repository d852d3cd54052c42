//! Objects of which a watch keeps no more than that they changed.

use std::sync::Arc;

use serde::Deserialize;

use super::store::{ObjectKey, Watched};

/// Which object, and which version of it: all that is kept of a kind whose contents are nobody's business, as Secrets'
/// are. Its watch asks for metadata alone ([`WatchConfig::metadata_only`](crate::WatchConfig::metadata_only)).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Read")]
pub struct ObjectVersion {
    key: Arc<ObjectKey>,
    uid: Box<str>,
    version: Box<str>,
}

#[derive(Deserialize)]
struct Read {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: String,
    name: String,
    uid: Box<str>,
    resource_version: Box<str>,
}

impl From<Read> for ObjectVersion {
    fn from(Read { metadata }: Read) -> Self {
        let key = Arc::new(ObjectKey::new(metadata.namespace, metadata.name));
        Self { key, uid: metadata.uid, version: metadata.resource_version }
    }
}

impl Watched for ObjectVersion {
    fn key(&self) -> Arc<ObjectKey> {
        Arc::clone(&self.key)
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.uid)
    }

    fn version(&self) -> Option<&str> {
        Some(&self.version)
    }
}
