//! A resource and its group, and which of them no repository may write.

use std::fmt;
use std::str::FromStr;

/// A resource of an API group, written `widgets.example.com`, or `configmaps` (also `configmaps.`) where the group is
/// the core group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The group; empty for the core group.
    pub group: String,
    /// The plural, as URLs name it.
    pub resource: String,
}

/// A text that is no resource and group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no plural with its group, such as configmaps or widgets.example.com")]
pub struct ParseGroupResourceError {
    text: String,
}

/// Groups whose objects decide who may do what, what the API server serves, or what it admits.
const PRIVILEGED_GROUPS: &[(&str, &str)] = &[
    ("rbac.authorization.k8s.io", "whoever may push to a repository could give themselves any right"),
    ("apiextensions.k8s.io", "whoever may push to a repository could change what the API server serves"),
    (
        "apiregistration.k8s.io",
        "whoever may push to a repository could send requests to a server of their own",
    ),
    ("admissionregistration.k8s.io", "whoever may push to a repository could read and change every request"),
    ("authentication.k8s.io", "whoever may push to a repository could make tokens"),
    ("authorization.k8s.io", "its objects are questions, which are not kept"),
    ("certificates.k8s.io", "whoever may push to a repository could ask for certificates of others"),
    ("coordination.k8s.io", "leases belong to running processes, which write them all the time"),
    (crate::GROUP, "repositories and jobs are not made by repositories"),
];

/// Resources of the core group that no repository may write.
const PRIVILEGED_CORE: &[(&str, &str)] = &[
    ("secrets", "a Secret in Git is in the clear for everybody who reads the repository"),
    ("serviceaccounts", "whoever may push to a repository could act as another program"),
    ("events", "events are written by programs and expire"),
];

impl GroupResource {
    /// Why a repository may not write objects of this kind, if so.
    pub fn refusal(&self) -> Option<&'static str> {
        let (table, key) = match self.group.as_str() {
            "" => (PRIVILEGED_CORE, &self.resource),
            group if group == crate::FOLDER_GROUP || group == crate::DASHBOARD_GROUP => {
                return Some("folders and dashboards are synced as they are");
            }
            _ => (PRIVILEGED_GROUPS, &self.group),
        };
        table.iter().find(|(refused, _)| refused == key).map(|(_, why)| *why)
    }
}

impl FromStr for GroupResource {
    type Err = ParseGroupResourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        let is_label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if is_label(resource) && (group.is_empty() || group.split('.').all(is_label)) {
            Ok(Self { group: group.to_owned(), resource: resource.to_owned() })
        } else {
            Err(ParseGroupResourceError { text: text.to_owned() })
        }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

#[cfg(test)]
mod tests {
    use super::GroupResource;

    fn parse(text: &str) -> Option<(String, String)> {
        let parsed: GroupResource = text.parse().ok()?;
        Some((parsed.resource, parsed.group))
    }

    #[test]
    fn a_resource_stands_before_its_group() {
        let pair = |resource: &str, group: &str| Some((resource.to_owned(), group.to_owned()));
        assert_eq!(parse("widgets.example.com"), pair("widgets", "example.com"));
        assert_eq!(parse("deployments.apps"), pair("deployments", "apps"));
        assert_eq!(parse("configmaps"), pair("configmaps", ""));
        assert_eq!(parse("configmaps."), pair("configmaps", ""));
        for bad in ["", ".", "*", "Widgets.example.com", "widgets/status", "widgets.example..com", "a b"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_would_raise_somebodys_rights_is_refused() {
        for refused in [
            "secrets",
            "roles.rbac.authorization.k8s.io",
            "customresourcedefinitions.apiextensions.k8s.io",
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
            "repositories.provisioning.grafana.app",
            "dashboards.dashboard.grafana.app",
        ] {
            let kind: GroupResource = refused.parse().unwrap();
            assert!(kind.refusal().is_some(), "{refused}");
        }
        for fine in ["configmaps", "secrets.example.com", "deployments.apps"] {
            let kind: GroupResource = fine.parse().unwrap();
            assert_eq!(kind.refusal(), None, "{fine}");
        }
    }
}
