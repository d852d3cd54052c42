//! What a delivery says, whoever sent it.

use serde::de::DeserializeOwned;

/// What a delivery says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Branches moved.
    Push(Push),
    /// Something happened to a pull request.
    PullRequest(PullRequestEvent),
    /// The hook is being tried out.
    Ping,
    /// Something else, by the provider's name for it.
    Other(String),
}

/// Branches moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// Where.
    pub repository: RepositoryId,
    /// The branches that are somewhere else now; none when only tags moved, or branches were deleted.
    pub branches: Vec<Branch>,
    /// When, in Unix seconds by the provider's clock, where it says.
    pub at: Option<i64>,
}

/// A branch, and where it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Its name, without `refs/heads/`.
    pub name: String,
    /// The commit; empty where the provider does not say.
    pub commit: String,
}

/// Which repository a delivery is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryId {
    /// Its path at the provider: `owner/name`, `group/subgroup/name`.
    pub path: String,
    /// Its number there, which outlives renames.
    pub id: Option<i64>,
    /// The branch that is checked out by default, where the provider says.
    pub default_branch: Option<String>,
}

/// Something happened to a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequestEvent {
    /// Where.
    pub repository: RepositoryId,
    /// What: `opened`, `synchronize`, …
    pub action: String,
    /// Its number.
    pub number: i64,
    /// Its page.
    pub url: String,
    /// The branch that it is to be merged into.
    pub base: String,
    /// The branch that is to be merged.
    pub head: String,
    /// The commit that is to be merged.
    pub commit: String,
}

/// A body is not what the provider sends; and why. It quotes nothing of the body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub(super) String);

impl RepositoryId {
    /// Whether it is the repository at `url`, or the one with this number if both have one. Where the server is is not
    /// compared: it may have several names, and the signature says that it is the right one.
    pub fn is_at(&self, url: &str, id: Option<i64>) -> bool {
        if let (Some(wanted), Some(told)) = (id, self.id) {
            return wanted == told;
        }
        let Ok(url) = url::Url::parse(url) else { return false };
        let tidy = |path: &str| {
            let path = path.trim_matches('/');
            path.strip_suffix(".git").unwrap_or(path).to_ascii_lowercase()
        };
        let (here, told) = (tidy(url.path()), tidy(&self.path));
        // A server may be below a path: `https://host/git/owner/name`, `https://host/scm/project/name`.
        !told.is_empty() && (here == told || here.strip_suffix(&told).is_some_and(|rest| rest.ends_with('/')))
    }
}

impl Push {
    /// The branch of this name, if it moved; the default branch for an empty name.
    pub fn branch(&self, name: &str) -> Option<&Branch> {
        let name = if name.is_empty() { self.repository.default_branch.as_deref()? } else { name };
        self.branches.iter().find(|branch| branch.name == name)
    }
}

/// A body as JSON of this shape.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ParseError> {
    // Not serde's own text: it could quote the body.
    serde_json::from_slice(body).map_err(|error| {
        ParseError(format!("it is no such event, at line {} column {}", error.line(), error.column()))
    })
}

/// The branch that a full ref names.
pub(super) fn branch_of(reference: &str) -> Option<&str> {
    reference.strip_prefix("refs/heads/").filter(|name| !name.is_empty())
}

/// Where a branch is now; nothing if it was deleted, which is written as zeros.
pub(super) fn moved(reference: &str, commit: &str) -> Option<Branch> {
    let deleted = !commit.is_empty() && commit.bytes().all(|byte| byte == b'0');
    let name = branch_of(reference).filter(|_| !deleted)?;
    Some(Branch { name: name.to_owned(), commit: commit_or_nothing(commit) })
}

/// A commit's hash, or nothing for what is none.
pub(super) fn commit_or_nothing(text: &str) -> String {
    let good = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    if good { text.to_ascii_lowercase() } else { String::new() }
}
