//! The sources: `source.toolkit.fluxcd.io/v1`, four kinds that differ in little of what is read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use serde::Deserialize;

use super::metadata::Object;
use crate::SourceKind;

/// What the tracker reads of a source of any kind.
pub type Source = Object<SourceSpec, SourceStatus>;

/// What a source asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SourceSpec {
    /// Where it is; buckets and external artifacts have none.
    pub url: Option<Box<str>>,
    /// It is reached without TLS.
    pub insecure: bool,
    /// The Secret of who asks.
    pub secret_ref: Option<SecretRef>,
    /// The Secret of certificates.
    pub cert_secret_ref: Option<SecretRef>,
}

/// A Secret of the source's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct SecretRef {
    /// Its name.
    pub name: Box<str>,
}

/// What came of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SourceStatus {
    /// What it made last.
    pub artifact: Option<Artifact>,
}

/// What a source made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Artifact {
    /// Its revision.
    pub revision: Box<str>,
    /// When it was made. Whole seconds, rounded down.
    pub last_update_time: Option<Timestamp>,
    /// What its origin says of it, such as the annotations of an OCI manifest.
    pub metadata: BTreeMap<String, String>,
}

impl SourceKind {
    /// What the API server calls them, and where it has them.
    pub fn resource(self) -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk("source.toolkit.fluxcd.io", "v1", self.name()))
    }
}
