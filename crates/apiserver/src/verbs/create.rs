//! POST: a new object.

use axum::response::Response;
use http::StatusCode;

use super::conform::read;
use super::context::Context;
use crate::failure::Result;
use crate::request::WriteQuery;
use crate::writer::Owners;
use windlass_apimachinery::metadata;

pub(super) async fn answer(context: Context, body: &[u8]) -> Result<Response> {
    let query = WriteQuery::parse(&context.query, "CreateOptions")?;
    let mut conformed = read(&context, body, query.field_validation)?;
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
