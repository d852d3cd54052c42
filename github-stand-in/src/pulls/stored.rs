//! Pull requests as they are kept.

/// A pull request.
pub(crate) struct StoredPull {
    pub(super) title: String,
    /// Name of the branch, and hash.
    pub(super) head: (String, String),
    pub(super) base: (String, String),
    /// Path, status in GitHub's words, and the path before.
    pub(super) files: Vec<(String, String, Option<String>)>,
    pub(super) open: bool,
    pub(super) merged: bool,
    pub(super) comments: Vec<StoredComment>,
}

/// A comment on a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredComment {
    /// Its number.
    pub id: u64,
    /// Its text.
    pub body: String,
    /// Who wrote it; nothing if they are gone.
    pub author: Option<String>,
}
