//! What a repository manages now, by one label selector, metadata only.

use std::sync::Arc;

use serde::Deserialize;
use windlass_api::{ResourceList, ResourceListItem, annotations};

use crate::objects::Annotations;
use crate::wire::{CallError, Collection};
use crate::{Clients, DASHBOARD, FOLDER, Kind, names};

/// Objects a request; a page is read, reduced to [`ManagedItem`]s, and dropped before the next is asked for.
const PAGE: usize = 500;
/// Fresh starts of a list whose continue token expired.
const RESTARTS: usize = 3;

/// Why the managed objects could not be listed.
#[derive(Debug, thiserror::Error)]
#[error("failed to list {resource} managed by repository {repository:?}: {detail}")]
pub struct ListError {
    resource: String,
    repository: String,
    detail: String,
}

impl ListError {
    pub(crate) fn timeout(repository: &str, limit: std::time::Duration) -> Self {
        let detail = format!("the API did not answer within {limit:?}");
        Self { resource: "objects".to_owned(), repository: repository.to_owned(), detail }
    }
}

/// A managed object: some two hundred bytes, whatever the size of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedItem {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Path of its file or directory, without a slash at the end; empty for the root folder.
    pub path: String,
    /// Hash of its file.
    pub checksum: Option<String>,
    /// Name of the folder that holds it.
    pub folder: Option<Arc<str>>,
    /// Its version when it was listed.
    pub resource_version: String,
    /// Its UID; empty for kinds whose writes need none.
    pub uid: String,
    /// Labels and annotations that its file set ([`windlass_api::annotations::FILE_METADATA`]).
    pub file_metadata: Option<String>,
}

/// Everything that a repository manages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managed {
    /// Folders, by path.
    pub folders: Vec<ManagedItem>,
    /// Everything else, by path.
    pub files: Vec<ManagedItem>,
}

impl Managed {
    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.folders.len() + self.files.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Lists what `repository` manages in `namespace`. Memory grows by what is kept of an object, not by its size:
/// ten thousand take some three megabytes.
pub async fn list(clients: &Clients, namespace: &str, repository: &str) -> Result<Managed, ListError> {
    let folders = list_kind(clients, &FOLDER, namespace, repository);
    let files = list_kind(clients, &DASHBOARD, namespace, repository);
    let further = list_further(clients, namespace, repository);
    let (folders, mut files, further) = futures::try_join!(folders, files, further)?;
    if !further.is_empty() {
        files.extend(further);
        files.sort_by(|a, b| (&a.path, &a.kind, &a.name).cmp(&(&b.path, &b.kind, &b.name)));
    }
    Ok(Managed { folders, files })
}

/// What else the settings allow. A kind that is not served has no objects.
async fn list_further(
    clients: &Clients,
    namespace: &str,
    repository: &str,
) -> Result<Vec<ManagedItem>, ListError> {
    let kinds = clients.further.complete().await;
    let kinds = kinds.served().map_err(|(resource, detail)| ListError {
        resource,
        repository: repository.to_owned(),
        detail,
    })?;
    let lists = kinds.iter().map(|kind| list_kind(clients, kind, namespace, repository));
    Ok(futures::future::try_join_all(lists).await?.into_iter().flatten().collect())
}

/// The answer of `GET …/repositories/{name}/resources`.
pub async fn list_resources(
    clients: &Clients,
    namespace: &str,
    repository: &str,
) -> Result<ResourceList, ListError> {
    let managed = list(clients, namespace, repository).await?;
    let items = managed.folders.into_iter().chain(managed.files);
    let mut items: Vec<ResourceListItem> = items
        .map(|item| ResourceListItem {
            path: item.path,
            group: item.kind.group.to_string(),
            resource: item.kind.resource.to_string(),
            name: item.name,
            hash: item.checksum.unwrap_or_default(),
            folder: item.folder.as_deref().unwrap_or_default().to_owned(),
            ..ResourceListItem::default()
        })
        .collect();
    items.sort_by(|a, b| a.path.cmp(&b.path).then_with(|| a.name.cmp(&b.name)));
    Ok(ResourceList { items })
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    /// A kube-apiserver writes null for a list of nothing.
    items: Option<Vec<PageItem>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

#[derive(Deserialize)]
struct PageItem {
    metadata: ItemMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemMetadata {
    name: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    annotations: Annotations,
}

async fn list_kind(
    clients: &Clients,
    kind: &Kind,
    namespace: &str,
    repository: &str,
) -> Result<Vec<ManagedItem>, ListError> {
    let client = clients.of(kind);
    let collection = Collection { client, kind, version: &kind.version, namespace, dry_run: false };
    let failed = |detail| ListError { resource: kind.plural(), repository: repository.to_owned(), detail };
    let mut restarts = 0;
    loop {
        match list_pages(&collection, repository).await {
            Ok(items) => return Ok(items),
            // The snapshot behind a continue token is gone: start over, nothing was done with the first pages.
            Err(error) if error.is(410) && restarts < RESTARTS => restarts += 1,
            // The definition was deleted, and every object with it.
            Err(error) if error.is(404) && kind.is_applied() => return Ok(Vec::new()),
            Err(error) => return Err(failed(error.to_string())),
        }
    }
}

async fn list_pages(collection: &Collection<'_>, repository: &str) -> Result<Vec<ManagedItem>, CallError> {
    let label = names::label_value(repository);
    let selector = (windlass_api::labels::MANAGED_BY_ID, label.as_str());
    let mut items = Vec::new();
    let mut folder_names = std::collections::HashSet::<Arc<str>>::new();
    let mut token: Option<String> = None;
    loop {
        let page: Page = collection.list(selector, PAGE, token.as_deref()).await?;
        for PageItem { metadata } in page.items.unwrap_or_default() {
            let marks = metadata.annotations;
            // The label is an index; the annotations say who manages.
            if marks.managed_by.as_deref() != Some(annotations::MANAGER_KIND_REPO)
                || marks.manager_id.as_deref() != Some(repository)
            {
                continue;
            }
            let folder = marks.folder.filter(|folder| !folder.is_empty()).map(|folder| {
                folder_names.get(folder.as_str()).cloned().unwrap_or_else(|| {
                    let folder: Arc<str> = folder.into();
                    folder_names.insert(folder.clone());
                    folder
                })
            });
            items.push(ManagedItem {
                kind: collection.kind.clone(),
                name: metadata.name,
                path: marks.source_path.unwrap_or_default().trim_end_matches('/').to_owned(),
                checksum: marks.source_checksum.filter(|checksum| !checksum.is_empty()),
                folder,
                resource_version: metadata.resource_version,
                uid: if collection.kind.is_applied() { metadata.uid } else { String::new() },
                file_metadata: marks.file_metadata,
            });
        }
        token = page.metadata.token.filter(|token| !token.is_empty());
        if token.is_none() {
            break;
        }
    }
    items.sort_by(|a, b| a.path.cmp(&b.path).then_with(|| a.name.cmp(&b.name)));
    items.shrink_to_fit();
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_nothing_may_have_null_for_its_items() {
        let page: Page =
            serde_json::from_str(r#"{"metadata": {"resourceVersion": "7"}, "items": null}"#).unwrap();
        assert!(page.items.unwrap_or_default().is_empty());
    }
}
