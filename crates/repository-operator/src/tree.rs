//! A repository as a tree: what it needs before its source can be asked, and what has to be done before it goes. Grafana:
//! `controller/token_refresh.go`, `controller/webhook.go`, `controller/finalizers.go`.
//!
//! ```text
//! repository (serial)
//! ├─ finalizers (leaf)
//! ├─ remove-orphan-resources (leaf)
//! ├─ release-orphan-resources (leaf)
//! ├─ token (leaf)
//! ├─ inspection (leaf)
//! ├─ cleanup (leaf): the webhook
//! └─ remove-pending-jobs (leaf)
//! ```
//!
//! Up, each node does what the plan says is due of it, and writes into [`Applied`] what that came to. One that yields ends
//! the pass: there is no token to ask with, or the repository is another one now.
//!
//! It goes down in the reverse order: no new work, then nothing of the provider's, then the resources. Each finalizer is
//! taken off when it is done, so that a pass that was cut short does not begin again; names that are not ours are left to
//! their owners. The Secrets of token and webhook are the repository's own and go with it.

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tracing::Instrument as _;
use windlass_api::finalizers;
use windlass_provisioner::{Outcome, ProvisionError, Provisioner, Reason, Tree, Visited, leaf, serial};
use windlass_runtime::{ObjectKey, add_finalizers};

use crate::applied::Applied;
use crate::bring_up::{BringUp, TokenWanted};
use crate::controller::{CALL, Controller};
use crate::error::{FinalizeError, Obstacle, ReconcileError};
use crate::observe::Observed;
use crate::{finalize, hook, inspection, status, token};

/// What the nodes work with.
struct Pass<'a> {
    controller: &'a Controller,
    key: &'a ObjectKey,
    observed: &'a Observed,
    applied: Mutex<&'a mut Applied>,
}

