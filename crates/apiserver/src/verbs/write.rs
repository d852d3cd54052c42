//! What all writes share: conforming a body to its kind, and the way from a changed object to the store.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value};

use axum::response::Response;

use super::Context;
use super::owners::{Owners, Sent, stored_owners};
use super::render::Renderer;
use crate::admission;
use crate::failure::{self, Failure, FieldError, Result};
use crate::kinds::{Builtin, Kind, ServedKind};
use crate::request::{FieldValidation, WriteQuery};
use windlass_apimachinery::bounds::{self, MAX_BYTES};
use windlass_apimachinery::document;
use windlass_apimachinery::json::Parsed;
use windlass_apimachinery::metadata;
use windlass_apimachinery::schema::Schema;
use windlass_apimachinery::{definition, fields};
use windlass_store::{Object, Op, Precondition};

/// An object that was read from a body, in its stored version, and what is to be warned about.
pub(super) struct Conformed {
    pub(super) object: Map<String, Value>,
    pub(super) problems: Vec<String>,
    /// What it says of its managers.
    pub(super) sent: Sent,
}

/// Reads an object of this kind: known fields only, defaults filled in, metadata in its stored form.
pub(super) fn conform(served: &ServedKind, parsed: Parsed, validation: FieldValidation) -> Result<Conformed> {
    let kind = &*served.kind;
    let version = served.served();
    let Value::Object(mut object) = parsed.value else {
        return Err(Failure::bad_request("json: cannot unmarshal the body into an object"));
    };
    let mut unknown = Vec::new();
    let managers = fields::take_sent(&mut object).filter(|managers| !managers.is_null());
    metadata::conform(&kind.metadata(), &version.version, &mut object, &mut unknown)
        .map_err(Failure::bad_request)?;
    version.schema.prune(&mut object, &mut unknown);
    if kind.builtin == Some(Builtin::Definition) {
        definition::conform(&mut object, &mut unknown).map_err(Failure::bad_request)?;
    }
    // Before unknown fields are reported: what a raw value of a wrong type holds would be among them.
    admission::check_secret_types(kind, &object)?;
    if kind.builtin.is_some() {
        decode_typed(served, &mut object)?;
    }
    version.schema.drop_nulls(&mut object);
    let mut in_embedded = Vec::new();
    if let Err(error) = version.schema.coerce_embedded(&mut object, &mut in_embedded) {
        return Err(undecodable(served, &error.to_string()));
    }
    let too_large = || Failure::too_large(MAX_BYTES);
    version.schema.apply_defaults(&mut object).ok_or_else(too_large)?;
    version.rename_back(&mut object);
    let mut whole = None;
    if version.prunes {
        // What is stored is of the stored version, whose defaults every read would fill in.
        let stored = &kind.stored().schema;
        let (before, mut lost) = (object.clone(), Vec::new());
        stored.prune(&mut object, &mut lost);
        stored.apply_defaults(&mut object).ok_or_else(too_large)?;
        whole = (!lost.is_empty()).then_some(before);
    }
    if let Some(builtin) = kind.builtin {
        admission::default_core(builtin, &mut object);
    }
    object.insert("apiVersion".to_owned(), kind.stored().api_version.clone().into());
    object.insert("kind".to_owned(), kind.kind.clone().into());
    let mut problems = Vec::new();
    if validation != FieldValidation::Ignore {
        unknown.sort();
        in_embedded.sort();
        unknown.append(&mut in_embedded);
        problems.extend(parsed.problems);
        problems.extend(unknown.iter().map(|field| format!("unknown field {field:?}")));
    }
    Ok(Conformed { object, problems, sent: Sent { managers, whole } })
}

/// Core kinds are typed on a real server: a value of the wrong type is a 400 where a custom kind has a 422.
fn decode_typed(served: &ServedKind, object: &mut Map<String, Value>) -> Result<()> {
    match served.served().schema.decode(&served.kind.kind, object) {
        None => Ok(()),
        Some(problem) => Err(undecodable(served, &problem)),
    }
}

