//! Artifacts of objects that nobody here looks after any more: they went to another shard, or away while nobody watched.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{ArtifactPath, Place, Store, StoreError, failed};

impl Store {
    /// Marks the directories of the objects of `kind` that the caller looks after, and removes the artifacts of those that
    /// nobody has marked for `age`. Who shares the folder marks its own, so that no one's are taken for nobody's as long as
    /// each does this more often than that. Answers whose artifacts went.
    ///
    /// Files with other names than artifacts have stay, and the directories that they are in.
    pub fn collect_unowned(
        &self,
        kind: &str,
        is_owned: impl Fn(&Place) -> bool,
        age: Duration,
    ) -> Result<Vec<Place>, StoreError> {
        let (mut gone, mut unmarked) = (Vec::new(), None);
        for namespace in directories(&self.root.join(kind))? {
            for directory in directories(&namespace)? {
                let Some(place) = place_of(kind, &namespace, &directory) else { continue };
                if is_owned(&place) {
                    let marked = File::open(&directory).and_then(|it| it.set_modified(SystemTime::now()));
                    // Its owner may have removed it.
                    if let Err(error) = marked
                        && error.kind() != io::ErrorKind::NotFound
                    {
                        unmarked = Some(failed("mark", &directory)(error));
                    }
                    continue;
                }
                let marked = fs::metadata(&directory).and_then(|meta| meta.modified());
                let since = marked.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
                if since.is_some_and(|since| since > age) && self.remove_artifacts(&place, &directory)? {
                    gone.push(place);
                }
            }
            // It stays while there is anything in it.
            let _ = fs::remove_dir(&namespace);
        }
        unmarked.map_or(Ok(gone), Err)
    }

    /// Whether there were any.
    fn remove_artifacts(&self, place: &Place, directory: &Path) -> Result<bool, StoreError> {
        let mut removed = false;
        for entry in fs::read_dir(directory).map_err(failed("list", directory))?.flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let path = ArtifactPath { place: place.clone(), file };
            if path.hex().is_some() {
                fs::remove_file(self.path(&path)).map_err(failed("remove", directory))?;
                removed = true;
            }
        }
        let _ = fs::remove_dir(directory);
        Ok(removed)
    }
}

fn directories(of: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let listing = match fs::read_dir(of) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing.map_err(failed("list", of))?,
    };
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    Ok(listing.flatten().filter(is_directory).map(|entry| entry.path()).collect())
}

fn place_of(kind: &str, namespace: &Path, directory: &Path) -> Option<Place> {
    Place::new(kind, namespace.file_name()?.to_str()?, directory.file_name()?.to_str()?)
}
