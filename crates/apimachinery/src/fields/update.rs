//! What a write does to the managers of an object: an update takes what it changes, an apply owns what it names.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::compare::{Comparison, Mismatch, field_set};
use super::element::Element;
use super::managers::{Managers, Operation, Writer};
use super::merge::{merge, without};
use super::set::Set;
use super::shape::Shape;

type Object = Map<String, Value>;

/// The versions of a kind, as managers name them.
pub trait Versions {
    /// The shape of objects in this version; `None` when it is not served any more.
    fn shape(&self, api_version: &str) -> Option<&Shape>;

    /// Whether objects of one version are objects of the other but for their `apiVersion`, whatever fields they have.
    fn keep_fields(&self, from: &str, to: &str) -> bool;

    /// An object of the version in which objects are kept, in this version.
    fn to_version<'a>(&self, object: &'a Object, api_version: &str) -> Cow<'a, Object>;

    /// An object of this version, in the version in which objects are kept.
    fn to_stored(&self, object: Object, api_version: &str) -> Object;
}

/// Fields that a request cannot change, by the version through which they are named.
#[derive(Debug, Default)]
pub struct Ignored {
    /// Top-level fields.
    pub fields: &'static [&'static str],
    /// Whether they are ignored in every version, or in that of the request only.
    pub in_all_versions: bool,
}

impl Ignored {
    fn set(&self, own_version: bool) -> Set {
        let mut set = Set::default();
        if own_version || self.in_all_versions {
            for field in self.fields {
                set.insert(&[Element::field(field)]);
            }
        }
        set
    }
}

/// Fields of an object that nobody owns, because the server sets them or a write could not be without them.
fn unowned() -> Set {
    const METADATA: [&str; 9] = [
        "clusterName",
        "creationTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ];
    let mut set = Set::default();
    for field in ["apiVersion", "kind", "metadata"] {
        set.insert(&[Element::field(field)]);
    }
    for field in METADATA {
        set.insert(&[Element::field("metadata"), Element::field(field)]);
    }
    set
}

/// A field that another manager owns, and that an apply would change.
#[derive(Debug, Clone)]
pub struct Conflict {
    /// Who owns the field.
    pub writer: Writer,
    /// Where it is.
    pub path: Vec<Element>,
}

/// Why an apply was refused.
#[derive(Debug)]
pub enum Refused {
    /// Others own fields that are applied with another value.
    Conflicts(Vec<Conflict>),
    /// The object does not fit the shape of its kind.
    Mismatch(Mismatch),
}

impl From<Mismatch> for Refused {
    fn from(error: Mismatch) -> Self {
        Self::Mismatch(error)
    }
}

/// One write, with all that its managers depend on.
pub struct Update<'a> {
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// Who writes.
    pub writer: Writer,
    /// What nobody comes to own by this write.
    pub ignored: Ignored,
    /// Seconds since the epoch.
    pub now: i64,
}

