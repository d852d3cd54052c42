//! The rules that our definitions state in CEL, as the embedded server holds them: see `windlass_api::rules`.

use serde::Deserialize as _;
use serde_json::Value;
use windlass_api::{Connection, JobSpec, Repository, jobs, repositories};

use super::{Object, Ruled};
use crate::failure::FieldError;
use crate::verbs::Context;
use windlass_apimachinery::metadata;

impl Context {
    /// Adds what the kind's rules refuse to what its schema has refused, as kube-apiserver does: after an error that
    /// leaves the rules nothing to look at, it says so instead.
    pub(crate) fn check_rules(&self, old: Option<&Object>, new: &Object, errors: &mut Vec<FieldError>) {
        let kind = &*self.target.served.kind;
        let ruled = Ruled::of(kind);
        if ruled == Some(Ruled::Repository)
            && old.is_none()
            && metadata::text(new, "name").len() > repositories::MAX_NAME_LENGTH
        {
            errors.insert(0, FieldError::too_long("metadata.name", repositories::MAX_NAME_LENGTH as u64));
        }
        if errors.iter().any(FieldError::blocks_rules) {
            if kind.stored().schema.has_rules() {
                errors.push(FieldError::rules_not_checked());
            }
            return;
        }
        // What an update leaves alone is let through, whatever it is.
        if old.is_some_and(|old| ["spec", "secure"].iter().all(|field| old.get(*field) == new.get(*field))) {
            return;
        }
        let broken = match ruled {
            Some(Ruled::Repository) => {
                let read = |object: &Object| Repository::deserialize(&Value::Object(object.clone())).ok();
                read(new).map(|new| repositories::broken_rules(&new, old.and_then(read).as_ref()))
            }
            Some(Ruled::Connection) => {
                let read = |object: &Object| Connection::deserialize(&Value::Object(object.clone())).ok();
                read(new).map(|new| new.broken_rules(old.and_then(read).as_ref()))
            }
            Some(Ruled::Job) => {
                let read = |object: &Object| JobSpec::deserialize(object.get("spec")?).ok();
                read(new).map(|new| jobs::broken_rules(&new, old.and_then(read).as_ref()))
            }
            Some(Ruled::HistoricJob) | None => None,
        };
        // What is no such object was refused by the schema.
        errors.extend(broken.into_iter().flatten().map(Into::into));
    }
}
