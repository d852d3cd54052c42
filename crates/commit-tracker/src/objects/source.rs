//! The sources: `source.toolkit.fluxcd.io/v1`, four kinds that differ in little of what is read.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use serde::{Deserialize, Deserializer};

use super::metadata::{Metadata, watched};
use crate::SourceKind;

/// A kind of source.
pub trait SourceObject: Send + Sync + 'static {
    /// Which one.
    const KIND: SourceKind;
    /// Its plural name.
    const PLURAL: &'static str;
}

/// The marker of [`GitRepository`].
#[derive(Clone, Copy, Debug)]
pub enum GitRepositoryKind {}
/// The marker of [`OciRepository`].
#[derive(Clone, Copy, Debug)]
pub enum OciRepositoryKind {}
/// The marker of [`Bucket`].
#[derive(Clone, Copy, Debug)]
pub enum BucketKind {}
/// The marker of [`ExternalArtifact`].
#[derive(Clone, Copy, Debug)]
pub enum ExternalArtifactKind {}

impl SourceObject for GitRepositoryKind {
    const KIND: SourceKind = SourceKind::GitRepository;
    const PLURAL: &'static str = "gitrepositories";
}

impl SourceObject for OciRepositoryKind {
    const KIND: SourceKind = SourceKind::OciRepository;
    const PLURAL: &'static str = "ocirepositories";
}

impl SourceObject for BucketKind {
    const KIND: SourceKind = SourceKind::Bucket;
    const PLURAL: &'static str = "buckets";
}

impl SourceObject for ExternalArtifactKind {
    const KIND: SourceKind = SourceKind::ExternalArtifact;
    const PLURAL: &'static str = "externalartifacts";
}

/// A Git repository.
pub type GitRepository = Source<GitRepositoryKind>;
/// An artifact in a registry.
pub type OciRepository = Source<OciRepositoryKind>;
/// A bucket of an object store.
pub type Bucket = Source<BucketKind>;
/// An artifact that another controller makes.
pub type ExternalArtifact = Source<ExternalArtifactKind>;

/// What the tracker reads of a source.
pub struct Source<K> {
    /// Which one it is.
    pub metadata: Metadata,
    /// `spec.url`; buckets and external artifacts have none.
    pub url: Option<Box<str>>,
    /// `spec.insecure`: it is reached without TLS.
    pub insecure: bool,
    /// The name in `spec.secretRef`.
    pub secret: Option<Box<str>>,
    /// The name in `spec.certSecretRef`.
    pub cert_secret: Option<Box<str>>,
    /// What it made last.
    pub artifact: Option<Artifact>,
    kind: PhantomData<fn() -> K>,
}

/// What a source made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Artifact {
    /// Its revision.
    pub revision: Option<Box<str>>,
    /// When it was made. Whole seconds, rounded down.
    pub last_update_time: Option<Timestamp>,
    /// What its origin says of it, such as the annotations of an OCI manifest.
    pub metadata: BTreeMap<String, String>,
}

watched!([K] Source<K>);

impl<K: SourceObject> Source<K> {
    /// What the API server calls them.
    pub fn resource() -> ApiResource {
        let kind = GroupVersionKind::gvk("source.toolkit.fluxcd.io", "v1", K::KIND.name());
        ApiResource::from_gvk_with_plural(&kind, K::PLURAL)
    }
}

impl<'de, K> Deserialize<'de> for Source<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Raw::deserialize(deserializer)?;
        Ok(Self {
            metadata: raw.metadata,
            url: raw.spec.url,
            insecure: raw.spec.insecure,
            secret: raw.spec.secret_ref.name,
            cert_secret: raw.spec.cert_secret_ref.name,
            artifact: raw.status.artifact.filter(|artifact| artifact.revision.is_some()),
            kind: PhantomData,
        })
    }
}

impl<K> Clone for Source<K> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            url: self.url.clone(),
            insecure: self.insecure,
            secret: self.secret.clone(),
            cert_secret: self.cert_secret.clone(),
            artifact: self.artifact.clone(),
            kind: PhantomData,
        }
    }
}

impl<K: SourceObject> fmt::Debug for Source<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(K::KIND.name())
            .field("metadata", &self.metadata)
            .field("url", &self.url)
            .field("insecure", &self.insecure)
            .field("secret", &self.secret)
            .field("cert_secret", &self.cert_secret)
            .field("artifact", &self.artifact)
            .finish_non_exhaustive()
    }
}

/// A source as it is written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Raw {
    metadata: Metadata,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSpec {
    url: Option<Box<str>>,
    insecure: bool,
    secret_ref: RawReference,
    cert_secret_ref: RawReference,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawReference {
    name: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    artifact: Option<Artifact>,
}
