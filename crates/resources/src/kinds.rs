//! The kinds that files can become.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A kind of managed object, and how it is addressed. Cheap to clone; one is another if group and plural are the same.
#[derive(Clone)]
pub struct Kind(Names);

#[derive(Clone)]
enum Names {
    BuiltIn(&'static KindNames),
    Discovered(Arc<KindNames>),
}

/// How a [`Kind`] is called, and which of its versions there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindNames {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Kind, as documents name it.
    pub kind: Cow<'static, str>,
    /// Plural, as URLs name it.
    pub resource: Cow<'static, str>,
    /// Version used where no document names one.
    pub version: Cow<'static, str>,
    /// Versions that documents may name.
    pub versions: Cow<'static, [Cow<'static, str>]>,
}

/// Folders: made from directories.
pub const FOLDER: Kind = Kind(Names::BuiltIn(&KindNames {
    group: Cow::Borrowed(windlass_api::FOLDER_GROUP),
    kind: Cow::Borrowed("Folder"),
    resource: Cow::Borrowed("folders"),
    version: Cow::Borrowed("v1beta1"),
    versions: Cow::Borrowed(&[Cow::Borrowed("v1beta1")]),
}));

/// Dashboards: made from files.
pub const DASHBOARD: Kind = Kind(Names::BuiltIn(&KindNames {
    group: Cow::Borrowed(windlass_api::DASHBOARD_GROUP),
    kind: Cow::Borrowed("Dashboard"),
    resource: Cow::Borrowed("dashboards"),
    version: Cow::Borrowed("v1beta1"),
    versions: Cow::Borrowed(&[Cow::Borrowed("v0alpha1"), Cow::Borrowed("v1beta1")]),
}));

impl Kind {
    /// A kind that the API server serves.
    pub(crate) fn discovered(names: KindNames) -> Self {
        Self(Names::Discovered(Arc::new(names)))
    }

    /// Whether documents may name this version.
    pub(crate) fn serves(&self, version: &str) -> bool {
        self.versions.iter().any(|served| served == version)
    }

    /// Whether objects are written by server-side apply: what others set on them stays, and what a document drops goes.
    /// Folders and dashboards are all ours, and a plain write of a large one costs the server half as much.
    pub(crate) fn is_applied(&self) -> bool {
        matches!(self.0, Names::Discovered(_))
    }

    /// The plural as people are told: with the group where they would not know it.
    pub(crate) fn plural(&self) -> String {
        if self.is_applied() && !self.group.is_empty() { self.to_string() } else { self.resource.to_string() }
    }

    fn identity(&self) -> (&str, &str) {
        (&self.group, &self.resource)
    }
}

impl Deref for Kind {
    type Target = KindNames;

    fn deref(&self) -> &KindNames {
        match &self.0 {
            Names::BuiltIn(names) => names,
            Names::Discovered(names) => names,
        }
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Kind {}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({self})")
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.resource, self.group)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
