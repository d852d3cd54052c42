//! What a sync will do, as a value.
//!
//! Planning is pure: it sees paths, hashes and names, never a file's content. A [`Plan`] prints as one line for each
//! change, in the order in which they are applied.

mod full;
mod incremental;
mod notice;

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use serde::Serialize;
use windlass_git::ObjectId;

pub use self::full::full;
pub use self::incremental::{Incremental, incremental};
pub use self::notice::Notice;
use crate::folders::Folder;
use crate::paths::{Class, SkipReason, classify};
use crate::{Failure, Kind, ManagedItem, Reason, SyncContext};

/// What a sync will do. The fields are phases, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// What is reported and not acted upon.
    pub notices: Vec<Notice>,
    /// The folder that holds everything, looked at first; nothing else is done without it.
    pub root: Option<FolderWrite>,
    /// Files that are gone, and surplus objects of files that stay. In parallel.
    pub delete_files: Vec<Deletion>,
    /// Folders that are new or changed. One by one, those above first.
    pub folders: Vec<FolderWrite>,
    /// Files that only moved. In parallel.
    pub renames: Vec<FileWrite>,
    /// Folders that are gone. One by one, those below first.
    pub delete_folders: Vec<Deletion>,
    /// Files that are new or changed, changed ones first. In parallel.
    pub files: Vec<FileWrite>,
    /// Folders whose directory has a folder of another name now. One by one, those below first.
    pub replaced_folders: Vec<Deletion>,
    /// Files that stay as they are. An object that came from one of these is not taken over by another file.
    #[serde(skip)]
    pub kept: HashSet<String>,
}

impl Plan {
    /// Changes, for a progress bar. Looking at the root folder is none.
    pub fn len(&self) -> usize {
        self.delete_files.len()
            + self.folders.len()
            + self.renames.len()
            + self.delete_folders.len()
            + self.files.len()
            + self.replaced_folders.len()
    }

    /// Whether there is nothing to do. There may still be notices, and the root folder to look at.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An object that is known to exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Existing {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its version when it was looked at.
    pub resource_version: String,
    /// Its UID; empty for kinds whose writes need none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Labels and annotations that its file set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_metadata: Option<String>,
    /// How often its spec has changed, on kinds that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Hash of the file that it was last written from, or of its document where the file has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Whether somebody else changed it since, or may have.
    pub drifted: bool,
}

impl From<&ManagedItem> for Existing {
    fn from(item: &ManagedItem) -> Self {
        Self {
            kind: item.kind.clone(),
            name: item.name.clone(),
            resource_version: item.resource_version.clone(),
            uid: item.uid.clone(),
            file_metadata: item.file_metadata.clone(),
            generation: item.generation,
            checksum: item.content_hash().map(str::to_owned),
            drifted: item.drifted,
        }
    }
}

/// How much is known about the objects that a file stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Known {
    /// All of them, from a listing; none for a new file.
    Listed(Vec<Existing>),
    /// Nothing but what the file contained before, if that is known; the API is asked.
    FromContent(Option<ObjectId>),
    /// Nothing, as the file failed before; the API is asked.
    Nothing,
}

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileWrite {
    /// Where it is.
    pub path: String,
    /// Where it was, if it moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_path: Option<String>,
    /// Its content.
    pub id: ObjectId,
    /// Bytes of its content.
    pub size: u64,
    /// Name of the folder that it goes into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Its objects.
    pub known: Known,
}

impl FileWrite {
    /// Whether there was such a file before.
    pub(crate) fn is_update(&self) -> bool {
        match &self.known {
            Known::Listed(existing) => !existing.is_empty(),
            Known::FromContent(previous) => previous.is_some(),
            Known::Nothing => false,
        }
    }

    /// Whether the object was last written from `content` (a hash), and changed by somebody else.
    pub(crate) fn is_repair_of(&self, kind: &Kind, name: &str, content: Option<&str>) -> bool {
        let Known::Listed(existing) = &self.known else { return false };
        existing.iter().any(|existing| {
            existing.kind == *kind
                && existing.name == name
                && existing.drifted
                && existing.checksum.as_deref() == content
        })
    }
}

/// What an earlier sync left out, and what may succeed now although it has not changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retry {
    /// Paths of files.
    pub files: BTreeSet<String>,
    /// Paths of directories.
    pub folders: BTreeSet<String>,
}

impl Retry {
    /// Whether there is nothing to be tried again.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.folders.is_empty()
    }
}

