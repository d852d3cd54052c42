//! Whose files these are, and where the objects go.

use std::collections::BTreeMap;

use kube::Client;
use windlass_api::{Repository, SyncTarget, annotations, labels};

use crate::{DASHBOARD, FOLDER, FurtherKinds, Kind, names};

/// Clients of the API groups that files become objects of; on one server all are the same client.
#[derive(Clone)]
pub struct Clients {
    /// Client of `folder.grafana.app`.
    pub folders: Client,
    /// Client of `dashboard.grafana.app`.
    pub dashboards: Client,
    /// Whatever else the settings allow.
    pub further: FurtherKinds,
}

impl Clients {
    /// One client for folders and dashboards, and nothing else.
    pub fn same(client: Client) -> Self {
        Self { folders: client.clone(), dashboards: client, further: FurtherKinds::none() }
    }

    /// Every kind that files can become, as far as it is served now.
    pub async fn kinds(&self) -> Vec<Kind> {
        let (further, _unknown) = self.further.known().await.served();
        [FOLDER, DASHBOARD].into_iter().chain(further).collect()
    }

    /// The client for objects of this kind.
    pub fn of(&self, kind: &Kind) -> &Client {
        match self.further.client() {
            _ if *kind == FOLDER => &self.folders,
            Some(further) if kind.is_applied() => further,
            _ => &self.dashboards,
        }
    }
}

/// The repository whose files are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncContext {
    /// Namespace of the repository and of everything that it manages.
    pub namespace: String,
    /// Name of the repository; the manager's identity.
    pub repository: String,
    /// Title of the repository; the root folder's title.
    pub title: String,
    /// Where the files end up.
    pub target: SyncTarget,
}

impl SyncContext {
    /// The context of a repository object. Without a target, files go into a folder of the repository's own.
    pub fn for_repository(repository: &Repository) -> Self {
        Self {
            namespace: repository.metadata.namespace.clone().unwrap_or_default(),
            repository: repository.metadata.name.clone().unwrap_or_default(),
            title: repository.spec.title.clone(),
            target: repository.spec.sync.target.unwrap_or(SyncTarget::Folder),
        }
    }

    /// Name of the folder that holds everything else, if there is one: the repository's name.
    pub fn root_folder(&self) -> Option<&str> {
        (self.target == SyncTarget::Folder).then_some(self.repository.as_str())
    }

    /// Annotations that mark an object as made from `path` by this repository.
    pub(crate) fn annotations(
        &self,
        path: &str,
        checksum: Option<&str>,
        folder: Option<&str>,
    ) -> BTreeMap<String, String> {
        let mut marks = BTreeMap::from([
            (annotations::MANAGED_BY.to_owned(), annotations::MANAGER_KIND_REPO.to_owned()),
            (annotations::MANAGER_ID.to_owned(), self.repository.clone()),
        ]);
        let optional = [
            (annotations::SOURCE_PATH, Some(path).filter(|path| !path.is_empty())),
            (annotations::SOURCE_CHECKSUM, checksum),
            (annotations::FOLDER, folder),
        ];
        for (key, value) in optional {
            marks.extend(value.map(|value| (key.to_owned(), value.to_owned())));
        }
        marks
    }

    /// Key and value of the label that lists what this repository manages.
    pub(crate) fn label(&self) -> (String, String) {
        (labels::MANAGED_BY_ID.to_owned(), names::label_value(&self.repository))
    }
}
