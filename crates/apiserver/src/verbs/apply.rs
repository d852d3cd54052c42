//! Server-side apply: PATCH with what a manager wants of an object, which it then owns.

use std::fmt::Write as _;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::conform::conform;
use super::context::Context;
use super::update::{check_place, check_version};
use crate::failure::{Failure, Result};
use crate::request::{FieldValidation, WriteQuery};
use crate::secure;
use crate::writer::{Owners, Writer, stored_owners};
use windlass_apimachinery::fields::{
    self, Conflict, Managers, Mismatch, Operation, Refused, Update, Versions as _,
};
use windlass_apimachinery::json::{self, Parsed};
use windlass_apimachinery::metadata;
use windlass_apimachinery::{bounds, yaml};

type Object = Map<String, Value>;

/// Who owns what was there before anybody was recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager whose objects may come from client-side apply.
const KUBECTL: &str = "kubectl";

/// What is to be applied.
struct Applied {
    /// In the version of the request; raw secret values are taken out of it.
    object: Object,
    secrets: secure::Withheld,
    /// What is wrong with the text, which only strict decoding minds; each a line.
    problems: Vec<String>,
}

pub(super) async fn answer(context: Context, bytes: &[u8]) -> Result<Response> {
    let query = WriteQuery::parse(&context.query, "ApplyOptions")?;
    let applied = context.read_applied(bytes)?;
    let name = context.name()?.to_owned();
    let is_warned = query.field_validation == FieldValidation::Warn;
    let warnings: &[String] = if is_warned { &applied.problems } else { &[] };
    let writer = context.writer_of(&query);
    let mut tries = writer.tries(&name);
    while tries.next().await {
        let current = context.find(&name).await?;
        let Some(current) = current else {
            let (mut object, managers) =
                context.apply(&writer, None, &applied, Managers::default(), &query)?;
            context.check_created(&mut object, &name)?;
            let mut object = context.finish(object)?;
            metadata::of(&mut object).remove("resourceVersion");
            return match writer.create(object, Owners::Known(managers)).await {
                Ok(written) => context.written(StatusCode::CREATED, &written, warnings),
                // Somebody else was quicker: apply to what there is now.
                Err(failure) if failure.is_already_exists() => continue,
                Err(failure) => Err(failure),
            };
        };
        let old = context.inner.load(context.kind(), &current)?;
        let mut live = old.clone();
        metadata::of(&mut live).insert("resourceVersion".to_owned(), json!(current.revision.to_string()));
        let (object, managers) =
            context.apply(&writer, Some(live), &applied, stored_owners(&current.value), &query)?;
        let mut object = context.finish(object)?;
        check_place(&context, &mut object, &name)?;
        check_version(&context, &name, &object, current.revision)?;
        secure::remove_missing(context.kind(), &old, &mut object);
        let owners = Owners::Known(managers);
        if let Some(written) = writer.replace(&current, &old, object, owners).await? {
            return context.written(StatusCode::OK, &written, warnings);
        }
        if !metadata::text(&applied.object, "resourceVersion").is_empty() {
            break;
        }
    }
    Err(Failure::modified(context.kind(), &name))
}

impl Context {
    fn read_applied(&self, bytes: &[u8]) -> Result<Applied> {
        let (value, problems) = decode(bytes)?;
        bounds::check_depth(&value)?;
        let Value::Object(mut object) = value else {
            return Err(match value {
                Value::Null => Failure::bad_request(format!("invalid object type: {}", shown_type("", ""))),
                other => Failure::bad_request(format!(
                    "error decoding YAML: it must be an object, not {}",
                    json::type_name(&other)
                )),
            });
        };
        secure::check_types(self.kind(), &object)?;
        let secrets = secure::withhold(self.kind(), &mut object);
        Ok(Applied { object, secrets, problems })
    }

