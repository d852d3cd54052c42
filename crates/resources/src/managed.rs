//! What a repository manages now, by one label selector, metadata only.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_api::{GroupResource, ResourceList, ResourceListItem, annotations};
use windlass_runtime::{CallError, Fence};

pub use crate::discovery::Unlisted;
use crate::objects::{Annotations, ManagedFields, has_drifted};
use crate::wire::{self, Collection};
use crate::{Clients, DASHBOARD, FOLDER, Kind, digest, names};

/// Objects a request; a page is read, reduced to [`ManagedItem`]s, and dropped before the next is asked for.
const PAGE: usize = 500;
/// Why objects could not be listed.
#[derive(Debug, thiserror::Error)]
#[error("failed to list {what}: {detail}")]
pub struct ListError {
    what: String,
    detail: String,
}

impl ListError {
    pub(crate) fn new(what: String, detail: String) -> Self {
        Self { what, detail }
    }

    fn of_managed(resource: &str, repository: &str, detail: String) -> Self {
        Self::new(format!("{resource} managed by repository {repository:?}"), detail)
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
    /// How many objects its file stood for when this one was last written.
    pub documents: usize,
    /// Where these were several: the hashes of its document and of all
    /// ([`windlass_api::annotations::SOURCE_DOCUMENT`]).
    pub document: Option<Box<str>>,
    /// Name of the folder that holds it.
    pub folder: Option<Arc<str>>,
    /// Its version when it was listed.
    pub resource_version: String,
    /// Its UID; empty for kinds whose writes need none.
    pub uid: String,
    /// Labels and annotations that its file set ([`windlass_api::annotations::FILE_METADATA`]).
    pub file_metadata: Option<String>,
    /// How often its spec has changed, on kinds that count.
    pub generation: Option<i64>,
    /// Whether somebody else has changed it since the repository last wrote it, or may have.
    pub drifted: bool,
}

impl ManagedItem {
    /// Hash of the document that it was last written from where its file has several, else of the file.
    pub(crate) fn content_hash(&self) -> Option<&str> {
        self.document.as_deref().and_then(digest::own).or(self.checksum.as_deref())
    }
}

/// Everything that a repository manages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managed {
    /// Folders, by path.
    pub folders: Vec<ManagedItem>,
    /// Everything else, by path.
    pub files: Vec<ManagedItem>,
    /// Kinds whose objects the API server did not list, and why. Those of folders and dashboards always are.
    pub unlisted: Vec<Unlisted>,
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

    /// The same, or an error if it may not be everything. `matters` says of which kinds there may be objects.
    pub fn complete(
        self,
        repository: &str,
        matters: impl Fn(&GroupResource) -> bool,
    ) -> Result<Self, ListError> {
        match self.unlisted.iter().find(|unlisted| matters(&unlisted.resource)) {
            None => Ok(self),
            Some(Unlisted { resource, detail }) => {
                Err(ListError::of_managed(&resource.to_string(), repository, detail.clone()))
            }
        }
    }
}

/// Lists what `repository` manages in `namespace`. A further kind that cannot be listed is named in the answer, so that a
/// group whose server hangs does not hold up repositories without such objects. Memory grows by what is kept of an object, not by its size:
/// ten thousand take some three megabytes.
pub async fn list(clients: &Clients, namespace: &str, repository: &str) -> Result<Managed, ListError> {
    let folders = list_kind(clients, &FOLDER, namespace, repository);
    let files = list_kind(clients, &DASHBOARD, namespace, repository);
    let further = list_further(clients, namespace, repository);
    let (folders, files, (further, unlisted)) = futures::join!(folders, files, further);
    let (folders, mut files) = (folders?, files?);
    if !further.is_empty() {
        files.extend(further);
        files.sort_by(|a, b| (&a.path, &a.kind, &a.name).cmp(&(&b.path, &b.kind, &b.name)));
    }
    Ok(Managed { folders, files, unlisted })
}

