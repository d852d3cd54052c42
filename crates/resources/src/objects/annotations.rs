//! What an object says about where it comes from, and who wrote to it since.

use std::borrow::Cow;

use serde::Deserialize;

use crate::digest;

/// The annotations that say where an object comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Annotations {
    #[serde(rename = "grafana.app/managedBy")]
    pub(crate) managed_by: Option<String>,
    #[serde(rename = "grafana.app/managerId")]
    pub(crate) manager_id: Option<String>,
    #[serde(rename = "grafana.app/managerAllowsEdits")]
    pub(super) allows_edits: Option<String>,
    #[serde(rename = "grafana.app/sourcePath")]
    pub(crate) source_path: Option<String>,
    #[serde(rename = "grafana.app/sourceChecksum")]
    pub(crate) source_checksum: Option<String>,
    #[serde(rename = "windlass.dev/source-documents")]
    pub(crate) source_documents: Option<String>,
    #[serde(rename = "windlass.dev/source-document")]
    pub(crate) source_document: Option<String>,
    #[serde(rename = "grafana.app/folder")]
    pub(crate) folder: Option<String>,
    #[serde(rename = "windlass.dev/file-metadata")]
    pub(crate) file_metadata: Option<String>,
    #[serde(rename = "windlass.dev/written-generation")]
    pub(crate) written_generation: Option<String>,
}

impl Annotations {
    pub(super) const NONE: Self = Self {
        managed_by: None,
        manager_id: None,
        allows_edits: None,
        source_path: None,
        source_checksum: None,
        source_documents: None,
        source_document: None,
        folder: None,
        file_metadata: None,
        written_generation: None,
    };

    /// Hash of the document that it was last written from where its file has several, else of the file.
    pub(crate) fn content_hash(&self) -> Option<&str> {
        self.source_document.as_deref().and_then(digest::own).or(self.source_checksum.as_deref())
    }

    /// The generation after our last write; nothing if it is not known.
    pub(crate) fn written_generation(&self) -> Option<i64> {
        self.written_generation.as_deref()?.parse().ok()
    }
}

/// Who wrote fields of an object, and when. The times are as the server writes them: their order is that of the text.
#[derive(Debug, Deserialize)]
pub(crate) struct ManagedFields<'a> {
    #[serde(borrow, default)]
    pub(crate) manager: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) operation: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) time: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) subresource: Cow<'a, str>,
}

/// Whether somebody else changed the spec since our last write; no where that cannot be known.
pub(crate) fn has_drifted(generation: Option<i64>, written: Option<i64>) -> bool {
    generation.zip(written).is_some_and(|(generation, written)| generation != written)
}
