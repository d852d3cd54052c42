//! Which object is deleted.

use crate::Kind;
use crate::parse::ParsedResource;
use crate::plan::{Existing, Target};

/// An object to be deleted.
pub(super) struct DeleteTarget {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) version: Option<String>,
}

/// An object that a file no longer stands for.
pub(super) struct Dropped {
    pub(super) path: String,
    pub(super) target: DeleteTarget,
}

impl DeleteTarget {
    pub(super) fn is(&self, resource: &ParsedResource) -> bool {
        self.kind == resource.kind && self.name == resource.name
    }
}

impl From<&Existing> for DeleteTarget {
    fn from(existing: &Existing) -> Self {
        let Existing { kind, name, resource_version, .. } = existing.clone();
        Self { kind, name, version: Some(resource_version) }
    }
}

impl From<(Kind, String)> for DeleteTarget {
    fn from((kind, name): (Kind, String)) -> Self {
        Self { kind, name, version: None }
    }
}

pub(super) fn known_target(target: &Target) -> Option<DeleteTarget> {
    match target {
        Target::Listed(existing) => Some(existing.into()),
        Target::Named(kind, name) => Some((kind.clone(), name.clone()).into()),
        Target::FromContent(_) => None,
    }
}
