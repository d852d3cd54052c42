//! How long artifacts stay that are not the current one any more.

use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use super::{ArtifactPath, Place, Store, StoreError, failed};

/// Files of one place that are looked at, at most.
const MAX_FILES: usize = 1_000;

/// How long, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// After this time one that is not current goes.
    pub time: Duration,
    /// So many stay, the current one included.
    pub records: usize,
}

impl Store {
    /// Removes artifacts of `place` that are older than the retention says, or too many; never `current`. Answers how many
    /// went.
    pub fn collect(
        &self,
        place: &Place,
        current: Option<&ArtifactPath>,
        retention: Retention,
    ) -> Result<usize, StoreError> {
        let directory = self.root.join(place.directory());
        let listing = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            listing => listing.map_err(failed("list", &directory))?,
        };
        let current = current.filter(|path| path.place() == place).map(|path| self.path(path));
        let mut others = Vec::new();
        for entry in listing.flatten().take(MAX_FILES) {
            let path = entry.path();
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_file() && Some(&path) != current.as_ref() {
                let age = meta.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
                others.push((age.unwrap_or_default(), path));
            }
        }
        others.sort();
        let room = retention.records.saturating_sub(usize::from(current.is_some()));
        let mut removed = 0;
        for (index, (age, path)) in others.iter().enumerate() {
            if index >= room || *age > retention.time {
                fs::remove_file(path).map_err(failed("remove", path))?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}
