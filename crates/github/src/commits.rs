//! Commits that touched a path.

use jiff::Timestamp;
use serde::Deserialize;
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

impl ListedCommit {
    fn read(self) -> Result<Commit, String> {
        let Details { message, author, committer } = self.commit;
        let committed = committer.and_then(|person| person.date);
        let committed =
            committed.ok_or_else(|| format!("commit {} has no date", printable(&self.sha, 64)))?;
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
        let mut question = self.question(repository, &["commits"], what);
        question
            .url
            .query_pairs_mut()
            .append_pair("sha", head)
            .append_pair("path", path)
            .append_pair("per_page", &per_page.to_string());
        if page > 1 {
            question.url.query_pairs_mut().append_pair("page", &page.to_string());
        }
        let (listed, answer) = self.json::<Vec<ListedCommit>>(&question).await?;
        let commits = listed
            .into_iter()
            .map(ListedCommit::read)
            .collect::<Result<_, _>>()
            .map_err(|detail| self.malformed(&question.what, detail))?;
        Ok(CommitPage { commits, more: answer.more })
    }
}
