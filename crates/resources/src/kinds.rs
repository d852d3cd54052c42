//! The kinds that files can become.

use serde::{Serialize, Serializer};

/// A kind of managed object, and how it is addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group.
    pub group: &'static str,
    /// Kind, as documents name it.
    pub kind: &'static str,
    /// Plural, as URLs name it.
    pub resource: &'static str,
    /// Version used where no document names one.
    pub version: &'static str,
    /// Versions that documents may name.
    pub versions: &'static [&'static str],
}

/// Folders: made from directories.
pub const FOLDER: Kind = Kind {
    group: windlass_api::FOLDER_GROUP,
    kind: "Folder",
    resource: "folders",
    version: "v1beta1",
    versions: &["v1beta1"],
};

/// Dashboards: made from files.
pub const DASHBOARD: Kind = Kind {
    group: windlass_api::DASHBOARD_GROUP,
    kind: "Dashboard",
    resource: "dashboards",
    version: "v1beta1",
    versions: &["v0alpha1", "v1beta1"],
};

impl Kind {
    /// The version of this kind that is called `version`, if it is served.
    pub(crate) fn served(&self, version: &str) -> Option<&'static str> {
        self.versions.iter().copied().find(|served| *served == version)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}.{}", self.resource, self.group))
    }
}