fn undecodable(served: &ServedKind, problem: &str) -> Failure {
    let kind = &served.kind.kind;
    Failure::bad_request(format!(
        "{kind} in version {:?} cannot be handled as a {kind}: {problem}",
        served.served().version
    ))
}

/// Strict validation refuses what the others warn about.
pub(super) fn strict(served: &ServedKind, problems: &[String], validation: FieldValidation) -> Result<()> {
    if validation != FieldValidation::Strict || problems.is_empty() {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "{0} in version {1:?} cannot be handled as a {0}: strict decoding error: {2}",
        served.kind.kind,
        served.served().version,
        problems.join(", ")
    )))
}

/// An object as it was written.
pub(crate) struct Written {
    pub(super) plain: Bytes,
    pub(super) revision: u64,
}

impl Context {
    /// The schema that objects are judged by: that of the version that the request is in. What is stored of core kinds has
    /// the names of one version.
    pub(super) fn schema(&self) -> &Schema {
        let served = &self.target.served;
        if served.kind.builtin.is_some() { &served.kind.stored().schema } else { &served.served().schema }
    }

    pub(super) fn kind(&self) -> &Arc<Kind> {
        &self.target.served.kind
    }

    /// The stored object of this name in the path's namespace.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Object>> {
        // A name that cannot be stored names nothing.
        let Ok(key) = self.target.key(name) else { return Ok(None) };
        Ok(self.inner.store.get(&key).await?)
    }

    /// As [`Self::encode`], within bounds: `before` is how large the object was, in the clear.
    pub(super) fn encode_bounded(
        &self,
        object: Map<String, Value>,
        managed: &[u8],
        before: usize,
    ) -> Result<(Bytes, Bytes)> {
        let plain = document::encode(&self.kind().stored().head, &object, managed);
        bounds::check_stored(&object, plain.len(), before)?;
        self.seal(object, managed, plain)
    }

    /// The bytes of an object in the clear, and what is stored for it, with its encoded `managedFields`.
    pub(super) fn encode(&self, object: Map<String, Value>, managed: &[u8]) -> Result<(Bytes, Bytes)> {
        let plain = document::encode(&self.kind().stored().head, &object, managed);
        self.seal(object, managed, plain)
    }

    fn seal(&self, object: Map<String, Value>, managed: &[u8], plain: Vec<u8>) -> Result<(Bytes, Bytes)> {
        let (kind, plain) = (self.kind(), Bytes::from(plain));
        if !kind.sealed() {
            return Ok((plain.clone(), plain));
        }
        Ok((plain, Bytes::from(self.inner.seal(kind, object, managed)?)))
    }

    /// The answer to a write.
    pub(super) fn written(
        &self,
        status: StatusCode,
        written: &Written,
        warnings: &[String],
    ) -> Result<Response> {
        let renderer = Renderer::new(&self.inner, &self.target.served, self.accept()?, &self.query)?;
        let mut response = renderer.response(status, &written.plain, written.revision);
        failure::warn(&mut response, warnings);
        if self.kind().builtin == Some(Builtin::Definition) && !self.target.is_status() {
            failure::warn(&mut response, &self.definition_warnings(&written.plain));
        }
        Ok(response)
    }

    /// Replaces a stored object by a changed one: everything between the change and the store.
    ///
    /// `None`: the stored object was changed meanwhile.
    pub(super) async fn replace(
        &self,
        current: &Object,
        old: &Map<String, Value>,
        mut new: Map<String, Value>,
        owners: Owners,
        query: &WriteQuery,
    ) -> Result<Option<Written>> {
        let kind = self.kind();
        let separate_status = self.target.served.served().status_subresource;
        let before = self.inner.plain(kind, &current.value)?;
        let owners_before = stored_owners(&before);
        let mut owners = owners;
        // What is not stored is a change that a real server counts.
        let lost = !self.target.is_status() && matches!(&owners, Owners::Sent(sent) if sent.whole.is_some());
        if self.target.is_status() {
            owners = Owners::Known(self.owners_of_changed(old, &new, &owners_before, owners, query));
            new = status_of(kind, old, &new);
        } else if separate_status {
            copy_field(old, &mut new, "status");
        }
        metadata::carry_over(old, &mut new);
        let secrets = admission::take_secrets(kind, &mut new, Some(old))?;
        let owners = self.owners_of_changed(old, &new, &owners_before, owners, query);
        let neighbours = self.neighbours(kind).await;
        if !self.target.is_status() {
            self.admit(Some(old), &mut new)?;
        }
        let with_status = !separate_status;
        if kind.has_generation() && (lost || metadata::desired_state_differs(old, &new, with_status)) {
            metadata::bump_generation(&mut new);
        }
        // A real server looks twice: at any object, and at one of this kind.
        let mut errors = metadata::validate_update(old, &new);
        errors.extend(errors.clone());
        errors.extend(metadata::validate(&kind.metadata(), &new));
        // What was wrong before and did not change is let through; core kinds have rules of their own.
        let schema = self.schema();
        errors.extend(match kind.builtin {
            None if self.target.is_status() => {
                let mut errors = schema.validate_status(old, &new);
                errors.extend(self.scale_error(&new));
                errors
            }
            None => {
                let mut errors = schema.validate_change(old, &new);
                errors.extend(schema.validate_embedded(&new));
                errors.extend(self.scale_error(&new));
                errors
            }
            Some(_) => schema.validate(&new),
        });
        errors.extend(admission::validate_core(kind, &new, Some(old)));
        self.check_rules(Some(old), &new, &mut errors).await?;
        self.fail_on(errors, current.key.name())?;
        if !self.target.is_status() {
            self.validate(Some(old), &new).await?;
        }
        let mut extra = secrets.store(&self.inner, kind, &mut new, Some(old)).await?;
        let removed = self.is_over(&new);
        // Times alone are no change.
        let managed = if owners.same(&owners_before) && *old == new {
            document::split(&before).1.to_vec()
        } else {
            owners.encode()
        };
        let (plain, stored) = self.encode_bounded(new, &managed, before.len())?;
        let unchanged = *plain == *before;
        drop(before);
        if query.dry_run || (unchanged && !removed) {
            return Ok(Some(Written { plain, revision: current.revision }));
        }
        let op = if removed {
            extra = admission::owned_secrets(&self.inner, kind, old).await?;
            Op::Delete
        } else {
            Op::Put(stored)
        };
        let expect = Precondition::Revision(current.revision);
        let committed = self.commit(current.key.clone(), expect, op, extra, neighbours).await?;
        let Some(committed) = committed else { return Ok(None) };
        // A removal answers with the object as it was asked for, under its last version.
        let revision = match committed.events.first() {
            Some(event) if !removed => event.revision,
            _ => current.revision,
        };
        Ok(Some(Written { plain, revision }))
    }

    /// Refuses an object with these errors, if there are any.
    pub(crate) fn fail_on(&self, errors: Vec<FieldError>, name: &str) -> Result<()> {
        if errors.is_empty() {
            return Ok(());
        }
        let kind = self.kind();
        Err(Failure::invalid(&kind.kind, &kind.group, name, errors))
    }
}

/// The old object with the status of the new one; a Namespace's metadata are written with its status.
fn status_of(kind: &Kind, old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut object = old.clone();
    copy_field(new, &mut object, "status");
    if kind.builtin == Some(Builtin::Namespace) {
        copy_field(new, &mut object, "metadata");
    }
    object
}

fn copy_field(from: &Map<String, Value>, to: &mut Map<String, Value>, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}
