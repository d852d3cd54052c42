//! What is filled in and refused beyond a schema: jobs, repositories, secret values, and the core kinds.

mod core;
mod events;
mod jobs;
mod repositories;
mod rules;
mod secrets;

use serde_json::{Map, Value};
use tokio::sync::OwnedMutexGuard;
use windlass_api::GROUP;
use windlass_api::jobs::JobRules;
use windlass_api::repositories::RepositoryRules;

pub(crate) use self::core::{default as default_core, validate as validate_core};
pub(crate) use self::secrets::{
    Withheld, check_types as check_secret_types, owned as owned_secrets,
    remove_missing as remove_missing_secrets, take as take_secrets, withhold,
};
use crate::failure::Result;
use crate::kinds::{Builtin, Kind};
use crate::request::Part;
use crate::verbs::Context;

/// What admission lets through.
#[derive(Debug, Clone, Default)]
pub struct AdmissionRules {
    /// What jobs may do.
    pub jobs: JobRules,
    /// What repositories may be.
    pub repositories: RepositoryRules,
}

type Object = Map<String, Value>;

/// The provisioning kinds that have rules of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ruled {
    Repository,
    Connection,
    Job,
    HistoricJob,
}

impl Ruled {
    fn of(kind: &Kind) -> Option<Self> {
        if kind.group != GROUP {
            return None;
        }
        match kind.plural.as_str() {
            "repositories" => Some(Self::Repository),
            "connections" => Some(Self::Connection),
            "jobs" => Some(Self::Job),
            "historicjobs" => Some(Self::HistoricJob),
            _ => None,
        }
    }
}

impl Context {
    /// Fills in what the server decides, before anything is validated.
    pub(crate) fn admit(&self, old: Option<&Object>, new: &mut Object) -> Result<()> {
        let kind = &*self.target.served.kind;
        match (kind.builtin, Ruled::of(kind)) {
            (Some(builtin), _) => {
                let finalizers = (self.target.part == Part::Finalize).then(|| new.get("spec").cloned());
                core::fill_in(builtin, old, new);
                if let Some(spec) = finalizers {
                    core::finalize(spec, new);
                }
                if builtin == Builtin::Definition {
                    self.keep_own(old, new)?;
                }
            }
            (None, Some(Ruled::Job)) => jobs::admit(kind, &self.caller, old, new)?,
            (None, Some(Ruled::Repository)) => {
                repositories::admit(&self.inner.rules.repositories, old, new);
            }
            _ => {}
        }
        Ok(())
    }

    /// Refuses what depends on settings and on other objects, after schema and rules have let the object through.
    pub(crate) async fn validate(&self, old: Option<&Object>, new: &Object) -> Result<()> {
        let kind = &*self.target.served.kind;
        if kind.builtin == Some(Builtin::Event) {
            let errors = events::validate(&self.target.served.served().group, old, new);
            return self.fail_on(errors, windlass_apimachinery::metadata::text(new, "name"));
        }
        let Some(ruled) = Ruled::of(kind) else { return Ok(()) };
        if windlass_apimachinery::metadata::is_deleting(new)
            || old.is_some_and(|old| same_but_status(old, new))
        {
            return Ok(());
        }
        let errors = match ruled {
            Ruled::Job => jobs::validate(self, old, new).await?,
            Ruled::Connection | Ruled::HistoricJob => Vec::new(),
            Ruled::Repository => repositories::validate(self, old, new).await?,
        };
        let errors = errors.into_iter().map(Into::into).collect();
        self.fail_on(errors, windlass_apimachinery::metadata::text(new, "name"))
    }

    /// Repositories are judged beside one another: between judging one and storing it, no other may come.
    pub(crate) async fn neighbours(&self, kind: &Kind) -> Option<OwnedMutexGuard<()>> {
        if Ruled::of(kind) == Some(Ruled::Repository) && !self.target.is_status() {
            Some(self.inner.neighbours.clone().lock_owned().await)
        } else {
            None
        }
    }
}

/// Whether an update changes nothing that the rules look at.
fn same_but_status(old: &Object, new: &Object) -> bool {
    ["spec", "secure"].iter().all(|field| old.get(*field) == new.get(*field))
        && ["labels", "finalizers"].iter().all(|field| {
            let of =
                |object: &Object| object.get("metadata").and_then(|metadata| metadata.get(*field)).cloned();
            of(old) == of(new)
        })
}
