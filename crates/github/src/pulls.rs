//! Pull requests: what they change, and the comments on them.

use jiff::Timestamp;
use octocrab::Page;
use serde::{Deserialize, Serialize};

use crate::repository::WireRepository;
use crate::{Github, GithubError, RepositoryName};

/// Files or comments that one request lists.
const PER_PAGE: u8 = 100;
/// Files that GitHub lists of a pull request.
const MAX_FILES: usize = 3_000;
/// Comments that are looked through.
const MAX_COMMENTS: usize = 5_000;

/// A pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number in the repository.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// Its page.
    pub url: String,
    /// Whether it is open.
    pub open: bool,
    /// Whether it was merged.
    pub merged: bool,
    /// What is to be merged.
    pub head: Branch,
    /// Where to.
    pub base: Branch,
}

/// One end of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The branch's name.
    pub name: String,
    /// The hash of its commit.
    pub sha: String,
    /// The repository that it is in; nothing where a fork is gone.
    pub repository: Option<RepositoryName>,
}

/// What happens to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// It is new: added, or copied from another.
    Added,
    /// Its content or its mode changes.
    Modified,
    /// It goes.
    Removed,
    /// It had this path before, and perhaps another content.
    Renamed(String),
}

/// A file that a pull request changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path from the repository's root.
    pub path: String,
    /// What happens to it.
    pub change: FileChange,
}

/// The files that a pull request changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequestFiles {
    /// In GitHub's order.
    pub files: Vec<ChangedFile>,
    /// There are more than these.
    pub truncated: bool,
}

/// A comment on a pull request, not on a line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Its number.
    pub id: u64,
    /// Who wrote it; nothing if they are gone.
    pub author: Option<String>,
    /// Its text, Markdown.
    pub body: String,
    /// Its page.
    pub url: String,
    /// When it was written.
    pub created: Timestamp,
}

/// The pull requests of a repository.
pub struct Pulls<'a> {
    github: &'a Github,
    repository: &'a RepositoryName,
}

impl Github {
    /// The pull requests of a repository.
    pub fn pulls<'a>(&'a self, repository: &'a RepositoryName) -> Pulls<'a> {
        Pulls::new(self, repository)
    }
}

#[derive(Deserialize)]
struct WirePull {
    number: u64,
    title: String,
    html_url: String,
    state: String,
    #[serde(default)]
    merged: bool,
    head: WireBranch,
    base: WireBranch,
}

#[derive(Deserialize)]
struct WireBranch {
    #[serde(rename = "ref")]
    name: String,
    sha: String,
    repo: Option<WireRepository>,
}

#[derive(Deserialize)]
struct WireFile {
    filename: String,
    status: String,
    previous_filename: Option<String>,
}

#[derive(Deserialize)]
struct WireComment {
    id: u64,
    html_url: String,
    body: Option<String>,
    user: Option<WireUser>,
    created_at: Timestamp,
}

#[derive(Deserialize)]
struct WireUser {
    login: String,
}

#[derive(Serialize)]
struct PageQuery {
    per_page: u8,
    page: usize,
}

#[derive(Serialize)]
struct CommentBody<'a> {
    body: &'a str,
}

impl From<WireBranch> for Branch {
    fn from(branch: WireBranch) -> Self {
        let repository = branch.repo.and_then(|repository| repository.full_name().parse().ok());
        Self { name: branch.name, sha: branch.sha, repository }
    }
}

impl From<WireFile> for ChangedFile {
    fn from(file: WireFile) -> Self {
        let change = match (file.status.as_str(), file.previous_filename) {
            ("added" | "copied", _) => FileChange::Added,
            ("removed", _) => FileChange::Removed,
            ("renamed", Some(previous)) => FileChange::Renamed(previous),
            // `changed`, `unchanged` (its mode), and whatever GitHub comes to say: it is there, and another.
            _ => FileChange::Modified,
        };
        Self { path: file.filename, change }
    }
}

