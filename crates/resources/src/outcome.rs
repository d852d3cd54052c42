//! What became of one file or folder.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use windlass_git::ObjectId;

use crate::Kind;

/// What was done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It is new.
    Created,
    /// It was changed.
    Updated,
    /// It is gone.
    Deleted,
    /// It now belongs to another path.
    Renamed,
    /// Nothing was done.
    Ignored,
}

impl Action {
    /// The wire's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Renamed => "renamed",
            Self::Ignored => "ignored",
        }
    }
}

/// Makes [`Reason`] of a list, so that a reason, its word and its meaning are written down once.
macro_rules! reasons {
    ($($variant:ident $word:literal $meaning:literal)*) => {
        /// Why something was not done, as a job's summary names it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = $meaning] $variant,)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The wire's name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// What it means, for people.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                }
            }
        }
    };
}

reasons! {
    ResourceTooLarge "ResourceTooLarge" "A file over the size limit, or an object that the server finds too large (413)."
    ResourceInvalid "ResourceInvalid" "A file or object that is not valid, or an object that somebody else manages."
    ResourceManagedByOther "ResourceManagedByOther" "Another file of the same repository already stands for this object."
    InvalidFolderMetadata "InvalidFolderMetadata" "A `_folder.json` that cannot be used."
    FolderMetadataConflict "FolderMetadataConflict" "Two directories whose `_folder.json` name the same folder."
    FolderDepthExceeded "FolderDepthExceeded" "More nested folders than the server allows."
    FolderManagedByOther "FolderManagedByOther" "A folder of this name exists and is not ours."
    FolderUidTooLong "FolderUIDTooLong" "A folder name over 40 characters."
    FolderValidationFailed "FolderValidationFailed" "A folder that the server refuses."
    SkippedParentFolderNotCreated "SkippedParentFolderNotCreated" "The folder that should hold it was not created."
    SkippedFolderChildrenNotDeleted "SkippedFolderChildrenNotDeleted" "Something in the folder was not deleted."
    SkippedDependentPathChangeFailed "SkippedDependentPathChangeFailed" "Something that should have moved to the folder's replacement did not."
    QuotaExceeded "QuotaExceeded" "Not created: the repository manages as many resources as it may."
    ReadFailed "ReadFailed" "A file could not be read from the repository."
    Timeout "Timeout" "The API took longer than the deadline of one change."
    ApiError "ApiError" "The API refused or failed."
    InternalError "InternalError" "The code that reads or writes the file panicked."
}

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Reason {
    /// Whether a job ends as a warning rather than an error because of it.
    ///
    /// A warning is something that the repository's owner mends by changing a file; trying again changes nothing.
    pub fn is_warning(self) -> bool {
        !matches!(self, Self::ReadFailed | Self::Timeout | Self::ApiError)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Whether the job may still end well, with a warning.
    pub warning: bool,
    /// The machine's word for it.
    pub reason: Reason,
    /// What happened and what to do, for people. Does not repeat the path.
    pub message: String,
    /// Whether something else than a change of the file may resolve it: every sync tries the file again then.
    pub retry: bool,
}

impl Failure {
    /// A failure for this reason, which decides whether it is a warning. A warning is for the file's content to
    /// resolve, unless `retried` says otherwise.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { warning: reason.is_warning(), reason, message: message.into(), retry: !reason.is_warning() }
    }

    /// The same, tried again by every sync.
    #[must_use]
    pub(crate) fn retried(self) -> Self {
        Self { retry: true, ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What became of one file or folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ItemResult {
    /// Path of the file or directory, relative to the repository's path; empty for the root folder.
    pub path: String,
    /// Where a renamed file was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_path: Option<String>,
    /// What the object is; nothing if the file could not be read so far as to know.
    pub kind: Option<Kind>,
    /// Name of the object; empty if not known.
    pub name: String,
    /// What was done, or was to be done when there is an error.
    pub action: Action,
    /// Why it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Hash of the file's content; nothing for a directory and for what is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<ObjectId>,
    /// Whether the object had been changed by hand, and was set back to what its file says.
    pub drifted: bool,
    /// Whether the API held something else than the plan took for granted, so that counts of what is managed that are
    /// built on the plan may be wrong.
    pub unexpected: bool,
}

impl ItemResult {
    pub(crate) fn new(kind: Option<&Kind>, path: &str, name: &str, action: Action) -> Self {
        Self {
            path: path.to_owned(),
            previous_path: None,
            kind: kind.cloned(),
            name: name.to_owned(),
            action,
            error: None,
            hash: None,
            drifted: false,
            unexpected: false,
        }
    }

    /// API group of the object; empty if it is not known, and for the core group.
    pub fn group(&self) -> &str {
        self.kind.as_ref().map_or("", |kind| &kind.group)
    }

    /// Kind of the object; empty if it is not known.
    pub fn kind_name(&self) -> &str {
        self.kind.as_ref().map_or("", |kind| &kind.kind)
    }

    pub(crate) fn failed(mut self, failure: Failure) -> Self {
        self.error = Some(failure);
        self
    }
}

/// Where results go. Called from several tasks, in no particular order within a phase; must not block.
pub type OnResult = Arc<dyn Fn(ItemResult) + Send + Sync>;

/// Asked before every write; must not block.
pub type MayWrite = Arc<dyn Fn() -> bool + Send + Sync>;
