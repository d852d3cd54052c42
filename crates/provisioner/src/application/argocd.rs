//! Applications deployed by Argo CD. Upstream: `cd/argocd/driver.go`, with the field's known mends.

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Secret;
use kube::config::Kubeconfig;
use kube::core::ApiResource;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use super::driver::{Desired, Driver, IDENTITY, Identity, Source, ambiguous, cluster_name};
use super::flux::local;
use crate::provisioner::Provisioner;
use crate::resource::Readiness;
use crate::{DeletionPolicy, ProvisionError, Reason, Resource, Scope, Visited};

/// What makes Argo CD delete what an application made before the application.
const CASCADE: &str = "resources-finalizer.argocd.argoproj.io";

/// Argo CD on the local cluster.
#[derive(Clone, Debug)]
pub struct ArgoCd {
    /// Its namespace: `argocd`.
    pub namespace: String,
    /// The project of applications: `default`.
    pub project: String,
}

fn kind() -> ApiResource {
    ApiResource {
        group: "argoproj.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "argoproj.io/v1alpha1".to_owned(),
        kind: "Application".to_owned(),
        plural: "applications".to_owned(),
    }
}

impl ArgoCd {
    fn application(&self, scope: &Scope, identity: &Identity, desired: &Desired) -> Resource {
        let destination = if scope.target.is_local() { "in-cluster" } else { scope.target.id() };
        let mut options = Vec::new();
        if desired.create_namespace {
            options.push("CreateNamespace=true");
        }
        if desired.server_side_apply {
            options.push("ServerSideApply=true");
        }
        let mut policy = json!({"automated": {"selfHeal": true, "prune": true}});
        if !options.is_empty() {
            policy["syncOptions"] = json!(options);
        }
        if !desired.namespace_labels.is_empty() {
            policy["managedNamespaceMetadata"] = json!({"labels": desired.namespace_labels});
        }
        let object = json!({
            "metadata": {
                "name": identity.object_name(), "namespace": self.namespace, "labels": {IDENTITY: identity.key},
            },
            "spec": {
                "project": self.project,
                "source": source(desired),
                "destination": {"name": destination, "namespace": desired.namespace},
                "syncPolicy": policy,
            },
        });
        let judge = if desired.allow_degraded { health_or_degraded } else { health };
        Resource::new("application", &kind(), object).judged_by(judge)
    }

    fn named(&self, identity: &Identity) -> Resource {
        let metadata = json!({"name": identity.object_name(), "namespace": self.namespace});
        Resource::new("application", &kind(), json!({"metadata": metadata}))
    }

    fn secret(&self, cluster: &str, data: Value) -> Resource {
        let object = json!({
            "metadata": {
                "name": cluster_name(cluster), "namespace": self.namespace,
                "labels": {"argocd.argoproj.io/secret-type": "cluster"},
            },
            "data": data,
        });
        Resource::new("cluster", &ApiResource::erase::<Secret>(&()), object)
    }
}

fn source(desired: &Desired) -> Value {
    let mut source = match &desired.source {
        Source::Chart { repo, chart, version } => {
            json!({"repoURL": repo, "chart": chart, "targetRevision": version})
        }
        Source::Git { repo, branch, path, .. } => {
            json!({"repoURL": repo, "path": path, "targetRevision": branch})
        }
    };
    let mut helm = json!({});
    if let Some(release) = &desired.release {
        helm["releaseName"] = json!(release);
    }
    if !desired.parameters.is_empty() {
        helm["parameters"] = json!(desired.parameters);
    }
    if let Some(values) = &desired.values {
        helm["valuesObject"] = values.clone();
    }
    if helm != json!({}) {
        source["helm"] = helm;
    }
    source
}

fn health(application: &Value) -> Readiness {
    judged(application, false)
}

fn health_or_degraded(application: &Value) -> Readiness {
    judged(application, true)
}

/// Health is believed once Argo CD has compared with the source that is asked for now, and its last operation was about
/// the revision that it found there.
fn judged(application: &Value, allow_degraded: bool) -> Readiness {
    let status = &application["status"];
    let compared = &status["sync"]["comparedTo"]["source"];
    if *compared != application["spec"]["source"] {
        return Readiness::Waiting("Argo CD has not compared with what is asked for now".to_owned());
    }
    if status["sync"]["status"] != "Synced" {
        return Readiness::Waiting("it is not synced".to_owned());
    }
    let operation = &status["operationState"];
    if operation.is_object() && operation["syncResult"]["revision"] != status["sync"]["revision"] {
        return Readiness::Waiting("its last operation was about another revision".to_owned());
    }
    match status["health"]["status"].as_str() {
        Some("Healthy") => Readiness::Ready,
        Some("Degraded") if allow_degraded => Readiness::Ready,
        Some("Degraded") => Readiness::Waiting("it is degraded".to_owned()),
        _ => Readiness::Waiting("it is not healthy".to_owned()),
    }
}

#[async_trait]
impl Driver for ArgoCd {
    async fn apply(&self, scope: &Scope, identity: &Identity, desired: &Desired) -> Visited {
        let application = self.application(scope, identity, desired);
        let scope = local(scope);
        if !application.is_settled(&scope) {
            let others = application.others_labelled(&scope, IDENTITY, &identity.key).await?;
            if !others.is_empty() {
                return Err(ambiguous(identity, &others));
            }
        }
        application.provision(&scope).await
    }

