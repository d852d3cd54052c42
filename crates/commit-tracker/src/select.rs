//! Which Kustomizations are tracked.

use kube::core::DynamicObject;
use kube::{Api, Client};
use windlass_runtime::{Scope, WatchConfig};
use windlass_settings::Selection;

use crate::objects::Kustomization;

/// How many objects a page of a list holds: as a rule all there are. They are read one by one while they arrive, so that
/// a large page takes no more memory than a small one, and only a first page never comes from etcd.
pub(crate) const PAGE: u32 = 20_000;

/// What to do where a kind of Flux's is not served.
pub(crate) const INSTALL_FLUX: &str = "install Flux, or a version of it that has this kind (flux install)";

/// The Kustomizations that are tracked.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    selection: Selection,
    /// The namespaces that they are in.
    pub(crate) scope: Scope,
}

impl Selected {
    pub(crate) fn new(selection: Selection, namespace: Option<String>) -> Self {
        let scope = match &selection {
            Selection::One { namespace, .. } => Scope::Namespace(namespace.clone()),
            Selection::Labels(_) | Selection::All => Scope::new(namespace),
        };
        Self { selection, scope }
    }

    /// Where they are listed and watched, and how.
    pub(crate) fn watched(&self, client: Client) -> (Api<DynamicObject>, WatchConfig) {
        let mut config =
            WatchConfig { page_size: PAGE, remedy: INSTALL_FLUX, ..WatchConfig::new("kustomizations") };
        match &self.selection {
            Selection::One { name, .. } => config.fields = Some(format!("metadata.name={name}")),
            Selection::Labels(selector) => config.labels = Some(selector.clone()),
            Selection::All => {}
        }
        (self.scope.api_of(client, &Kustomization::resource()), config)
    }

    /// Whether a Kustomization that is not among them cannot exist.
    pub(crate) fn is_everything(&self) -> bool {
        self.selection == Selection::All && self.scope == Scope::All
    }
}

impl std::fmt::Display for Selected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.selection {
            Selection::One { namespace, name } => write!(f, "Kustomization {namespace}/{name}"),
            Selection::Labels(selector) => write!(f, "Kustomizations with {selector} in {}", self.scope),
            Selection::All => write!(f, "Kustomizations in {}", self.scope),
        }
    }
}
