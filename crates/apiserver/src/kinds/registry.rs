//! Everything that is served, by path and by kind.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::kind::{Builtin, Kind, KindError, ServedKind};
use super::{core, crd};

/// The kinds that are built in.
pub(crate) fn core_kinds() -> Result<Vec<Arc<Kind>>, KindError> {
    Ok(core::kinds()?.into_iter().map(Arc::new).collect())
}

/// The kind that a definition defines.
pub(crate) fn custom_kind(document: &CustomResourceDefinition) -> Result<Kind, KindError> {
    crd::kind(document)
}

/// Everything that is served.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) kinds: Vec<Arc<Kind>>,
    /// (group, version) → plural → kind and version.
    by_path: HashMap<(String, String), BTreeMap<String, ServedKind>>,
}

impl Registry {
    /// The core kinds and these.
    pub(crate) fn new(crds: &[CustomResourceDefinition]) -> Result<Self, KindError> {
        let mut kinds = core_kinds()?;
        for document in crds {
            kinds.push(Arc::new(crd::kind(document)?));
        }
        Self::of(kinds)
    }

    /// These kinds.
    pub(crate) fn of(kinds: Vec<Arc<Kind>>) -> Result<Self, KindError> {
        let mut registry = Self { kinds: Vec::new(), by_path: HashMap::new() };
        for kind in kinds {
            for (version, served) in kind.versions.iter().enumerate().filter(|(_, served)| served.offered) {
                let at = registry.by_path.entry((served.group.clone(), served.version.clone())).or_default();
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
        self.by_path.get(&(group.to_owned(), version.to_owned()))?.get(plural).cloned()
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
    pub(crate) fn builtin(&self, builtin: Builtin) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|kind| kind.builtin == Some(builtin))
    }

    /// The resources of a group and version by plural; `None` when it is not served.
    pub(crate) fn resources(&self, group: &str, version: &str) -> Option<&BTreeMap<String, ServedKind>> {
        self.by_path.get(&(group.to_owned(), version.to_owned()))
    }

    /// Each group but the core one with its versions, the preferred first.
    pub(crate) fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for served in self
            .kinds
            .iter()
            .flat_map(|kind| &kind.versions)
            .filter(|served| served.offered && !served.group.is_empty())
        {
            let known = groups.iter().position(|(group, _)| *group == served.group);
            let at = known.unwrap_or_else(|| {
                groups.push((&served.group, Vec::new()));
                groups.len() - 1
            });
            let versions = &mut groups[at].1;
            if !versions.contains(&served.version.as_str()) {
                versions.push(&served.version);
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by(|a, b| crd::version_priority(b).cmp(&crd::version_priority(a)));
        }
        groups.sort_by(|a, b| a.0.cmp(b.0));
        groups
    }
}