/// What a folder's writing may assume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FolderAction {
    /// There is none of this name.
    Create,
    /// It is there at this version and has to change.
    Update(Existing),
    /// Nothing: it is looked at, and written if need be.
    Ensure,
}

/// A folder to be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FolderWrite {
    /// What it should be.
    #[serde(flatten)]
    pub folder: Folder,
    /// What may be assumed.
    pub action: FolderAction,
    /// Where it was, if it moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_path: Option<String>,
}

/// An object to be deleted, if it still comes from the path that it is deleted for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deletion {
    /// The file or directory.
    pub path: String,
    /// The object.
    pub target: Target,
}

/// Which object is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// This one.
    Listed(Existing),
    /// The one of this name, at whatever version.
    Named(Kind, String),
    /// The one that this content describes.
    FromContent(ObjectId),
}

impl Deletion {
    fn listed(item: &ManagedItem) -> Self {
        Self { path: item.path.clone(), target: Target::Listed(item.into()) }
    }
}

/// The look at the root folder that starts every sync into one.
fn root(context: &SyncContext) -> Option<FolderWrite> {
    let id = context.root_folder()?;
    Some(FolderWrite {
        folder: Folder {
            path: String::new(),
            id: id.to_owned(),
            title: Some(if context.title.trim().is_empty() { id.to_owned() } else { context.title.clone() }),
            parent: None,
            checksum: None,
        },
        action: FolderAction::Ensure,
        previous_path: None,
    })
}

/// Notices for what the source itself refused. Hidden files are nobody's concern.
fn rejected(entries: &[windlass_git::Rejected]) -> impl Iterator<Item = Notice> + '_ {
    entries
        .iter()
        .filter(|entry| !entry.path.split('/').next_back().is_some_and(|name| name.starts_with(".git")))
        .map(|entry| Notice {
            path: entry.path.clone(),
            failure: Failure::new(Reason::ResourceInvalid, format!("the file is left out: {}", entry.reason)),
        })
}

fn skipped(path: &str, reason: SkipReason) -> Option<Notice> {
    let message = reason.message()?;
    Some(Notice { path: path.to_owned(), failure: Failure::new(Reason::ResourceInvalid, message) })
}

/// The directory that a path keeps alive, if it is fit to be a folder.
fn kept_directory(path: &str, kind: windlass_git::EntryKind) -> &str {
    match classify(path, kind) {
        Class::Skipped { safe, .. } => safe,
        _ => crate::paths::parent(path),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Notice { path, failure } in &self.notices {
            writeln!(f, "notice {path}: {} ({})", failure.message, failure.reason)?;
        }
        if let Some(root) = &self.root {
            writeln!(f, "{root}")?;
        }
        for deletion in &self.delete_files {
            writeln!(f, "delete {deletion}")?;
        }
        for write in &self.folders {
            writeln!(f, "{write}")?;
        }
        for write in &self.renames {
            writeln!(f, "rename {} -> {write}", write.previous_path.as_deref().unwrap_or("?"))?;
        }
        for deletion in &self.delete_folders {
            writeln!(f, "delete {deletion}")?;
        }
        for write in &self.files {
            writeln!(f, "{} {write}", if write.is_update() { "update" } else { "create" })?;
        }
        for deletion in &self.replaced_folders {
            writeln!(f, "delete replaced {deletion}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FolderWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.action {
            FolderAction::Create => "create",
            FolderAction::Update(_) => "update",
            FolderAction::Ensure => "ensure",
        };
        let Folder { path, id, title, parent, .. } = &self.folder;
        write!(f, "{verb} folder /{path} = {id}")?;
        if let Some(title) = title {
            write!(f, " {title:?}")?;
        }
        if let Some(parent) = parent {
            write!(f, " in {parent}")?;
        }
        if let Some(previous) = &self.previous_path {
            write!(f, ", was /{previous}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FileWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        match &self.known {
            Known::Listed(existing) if !existing.is_empty() => {
                let names: Vec<&str> = existing.iter().map(|existing| existing.name.as_str()).collect();
                write!(f, " = {}", names.join(", "))?;
            }
            _ => {}
        }
        if let Some(folder) = &self.folder {
            write!(f, " in {folder}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Deletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        let (kind, name) = match &self.target {
            Target::Listed(existing) => (&existing.kind, &existing.name),
            Target::Named(kind, name) => (kind, name),
            Target::FromContent(_) => return write!(f, "object of /{path}"),
        };
        write!(f, "{} /{path} = {name}", kind.kind.to_lowercase())
    }
}

#[cfg(test)]
mod tests;
