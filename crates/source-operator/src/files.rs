//! The files of a revision, those of its submodules among them where that is asked for.
//!
//! A submodule is asked for as whom its parent is if it is of the same server, else as nobody: what a repository names must
//! not be shown a token that is not for it. How many there are, and how deep in one another, is bounded.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use url::Url;
use windlass_artifact::Blobs;
use windlass_git::{
    Entry, EntryKind, GitError, ObjectId, Origin, Remote, printable_path, submodule_url, submodules,
};

use crate::failure::Failure;
use crate::upstream::{Upstream, Upstreams};

/// Where a repository says what its submodules are.
const MODULES_FILE: &str = ".gitmodules";
/// Bytes of that file.
const MAX_MODULES_FILE: u64 = 256 << 10;
/// Submodules of a revision, and those of them.
const MAX_SUBMODULES: usize = 100;
/// How deep they may be in one another.
const MAX_DEPTH: usize = 10;

/// Files, and the repositories that have them.
pub(crate) struct Files {
    pub(crate) entries: Vec<Entry>,
    repositories: Vec<Arc<Upstream>>,
    /// In which of them a file of a submodule is; all others are in the first.
    places: HashMap<ObjectId, usize>,
}

/// A repository whose files are to be listed.
struct Level {
    upstream: Arc<Upstream>,
    commit: ObjectId,
    /// Where it is; empty for the root, else with a slash at the end.
    prefix: String,
    depth: usize,
}

impl Files {
    /// Lists the files of a commit within `directories` (all, if there are none).
    pub(crate) async fn list(
        upstream: &Arc<Upstream>,
        commit: ObjectId,
        directories: &[String],
        recurse: Option<&Upstreams>,
        cancel: &CancellationToken,
    ) -> Result<Self, Failure> {
        let mut files = Self { entries: Vec::new(), repositories: Vec::new(), places: HashMap::new() };
        let root = Level { upstream: Arc::clone(upstream), commit, prefix: String::new(), depth: 0 };
        let mut levels = vec![root];
        while let Some(level) = levels.pop() {
            let mut entries = level.entries(cancel).await?;
            let modules = match recurse {
                Some(upstreams) => level.modules(&entries, directories, upstreams, cancel).await?,
                None => Vec::new(),
            };
            let place = files.repositories.len();
            files.repositories.push(Arc::clone(&level.upstream));
            for entry in &mut entries {
                entry.path.insert_str(0, &level.prefix);
                if place > 0 && entry.kind != EntryKind::Submodule {
                    files.places.insert(entry.id, place);
                }
            }
            files.entries.extend(entries);
            let most = upstream.repository.limits().entries;
            if files.entries.len() > most {
                let message = format!("the revision has more than {most} files with its submodules");
                return Err(Failure::fetch("GitOperationFailed", message));
            }
            levels.extend(modules);
            if files.repositories.len() + levels.len() > MAX_SUBMODULES {
                let message = format!("the revision has more than {MAX_SUBMODULES} submodules");
                return Err(Failure::fetch("GitOperationFailed", message));
            }
        }
        files.entries = sparse(files.entries, directories)?;
        Ok(files)
    }
}

impl Level {
    async fn entries(&self, cancel: &CancellationToken) -> Result<Vec<Entry>, Failure> {
        let listed = self.upstream.tree(self.commit, cancel).await;
        let tree = listed.map_err(|error| self.failed("fetch the revision", &error))?;
        if let Some(rejected) = tree.rejected.first() {
            let message = format!(
                "the revision has {} path(s) that Git itself would refuse; first: {}{}: {}",
                tree.rejected.len(),
                self.prefix,
                rejected.path,
                rejected.reason
            );
            return Err(Failure::fetch("GitOperationFailed", message));
        }
        Ok(tree.entries.clone())
    }

    fn failed(&self, doing: &str, error: &GitError) -> Failure {
        if self.prefix.is_empty() {
            return Failure::git(doing, error);
        }
        Failure::git(&format!("{doing} of the submodule {}", self.prefix.trim_end_matches('/')), error)
    }