impl From<WireComment> for Comment {
    fn from(comment: WireComment) -> Self {
        Self {
            id: comment.id,
            author: comment.user.map(|user| user.login),
            body: comment.body.unwrap_or_default(),
            url: comment.html_url,
            created: comment.created_at,
        }
    }
}

impl<'a> Pulls<'a> {
    pub(crate) fn new(github: &'a Github, repository: &'a RepositoryName) -> Self {
        Self { github, repository }
    }

    /// The one with this number.
    pub async fn get(&self, number: u64) -> Result<PullRequest, GithubError> {
        let action = format!("read pull request {number} of {}", self.repository);
        let route = format!("/repos/{}/pulls/{number}", self.repository);
        let pull: WirePull = self.github.get(&action, route, None::<&()>).await?;
        Ok(PullRequest {
            number: pull.number,
            title: pull.title,
            url: pull.html_url,
            open: pull.state == "open",
            merged: pull.merged,
            head: pull.head.into(),
            base: pull.base.into(),
        })
    }

    /// The files that it changes, at most `max` of them; GitHub lists no more than 3,000.
    pub async fn files(&self, number: u64, max: usize) -> Result<PullRequestFiles, GithubError> {
        let action = format!("list the files of pull request {number} of {}", self.repository);
        let route = format!("/repos/{}/pulls/{number}/files", self.repository);
        let max = max.min(MAX_FILES);
        let (files, truncated) = self.listed::<WireFile>(&action, &route, max).await?;
        Ok(PullRequestFiles { files: files.into_iter().map(ChangedFile::from).collect(), truncated })
    }

    /// The comments on it, oldest first; of more than 5,000 the oldest.
    pub async fn comments(&self, number: u64) -> Result<Vec<Comment>, GithubError> {
        let action = format!("list the comments on pull request {number} of {}", self.repository);
        let route = format!("/repos/{}/issues/{number}/comments", self.repository);
        let (comments, _) = self.listed::<WireComment>(&action, &route, MAX_COMMENTS).await?;
        Ok(comments.into_iter().map(Comment::from).collect())
    }

    /// Writes a comment on it. It is not tried again: what became of a request without an answer, the list tells.
    pub async fn comment(&self, number: u64, body: &str) -> Result<Comment, GithubError> {
        let route = format!("/repos/{}/issues/{number}/comments", self.repository);
        // octocrab's own call would fail after the comment is written, where its author lacks one of twenty fields.
        let comment = self.github.octocrab().post(route, Some(&CommentBody { body })).await;
        let action = format!("comment on pull request {number} of {}", self.repository);
        let comment: WireComment = comment.map_err(|error| self.github.error(&action, error))?;
        Ok(comment.into())
    }

    /// Gives a comment another text.
    pub async fn edit_comment(&self, id: u64, body: &str) -> Result<Comment, GithubError> {
        let route = format!("/repos/{}/issues/comments/{id}", self.repository);
        // octocrab's own call is a POST, which GitHub does not document.
        let comment = self.github.octocrab().patch(route, Some(&CommentBody { body })).await;
        let action = format!("edit comment {id} of {}", self.repository);
        let comment: WireComment = comment.map_err(|error| self.github.error(&action, error))?;
        Ok(comment.into())
    }

    /// Pages of `route` up to `max` elements, and whether there are more.
    async fn listed<T: serde::de::DeserializeOwned>(
        &self,
        action: &str,
        route: &str,
        max: usize,
    ) -> Result<(Vec<T>, bool), GithubError> {
        let mut listed = Vec::new();
        for page in 1.. {
            let query = PageQuery { per_page: PER_PAGE, page };
            let found: Page<T> = self.github.get(action, route.to_owned(), Some(&query)).await?;
            let more = found.next.is_some() && !found.items.is_empty();
            listed.extend(found.items);
            if !more || listed.len() >= max {
                let truncated = more || listed.len() > max;
                listed.truncate(max);
                return Ok((listed, truncated));
            }
        }
        Ok((listed, false))
    }
}
