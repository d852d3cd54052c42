//! Makes commits in a bare repository of this machine: samples, demonstrations, tests and benches.

use std::path::Path;

use git2::build::TreeUpdateBuilder;
use git2::{Buf, FileMode, ObjectType, Repository, RepositoryInitOptions, Signature};

use crate::tree::object_id;
use crate::{GitError, ObjectId};

/// A change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Write this content at this path.
    Put(String, Vec<u8>),
    /// Delete what is at this path.
    Delete(String),
}

impl Edit {
    /// Writes `content` at `path`.
    pub fn put(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self::Put(path.into(), content.into())
    }

    /// Deletes what is at `path`.
    pub fn delete(path: impl Into<String>) -> Self {
        Self::Delete(path.into())
    }
}

/// Commits `edits` on top of `branch` of the bare repository at `path`, and returns the commit's id. The
/// repository and the branch are made when they are not there; files that no edit names stay. All new objects go
/// into one pack.
pub fn commit(
    path: &Path,
    branch: &str,
    edits: impl IntoIterator<Item = Edit>,
    message: &str,
) -> Result<ObjectId, GitError> {
    let failed = |error: git2::Error| GitError::SetUp {
        action: "commit to a local repository",
        detail: format!("{}: {}", path.display(), error.message()),
    };
    let repository = open(path, branch).map_err(failed)?;
    write(&repository, branch, edits, message).map_err(failed)
}

fn open(path: &Path, branch: &str) -> Result<Repository, git2::Error> {
    if path.join("HEAD").exists() {
        return Repository::open_bare(path);
    }
    let mut options = RepositoryInitOptions::new();
    options.bare(true).external_template(false).mkpath(true).initial_head(branch);
    Repository::init_opts(path, &options)
}

fn write(
    repository: &Repository,
    branch: &str,
    edits: impl IntoIterator<Item = Edit>,
    message: &str,
) -> Result<ObjectId, git2::Error> {
    let reference = format!("refs/heads/{branch}");
    let parent = match repository.find_reference(&reference) {
        Ok(tip) => Some(tip.peel_to_commit()?),
        Err(error) if error.code() == git2::ErrorCode::NotFound => None,
        Err(error) => return Err(error),
    };
    let odb = repository.odb()?;
    let memory = odb.add_new_mempack_backend(1_000)?;
    let baseline = match &parent {
        Some(parent) => parent.tree()?,
        None => repository.find_tree(repository.treebuilder(None)?.write()?)?,
    };
    // Deletions first: libgit2 refuses a file that makes room for a directory in the same update.
    let (mut removal, mut update) = (TreeUpdateBuilder::new(), TreeUpdateBuilder::new());
    for edit in edits {
        match edit {
            Edit::Put(path, content) => {
                let blob = odb.write(ObjectType::Blob, &content)?;
                update.upsert(path, blob, FileMode::Blob);
            }
            Edit::Delete(path) => {
                removal.remove(path);
            }
        }
    }
    let rest = repository.find_tree(removal.create_updated(repository, &baseline)?)?;
    let tree = repository.find_tree(update.create_updated(repository, &rest)?)?;
    let author = Signature::now("Windlass", "windlass@localhost")?;
    let parents: Vec<_> = parent.iter().collect();
    let commit = repository.commit(None, &author, &author, message, &tree, &parents)?;
    let mut pack = Buf::new();
    memory.dump(repository, &mut pack)?;
    let mut writer = odb.packwriter()?;
    std::io::Write::write_all(&mut writer, &pack)
        .map_err(|error| git2::Error::from_str(&error.to_string()))?;
    writer.commit()?;
    memory.reset()?;
    repository.reference(&reference, commit, true, message)?;
    Ok(object_id(commit))
}
