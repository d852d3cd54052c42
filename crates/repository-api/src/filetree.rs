//! `POST …/filetree` and `POST …/reftree`: what a repository holds that may not be stored yet, for a form that asks where
//! in it the files are. The body is a Repository, as for `…/test`; the stored one is meant when it is empty.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use windlass_api::{FileItem, FileList, Repository, repositories, status};
use windlass_auth::Caller;

use crate::answer::Refusal;
use crate::files::{Place, RawQuery, item, options_of};
use crate::refs::branches;
use crate::request::Target;
use crate::state::RepositoryApi;
use crate::test::meant;

/// Every file and folder, a folder with a slash at its end.
pub(crate) async fn list(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    query: RawQuery,
    caller: Option<Extension<Caller>>,
    body: Body,
) -> Result<Response, Refusal> {
    target.admit(&state, caller.as_ref(), ("create", "filetree")).await?;
    let options = options_of(query)?;
    let place = open(&state, &target, body).await?;
    let tree = place.tree_at(&options.reference).await?;
    let mut folders = BTreeSet::new();
    for entry in &tree.entries {
        folders.extend(entry.path.match_indices('/').map(|(end, _)| &entry.path[..=end]));
    }
    let mut items: Vec<FileItem> = tree.entries.iter().map(item).collect();
    items.extend(folders.into_iter().map(|path| FileItem { path: path.to_owned(), ..FileItem::default() }));
    items.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(target.typed(200, "FileList", &FileList { items }))
}

/// Every branch.
pub(crate) async fn refs(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
    body: Body,
) -> Result<Response, Refusal> {
    target.admit(&state, caller.as_ref(), ("create", "reftree")).await?;
    let place = open(&state, &target, body).await?;
    Ok(target.typed(200, "RefList", &branches(&state, &place).await?))
}

async fn open(state: &RepositoryApi, target: &Target, body: Body) -> Result<Place, Refusal> {
    let repository: Repository = meant(state, target, body).await?;
    let invalid = repositories::review(&repository, &state.repository_rules);
    if !invalid.is_empty() {
        return Err(status::invalid(windlass_api::GROUP, "Repository", &target.name, invalid).into());
    }
    Place::open(state, repository).await
}