/// A node, with what is due of it.
enum Part {
    /// All finalizers that are missing: they are added with one write.
    Finalizers(Vec<String>),
    Token(Option<TokenWanted>),
    Inspection(Option<&'static str>),
    Webhook(Option<&'static str>),
    /// What one finalizer holds the repository for.
    Finalizer(&'static str),
}

/// Brings up what is due: [`Outcome::Ready`] when the source can be asked. What a yield waits for is in `applied`.
pub(crate) async fn bring_up(
    controller: &Controller,
    key: &ObjectKey,
    observed: &Observed,
    due: &BringUp,
    applied: &mut Applied,
) -> Result<Outcome, ReconcileError> {
    let pass = Pass { controller, key, observed, applied: Mutex::new(applied) };
    let visited = async { tree(due.clone())?.provision(&pass).await }.await;
    match pass.applied.into_inner().failure.take() {
        Some(failure) => Err(failure),
        None => visited.map_err(ReconcileError::BringUp),
    }
}

/// Takes the repository down as far as it goes now. What it comes to is in `applied`, whose repository is the version
/// without the finalizers that are done.
pub(crate) async fn take_down(
    controller: &Controller,
    key: &ObjectKey,
    observed: &Observed,
    applied: &mut Applied,
) -> Result<(), ReconcileError> {
    let held = |applied: &Applied| {
        finalizers::ALL.into_iter().find(|finalizer| finalize::is_held(&applied.current, finalizer))
    };
    let was_held = held(applied).is_some();
    let pass = Pass { controller, key, observed, applied: Mutex::new(applied) };
    let span = tracing::info_span!("tear down", repository = %key);
    let visited = async { tree(BringUp::default())?.deprovision(&pass).await }.instrument(span).await;
    let applied = pass.applied.into_inner();
    applied.before = Arc::clone(&applied.current);
    applied.wanted = applied.current.status.clone();
    match visited {
        Ok(Outcome::Ready) if was_held => controller.metrics.deleted(),
        Ok(Outcome::Ready) => {}
        _ if controller.cancel.is_cancelled() => return Err(ReconcileError::Interrupted),
        Ok(Outcome::Yield { .. }) => applied.wait = Some(controller.memory.obstructed(key)),
        Err(error) => {
            let obstacle = match error.source.map(<dyn Error + Send + Sync>::downcast::<Obstacle>) {
                Some(Ok(obstacle)) => *obstacle,
                _ => Obstacle::Tree(error.message),
            };
            let error = FinalizeError { finalizer: held(applied).unwrap_or_default(), obstacle };
            controller.metrics.deletion_failed(&error);
            let generation = applied.current.metadata.generation;
            status::report_blocked(&mut applied.wanted, &error, generation, observed.now);
            applied.failure = Some(ReconcileError::Finalize(error));
        }
    }
    Ok(())
}

fn tree<'a>(due: BringUp) -> Result<Tree<Pass<'a>>, ProvisionError> {
    let nodes = [
        Part::Finalizers(due.finalizers),
        Part::Finalizer(finalizers::REMOVE_ORPHAN_RESOURCES),
        Part::Finalizer(finalizers::RELEASE_ORPHAN_RESOURCES),
        Part::Token(due.token),
        Part::Inspection(due.inspection),
        Part::Webhook(due.webhook),
        Part::Finalizer(finalizers::REMOVE_PENDING_JOBS),
    ];
    Tree::new(serial("repository", nodes.map(leaf)))
        .map_err(|error| ProvisionError::terminal(Reason::InvalidTree, error.to_string()))
}

#[async_trait]
impl<'a> Provisioner<Pass<'a>> for Part {
    fn name(&self) -> &str {
        match self {
            Self::Finalizers(_) => "finalizers",
            Self::Token(_) => "token",
            Self::Inspection(_) => "inspection",
            Self::Webhook(_) => finalizers::CLEANUP,
            Self::Finalizer(finalizer) => finalizer,
        }
    }

    /// A failed call fails the pass, which tells of it and knows when to try again; the tree only waits for that.
    async fn provision(&self, pass: &Pass<'a>) -> Visited {
        let (Pass { controller, key, observed, .. }, mut applied) = (pass, pass.applied.lock().await);
        let done = match self {
            Self::Finalizers(names) if !names.is_empty() => {
                let api = controller.repositories(&applied.current);
                let added = add_finalizers(&api, &*applied.current, names, CALL).await;
                added.map_err(ReconcileError::Call).map(|added| {
                    tracing::info!(repository = %key, finalizers = ?names, "finalizers added");
                    applied.current = Arc::new(added);
                    Outcome::Ready
                })
            }
            Self::Token(Some(why)) => token::provision(controller, key, &mut applied, *why).await,
            Self::Inspection(Some(why)) => {
                inspection::provision(controller, key, &observed.filled, &mut applied, why).await
            }
            Self::Webhook(why) => hook::provision(controller, key, observed, &mut applied, *why).await,
            _ => Ok(Outcome::Ready),
        };
        done.or_else(|failure| {
            applied.failure = Some(failure);
            Ok(Outcome::wait(Reason::Unavailable, "a call failed; the pass is made again"))
        })
    }

    async fn deprovision(&self, pass: &Pass<'a>) -> Visited {
        let finalizer = finalizers::ALL.into_iter().find(|finalizer| *finalizer == self.name());
        let Some(finalizer) = finalizer else { return Ok(Outcome::Ready) };
        let mut applied = pass.applied.lock().await;
        finalize::run(pass.controller, finalizer, &mut applied.current).await.map_err(|obstacle| {
            let message = format!("failed to run the finalizer {finalizer}");
            ProvisionError::retry(Reason::Failed, message).caused_by(obstacle)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_as_it_is_drawn() {
        let drawn = "\
repository (serial): pending
├─ finalizers (leaf): pending
├─ remove-orphan-resources (leaf): pending
├─ release-orphan-resources (leaf): pending
├─ token (leaf): pending
├─ inspection (leaf): pending
├─ cleanup (leaf): pending
└─ remove-pending-jobs (leaf): pending
";
        assert_eq!(tree(BringUp::default()).unwrap().render(), drawn);
    }
}
