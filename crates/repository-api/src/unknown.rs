//! Sub-resources that there are not.

use axum::extract::{Extension, Path};
use windlass_api::{GROUP, status};
use windlass_auth::Caller;

use crate::answer::Refusal;
use crate::request::Target;

/// Says which sub-resource is not there, and which ones are.
pub(crate) async fn answer(Path(target): Path<Target>, caller: Option<Extension<Caller>>) -> Refusal {
    match target.known_caller(caller.as_ref()) {
        Err(refusal) => refusal,
        Ok(_) => {
            let name = &target.subresource;
            status::error(
                404,
                "NotFound",
                format!("repositories.{GROUP} have no sub-resource {name:?}; there are files, filetree, history, jobs, refs, reftree, render, resources, status, test, unsynced and webhook"),
            )
            .into()
        }
    }
}
