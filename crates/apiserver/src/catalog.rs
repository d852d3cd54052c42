//! What is served now.
//!
//! A [`Snapshot`] never changes: a request takes the current one and keeps it. How the catalog follows the stored
//! definitions is in [`crate::settle`].

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::discovery::OpenApi;
use crate::failure::{Failure, Result};
use crate::kinds::{self, Kind, KindError, Registry};

/// Why the definitions that the server was built with are not written by others.
const OWN: &str = "it belongs to Windlass, which serves this kind itself: only its labels and annotations can be \
    changed";

/// One state of what is served.
#[derive(Debug)]
pub(crate) struct Snapshot {
    registry: Registry,
    openapi: OnceLock<OpenApi>,
}

impl std::ops::Deref for Snapshot {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        &self.registry
    }
}

impl Snapshot {
    fn new(registry: Registry) -> Self {
        Self { registry, openapi: OnceLock::new() }
    }

    /// The `OpenAPI` documents, made when they are first asked for.
    pub(crate) fn openapi(&self) -> &OpenApi {
        self.openapi.get_or_init(|| OpenApi::new(&self.registry))
    }
}

/// What is served, swapped as a whole.
#[derive(Debug)]
pub(crate) struct Catalog {
    current: RwLock<Arc<Snapshot>>,
    pub(crate) core: Vec<Arc<Kind>>,
    /// The definitions that the server was built with.
    pub(crate) own: Vec<CustomResourceDefinition>,
    /// Held while names are settled and the kinds swapped. Kinds by the name of their definition, with what they were
    /// made of.
    pub(crate) settling: tokio::sync::Mutex<HashMap<String, (Value, Arc<Kind>)>>,
    changed: tokio::sync::watch::Sender<()>,
}

impl Catalog {
    pub(crate) fn new(own: Vec<CustomResourceDefinition>) -> Result<Self, KindError> {
        let core = kinds::core_kinds()?;
        let mut all = core.clone();
        for definition in &own {
            all.push(Arc::new(kinds::custom_kind(definition)?));
        }
        Ok(Self {
            current: RwLock::new(Arc::new(Snapshot::new(Registry::of(all)?))),
            core,
            own,
            settling: tokio::sync::Mutex::default(),
            changed: tokio::sync::watch::Sender::new(()),
        })
    }

    /// What is served now.
    pub(crate) fn current(&self) -> Arc<Snapshot> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the server was built with the definition of this name.
    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.own.iter().any(|definition| definition.metadata.name.as_deref() == Some(name))
    }

    /// Told whenever something else is served.
    pub(crate) fn changes(&self) -> tokio::sync::watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Refuses to touch a definition that the server was built with.
    pub(crate) fn check_own(&self, kind: &Kind, name: &str) -> Result<()> {
        if self.is_own(name) { Err(Failure::forbidden(kind, name, OWN)) } else { Ok(()) }
    }

    /// Serves something else from now on.
    pub(crate) fn swap(&self, registry: Registry) {
        let snapshot = Arc::new(Snapshot::new(registry));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
        self.changed.send_replace(());
    }
}
