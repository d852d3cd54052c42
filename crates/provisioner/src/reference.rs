//! A node that keeps an object of somebody else's while it is needed.

use async_trait::async_trait;
use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use windlass_runtime::{CallError, add_finalizers, remove_finalizer};

use crate::provisioner::Provisioner;
use crate::resource::reference_to;
use crate::{Outcome, Reason, Scope, Visited, WakeOn};

/// A reference to an object on the local cluster, as a finalizer on it ([`reference`](crate::reference)): a manager does
/// not take its tree down while the reference is there. Put it before what needs the object in a series.
#[derive(Clone, Debug)]
pub struct Reference {
    name: String,
    kind: ApiResource,
    object: (String, String),
    finalizer: String,
}

impl Reference {
    /// A reference by this finalizer to the object `name` in `namespace` (empty for kinds without one).
    pub fn new(
        node: impl Into<String>,
        kind: &ApiResource,
        namespace: impl Into<String>,
        name: impl Into<String>,
        finalizer: impl Into<String>,
    ) -> Self {
        let object = (namespace.into(), name.into());
        Self { name: node.into(), kind: kind.clone(), object, finalizer: finalizer.into() }
    }

    fn api(&self, scope: &Scope) -> Api<DynamicObject> {
        let client = scope.local.client().clone();
        match self.object.0.as_str() {
            "" => Api::all_with(client, &self.kind),
            namespace => Api::namespaced_with(client, namespace, &self.kind),
        }
    }

    fn shown(&self) -> String {
        format!("{} {}/{}", self.kind.kind, self.object.0, self.object.1)
    }

    fn reference(&self) -> WakeOn {
        reference_to(&self.kind, &self.object.0, &self.object.1)
    }

    async fn get(&self, scope: &Scope) -> Result<Option<DynamicObject>, CallError> {
        let api = self.api(scope);
        scope.calls().read(format!("get {}", self.shown()), || api.get_opt(&self.object.1)).await
    }

    fn written(&self, scope: &Scope, written: Result<DynamicObject, CallError>) -> Visited {
        match written {
            Ok(_) => Ok(Outcome::Ready),
            Err(error) if error.is_conflict() => {
                let message = format!("{} is being changed by somebody else", self.shown());
                Ok(Outcome::wait(Reason::NotReady, message).after(std::time::Duration::from_secs(1)))
            }
            Err(error) => Err(scope.local.failed(&format!("refer to {}", self.shown()), error)),
        }
    }
}

#[async_trait]
impl Provisioner<Scope> for Reference {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "reference"
    }

    async fn provision(&self, scope: &Scope) -> Visited {
        scope.memory.follow(&scope.local, &self.reference());
        let found = self.get(scope).await;
        let found = found.map_err(|error| scope.local.failed(&format!("get {}", self.shown()), error))?;
        let Some(found) = found.filter(|found| found.metadata.deletion_timestamp.is_none()) else {
            let message = format!("{} is not there", self.shown());
            return Ok(Outcome::wait(Reason::DependencyNotFound, message).wake_on(self.reference()));
        };
        let names = std::slice::from_ref(&self.finalizer);
        let written = add_finalizers(&self.api(scope), &found, names, scope.calls().clone()).await;
        self.written(scope, written)
    }

    async fn deprovision(&self, scope: &Scope) -> Visited {
        let found = self.get(scope).await;
        let found = found.map_err(|error| scope.local.failed(&format!("get {}", self.shown()), error))?;
        let Some(found) = found else { return Ok(Outcome::Ready) };
        let written =
            remove_finalizer(&self.api(scope), &found, &self.finalizer, scope.calls().clone()).await;
        self.written(scope, written)
    }
}
