//! What the API has, read whole and a page at a time.

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use windlass_api::annotations::MANAGER_KIND_REPO;
use windlass_runtime::{CallError, Fence};

use super::{ExportedObject, FolderObject, Object, Unmanaged};
use crate::objects::Annotations;
use crate::wire::{self, Collection};
use crate::{Clients, DASHBOARD, FOLDER, Failure, ListError, MayWrite, Reason};

/// Whole objects a request: dashboards have up to some megabytes.
const PAGE: usize = 50;
/// Asks the API for folders and dashboards, whole.
pub async fn list(clients: &Clients, namespace: &str) -> Result<Unmanaged, ListError> {
    let fence = Fence::NONE;
    let mut unmanaged = Unmanaged::default();
    for kind in [FOLDER, DASHBOARD] {
        let client = clients.of(&kind);
        let collection = Collection {
            client,
            kind: &kind,
            version: &kind.version,
            namespace,
            dry_run: false,
            fence: &fence,
        };
        let listed = wire::with_restarts(|| Unmanaged::of(&collection))
            .await
            .map_err(|error| ListError::new(kind.plural(), wire::words(&error)))?;
        unmanaged.folders.extend(listed.folders);
        unmanaged.objects.extend(listed.objects);
        unmanaged.managed.extend(listed.managed);
    }
    unmanaged.objects.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
    Ok(unmanaged)
}

/// Deletes an object if it is still what was exported. Whether it was there, as it was.
pub async fn delete_exported(
    clients: &Clients,
    namespace: &str,
    object: &ExportedObject,
    (cancel, may_write): (CancellationToken, MayWrite),
) -> Result<bool, Failure> {
    let ExportedObject { kind, name, resource_version } = object;
    let fence = wire::fence(cancel, may_write);
    let client = clients.of(kind);
    let collection =
        Collection { client, kind, version: &kind.version, namespace, dry_run: false, fence: &fence };
    match collection.delete(name, resource_version).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_not_found() || error.code() == Some(409) => Ok(false),
        Err(error) => {
            let message = format!("failed to delete {} {name:?}: {error}", kind.kind.to_ascii_lowercase());
            Err(Failure::new(Reason::ApiError, message))
        }
    }
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    metadata: ItemMetadata,
    #[serde(default)]
    spec: ItemSpec,
    #[serde(default)]
    status: ItemStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemMetadata {
    name: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    annotations: Annotations,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
struct ItemSpec {
    title: Option<String>,
}

#[derive(Default, Deserialize)]
struct ItemStatus {
    #[serde(default)]
    conversion: Conversion,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Conversion {
    failed: bool,
    stored_version: Option<String>,
}

impl Unmanaged {
    /// What is in one collection.
    async fn of(collection: &Collection<'_>) -> Result<Self, CallError> {
        let mut found = Self::default();
        let mut token: Option<String> = None;
        loop {
            let page = collection.list_whole(PAGE, token.as_deref()).await?;
            let page: Page<'_> = wire::parse(&page)?;
            for raw in page.items.unwrap_or_default() {
                let item: Item = wire::parse(raw.get().as_bytes())?;
                if item.metadata.deletion_timestamp.is_none() {
                    found.take(collection, item, raw.get()).await?;
                }
            }
            token = page.metadata.token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(found);
            }
        }
    }

    async fn take(&mut self, collection: &Collection<'_>, item: Item, raw: &str) -> Result<(), CallError> {
        let Item { metadata, spec, status } = item;
        let (kind, marks) = (collection.kind.clone(), metadata.annotations);
        let title = spec.title.unwrap_or_default();
        let folder = marks.folder.filter(|folder| !folder.is_empty());
        let is_managed = marks.managed_by.is_some();
        if is_managed {
            let repository = marks.managed_by.as_deref() == Some(MANAGER_KIND_REPO);
            let manager = marks.manager_id.clone().filter(|_| repository).unwrap_or_default();
            self.managed.push((kind.clone(), metadata.name.clone(), manager));
        }
        if kind == FOLDER {
            let ours = marks.managed_by.as_deref() == Some(MANAGER_KIND_REPO);
            let managed_by = is_managed.then(|| marks.manager_id.filter(|_| ours).unwrap_or_default());
            let object = FolderObject {
                title,
                parent: folder,
                version: metadata.resource_version,
                managed_by,
                path: marks.source_path.unwrap_or_default().trim_end_matches('/').to_owned(),
            };
            self.folders.insert(metadata.name, object);
        } else if !is_managed {
            let (api_version, json) = stored(collection, &metadata.name, status.conversion, raw).await?;
            let (name, version) = (metadata.name, metadata.resource_version);
            self.objects.push(Object { kind, api_version, name, version, title, folder, json });
        }
        Ok(())
    }
}

/// The object in the version that it is stored in.
async fn stored(
    collection: &Collection<'_>,
    name: &str,
    conversion: Conversion,
    raw: &str,
) -> Result<(String, Result<String, String>), CallError> {
    let listed = collection.version.to_owned();
    match conversion.stored_version {
        None if conversion.failed => {
            let why = "the API server failed to convert it, and does not say from which version";
            Ok((listed, Err(why.to_owned())))
        }
        Some(stored) if stored != listed => {
            let of_stored = Collection { version: &stored, ..collection.clone() };
            match of_stored.get_whole(name).await {
                Ok(body) => Ok((stored, Ok(String::from_utf8_lossy(&body).into_owned()))),
                Err(error @ CallError::Refused { .. }) => Ok((
                    stored,
                    Err(format!(
                        "failed to read it in the version that it is stored in: {}",
                        wire::words(&error)
                    )),
                )),
                Err(error) => Err(error),
            }
        }
        _ => Ok((listed, Ok(raw.to_owned()))),
    }
}