    /// The object with what is applied, and its managers. `live` carries its resourceVersion.
    fn apply(
        &self,
        writer: &Writer,
        live: Option<Object>,
        applied: &Applied,
        managers: Managers,
        query: &WriteQuery,
    ) -> Result<(Object, Managers)> {
        self.check_applied(&applied.object)?;
        let update = writer.update_of(Operation::Apply);
        let version = &update.writer.api_version;
        let shape = self.kind().shape(version).ok_or_else(Failure::unknown_path)?;
        let exists = live.is_some();
        let live = live.unwrap_or_else(|| writer.nothing());
        let mut managers = managers;
        if managers.is_empty() && exists {
            let mut before = writer.update_of(Operation::Update);
            BEFORE_FIRST_APPLY.clone_into(&mut before.writer.manager);
            managers = before.update(&writer.nothing(), &live, managers).unwrap_or_default();
        }
        fields::check(shape, &applied.object).map_err(|error| self.mismatch(&applied.object, &error))?;
        let force = query.force == Some(true);
        let done = match update.apply(&live, &applied.object, managers.clone(), force) {
            Err(Refused::Conflicts(conflicts)) if update.writer.manager == KUBECTL => {
                upgrade(&update, &live, applied, managers, conflicts)
            }
            done => done,
        };
        let (object, managers) = done.map_err(|refused| match refused {
            Refused::Conflicts(conflicts) => conflict(&conflicts),
            Refused::Mismatch(error) => self.mismatch(&applied.object, &error),
        })?;
        let mut object = object.unwrap_or(live);
        if update.writer.manager == KUBECTL {
            follow_last_applied(&mut object, applied);
        }
        applied.secrets.put_back(&mut object);
        if query.field_validation == FieldValidation::Strict && !applied.problems.is_empty() {
            return Err(Failure::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {}{}",
                yaml::ERRORS,
                applied.problems.join("\n  ")
            )));
        }
        Ok((object, managers))
    }

    /// The kind and the managers in what is to be applied.
    fn check_applied(&self, object: &Object) -> Result<()> {
        let served = self.target.served.served();
        let field = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        if field("apiVersion") != served.api_version || field("kind") != self.kind().kind {
            let problem = format!("invalid object type: {}", shown_type(field("apiVersion"), field("kind")));
            return Err(Failure::bad_request(problem));
        }
        let metadata = object.get("metadata").and_then(Value::as_object);
        if metadata.and_then(|metadata| metadata.get("managedFields")).is_some_and(|sent| !sent.is_null()) {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        Ok(())
    }

    /// An object that does not fit its schema.
    fn mismatch(&self, object: &Object, error: &Mismatch) -> Failure {
        let (namespace, name) = (metadata::text(object, "namespace"), metadata::text(object, "name"));
        let shown = shown_type(&self.target.served.served().api_version, &self.kind().kind);
        Failure::unclassified(format!(
            "failed to create typed patch object ({namespace}/{name}; {shown}): {error}"
        ))
    }

    /// The object as it is written: defaults filled in, unknown fields gone.
    fn finish(&self, object: Object) -> Result<Object> {
        let served = &self.target.served;
        let version = &served.served().api_version;
        let mut object = self.kind().to_version(&object, version).into_owned();
        object.insert("apiVersion".to_owned(), json!(version));
        let parsed = Parsed { value: Value::Object(object), problems: Vec::new() };
        Ok(conform(served, parsed, FieldValidation::Ignore)?.object)
    }

    /// What an object may not say that is created by an apply.
    fn check_created(&self, object: &mut Object, name: &str) -> Result<()> {
        if self.target.is_status() {
            return Err(Failure::not_found(self.kind(), name));
        }
        let uid = metadata::text(object, "uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Failure::conflict(self.kind(), name, &why));
        }
        check_place(self, object, name)
    }
}

fn shown_type(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

/// Conflicts about fields that client-side apply set, and that are still as it set them, are none.
fn upgrade(
    update: &Update<'_>,
    live: &Object,
    applied: &Applied,
    managers: Managers,
    conflicts: Vec<Conflict>,
) -> Result<(Option<Object>, Managers), Refused> {
    let Some(allowed) = last_applied(live).and_then(|last| update.still_as(&last, live).ok()) else {
        return Err(Refused::Conflicts(conflicts));
    };
    let left: Vec<Conflict> = conflicts.into_iter().filter(|conflict| !allowed.has(&conflict.path)).collect();
    if !left.is_empty() {
        return Err(Refused::Conflicts(left));
    }
    update.apply(live, &applied.object, managers, true)
}

/// Keeps the record of client-side apply up to date, where there is one.
fn follow_last_applied(object: &mut Object, applied: &Applied) {
    let Some(annotation) = metadata::of(object)
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
        .and_then(|annotations| annotations.get_mut(metadata::LAST_APPLIED))
        .filter(|value| value.as_str().is_some_and(|text| !text.is_empty()))
    else {
        return;
    };
    let mut record = applied.object.clone();
    applied.secrets.leave_out(&mut record);
    if let Some(annotations) = metadata::of(&mut record).get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(metadata::LAST_APPLIED);
    }
    *annotation = json!(format!("{}\n", Value::Object(record)));
}

/// A document from YAML or JSON. A key that stands twice is a problem, and the last of them counts.
fn decode(bytes: &[u8]) -> Result<(Value, Vec<String>)> {
    if let Ok(parsed) = json::parse(bytes)
        && parsed.problems.is_empty()
    {
        return Ok((parsed.value, Vec::new()));
    }
    let refuse = |why: &str| Failure::bad_request(format!("error decoding YAML: {why}"));
    let text = std::str::from_utf8(bytes).map_err(|_| refuse("yaml: invalid UTF-8"))?;
    yaml::parse(text).map_err(|error| refuse(&format!("error converting YAML to JSON: {error}")))
}

/// What client-side apply recorded.
fn last_applied(live: &Object) -> Option<Object> {
    let text = live.get("metadata")?.get("annotations")?.get(metadata::LAST_APPLIED)?.as_str()?;
    serde_json::from_str(text).ok()
}

fn conflict(conflicts: &[Conflict]) -> Failure {
    let mut conflicts = conflicts.to_vec();
    conflicts.sort_by(|a, b| a.writer.cmp(&b.writer));
    let shown = |conflict: &Conflict| {
        let writer = &conflict.writer;
        let mut text = format!("{:?}", writer.manager);
        if !writer.subresource.is_empty() {
            let _ = write!(text, " with subresource {:?}", writer.subresource);
        }
        if writer.operation == Operation::Update {
            let _ = write!(text, " using {}", writer.api_version);
        }
        text
    };
    let path = |conflict: &Conflict| conflict.path.iter().map(ToString::to_string).collect::<String>();
    let message = match conflicts.as_slice() {
        [one] => format!("Apply failed with 1 conflict: conflict with {}: {}", shown(one), path(one)),
        many => {
            let mut lines = Vec::new();
            let mut last = None;
            for conflict in many {
                if last != Some(&conflict.writer) {
                    lines.push(format!("conflicts with {}:", shown(conflict)));
                    last = Some(&conflict.writer);
                }
                lines.push(format!("- {}", path(conflict)));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    let causes =
        conflicts.iter().map(|conflict| (path(conflict), format!("conflict with {}", shown(conflict))));
    Failure::apply_conflict(message, causes)
}
