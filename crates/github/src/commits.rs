//! Commits that touched a path.

use jiff::Timestamp;
use octocrab::Page;
use serde::{Deserialize, Serialize};
use windlass_http_client::printable;

use crate::{Github, GithubError, RepositoryName};

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its hash.
    pub sha: String,
    /// When it was committed: the committer's date.
    pub committed: Timestamp,
    /// The first line of its message.
    pub summary: String,
    /// Its author's name; empty where GitHub does not say.
    pub author: String,
    /// The hashes of its parents.
    pub parents: Vec<String>,
}

/// A page of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitPage {
    /// Newest first.
    pub commits: Vec<Commit>,
    /// There are older ones: ask for the next page.
    pub more: bool,
}

#[derive(Deserialize)]
struct Person {
    #[serde(default)]
    name: String,
    date: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Parent {
    sha: String,
}

/// An element of `commits`.
#[derive(Deserialize)]
struct ListedCommit {
    sha: String,
    commit: Details,
    parents: Vec<Parent>,
}

#[derive(Deserialize)]
struct Details {
    message: String,
    author: Option<Person>,
    committer: Option<Person>,
}

/// The query of `commits`.
#[derive(Serialize)]
struct HistoryQuery<'a> {
    sha: &'a str,
    path: &'a str,
    per_page: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
}

impl ListedCommit {
    fn read(self) -> Result<Commit, String> {
        let Details { message, author, committer } = self.commit;
        let committed = committer.and_then(|person| person.date);
        let committed = committed.ok_or_else(|| format!("a commit has no date: {}", self.sha))?;
        Ok(Commit {
            sha: self.sha,
            committed,
            summary: printable(message.lines().next().unwrap_or_default(), 500),
            author: author.map(|author| printable(&author.name, 200)).unwrap_or_default(),
            parents: self.parents.into_iter().map(|parent| parent.sha).collect(),
        })
    }
}

impl Github {
    /// A page (counted from 1) of the commits that are reachable from `head` (a hash, a branch or a tag) and changed
    /// `path`, newest first; at most `per_page` (1 to 100). Where nothing ever changed the path there are none.
    ///
    /// As `git log -- path` does, GitHub leaves out merges that took one side's content as it was.
    pub async fn history(
        &self,
        repository: &RepositoryName,
        head: &str,
        path: &str,
        per_page: u8,
        page: u32,
    ) -> Result<CommitPage, GithubError> {
        let (shown_head, shown_path) = (printable(head, 64), printable(path, 200));
        let what = format!("list the commits of {repository} at {shown_head} that touched {shown_path}");
        let route = format!("/repos/{repository}/commits");
        let query = HistoryQuery { sha: head, path, per_page, page: (page > 1).then_some(page) };
        let listed: Page<ListedCommit> = self.get(&what, route, Some(&query)).await?;
        let more = listed.next.is_some();
        let commits = listed.items.into_iter().map(ListedCommit::read).collect::<Result<_, _>>();
        Ok(CommitPage { commits: commits.map_err(|detail| self.malformed(&what, detail))?, more })
    }
}
