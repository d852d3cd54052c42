//! Objects that go, at once or when nothing holds them any more.
//!
//! An object with finalizers is marked and stays until they are gone. What becomes of its dependants is said by two of
//! them, which the garbage collector ([`crate::garbage`]) takes off; without either, it sees the object go.

use serde_json::{Map, Value, json};
use windlass_api::status;

use super::{Writer, Written};
use crate::failure::{Failure, Result};
use crate::kinds::Builtin;
use crate::meta::{FOREGROUND, ORPHAN};
use crate::namespaces;
use windlass_apimachinery::document;
use windlass_apimachinery::{definition, metadata};
use windlass_store::{Object, Op, Precondition};

/// What a deletion asks for.
#[derive(Debug, Default)]
pub(crate) struct Deletion {
    /// Only of the object with this UID.
    pub(crate) uid: Option<String>,
    /// Only of this version.
    pub(crate) version: Option<String>,
    /// What becomes of the dependants; what the object's finalizers say when not given.
    pub(crate) dependants: Option<Dependants>,
    /// Also of an object that cannot be read: whatever it holds or is held by is forgotten.
    pub(crate) unread: bool,
}

/// What becomes of the dependants of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dependants {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They are let go.
    Orphan,
}

impl Deletion {
    /// The finalizers of an object once its deletion is asked for like this.
    fn finalizers(&self, object: &Map<String, Value>) -> Vec<String> {
        let before = metadata::finalizers(object);
        let has = |finalizer: &str| before.contains(&finalizer);
        let (orphan, foreground) = match self.dependants {
            Some(dependants) => (dependants == Dependants::Orphan, dependants == Dependants::Foreground),
            None => (has(ORPHAN), has(FOREGROUND) && !has(ORPHAN)),
        };
        let kept = before.iter().copied().filter(|one| ![ORPHAN, FOREGROUND].contains(one));
        let added = orphan.then_some(ORPHAN).into_iter().chain(foreground.then_some(FOREGROUND));
        kept.chain(added).map(str::to_owned).collect()
    }
}

/// What became of an object.
pub(crate) enum Deleted {
    Removed {
        uid: String,
    },
    /// It has finalizers: it is still there, marked.
    Marked(Written),
}

impl Writer {
    /// Removes an object, or marks it when it has finalizers.
    pub(crate) async fn delete(&self, name: &str, wanted: &Deletion) -> Result<Deleted> {
        let mut tries = self.tries(name);
        while tries.next().await {
            let Some(current) = self.find(name).await? else {
                return Err(Failure::not_found(self.kind(), name));
            };
            if let Some(deleted) = self.delete_state(&current, wanted).await? {
                return Ok(deleted);
            }
        }
        Err(Failure::modified(self.kind(), name))
    }

