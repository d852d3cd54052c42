//! POST: a new object.

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;

use super::conform::{conform, strict};
use super::context::Context;
use crate::failure::Result;
use crate::request::{WriteQuery, read_bytes, read_object};
use crate::writer::Owners;
use windlass_apimachinery::metadata;

pub(super) async fn answer(context: Context, body: Body) -> Result<Response> {
    context.accept()?;
    let query = WriteQuery::parse(&context.query, "CreateOptions")?;
    let bytes = read_bytes(body).await?;
    let parsed = read_object(&context.target.served, &context.parts.headers, &bytes)?;
    let mut conformed = conform(&context.target.served, parsed, query.field_validation)?;
    strict(&context.target.served, &conformed.problems, query.field_validation)?;
    let warnings = &mut conformed.problems;
    warnings.extend(metadata::dedup_owners(&mut conformed.object, false));
    // Finalizers are warned of only when the object is written.
    let refused = warnings.clone();
    warnings.extend(metadata::finalizer_warnings(&context.kind().metadata(), None, &conformed.object));
    let written = context
        .writer_of(&query)
        .create(conformed.object, Owners::Sent(conformed.sent))
        .await
        .map_err(|failure| failure.warned(&refused))?;
    context.written(StatusCode::CREATED, &written, &conformed.problems)
}
