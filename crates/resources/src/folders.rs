//! Directories as folders: their names, titles and parents.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use windlass_git::{Entry, Tree};
use windlass_repository::{ReadError, Reader};

use crate::names::{base, folder_id};
use crate::parse::{self, FileError};
use crate::paths::{self, Class, FOLDER_METADATA, depth, parent};
use crate::plan::Notice;
use crate::{Failure, Managed, ManagedItem, Reason, SyncContext};

/// What the `_folder.json` files of a tree say, by directory.
#[derive(Debug, Clone, Default)]
pub struct Metadata(BTreeMap<String, Stated>);

#[derive(Debug, Clone)]
enum Stated {
    /// Nothing new since the folder of this name was written.
    Unchanged { name: String, checksum: String },
    /// Read now.
    New { name: String, title: String, checksum: String },
    /// Unusable.
    Bad(FileError),
}

/// A directory's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Folder {
    /// Path of the directory; empty for the root folder.
    pub path: String,
    /// Name of the object.
    pub id: String,
    /// Title, unless it is known not to have changed.
    pub title: Option<String>,
    /// Name of the folder that holds it.
    pub parent: Option<String>,
    /// Hash of the `_folder.json` that names it.
    pub checksum: Option<String>,
}

/// Reads the `_folder.json` files of a tree that are not what the managed folders were last made from: nothing, if
/// none changed.
pub async fn read_metadata(
    reader: &dyn Reader,
    tree: &Tree,
    managed: &Managed,
    context: &SyncContext,
    cancel: &CancellationToken,
) -> Result<Metadata, ReadError> {
    let mut stated = BTreeMap::new();
    let mut unread: Vec<&Entry> = Vec::new();
    let present: HashMap<(&str, &str), &str> = managed
        .folders
        .iter()
        // The title of one that was changed by hand has to be known to be written again.
        .filter(|folder| !folder.drifted)
        .filter_map(|folder| {
            Some(((folder.path.as_str(), folder.checksum.as_deref()?), folder.name.as_str()))
        })
        .collect();
    let limit = reader.limits().blob_bytes;
    for entry in &tree.entries {
        if paths::classify(&entry.path, entry.kind) != Class::FolderMetadata || parent(&entry.path).is_empty()
        {
            continue;
        }
        let directory = parent(&entry.path);
        let checksum = entry.id.to_string();
        if let Some(name) = present.get(&(directory, checksum.as_str())) {
            let name = (*name).to_owned();
            stated.insert(directory.to_owned(), Stated::Unchanged { name, checksum });
        } else if entry.size > limit {
            let error = FileError::TooLarge { size: entry.size, limit };
            stated.insert(directory.to_owned(), Stated::Bad(error));
        } else {
            unread.push(entry);
        }
    }
    for batch in windlass_git::batches(&unread, |entry| entry.size, 256, 4 << 20) {
        let ids: Vec<_> = batch.iter().map(|entry| entry.id).collect();
        for (entry, content) in batch.iter().zip(reader.blobs(&ids, cancel).await?) {
            let said = match parse::folder(&content, context) {
                Ok(folder) => {
                    Stated::New { name: folder.name, title: folder.title, checksum: entry.id.to_string() }
                }
                Err(error) => Stated::Bad(error),
            };
            stated.insert(parent(&entry.path).to_owned(), said);
        }
    }
    Ok(Metadata(stated))
}

/// The `_folder.json` files that say how the directories above `paths` are called, and nothing else of a tree.
pub fn metadata_above<'a>(tree: &Tree, paths: impl IntoIterator<Item = &'a str>) -> Tree {
    let above: BTreeSet<&str> = paths.into_iter().flat_map(|path| paths::ancestors(parent(path))).collect();
    let names_one =
        |entry: &&Entry| base(&entry.path) == FOLDER_METADATA && above.contains(parent(&entry.path));
    Tree { entries: tree.entries.iter().filter(names_one).cloned().collect(), ..Tree::default() }
}

/// Name of the folder that the object of a file at `path` goes into; nothing where it goes into none. The directories
/// above it need not be there.
pub async fn holding(
    reader: &dyn Reader,
    tree: &Tree,
    path: &str,
    context: &SyncContext,
    cancel: &CancellationToken,
) -> Result<Option<String>, ReadError> {
    let managed = Managed::default();
    let above = metadata_above(tree, [path]);
    let metadata = read_metadata(reader, &above, &managed, context, cancel).await?;
    let directories = paths::ancestors(parent(path)).map(str::to_owned).collect();
    Ok(resolve(&directories, &metadata, &managed, context).holding(path).map(str::to_owned))
}

