//! Who a request comes from and what it may touch.

use std::collections::BTreeSet;

use windlass_api::audience;

use super::rights::Rights;

/// The group that a client certificate names as its organisation to be let in everywhere.
const MASTERS: &str = "system:masters";

/// The authenticated sender of a request; a request extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Name for people and audit: a token's subject, or a certificate's common name.
    pub name: String,
    /// Stable identity: the token's subject with its kind, or the certificate's name.
    pub uid: String,
    /// Groups: a certificate's organisations; `system:authenticated` for every token.
    pub groups: Vec<String>,
    /// API groups that the caller may use.
    pub audiences: Audiences,
    /// Namespaces that the caller may use.
    pub namespaces: Namespaces,
    /// What it may do there.
    pub rights: Rights,
}

/// The API groups (token audiences) that a caller may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audiences {
    /// Every API group.
    All,
    /// These only.
    Some(BTreeSet<String>),
}

/// The namespaces that a caller may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// Every namespace, and cluster-wide requests.
    All,
    /// This one only.
    One(String),
}

/// A caller asked for what it may not use. `Display` says what was needed and what is held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The token was made for other API groups.
    #[error(
        "the access token of {caller:?} is not valid for this API: it needs the audience {needed:?} and has {held}; \
         ask the token exchange for {needed:?}"
    )]
    Audience {
        /// Who asked.
        caller: String,
        /// The audience that the API group asks for.
        needed: String,
        /// What the token carries, for reading.
        held: String,
    },
    /// The token is limited to other verbs or resources.
    #[error("the access token of {caller:?} may not {verb} {resource}")]
    Right {
        /// Who asked.
        caller: String,
        /// What was to be done.
        verb: String,
        /// `plural.group`.
        resource: String,
    },
    /// The token was made for another namespace.
    #[error("the access token of {caller:?} opens namespace {held:?} only: {needed} is needed")]
    Namespace {
        /// Who asked.
        caller: String,
        /// The namespace that was asked for, for reading.
        needed: String,
        /// The namespace that the token opens.
        held: String,
    },
}

impl Caller {
    /// A caller inside this process that may do everything.
    pub fn system(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            uid: name.clone(),
            name,
            groups: vec![MASTERS.to_owned()],
            audiences: Audiences::All,
            namespaces: Namespaces::All,
            rights: Rights::default(),
        }
    }

    /// Nobody in particular: may read health and version, nothing else.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            uid: String::new(),
            groups: vec!["system:unauthenticated".to_owned()],
            audiences: Audiences::Some(BTreeSet::new()),
            namespaces: Namespaces::One(String::new()),
            rights: Rights::default(),
        }
    }

    /// The holder of a client certificate that our CA signed. Only `system:masters` opens anything; another
    /// certificate proves who is calling, and an access token beside it says what may be done.
    pub(crate) fn from_certificate(name: &str, groups: &[String]) -> Self {
        let master = groups.iter().any(|group| group == MASTERS);
        Self {
            name: name.to_owned(),
            uid: format!("certificate:{name}"),
            groups: groups.to_vec(),
            audiences: if master { Audiences::All } else { Audiences::Some(BTreeSet::new()) },
            namespaces: if master { Namespaces::All } else { Namespaces::One(String::new()) },
            rights: Rights::default(),
        }
    }

    /// Whether the caller may do everything.
    pub fn is_master(&self) -> bool {
        self.audiences == Audiences::All && self.namespaces == Namespaces::All && self.rights.is_everything()
    }

    /// As [`Self::may_use`], and whether it may do this to the resource.
    ///
    /// # Errors
    /// [`Denied`], whose text is fit for the 403 answer.
    pub fn may(&self, verb: &str, group: &str, resource: &str, namespace: &str) -> Result<(), Denied> {
        self.may_use(group, namespace)?;
        let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        if self.rights.allows(verb, &resource) {
            return Ok(());
        }
        Err(Denied::Right { caller: self.name.clone(), verb: verb.to_owned(), resource })
    }

    /// Whether the caller may use `group` (`""` is core) in `namespace`. An empty or `*` namespace is a
    /// cluster-wide request, which only a caller of all namespaces may make.
    ///
    /// # Errors
    /// [`Denied`], whose text is fit for the 403 answer.
    pub fn may_use(&self, group: &str, namespace: &str) -> Result<(), Denied> {
        let needed = audience::for_group(group);
        if let Audiences::Some(held) = &self.audiences
            && !held.contains(needed)
        {
            return Err(Denied::Audience {
                caller: self.name.clone(),
                needed: needed.to_owned(),
                held: if held.is_empty() {
                    "none".to_owned()
                } else {
                    held.iter().map(|held| format!("{held:?}")).collect::<Vec<_>>().join(", ")
                },
            });
        }
        match &self.namespaces {
            Namespaces::All => Ok(()),
            Namespaces::One(held) if !namespace.is_empty() && namespace != "*" && held == namespace => Ok(()),
            Namespaces::One(held) => Err(Denied::Namespace {
                caller: self.name.clone(),
                needed: if namespace.is_empty() || namespace == "*" {
                    "a token for namespace \"*\" (the request is cluster-wide)".to_owned()
                } else {
                    format!("a token for namespace {namespace:?} or \"*\"")
                },
                held: held.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(audiences: &[&str], namespaces: Namespaces) -> Caller {
        Caller {
            name: "someone".into(),
            uid: "someone".into(),
            groups: vec![],
            audiences: Audiences::Some(audiences.iter().map(|&a| a.to_owned()).collect()),
            namespaces,
            rights: Rights::default(),
        }
    }

    #[test]
    fn a_provisioning_token_reads_no_core_kinds() {
        let caller = caller(&["provisioning.grafana.app"], Namespaces::All);
        caller.may_use("provisioning.grafana.app", "default").unwrap();
        for group in ["", "coordination.k8s.io", "events.k8s.io"] {
            let denied = caller.may_use(group, "default").unwrap_err().to_string();
            assert!(denied.contains("core.windlass.dev"), "{denied}");
            assert!(denied.contains("provisioning.grafana.app"), "{denied}");
        }
    }

    #[test]
    fn a_core_token_reads_core_kinds_only() {
        let caller = caller(&["core.windlass.dev"], Namespaces::All);
        caller.may_use("", "default").unwrap();
        caller.may_use("coordination.k8s.io", "default").unwrap();
        caller.may_use("provisioning.grafana.app", "default").unwrap_err();
    }

    #[test]
    fn a_token_for_one_namespace_opens_no_other_and_no_cluster_wide_list() {
        let caller = caller(&["provisioning.grafana.app"], Namespaces::One("team-a".into()));
        caller.may_use("provisioning.grafana.app", "team-a").unwrap();
        let other = caller.may_use("provisioning.grafana.app", "team-b").unwrap_err().to_string();
        assert!(other.contains("team-a") && other.contains("team-b"), "{other}");
        for cluster_wide in ["", "*"] {
            let denied = caller.may_use("provisioning.grafana.app", cluster_wide).unwrap_err().to_string();
            assert!(denied.contains("\"*\""), "{denied}");
        }
    }

    #[test]
    fn nobody_and_a_plain_certificate_open_nothing() {
        for caller in [Caller::anonymous(), Caller::from_certificate("worker", &["team".into()])] {
            for namespace in ["", "*", "default"] {
                caller.may_use("provisioning.grafana.app", namespace).unwrap_err();
            }
        }
        Caller::from_certificate("admin", &["system:masters".into()]).may_use("", "").unwrap();
    }
}
