//! GET of one object, or of its scale.

use std::borrow::Cow;

use axum::response::Response;
use http::StatusCode;

use super::context::Context;
use super::scale;
use crate::failure::{Failure, Result};
use crate::kinds::find;

pub(super) async fn answer(context: Context) -> Result<Response> {
    let inner = &context.inner;
    if let Some(version) = context.query.version(false)?
        && version > inner.store.revision()
    {
        return Err(Failure::version_too_large(version, inner.store.revision()));
    }
    let (kind, name) = (context.kind(), context.name()?);
    let object = context.find(name).await?.ok_or_else(|| Failure::not_found(kind, name))?;
    let plain = match context.scale() {
        Some(paths) => {
            let object = inner.load(kind, &object)?;
            if find(&object, &paths.spec).is_none() {
                let path = paths.spec.join(".");
                let problem = format!("the spec replicas field \".{path}\" does not exist");
                return Err(Failure::bad_request(problem));
            }
            Cow::Owned(scale::encode(paths, &object))
        }
        None => inner.shown(kind, &object.value)?,
    };
    Ok(context.renderer()?.response(StatusCode::OK, &plain, object.revision))
}
