//! Argo CD's own kinds on a real kube-apiserver, where the test writes the status that its controller would, and clusters
//! as Secrets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use windlass_cluster::Cluster as RealCluster;
use windlass_provisioner::{
    Application, ArgoCd, Cluster, Driver as _, Generator, HelmApplicationSpec, HelmApplicationVersion,
    Outcome, Owner, Parameter, ProvisionError, Provisioner as _, Reason, Scope,
};
use windlass_runtime::CallOptions;

use crate::server::Server;

fn argo_cd(namespace: &str) -> ArgoCd {
    ArgoCd { namespace: namespace.to_owned(), project: "default".to_owned() }
}

fn why(outcome: &Outcome) -> Option<Reason> {
    match outcome {
        Outcome::Ready => None,
        Outcome::Yield { reason, .. } => Some(*reason),
    }
}

/// Everything that an application can be given.
struct Extended;

#[async_trait]
impl Generator for Extended {
    async fn values(&self, _scope: &Scope, _version: &str) -> Result<Option<Value>, ProvisionError> {
        Ok(Some(json!({"image": {"pull": "always"}, "sizes": [1, 2]})))
    }

    async fn namespace_labels(&self, _scope: &Scope) -> Result<BTreeMap<String, String>, ProvisionError> {
        Ok(BTreeMap::from([("team".to_owned(), "a".to_owned())]))
    }
}

fn shop(namespace: &str, change: impl FnOnce(&mut HelmApplicationVersion)) -> Application {
    let mut version = HelmApplicationVersion {
        version: "1.0.0".to_owned(),
        repo: "https://example.com/repo".to_owned(),
        chart: Some("shop".to_owned()),
        ..HelmApplicationVersion::default()
    };
    change(&mut version);
    let spec = HelmApplicationSpec { versions: vec![version], ..HelmApplicationSpec::default() };
    let catalogue = Arc::new(BTreeMap::from([("shop".to_owned(), spec)]));
    Application::new("shop", "shop", "1.0.0", catalogue, Arc::new(argo_cd(namespace)))
}

fn extended(version: &mut HelmApplicationVersion) {
    version.release = Some("our-shop".to_owned());
    version.parameters = vec![Parameter { name: "image.tag".to_owned(), value: "1".to_owned() }];
    (version.create_namespace, version.server_side_apply) = (true, true);
}

fn from_git(version: &mut HelmApplicationVersion) {
    (version.chart, version.branch, version.path) =
        (None, Some("main".to_owned()), Some("deploy".to_owned()));
}

/// What its controller says of an application that it has synced.
fn synced(application: &DynamicObject, compared: &Value) -> Value {
    json!({"status": {
        "sync": {
            "status": "Synced", "revision": "1.0.0",
            "comparedTo": {"source": compared, "destination": application.data["spec"]["destination"]},
        },
        "operationState": {
            "operation": {}, "phase": "Succeeded", "startedAt": "2026-01-01T00:00:00Z",
            "syncResult": {"revision": "1.0.0"},
        },
        "health": {"status": "Healthy"},
    }})
}

