//! Which of the kinds that the settings allow the API server serves, and how.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use tokio::time::Instant;
use windlass_api::GroupResource;
use windlass_runtime::CallError;

use crate::kinds::KindNames;
use crate::parse::FileError;
use crate::wire;
use crate::{DASHBOARD, Kind};

/// How long a group that could not be asked about is not asked about again: a server that hangs costs each try its deadline.
const UNKNOWN_FOR: Duration = Duration::from_mins(1);

/// The kinds that the settings allow beside folders and dashboards. Clones share what was found.
///
/// The server is asked once, and again when a document names what was not served then.
#[derive(Clone)]
pub struct FurtherKinds {
    client: Option<Client>,
    allowed: Arc<[GroupResource]>,
    found: Arc<Mutex<Option<Kinds>>>,
    /// Held while the server is asked, so that it is asked once however many want to know.
    asking: Arc<tokio::sync::Mutex<()>>,
}

/// What files can become, as the API server serves it at one time.
#[derive(Debug, Clone, Default)]
pub struct Kinds(Arc<BTreeMap<GroupResource, Found>>);

#[derive(Debug, Clone)]
enum Found {
    Served(Kind),
    /// Its objects are in no namespace.
    ClusterScoped(String),
    /// Its objects cannot be listed, written or deleted.
    Fixed(String),
    Absent,
    /// The server could not be asked.
    Unknown {
        detail: String,
        /// How long that is believed; nothing if it is asked again at once.
        until: Option<Instant>,
    },
}

impl Found {
    /// Whether the server could not be asked a moment ago.
    fn is_still_unknown(&self) -> bool {
        matches!(self, Self::Unknown { until: Some(until), .. } if Instant::now() < *until)
    }
}

/// A kind whose objects were not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlisted {
    /// What the settings call it.
    pub resource: GroupResource,
    /// What happened.
    pub detail: String,
}

/// What keeping objects in step needs.
const VERBS: [&str; 5] = ["get", "list", "create", "patch", "delete"];

impl FurtherKinds {
    /// Folders and dashboards only.
    pub fn none() -> Self {
        Self { client: None, allowed: Arc::default(), found: Arc::default(), asking: Arc::default() }
    }

    /// What `allowed` names, where `client` leads.
    pub fn new(client: Client, allowed: Vec<GroupResource>) -> Self {
        Self { client: Some(client), allowed: allowed.into(), found: Arc::default(), asking: Arc::default() }
    }

    /// Whether there is nothing but folders and dashboards.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty()
    }

    pub(crate) fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// What is known; the server is asked, and waited for, if nothing is.
    pub async fn known(&self) -> Kinds {
        match self.present() {
            Some(kinds) => kinds,
            None => self.look(|_| true).await,
        }
    }

    /// What is known if that is everything that is allowed; otherwise the server is asked again about the rest, unless it
    /// could not be a moment ago.
    pub(crate) async fn complete(&self) -> Kinds {
        let is_settled = |found: &Found| match found {
            Found::Served(_) | Found::ClusterScoped(_) | Found::Fixed(_) => true,
            Found::Absent => false,
            Found::Unknown { .. } => found.is_still_unknown(),
        };
        self.look(|kinds| kinds.0.values().all(is_settled)).await
    }

    /// What the server serves now, given that `old` does not do.
    pub(crate) async fn newer_than(&self, old: &Kinds) -> Kinds {
        self.look(|kinds| !Arc::ptr_eq(&kinds.0, &old.0)).await
    }

    fn present(&self) -> Option<Kinds> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn look(&self, will_do: impl Fn(&Kinds) -> bool) -> Kinds {
        let Some(client) = self.client.as_ref().filter(|_| !self.is_empty()) else {
            return Kinds::default();
        };
        let _asking = self.asking.lock().await;
        let present = self.present().unwrap_or_default();
        if !present.0.is_empty() && will_do(&present) {
            return present;
        }
        let kinds = discover(client, &self.allowed, &present).await;
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(kinds.clone());
        kinds
    }
}

impl Kinds {
    /// The kind that a document names.
    pub(crate) fn find(&self, group: &str, version: &str, kind: &str) -> Result<Kind, FileError> {
        let api_version = || if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        if group == DASHBOARD.group && kind == DASHBOARD.kind {
            return Ok(DASHBOARD);
        }
        let of_group = || self.0.iter().filter(|(allowed, _)| allowed.group == group);
        for (resource, found) in of_group() {
            match found {
                Found::Served(served) if served.kind == kind => return Ok(served.clone()),
                Found::ClusterScoped(name) if name == kind => {
                    return Err(FileError::ClusterScoped { resource: resource.to_string() });
                }
                Found::Fixed(name) if name == kind => {
                    return Err(FileError::NotManageable { resource: resource.to_string() });
                }
                Found::Unknown { detail, .. } => {
                    return Err(FileError::Discovery {
                        resource: resource.to_string(),
                        detail: detail.clone(),
                    });
                }
                _ => {}
            }
        }
        // One of these may be the plural of this kind: only the server knows.
        let absent: Vec<String> = of_group()
            .filter(|(_, found)| matches!(found, Found::Absent))
            .map(|(resource, _)| resource.to_string())
            .collect();
        let kind = kind.to_owned();
        if absent.is_empty() {
            let further = self.0.keys().map(ToString::to_string).collect();
            Err(FileError::UnsupportedKind { api_version: api_version(), kind, further })
        } else {
            Err(FileError::NotServed { api_version: api_version(), kind, allowed: absent })
        }
    }

