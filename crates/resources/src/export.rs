//! What nobody manages, as files of a repository: which objects there are, and where each would go.
//!
//! [`list`] asks the API; [`Unmanaged::place`] is pure and decides paths and contents. Paths follow the folders' titles,
//! as people would call directories; names of files follow the titles of what is in them.

mod list;
mod names;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use windlass_api::ResourceRef;
use windlass_git::EntryKind;

pub use self::list::{delete_exported, list};
pub use self::names::renamed;
use self::names::{joined, slug, unique};
use crate::paths::{self, Class};
use crate::serialise::{self, Identity};
use crate::{FOLDER, Failure, Kind, Reason};

/// Folders inside each other at most; more is a circle.
const DEEPEST: usize = 32;

/// What nobody manages, and the folders that it is in.
#[derive(Debug, Default)]
pub struct Unmanaged {
    folders: BTreeMap<String, FolderObject>,
    objects: Vec<Object>,
    /// Objects of the listed kinds that somebody manages: kind, name, and the repository that does; empty for other managers.
    pub managed: Vec<(Kind, String, String)>,
}

#[derive(Debug)]
struct FolderObject {
    title: String,
    parent: Option<String>,
    version: String,
    managed_by: Option<String>,
    path: String,
}

#[derive(Debug)]
struct Object {
    kind: Kind,
    api_version: String,
    name: String,
    version: String,
    title: String,
    folder: Option<String>,
    /// JSON as the server wrote it, or why it cannot be had in the version that it is stored in.
    json: Result<String, String>,
}

/// What is exported, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection<'a> {
    /// Name of the repository.
    pub repository: &'a str,
    /// Directory under which files go; empty for the top.
    pub path: &'a str,
    /// Name of the folder whose contents are exported; empty for all.
    pub folder: &'a str,
    /// What is exported; everything if empty.
    pub resources: &'a [ResourceRef],
    /// Objects get new names, computed from this text and their old ones. With none they keep theirs.
    pub new_names: Option<&'a str>,
    /// Folders get new names, computed from this text and their old ones.
    pub new_folder_names: Option<&'a str>,
    /// Whether directories say which folder they are, in a `_folder.json`.
    pub folder_metadata: bool,
}

/// A file that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedFile {
    /// Where, relative to the repository's folder.
    pub path: String,
    /// What is in it.
    pub content: String,
    /// The object that it is made from.
    pub object: ExportedObject,
}

/// An object that is exported.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExportedObject {
    /// What it is.
    pub kind: Kind,
    /// Its name, as it is now.
    pub name: String,
    /// Its version when it was read.
    pub resource_version: String,
}

/// What is to be written, and what cannot be.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// Folders first, then everything else by path.
    pub files: Vec<ExportedFile>,
    /// Objects that cannot be exported, and why.
    pub failed: Vec<(ExportedObject, Failure)>,
    /// Resources that were asked for and are not there, or that somebody manages.
    pub missing: Vec<(ResourceRef, String)>,
}

impl Unmanaged {
    /// Every folder and object that nobody manages.
    pub fn objects(&self) -> Vec<ExportedObject> {
        let folders = self.folders.iter().filter(|(_, folder)| folder.managed_by.is_none());
        let folders = folders.map(|(name, folder)| ExportedObject {
            kind: FOLDER,
            name: name.clone(),
            resource_version: folder.version.clone(),
        });
        folders.chain(self.objects.iter().map(Object::exported)).collect()
    }

    /// Decides where everything goes that is selected.
    pub fn place(&self, of: &Selection<'_>) -> Export {
        let mut export = Export::default();
        let directories = self.directories(of.repository);
        let mut needed: BTreeSet<&str> = BTreeSet::new();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut files = Vec::new();
        for object in self.objects.iter().filter(|object| self.is_selected(object, of)) {
            let exported = object.exported();
            match object.file(of, &directories, &mut taken) {
                Ok((path, content)) => {
                    needed.extend(object.folder.as_deref());
                    files.push(ExportedFile { path, content, object: exported });
                }
                Err(failure) => export.failed.push((exported, failure)),
            }
        }
        if of.resources.is_empty() {
            let in_scope = |name: &str| of.folder.is_empty() || self.is_in(Some(name), of.folder);
            needed.extend(self.folders.keys().map(String::as_str).filter(|name| in_scope(name)));
        }
        self.place_folders(of, &directories, &needed, &mut export);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        export.files.extend(files);
        export.missing = of.resources.iter().filter_map(|wanted| self.missing(wanted, of)).collect();
        export
    }

