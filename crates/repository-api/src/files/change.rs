//! One change to one file or folder: what may be asked for, whether it fits what is there, and what it comes to. Pure.

use bytes::Bytes;
use windlass_api::{ResourceAction, status};
use windlass_git::{Change as FileChange, ChangeKind, Diff, Entry, EntryKind, ObjectId, Tree};
use windlass_repository::{Stage, WriteError};

use super::path::{FileClass, FilePath};
use super::place::{below, find};
use crate::answer::Refusal;

/// A change that was asked for.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) action: ResourceAction,
    pub(super) path: FilePath,
    /// Where what is moved is now.
    pub(super) original: Option<FilePath>,
    /// The file's new content. A file may move without one, and a folder has none.
    pub(super) content: Option<Bytes>,
    /// Whether the content was sent as JSON, whatever the file's format is.
    pub(super) is_json: bool,
    /// The hash that the file has to have, if that was said.
    pub(super) expected: Option<String>,
}

/// What is there before the change: ids of the files that it is about, by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Before(Vec<(String, ObjectId)>);

impl Change {
    /// Refuses what makes no sense, whatever is there.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let bad = |message: &str| Err(status::bad_request(message).into());
        if self.path.is_folder {
            if self.action == ResourceAction::Update {
                return Err(Refusal::new(
                    405,
                    "a folder has no content to be updated; write the files in it",
                ));
            }
            if self.content.is_some() {
                return bad("a folder has no content: leave the body out, or the slash at the path's end");
            }
        }
        if let Some(original) = &self.original {
            if original.is_folder != self.path.is_folder {
                return bad(
                    "originalPath and the path have to be both folders, with a slash at the end, or both files",
                );
            }
            if original.text == self.path.text {
                return bad("originalPath is the path itself");
            }
            if super::place::is_below(&self.path.text, &original.text) {
                return bad("a folder cannot be moved into itself");
            }
        }
        let files = [Some(&self.path), self.original.as_ref()];
        let unwritable = files.into_iter().flatten().find(|path| {
            !path.is_folder && !matches!(path.class(), FileClass::Resource | FileClass::FolderMetadata)
        });
        if let Some(path) = unwritable {
            let message = format!(
                "{:?} is not written over the API: only .json, .yaml and .yml files are, which stand for objects",
                path.text
            );
            return bad(&message);
        }
        let needs_content = matches!(self.action, ResourceAction::Create | ResourceAction::Update);
        if needs_content && !self.path.is_folder && self.content.is_none() {
            return bad("the body is empty; send the file's content");
        }
        Ok(())
    }

    /// Checks that the change can be made to a tree, and says what of it that is about.
    pub(super) fn fits(&self, tree: &Tree) -> Result<Before, Refusal> {
        let mut before = Vec::new();
        if let Some(original) = &self.original {
            before.extend(self.present(tree, original)?);
        }
        match self.action {
            ResourceAction::Update | ResourceAction::Delete => before.extend(self.present(tree, &self.path)?),
            ResourceAction::Create | ResourceAction::Move => absent(tree, &self.path)?,
        }
        Ok(Before(before))
    }

    /// The files at a path, which have to be there.
    fn present(&self, tree: &Tree, path: &FilePath) -> Result<Vec<(String, ObjectId)>, Refusal> {
        let missing = |more: &str| Refusal::new(404, format!("file not found: {:?}{more}", path.text));
        let found: Vec<&Entry> = if path.is_folder {
            below(tree, &path.text).collect()
        } else {
            find(tree, &path.text).into_iter().collect()
        };
        match (found.first(), path.is_folder) {
            (None, false) if below(tree, &path.text).next().is_some() => {
                return Err(missing("; it is a folder, which is named with a slash at its end"));
            }
            (None, _) if self.action == ResourceAction::Update => {
                return Err(missing("; POST makes a new one"));
            }
            (None, _) => return Err(missing("")),
            (Some(entry), false) => {
                if !entry.kind.is_file() {
                    let message = format!("{:?} is a link or a submodule, which is not followed", path.text);
                    return Err(status::bad_request(message).into());
                }
                if let Some(expected) = self.expected.as_ref().filter(|it| **it != entry.id.to_string()) {
                    let message = format!(
                        "{:?} has the hash {}, not {expected}: somebody else changed it; read it again and repeat the change on that",
                        path.text, entry.id
                    );
                    return Err(Refusal::new(412, message));
                }
            }
            (Some(_), true) => {}
        }
        Ok(found.into_iter().map(|entry| (entry.path.clone(), entry.id)).collect())
    }

    /// Stages the change.
    pub(super) fn stage(&self, stage: &mut Stage) -> Result<(), WriteError> {
        let path = &self.path.text;
        match (&self.original, &self.content) {
            (Some(original), None) => stage.rename(&original.text, path),
            (Some(original), Some(content)) => {
                stage.delete(&original.text)?;
                stage.put(path, content.clone())
            }
            (None, Some(content)) => stage.put(path, content.clone()),
            (None, None) if self.action == ResourceAction::Delete => stage.delete(path),
            (None, None) => stage.put(&self.path.keep(), Bytes::new()),
        }
    }

    /// What a comparison of the trees would say about this change and nothing else.
    pub(super) fn diff(&self, before: &Tree, after: &Tree) -> Diff {
        let path = if self.path.is_folder { self.path.keep() } else { self.path.text.clone() };
        let old_path = self.original.as_ref().map_or(&path, |original| &original.text);
        let (old, new) = (find(before, old_path), find(after, &path));
        let kind = match (old, new) {
            (None, None) => return Diff::default(),
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Deleted,
            (Some(_), Some(_)) if self.original.is_some() => ChangeKind::Renamed,
            (Some(old), Some(new)) if old.id == new.id => return Diff::default(),
            (Some(_), Some(_)) => ChangeKind::Modified,
        };
        let change = FileChange {
            previous_path: (kind == ChangeKind::Renamed).then(|| old_path.clone()),
            path,
            kind,
            id: new.map(|entry| entry.id),
            previous_id: old.map(|entry| entry.id),
            entry: new.or(old).map_or(EntryKind::File, |entry| entry.kind),
            size: new.map_or(0, |entry| entry.size),
        };
        Diff { changes: vec![change], rejected: Vec::new() }
    }

    /// Every path that the change is about.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        [Some(&self.path), self.original.as_ref()].into_iter().flatten().map(|path| path.text.as_str())
    }
}

