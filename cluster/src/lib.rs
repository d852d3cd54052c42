//! A real Kubernetes control plane as plain processes: etcd, kube-apiserver, and kube-controller-manager with its
//! garbage collector and namespace controller.
//!
//! Start at [`Cluster`]: [`Cluster::shared`] is the one of a test run, [`Cluster::own`] one that a test may stop, pause
//! and break. [`Namespace`] gives each test a place of its own and identities with exactly the rights that `deploy/`
//! grants. [`Flux`] is Flux's kustomize-controller beside it. [`Program`] finds or builds the programs; the
//! `windlass-cluster` binary keeps the processes, so that nothing stays behind when whoever asked for them is killed.
//!
//! [`Registry`] is an OCI registry as a process, for tests that read artifacts; [`TlsFront`] puts TLS before any server.
//!
//! It knows our definitions and nothing else of ours: what runs against the cluster is the callers' business.

mod certificates;
mod cluster;
mod definitions;
mod etcd;
mod flux;
mod folders;
mod go_program;
mod identity;
mod keeper;
mod launch;
mod namespace;
mod own;
mod ports;
mod programs;
mod registry;
mod scripts;
mod standing;
mod start;
mod state;
pub mod supervisor;
mod tls_front;

pub use self::certificates::ServingCertificate;
pub use self::cluster::Cluster;
pub use self::etcd::Etcd;
pub use self::flux::Flux;
pub use self::folders::{built_program, cache_dir, in_ci};
pub use self::go_program::go_program;
pub use self::identity::Identity;
pub use self::launch::Options;
pub use self::namespace::Namespace;
pub use self::own::OwnCluster;
pub use self::ports::free_ports;
pub use self::programs::{Program, Programs};
pub use self::registry::{Registry, RegistryLogin};
pub use self::scripts::Script;
pub use self::standing::{Standing, down, status, up};
pub use self::tls_front::{Admitted, TlsFront};

/// The variable that names the folder of a running cluster that tests are to use.
pub const VARIABLE: &str = "WINDLASS_CLUSTER";