#[tokio::test]
async fn on_a_real_server_argo_cds_definition_keeps_all_that_is_asked_for_and_its_end_is_awaited() {
    let Some(cluster) = RealCluster::shared().await.unwrap() else { return };
    if !cluster.establish_argo_cd().await.unwrap() {
        return;
    }
    let namespace = cluster.namespace("argo-cd").await.unwrap();
    let (name, client) = (namespace.name(), cluster.admin().await.unwrap());
    let local = Cluster::local(client.clone(), CallOptions::new(Duration::from_secs(10)));
    let scope = Scope::new(local, Owner { uid: format!("owner-{name}"), ..Owner::default() });
    let kind = ApiResource {
        group: "argoproj.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "argoproj.io/v1alpha1".to_owned(),
        kind: "Application".to_owned(),
        plural: "applications".to_owned(),
    };
    let applications: Api<DynamicObject> = Api::namespaced_with(client, name, &kind);
    let only = async || applications.list(&ListParams::default()).await.unwrap().items.remove(0);
    let write = async |patch: Value| {
        let name = only().await.name_any();
        applications.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    let tell = async |compared: &Value| {
        write(json!({"status": null})).await;
        write(synced(&only().await, compared)).await;
    };

    assert!(shop(name, |_| {}).deprovision(&scope).await.unwrap().is_ready(), "what was never there is gone");
    let plain = json!({"repoURL": "https://example.com/repo", "chart": "shop", "targetRevision": "1.0.0"});
    let mut full = plain.clone();
    full["helm"] = json!({
        "releaseName": "our-shop", "parameters": [{"name": "image.tag", "value": "1"}],
        "valuesObject": {"image": {"pull": "always"}, "sizes": [1, 2]},
    });
    let git = json!({"repoURL": "https://example.com/repo", "path": "deploy", "targetRevision": "main"});
    let automated = json!({"automated": {"selfHeal": true, "prune": true}});
    let mut policy = automated.clone();
    policy["syncOptions"] = json!(["CreateNamespace=true", "ServerSideApply=true"]);
    policy["managedNamespaceMetadata"] = json!({"labels": {"team": "a"}});
    let cases = [
        (shop(name, |_| {}), plain, automated.clone()),
        (shop(name, extended).generated_by(Arc::new(Extended)), full, policy),
        (shop(name, from_git), git, automated),
    ];
    let mut before = json!({"repoURL": "https://example.com/other"});
    for (node, source, policy) in cases {
        assert_eq!(why(&node.provision(&scope).await.unwrap()), Some(Reason::NotReady));
        let found = only().await;
        assert_eq!((&found.data["spec"]["source"], &found.data["spec"]["syncPolicy"]), (&source, &policy));
        // Whatever it said of the source before counts for nothing.
        tell(&before).await;
        assert_eq!(why(&node.provision(&scope).await.unwrap()), Some(Reason::NotReady));
        tell(&source).await;
        assert!(node.provision(&scope).await.unwrap().is_ready());
        before = source;
    }

    let node = shop(name, from_git);
    for _ in 0..2 {
        assert_eq!(why(&node.deprovision(&scope).await.unwrap()), Some(Reason::Deleting));
    }
    let going = only().await;
    assert_eq!(going.finalizers(), ["resources-finalizer.argocd.argoproj.io"]);
    assert!(going.data["spec"]["syncPolicy"].get("automated").is_none(), "{:#?}", going.data);
    write(json!({"metadata": {"finalizers": null}})).await;
    assert!(node.deprovision(&scope).await.unwrap().is_ready());
    assert!(applications.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_cluster_is_a_secret_in_argo_cds_form_that_follows_its_kubeconfig_and_goes() {
    let server = Server::new();
    let (scope, argo) = (server.scope("owner"), argo_cd("default"));
    let secrets: Api<Secret> = Api::namespaced(server.observer(), "default");
    assert!(argo.unregister(&scope, "second").await.unwrap().is_ready(), "what was never there is gone");
    for token in ["one", "two"] {
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
             clusters: [{{name: a, cluster: {{server: 'https://second.example.com'}}}}]\n\
             users: [{{name: a, user: {{token: {token}}}}}]\n"
        );
        assert!(argo.register(&scope, "second", &kubeconfig.into()).await.unwrap().is_ready());
        let secret = secrets.list(&ListParams::default()).await.unwrap().items.remove(0);
        assert_eq!(secret.labels()["argocd.argoproj.io/secret-type"], "cluster");
        let data = secret.data.unwrap();
        assert_eq!(
            (&*data["name"].0, &*data["server"].0),
            (&b"second"[..], &b"https://second.example.com"[..])
        );
        let config: Value = serde_json::from_slice(&data["config"].0).unwrap();
        assert_eq!(config, json!({"bearerToken": token, "tlsClientConfig": {}}));
    }
    assert!(argo.unregister(&scope, "second").await.unwrap().is_ready());
    assert!(secrets.list(&ListParams::default()).await.unwrap().items.is_empty());
}
