//! `GET …/stats`: how many objects a namespace has, and who manages them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::response::Response;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use windlass_api::{ManagedStats, ResourceCount, ResourceStats, annotations};
use windlass_auth::Caller;
use windlass_resources::Kind;
use windlass_runtime::{Accept, ListRequest};

use crate::answer::Refusal;
use crate::calls::CALL;
use crate::request::Target;
use crate::state::RepositoryApi;

/// Counts by group and resource.
type Counts = BTreeMap<(String, String), i64>;

/// Counts of every kind that files can become.
pub(crate) async fn read(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    target.admit_to(&state, caller.as_ref(), ("get", "stats", "")).await?;
    let mut by_manager: BTreeMap<Option<(String, String)>, Counts> = BTreeMap::new();
    for kind in state.resources.kinds().await {
        count(&state, &target, &kind, &mut by_manager).await?;
    }
    let mut all = Counts::new();
    for (what, count) in by_manager.values().flatten() {
        *all.entry(what.clone()).or_default() += count;
    }
    let unmanaged = by_manager.remove(&None).unwrap_or_default();
    let managed = by_manager.into_iter().filter_map(|(manager, counts)| {
        let (kind, id) = manager?;
        Some(ManagedStats { kind, id, stats: listed(counts) })
    });
    let counted =
        ResourceStats { instance: listed(all), managed: managed.collect(), unmanaged: listed(unmanaged) };
    Ok(target.typed(200, "ResourceStats", &counted))
}

async fn count(
    state: &RepositoryApi,
    target: &Target,
    kind: &Kind,
    by_manager: &mut BTreeMap<Option<(String, String)>, Counts>,
) -> Result<(), Refusal> {
    let (group, version) = (kind.group.to_string(), kind.version.to_string());
    let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    let (plural, kind_name) = (kind.resource.to_string(), kind.kind.to_string());
    let what = (group.clone(), plural.clone());
    let resource = ApiResource { group, version, api_version, kind: kind_name, plural };
    let client = state.resources.of(kind).clone();
    let objects: Api<DynamicObject> = Api::namespaced_with(client, &target.namespace, &resource);
    let found = ListRequest::of(&objects, format!("list {}", kind.resource), CALL)
        .accept(Accept::MetadataList)
        .read(|text| serde_json::from_slice(text).map(manager), || ())
        .await?;
    for by in found.items {
        *by_manager.entry(by).or_default().entry(what.clone()).or_default() += 1;
    }
    Ok(())
}

/// The kind and the ID of who manages an object.
fn manager(object: PartialObjectMeta) -> Option<(String, String)> {
    let mut marks = object.metadata.annotations.unwrap_or_default();
    let by = marks.remove(annotations::MANAGED_BY)?;
    Some((by, marks.remove(annotations::MANAGER_ID).unwrap_or_default()))
}

fn listed(counts: Counts) -> Vec<ResourceCount> {
    let count = |((group, resource), count)| ResourceCount { group, resource, count };
    counts.into_iter().map(count).collect()
}
