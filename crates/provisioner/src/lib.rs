//! Trees of things that come up and go down, and know why they wait.
//!
//! # Why
//!
//! An operator that brings up more than one object is soon a state machine: which step is next, what has to be awaited,
//! what must go first on the way down, and what of it there is when the process is killed in the middle. Here it is a
//! **tree**. Its leaves each know one thing; how they are put together says the order; a pass over it starts what can be
//! started and tells what it waits for. Nothing is remembered that decides what is done: every pass looks at the world
//! again, so that it can be cut short anywhere.
//!
//! ```text
//! site (serial): provisioning, NotReady: StatefulSet demo/database: 0 of 1 replicas are ready
//! ├─ namespace (resource): ready
//! └─ inside (graph): provisioning, NotReady: StatefulSet demo/database: 0 of 1 replicas are ready
//!    ├─ database (resource): provisioning, NotReady: StatefulSet demo/database: 0 of 1 replicas are ready
//!    ├─ dashboard (conditional): absent, NotWanted
//!    │  └─ page (resource): gone
//!    └─ second (serial): pending, Blocked: waits for database
//!       ├─ registration (registration): pending
//!       └─ on (scoped): pending
//!          └─ shop (application): pending
//! ```
//!
//! # The contract
//!
//! A [`Provisioner`] has a name and two operations, [`provision`](Provisioner::provision) and
//! [`deprovision`](Provisioner::deprovision). Both are **idempotent** and **quick**, and may make partial progress.
//! Deprovisioning **gates**: it is ready only when the thing is really gone. An operation comes to
//!
//! - [`Outcome::Ready`]: it is up, or gone;
//! - [`Outcome::Yield`]: it is under way. It says why, when to come back at the latest (ten seconds), and which objects'
//!   changes to come back for at once;
//! - a [`ProvisionError`], whose [`Disposition`] says who has to do something: nobody (it is tried again after a
//!   back-off), the user, or whoever runs the system. Its [`Reason`] is one of a closed list and its message is for the
//!   status; what other systems said is its source, and reaches logs alone.
//!
//! Everything that a node may use is in its scope, an argument; the tree itself is generic over it and knows no
//! Kubernetes. Over API servers it is [`Scope`]: the local cluster, the target, the owner, the deletion policy.
//!
//! # The nodes
//!
//! | node | up | down |
//! | --- | --- | --- |
//! | [`serial`] | one after the other, each once the one before it is up | in the reverse order |
//! | [`concurrent()`] | all at once, with a bound or without; none is cancelled, the worst outcome wins, of equals the first child's; a panic is an error of its child | the same |
//! | [`conditional`] | present: up; absent: removed; on hold: left as it is | removed, whatever the predicate says |
//! | [`Graph`] | by its `after` edges | by its `before` edges, else in reverse |
//! | [`retry_limited`] | so many failures, then parked until the object changes | never given up |
//! | [`timeout`] | waiting too long is an error | the same |
//! | [`scoped`] | in another scope | the same |
//! | [`Resource`] | applied, set back when it drifts, awaited | deleted by UID and awaited |
//! | [`Reference`] | a finalizer on somebody else's object | taken off |
//! | [`remote_cluster`] | registered, then its children on that cluster | its children, then the registration |
//! | [`Application`] | a catalogue's application by [`Flux`], [`ArgoCd`] or [`InMemory`] | removed, without asking the catalogue |
//!
//! A graph is for orders that differ: the network of a cluster goes in while its machines boot, and yet has to go before
//! them.
//!
//! ```
//! # use windlass_provisioner::{Graph, Node, Tree};
//! # use async_trait::async_trait;
//! # use windlass_provisioner::{Outcome, Provisioner, Visited, leaf};
//! struct Part(&'static str);
//!
//! #[async_trait]
//! impl Provisioner<()> for Part {
//!     fn name(&self) -> &str {
//!         self.0
//!     }
//!
//!     async fn provision(&self, _scope: &()) -> Visited {
//!         Ok(Outcome::Ready)
//!     }
//!
//!     async fn deprovision(&self, _scope: &()) -> Visited {
//!         Ok(Outcome::Ready)
//!     }
//! }
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let cluster = Graph::new("cluster")
//!     .child(leaf(Part("machines")))
//!     .child(leaf(Part("network")))
//!     .before("network", "machines")
//!     .node();
//! let tree = Tree::new(cluster)?;
//! assert!(tree.provision(&()).await.is_ok_and(|outcome| outcome.is_ready()));
//! assert_eq!(
//!     tree.render(),
//!     "cluster (graph): ready\n├─ machines (leaf): ready\n└─ network (leaf): ready\n"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each node on its way up, as [`Tree::render`] draws it: its state, the reason if it is not settled, and what a person would
//! want to know.
//!
//! ```
//! # use std::time::Duration;
//! # use async_trait::async_trait;
//! # use windlass_provisioner::{
//! #     Direction, Enter, Entered, Graph, Node, Outcome, Presence, ProvisionError, Provisioner, Reason, Tree, Visited,
//! #     concurrent, conditional, leaf, retry_limited, scoped, serial, timeout,
//! # };
//! # struct Part(&'static str, fn() -> Visited);
//! # #[async_trait]
//! # impl Provisioner<()> for Part {
//! #     fn name(&self) -> &str { self.0 }
//! #     async fn provision(&self, _scope: &()) -> Visited { (self.1)() }
//! #     async fn deprovision(&self, _scope: &()) -> Visited { Ok(Outcome::Ready) }
//! # }
//! # fn up(name: &'static str) -> Node<()> { leaf(Part(name, || Ok(Outcome::Ready))) }
//! # fn waits(name: &'static str) -> Node<()> {
//! #     leaf(Part(name, || Ok(Outcome::wait(Reason::NotReady, "0 of 1 replicas"))))
//! # }
//! # fn fails(name: &'static str) -> Node<()> {
//! #     leaf(Part(name, || Err(ProvisionError::retry(Reason::Failed, "no disk"))))
//! # }
//! # struct Elsewhere;
//! # #[async_trait]
//! # impl Enter<()> for Elsewhere {
//! #     async fn enter(&self, _scope: &(), _direction: Direction) -> Result<Entered<()>, ProvisionError> {
//! #         Ok(Entered::Wait(Outcome::wait(Reason::DependencyNotReady, "there is no kubeconfig yet")))
//! #     }
//! # }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # let after_one_pass = |node: Node<()>| {
//! #     let tree = Tree::new(node).unwrap();
//! #     let _ = runtime.block_on(tree.provision(&()));
//! #     tree.render()
//! # };
//! assert_eq!(after_one_pass(serial("cluster", [up("network"), waits("machines"), up("balancer")])), "\
//! cluster (serial): provisioning, NotReady: 0 of 1 replicas
//! ├─ network (leaf): ready
//! ├─ machines (leaf): provisioning, NotReady: 0 of 1 replicas
//! └─ balancer (leaf): pending
//! ");
//!
//! assert_eq!(after_one_pass(concurrent("cluster", [fails("machines"), waits("network"), up("names")])), "\
//! cluster (concurrent): errored, Failed: no disk [failed 1 times]
//! ├─ machines (leaf): errored, Failed: no disk [failed 1 times]
//! ├─ network (leaf): provisioning, NotReady: 0 of 1 replicas
//! └─ names (leaf): ready
//! ");
//!
//! let graph = Graph::new("cluster").child(up("machines")).child(waits("network")).child(up("balancer"));
//! assert_eq!(after_one_pass(graph.after("balancer", "network").node()), "\
//! cluster (graph): provisioning, NotReady: 0 of 1 replicas
//! ├─ machines (leaf): ready
//! ├─ network (leaf): provisioning, NotReady: 0 of 1 replicas
//! └─ balancer (leaf): pending, Blocked: waits for network
//! ");
//!
//! assert_eq!(after_one_pass(conditional("wanted", |_: &()| Ok(Presence::Absent), up("page"))), "\
//! wanted (conditional): absent, NotWanted
//! └─ page (leaf): gone
//! ");
//! let unknown = |_: &()| Ok(Presence::Hold("the flag cannot be read".to_owned()));
//! assert_eq!(after_one_pass(conditional("wanted", unknown, up("page"))), "\
//! wanted (conditional): held, Held: the flag cannot be read
//! └─ page (leaf): pending
//! ");
//!
//! assert_eq!(after_one_pass(retry_limited("once", 1, fails("job"))), "\
//! once (retry-limited): errored, RetriesExhausted: job failed 1 times; it is tried again when the object changes [failed 1 times]
//! └─ job (leaf): errored, Failed: no disk [failed 1 times]
//! ");
//!
//! assert_eq!(after_one_pass(timeout("soon", Duration::ZERO, waits("machines"))), "\
//! soon (timeout): errored, TimedOut: machines took longer than 0ns: 0 of 1 replicas [failed 1 times]
//! └─ machines (leaf): provisioning, NotReady: 0 of 1 replicas
//! ");
//!
//! assert_eq!(after_one_pass(scoped("second", Elsewhere, up("shop"))), "\
//! second (scoped): provisioning, DependencyNotReady: there is no kubeconfig yet
//! └─ shop (leaf): pending
//! ");
//! ```
//!
//! [`Resource`], [`remote_cluster`] (a registration, and a scope for what is on the cluster) and [`Application`] are in the
//! picture at the top; a [`Reference`] to what is not there yet is
//! `shop (reference): provisioning, DependencyNotFound: Site demo/shop is not there`.
//!
//! The status of an owner shows its tree; [`TreeView::of_status`] reads it back, and `windlass why PLURAL.GROUP/NAME` says
//! from it which leaf holds up what.
//!
//! [`Tree::new`] refuses what cannot work: two children of one name, two nodes about one object, edges to nobody, and
//! circles. [`TreeView::mermaid`] and [`TreeView::graphviz`] draw the same picture for documents.
//!
//! # Objects that own a tree
//!
//! A [`Manager`] is the controller around it: implement [`ManagerProvisioner`] for your kind and run it. It holds each
//! object by a finalizer, writes the condition `Available` (reasons `Provisioning`, `Provisioned`, `Errored`,
//! `Deprovisioning`, `Deprovisioned`) and `status.provisioning.nodes`, records Events and `provisioner_node_seconds`, and
//! is woken by watches of what its trees are about: a settled tree costs no request, and what was changed by hand is set
//! back when the watch says so.
//!
//! The definition of your kind needs a status sub-resource, and a schema that keeps `status.conditions`,
//! `status.observedGeneration` and `status.provisioning`.
//!
//! **What has to be known.** The tree is a function of the object: what may be wanted or not is a [`conditional`], not a
//! node that is sometimes left out, since nobody removes a node that is not there. Hooks of a [`Generator`] run once for each generation
//! of the owner and once more after a restart of the process. An object that somebody makes between our look and our
//! first apply of the same name keeps what it says where we say something else, and is ours where it does not.
//!
//! # Testing a tree
//!
//! A tree is a value: hand it a scope, make a pass, and look at [`Tree::states`] or the picture. Over an API server in
//! process (`windlass-apiserver`) that takes no cluster:
//!
//! ```
//! # use std::time::Duration;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::core::ApiResource;
//! # use serde_json::json;
//! # use windlass_apiserver::ApiServer;
//! # use windlass_apiserver::store::{StoreOptions, in_memory};
//! # use windlass_provisioner::{Cluster, Owner, Resource, Scope, Tree, leaf};
//! # use windlass_runtime::CallOptions;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let server = ApiServer::builder(in_memory(&StoreOptions::default())?).build()?;
//! let cluster = Cluster::local(server.client_for_tests(), CallOptions::new(Duration::from_secs(10)));
//! let scope = Scope::new(cluster, Owner { uid: "of-a-test".to_owned(), ..Owner::default() });
//!
//! let map = json!({"metadata": {"name": "colours", "namespace": "default"}, "data": {"sky": "blue"}});
//! let tree = Tree::new(leaf(Resource::new("colours", &ApiResource::erase::<ConfigMap>(&()), map)))?;
//! assert!(tree.provision(&scope).await?.is_ready());
//! assert_eq!(tree.render(), "colours (resource): ready\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **A leaf by itself**: its `provision` and `deprovision` are plain functions of a scope. Write what it is not allowed to
//!   do wrong: called twice, called after half of it was done, called when there is nothing.
//! - **What it waits for**: write the status that the controller in question would write, make another pass, and the node is
//!   ready. [`Tree::states`] says which leaf holds up what.
//! - **A [`Manager`]**: run it against the same server, with a back-off of some milliseconds, create an owner, and wait for
//!   the condition `Available`. `examples/site.rs` is a whole operator that runs that way.
//! - **Applications**: [`InMemory`] is a driver that remembers what it was asked for.
//!
//! What holds for every tree (order, one visit for each, no influence of who is first, nothing left behind, deletion at any
//! moment) is tested by this crate over random trees; what is left for you is your leaves, one by one.

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
pub mod util;

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
pub use scope::{Cluster, DeletionPolicy, Memory, Observation, Owner, Scope, Watches};
pub use tree::{BuildError, NodeState, Observer, State, Tree};

#[cfg(test)]
mod tests {
    #[test]
    fn trees_know_no_kubernetes_client() {
        let core = [
            include_str!("node.rs"),
            include_str!("outcome.rs"),
            include_str!("provisioner.rs"),
            include_str!("render.rs"),
            include_str!("tree.rs"),
            include_str!("tree/build.rs"),
            include_str!("tree/run.rs"),
            include_str!("tree/state.rs"),
        ];
        for name in ["kube::", "k8s_openapi::", "windlass_runtime::", "crate::scope"] {
            assert!(core.iter().all(|text| !text.contains(name)), "{name}");
        }
    }
}
