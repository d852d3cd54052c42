//! What GitHub says of a repository.

use serde::Deserialize;

use crate::{Github, GithubError, RepositoryName};

/// A repository, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryInfo {
    /// Its number, which outlives renames and moves.
    pub id: u64,
    /// `owner/name` now: another than was asked for if it was renamed.
    pub name: RepositoryName,
    /// The branch that is checked out by default; an empty repository has one, too.
    pub default_branch: String,
    /// Whether it is hidden from the public.
    pub private: bool,
    /// Whether nobody can write to it.
    pub archived: bool,
    /// Whether the caller may push; nothing where GitHub does not say, as to callers without credentials.
    pub can_push: Option<bool>,
    /// Whether the caller administers it.
    pub is_admin: bool,
}

#[derive(Deserialize)]
pub(crate) struct WireRepository {
    id: u64,
    full_name: String,
    #[serde(default)]
    private: bool,
    #[serde(default)]
    archived: bool,
    default_branch: Option<String>,
    permissions: Option<WirePermissions>,
}

#[derive(Deserialize)]
struct WirePermissions {
    #[serde(default)]
    admin: bool,
    push: bool,
}

impl WireRepository {
    /// `owner/name`.
    pub(crate) fn full_name(&self) -> &str {
        &self.full_name
    }

    pub(crate) fn read(self) -> Result<RepositoryInfo, String> {
        Ok(RepositoryInfo {
            id: self.id,
            name: self.full_name.parse().map_err(|_: crate::ParseNameError| {
                format!("{:?} is no repository's name", self.full_name)
            })?,
            default_branch: self.default_branch.ok_or("it has no default branch")?,
            private: self.private,
            archived: self.archived,
            can_push: self.permissions.as_ref().map(|permissions| permissions.push),
            is_admin: self.permissions.is_some_and(|permissions| permissions.admin),
        })
    }
}

impl Github {
    /// The repository.
    pub async fn repository(&self, name: &RepositoryName) -> Result<RepositoryInfo, GithubError> {
        let action = format!("look up {name}");
        let found: WireRepository = self.get(&action, format!("/repos/{name}"), None::<&()>).await?;
        found.read().map_err(|detail| self.malformed(&action, detail))
    }
}