    /// Adds the folders that hold what is needed.
    fn place_folders(
        &self,
        of: &Selection<'_>,
        directories: &HashMap<&str, String>,
        needed: &BTreeSet<&str>,
        export: &mut Export,
    ) {
        let mut all: BTreeSet<&str> = BTreeSet::new();
        for name in needed {
            let mut next = Some(*name);
            while let Some(name) = next.filter(|name| all.insert(name)) {
                next = self.folders.get(name).and_then(|folder| folder.parent.as_deref());
            }
        }
        let mut placed: Vec<ExportedFile> = Vec::new();
        for name in all {
            let (Some(folder), Some(directory)) = (self.folders.get(name), directories.get(name)) else {
                continue;
            };
            if folder.managed_by.is_some() {
                continue;
            }
            let new_name = of.new_folder_names.map_or_else(|| name.to_owned(), |seed| renamed(seed, name));
            let object = ExportedObject {
                kind: FOLDER,
                name: name.to_owned(),
                resource_version: folder.version.clone(),
            };
            let directory = joined(of.path, directory);
            let (path, content) = if of.folder_metadata {
                let title = if folder.title.is_empty() { name } else { &folder.title };
                (joined(&directory, paths::FOLDER_METADATA), serialise::folder_file(&new_name, title))
            } else {
                (joined(&directory, ".keep"), String::new())
            };
            placed.push(ExportedFile { path, content, object });
        }
        placed.sort_by(|a, b| a.path.cmp(&b.path));
        export.files.extend(placed);
    }

    fn is_selected(&self, object: &Object, of: &Selection<'_>) -> bool {
        let named = |wanted: &ResourceRef| {
            wanted.name == object.name
                && wanted.kind == *object.kind.kind
                && (wanted.group.is_empty() || wanted.group == *object.kind.group)
        };
        (of.resources.is_empty() || of.resources.iter().any(named))
            && (of.folder.is_empty() || self.is_in(object.folder.as_deref(), of.folder))
    }

    /// Whether a folder is `above` or lies in it.
    fn is_in(&self, folder: Option<&str>, above: &str) -> bool {
        let mut next = folder;
        for _ in 0..DEEPEST {
            match next {
                Some(name) if name == above => return true,
                Some(name) => next = self.folders.get(name).and_then(|folder| folder.parent.as_deref()),
                None => return false,
            }
        }
        false
    }

    fn missing(&self, wanted: &ResourceRef, of: &Selection<'_>) -> Option<(ResourceRef, String)> {
        let fits = |kind: &Kind, name: &str| {
            name == wanted.name
                && *kind.kind == wanted.kind
                && (wanted.group.is_empty() || wanted.group == *kind.group)
        };
        if self.objects.iter().any(|object| fits(&object.kind, &object.name)) {
            return None;
        }
        let why = match self.managed.iter().find(|(kind, name, _)| fits(kind, name)) {
            // Under its own name: an earlier try of the same job may have handed it over.
            Some((_, _, manager)) if manager == of.repository && of.new_names.is_none() => return None,
            Some(_) => "it is managed already",
            None => "it does not exist",
        };
        Some((wanted.clone(), why.to_owned()))
    }

    /// The directory of each folder that has one: by titles from the top, or from a folder of this repository.
    fn directories(&self, repository: &str) -> HashMap<&str, String> {
        let mut directories: HashMap<&str, String> = HashMap::new();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut left: Vec<(&String, &FolderObject)> = self.folders.iter().collect();
        for _ in 0..DEEPEST {
            let before = left.len();
            left.retain(|(name, folder)| {
                let directory = match (&folder.managed_by, &folder.parent) {
                    (Some(manager), _) if manager == repository => Some(folder.path.clone()),
                    (Some(_), _) => return false,
                    (None, None) => Some(unique(&mut taken, "", &folder.title, name)),
                    (None, Some(parent)) => {
                        let above = directories.get(parent.as_str()).cloned();
                        above.map(|above| unique(&mut taken, &above, &folder.title, name))
                    }
                };
                let Some(directory) = directory else { return true };
                directories.insert(name, directory);
                false
            });
            if left.len() == before {
                break;
            }
        }
        directories
    }
}

impl Object {
    /// Where it goes, and what is in the file.
    fn file(
        &self,
        of: &Selection<'_>,
        directories: &HashMap<&str, String>,
        taken: &mut BTreeSet<String>,
    ) -> Result<(String, String), Failure> {
        let refuse = |message: String| Failure::new(Reason::ResourceInvalid, message);
        let directory = match &self.folder {
            None => "",
            Some(folder) => directories.get(folder.as_str()).map(String::as_str).ok_or_else(|| {
                refuse(format!("its folder {folder:?} does not exist, or another manager has it"))
            })?,
        };
        let json = self.json.as_ref().map_err(|why| refuse(why.clone()))?;
        let stem = slug(&self.title);
        let stem = if stem.is_empty() { slug(&self.name) } else { stem };
        let directory = joined(of.path, directory);
        let mut path = joined(&directory, &format!("{stem}.json"));
        if !taken.insert(path.clone()) {
            path = joined(&directory, &format!("{stem}-{}.json", slug(&self.name)));
            taken.insert(path.clone());
        }
        if paths::classify(&path, EntryKind::File) != Class::Resource {
            return Err(refuse(format!(
                "no file can be at {path:?}; it is nested too deep, or its path is too long"
            )));
        }
        let name = of.new_names.map_or_else(|| self.name.clone(), |seed| renamed(seed, &self.name));
        let identity = Identity { kind: &self.kind, version: &self.api_version, name: &name };
        let content = serialise::new_file(json, identity).map_err(|error| refuse(error.to_string()))?;
        Ok((path, content))
    }

