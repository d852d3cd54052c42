//! Writing the status of the repository that a job works on.

use std::time::Duration;

use kube::{Api, Client};
use windlass_api::{Repository, RepositoryStatus};
use windlass_lease_queue::LeaseGuard;
use windlass_runtime::{CallError, CallOptions, Part, merge_patch};

use crate::worker::{JobError, call_options};

/// How long one write may take.
const WRITE: Duration = Duration::from_secs(10);
/// How often a write that meets a newer version is tried.
const TRIES: usize = 5;

/// The status of one repository, written under a job's lease.
///
/// A write is the difference that `change` makes, guarded by the version it was made from: fields that others write, or
/// that we do not know, survive, and a worker that was overtaken writes nothing.
pub(crate) struct StatusWriter {
    api: Api<Repository>,
    current: Repository,
    options: CallOptions,
}

impl StatusWriter {
    pub(crate) fn new(client: &Client, repository: Repository, lease: &LeaseGuard) -> Self {
        let namespace = repository.metadata.namespace.clone().unwrap_or_default();
        Self {
            api: Api::namespaced(client.clone(), &namespace),
            current: repository,
            options: call_options(lease, WRITE),
        }
    }

    /// The repository as last read or written.
    pub(crate) fn repository(&self) -> &Repository {
        &self.current
    }

    /// Applies `change` to the status and writes what is different; nothing when nothing is.
    pub(crate) async fn write(
        &mut self,
        what: &'static str,
        change: impl Fn(&mut RepositoryStatus, i64),
    ) -> Result<(), JobError> {
        for attempt in 1.. {
            let mut wanted = self.current.status.clone();
            change(&mut wanted, self.current.metadata.generation.unwrap_or_default());
            let Some(patch) = self.current.status.merge_patch(&wanted) else { return Ok(()) };
            match merge_patch(&self.api, &self.current, Part::Status, patch, &self.options).await {
                Ok(written) => {
                    self.current = written;
                    return Ok(());
                }
                Err(conflict) if conflict.is_conflict() && attempt < TRIES => {
                    self.read().await.map_err(|error| JobError::call(what, error))?;
                }
                Err(error) => return Err(JobError::call(what, error)),
            }
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), CallError> {
        let name = self.current.metadata.name.clone().unwrap_or_default();
        let what = format!("read repository {name}");
        self.current = self.options.read(what, || self.api.get(&name)).await?;
        Ok(())
    }
}
