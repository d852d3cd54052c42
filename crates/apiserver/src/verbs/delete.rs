//! DELETE of one object or of a collection: what is asked for, and the answer.

use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_api::status;

use super::context::Context;
use super::list;
use super::render::Renderer;
use crate::failure::{Failure, FieldError, Result, respond};
use crate::request::{ListQuery, Query, dry_run_error, read_document};
use crate::writer::{Deleted, Deletion, Dependants};

/// `DeleteOptions`, as far as they matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeleteOptions {
    preconditions: Preconditions,
    propagation_policy: Option<String>,
    /// The older way of saying `Orphan` (true) or `Background` (false).
    orphan_dependents: Option<bool>,
    dry_run: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl DeleteOptions {
    fn read(context: &Context, bytes: &[u8]) -> Result<Self> {
        let options = if bytes.is_empty() {
            // Nothing here waits, but a number it has to be.
            context.query.number("gracePeriodSeconds")?;
            Self::from_query(&context.query)
        } else {
            let mut parsed = read_document(&context.parts.headers, bytes)?.value;
            check_kind(&parsed)?;
            if let Value::Object(fields) = &mut parsed {
                // Null is absent.
                fields.retain(|_, value| !value.is_null());
            }
            serde_json::from_value(parsed).map_err(|error| {
                Failure::bad_request(format!("failed to read the body as DeleteOptions: {error}"))
            })?
        };
        options.check()?;
        Ok(options)
    }

    fn from_query(query: &Query) -> Self {
        Self {
            preconditions: Preconditions::default(),
            propagation_policy: query.get("propagationPolicy").map(str::to_owned),
            orphan_dependents: query.get("orphanDependents").map(|_| query.flag("orphanDependents")),
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
        }
    }

    fn check(&self) -> Result<()> {
        let mut errors: Vec<FieldError> = Vec::new();
        if self.dry_run.iter().any(|value| value != "All") {
            let values: Vec<&str> = self.dry_run.iter().map(String::as_str).collect();
            errors.push(dry_run_error(&values));
        }
        if let (Some(policy), Some(_)) = (&self.propagation_policy, self.orphan_dependents) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.insert(0, FieldError::invalid("propagationPolicy", &json!(policy), detail));
        }
        if let Some(policy) = &self.propagation_policy
            && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
        {
            let allowed = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned);
            errors.push(FieldError::not_supported("propagationPolicy", &json!(policy), &allowed));
        }
        Failure::of("DeleteOptions", "meta.k8s.io", "", errors)
    }

    /// What is asked for, and whether nothing is to be done.
    fn deletion(self) -> (Deletion, bool) {
        let dependants = match (self.orphan_dependents, self.propagation_policy.as_deref()) {
            (Some(true), _) | (None, Some("Orphan")) => Some(Dependants::Orphan),
            (None, Some("Foreground")) => Some(Dependants::Foreground),
            (Some(false), _) | (None, Some(_)) => Some(Dependants::Background),
            (None, None) => None,
        };
        let Preconditions { uid, resource_version } = self.preconditions;
        (Deletion { uid, version: resource_version, dependants }, !self.dry_run.is_empty())
    }
}

pub(super) async fn answer(context: Context, body: &[u8]) -> Result<Response> {
    let (wanted, dry_run) = DeleteOptions::read(&context, body)?.deletion();
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
    let renderer = Renderer::new(&context.inner, &context.target.served, context.accept, &context.query)?;
    let (wanted, dry_run) = DeleteOptions::read(&context, body)?.deletion();
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

/// The body of a deletion is `DeleteOptions`, or says nothing about its kind.
fn check_kind(body: &Value) -> Result<()> {
    match (body["kind"].as_str().unwrap_or_default(), body["apiVersion"].as_str().unwrap_or_default()) {
        ("" | "DeleteOptions", _) => Ok(()),
        (kind, version) => {
            Err(Failure::bad_request(format!("no kind {kind:?} is registered for version {version:?}")))
        }
    }
}
