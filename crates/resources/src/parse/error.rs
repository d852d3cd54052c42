//! What can be wrong with a file.

use crate::{Failure, Reason};

/// Why a file did not become an object. Nearly all are mended by changing the file, and so are warnings.
///
/// Messages do not name the file: whoever prints them does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// More bytes than are read.
    #[error(
        "the file has {size} bytes, the limit is {limit}; make it smaller, split it, or raise git_max_file_bytes"
    )]
    TooLarge {
        /// Its size.
        size: u64,
        /// The largest that is read.
        limit: u64,
    },
    /// Not text.
    #[error("the file is not valid UTF-8 text (byte {at})")]
    NotUtf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Nothing in it.
    #[error("the file is empty")]
    Empty,
    /// Not JSON or YAML.
    #[error("failed to parse {what}: {detail}")]
    Syntax {
        /// Which part.
        what: &'static str,
        /// What the parser said, with line and column.
        detail: String,
    },
    /// More documents in one file than are read.
    #[error("the file has {count} YAML documents, the limit is {limit}; split it")]
    TooManyDocuments {
        /// How many.
        count: usize,
        /// The most that are read.
        limit: usize,
    },
    /// One of several documents, which leaves the others alone.
    #[error("document {number} of {count}: {error}")]
    InDocument {
        /// Which one, from 1.
        number: usize,
        /// How many there are.
        count: usize,
        /// What is wrong with it.
        error: Box<FileError>,
    },
    /// Nested deeper than is read.
    #[error("the document is nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// Not a mapping.
    #[error("{what} is not an object")]
    NotAnObject {
        /// Which part.
        what: &'static str,
    },
    /// Neither an object nor a classic dashboard.
    #[error(
        "the file is neither an object with apiVersion and kind nor a classic dashboard (with panels, schemaVersion and tags)"
    )]
    UnknownFormat,
    /// Well-formed, and plainly something else: `package.json`, the settings of a tool. Nobody is told of it.
    #[error("the file is no resource")]
    NotAResource,
    /// The parser panicked: a defect of ours.
    #[error(
        "the parser failed unexpectedly on this file, which is left out; the log has details, please report it"
    )]
    Panicked,
    /// A kind that repositories do not manage.
    #[error(
        "resources of kind {kind:?} in {api_version:?} are not supported; a repository manages dashboards and folders{}; resource_kinds of [provisioning] allows more",
        also(further)
    )]
    UnsupportedKind {
        /// The document's apiVersion.
        api_version: String,
        /// The document's kind.
        kind: String,
        /// What the settings allow beside dashboards and folders.
        further: Vec<String>,
    },
    /// The settings allow something in this group that the API server does not serve.
    #[error(
        "resources of kind {kind:?} in {api_version:?} cannot be written: the settings allow {}, which the API server does not serve; install its definition, and the next sync tries again",
        allowed.join(", ")
    )]
    NotServed {
        /// The document's apiVersion.
        api_version: String,
        /// The document's kind.
        kind: String,
        /// What is allowed in this group and not served.
        allowed: Vec<String>,
    },
    /// A kind whose objects are in no namespace.
    #[error(
        "{resource} are in no namespace, and a repository manages only what is in its own; apply the file by other means"
    )]
    ClusterScoped {
        /// The plural with its group.
        resource: String,
    },
    /// A kind that is served without a verb that syncing needs.
    #[error("{resource} cannot be synced: the API server does not let them be listed, patched and deleted")]
    NotManageable {
        /// The plural with its group.
        resource: String,
    },
    /// The API server did not say whether it serves a kind.
    #[error("failed to ask the API server about {resource}: {detail}")]
    Discovery {
        /// The plural with its group.
        resource: String,
        /// What happened.
        detail: String,
    },
    /// A version that is not served.
    #[error("{resource} of version {version:?} are not supported; use one of {}", served.join(", "))]
    UnsupportedVersion {
        /// The plural with its group.
        resource: String,
        /// The document's version.
        version: String,
        /// Those that are.
        served: Vec<String>,
    },
    /// A folder outside `_folder.json`.
    #[error(
        "folders are made from directories; to give one a name and title of its own, put this into its _folder.json"
    )]
    FolderDocument,
    /// Another namespace than the repository's.
    #[error(
        "the document is for namespace {found:?}, its repository is in {wanted:?}; remove metadata.namespace"
    )]
    Namespace {
        /// The document's.
        found: String,
        /// The repository's.
        wanted: String,
    },
    /// A name that no object can have.
    #[error("{name:?} cannot be the name of a resource")]
    Name {
        /// The name, shortened.
        name: String,
    },
    /// A folder's name over 40 characters.
    #[error("the folder name {name:?} is longer than 40 characters")]
    FolderNameTooLong {
        /// The name, shortened.
        name: String,
    },
    /// Something that has to be there.
    #[error("{what} is missing")]
    Missing {
        /// The field.
        what: &'static str,
    },
}

impl FileError {
    pub(crate) fn syntax(what: &'static str, error: &dyn std::fmt::Display) -> Self {
        Self::Syntax { what, detail: error.to_string() }
    }

    pub(super) fn in_document(self, number: usize, count: usize) -> Self {
        Self::InDocument { number, count, error: Box::new(self) }
    }

    /// Why, as a job's summary names it.
    pub fn reason(&self) -> Reason {
        match self {
            Self::InDocument { error, .. } => error.reason(),
            Self::TooLarge { .. } => Reason::ResourceTooLarge,
            Self::FolderNameTooLong { .. } => Reason::FolderUidTooLong,
            Self::Discovery { .. } => Reason::ApiError,
            Self::Panicked => Reason::InternalError,
            _ => Reason::ResourceInvalid,
        }
    }
}

impl FileError {
    /// Whether what the API server serves decides, rather than the file alone.
    pub(crate) fn depends_on_server(&self) -> bool {
        match self {
            Self::InDocument { error, .. } => error.depends_on_server(),
            Self::NotServed { .. } | Self::Discovery { .. } | Self::UnsupportedVersion { .. } => true,
            _ => false,
        }
    }
}

fn also(further: &[String]) -> String {
    if further.is_empty() { String::new() } else { format!(", and {}", further.join(", ")) }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let failure = Self::new(error.reason(), error.to_string());
        if error.depends_on_server() { failure.retried() } else { failure }
    }
}
