//! Everything that is served, by path and by kind.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::crd;
use super::kind::{Builtin, Kind, KindError, ServedKind};
use crate::failure::{Failure, Result};

/// Everything that is served.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) kinds: Vec<Arc<Kind>>,
    /// Group → version → plural → kind and version.
    by_path: BTreeMap<String, BTreeMap<String, BTreeMap<String, ServedKind>>>,
}

impl Registry {
    /// These kinds.
    pub(crate) fn of(kinds: Vec<Arc<Kind>>) -> Result<Self, KindError> {
        let mut registry = Self { kinds: Vec::new(), by_path: BTreeMap::new() };
        for kind in kinds {
            for (version, served) in kind.versions.iter().enumerate().filter(|(_, served)| served.offered) {
                let group = registry.by_path.entry(served.group.clone()).or_default();
                let at = group.entry(served.version.clone()).or_default();
                let entry = ServedKind { kind: kind.clone(), version };
                if at.insert(kind.plural.clone(), entry).is_some() {
                    return Err(KindError::DefinedTwice { resource: kind.qualified() });
                }
            }
            registry.kinds.push(kind);
        }
        Ok(registry)
    }

    /// The kind at `/apis/{group}/{version}/…/{plural}`.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<ServedKind> {
        self.resources(group, version)?.get(plural).cloned()
    }

    /// The kind whose objects are stored under this group and plural, in the version that they are stored in.
    pub(crate) fn stored(&self, group: &str, plural: &str) -> Option<ServedKind> {
        let kind = self.kinds.iter().find(|kind| kind.group == group && kind.plural == plural)?;
        Some(ServedKind { kind: kind.clone(), version: kind.storage })
    }

    /// The kind that `apiVersion` and `kind` of an object name.
    pub(crate) fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<ServedKind> {
        let resources = self.resources(group, version)?;
        resources.values().find(|served| served.kind.kind == kind).cloned()
    }

    /// The built-in kind.
    pub(crate) fn builtin(&self, builtin: Builtin) -> Result<&Arc<Kind>> {
        let found = self.kinds.iter().find(|kind| kind.builtin == Some(builtin));
        found.ok_or_else(Failure::unknown_path)
    }

    /// The resources of a group and version by plural; `None` when it is not served.
    pub(crate) fn resources(&self, group: &str, version: &str) -> Option<&BTreeMap<String, ServedKind>> {
        self.by_path.get(group)?.get(version)
    }

    /// Each group but the core one with its versions, the preferred first.
    pub(crate) fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let named = self.by_path.iter().filter(|(group, _)| !group.is_empty());
        let groups = named.map(|(group, versions)| {
            let mut versions: Vec<&str> = versions.keys().map(String::as_str).collect();
            versions.sort_by_key(|version| Reverse(crd::version_priority(version)));
            (group.as_str(), versions)
        });
        groups.collect()
    }
}
