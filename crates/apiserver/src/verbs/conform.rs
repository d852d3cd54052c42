//! From a body to an object of its kind.

use serde_json::{Map, Value};

use super::context::Context;
use crate::failure::{Failure, Result};
use crate::kinds::{Builtin, ServedKind};
use crate::request::{FieldValidation, read_object};
use crate::writer::Sent;
use crate::{builtin, secure};
use windlass_apimachinery::bounds::MAX_BYTES;
use windlass_apimachinery::json::Parsed;
use windlass_apimachinery::metadata;
use windlass_apimachinery::{definition, fields};

/// An object that was read from a body, in its stored version, and what is to be warned about.
pub(super) struct Conformed {
    pub(super) object: Map<String, Value>,
    pub(super) problems: Vec<String>,
    /// What it says of its managers.
    pub(super) sent: Sent,
}

/// Reads the object that a request sends.
pub(super) fn read(context: &Context, body: &[u8], validation: FieldValidation) -> Result<Conformed> {
    let parsed = read_object(context.spoken(), &context.parts.headers, body)?;
    let conformed = conform(context.spoken(), parsed, validation)?;
    // Strict validation refuses what the others warn about.
    if validation == FieldValidation::Strict && !conformed.problems.is_empty() {
        let problem = format!("strict decoding error: {}", conformed.problems.join(", "));
        return Err(undecodable(context.spoken(), &problem));
    }
    Ok(conformed)
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
    secure::check_types(kind, &object)?;
    if kind.builtin.is_some() {
        // Typed on a real server: a value of the wrong type is a 400 where a custom kind has a 422.
        if let Some(problem) = version.schema.decode(&mut object, "") {
            return Err(undecodable(served, &problem));
        }
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
        builtin::default(builtin, &mut object);
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

fn undecodable(served: &ServedKind, problem: &str) -> Failure {
    let kind = &served.kind.kind;
    Failure::bad_request(format!(
        "{kind} in version {:?} cannot be handled as a {kind}: {problem}",
        served.served().version
    ))
}
