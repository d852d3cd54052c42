//! DELETE of one object or of a collection.
//!
//! An object with finalizers is marked and stays until they are gone. `propagationPolicy` is read and judged;
//! deleting dependants by owner reference has its room here, after the removal of their owner.

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_api::status;

use super::Context;
use super::create::now_text;
use super::list;
use super::render::{Renderer, respond};
use super::write::Written;
use crate::admission;
use crate::document;
use crate::failure::{Failure, FieldError, Result};
use crate::garbage;
use crate::kinds::Builtin;
use crate::metadata;
use crate::request::{Accept, ListQuery, Query, dry_run_error, read_bytes, read_document};
use crate::store::{Object, Op, Precondition};

/// How often a deletion without a resourceVersion is tried against a newer state.
const TRIES: usize = 10;

/// `DeleteOptions`, as far as they matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    preconditions: Preconditions,
    propagation_policy: Option<String>,
    dry_run: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl DeleteOptions {
    async fn read(context: &Context, body: Body) -> Result<Self> {
        let bytes = read_bytes(body).await?;
        let options = if bytes.is_empty() {
            Self::from_query(&context.query)
        } else {
            let mut parsed = read_document(&context.parts.headers, &bytes)?.value;
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
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
        }
    }

    fn check(&self) -> Result<()> {
        let mut errors: Vec<FieldError> =
            self.dry_run.iter().filter(|value| *value != "All").map(|value| dry_run_error(value)).collect();
        if let Some(policy) = &self.propagation_policy
            && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
        {
            let allowed = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned);
            errors.push(FieldError::not_supported("propagationPolicy", &json!(policy), &allowed));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Failure::invalid("DeleteOptions", "meta.k8s.io", "", errors))
        }
    }

    fn dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }
}

/// What became of an object.
pub(crate) enum Deleted {
    Removed {
        uid: String,
    },
    /// It has finalizers: it is still there, marked.
    Marked(Written),
}

pub(super) async fn answer(context: Context, body: Body) -> Result<Response> {
    let accept = context.accept()?;
    let options = DeleteOptions::read(&context, body).await?;
    let name = context.name()?.to_owned();
    match context.delete(&name, &options).await? {
        Deleted::Marked(written) => context.written(StatusCode::OK, &written, &[]),
        Deleted::Removed { uid } => {
            let kind = context.kind();
            let status = status::deleted(&kind.group, &kind.plural, &name, &uid);
            let json = serde_json::to_vec(&status).map_err(|error| Failure::internal(&error))?;
            Ok(respond(StatusCode::OK, accept, json))
        }
    }
}

/// Deletes what a list with the same parameters would return, and answers with that list.
pub(super) async fn answer_collection(context: Context, body: Body) -> Result<Response> {
    if context.kind().namespaced && context.target.namespace.is_none() {
        return Err(Failure::verb_not_supported(context.kind(), "deletecollection"));
    }
    let list = ListQuery::parse(&context.query, &context.target.served.served().selectable)?;
    let accept = Accept::parse(&context.parts.headers, true)?;
    let renderer = Renderer::new(&context.inner, &context.target.served, accept, &context.query)?;
    let options = DeleteOptions::read(&context, body).await?;
    let selected = list::select(&context.inner, &context.target, &list).await?;
    for object in &selected.objects {
        match context.delete(object.key.name(), &options).await {
            Ok(_) => {}
            // Somebody else was quicker.
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => return Err(failure),
        }
    }
    list::respond_with(&renderer, &selected)
}

impl Context {
    /// Removes an object, or marks it when it has finalizers.
    pub(crate) async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<Deleted> {
        for _ in 0..TRIES {
            let Some(current) = self.find(name).await? else {
                return Err(Failure::not_found(self.kind(), name));
            };
            if let Some(deleted) = self.delete_state(&current, options).await? {
                return Ok(deleted);
            }
        }
        Err(Failure::modified(self.kind(), name))
    }

    /// As [`Self::delete`], of this state of the object; `None` when it has changed meanwhile.
    async fn delete_state(&self, current: &Object, options: &DeleteOptions) -> Result<Option<Deleted>> {
        let kind = self.kind();
        let name = current.key.name();
        let mut object = self.inner.load(kind, current)?;
        let uid = metadata::text(&object, "uid").to_owned();
        let failed = |what: &str, wanted: &str, found: &str| {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            );
            Err(Failure::conflict(kind, name, &why))
        };
        if let Some(wanted) = options.preconditions.uid.as_deref().filter(|wanted| *wanted != uid) {
            return failed("UID", wanted, &uid);
        }
        let version = current.revision.to_string();
        if let Some(wanted) =
            options.preconditions.resource_version.as_deref().filter(|wanted| *wanted != version)
        {
            return failed("ResourceVersion", wanted, &version);
        }
        let expect = Precondition::Revision(current.revision);
        let definition = kind.builtin == Some(Builtin::Definition);
        if metadata::finalizers(&object).is_empty() && (!definition || metadata::is_deleting(&object)) {
            let extra = admission::owned_secrets(&self.inner, kind, &object).await?;
            if !options.dry_run()
                && self.commit(current.key.clone(), expect, Op::Delete, extra).await?.is_none()
            {
                return Ok(None);
            }
            return Ok(Some(Deleted::Removed { uid }));
        }
        let marked = metadata::is_deleting(&object);
        if !marked && definition {
            garbage::mark_definition(&mut object, &now_text(self));
        } else if !marked {
            let now = now_text(self);
            let fields = metadata::of(&mut object);
            fields.insert("deletionTimestamp".to_owned(), json!(now));
            fields.insert("deletionGracePeriodSeconds".to_owned(), json!(0));
            if metadata::generation(&object) > 0 {
                metadata::bump_generation(&mut object);
            }
        }
        let (plain, stored) = self.encode(object, document::split(&current.value).1)?;
        if marked || options.dry_run() {
            return Ok(Some(Deleted::Marked(Written { plain, revision: current.revision })));
        }
        let committed = self.commit(current.key.clone(), expect, Op::Put(stored), Vec::new()).await?;
        Ok(committed.map(|committed| {
            let revision = committed.events.first().map_or(committed.revision, |event| event.revision);
            Deleted::Marked(Written { plain, revision })
        }))
    }
}
