//! Ordered keys: `group NUL resource NUL namespace NUL name`, one allocation, shared by clones.

use std::fmt;
use std::sync::Arc;

use super::StoreError;

const SEPARATOR: char = '\0';

/// The place of an object: group, resource, namespace (empty for cluster-scoped kinds) and name.
///
/// Keys order by group, resource, namespace, name, each as bytes. The core group is the empty string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// A key of these parts. Resource and name must not be empty, no part may hold a NUL character.
    pub fn new(group: &str, resource: &str, namespace: &str, name: &str) -> Result<Self, StoreError> {
        check("group", group, true)?;
        check("resource", resource, false)?;
        check("namespace", namespace, true)?;
        check("name", name, false)?;
        Ok(Self([group, resource, namespace, name].join("\0").into()))
    }

    /// The key whose stored form this is.
    pub(super) fn from_stored(text: &str) -> Option<Self> {
        let mut parts = text.split(SEPARATOR);
        let complete =
            parts.by_ref().take(3).count() == 3 && parts.next().is_some_and(|name| !name.is_empty());
        (complete && parts.next().is_none()).then(|| Self(text.into()))
    }

    /// What is ordered before every key of the range, and after all before it. It is no object's.
    pub(super) fn first_of(range: &Range) -> Self {
        Self(range.prefix.clone())
    }

    /// The stored form.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.part(0)
    }

    /// The plural resource name.
    pub fn resource(&self) -> &str {
        self.part(1)
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        self.part(2)
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.part(3)
    }

    /// `group NUL resource NUL`: what all objects of a kind share.
    pub(super) fn kind(&self) -> &str {
        let end = self.0.match_indices(SEPARATOR).nth(1).map_or(0, |(at, _)| at + 1);
        &self.0[..end]
    }

    /// `group NUL resource NUL namespace NUL`: all but the name.
    pub(super) fn folder(&self) -> &str {
        let end = self.0.rfind(SEPARATOR).map_or(0, |at| at + 1);
        &self.0[..end]
    }

    fn part(&self, index: usize) -> &str {
        self.0.split(SEPARATOR).nth(index).unwrap_or_default()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource())?;
        if !self.group().is_empty() {
            write!(f, ".{}", self.group())?;
        }
        if self.namespace().is_empty() {
            write!(f, " {}", self.name())
        } else {
            write!(f, " {}/{}", self.namespace(), self.name())
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// All objects of a resource, or those of one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    prefix: Arc<str>,
    kind: usize,
}

impl Range {
    /// The objects of a resource in `namespace`, or in all namespaces.
    pub fn new(group: &str, resource: &str, namespace: Option<&str>) -> Result<Self, StoreError> {
        check("group", group, true)?;
        check("resource", resource, false)?;
        let mut prefix = format!("{group}\0{resource}\0");
        let kind = prefix.len();
        if let Some(namespace) = namespace {
            check("namespace", namespace, true)?;
            prefix.push_str(namespace);
            prefix.push(SEPARATOR);
        }
        Ok(Self { prefix: prefix.into(), kind })
    }

    /// Whether an object with this key belongs to the range.
    pub fn contains(&self, key: &Key) -> bool {
        key.0.starts_with(&*self.prefix)
    }

    /// What all stored keys of the range start with.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The first stored key that is ordered after the whole range.
    pub(super) fn end(&self) -> String {
        // The prefix ends with the separator, which is the smallest character.
        format!("{}\u{1}", &self.prefix[..self.prefix.len() - 1])
    }

    /// `group NUL resource NUL`.
    pub(super) fn kind(&self) -> &str {
        &self.prefix[..self.kind]
    }
}

fn check(part: &'static str, text: &str, may_be_empty: bool) -> Result<(), StoreError> {
    if text.contains(SEPARATOR) || (text.is_empty() && !may_be_empty) {
        return Err(StoreError::InvalidKey { part, text: text.to_owned() });
    }
    Ok(())
}
