//! What the embedded API server asks of repositories and jobs beyond their definitions: what it fills in, what its
//! settings do not offer, and what does not go together with other objects.
//!
//! [`Provisioning`] is given to the server by the program; the server itself knows none of these kinds. On Kubernetes the
//! definitions' own rules have to do, and controllers say the rest in conditions.

mod jobs;
mod object;
mod repositories;

use async_trait::async_trait;
use windlass_api::GROUP;
use windlass_api::jobs::JobRules;
use windlass_api::repositories::RepositoryRules;
use windlass_apiserver::store::Store;
use windlass_apiserver::{Admission, AdmissionError, Attributes, FieldError};

use self::object::Object;

/// The rules of provisioning kinds, as the settings have them.
#[derive(Debug, Clone, Default)]
pub struct Provisioning {
    /// What jobs may do.
    pub jobs: JobRules,
    /// What repositories may be.
    pub repositories: RepositoryRules,
}

#[async_trait]
impl Admission for Provisioning {
    fn fill_in(&self, write: &Attributes, old: Option<&Object>, new: &mut Object) -> Vec<FieldError> {
        let errors = match kind(write) {
            Some("jobs") => jobs::fill_in(write.caller(), old, new),
            Some("repositories") => {
                repositories::fill_in(&self.repositories, old, new);
                Vec::new()
            }
            _ => Vec::new(),
        };
        errors.into_iter().map(Into::into).collect()
    }

    async fn judge(
        &self,
        write: &Attributes,
        old: Option<&Object>,
        new: &Object,
        store: &dyn Store,
    ) -> Result<Vec<FieldError>, AdmissionError> {
        // Nothing keeps finalizers from coming off.
        let is_deleting =
            new.get("metadata").is_some_and(|metadata| !metadata["deletionTimestamp"].is_null());
        if is_deleting || old.is_some_and(|old| is_same(old, new)) {
            return Ok(Vec::new());
        }
        let errors = match kind(write) {
            Some("jobs") => jobs::judge(&self.jobs, old, new, store).await?,
            Some("repositories") => repositories::judge(&self.repositories, old, new, store).await?,
            _ => Vec::new(),
        };
        Ok(errors.into_iter().map(Into::into).collect())
    }

    /// A repository may not be where another one is.
    fn is_beside_others(&self, write: &Attributes) -> bool {
        kind(write) == Some("repositories")
    }
}

/// The plural of a provisioning kind.
fn kind(write: &Attributes) -> Option<&str> {
    (write.group() == GROUP).then(|| write.resource())
}

/// Whether an update changes nothing that the rules look at.
fn is_same(old: &Object, new: &Object) -> bool {
    ["spec", "secure"].iter().all(|field| old.get(*field) == new.get(*field))
        && ["labels", "finalizers"].iter().all(|field| {
            let of =
                |object: &Object| object.get("metadata").and_then(|metadata| metadata.get(*field)).cloned();
            of(old) == of(new)
        })
}
