//! DELETE of one object or of a collection: what is asked for, and the answer.

use axum::response::Response;
use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use serde::Deserialize;
use serde_json::json;
use windlass_api::status;

use super::context::Context;
use super::list;
use crate::failure::{Failure, FieldError, Result, respond};
use crate::request::{ListQuery, dry_run_error, read_document};
use crate::writer::{Deleted, Deletion, Dependants};

/// What the body or else the parameters ask for, and whether nothing is to be done.
fn read(context: &Context, bytes: &[u8]) -> Result<(Deletion, bool)> {
    let query = &context.query;
    let options: DeleteOptions = if bytes.is_empty() {
        // Nothing here waits, but a number it has to be.
        query.number("gracePeriodSeconds")?;
        DeleteOptions {
            propagation_policy: query.get("propagationPolicy").map(str::to_owned),
            orphan_dependents: query.get("orphanDependents").map(|_| query.flag("orphanDependents")),
            dry_run: Some(query.all("dryRun").map(str::to_owned).collect()),
            ..DeleteOptions::default()
        }
    } else {
        let body = read_document(&context.parts.headers, bytes)?.value;
        let kind = body["kind"].as_str().unwrap_or_default();
        if !matches!(kind, "" | "DeleteOptions") {
            let version = body["apiVersion"].as_str().unwrap_or_default();
            let problem = format!("no kind {kind:?} is registered for version {version:?}");
            return Err(Failure::bad_request(problem));
        }
        DeleteOptions::deserialize(&body).map_err(|error| {
            Failure::bad_request(format!("failed to read the body as DeleteOptions: {error}"))
        })?
    };
    let mut errors: Vec<FieldError> = Vec::new();
    let dry_run = options.dry_run.unwrap_or_default();
    if dry_run.iter().any(|value| value != "All") {
        errors.push(dry_run_error(&dry_run.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    let policy = options.propagation_policy.as_deref();
    if let (Some(policy), Some(_)) = (policy, options.orphan_dependents) {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.insert(0, FieldError::invalid("propagationPolicy", &json!(policy), detail));
    }
    // The older way of saying `Orphan` is `true`, of `Background` `false`.
    let dependants = match (options.orphan_dependents, policy) {
        (Some(true), _) | (_, Some("Orphan")) => Some(Dependants::Orphan),
        (_, Some("Foreground")) => Some(Dependants::Foreground),
        (Some(false), None) | (_, Some("Background")) => Some(Dependants::Background),
        (_, Some(policy)) => {
            let allowed = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned);
            errors.push(FieldError::not_supported("propagationPolicy", &json!(policy), &allowed));
            None
        }
        (None, None) => None,
    };
    Failure::refuse("DeleteOptions", "meta.k8s.io", "", errors)?;
    let only = options.preconditions.unwrap_or_default();
    let unread = options.ignore_store_read_error_with_cluster_breaking_potential == Some(true);
    let wanted = Deletion { uid: only.uid, version: only.resource_version, dependants, unread };
    Ok((wanted, !dry_run.is_empty()))
}

pub(super) async fn answer(context: Context, body: &[u8]) -> Result<Response> {
    let (wanted, dry_run) = read(&context, body)?;
    let name = context.name()?.to_owned();
    match context.writer(dry_run, "").delete(&name, &wanted).await? {
        Deleted::Marked(written) => context.written(StatusCode::OK, &written, &[]),
        Deleted::Removed { uid } => {
            let kind = context.kind();
            let status = status::deleted(&kind.group, &kind.plural, &name, &uid);
            Ok(respond(StatusCode::OK, context.accept.yaml, serde_json::to_vec(&status)?))
        }
    }
}

/// Deletes what a list with the same parameters would return, and answers with that list.
pub(super) async fn answer_collection(context: Context, body: &[u8]) -> Result<Response> {
    if !context.kind().verbs().contains(&"deletecollection") {
        return Err(Failure::method_not_allowed());
    }
    let list = ListQuery::parse(&context.query, &context.target.served)?;
    let renderer = context.renderer()?;
    let (wanted, dry_run) = read(&context, body)?;
    let writer = context.writer(dry_run, "");
    let selected = list::select(&context.inner, &context.target, &list, 0).await?;
    for object in &selected.objects {
        match writer.delete(object.key.name(), &wanted).await {
            Ok(_) => {}
            // Somebody else was quicker.
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => return Err(failure),
        }
    }
    list::respond_with(&renderer, &selected)
}
