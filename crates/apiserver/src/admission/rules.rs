//! The rules that our definitions state in CEL, as the embedded server holds them: see `windlass_api::rules`.

use std::time::Duration;

use serde::Deserialize as _;
use serde_json::Value;
use windlass_api::{Connection, JobSpec, Repository, jobs, repositories};

use super::{Object, Ruled};
use crate::failure::{Failure, FieldError, Result};
use crate::verbs::Context;
use windlass_apimachinery::metadata;

/// How long the rules of a definition may take over one object.
const EVALUATED_WITHIN: Duration = Duration::from_secs(2);

impl Context {
    /// Adds what the kind's rules refuse to what its schema has refused, as kube-apiserver does: after an error that
    /// leaves the rules nothing to look at, it says so instead.
    pub(crate) async fn check_rules(
        &self,
        old: Option<&Object>,
        new: &Object,
        errors: &mut Vec<FieldError>,
    ) -> Result<()> {
        let kind = &*self.target.served.kind;
        let ruled = Ruled::of(kind);
        if ruled == Some(Ruled::Repository)
            && old.is_none()
            && metadata::text(new, "name").len() > repositories::MAX_NAME_LENGTH
        {
            errors.insert(0, FieldError::too_long("metadata.name", repositories::MAX_NAME_LENGTH as u64));
        }
        if errors.iter().any(FieldError::blocks_rules) {
            if self.target.served.served().schema.has_rules() {
                errors.push(FieldError::rules_not_checked());
            }
            return Ok(());
        }
        let Some(ruled) = ruled else { return self.check_cel(old, new, errors).await };
        // What an update leaves alone is let through, whatever it is.
        if old.is_some_and(|old| ["spec", "secure"].iter().all(|field| old.get(*field) == new.get(*field))) {
            return Ok(());
        }
        let broken = match ruled {
            Ruled::Repository => {
                let read = |object: &Object| Repository::deserialize(&Value::Object(object.clone())).ok();
                read(new).map(|new| repositories::broken_rules(&new, old.and_then(read).as_ref()))
            }
            Ruled::Connection => {
                let read = |object: &Object| Connection::deserialize(&Value::Object(object.clone())).ok();
                read(new).map(|new| new.broken_rules(old.and_then(read).as_ref()))
            }
            Ruled::Job => {
                let read = |object: &Object| JobSpec::deserialize(object.get("spec")?).ok();
                read(new).map(|new| jobs::broken_rules(&new, old.and_then(read).as_ref()))
            }
            Ruled::HistoricJob => None,
        };
        // What is no such object was refused by the schema.
        errors.extend(broken.into_iter().flatten().map(Into::into));
        Ok(())
    }

    /// As [`Self::check_rules`], of a kind whose rules are known as CEL alone: on a thread that may be blocked.
    async fn check_cel(
        &self,
        old: Option<&Object>,
        new: &Object,
        errors: &mut Vec<FieldError>,
    ) -> Result<()> {
        let served = self.target.served.clone();
        if served.kind.builtin.is_some() || !served.served().schema.has_rules() {
            return Ok(());
        }
        let _turn = self.inner.evaluating.acquire().await;
        let (new, old) = (new.clone(), old.cloned());
        let check = move || served.served().schema.check_rules(&new, old.as_ref(), EVALUATED_WITHIN);
        let broken = tokio::task::spawn_blocking(check).await;
        errors.extend(broken.map_err(|error| Failure::internal(&error))?);
        Ok(())
    }
}
