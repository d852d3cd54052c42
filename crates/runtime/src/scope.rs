//! Which namespaces a process looks at.

use std::fmt;

use k8s_openapi::NamespaceResourceScope;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource};

/// One namespace, or all of them. Lists and watches go through here, so that a process that is told to keep to one
/// namespace asks for nothing outside it, and needs no right to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every namespace.
    #[default]
    All,
    /// One namespace.
    Namespace(String),
}

impl Scope {
    /// The namespace, or all where there is none.
    pub fn new(namespace: Option<String>) -> Self {
        namespace.filter(|name| !name.is_empty()).map_or(Self::All, Self::Namespace)
    }

    /// The namespace, if it is one.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::Namespace(name) => Some(name),
        }
    }

    /// The objects of a kind in this scope.
    pub fn api<K>(&self, client: Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        match self {
            Self::All => Api::all(client),
            Self::Namespace(name) => Api::namespaced(client, name),
        }
    }
}

impl Scope {
    /// The objects of a kind in this scope that has no type, or one that keeps less than a resource.
    pub fn api_of(&self, client: Client, kind: &ApiResource) -> Api<DynamicObject> {
        match self {
            Self::All => Api::all_with(client, kind),
            Self::Namespace(name) => Api::namespaced_with(client, name, kind),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all namespaces"),
            Self::Namespace(name) => write!(f, "namespace {name}"),
        }
    }
}
