//! Trees of things that come up and go down, and know why they wait.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")
)]

mod application;
mod manager;
mod node;
mod outcome;
mod provisioner;
mod reference;
mod remote;
mod render;
mod resource;
mod scope;
mod tree;

pub use application::{
    Application, ArgoCd, Catalogue, Desired, Driver, Flux, Generator, HelmApplication, HelmApplicationSpec,
    HelmApplicationVersion, IDENTITY, Identity, InMemory, Parameter, PublishedCatalogue, Registration,
    Source,
};
pub use manager::{
    AVAILABLE, Manager, ManagerError, ManagerOptions, ManagerProvisioner, NODES_SHOWN, REFERENCE_PREFIX,
    reference,
};
pub use node::{
    Graph, Node, concurrent, concurrent_bounded, conditional, leaf, retry_limited, scoped, serial, timeout,
};
pub use outcome::{DEFAULT_YIELD, Disposition, Outcome, ProvisionError, Reason, Visited, WakeOn};
pub use provisioner::{Direction, Enter, Entered, Predicate, Presence, Provisioner};
pub use reference::Reference;
pub use remote::{
    KubeconfigSecret, RemoteCluster, RemoteClusters, RemoteConfig, RemoteOptions, Unreachable, remote_cluster,
};
pub use render::{Edge, NodeView, TreeView};
pub use resource::{FIELD_MANAGER, HASH, OWNER, Readiness, Resource, readiness};
pub use scope::{Cluster, DeletionPolicy, Memory, Owner, Scope, Watches};
pub use tree::{BuildError, NodeState, Observer, State, Tree};
