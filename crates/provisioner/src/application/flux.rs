//! Applications deployed by Flux: a source, and a `HelmRelease` or `Kustomization` of it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Secret;
use kube::core::ApiResource;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};

use super::catalogue::Parameter;
use super::driver::{Desired, Driver, IDENTITY, Identity, Source, ambiguous, cluster_name, each_provisioned};
use crate::provisioner::Provisioner;
use crate::{DeletionPolicy, Outcome, Resource, Scope, Visited};

/// The key of a kubeconfig in a Secret, as Flux reads it.
const KUBECONFIG: &str = "value";

/// Flux's controllers on the local cluster.
///
/// Of a [`Desired`] application Flux has no words for labels of its namespace, for whether it is applied on the server's
/// side (it always is), and for one that is up although it works badly. The namespace of a kustomization has to be there.
#[derive(Clone, Debug)]
pub struct Flux {
    /// The namespace of sources, releases and kubeconfigs.
    pub namespace: String,
    /// How often Flux looks at sources and releases, as Flux writes it: `10m`.
    pub interval: String,
    /// Labels of sources and releases, such as the key by which Flux's controllers are sharded.
    pub labels: BTreeMap<String, String>,
}

fn kind(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn helm_repository() -> ApiResource {
    kind("source.toolkit.fluxcd.io", "v1", "HelmRepository", "helmrepositories")
}

fn git_repository() -> ApiResource {
    kind("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories")
}

fn helm_release() -> ApiResource {
    kind("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases")
}

fn kustomization() -> ApiResource {
    kind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations")
}

impl Flux {
    fn metadata(&self, identity: &Identity) -> Value {
        let mut labels = json!(self.labels);
        labels[IDENTITY] = json!(identity.key);
        json!({"name": identity.object_name(), "namespace": self.namespace, "labels": labels})
    }

    fn source(&self, identity: &Identity, source: &Source) -> Resource {
        let (kind, spec) = match source {
            Source::Chart { repo, .. } => {
                (helm_repository(), json!({"url": repo, "interval": self.interval}))
            }
            Source::Git { repo, branch, .. } => {
                (git_repository(), json!({"url": repo, "interval": self.interval, "ref": {"branch": branch}}))
            }
        };
        let object = json!({"metadata": self.metadata(identity), "spec": spec});
        let source = Resource::new("source", &kind, object);
        // A Helm repository of OCI artifacts has no status; what is wrong with either shows at the release.
        if matches!(kind.kind.as_str(), "GitRepository") { source.awaiting("Ready") } else { source }
    }

    fn release(&self, scope: &Scope, identity: &Identity, desired: &Desired) -> Resource {
        let name = identity.object_name();
        let mut spec = json!({"interval": self.interval});
        if !scope.target.is_local() {
            let secret = cluster_name(scope.target.id());
            spec["kubeConfig"] = json!({"secretRef": {"name": secret, "key": KUBECONFIG}});
        }
        spec["targetNamespace"] = json!(desired.namespace);
        let kind = match &desired.source {
            Source::Git { path, kustomize: true, .. } => {
                spec["sourceRef"] = json!({"kind": "GitRepository", "name": name});
                spec["path"] = json!(path);
                spec["prune"] = json!(true);
                spec["wait"] = json!(true);
                kustomization()
            }
            source => {
                spec["chart"] = match source {
                    Source::Chart { chart, version, .. } => json!({"spec": {
                        "chart": chart, "version": version,
                        "sourceRef": {"kind": "HelmRepository", "name": name},
                    }}),
                    Source::Git { path, .. } => json!({"spec": {
                        "chart": path, "sourceRef": {"kind": "GitRepository", "name": name},
                    }}),
                };
                if let Some(release) = &desired.release {
                    spec["releaseName"] = json!(release);
                }
                spec["install"] = json!({"createNamespace": desired.create_namespace});
                let values = values(desired.values.as_ref(), &desired.parameters);
                if !values.is_null() {
                    spec["values"] = values;
                }
                helm_release()
            }
        };
        let object = json!({"metadata": self.metadata(identity), "spec": spec});
        Resource::new("release", &kind, object).awaiting("Ready")
    }

    fn secret(&self, cluster: &str, kubeconfig: &str) -> Resource {
        let object = json!({
            "metadata": {"name": cluster_name(cluster), "namespace": self.namespace},
            "data": {KUBECONFIG: STANDARD.encode(kubeconfig)},
        });
        Resource::new("kubeconfig", &ApiResource::erase::<Secret>(&()), object)
    }
}

/// The scope of objects on the local cluster. They have no dependants of their own: their controllers' finalizers hold
/// them until what they deployed is gone.
pub(super) fn local(scope: &Scope) -> Scope {
    let deletion = match scope.deletion {
        DeletionPolicy::Orphan => DeletionPolicy::Orphan,
        DeletionPolicy::Foreground | DeletionPolicy::Background => DeletionPolicy::Background,
    };
    scope.on(scope.local.clone()).deleting(deletion)
}

#[async_trait]
impl Driver for Flux {
    async fn apply(&self, scope: &Scope, identity: &Identity, desired: &Desired) -> Visited {
        let (source, release) =
            (self.source(identity, &desired.source), self.release(scope, identity, desired));
        let scope = local(scope);
        if !release.is_settled(&scope) {
            let others = release.others_labelled(&scope, IDENTITY, &identity.key).await?;
            if !others.is_empty() {
                return Err(ambiguous(identity, &others));
            }
        }
        each_provisioned(&scope, [&source as &dyn Provisioner<Scope>, &release]).await
    }

    async fn delete(&self, scope: &Scope, identity: &Identity) -> Visited {
        let scope = local(scope);
        let object = || json!({"metadata": self.metadata(identity)});
        // Whatever it was made of: the catalogue is not asked. What applies goes before what it applies.
        for kind in [helm_release(), kustomization(), helm_repository(), git_repository()] {
            let outcome = Resource::new("any", &kind, object()).deprovision(&scope).await?;
            if !outcome.is_ready() {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Ready)
    }

    async fn register(&self, scope: &Scope, cluster: &str, kubeconfig: &SecretString) -> Visited {
        self.secret(cluster, kubeconfig.expose_secret()).provision(&local(scope)).await
    }

    async fn unregister(&self, scope: &Scope, cluster: &str) -> Visited {
        self.secret(cluster, "").deprovision(&local(scope)).await
    }
}

/// Values with parameters set in them, as `--set` does for dotted names.
fn values(values: Option<&Value>, parameters: &[Parameter]) -> Value {
    let mut whole = values.cloned().unwrap_or_default();
    for parameter in parameters {
        let mut place = &mut whole;
        for part in parameter.name.split('.') {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place = &mut place[part];
        }
        *place = Value::String(parameter.value.clone());
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_set_in_values_by_their_dotted_names() {
        let set = |name: &str| Parameter { name: name.to_owned(), value: "x".to_owned() };
        let given = json!({"image": {"tag": "1", "pull": "always"}});
        let expected = json!({"image": {"tag": "x", "pull": "always"}, "a": {"b": "x"}});
        assert_eq!(values(Some(&given), &[set("image.tag"), set("a.b")]), expected);
        assert_eq!(values(None, &[]), Value::Null);
    }
}
