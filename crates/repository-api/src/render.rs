//! `GET …/render/{guid}`: pictures of dashboards, of which there are none.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::response::Response;
use windlass_auth::Caller;

use crate::answer::Refusal;
use crate::request::Target;
use crate::state::RepositoryApi;

/// Says that there is no renderer.
pub(crate) async fn answer(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    target.admit(&state, caller.as_ref(), ("get", "render")).await?;
    Err(Refusal::new(501, "there is no renderer: no pictures of dashboards are made or kept"))
}