    async fn delete(&self, scope: &Scope, identity: &Identity) -> Visited {
        let scope = local(scope);
        let application = self.named(identity);
        // Automated sync would bring back what the cascade removes (argo-cd#12943): both in one write, before the end.
        let patch = json!({
            "metadata": {"finalizers": [CASCADE]}, "spec": {"syncPolicy": {"automated": null}},
        });
        if scope.deletion != DeletionPolicy::Orphan {
            application.prepare_deletion(&scope, patch).await?;
        }
        application.deprovision(&scope).await
    }

    async fn register(&self, scope: &Scope, cluster: &str, kubeconfig: &SecretString) -> Visited {
        let (server, config) = credentials(kubeconfig)?;
        let encoded = |text: &str| STANDARD.encode(text);
        let data = json!({
            "name": encoded(cluster), "server": encoded(&server), "config": encoded(&config.to_string()),
        });
        self.secret(cluster, data).provision(&local(scope)).await
    }

    async fn unregister(&self, scope: &Scope, cluster: &str) -> Visited {
        self.secret(cluster, json!({})).deprovision(&local(scope)).await
    }
}

/// The server and Argo CD's form of what a kubeconfig says.
fn credentials(kubeconfig: &SecretString) -> Result<(String, Value), ProvisionError> {
    let invalid = || {
        let message = "the kubeconfig has no current context with a cluster and a user";
        ProvisionError::user_action(Reason::InvalidKubeconfig, message)
    };
    let parsed =
        Kubeconfig::from_yaml(kubeconfig.expose_secret()).map_err(|error| invalid().caused_by(error))?;
    let current = parsed.current_context.clone().ok_or_else(invalid)?;
    let context = parsed.contexts.iter().find(|context| context.name == current);
    let context = context.and_then(|context| context.context.as_ref()).ok_or_else(invalid)?;
    let cluster = parsed.clusters.iter().find(|cluster| cluster.name == context.cluster);
    let cluster = cluster.and_then(|cluster| cluster.cluster.as_ref()).ok_or_else(invalid)?;
    let user = parsed.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
    let user = user.and_then(|user| user.auth_info.as_ref()).ok_or_else(invalid)?;
    let mut tls = json!({});
    match (&cluster.certificate_authority_data, cluster.insecure_skip_tls_verify) {
        (_, Some(true)) => tls["insecure"] = json!(true),
        (Some(authority), _) => tls["caData"] = json!(authority),
        (None, _) => {}
    }
    if let (Some(certificate), Some(key)) = (&user.client_certificate_data, &user.client_key_data) {
        tls["certData"] = json!(certificate);
        tls["keyData"] = json!(key.expose_secret());
    }
    let mut config = json!({"tlsClientConfig": tls});
    if let Some(token) = &user.token {
        config["bearerToken"] = json!(token.expose_secret());
    }
    Ok((cluster.server.clone().ok_or_else(invalid)?, config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_believed_when_it_is_about_what_is_asked_for_now() {
        let mut application = json!({
            "spec": {"source": {"targetRevision": "2"}},
            "status": {
                "sync": {"status": "Synced", "revision": "2", "comparedTo": {"source": {"targetRevision": "1"}}},
                "operationState": {"syncResult": {"revision": "1"}},
                "health": {"status": "Healthy"},
            },
        });
        let waits = |text: &str| Readiness::Waiting(text.to_owned());
        assert_eq!(health(&application), waits("Argo CD has not compared with what is asked for now"));
        application["status"]["sync"]["comparedTo"]["source"]["targetRevision"] = json!("2");
        assert_eq!(health(&application), waits("its last operation was about another revision"));
        application["status"]["operationState"]["syncResult"]["revision"] = json!("2");
        assert_eq!(health(&application), Readiness::Ready);
        application["status"]["health"]["status"] = json!("Degraded");
        assert_eq!(
            (health(&application), health_or_degraded(&application)),
            (waits("it is degraded"), Readiness::Ready)
        );
        application["status"]["sync"]["status"] = json!("OutOfSync");
        assert_eq!(health(&application), waits("it is not synced"));
    }

    #[test]
    fn a_token_and_a_certificate_are_registered_in_argo_cds_form() {
        let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
            contexts: [{name: a, context: {cluster: a, user: a}}]\n\
            clusters: [{name: a, cluster: {server: 'https://x', certificate-authority-data: Y2E=}}]\n\
            users: [{name: a, user: {token: t, client-certificate-data: Yw==, client-key-data: aw==}}]\n";
        let (server, config) = credentials(&kubeconfig.to_owned().into()).unwrap();
        assert_eq!(server, "https://x");
        let tls = json!({"caData": "Y2E=", "certData": "Yw==", "keyData": "aw=="});
        assert_eq!(config, json!({"bearerToken": "t", "tlsClientConfig": tls}));
        assert_eq!(credentials(&"a: b".to_owned().into()).unwrap_err().reason, Reason::InvalidKubeconfig);
    }
}
