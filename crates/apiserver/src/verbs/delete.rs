//! DELETE of one object or of a collection.
//!
//! An object with finalizers is marked and stays until they are gone. What becomes of its dependants is said by
//! `propagationPolicy`: `Foreground` and `Orphan` are finalizers that the garbage collector ([`crate::garbage`]) takes
//! off, `Background` is nothing at all, since the collector sees the object go.

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_api::status;

use super::Context;
use super::list;
use super::render::{Renderer, respond};
use super::write::Written;
use crate::admission;
use crate::failure::{Failure, FieldError, Result};
use crate::garbage::{self, FOREGROUND, ORPHAN};
use crate::kinds::Builtin;
use crate::request::{Accept, ListQuery, Query, dry_run_error, read_bytes, read_document};
use windlass_apimachinery::document;
use windlass_apimachinery::metadata;
use windlass_store::{Object, Op, Precondition};

/// `DeleteOptions`, as far as they matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
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
    /// Of the object with this UID.
    pub(crate) fn of(uid: &str, policy: &str) -> Self {
        Self {
            preconditions: Preconditions { uid: Some(uid.to_owned()), resource_version: None },
            propagation_policy: Some(policy.to_owned()),
            ..Self::default()
        }
    }

    async fn read(context: &Context, body: Body) -> Result<Self> {
        let bytes = read_bytes(body).await?;
        let options = if bytes.is_empty() {
            // Nothing here waits, but a number it has to be.
            context.query.number("gracePeriodSeconds")?;
            Self::from_query(&context.query)
        } else {
            let mut parsed = read_document(&context.parts.headers, &bytes)?.value;
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
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Failure::invalid("DeleteOptions", "meta.k8s.io", "", errors))
        }
    }

    /// The finalizers of an object once its deletion is asked for like this.
    fn finalizers(&self, object: &Map<String, Value>) -> Vec<String> {
        let before = metadata::finalizers(object);
        let has = |finalizer: &str| before.contains(&finalizer);
        let (orphan, foreground) = match (self.orphan_dependents, self.propagation_policy.as_deref()) {
            (Some(orphan), _) => (orphan, false),
            (None, Some(policy)) => (policy == "Orphan", policy == "Foreground"),
            (None, None) => (has(ORPHAN), has(FOREGROUND) && !has(ORPHAN)),
        };
        let mut finalizers: Vec<String> = before
            .iter()
            .filter(|one| !matches!(**one, ORPHAN | FOREGROUND))
            .map(|one| (*one).to_owned())
            .collect();
        finalizers.extend(orphan.then(|| ORPHAN.to_owned()));
        finalizers.extend(foreground.then(|| FOREGROUND.to_owned()));
        finalizers
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
    if !context.kind().verbs().contains(&"deletecollection") {
        return Err(Failure::method_not_allowed());
    }
    let list = ListQuery::parse(&context.query, &context.target.served)?;
    let accept = Accept::parse(&context.parts.headers, true)?;
    let renderer = Renderer::new(&context.inner, &context.target.served, accept, &context.query)?;
    let options = DeleteOptions::read(&context, body).await?;
    let selected = list::select(&context.inner, &context.target, &list, 0).await?;
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
        let mut tries = self.tries();
        while tries.next().await {
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
    pub(crate) async fn delete_state(
        &self,
        current: &Object,
        options: &DeleteOptions,
    ) -> Result<Option<Deleted>> {
        let kind = self.kind();
        let mut object = self.inner.load_unopened(kind, current)?;
        let uid = metadata::text(&object, "uid").to_owned();
        self.check_preconditions(current, &uid, options)?;
        let before = object.clone();
        let marked = metadata::is_deleting(&object);
        // Events have no dependants.
        if kind.builtin != Some(Builtin::Event) {
            let finalizers = options.finalizers(&object);
            if finalizers.iter().map(String::as_str).ne(metadata::finalizers(&object)) {
                set_finalizers(&mut object, finalizers);
            }
        }
        let now = self.inner.now_text();
        let held = match kind.builtin {
            Some(Builtin::Definition) if !marked => {
                object.clone_from(&before);
                garbage::mark_definition(&mut object, &now);
                true
            }
            Some(Builtin::Namespace) if !marked => {
                garbage::mark_namespace(&mut object, &now);
                true
            }
            Some(Builtin::Namespace) if garbage::holds_content(&object) => {
                object.clone_from(&before);
                true
            }
            _ => !metadata::finalizers(&object).is_empty(),
        };
        let expect = Precondition::Revision(current.revision);
        if !held {
            let extra = admission::owned_secrets(&self.inner, kind, &before).await?;
            if !options.dry_run()
                && self.commit(current.key.clone(), expect, Op::Delete, extra, None).await?.is_none()
            {
                return Ok(None);
            }
            return Ok(Some(Deleted::Removed { uid }));
        }
        if !matches!(kind.builtin, Some(Builtin::Definition | Builtin::Namespace)) {
            if !marked {
                if metadata::generation(&object) > 0 {
                    metadata::bump_generation(&mut object);
                }
                metadata::of(&mut object).insert("deletionTimestamp".to_owned(), json!(now));
            }
            metadata::of(&mut object).insert("deletionGracePeriodSeconds".to_owned(), json!(0));
        }
        let unchanged = object == before;
        let (plain, stored) = self.encode(object, document::split(&current.value).1)?;
        if unchanged || options.dry_run() {
            return Ok(Some(Deleted::Marked(Written { plain, revision: current.revision })));
        }
        let committed = self.commit(current.key.clone(), expect, Op::Put(stored), Vec::new(), None).await?;
        Ok(committed.map(|committed| {
            let revision = committed.events.first().map_or(committed.revision, |event| event.revision);
            Deleted::Marked(Written { plain, revision })
        }))
    }

    fn check_preconditions(&self, current: &Object, uid: &str, options: &DeleteOptions) -> Result<()> {
        let kind = self.kind();
        let name = current.key.name();
        // Two kinds have a way of deleting of their own, with words of its own.
        let own = matches!(kind.builtin, Some(Builtin::Definition | Builtin::Namespace));
        let wanted = &options.preconditions;
        let version = current.revision.to_string();
        for (what, wanted, found, why) in [
            ("UID", &wanted.uid, uid, "deleted and then recreated"),
            ("ResourceVersion", &wanted.resource_version, &version, "modified"),
        ] {
            let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) else { continue };
            if own {
                let why = format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                );
                return Err(Failure::conflict(kind, name, &why));
            }
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object \
                 might have been {why}"
            );
            return Err(Failure::conflict_of_kind(kind, name, &why));
        }
        Ok(())
    }

    /// Stores other metadata for this state of an object, or removes it when that was the last thing that held it.
    /// False: it was changed meanwhile.
    pub(crate) async fn store_metadata(&self, current: &Object, new: Map<String, Value>) -> Result<bool> {
        let kind = self.kind();
        let old = self.inner.load_unopened(kind, current)?;
        if old == new {
            return Ok(true);
        }
        let removed = self.is_over(&new);
        let (op, extra) = if removed {
            (Op::Delete, admission::owned_secrets(&self.inner, kind, &old).await?)
        } else {
            (Op::Put(self.encode(new, document::split(&current.value).1)?.1), Vec::new())
        };
        let expect = Precondition::Revision(current.revision);
        Ok(self.commit(current.key.clone(), expect, op, extra, None).await?.is_some())
    }

    /// Whether an object is being deleted and nothing holds it any more.
    pub(crate) fn is_over(&self, object: &Map<String, Value>) -> bool {
        let content = self.kind().builtin == Some(Builtin::Namespace) && garbage::holds_content(object);
        metadata::is_deleting(object) && metadata::finalizers(object).is_empty() && !content
    }
}

/// The body of a deletion is `DeleteOptions`, or says nothing about its kind.
fn check_kind(body: &Value) -> Result<()> {
    match (body["kind"].as_str().unwrap_or_default(), body["apiVersion"].as_str().unwrap_or_default()) {
        ("" | "DeleteOptions", _) => Ok(()),
        (kind, version) => Err(Failure::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        ))),
    }
}

fn set_finalizers(object: &mut Map<String, Value>, finalizers: Vec<String>) {
    let fields = metadata::of(object);
    if finalizers.is_empty() {
        fields.remove("finalizers");
    } else {
        fields.insert("finalizers".to_owned(), json!(finalizers));
    }
}