/// Refuses a path that is taken, or that leads through a file.
fn absent(tree: &Tree, path: &FilePath) -> Result<(), Refusal> {
    let taken = |message: String| Err(status::error(409, "AlreadyExists", message).into());
    if find(tree, &path.text).is_some() {
        return taken(format!(
            "{:?} is there already; PUT writes over a file, DELETE takes it away",
            path.text
        ));
    }
    if below(tree, &path.text).next().is_some() {
        return taken(format!("{:?} is a folder that is there already", path.text));
    }
    let through = path.text.match_indices('/').map(|(end, _)| &path.text[..end]);
    match through.into_iter().find(|above| find(tree, above).is_some()) {
        Some(above) => {
            let message = format!("{above:?} is a file, and nothing can be below it");
            Err(status::bad_request(message).into())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, u8)]) -> Tree {
        let entry = |(path, id): &(&str, u8)| Entry {
            path: (*path).to_owned(),
            id: ObjectId::from_bytes([*id; 20]),
            kind: EntryKind::File,
            size: 1,
        };
        Tree { entries: files.iter().map(entry).collect(), ..Tree::default() }
    }

    fn change(action: ResourceAction, path: &str, original: Option<&str>, content: Option<&str>) -> Change {
        Change {
            action,
            path: FilePath::parse(path).unwrap(),
            original: original.map(|path| FilePath::parse(path).unwrap()),
            content: content.map(|text| Bytes::copy_from_slice(text.as_bytes())),
            is_json: false,
            expected: None,
        }
    }

    fn code(refused: Result<impl Sized, Refusal>) -> Option<i32> {
        refused.err().and_then(|refusal| refusal.0.code)
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        use ResourceAction::{Create, Delete, Move, Update};
        for (refused, code_of) in [
            (change(Update, "a/", None, Some("x")), Some(405)),
            (change(Create, "a/", None, Some("x")), Some(400)),
            (change(Create, "a.json", None, None), Some(400)),
            (change(Create, "a.md", None, Some("x")), Some(400)),
            (change(Move, "a.json", Some("a.json"), None), Some(400)),
            (change(Move, "a.json", Some("b/"), None), Some(400)),
            (change(Move, "a/b/", Some("a/"), None), Some(400)),
            (change(Move, "a.json", Some("b.txt"), None), Some(400)),
            (change(Delete, "a.json", None, None), None),
            (change(Move, "b/a.json", Some("a.json"), None), None),
            (change(Create, "a/", None, None), None),
        ] {
            assert_eq!(code(refused.check()), code_of, "{refused:?}");
        }
    }

    #[test]
    fn a_change_fits_what_is_there_or_says_why_not() {
        use ResourceAction::{Create, Delete, Move, Update};
        let tree = tree(&[("a.json", 1), ("b/c.json", 2)]);
        for (asked, code_of) in [
            (change(Create, "a.json", None, Some("x")), Some(409)),
            (change(Create, "b/", None, None), Some(409)),
            (change(Create, "a.json/x.json", None, Some("x")), Some(400)),
            (change(Update, "x.json", None, Some("x")), Some(404)),
            (change(Delete, "b", None, None), Some(404)),
            (change(Delete, "x/", None, None), Some(404)),
            (change(Move, "a.json", Some("b/c.json"), None), Some(409)),
            (change(Move, "x.json", Some("y.json"), None), Some(404)),
            (change(Move, "x.json", Some("a.json"), None), None),
            (change(Delete, "b/", None, None), None),
        ] {
            assert_eq!(code(asked.fits(&tree)), code_of, "{asked:?}");
        }
        let mut expecting = change(Update, "a.json", None, Some("x"));
        expecting.expected = Some(ObjectId::from_bytes([9; 20]).to_string());
        assert_eq!(code(expecting.fits(&tree)), Some(412));
    }

    #[test]
    fn only_the_change_itself_is_different() {
        use ResourceAction::{Create, Delete, Move, Update};
        let before = tree(&[("a.json", 1), ("other.json", 5)]);
        let kind = |change: Change, after: &[(&str, u8)]| {
            let diff = change.diff(&before, &tree(after));
            diff.changes.first().map(|found| (found.kind, found.path.clone(), found.previous_path.clone()))
        };
        let at = |kind, path: &str| Some((kind, path.to_owned(), None));
        let content = Some("x");
        assert_eq!(
            kind(change(Create, "b.json", None, content), &[("b.json", 2)]),
            at(ChangeKind::Added, "b.json")
        );
        assert_eq!(
            kind(change(Update, "a.json", None, content), &[("a.json", 2)]),
            at(ChangeKind::Modified, "a.json")
        );
        assert_eq!(kind(change(Update, "a.json", None, content), &[("a.json", 1)]), None);
        assert_eq!(kind(change(Delete, "a.json", None, None), &[]), at(ChangeKind::Deleted, "a.json"));
        assert_eq!(
            kind(change(Create, "d/", None, None), &[("d/.keep", 3)]),
            at(ChangeKind::Added, "d/.keep")
        );
        let moved = kind(change(Move, "b.json", Some("a.json"), None), &[("b.json", 1)]);
        assert_eq!(moved, Some((ChangeKind::Renamed, "b.json".to_owned(), Some("a.json".to_owned()))));
    }
}
