//! What tests of finders are given.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Accounted, ChangesError, ChangesQuery, SecretValues, Secrets};
use crate::{SourceKey, SourceKind};

/// A revision that was known, with its origin.
pub(crate) fn accounted(revision: &str, origin: Option<&str>) -> Accounted {
    Accounted { revision: revision.parse().unwrap(), origin: origin.map(Into::into) }
}

/// The question which commits came with `to` over `known`, for a source `apps/fleet`.
pub(crate) fn question(kind: SourceKind, url: &str, to: &str, known: &[impl AsRef<str>]) -> ChangesQuery {
    ChangesQuery {
        source: SourceKey { kind, namespace: "apps".to_owned(), name: "fleet".to_owned() },
        url: url.to_owned(),
        insecure: false,
        secret: None,
        cert_secret: None,
        known: known.iter().map(|known| accounted(known.as_ref(), None)).collect(),
        to: to.parse().unwrap(),
        origin: None,
        metadata: BTreeMap::new(),
        generation: 1,
    }
}

/// Secrets by name, all in the namespace `apps`.
#[derive(Default)]
pub(crate) struct Given(BTreeMap<&'static str, SecretValues>);

impl Given {
    /// This one alone.
    pub(crate) fn one(name: &'static str, values: &[(&str, &str)]) -> Arc<Self> {
        Arc::new(Self::default().and(name, values))
    }

    /// This one, too.
    pub(crate) fn and(mut self, name: &'static str, values: &[(&str, &str)]) -> Self {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned().into()));
        self.0.insert(name, values.collect());
        self
    }
}

#[async_trait]
impl Secrets for Given {
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<SecretValues>, ChangesError> {
        assert_eq!(namespace, "apps");
        Ok(self.0.get(name).cloned())
    }
}
