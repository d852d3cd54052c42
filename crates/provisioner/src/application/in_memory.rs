//! Applications that are only remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use secrecy::SecretString;

use super::driver::{Desired, Driver, Identity, ambiguous};
use crate::{Outcome, ProvisionError, Reason, Scope, Visited};

/// A driver for tests: applications are up once [`InMemory::finish`] says so, and gone at once.
#[derive(Debug, Default)]
pub struct InMemory {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    applications: BTreeMap<Identity, Desired>,
    finished: BTreeSet<String>,
    clusters: BTreeSet<String>,
}

impl InMemory {
    /// The application of this name is up from now on.
    pub fn finish(&self, application: &str) {
        self.lock().finished.insert(application.to_owned());
    }

    /// What was asked for, by the application's name.
    pub fn applications(&self) -> BTreeMap<String, Desired> {
        let inner = self.lock();
        inner
            .applications
            .iter()
            .map(|(identity, desired)| (identity.name.clone(), desired.clone()))
            .collect()
    }

    /// The clusters that are known.
    pub fn clusters(&self) -> BTreeSet<String> {
        self.lock().clusters.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Driver for InMemory {
    async fn apply(&self, scope: &Scope, identity: &Identity, desired: &Desired) -> Visited {
        let mut inner = self.lock();
        let same: Vec<String> = inner
            .applications
            .keys()
            .filter(|known| known.key == identity.key && known.name != identity.name)
            .map(|known| known.name.clone())
            .collect();
        if !same.is_empty() {
            return Err(ambiguous(identity, &same));
        }
        if !scope.target.is_local() && !inner.clusters.contains(scope.target.id()) {
            let message = format!("cluster {} is not registered", scope.target.id());
            return Err(ProvisionError::retry(Reason::DependencyNotFound, message));
        }
        inner.applications.insert(identity.clone(), desired.clone());
        if inner.finished.contains(&identity.name) {
            return Ok(Outcome::Ready);
        }
        Ok(Outcome::wait(Reason::NotReady, format!("{} is being deployed", identity.name)))
    }

    async fn delete(&self, _scope: &Scope, identity: &Identity) -> Visited {
        self.lock().applications.remove(identity);
        Ok(Outcome::Ready)
    }

    async fn register(&self, _scope: &Scope, cluster: &str, _kubeconfig: &SecretString) -> Visited {
        self.lock().clusters.insert(cluster.to_owned());
        Ok(Outcome::Ready)
    }

    async fn unregister(&self, _scope: &Scope, cluster: &str) -> Visited {
        self.lock().clusters.remove(cluster);
        Ok(Outcome::Ready)
    }
}