    /// As [`Self::delete`], of this state of the object; `None` when it has changed meanwhile.
    pub(crate) async fn delete_state(&self, current: &Object, wanted: &Deletion) -> Result<Option<Deleted>> {
        let kind = self.kind();
        let expect = Precondition::Revision(current.revision);
        let mut object = match self.inner.load_unopened(kind, current) {
            Err(_) if wanted.unread && !self.attributes.dry_run => {
                let removed = self.commit(current.key.clone(), expect, Op::Delete, Vec::new(), None).await?;
                return Ok(removed.map(|_| Deleted::Removed { uid: String::new() }));
            }
            read => read?,
        };
        let uid = metadata::text(&object, "uid").to_owned();
        self.check_preconditions(current, &uid, wanted)?;
        let before = object.clone();
        let marked = metadata::is_deleting(&object);
        // Events have no dependants.
        if kind.builtin != Some(Builtin::Event) {
            let finalizers = wanted.finalizers(&object);
            set_finalizers(&mut object, finalizers);
        }
        let now = self.inner.now_text();
        let held = match kind.builtin {
            Some(Builtin::Definition) if !marked => {
                object.clone_from(&before);
                definition::mark_deleted(&mut object, &now);
                true
            }
            Some(Builtin::Namespace) if !marked => {
                namespaces::mark(&mut object, &now);
                true
            }
            Some(Builtin::Namespace) if namespaces::holds_content(&object) => {
                object.clone_from(&before);
                true
            }
            _ => !metadata::finalizers(&object).is_empty(),
        };
        if !held {
            let extra = self.removals(&before).await?;
            if !self.attributes.dry_run
                && self.commit(current.key.clone(), expect, Op::Delete, extra, None).await?.is_none()
            {
                return Ok(None);
            }
            return Ok(Some(Deleted::Removed { uid }));
        }
        if !matches!(kind.builtin, Some(Builtin::Definition | Builtin::Namespace)) {
            if !marked {
                if metadata::generation(&object) > 0 {
                    metadata::bump_generation(&mut object);
                }
                metadata::of(&mut object).insert("deletionTimestamp".to_owned(), json!(now));
            }
            metadata::of(&mut object).insert("deletionGracePeriodSeconds".to_owned(), json!(0));
        }
        let unchanged = object == before;
        let (plain, stored) = self.encode(object, document::split(&current.value).1, None)?;
        if unchanged || self.attributes.dry_run {
            return Ok(Some(Deleted::Marked(Written { plain, revision: current.revision })));
        }
        let committed = self.commit(current.key.clone(), expect, Op::Put(stored), Vec::new(), None).await?;
        Ok(committed.map(|revision| Deleted::Marked(Written { plain, revision })))
    }

    fn check_preconditions(&self, current: &Object, uid: &str, wanted: &Deletion) -> Result<()> {
        let kind = self.kind();
        let name = current.key.name();
        let version = current.revision.to_string();
        for (what, expected, found) in
            [("UID", &wanted.uid, uid), ("ResourceVersion", &wanted.version, version.as_str())]
        {
            let Some(expected) = expected.as_deref().filter(|expected| *expected != found) else { continue };
            let why = format!(
                "the {what} in the precondition ({expected}) does not match the {what} in record ({found})"
            );
            // Two kinds have a way of deleting of their own, which names the resource.
            let named = match kind.builtin {
                Some(Builtin::Definition | Builtin::Namespace) => &kind.plural,
                _ => &kind.kind,
            };
            return Err(status::conflict(&kind.group, named, name, &why).into());
        }
        Ok(())
    }

    /// Stores a change of this state of an object that nobody judges, or removes it when that was the last thing that held it.
    /// False: it was changed meanwhile.
    pub(crate) async fn change(
        &self,
        current: &Object,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<bool> {
        let old = self.inner.load_unopened(self.kind(), current)?;
        let mut new = old.clone();
        change(&mut new);
        let removed = self.is_over(&new);
        if old == new && !removed {
            return Ok(true);
        }
        let (op, extra) = if removed {
            (Op::Delete, self.removals(&old).await?)
        } else {
            (Op::Put(self.encode(new, document::split(&current.value).1, None)?.1), Vec::new())
        };
        let expect = Precondition::Revision(current.revision);
        Ok(self.commit(current.key.clone(), expect, op, extra, None).await?.is_some())
    }

    /// Whether an object is being deleted and nothing holds it any more.
    pub(crate) fn is_over(&self, object: &Map<String, Value>) -> bool {
        let content = self.kind().builtin == Some(Builtin::Namespace) && namespaces::holds_content(object);
        metadata::is_deleting(object) && metadata::finalizers(object).is_empty() && !content
    }
}

fn set_finalizers(object: &mut Map<String, Value>, finalizers: Vec<String>) {
    let fields = metadata::of(object);
    if finalizers.is_empty() {
        fields.remove("finalizers");
    } else {
        fields.insert("finalizers".to_owned(), json!(finalizers));
    }
}