impl Update<'_> {
    fn shape(&self) -> Result<&Shape, Mismatch> {
        let missing = || Mismatch(format!("no corresponding type for {}", self.writer.api_version));
        self.versions.shape(&self.writer.api_version).ok_or_else(missing)
    }

    /// How two objects differ in a version of theirs.
    fn compare(&self, old: &Object, new: &Object, api_version: &str) -> Result<Option<Comparison>, Mismatch> {
        let Some(shape) = self.versions.shape(api_version) else { return Ok(None) };
        let own = &self.writer.api_version;
        // An update reads objects in its own version and gives the others what it has read, fields and all.
        let read =
            if self.writer.operation == Operation::Update && self.versions.keep_fields(own, api_version) {
                own
            } else {
                api_version
            };
        let (old, new) = (self.versions.to_version(old, read), self.versions.to_version(new, read));
        let ignored = self.ignored.set(api_version == self.writer.api_version);
        Ok(Some(Comparison::of(shape, &old, &new)?.without(&ignored)))
    }

    /// Takes from the others what changed between two states. Without force, changing what is theirs is a conflict.
    fn take_from_others(
        &self,
        old: &Object,
        new: &Object,
        managers: &mut Managers,
        force: bool,
    ) -> Result<Comparison, Refused> {
        self.shape()?;
        let own = self.compare(old, new, &self.writer.api_version)?.unwrap_or_default();
        let own_touched = own.modified.union(&own.added);
        let mut others: Vec<(String, Option<(Comparison, Set)>)> = Vec::new();
        let mut conflicts = Vec::new();
        let mut kept = Vec::with_capacity(managers.entries.len() + 1);
        for mut entry in std::mem::take(&mut managers.entries) {
            if self.writer.operation == Operation::Apply && entry.writer.is(&self.writer) {
                kept.push(entry);
                continue;
            }
            let version = &entry.writer.api_version;
            let (comparison, touched) = if *version == self.writer.api_version {
                (&own, &own_touched)
            } else {
                if !others.iter().any(|(known, _)| known == version) {
                    let comparison = self.compare(old, new, version)?.map(|comparison| {
                        let touched = comparison.modified.union(&comparison.added);
                        (comparison, touched)
                    });
                    others.push((version.clone(), comparison));
                }
                match others.iter().find(|(known, _)| known == version) {
                    Some((_, Some((comparison, touched)))) => (comparison, touched),
                    // Managers in a version that is gone are forgotten.
                    _ => continue,
                }
            };
            let taken = entry.set.intersection(touched);
            if !force {
                conflicts.extend(
                    taken.paths().into_iter().map(|path| Conflict { writer: entry.writer.clone(), path }),
                );
            }
            entry.set = entry.set.difference(&taken).difference(&comparison.removed);
            if !entry.set.is_empty() {
                kept.push(entry);
            }
        }
        if !conflicts.is_empty() {
            return Err(Refused::Conflicts(conflicts));
        }
        managers.entries = kept;
        Ok(own)
    }

    /// The managers after a create, an update or a patch. `old` is empty for a create.
    pub fn update(&self, old: &Object, new: &Object, mut managers: Managers) -> Result<Managers, Mismatch> {
        let own = match self.take_from_others(old, new, &mut managers, true) {
            Ok(own) => own,
            Err(Refused::Mismatch(error)) => return Err(error),
            Err(Refused::Conflicts(_)) => return Err(Mismatch("an update has no conflicts".to_owned())),
        };
        let set = own.modified.union(&own.added).difference(&unowned());
        if !set.is_empty() {
            let set = match managers.find(&self.writer) {
                Some(before) => set.union(&before.set),
                None => set,
            };
            managers.set(&self.writer, set, Some(self.now));
        }
        managers.cap();
        Ok(managers)
    }

    /// The object and its managers after an apply. No object: it stays as it is.
    ///
    /// # Errors
    ///
    /// Conflicts with other managers, unless forced; or an object that does not fit its schema.
    pub fn apply(
        &self,
        live: &Object,
        applied: &Object,
        mut managers: Managers,
        force: bool,
    ) -> Result<(Option<Object>, Managers), Refused> {
        let version = &self.writer.api_version;
        let shape = self.shape()?;
        let live_here = self.versions.to_version(live, version);
        let merged = merge(shape, &live_here, applied)?;
        let last = managers.find(&self.writer).cloned();
        let set = field_set(shape, applied)?.difference_with_children(&self.ignored.set(true));
        managers.set(&self.writer, set.clone(), None);
        let merged = match &last {
            Some(last) if !last.set.is_empty() => {
                let merged = self.versions.to_stored(merged, version);
                self.prune(merged, &managers, &last.writer.api_version, &last.set)?
            }
            _ => self.versions.to_stored(merged, version),
        };
        self.take_from_others(live, &merged, &mut managers, force)?;
        let changed = !same_objects(live, &merged);
        let time = if changed { Some(self.now) } else { last.and_then(|last| last.time) };
        managers.set(&self.writer, set.difference(&unowned()), time);
        Ok((changed.then_some(merged), managers))
    }

    /// The fields of a document that are in an object as they are in the document.
    pub fn still_as(&self, document: &Object, live: &Object) -> Result<Set, Mismatch> {
        let version = &self.writer.api_version;
        if document.get("apiVersion").and_then(Value::as_str) != Some(version) {
            return Err(Mismatch(format!("expected version {version}")));
        }
        let shape = self.shape()?;
        let live = self.versions.to_version(live, version);
        let differ = Comparison::of(shape, document, &live)?;
        let set = field_set(shape, document)?;
        Ok(set.difference(&differ.modified).difference(&differ.added).difference(&differ.removed))
    }

    /// Takes out what this manager applied before and does not now, and nobody else owns.
    fn prune(
        &self,
        merged: Object,
        managers: &Managers,
        version: &str,
        last: &Set,
    ) -> Result<Object, Mismatch> {
        let Some(shape) = self.versions.shape(version) else { return Ok(merged) };
        let merged_then = self.versions.to_version(&merged, version).into_owned();
        let last = last.with_named_fields(shape);
        let mut pruned = self.versions.to_stored(without(shape, &merged_then, &last), version);
        // The version of the last apply comes first, as what it needs may be missing in others.
        let mut versions = vec![version.to_owned()];
        for entry in &managers.entries {
            if !versions.contains(&entry.writer.api_version) {
                versions.push(entry.writer.api_version.clone());
            }
        }
        for version in &versions {
            let Some(shape) = self.versions.shape(version) else { continue };
            let mut owned = Set::default();
            for entry in managers.entries.iter().filter(|entry| entry.writer.api_version == *version) {
                owned = owned.union(&entry.set);
            }
            if owned.is_empty() {
                continue;
            }
            let all = self.versions.to_version(&merged, version);
            let kept =
                field_set(shape, &self.versions.to_version(&pruned, version))?.with_named_fields(shape);
            let gone = field_set(shape, &all)?
                .with_named_fields(shape)
                .difference(&kept.union(&owned.with_named_fields(shape)));
            pruned = self.versions.to_stored(without(shape, &all, &gone), version);
        }
        // What this manager never owned stays, owned or not.
        let kept = field_set(shape, &self.versions.to_version(&pruned, version))?.with_named_fields(shape);
        let gone =
            field_set(shape, &merged_then)?.with_named_fields(shape).difference(&kept).intersection(&last);
        Ok(self.versions.to_stored(without(shape, &merged_then, &gone), version))
    }
}

fn same_objects(a: &Object, b: &Object) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|((a_name, a_value), (b_name, b_value))| {
            a_name == b_name && super::element::same(a_value, b_value)
        })
}
