//! From a write to what follows from it, whether or not anybody still waits for the answer.

use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, oneshot};

use super::Context;
use crate::failure::{Failure, Result};
use crate::kinds::{Builtin, Kind};
use crate::state::Inner;
use windlass_store::{Committed, EventKind, Key, Op, Precondition, StoreError, Write};

impl Context {
    /// Commits the write of one object with what admission adds to it. `None`: the object is not as expected.
    ///
    /// It is a task of its own: a client that goes away, or a deadline, does not keep what the write means from
    /// happening. `neighbours` is held until it has.
    pub(super) async fn commit(
        &self,
        key: Key,
        expect: Precondition,
        op: Op,
        mut extra: Vec<Write>,
        neighbours: Option<OwnedMutexGuard<()>>,
    ) -> Result<Option<Committed>> {
        let mut writes = Vec::with_capacity(1 + extra.len());
        // The object stands first: its event is the first of the answer.
        writes.push(Write { key, expect, op });
        writes.append(&mut extra);
        let (inner, kind) = (self.inner.clone(), self.kind().clone());
        let (answer, answered) = oneshot::channel();
        self.inner.spawn(async move {
            let committed = commit(&inner, &kind, writes).await;
            drop((neighbours, inner));
            let _ = answer.send(committed);
        });
        answered.await.map_err(|_| Failure::from(StoreError::Closed))?
    }
}

async fn commit(inner: &Arc<Inner>, kind: &Kind, writes: Vec<Write>) -> Result<Option<Committed>> {
    let Some(Write { key, expect, .. }) = writes.first() else { return Ok(None) };
    let (key, creates) = (key.clone(), *expect == Precondition::Absent);
    // What is known of namespaces changes with the commit, and no create comes in between.
    let mut known = None;
    let mut open = None;
    if kind.builtin == Some(Builtin::Namespace) {
        known = Some(inner.namespaces.write().await);
    } else if creates && kind.namespaced {
        let namespaces = inner.namespaces.read().await;
        namespaces.check(kind, key.name(), key.namespace())?;
        open = Some(namespaces);
    }
    let committed = match inner.store.commit(writes).await {
        Ok(committed) => committed,
        // The object, or a Secret that admission adds or removes, was changed beside us.
        Err(StoreError::Conflict { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    drop(open);
    if let (Some(known), Some(event)) = (&mut known, committed.events.first()) {
        known.written(key.name(), (event.kind != EventKind::Deleted).then_some(&event.object));
    }
    if kind.builtin == Some(Builtin::Definition) {
        inner.definitions_changed().await;
    }
    Ok(Some(committed))
}