/// The folders of a set of directories, and what is wrong with their metadata.
pub(crate) struct Folders {
    by_path: BTreeMap<String, Folder>,
    root: Option<String>,
    pub(crate) notices: Vec<Notice>,
}

impl Folders {
    /// Name of the folder that a file or directory at `path` belongs into.
    pub(crate) fn holding(&self, path: &str) -> Option<&str> {
        match parent(path) {
            "" => self.root.as_deref(),
            directory => self.by_path.get(directory).map(|folder| folder.id.as_str()),
        }
    }

    /// Folders, those above first.
    pub(crate) fn shallow_first(&self) -> Vec<&Folder> {
        let mut folders: Vec<&Folder> = self.by_path.values().collect();
        folders.sort_by_key(|folder| depth(&folder.path));
        folders
    }
}

/// Decides the name of each directory's folder.
///
/// A directory with usable metadata has the name that it states. Otherwise it is called by its path; where the
/// metadata is there but unusable, by the name that it already has. Of two directories that state one name, the
/// one that has it keeps it, else the first by path; the other is called by its path.
pub(crate) fn resolve(
    directories: &BTreeSet<String>,
    metadata: &Metadata,
    managed: &Managed,
    context: &SyncContext,
) -> Folders {
    let by_path: HashMap<&str, &ManagedItem> =
        managed.folders.iter().map(|folder| (folder.path.as_str(), folder)).collect();
    let holders: HashMap<&str, &str> =
        managed.folders.iter().map(|folder| (folder.name.as_str(), folder.path.as_str())).collect();
    let root = context.root_folder().map(str::to_owned);
    let mut notices = Vec::new();
    let mut claims: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for directory in directories {
        if let Some(Stated::Unchanged { name, .. } | Stated::New { name, .. }) = metadata.0.get(directory) {
            claims.entry(name).or_default().push(directory);
        }
    }
    let winner = |name: &str| -> &str {
        let claimants = &claims[name];
        let holder = holders.get(name).copied();
        holder.filter(|holder| claimants.contains(holder)).unwrap_or(claimants[0])
    };
    let mut resolved: BTreeMap<String, Folder> = BTreeMap::new();
    for directory in directories {
        let mut folder = Folder {
            path: directory.clone(),
            id: folder_id(&context.repository, directory),
            title: Some(base(directory).to_owned()),
            parent: None,
            checksum: None,
        };
        let file = || format!("{directory}/{FOLDER_METADATA}");
        let refuse =
            |reason, message: String| Notice { path: file(), failure: Failure::new(reason, message) };
        match metadata.0.get(directory) {
            None => {}
            Some(Stated::Bad(error)) => {
                let reason = match error {
                    FileError::FolderNameTooLong { .. } => Reason::FolderUidTooLong,
                    FileError::TooLarge { .. } => Reason::ResourceTooLarge,
                    _ => Reason::InvalidFolderMetadata,
                };
                notices
                    .push(refuse(reason, format!("{error}; until it is mended, the folder keeps its name")));
                if let Some(present) = by_path.get(directory.as_str()) {
                    folder.id.clone_from(&present.name);
                    folder.title = None;
                }
            }
            Some(Stated::Unchanged { name, .. } | Stated::New { name, .. }) if winner(name) != directory => {
                let message = format!(
                    "folder {name:?} is already described by {:?}",
                    format!("{}/{FOLDER_METADATA}", winner(name))
                );
                notices.push(refuse(Reason::FolderMetadataConflict, message));
            }
            Some(Stated::Unchanged { name, .. } | Stated::New { name, .. })
                if root.as_deref() == Some(name) =>
            {
                let message = format!("{name:?} is the name of the repository's own folder; choose another");
                notices.push(refuse(Reason::FolderMetadataConflict, message));
            }
            Some(Stated::Unchanged { name, checksum }) => {
                folder.id.clone_from(name);
                folder.title = None;
                folder.checksum = Some(checksum.clone());
            }
            Some(Stated::New { name, title, checksum }) => {
                folder.id.clone_from(name);
                folder.title = Some(title.clone());
                folder.checksum = Some(checksum.clone());
            }
        }
        resolved.insert(directory.clone(), folder);
    }
    // Names of folders above are settled now. (A parent may sort after its child: `a-b` stands between `a` and `a/c`.)
    let ids: BTreeMap<String, String> =
        resolved.iter().map(|(path, folder)| (path.clone(), folder.id.clone())).collect();
    for (path, folder) in &mut resolved {
        folder.parent = match parent(path) {
            "" => root.clone(),
            above => ids.get(above).cloned(),
        };
    }
    Folders { by_path: resolved, root, notices }
}
