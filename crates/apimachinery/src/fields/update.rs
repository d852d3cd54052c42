//! What a write does to the managers of an object: an update takes what it changes, an apply owns what it names.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
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
static UNOWNED: LazyLock<Set> = LazyLock::new(|| {
    let mut set = Set::default();
    for field in ["apiVersion", "kind", "metadata"] {
        set.insert(&[Element::field(field)]);
    }
    let metadata =
        "clusterName creationTimestamp generation managedFields name namespace resourceVersion selfLink uid";
    for field in metadata.split(' ') {
        set.insert(&[Element::field("metadata"), Element::field(field)]);
    }
    set
});

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
    /// The time, without a fraction of a second.
    pub now: Timestamp,
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

    /// Takes from the others what changed between two states, which it returns with what of it was theirs: without force, a
    /// conflict.
    fn take_from_others(
        &self,
        old: &Object,
        new: &Object,
        managers: &mut Managers,
        force: bool,
    ) -> Result<(Comparison, Vec<Conflict>), Mismatch> {
        self.shape()?;
        let own = &self.writer.api_version;
        // By version; managers in a version that is gone are forgotten.
        let mut compared = BTreeMap::from([(own.clone(), self.compare(old, new, own)?)]);
        let mut conflicts = Vec::new();
        for mut entry in std::mem::take(&mut managers.entries) {
            if self.writer.operation == Operation::Apply && entry.writer.is(&self.writer) {
                managers.entries.push(entry);
                continue;
            }
            let version = &entry.writer.api_version;
            if !compared.contains_key(version) {
                compared.insert(version.clone(), self.compare(old, new, version)?);
            }
            let Some(Some(comparison)) = compared.get(version) else { continue };
            if !force {
                let taken = entry.set.clone().intersection(&comparison.touched).paths().into_iter();
                conflicts.extend(taken.map(|path| Conflict { writer: entry.writer.clone(), path }));
            }
            entry.set = entry.set.difference(&comparison.touched).difference(&comparison.removed);
            if !entry.set.is_empty() {
                managers.entries.push(entry);
            }
        }
        Ok((compared.remove(own).flatten().unwrap_or_default(), conflicts))
    }

    /// The managers after a create, an update or a patch. `old` is empty for a create.
    pub fn update(&self, old: &Object, new: &Object, mut managers: Managers) -> Result<Managers, Mismatch> {
        let (own, _) = self.take_from_others(old, new, &mut managers, true)?;
        let set = own.touched.difference(&UNOWNED);
        if !set.is_empty() {
            let before = managers.find(&self.writer).map(|before| before.set.clone());
            managers.set(&self.writer, set.union(before.unwrap_or_default()), Some(self.now));
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
        let (_, conflicts) = self.take_from_others(live, &merged, &mut managers, force)?;
        if !conflicts.is_empty() {
            return Err(Refused::Conflicts(conflicts));
        }
        let changed = *live != merged;
        let time = if changed { Some(self.now) } else { last.and_then(|last| last.time) };
        managers.set(&self.writer, set.difference(&UNOWNED), time);
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
        Ok(set.difference(&differ.touched).difference(&differ.removed))
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
            let of_version = managers.entries.iter().filter(|entry| entry.writer.api_version == *version);
            let owned = of_version.fold(Set::default(), |owned, entry| owned.union(entry.set.clone()));
            if owned.is_empty() {
                continue;
            }
            let all = self.versions.to_version(&merged, version);
            let kept =
                field_set(shape, &self.versions.to_version(&pruned, version))?.with_named_fields(shape);
            let gone = field_set(shape, &all)?
                .with_named_fields(shape)
                .difference(&kept.union(owned.with_named_fields(shape)));
            pruned = self.versions.to_stored(without(shape, &all, &gone), version);
        }
        // What this manager never owned stays, owned or not.
        let kept = field_set(shape, &self.versions.to_version(&pruned, version))?.with_named_fields(shape);
        let gone =
            field_set(shape, &merged_then)?.with_named_fields(shape).difference(&kept).intersection(&last);
        Ok(self.versions.to_stored(without(shape, &merged_then, &gone), version))
    }
}
