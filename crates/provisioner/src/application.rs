//! A node that is an application, deployed by somebody else: Flux, Argo CD, or memory in tests.

mod argocd;
mod catalogue;
mod driver;
mod flux;
mod in_memory;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

pub use self::argocd::ArgoCd;
pub use self::catalogue::{
    Catalogue, HelmApplication, HelmApplicationSpec, HelmApplicationVersion, Parameter, PublishedCatalogue,
};
pub use self::driver::{Desired, Driver, IDENTITY, Identity, Registration, Source};
pub use self::flux::Flux;
pub use self::in_memory::InMemory;
use crate::provisioner::Provisioner;
use crate::{Direction, Outcome, ProvisionError, Reason, Scope, Visited};

/// What an owner adds to an application of the catalogue. Every method has a default. A version is as the catalogue writes
/// it, also where a range of versions was asked for.
#[async_trait]
pub trait Generator: Send + Sync {
    /// The release's name, instead of the catalogue's.
    async fn release(&self, _scope: &Scope, _version: &str) -> Result<Option<String>, ProvisionError> {
        Ok(None)
    }

    /// Parameters, in order. They win over the catalogue's; a name that is here twice is refused.
    async fn parameters(&self, _scope: &Scope, _version: &str) -> Result<Vec<Parameter>, ProvisionError> {
        Ok(Vec::new())
    }

    /// Values, as a chart's `values.yaml`.
    async fn values(&self, _scope: &Scope, _version: &str) -> Result<Option<Value>, ProvisionError> {
        Ok(None)
    }

    /// Labels of the namespace.
    async fn namespace_labels(&self, _scope: &Scope) -> Result<BTreeMap<String, String>, ProvisionError> {
        Ok(BTreeMap::new())
    }

    /// Whether an application that is up and works badly is up.
    fn allows_degraded(&self) -> bool {
        false
    }

    /// After the application is up: once for each generation of the owner, and once more after a restart of the process.
    async fn after_provision(&self, _scope: &Scope) -> Visited {
        Ok(Outcome::Ready)
    }

    /// Before the application is removed: once for each generation of the owner, and once more after a restart.
    async fn before_deprovision(&self, _scope: &Scope) -> Visited {
        Ok(Outcome::Ready)
    }
}

/// A generator that adds nothing.
struct Plain;

#[async_trait]
impl Generator for Plain {}

/// An application of a catalogue, at a version or the highest one in a range of versions
/// ([`HelmApplicationSpec::version`]). A range is looked up at every visit: what is published later and is higher is
/// deployed, and what is taken back makes way for the highest one that is left. There being none is `VersionNotFound`.
///
/// Its identity is the owner's UID, the application's name and the cluster, so that its removal asks no catalogue: what
/// was taken out of it can still be removed.
pub struct Application {
    name: String,
    wanted: String,
    version: String,
    namespace: Option<String>,
    catalogue: Arc<dyn Catalogue>,
    driver: Arc<dyn Driver>,
    generator: Arc<dyn Generator>,
}

impl Application {
    /// The application `application` at `version`, such as `1.2.3` or `^1.2`, deployed by `driver`.
    pub fn new(
        node: impl Into<String>,
        application: impl Into<String>,
        version: impl Into<String>,
        catalogue: Arc<dyn Catalogue>,
        driver: Arc<dyn Driver>,
    ) -> Self {
        Self {
            name: node.into(),
            wanted: application.into(),
            version: version.into(),
            namespace: None,
            catalogue,
            driver,
            generator: Arc::new(Plain),
        }
    }

    /// In this namespace, whatever the catalogue says.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// With what this adds.
    #[must_use]
    pub fn generated_by(mut self, generator: Arc<dyn Generator>) -> Self {
        self.generator = generator;
        self
    }

    fn identity(&self, scope: &Scope) -> Identity {
        Identity::new(&self.wanted, [("owner", scope.owner.uid.as_str()), ("cluster", scope.target.id())])
    }

    async fn desired(&self, scope: &Scope) -> Result<Desired, ProvisionError> {
        let spec = self.catalogue.find(scope, &self.wanted).await?;
        let version = spec.version(&self.version).ok_or_else(|| {
            let message = format!("the catalogue has no version {} of {}", self.version, self.wanted);
            ProvisionError::user_action(Reason::VersionNotFound, message)
        })?;
        let (generator, found) = (&self.generator, version.version.as_str());
        let added = generator.parameters(scope, found).await?;
        Ok(Desired {
            source: version.source()?,
            release: generator.release(scope, found).await?.or_else(|| version.release.clone()),
            parameters: merged(&version.parameters, &added)?,
            values: generator.values(scope, found).await?,
            namespace: self
                .namespace
                .clone()
                .or_else(|| version.namespace.clone())
                .unwrap_or_else(|| "default".to_owned()),
            namespace_labels: generator.namespace_labels(scope).await?,
            create_namespace: version.create_namespace,
            server_side_apply: version.server_side_apply,
            allow_degraded: generator.allows_degraded(),
        })
    }

    /// Runs a hook unless it has run for this generation.
    async fn hook(&self, scope: &Scope, direction: Direction) -> Visited {
        // Of the owner's memory: the tree is made anew for less than a new generation.
        let (hook, generation) = ((self.identity(scope).key, direction), scope.owner.generation);
        if scope.memory.has_hooked(&hook, generation) {
            return Ok(Outcome::Ready);
        }
        let visited = match direction {
            Direction::Provision => self.generator.after_provision(scope).await?,
            Direction::Deprovision => self.generator.before_deprovision(scope).await?,
        };
        if visited.is_ready() {
            scope.memory.hooked(hook, generation);
        }
        Ok(visited)
    }
}

#[async_trait]
impl Provisioner<Scope> for Application {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "application"
    }

    fn identity(&self) -> Option<String> {
        Some(format!("application {}", self.wanted))
    }

    async fn provision(&self, scope: &Scope) -> Visited {
        let desired = self.desired(scope).await?;
        match self.driver.apply(scope, &self.identity(scope), &desired).await? {
            Outcome::Ready => self.hook(scope, Direction::Provision).await,
            waits @ Outcome::Yield { .. } => Ok(waits),
        }
    }

    async fn deprovision(&self, scope: &Scope) -> Visited {
        match self.hook(scope, Direction::Deprovision).await? {
            Outcome::Ready => self.driver.delete(scope, &self.identity(scope)).await,
            waits @ Outcome::Yield { .. } => Ok(waits),
        }
    }
}

/// The catalogue's parameters with those of the generator over them: in order, each name once.
fn merged(catalogue: &[Parameter], generated: &[Parameter]) -> Result<Vec<Parameter>, ProvisionError> {
    for list in [catalogue, generated] {
        let mut names = BTreeSet::new();
        if let Some(twice) = list.iter().find(|parameter| !names.insert(&parameter.name)) {
            let message = format!("the parameter {} is given twice", twice.name);
            return Err(ProvisionError::user_action(Reason::DuplicateParameter, message));
        }
    }
    let mut all = catalogue.to_vec();
    for parameter in generated {
        match all.iter_mut().find(|known| known.name == parameter.name) {
            Some(known) => known.clone_from(parameter),
            None => all.push(parameter.clone()),
        }
    }
    Ok(all)
}
