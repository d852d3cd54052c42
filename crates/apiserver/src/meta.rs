//! What decides over the life of a stored object: who it belongs to, what holds it, whether it is on its way out.

use serde::Deserialize;

use windlass_apimachinery::document::Document;
use windlass_store::Object;

/// Waits for the owner's dependants to be deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Waits for the owner's dependants to be let go.
pub(crate) const ORPHAN: &str = "orphan";

/// The part of an object's metadata that matters here.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) uid: String,
    pub(crate) owner_references: Vec<Owner>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) deletion_timestamp: Option<String>,
}

/// An owner reference.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) block_owner_deletion: Option<bool>,
}

impl Meta {
    /// Of a stored object.
    pub(crate) fn of(object: &Object) -> Self {
        let fields = Document::new(&object.value).own_metadata();
        let mut text = Vec::with_capacity(fields.len() + 1);
        text.push(b'{');
        text.extend_from_slice(fields);
        // A stored value is our own: what cannot be read has no owners.
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn waits_for(&self, finalizer: &str) -> bool {
        self.deletion_timestamp.is_some() && self.finalizers.iter().any(|one| one == finalizer)
    }

    /// Whether it is being deleted once its dependants are.
    pub(crate) fn is_foreground(&self) -> bool {
        self.waits_for(FOREGROUND)
    }

    /// Whether it goes once its dependants were let go.
    pub(crate) fn is_orphaning(&self) -> bool {
        self.waits_for(ORPHAN)
    }
}
