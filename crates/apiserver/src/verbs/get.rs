//! GET of one object.

use axum::response::Response;
use http::StatusCode;

use super::context::Context;
use super::render::Renderer;
use crate::failure::{Failure, Result};

pub(super) async fn answer(context: Context) -> Result<Response> {
    let accept = context.accept()?;
    let inner = &context.inner;
    if let Some(version) = context.query.version(false)?
        && version > inner.store.revision()
    {
        return Err(Failure::version_too_large(version, inner.store.revision()));
    }
    let served = &context.target.served;
    let name = context.name()?;
    let object = context.find(name).await?.ok_or_else(|| Failure::not_found(&served.kind, name))?;
    let plain = inner.shown(&served.kind, &object.value)?;
    let renderer = Renderer::new(inner, served, accept, &context.query)?;
    Ok(renderer.response(StatusCode::OK, &plain, object.revision))
}
