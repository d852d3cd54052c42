//! A repository that tests push to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;

use crate::hooks::StoredHook;
use crate::objects::{self, Commit};
use crate::protection::{Protection, Rule};
use crate::pulls::StoredPull;

/// A repository of the stand-in. Clones are the same repository.
#[derive(Clone)]
pub struct Repository {
    name: Arc<str>,
    content: Arc<Mutex<Content>>,
}

#[derive(Default)]
pub(crate) struct Content {
    commits: HashMap<String, Arc<Commit>>,
    blobs: HashMap<String, Bytes>,
    pub(crate) branches: HashMap<String, String>,
    private: bool,
    pub(crate) archived: bool,
    pub(crate) trusted: Option<PathBuf>,
    pub(crate) protection: Option<Protection>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) hooks: Vec<StoredHook>,
    pub(crate) pulls: BTreeMap<u64, StoredPull>,
    numbers: u64,
}

impl Content {
    /// A number that nothing has yet.
    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

impl Repository {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), content: Arc::default() }
    }

    /// `owner/name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hides it from whoever has no token.
    #[must_use]
    pub fn private(self) -> Self {
        self.content().private = true;
        self
    }

    /// Commits `files` (path and content; no content removes the file) onto `main` and answers the commit's hash.
    pub fn push(&self, message: &str, committed: Timestamp, files: &[(&str, Option<&[u8]>)]) -> String {
        let parents: Vec<String> = self.content().branches.get("main").cloned().into_iter().collect();
        let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
        self.push_onto(&parents, message, committed, files)
    }

    /// Commits `files` onto the first of `parents`, with the others merged, and makes `main` point there: a force push
    /// if that is not where it pointed.
    pub fn push_onto(
        &self,
        parents: &[&str],
        message: &str,
        committed: Timestamp,
        files: &[(&str, Option<&[u8]>)],
    ) -> String {
        let mut content = self.content();
        let first = parents.first().and_then(|parent| content.commits.get(*parent));
        let mut all: BTreeMap<String, String> = first.map(|commit| commit.files.clone()).unwrap_or_default();
        for (path, bytes) in files {
            match bytes {
                Some(bytes) => {
                    let sha = objects::blob(bytes);
                    content.blobs.insert(sha.clone(), Bytes::copy_from_slice(bytes));
                    all.insert((*path).to_owned(), sha);
                }
                None => {
                    all.remove(*path);
                }
            }
        }
        let parents = parents.iter().map(|parent| (*parent).to_owned()).collect();
        let commit = Arc::new(Commit::new(parents, committed, message, all));
        let sha = commit.sha.clone();
        content.commits.insert(sha.clone(), commit);
        content.branches.insert("main".to_owned(), sha.clone());
        sha
    }

    /// Drops a commit, as a server does some time after a force push.
    pub fn collect(&self, sha: &str) {
        self.content().commits.remove(sha);
    }

    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.name.bytes().fold(7, |number: u64, byte| (number * 31 + u64::from(byte)) % 1_000_000_007)
    }

    pub(crate) fn is_private(&self) -> bool {
        self.content().private
    }

    /// The commit of a hash or a branch.
    pub(crate) fn commit(&self, reference: &str) -> Option<Arc<Commit>> {
        let content = self.content();
        let sha = content.branches.get(reference).map_or(reference, String::as_str);
        content.commits.get(sha).cloned()
    }

    pub(crate) fn blob(&self, sha: &str) -> Option<Bytes> {
        self.content().blobs.get(sha).cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.content().commits.is_empty()
    }

    /// What `git log HEAD -- path` lists: newest first, without merges that took one side's content.
    pub(crate) fn history(&self, head: &Arc<Commit>, path: Option<&str>) -> Vec<Arc<Commit>> {
        let content = self.content();
        let mut listed = Vec::new();
        let mut seen = BTreeSet::from([head.sha.clone()]);
        let mut open = vec![head.clone()];
        while let Some(at) =
            open.iter().enumerate().max_by_key(|(_, commit)| commit.committed).map(|(at, _)| at)
        {
            let commit = open.swap_remove(at);
            let mut parents: Vec<_> =
                commit.parents.iter().filter_map(|parent| content.commits.get(parent).cloned()).collect();
            let touched = path.is_none_or(|path| {
                let mine = under(&commit, path);
                match parents.iter().position(|parent| under(parent, path) == mine) {
                    Some(same) => {
                        parents = vec![parents.swap_remove(same)];
                        false
                    }
                    None => !(parents.is_empty() && mine.is_empty()),
                }
            });
            if touched {
                listed.push(commit);
            }
            open.extend(parents.into_iter().filter(|parent| seen.insert(parent.sha.clone())));
        }
        listed
    }

    pub(crate) fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files at or below a path.
fn under<'a>(commit: &'a Commit, path: &str) -> Vec<(&'a String, &'a String)> {
    let folder = format!("{path}/");
    commit.files.iter().filter(|(file, _)| *file == path || file.starts_with(&folder)).collect()
}
