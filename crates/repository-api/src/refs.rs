//! `GET …/refs`: the branches of a repository.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::response::Response;
use windlass_api::{RefItem, RefList};
use windlass_auth::Caller;

use crate::answer::Refusal;
use crate::files::Place;
use crate::request::Target;
use crate::state::RepositoryApi;

/// Every branch, by name. Works on a repository that is not healthy.
pub(crate) async fn list(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    target.admit(&state, caller.as_ref(), ("get", "refs")).await?;
    let repository = target.repository(&state.provisioning).await?.ok_or_else(|| target.missing())?;
    let place = Place::open(&state, repository).await?;
    Ok(target.typed(200, "RefList", &branches(&place).await?))
}

/// The branches of an open repository.
pub(crate) async fn branches(place: &Place) -> Result<RefList, Refusal> {
    let Some(versioned) = &place.opened.versioned else {
        return Err(Refusal::new(501, "local repository has no refs: a folder has no branches"));
    };
    let found = versioned.refs("refs/heads/", &place.cancel).await?;
    let mut items: Vec<RefItem> = found
        .iter()
        .filter_map(|found| {
            let name = found.branch()?;
            let page = place.opened.urls.as_ref().map(|urls| urls.reference(name));
            Some(RefItem {
                name: name.to_owned(),
                hash: found.id.to_string(),
                ref_url: page.unwrap_or_default(),
                protected: false,
            })
        })
        .collect();
    items.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(RefList { items })
}
