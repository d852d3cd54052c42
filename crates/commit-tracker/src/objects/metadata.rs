//! What is kept of any object.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use windlass_runtime::{ObjectKey, Watched};

/// Where an object is and which one it is, its version, generation and times; nothing else of the metadata is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Kept")]
pub struct Metadata {
    /// Its namespace and name.
    pub key: Arc<ObjectKey>,
    /// Which object of that name it is.
    pub uid: Arc<str>,
    /// Its `resourceVersion`.
    pub version: Box<str>,
    /// Counts the changes of its specification; 0 where nothing does.
    pub generation: u64,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// It is being deleted.
    pub deleted: bool,
}

/// The fields that are read; all others stay behind.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Kept {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<Box<str>>,
    resource_version: Option<Box<str>>,
    generation: u64,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
}

impl From<Kept> for Metadata {
    fn from(kept: Kept) -> Self {
        Self {
            key: Arc::new(ObjectKey::new(kept.namespace.unwrap_or_default(), kept.name.unwrap_or_default())),
            uid: kept.uid.unwrap_or_default().into(),
            version: kept.resource_version.unwrap_or_default(),
            generation: kept.generation,
            created: kept.creation_timestamp,
            deleted: kept.deletion_timestamp.is_some(),
        }
    }
}

/// An object, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Object<P: Default, S: Default> {
    /// Which one it is.
    pub metadata: Metadata,
    /// What is asked for.
    pub spec: P,
    /// What came of it.
    pub status: S,
}

impl<P: Default, S: Default> Watched for Object<P, S> {
    fn key(&self) -> Arc<ObjectKey> {
        Arc::clone(&self.metadata.key)
    }

    fn uid(&self) -> Option<&str> {
        Some(&*self.metadata.uid).filter(|uid| !uid.is_empty())
    }

    fn version(&self) -> Option<&str> {
        Some(&*self.metadata.version).filter(|version| !version.is_empty())
    }
}
