//! What became of one file or folder of a repository.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::is_zero;

/// What became of one file or folder, where that is worth a word: it was left out, or its object was repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileOutcome {
    /// Path relative to the repository's path; empty for the repository's own folder.
    #[serde(default)]
    pub path: String,
    /// Hash of the content; empty for a folder, and where it was not read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hash: String,
    /// API group of the object; empty if it is not known, and for the core group.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub group: String,
    /// Kind of the object; empty if it is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kind: String,
    /// Name of the object; empty if it is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub name: String,
    /// Why, as one word: `ResourceInvalid`, `Repaired` and so on.
    #[serde(default)]
    pub reason: String,
    /// What happened and what to do, for a reader.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub message: String,
    /// Whether something else than a change of the file may resolve it: every pull tries it again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry: bool,
}

impl FileOutcome {
    /// The reason of an object that had been changed or deleted by hand, and was set back.
    pub const REPAIRED: &'static str = "Repaired";

    /// Bytes that it takes as JSON, nearly.
    pub fn weight(&self) -> usize {
        let texts =
            [&self.path, &self.hash, &self.group, &self.kind, &self.name, &self.reason, &self.message];
        100 + texts.iter().map(|text| text.len()).sum::<usize>()
    }
}
