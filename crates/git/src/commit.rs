//! Commits that are made here: objects in a pack of their own, without a checkout and without a branch.

use std::path::Path;
use std::sync::Arc;

use git2::{ObjectType, Repository};
use tokio_util::sync::CancellationToken;

use crate::edit::{TreeChange, TreeEditor};
use crate::object_id::{object_id, oid};
use crate::pack::Scratch;
use crate::tree;
use crate::{GitError, Limits, ObjectId, SigningKey};

/// Who did something, and when. The same values make the same commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Name; characters that Git has no place for are left out.
    pub name: String,
    /// Address, likewise.
    pub email: String,
    /// Seconds since 1970, UTC.
    pub seconds: i64,
}

/// What a commit says beside its tree.
#[derive(Clone, Debug)]
pub struct CommitMeta {
    /// Who wrote the change.
    pub author: Signature,
    /// Who made the commit.
    pub committer: Signature,
    /// The message, with its trailers.
    pub message: String,
    /// Signs it, at the committer's time; nothing for a commit without a signature.
    pub signing_key: Option<Arc<SigningKey>>,
}

/// A commit whose new objects are in a pack of their own.
pub(crate) struct NewCommit {
    pub(crate) id: ObjectId,
    pub(crate) scratch: Scratch,
}

/// Makes the commit of `changes` on top of `base`, into `scratch`; nothing if they change nothing. Blocking.
pub(crate) fn build(
    repository: &Repository,
    base: Option<ObjectId>,
    (changes, meta): (&[TreeChange], &CommitMeta),
    limits: &Limits,
    scratch: Scratch,
    stop: &CancellationToken,
) -> Result<Option<NewCommit>, GitError> {
    let failed = |error: git2::Error| GitError::cache("make a commit", error.message());
    let odb = repository.odb().map_err(failed)?;
    // New objects are in memory until they are packed.
    let _memory = odb.add_new_mempack_backend(1_000).map_err(failed)?;
    let (base, root) = match base {
        Some(base) => {
            let commit = tree::commit(&odb, base)?;
            (Some(commit.id), Some(commit.tree))
        }
        None => (None, None),
    };
    let mut editor = TreeEditor::new(&odb, root, limits)?;
    for change in changes {
        if stop.is_cancelled() {
            return Err(GitError::Cancelled);
        }
        editor.apply(change)?;
    }
    let (tree, mut objects) = editor.finish()?;
    if tree == root {
        return Ok(None);
    }
    let tree = match tree {
        Some(tree) => tree,
        None => {
            let empty = odb.write(ObjectType::Tree, b"").map_err(failed)?;
            objects.push(empty);
            object_id(empty)
        }
    };
    let commit = odb.write(ObjectType::Commit, raw(tree, base, meta)?.as_bytes()).map_err(failed)?;
    objects.push(commit);
    scratch.make()?;
    let mut builder = repository.packbuilder().map_err(failed)?;
    builder.set_threads(1);
    for object in objects {
        builder.insert_object(object, None).map_err(failed)?;
    }
    builder.write(&scratch.objects().join("pack"), crate::private::FILE).map_err(failed)?;
    Ok(Some(NewCommit { id: object_id(commit), scratch }))
}

/// The commit as Git stores it.
fn raw(tree: ObjectId, parent: Option<ObjectId>, meta: &CommitMeta) -> Result<String, GitError> {
    let parent = parent.map(|parent| format!("parent {parent}\n")).unwrap_or_default();
    let (author, committer) = (line(&meta.author), line(&meta.committer));
    let message = meta.message.replace('\0', "");
    let message = message.trim_end();
    let head = format!("tree {tree}\n{parent}author {author}\ncommitter {committer}\n");
    let unsigned = format!("{head}\n{message}\n");
    let Some(key) = &meta.signing_key else { return Ok(unsigned) };
    let signature = key.sign(unsigned.as_bytes(), meta.committer.seconds)?;
    let signature = signature.trim_end().replace('\n', "\n ");
    Ok(format!("{head}gpgsig {signature}\n\n{message}\n"))
}

fn line(who: &Signature) -> String {
    let clean = |text: &str| -> String {
        let kept: String = text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect();
        kept.trim().to_owned()
    };
    let (mut name, email) = (clean(&who.name), clean(&who.email));
    if name.is_empty() {
        name.clone_from(&email);
    }
    if name.is_empty() {
        "unknown".clone_into(&mut name);
    }
    format!("{name} <{email}> {} +0000", who.seconds.max(0))
}

/// Writes the packfile of what a push of `chain` needs into `file`, and returns its bytes: the objects of each commit
/// that its parent does not have. Blocking.
pub(crate) fn pack(
    repository: &Repository,
    chain: &[ObjectId],
    file: &Path,
    limits: &Limits,
    stop: &CancellationToken,
) -> Result<u64, GitError> {
    use std::io::Write as _;

    let failed = |error: git2::Error| GitError::cache("pack a push", error.message());
    let odb = repository.odb().map_err(failed)?;
    let mut builder = repository.packbuilder().map_err(failed)?;
    builder.set_threads(1);
    for id in chain {
        let commit = tree::commit(&odb, *id)?;
        let parent = commit.parents.first().and_then(|parent| tree::commit(&odb, *parent).ok());
        builder.insert_object(oid(*id)?, None).map_err(failed)?;
        tree::changed(&odb, commit.tree, parent.map(|it| it.tree), limits, stop, |_, id, _| {
            builder.insert_object(oid(id)?, None).map_err(failed)
        })?;
    }
    let written = |error: std::io::Error| GitError::cache("pack a push", error);
    let mut output = std::io::BufWriter::new(crate::private::create(file).map_err(written)?);
    let mut result = Ok(());
    let mut length = 0;
    let done = builder.foreach(|piece| {
        length += piece.len() as u64;
        result = if stop.is_cancelled() {
            Err(GitError::Cancelled)
        } else {
            output.write_all(piece).map_err(written)
        };
        result.is_ok()
    });
    result?;
    done.map_err(failed)?;
    output.flush().map_err(written)?;
    Ok(length)
}

/// The commits that the server does not have, from `new` on, newest first: each but the last is the next one's child.
pub(crate) fn chain(
    repository: &Repository,
    new: ObjectId,
    is_unpushed: impl Fn(ObjectId) -> bool,
) -> Result<Vec<ObjectId>, GitError> {
    let odb = repository.odb().map_err(|error| GitError::cache("open the object store", error))?;
    let mut chain = Vec::new();
    let mut next = Some(new);
    while let Some(id) = next.filter(|id| is_unpushed(*id)) {
        chain.push(id);
        next = tree::commit(&odb, id)?.parents.first().copied();
    }
    Ok(chain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_write_further_lines_into_a_commit() {
        let who =
            Signature { name: "A\nparent x <y>".to_owned(), email: " a@b> 1\0".to_owned(), seconds: -7 };
        let nobody = Signature { name: String::new(), email: String::new(), seconds: 7 };
        let message = "m\0\n\nT: 1\n\n".to_owned();
        let meta = CommitMeta { author: who, committer: nobody, message, signing_key: None };
        let id = object_id(git2::Oid::ZERO_SHA1);
        assert_eq!(
            raw(id, Some(id), &meta).unwrap(),
            format!(
                "tree {id}\nparent {id}\nauthor Aparent x y <a@b 1> 0 +0000\ncommitter unknown <> 7 +0000\n\nm\n\nT: 1\n"
            )
        );
    }
}
