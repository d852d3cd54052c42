//! Which applications and versions there are.

use std::collections::BTreeMap;

use async_trait::async_trait;
use kube::CustomResource;
use kube::core::ApiResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_runtime::{VersionRange, version_of_tag};

use super::driver::Source;
use crate::resource::{reference_to, shown};
use crate::{ProvisionError, Reason, Scope};

/// An application and its versions.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "provisioner.windlass.dev", version = "v1alpha1", kind = "HelmApplication", namespaced)]
#[serde(rename_all = "camelCase")]
pub struct HelmApplicationSpec {
    /// What it is for, in words or as a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// Its licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Words that it is found by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its versions.
    pub versions: Vec<HelmApplicationVersion>,
}

/// A version of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmApplicationVersion {
    /// Its semantic version.
    pub version: String,
    /// The URL of the Helm or Git repository.
    pub repo: String,
    /// The chart in a Helm repository. Either this or `branch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// The branch of a Git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Where in the Git repository it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether what is there is a kustomization, and no chart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kustomize: bool,
    /// The release's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Parameters, as `--set` takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// The namespace that it goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether that is created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create_namespace: bool,
    /// Whether it is applied on the server's side.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub server_side_apply: bool,
}

/// A parameter of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parameter {
    /// Its dotted name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl HelmApplicationSpec {
    /// The version that is meant: the one that equals `wanted` as semantic versions do (a `v` before it and build metadata
    /// do not count), else the highest in the range that `wanted` is, such as `^1.2`, `1.x` or `>=1.2, <2`. One before a
    /// release is only in a range that names such a one.
    pub fn version(&self, wanted: &str) -> Option<&HelmApplicationVersion> {
        let exact = self.versions.iter().find(|known| same_version(&known.version, wanted));
        exact.or_else(|| {
            let range = VersionRange::parse(wanted).ok()?;
            let versions = self.versions.iter().filter_map(|known| {
                let version = version_of_tag(&known.version).filter(|version| range.contains(version))?;
                Some((version, known))
            });
            let highest = versions
                .max_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.version.cmp(&other.version)));
            highest.map(|(_, known)| known)
        })
    }
}

fn same_version(one: &str, other: &str) -> bool {
    let bare = |version: &str| {
        let version = version.strip_prefix('v').unwrap_or(version);
        version.split_once('+').map_or(version, |(version, _)| version).to_owned()
    };
    bare(one) == bare(other)
}

impl HelmApplicationVersion {
    /// Where it comes from.
    pub(super) fn source(&self) -> Result<Source, ProvisionError> {
        let path = || self.path.clone().unwrap_or_else(|| ".".to_owned());
        match (&self.chart, &self.branch) {
            (Some(chart), None) => Ok(Source::Chart {
                repo: self.repo.clone(),
                chart: chart.clone(),
                version: self.version.clone(),
            }),
            (None, Some(branch)) => Ok(Source::Git {
                repo: self.repo.clone(),
                branch: branch.clone(),
                path: path(),
                kustomize: self.kustomize,
            }),
            _ => {
                let message =
                    format!("version {} in the catalogue has to have a chart or a branch", self.version);
                Err(ProvisionError::user_action(Reason::VersionNotFound, message))
            }
        }
    }
}

/// Where applications are looked up.
#[async_trait]
pub trait Catalogue: Send + Sync {
    /// The application of that name.
    async fn find(&self, scope: &Scope, application: &str) -> Result<HelmApplicationSpec, ProvisionError>;
}

fn unknown(application: &str) -> ProvisionError {
    let message = format!("the catalogue has no application {application}");
    ProvisionError::user_action(Reason::ApplicationNotFound, message)
}

#[async_trait]
impl Catalogue for BTreeMap<String, HelmApplicationSpec> {
    async fn find(&self, _scope: &Scope, application: &str) -> Result<HelmApplicationSpec, ProvisionError> {
        self.get(application).cloned().ok_or_else(|| unknown(application))
    }
}

/// The `HelmApplication`s of a namespace of the local cluster, which the account has to be allowed to get, list and watch.
#[derive(Clone, Debug)]
pub struct PublishedCatalogue {
    /// The namespace.
    pub namespace: String,
}

#[async_trait]
impl Catalogue for PublishedCatalogue {
    async fn find(&self, scope: &Scope, application: &str) -> Result<HelmApplicationSpec, ProvisionError> {
        // An owner that asks for what is not there is parked until somebody publishes it.
        let object = reference_to(&ApiResource::erase::<HelmApplication>(&()), &self.namespace, application);
        let found = scope.memory.read(&scope.local, &object).await?.ok_or_else(|| unknown(application))?;
        HelmApplicationSpec::deserialize(&found["spec"]).map_err(|error| {
            let message = format!("{} has a spec of another shape", shown(&object));
            ProvisionError::user_action(Reason::ApplicationNotFound, message).caused_by(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_equal_as_semantic_versions_are() {
        for (one, other, same) in [
            ("v1.2.3", "1.2.3", true),
            ("1.2.3+a", "1.2.3+b", true),
            ("1.2.3-rc1", "1.2.3", false),
            ("1.2", "1.2.0", false),
        ] {
            assert_eq!(same_version(one, other), same, "{one} {other}");
        }
    }

    #[test]
    fn a_range_means_the_highest_version_in_it_and_an_exact_version_itself() {
        let published =
            ["1.0.0", "v1.10.0", "1.2.3", "1.9.0", "2.0.0", "2.1.0-rc.1", "2.1.0-rc.2", "nightly"];
        let versions = published.map(|version| HelmApplicationVersion {
            version: version.to_owned(),
            ..HelmApplicationVersion::default()
        });
        let spec = HelmApplicationSpec { versions: versions.to_vec(), ..HelmApplicationSpec::default() };
        for (wanted, expected) in [
            ("1.0.0", Some("1.0.0")),
            ("=1.0.0", Some("1.0.0")),
            ("1.10.0", Some("v1.10.0")),
            ("2.1.0-rc.1", Some("2.1.0-rc.1")),
            ("nightly", Some("nightly")),
            ("^1.2", Some("v1.10.0")),
            ("1.x", Some("v1.10.0")),
            ("~1.2", Some("1.2.3")),
            (">=1.2, <1.10", Some("1.9.0")),
            (">=1.2, <2", Some("v1.10.0")),
            ("<1.2 || ^2", Some("2.0.0")),
            ("*", Some("2.0.0")),
            (">=2.1.0-0", Some("2.1.0-rc.2")),
            (">=2.1", None),
            ("1.0.1", None),
            ("^3", None),
            ("latest", None),
        ] {
            let found = spec.version(wanted).map(|found| found.version.as_str());
            assert_eq!(found, expected, "{wanted}");
        }
    }
}
