//! How it went, in numbers and in time.

use std::time::Duration;

use tokio::time::Instant;

/// Why not everything was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// The caller cancelled.
    Cancelled,
    /// Too many errors.
    TooManyErrors(usize),
    /// There is no folder to put anything into; its result says why.
    NoRootFolder,
}

/// How it went, in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Objects created.
    pub created: usize,
    /// Objects updated.
    pub updated: usize,
    /// Objects deleted.
    pub deleted: usize,
    /// Objects that now belong to another path.
    pub renamed: usize,
    /// Changes that failed.
    pub errors: usize,
    /// Changes that were not made for a reason that the repository's owner can mend, and notices.
    pub warnings: usize,
    /// Why not everything was tried.
    pub stopped: Option<Stopped>,
    /// Each phase and how long it took, in order. One with nothing to do takes no time.
    pub phases: Vec<(Phase, Duration)>,
}

/// What is done one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Objects go whose files are gone.
    FileDeletions,
    /// Folders are made, from the top.
    FolderCreations,
    /// Objects get another path.
    FileRenames,
    /// Folders go, from the bottom.
    FolderDeletions,
    /// Objects are made and brought up to date.
    FileCreations,
    /// Folders go that others have taken the place of.
    OldFolderCleanup,
}

impl Phase {
    /// The word in metrics and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileDeletions => "file_deletions",
            Self::FolderCreations => "folder_creations",
            Self::FileRenames => "file_renames",
            Self::FolderDeletions => "folder_deletions",
            Self::FileCreations => "file_creations",
            Self::OldFolderCleanup => "old_folder_cleanup",
        }
    }
}

/// Measures phases, each from the end of the one before.
pub(super) struct Watch {
    since: Instant,
    pub(super) phases: Vec<(Phase, Duration)>,
}

impl Watch {
    pub(super) fn start() -> Self {
        Self { since: Instant::now(), phases: Vec::new() }
    }

    pub(super) fn over(&mut self, phase: Phase) {
        let now = Instant::now();
        self.phases.push((phase, now - self.since));
        self.since = now;
    }
}