/// What else the settings allow. A kind that is not served has no objects.
async fn list_further(
    clients: &Clients,
    namespace: &str,
    repository: &str,
) -> (Vec<ManagedItem>, Vec<Unlisted>) {
    let kinds = clients.further.complete().await;
    let (kinds, mut unlisted) = kinds.served();
    let lists = kinds.iter().map(|kind| list_kind(clients, kind, namespace, repository));
    let mut items = Vec::new();
    for (kind, list) in kinds.iter().zip(futures::future::join_all(lists).await) {
        match list {
            Ok(list) => items.extend(list),
            Err(error) => unlisted.push(Unlisted {
                resource: GroupResource {
                    group: kind.group.to_string(),
                    resource: kind.resource.to_string(),
                },
                detail: error.detail,
            }),
        }
    }
    (items, unlisted)
}

/// The answer of `GET …/repositories/{name}/resources`.
pub async fn list_resources(
    clients: &Clients,
    namespace: &str,
    repository: &str,
) -> Result<ResourceList, ListError> {
    let managed = list(clients, namespace, repository).await?.complete(repository, |_| true)?;
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
struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    /// A kube-apiserver writes null for a list of nothing.
    #[serde(borrow)]
    items: Option<Vec<PageItem<'a>>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

#[derive(Deserialize)]
struct PageItem<'a> {
    #[serde(borrow)]
    metadata: ItemMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemMetadata<'a> {
    name: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    annotations: Annotations,
    generation: Option<i64>,
    /// Text, since it is large and only needed of kinds that are applied.
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

impl ItemMetadata<'_> {
    /// Whether somebody else changed the object since our last write.
    ///
    /// Objects that are applied may have no generation, and fields of others that are none of our business. The server
    /// says who wrote when, by the second: whoever wrote since we did may have written to our fields. Applying again
    /// tells, and changes nothing if they did not.
    fn has_drifted(&self, kind: &Kind) -> bool {
        if !kind.is_applied() {
            return has_drifted(self.generation, self.annotations.written_generation());
        }
        let Some(text) = self.managed_fields else { return false };
        let Ok(entries) = serde_json::from_str::<Vec<ManagedFields<'_>>>(text.get()) else { return false };
        let is_ours = |entry: &ManagedFields<'_>| {
            entry.manager == wire::FIELD_MANAGER && entry.operation == "Apply" && entry.subresource.is_empty()
        };
        let Some(ours) = entries.iter().find(|entry| is_ours(entry)) else { return true };
        entries.iter().any(|entry| !is_ours(entry) && entry.subresource.is_empty() && entry.time >= ours.time)
    }
}

async fn list_kind(
    clients: &Clients,
    kind: &Kind,
    namespace: &str,
    repository: &str,
) -> Result<Vec<ManagedItem>, ListError> {
    let client = clients.of(kind);
    let fence = Fence::NONE;
    let collection =
        Collection { client, kind, version: &kind.version, namespace, dry_run: false, fence: &fence };
    match wire::with_restarts(|| list_pages(&collection, repository)).await {
        Ok(items) => Ok(items),
        // The definition was deleted, and every object with it.
        Err(error) if error.is_not_found() && kind.is_applied() => Ok(Vec::new()),
        Err(error) => Err(ListError::of_managed(&kind.plural(), repository, wire::words(&error))),
    }
}

async fn list_pages(collection: &Collection<'_>, repository: &str) -> Result<Vec<ManagedItem>, CallError> {
    let label = names::label_value(repository);
    let selector = (windlass_api::labels::MANAGED_BY_ID, label.as_str());
    let mut items = Vec::new();
    let mut folder_names = std::collections::HashSet::<Arc<str>>::new();
    let mut token: Option<String> = None;
    loop {
        let page = collection.list(selector, PAGE, token.as_deref()).await?;
        let page: Page<'_> = wire::parse(&page)?;
        for PageItem { metadata } in page.items.unwrap_or_default() {
            let drifted = metadata.has_drifted(collection.kind);
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
                document: marks.source_document.map(Into::into),
                documents: marks.source_documents.and_then(|count| count.parse().ok()).unwrap_or(1),
                folder,
                resource_version: metadata.resource_version,
                uid: if collection.kind.is_applied() { metadata.uid } else { String::new() },
                file_metadata: marks.file_metadata,
                generation: metadata.generation,
                drifted,
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
        let page: Page<'_> =
            serde_json::from_str(r#"{"metadata": {"resourceVersion": "7"}, "items": null}"#).unwrap();
        assert!(page.items.unwrap_or_default().is_empty());
    }
}
