//! PUT: an object replaced by another of the same name.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value};

use super::conform::{Conformed, read};
use super::context::Context;
use super::scale;
use crate::failure::{Failure, FieldError, Result};
use crate::request::WriteQuery;
use crate::writer::Owners;
use windlass_apimachinery::metadata;

pub(super) async fn answer(context: Context, body: &[u8]) -> Result<Response> {
    let query = WriteQuery::parse(&context.query, "UpdateOptions")?;
    let conformed = read(&context, body, query.field_validation)?;
    let problems = conformed.problems.clone();
    put(context, conformed, query).await.map_err(|failure| failure.warned(&problems))
}

async fn put(context: Context, mut conformed: Conformed, query: WriteQuery) -> Result<Response> {
    let mut object = conformed.object;
    conformed.problems.extend(metadata::dedup_owners(&mut object, false));
    let name = context.name()?.to_owned();
    check_place(&context, &mut object, &name)?;
    let writer = context.writer_of(&query);
    let mut tries = writer.tries(&name);
    while tries.next().await {
        let Some(current) = context.find(&name).await? else {
            if context.kind().create_on_update() && !context.target.is_status() {
                metadata::of(&mut object).remove("resourceVersion");
                let written = writer.create(object, Owners::Sent(conformed.sent)).await?;
                return context.written(StatusCode::CREATED, &written, &conformed.problems);
            }
            return Err(Failure::not_found(context.kind(), &name));
        };
        let old = context.inner.load(context.kind(), &current)?;
        check_uid(&context, &name, &old, &object)?;
        let version = check_version(&context, &name, &object, current.revision)?;
        let owners = Owners::Sent(conformed.sent.clone());
        let (new, owners) = scale::written(&context, &writer, &current, &old, object.clone(), owners)?;
        if let Some(written) = writer.replace(&current, &old, new, owners).await? {
            conformed.problems.extend(metadata::finalizer_warnings(
                &context.kind().metadata(),
                Some(&old),
                &object,
            ));
            return context.written(StatusCode::OK, &written, &conformed.problems);
        }
        if version.is_some() {
            break;
        }
    }
    Err(Failure::modified(context.kind(), &name))
}

/// The body must be about the object in the path.
pub(super) fn check_place(context: &Context, object: &mut Map<String, Value>, name: &str) -> Result<()> {
    let given = metadata::text(object, "name");
    if given.is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    context.target.check_namespace(object)?;
    metadata::of(object).insert("name".to_owned(), name.into());
    if let Some(namespace) = &context.target.namespace {
        metadata::of(object).insert("namespace".to_owned(), namespace.as_str().into());
    }
    Ok(())
}

/// A body with a UID is about that incarnation of the object only.
fn check_uid(
    context: &Context,
    name: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Result<()> {
    let (before, given) = (metadata::text(old, "uid"), metadata::text(new, "uid"));
    if given.is_empty() || given == before {
        return Ok(());
    }
    let kind = context.kind();
    let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {before}");
    Err(Failure::conflict(kind, name, &why))
}

/// The version that the body carries, which must be the latest one.
pub(super) fn check_version(
    context: &Context,
    name: &str,
    new: &Map<String, Value>,
    current: u64,
) -> Result<Option<u64>> {
    let kind = context.kind();
    let given = metadata::text(new, "resourceVersion");
    let version = match given {
        "" | "0" => None,
        text => Some(text.parse::<u64>().map_err(|_| {
            let value = Value::String(text.to_owned());
            let error = FieldError::invalid("metadata.resourceVersion", &value, "must be a number");
            Failure::invalid(&kind.kind, &kind.group, name, vec![error])
        })?),
    };
    match version {
        None if context.scale().is_none() && !kind.unconditional_update() => {
            let detail = "must be specified for an update";
            let error = FieldError::invalid("metadata.resourceVersion", &0.into(), detail);
            // The real server names the resource here, not the kind.
            Err(Failure::invalid(&kind.plural, &kind.group, name, vec![error]))
        }
        Some(version) if version != current => Err(Failure::modified(kind, name)),
        version => Ok(version),
    }
}