    fn exported(&self) -> ExportedObject {
        let (kind, name) = (self.kind.clone(), self.name.clone());
        ExportedObject { kind, name, resource_version: self.version.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DASHBOARD;

    fn folder(title: &str, parent: Option<&str>, managed_by: Option<&str>, path: &str) -> FolderObject {
        FolderObject {
            title: title.to_owned(),
            parent: parent.map(str::to_owned),
            version: "1".to_owned(),
            managed_by: managed_by.map(str::to_owned),
            path: path.to_owned(),
        }
    }

    fn object(name: &str, title: &str, folder: Option<&str>) -> Object {
        let json =
            serde_json::json!({ "metadata": { "name": name }, "spec": { "title": title } }).to_string();
        Object {
            kind: DASHBOARD,
            api_version: "v1beta1".to_owned(),
            name: name.to_owned(),
            version: "1".to_owned(),
            title: title.to_owned(),
            folder: folder.map(str::to_owned),
            json: Ok(json),
        }
    }

    fn unmanaged() -> Unmanaged {
        let folders = [
            ("f1", folder("Team A/B", None, None, "")),
            ("f2", folder("..Nested", Some("f1"), None, "")),
            ("f3", folder("Team A/B", None, None, "")),
            ("ours", folder("Ours", None, Some("r"), "apps")),
            ("theirs", folder("Theirs", None, Some("other"), "x")),
            ("circle", folder("Circle", Some("circle"), None, "")),
        ];
        Unmanaged {
            folders: folders.into_iter().map(|(name, folder)| (name.to_owned(), folder)).collect(),
            objects: vec![
                object("a", "CPU & Memory", None),
                object("b", "CPU  memory", None),
                object("c", "Deep", Some("f2")),
                object("d", "In ours", Some("ours")),
                object("e", "In theirs", Some("theirs")),
                object("f", "", Some("circle")),
                object("g", "Größe", Some("f3")),
            ],
            managed: vec![(DASHBOARD, "m".to_owned(), "other".to_owned())],
        }
    }

    fn paths(export: &Export) -> Vec<&str> {
        export.files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn files_are_called_by_titles_and_lie_where_their_folders_are() {
        let export =
            unmanaged().place(&Selection { repository: "r", folder_metadata: true, ..Selection::default() });
        assert_eq!(
            paths(&export),
            [
                "Team A-B-f3/_folder.json",
                "Team A-B/Nested/_folder.json",
                "Team A-B/_folder.json",
                "Team A-B-f3/gr-e.json",
                "Team A-B/Nested/deep.json",
                "apps/in-ours.json",
                "cpu-memory-b.json",
                "cpu-memory.json",
            ]
        );
        let failed: Vec<&str> = export.failed.iter().map(|(object, _)| object.name.as_str()).collect();
        assert_eq!(failed, ["e", "f"], "where their folders would be is not known");
    }

    #[test]
    fn what_is_selected_comes_with_its_folders_and_what_is_not_there_is_named() {
        let named = |name: &str| ResourceRef {
            name: name.to_owned(),
            kind: "Dashboard".to_owned(),
            ..ResourceRef::default()
        };
        let resources = [named("c"), named("m"), named("gone")];
        let of = Selection { repository: "r", path: "x/", resources: &resources, ..Selection::default() };
        let export = unmanaged().place(&of);
        assert_eq!(
            paths(&export),
            ["x/Team A-B/.keep", "x/Team A-B/Nested/.keep", "x/Team A-B/Nested/deep.json"]
        );
        let missing: Vec<&str> = export.missing.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(missing, ["it is managed already", "it does not exist"]);
        let own = Selection { repository: "other", ..of };
        let missing: Vec<ResourceRef> =
            unmanaged().place(&own).missing.into_iter().map(|(wanted, _)| wanted).collect();
        assert_eq!(missing, [named("gone")], "what the repository has under this name is done");
        let of = Selection { repository: "r", folder: "f1", ..Selection::default() };
        assert_eq!(
            paths(&unmanaged().place(&of)),
            ["Team A-B/.keep", "Team A-B/Nested/.keep", "Team A-B/Nested/deep.json"]
        );
    }

    #[test]
    fn new_names_are_the_same_at_every_try() {
        let of = Selection { repository: "r", new_names: Some("job-uid"), ..Selection::default() };
        let (first, second) = (unmanaged().place(&of), unmanaged().place(&of));
        assert_eq!(first, second);
        let cpu = first.files.iter().find(|file| file.path == "cpu-memory.json").unwrap();
        assert!(
            cpu.content.contains(&renamed("job-uid", "a")) && !cpu.content.contains("\"a\""),
            "{}",
            cpu.content
        );
    }
}
