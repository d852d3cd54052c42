//! The one way to the store for whatever has consequences: what is known of namespaces and definitions follows from what
//! was committed.

use tracing::error;
use windlass_store::{Precondition, StoreError, Write};

use crate::failure::Result;
use crate::kinds::{Builtin, Kind};
use crate::state::Inner;

impl Inner {
    /// Commits the write of an object of this kind, which stands first, with what belongs to it. Returns its
    /// revision; `None`: something is not as expected.
    ///
    /// Of a Namespace or a definition not to be dropped on the way: who may be cancelled has a task do it.
    pub(crate) async fn commit(&self, kind: &Kind, writes: Vec<Write>) -> Result<Option<u64>> {
        let Some(Write { key, expect, .. }) = writes.first() else { return Ok(None) };
        // What is known of namespaces changes with the commit, and no create comes in between.
        let mut known = None;
        let mut open = None;
        if kind.builtin == Some(Builtin::Namespace) {
            known = Some(self.namespaces.write().await);
        } else if *expect == Precondition::Absent && kind.namespaced {
            let namespaces = self.namespaces.read().await;
            namespaces.check(kind, key.name(), key.namespace())?;
            open = Some(namespaces);
        }
        let committed = match self.store.commit(writes).await {
            Ok(committed) => committed,
            // The object, or a Secret that belongs to it, was changed beside us.
            Err(StoreError::Conflict { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        drop(open);
        if let Some(known) = &mut known {
            for event in &committed.events {
                known.follow(event);
            }
        }
        drop(known);
        if kind.builtin == Some(Builtin::Definition) {
            // Failing does not undo the write: the next write or start makes up for it.
            if let Err(failure) = self.settle().await {
                error!(?failure, "failed to serve the definitions as they are stored");
            }
        }
        Ok(Some(committed.events.first().map_or(committed.revision, |event| event.revision)))
    }
}