    /// Every kind that can have objects, and those of which that is not known.
    pub(crate) fn served(&self) -> (Vec<Kind>, Vec<Unlisted>) {
        let (mut kinds, mut unknown) = (Vec::new(), Vec::new());
        for (resource, found) in self.0.iter() {
            match found {
                Found::Served(kind) => kinds.push(kind.clone()),
                Found::Unknown { detail, .. } => {
                    unknown.push(Unlisted { resource: resource.clone(), detail: detail.clone() });
                }
                Found::ClusterScoped(_) | Found::Fixed(_) | Found::Absent => {}
            }
        }
        (kinds, unknown)
    }
}

#[derive(Deserialize)]
struct Group {
    versions: Vec<Version>,
    #[serde(default, rename = "preferredVersion")]
    preferred: Option<Version>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

/// Asks the server about what is allowed, but for what of `present` it could not be asked about a moment ago.
async fn discover(client: &Client, allowed: &[GroupResource], present: &Kinds) -> Kinds {
    let mut kinds: BTreeMap<GroupResource, Found> = (*present.0).clone();
    kinds.retain(|_, found| found.is_still_unknown());
    let asked: Vec<&GroupResource> =
        allowed.iter().filter(|resource| !kinds.contains_key(*resource)).collect();
    let groups: BTreeSet<&str> = asked.iter().map(|resource| resource.group.as_str()).collect();
    let groups = futures::future::join_all(
        groups.into_iter().map(|group| async move { (group, versions_of(client, group).await) }),
    );
    let groups: BTreeMap<&str, Result<Versions, CallError>> = groups.await.into_iter().collect();
    let find = |resource: &GroupResource| match &groups[resource.group.as_str()] {
        Ok(versions) => find(resource, versions),
        Err(error) => {
            // A server that does not answer costs each listing its deadline; others are asked again by the next.
            let until = matches!(error, CallError::Deadline { .. }).then(|| Instant::now() + UNKNOWN_FOR);
            Found::Unknown { detail: wire::words(error), until }
        }
    };
    kinds.extend(asked.into_iter().map(|resource| (resource.clone(), find(resource))));
    Kinds(Arc::new(kinds))
}

/// The versions of a group, the preferred one first, with what each serves.
type Versions = Vec<(String, Vec<Resource>)>;

async fn versions_of(client: &Client, group: &str) -> Result<Versions, CallError> {
    let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
    let names = if group.is_empty() {
        vec!["v1".to_owned()]
    } else {
        let Some(Group { mut versions, preferred }) = found(wire::get_json(client, &root).await)? else {
            return Ok(Vec::new());
        };
        if let Some(preferred) = preferred {
            // Stable: the others keep the server's order.
            versions.sort_by_key(|version| version.version != preferred.version);
        }
        versions.into_iter().map(|version| version.version).collect()
    };
    let mut versions = Vec::with_capacity(names.len());
    for name in names {
        if let Some(list) = found(wire::get_json::<ResourceList>(client, &format!("{root}/{name}")).await)? {
            versions.push((name, list.resources));
        }
    }
    Ok(versions)
}

fn found<T>(answer: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn find(wanted: &GroupResource, versions: &Versions) -> Found {
    let serving: Vec<(&String, &Resource)> = versions
        .iter()
        .filter_map(|(version, resources)| {
            Some((version, resources.iter().find(|resource| resource.name == wanted.resource)?))
        })
        .collect();
    let Some((preferred, resource)) = serving.first() else { return Found::Absent };
    let kind = resource.kind.clone();
    if !resource.namespaced {
        return Found::ClusterScoped(kind);
    }
    if !VERBS.iter().all(|verb| resource.verbs.iter().any(|served| served == verb)) {
        return Found::Fixed(kind);
    }
    let versions: Vec<_> = serving.iter().map(|(version, _)| (*version).clone().into()).collect();
    Found::Served(Kind::discovered(KindNames {
        group: wanted.group.clone().into(),
        kind: kind.into(),
        resource: wanted.resource.clone().into(),
        version: (*preferred).clone().into(),
        versions: versions.into(),
    }))
}
