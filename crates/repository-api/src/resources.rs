//! `GET …/resources`: what a repository manages.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::response::Response;
use windlass_api::status;
use windlass_auth::Caller;
use windlass_resources::list_resources;

use crate::answer::Refusal;
use crate::request::Target;
use crate::state::RepositoryApi;

/// Every managed folder and dashboard with its path. Works for a repository that is gone, whose resources may not be.
pub(crate) async fn list(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    target.admit(&state, caller.as_ref(), ("get", "resources")).await?;
    let found = list_resources(&state.resources, &target.namespace, &target.name)
        .await
        .map_err(|error| status::service_unavailable(error.to_string(), 1))?;
    Ok(target.typed(200, "ResourceList", &found))
}
