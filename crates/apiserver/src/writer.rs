//! The way from a changed object to the store: the same for a client's request and for what the server does on its own.
//!
//! A [`Writer`] knows what is written and who asks for it, as plain [`Attributes`]. It fills in, judges, settles who owns
//! the fields, and commits; a client that goes away does not keep a commit from having its consequences.

mod create;
mod delete;
mod owners;
mod replace;
mod rules;
mod secrets;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::sync::{OwnedMutexGuard, oneshot};
use windlass_auth::Caller;

pub(crate) use self::delete::{Deleted, Deletion, Dependants};
pub(crate) use self::owners::{Owners, Sent, stored_owners};
use crate::admission::AdmissionError;
use crate::attributes::Attributes;
use crate::builtin;
use crate::failure::{Failure, FieldError, Result};
use crate::kinds::{Builtin, Kind, ServedKind};
use crate::request::{Part, Target};
use crate::state::Inner;
use crate::turns::Tries;
use windlass_apimachinery::bounds;
use windlass_apimachinery::document;
use windlass_apimachinery::metadata;
use windlass_apimachinery::schema::Schema;
use windlass_store::{Key, Object, Op, Precondition, StoreError, Write};

/// One write, or the tries of one.
pub(crate) struct Writer {
    inner: Arc<Inner>,
    attributes: Attributes,
}

/// An object as it was written.
pub(crate) struct Written {
    pub(crate) plain: Bytes,
    pub(crate) revision: u64,
}

impl Writer {
    pub(crate) fn new(inner: &Arc<Inner>, attributes: Attributes) -> Self {
        Self { inner: inner.clone(), attributes }
    }

    /// Of the server's own doing, of the object that is stored under this key.
    pub(crate) fn internal(inner: &Arc<Inner>, served: &ServedKind, key: &Key) -> Self {
        let (caller, target) = (Caller::system("garbage-collector").into(), Target::object(served, key));
        Self::new(inner, Attributes { caller, target, dry_run: false, field_manager: String::new() })
    }

    fn kind(&self) -> &Arc<Kind> {
        &self.attributes.target.served.kind
    }

    fn is_status(&self) -> bool {
        self.attributes.target.is_status()
    }

    /// The schema that objects are judged by: that of the version that the write is in. What is stored of core kinds has the
    /// names of one version.
    fn schema(&self) -> &Schema {
        let served = &self.attributes.target.served;
        if served.kind.builtin.is_some() { &served.kind.stored().schema } else { &served.served().schema }
    }

    fn scale_error(&self, object: &Map<String, Value>) -> Option<FieldError> {
        let paths = self.attributes.target.served.served().scale.as_ref()?;
        paths.error_in(object, self.is_status())
    }

    /// The stored object of this name in the namespace that is written to.
    async fn find(&self, name: &str) -> Result<Option<Object>> {
        self.inner.find(&self.attributes.target, name).await
    }

    /// Tries a write to the object of this name.
    pub(crate) fn tries(&self, name: &str) -> Tries {
        let kind = self.kind();
        self.inner.turns.tries((&kind.group, &kind.plural, &self.attributes.target.namespace, name))
    }

    /// Fills in what the server decides, before anything is judged.
    fn fill_in(&self, old: Option<&Map<String, Value>>, new: &mut Map<String, Value>) -> Result<()> {
        let kind = self.kind();
        let Some(builtin) = kind.builtin else {
            let errors = self.inner.admission.fill_in(&self.attributes, old, new);
            return self.fail_on(errors, metadata::text(new, "name"));
        };
        let finalizers = (self.attributes.target.part == Part::Finalize).then(|| new.get("spec").cloned());
        builtin::fill_in(builtin, old, new);
        if let Some(spec) = finalizers {
            builtin::finalize(spec, new);
        }
        match old {
            // The same spec is let through, so that applying our own documents changes nothing and fails nowhere.
            Some(old) if builtin == Builtin::Definition && old.get("spec") != new.get("spec") => {
                self.inner.catalog.check_own(kind, metadata::text(new, "name"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what depends on settings and on other objects, after schema and rules have let the object through.
    async fn judge(&self, old: Option<&Map<String, Value>>, new: &Map<String, Value>) -> Result<()> {
        let target = &self.attributes.target;
        let errors = match target.served.kind.builtin {
            Some(Builtin::Event) => builtin::validate_event(&target.served.served().group, old, new),
            Some(_) => Vec::new(),
            None => self.inner.admission.judge(&self.attributes, old, new, &*self.inner.store).await?,
        };
        self.fail_on(errors, metadata::text(new, "name"))
    }

    /// Of kinds that are judged beside one another: no other may come between judging one and storing it.
    async fn neighbours(&self) -> Option<OwnedMutexGuard<()>> {
        let beside = self.kind().builtin.is_none()
            && !self.is_status()
            && self.inner.admission.is_beside_others(&self.attributes);
        if beside { Some(self.inner.neighbours.clone().lock_owned().await) } else { None }
    }

    /// Refuses an object with these errors, if there are any.
    pub(crate) fn fail_on(&self, errors: Vec<FieldError>, name: &str) -> Result<()> {
        Failure::refuse(&self.kind().kind, &self.kind().group, name, errors)
    }

    /// The bytes of an object in the clear, and what is stored for it, with its encoded `managedFields`. Refused is what is
    /// out of bounds, of an object that had so many bytes `before`; nothing when not given.
    fn encode(
        &self,
        object: Map<String, Value>,
        managed: &[u8],
        before: Option<usize>,
    ) -> Result<(Bytes, Bytes)> {
        let kind = self.kind();
        let plain = Bytes::from(document::encode(&kind.stored().head, &object, managed));
        if let Some(before) = before {
            bounds::check_stored(&object, plain.len(), before)?;
        }
        let stored =
            if kind.sealed() { self.inner.seal(kind, object, managed)?.into() } else { plain.clone() };
        Ok((plain, stored))
    }

    /// Commits the write of one object with what belongs to it, and returns its revision. `None`: the object is not as
    /// expected.
    ///
    /// What follows from it is a task of its own: a client that goes away, or a deadline, does not keep what the write means
    /// from happening. `neighbours` is held until it has.
    async fn commit(
        &self,
        key: Key,
        expect: Precondition,
        op: Op,
        mut extra: Vec<Write>,
        neighbours: Option<OwnedMutexGuard<()>>,
    ) -> Result<Option<u64>> {
        // The object stands first: its event is the first of the answer.
        let mut writes = vec![Write { key, expect, op }];
        writes.append(&mut extra);
        let (inner, kind) = (self.inner.clone(), self.kind().clone());
        let follows = matches!(kind.builtin, Some(Builtin::Namespace | Builtin::Definition));
        if !follows && neighbours.is_none() {
            // The store goes on with a commit that nobody waits for.
            return inner.commit(&kind, writes).await;
        }
        let (answer, answered) = oneshot::channel();
        self.inner.spawn(async move {
            let committed = inner.commit(&kind, writes).await;
            drop((neighbours, inner));
            let _ = answer.send(committed);
        });
        answered.await.map_err(|_| Failure::from(StoreError::Closed))?
    }
}

impl From<AdmissionError> for Failure {
    fn from(error: AdmissionError) -> Self {
        match error {
            AdmissionError::Unreadable(problem) => Self::bad_request(problem),
            AdmissionError::ReadStore(error) => error.into(),
            other @ AdmissionError::Parse(_) => Self::internal(&other),
        }
    }
}