    /// The submodules that somebody wants a file of. What `.gitmodules` does not name is left empty, as Flux does.
    async fn modules(
        &self,
        entries: &[Entry],
        directories: &[String],
        upstreams: &Upstreams,
        cancel: &CancellationToken,
    ) -> Result<Vec<Self>, Failure> {
        let links = entries.iter().filter(|entry| entry.kind == EntryKind::Submodule);
        let wanted = |entry: &&Entry| {
            let path = format!("{}{}", self.prefix, entry.path);
            directories.is_empty()
                || directories.iter().any(|directory| is_in(&path, directory) || is_in(directory, &path))
        };
        let links: Vec<&Entry> = links.filter(wanted).collect();
        let file = entries.iter().find(|entry| entry.path == MODULES_FILE && entry.kind.is_file());
        let Some(file) = file.filter(|_| !links.is_empty()) else { return Ok(Vec::new()) };
        let refused = |path: &str, what: &str| {
            let message = format!("the submodule {}{path} {what}", self.prefix);
            Failure::fetch("GitOperationFailed", message)
        };
        if file.size > MAX_MODULES_FILE {
            let message = format!("{}{MODULES_FILE} has more than {MAX_MODULES_FILE} bytes", self.prefix);
            return Err(Failure::fetch("GitOperationFailed", message));
        }
        if self.depth >= MAX_DEPTH {
            return Err(refused(&links[0].path, &format!("is more than {MAX_DEPTH} submodules deep")));
        }
        let read = self.upstream.repository.blobs(&[file.id], cancel).await;
        let content = read.map_err(|error| self.failed("read the .gitmodules", &error))?;
        let text = String::from_utf8_lossy(content.first().map_or(&[], |content| &content[..])).into_owned();
        let mut levels = Vec::new();
        for module in submodules(&text) {
            let Some(link) = links.iter().find(|link| link.path == module.path) else { continue };
            let path = printable_path(link.path.as_bytes());
            let failed = |error: GitError| refused(&path, &format!("cannot be had: {error}"));
            let remote = self.remote(&module.url).map_err(failed)?;
            let secret = self.upstream.secret.clone().filter(|_| remote.credentials.is_some());
            levels.push(Self {
                upstream: upstreams.get(remote, secret).map_err(failed)?,
                commit: link.id,
                prefix: format!("{}{}/", self.prefix, link.path),
                depth: self.depth + 1,
            });
        }
        Ok(levels)
    }

    /// Where a submodule is, and as whom it is asked for.
    fn remote(&self, url: &str) -> Result<Remote, GitError> {
        let parent = &self.upstream.remote;
        let url = submodule_url(&parent.url, url)?;
        let origin = |url: &str| Url::parse(url).ok().and_then(|url| Origin::of(&url));
        if origin(&url).is_some_and(|own| Some(own) == origin(&parent.url)) {
            return Ok(Remote { url, ..parent.clone() });
        }
        Ok(Remote { url, proxy: parent.proxy.clone(), ..Remote::default() })
    }
}

fn is_in(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The entries within the directories, each of which has to exist.
fn sparse(entries: Vec<Entry>, directories: &[String]) -> Result<Vec<Entry>, Failure> {
    if directories.is_empty() {
        return Ok(entries);
    }
    for directory in directories {
        if !entries.iter().any(|entry| is_in(&entry.path, directory)) {
            let message = format!("spec.sparseCheckout: the revision has no directory {directory:?}");
            return Err(Failure::fetch("GitOperationFailed", message));
        }
    }
    let wanted = |entry: &Entry| directories.iter().any(|directory| is_in(&entry.path, directory));
    Ok(entries.into_iter().filter(wanted).collect())
}

#[async_trait]
impl Blobs for Files {
    type Error = GitError;

    fn limit(&self) -> u64 {
        self.repositories.first().map_or(u64::MAX, |upstream| upstream.repository.limits().blob_bytes)
    }

    async fn contents(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, GitError> {
        let place = |id: &ObjectId| self.places.get(id).copied().unwrap_or(0);
        let mut contents = vec![Bytes::new(); ids.len()];
        for (which, upstream) in self.repositories.iter().enumerate() {
            let own: Vec<usize> = (0..ids.len()).filter(|at| place(&ids[*at]) == which).collect();
            if own.is_empty() {
                continue;
            }
            let wanted: Vec<ObjectId> = own.iter().map(|at| ids[*at]).collect();
            let read = upstream.repository.blobs(&wanted, cancel).await?;
            for (at, content) in own.into_iter().zip(read) {
                contents[at] = content;
            }
        }
        Ok(contents)
    }

    async fn open(&self, id: ObjectId, cancel: &CancellationToken) -> Result<Box<dyn Read + Send>, GitError> {
        let place = self.places.get(&id).copied().unwrap_or(0);
        let upstream = self.repositories.get(place).ok_or(GitError::ObjectMissing { id })?;
        upstream.repository.open(id, cancel).await
    }
}
