//! `.windlassignore`: which files of a repository are none of our business.
//!
//! One file at the root of the repository's path, with the patterns and the meaning of a `.gitignore` there. What it
//! matches is as if it were not in the repository: it is not read, reported or counted, and what was made of it before
//! is deleted.

use ::ignore::gitignore::{Gitignore, GitignoreBuilder};
use tokio_util::sync::CancellationToken;
use windlass_git::{ChangeKind, Diff, EntryKind, Tree};
use windlass_repository::{ReadError, Reader};

use crate::plan::Notice;
use crate::{Failure, Reason};

/// Name of the file, at the root of the repository's path.
pub const IGNORE_FILE: &str = ".windlassignore";
/// The largest that is read, in bytes.
pub const MAX_BYTES: u64 = 64 * 1024;

/// Why a repository's files cannot be told from those to be ignored. Going on would make objects of the latter.
#[derive(Debug, thiserror::Error)]
pub enum IgnoreError {
    /// The file could not be read.
    #[error("failed to read {IGNORE_FILE}")]
    Read(#[source] ReadError),
    /// The file is larger than is read.
    #[error("{IGNORE_FILE} has {size} bytes, the limit is {MAX_BYTES}; make it smaller")]
    TooLarge {
        /// Its size.
        size: u64,
    },
    /// It is a link, a folder or a submodule.
    #[error("{IGNORE_FILE} is no file; links are not followed: replace it by a file")]
    NotAFile,
    /// The patterns together are more than can be matched.
    #[error("failed to combine the patterns of {IGNORE_FILE}: {detail}")]
    Combine {
        /// What is wrong.
        detail: String,
    },
}

/// The patterns of a revision's ignore file.
#[derive(Debug, Clone)]
pub struct IgnoreFile {
    patterns: Gitignore,
    /// Lines that are no patterns.
    notices: Vec<Notice>,
}

impl IgnoreFile {
    /// Reads the ignore file of `tree`, if it has one: from the object cache, where the tree came from.
    pub async fn read(
        reader: &dyn Reader,
        tree: &Tree,
        cancel: &CancellationToken,
    ) -> Result<Self, IgnoreError> {
        let Some(entry) = tree.entries.iter().find(|entry| entry.path == IGNORE_FILE) else {
            return Ok(Self { patterns: Gitignore::empty(), notices: Vec::new() });
        };
        if !matches!(entry.kind, EntryKind::File | EntryKind::Executable) {
            return Err(IgnoreError::NotAFile);
        }
        if entry.size > MAX_BYTES {
            return Err(IgnoreError::TooLarge { size: entry.size });
        }
        let content = reader.blob(entry.id, cancel).await.map_err(IgnoreError::Read)?;
        Self::parse(&String::from_utf8_lossy(&content))
    }

    fn parse(text: &str) -> Result<Self, IgnoreError> {
        let mut builder = GitignoreBuilder::new("");
        let mut notices = Vec::new();
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            if let Err(error) = builder.add_line(None, line) {
                let message = format!("line {} is no pattern and is left out: {error}", index + 1);
                let failure = Failure::new(Reason::ResourceInvalid, message);
                notices.push(Notice { path: IGNORE_FILE.to_owned(), failure });
            }
        }
        let patterns = builder.build().map_err(|error| IgnoreError::Combine { detail: error.to_string() })?;
        Ok(Self { patterns, notices })
    }

    /// What is wrong with the file.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Whether the file at `path` is ignored: by itself, or with a directory above it, out of which nothing can be taken
    /// back (gitignore(5)).
    pub fn matches(&self, path: &str) -> bool {
        let directories = path.match_indices('/').map(|(end, _)| &path[..end]);
        !self.patterns.is_empty()
            && (directories.into_iter().any(|directory| self.patterns.matched(directory, true).is_ignore())
                || self.patterns.matched(path, false).is_ignore())
    }

    /// The tree without what is ignored.
    #[must_use]
    pub fn tree(&self, mut tree: Tree) -> Tree {
        if !self.patterns.is_empty() {
            tree.entries.retain(|entry| !self.matches(&entry.path));
            tree.rejected.retain(|entry| !self.matches(&entry.path));
        }
        tree
    }

    /// A difference between two revisions with this ignore file, without what is ignored. A file that moves across the
    /// border is one that is gone, or new.
    #[must_use]
    pub fn diff(&self, mut diff: Diff) -> Diff {
        if self.patterns.is_empty() {
            return diff;
        }
        diff.changes.retain_mut(|change| {
            let previous = change.previous_path.clone();
            let was_seen = previous.as_ref().is_some_and(|previous| !self.matches(previous));
            if self.matches(&change.path) {
                if let Some(previous) = previous.filter(|_| was_seen) {
                    change.path = previous;
                    change.previous_path = None;
                    change.kind = ChangeKind::Deleted;
                    change.id = None;
                    return true;
                }
                return false;
            }
            if previous.is_some() && !was_seen {
                change.previous_path = None;
                change.previous_id = None;
                change.kind = ChangeKind::Added;
            }
            true
        });
        diff
    }
}

/// Whether the ignore file differs between two revisions, so that files which did not change may matter.
pub fn is_changed_by(diff: &Diff) -> bool {
    diff.changes
        .iter()
        .any(|change| change.path == IGNORE_FILE || change.previous_path.as_deref() == Some(IGNORE_FILE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_git::Change;

    #[test]
    fn patterns_mean_what_they_mean_to_git() {
        let file = IgnoreFile::parse(
            "# tools\n/package.json\n*.tmp.yaml\ncharts/\n!charts/kept.json\nbuild/*\n!build/kept.json\n**/fixtures/\n",
        )
        .unwrap();
        for ignored in [
            "package.json",
            "a/b/x.tmp.yaml",
            "charts/kept.json",
            "a/charts/x.json",
            "build/x.json",
            "x/fixtures/y.json",
        ] {
            assert!(file.matches(ignored), "{ignored}");
        }
        for seen in ["a/package.json", "charts.json", "build/kept.json", "x.yaml"] {
            assert!(!file.matches(seen), "{seen}");
        }
    }

    #[test]
    fn a_line_that_is_no_pattern_is_named_and_the_others_hold() {
        let file = IgnoreFile::parse("ok.json\n[z-a]\nalso.json\n").unwrap();
        assert!(file.matches("ok.json") && file.matches("also.json"));
        let [notice] = file.notices() else { panic!("one notice: {:?}", file.notices()) };
        assert!(notice.failure.message.starts_with("line 2 is no pattern"), "{}", notice.failure.message);
    }

    #[test]
    fn a_file_that_moves_across_the_border_is_gone_or_new() {
        let file = IgnoreFile::parse("old/\n").unwrap();
        let renamed = |from: &str, to: &str| Change {
            path: to.to_owned(),
            previous_path: Some(from.to_owned()),
            kind: ChangeKind::Renamed,
            id: Some(windlass_git::ObjectId::from_bytes([1; 20])),
            previous_id: Some(windlass_git::ObjectId::from_bytes([1; 20])),
            entry: EntryKind::File,
            size: 1,
        };
        let changes =
            vec![renamed("a.json", "old/a.json"), renamed("old/b.json", "b.json"), renamed("old/c", "old/d")];
        let diff = file.diff(Diff { changes, rejected: Vec::new() });
        let seen: Vec<_> = diff
            .changes
            .iter()
            .map(|change| (change.kind, &*change.path, change.previous_path.as_deref()))
            .collect();
        assert_eq!(seen, [(ChangeKind::Deleted, "a.json", None), (ChangeKind::Added, "b.json", None)]);
    }
}
