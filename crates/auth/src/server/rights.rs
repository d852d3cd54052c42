//! What of what its audiences and namespace open a token may do.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Verbs and resources that a token is limited to. An empty set is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rights {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub verbs: BTreeSet<String>,
    /// Resources as `plural.group`, with the plural alone in the core group; their sub-resources are in them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub resources: BTreeSet<String>,
}

impl Rights {
    /// Whether nothing is limited.
    pub fn is_everything(&self) -> bool {
        self.verbs.is_empty() && self.resources.is_empty()
    }

    pub(crate) fn allows(&self, verb: &str, resource: &str) -> bool {
        let in_set = |set: &BTreeSet<String>, item: &str| set.is_empty() || set.contains(item);
        in_set(&self.verbs, verb) && in_set(&self.resources, resource)
    }

    /// What both allow; `None`: nothing.
    pub(crate) fn and(&self, other: &Self) -> Option<Self> {
        let both = |a: &BTreeSet<String>, b: &BTreeSet<String>| match (a.is_empty(), b.is_empty()) {
            (true, _) => Some(b.clone()),
            (_, true) => Some(a.clone()),
            // An empty set would be no limit.
            (false, false) => Some(a & b).filter(|both| !both.is_empty()),
        };
        Some(Self {
            verbs: both(&self.verbs, &other.verbs)?,
            resources: both(&self.resources, &other.resources)?,
        })
    }
}
