//! What the author of a tree implements.

use async_trait::async_trait;

use crate::{Outcome, ProvisionError, Visited};

/// Something that comes up and goes down.
///
/// `S` is the scope: everything that a node may use, handed to each visit. Both directions are **idempotent**, **quick**
/// (they start what takes long and yield), and may make partial progress: a visit may be cancelled at any `await`, and is
/// made again. [`Provisioner::deprovision`] **gates**: it is ready only when the thing is really gone, and it must work
/// however little of the thing was ever made.
#[async_trait]
pub trait Provisioner<S>: Send + Sync {
    /// Unique among its siblings; part of paths, metrics and the status.
    fn name(&self) -> &str;

    /// What it is, for pictures.
    fn kind(&self) -> &'static str {
        "leaf"
    }

    /// What it is in the world: two nodes of one cluster that answer the same are refused when the tree is built.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Brings it up a bit further, or finds that it is up.
    async fn provision(&self, scope: &S) -> Visited;

    /// Takes it down a bit further, or finds that it is gone.
    async fn deprovision(&self, scope: &S) -> Visited;
}

/// Whether a conditional child is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is.
    Present,
    /// It is not: it is removed.
    Absent,
    /// Nobody can tell at present: it is left as it is, for this reason, and its siblings go on.
    Hold(String),
}

/// Decides whether a conditional child is wanted. A closure from the scope to a result is one.
#[async_trait]
pub trait Predicate<S>: Send + Sync {
    /// Whether it is wanted. An error leaves the child as it is.
    async fn presence(&self, scope: &S) -> Result<Presence, ProvisionError>;
}

#[async_trait]
impl<S: Sync, F> Predicate<S> for F
where
    F: Fn(&S) -> Result<Presence, ProvisionError> + Send + Sync,
{
    async fn presence(&self, scope: &S) -> Result<Presence, ProvisionError> {
        self(scope)
    }
}

/// Which way a tree goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Up.
    Provision,
    /// Down.
    Deprovision,
}

/// Where a scoped child is to run.
pub enum Entered<S> {
    /// In this scope.
    Scope(S),
    /// Not yet.
    Wait(Outcome),
    /// Deprovisioning only: nowhere any more, for this reason; its children count as gone.
    Abandoned(String),
}

/// Finds the scope of a child: another cluster, say.
#[async_trait]
pub trait Enter<S>: Send + Sync {
    /// The scope for one visit.
    async fn enter(&self, scope: &S, direction: Direction) -> Result<Entered<S>, ProvisionError>;

    /// Told what the visit in that scope came to.
    fn left(&self, _scope: &S, _visited: &Visited) {}
}
