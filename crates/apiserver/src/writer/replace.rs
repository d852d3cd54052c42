//! Changed objects.

use serde_json::{Map, Value};

use super::{Owners, Writer, Written, stored_owners};
use crate::builtin::{self, copy_field};
use crate::failure::Result;
use crate::kinds::{Builtin, Kind};
use crate::secure;
use windlass_apimachinery::document;
use windlass_apimachinery::metadata;
use windlass_store::{Object, Op, Precondition};

impl Writer {
    /// Replaces a stored object by a changed one: everything between the change and the store.
    ///
    /// `None`: the stored object was changed meanwhile.
    pub(crate) async fn replace(
        &self,
        current: &Object,
        old: &Map<String, Value>,
        mut new: Map<String, Value>,
        mut owners: Owners,
    ) -> Result<Option<Written>> {
        let kind = self.kind();
        let separate_status = self.attributes.target.served.served().status_subresource;
        let before = self.inner.plain(kind, &current.value)?;
        let owners_before = stored_owners(&before);
        // What is not stored is a change that a real server counts.
        let lost = !self.is_status() && matches!(&owners, Owners::Sent(sent) if sent.whole.is_some());
        if self.is_status() {
            owners = Owners::Known(self.owners(Some(old), &new, &owners_before, owners));
            new = status_of(kind, old, &new);
        } else if separate_status {
            copy_field(old, &mut new, "status");
        }
        metadata::carry_over(old, &mut new);
        let secrets = secure::take(kind, &mut new, Some(old))?;
        let owners = self.owners(Some(old), &new, &owners_before, owners);
        let neighbours = self.neighbours().await;
        if !self.is_status() {
            self.fill_in(Some(old), &mut new)?;
        }
        let with_status = !separate_status;
        if kind.has_generation() && (lost || metadata::desired_state_differs(old, &new, with_status)) {
            metadata::bump_generation(&mut new);
        }
        // A real server looks twice: at any object, and at one of this kind.
        let mut errors = metadata::validate_update(old, &new);
        errors.extend(errors.clone());
        errors.extend(metadata::validate(&kind.metadata(), &new));
        // What was wrong before and did not change is let through; core kinds have rules of their own.
        let schema = self.schema();
        errors.extend(match kind.builtin {
            None if self.is_status() => schema.validate_status(old, &new),
            None => {
                let mut errors = schema.validate_change(old, &new);
                errors.extend(schema.validate_embedded(&new));
                errors
            }
            Some(_) => schema.validate(&new),
        });
        errors.extend(self.scale_error(&new));
        errors.extend(builtin::validate(kind, &new, Some(old)));
        self.check_rules(Some(old), &new, &mut errors).await?;
        self.fail_on(errors, current.key.name())?;
        if !self.is_status() {
            self.judge(Some(old), &new).await?;
        }
        let mut extra = self.secret_writes(&secrets, &mut new, Some(old)).await?;
        let removed = self.is_over(&new);
        // Times alone are no change.
        let managed = if owners.same(&owners_before) && *old == new {
            document::split(&before).1.to_vec()
        } else {
            owners.encode()
        };
        let (plain, stored) = self.encode(new, &managed, Some(before.len()))?;
        let unchanged = *plain == *before;
        drop(before);
        if self.attributes.dry_run || (unchanged && !removed) {
            return Ok(Some(Written { plain, revision: current.revision }));
        }
        let op = if removed {
            extra = self.removals(old).await?;
            Op::Delete
        } else {
            Op::Put(stored)
        };
        let expect = Precondition::Revision(current.revision);
        let committed = self.commit(current.key.clone(), expect, op, extra, neighbours).await?;
        // A removal answers with the object as it was asked for, under its last version.
        let revision = committed.map(|revision| if removed { current.revision } else { revision });
        Ok(revision.map(|revision| Written { plain, revision }))
    }
}

/// The old object with the status of the new one; a Namespace's metadata are written with its status.
fn status_of(kind: &Kind, old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut object = old.clone();
    copy_field(new, &mut object, "status");
    if kind.builtin == Some(Builtin::Namespace) {
        copy_field(new, &mut object, "metadata");
    }
    object
}
