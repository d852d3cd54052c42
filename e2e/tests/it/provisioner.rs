//! A real kustomize-controller applies on a second cluster what the Flux driver asks it for on the first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use serde_json::json;
use windlass_cluster::{Cluster, Flux as KustomizeController};
use windlass_e2e::eventually;
use windlass_e2e::flux::{Artifacts, GitRemote, Kind, NewCommit, Source};
use windlass_provisioner::{
    Application, Driver, Flux, HelmApplicationSpec, HelmApplicationVersion, KubeconfigSecret, Outcome, Owner,
    Registration, RemoteClusters, RemoteOptions, Scope, Tree, leaf, remote_cluster,
};
use windlass_runtime::CallOptions;

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-flux, namespace: default}\n";

#[tokio::test]
async fn a_real_kustomize_controller_applies_on_the_second_cluster_and_its_removal_is_awaited() {
    let Some(first) = Cluster::shared().await.unwrap() else { return };
    let Some(flux) = KustomizeController::shared(&first).await.unwrap() else { return };
    let Some(second) = Cluster::own().await.unwrap() else { return };
    let namespace = first.namespace("provisioner").await.unwrap();
    let (name, client) = (namespace.name().to_owned(), first.admin().await.unwrap());
    let authority = STANDARD.encode(std::fs::read(second.ca_file()).unwrap());
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": second.url(), "certificate-authority-data": authority}}],
        "users": [{"name": "a", "user": {"token": second.admin_token()}}],
    });
    let secret =
        json!({"metadata": {"name": "second"}, "stringData": {"kubeconfig": kubeconfig.to_string()}});
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &name);
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();

    let remote = GitRemote::new().await.unwrap();
    let commit = remote.commit(NewCommit::new("one", Timestamp::now(), "map.yaml", MAP)).await.unwrap();
    let artifacts = Artifacts::start().await.unwrap();
    let (label, shard) = flux.label();
    let driver: Arc<dyn Driver> = Arc::new(Flux {
        namespace: name.clone(),
        interval: "1h".to_owned(),
        labels: BTreeMap::from([(label.to_owned(), shard.to_owned())]),
    });
    let version = HelmApplicationVersion {
        version: "1.0.0".to_owned(),
        repo: "https://git.example.com/fleet.git".to_owned(),
        branch: Some("main".to_owned()),
        path: Some("./".to_owned()),
        kustomize: true,
        ..HelmApplicationVersion::default()
    };
    let spec = HelmApplicationSpec { versions: vec![version], ..HelmApplicationSpec::default() };
    let catalogue = Arc::new(BTreeMap::from([("fleet".to_owned(), spec)]));
    let to = KubeconfigSecret::new(format!("second-{name}"), name.as_str(), "second", "kubeconfig");
    let fleet = Application::new("fleet", "fleet", "1.0.0", catalogue, Arc::clone(&driver));
    let registration = Some(leaf(Registration::new(driver, to.clone())));
    let options = RemoteOptions { registration, ..RemoteOptions::default() };
    let calls = CallOptions::new(Duration::from_secs(10));
    let clusters = Arc::new(RemoteClusters::new(calls.clone()));
    let tree = Tree::new(remote_cluster("second", to, clusters, options, leaf(fleet))).unwrap();
    let owner = Owner { uid: format!("owner-{name}"), ..Owner::default() };
    let scope = Scope::new(windlass_provisioner::Cluster::local(client.clone(), calls), owner);

    assert!(!tree.provision(&scope).await.unwrap().is_ready(), "its source is not ready");
    let sources: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &name, &Kind::GitRepository.resource());
    let source = sources.list(&ListParams::default()).await.unwrap().items.remove(0);
    let source = Source::of(&client, &name, Kind::GitRepository, source.metadata.name.as_deref().unwrap());
    source.publish(&artifacts, &remote, &commit).await.unwrap();
    let far: Api<ConfigMap> = Api::namespaced(second.admin().await.unwrap(), "default");
    eventually("the tree is up", || async {
        match tree.provision(&scope).await? {
            Outcome::Ready => Ok(Some(())),
            Outcome::Yield { .. } => anyhow::bail!("{}\n{}", tree.render(), flux.said()),
        }
    })
    .await
    .unwrap();
    assert!(far.get_opt("from-flux").await.unwrap().is_some(), "{}", flux.said());

    eventually("the tree is gone", || async {
        match tree.deprovision(&scope).await? {
            Outcome::Ready => Ok(Some(())),
            Outcome::Yield { .. } => anyhow::bail!("{}\n{}", tree.render(), flux.said()),
        }
    })
    .await
    .unwrap();
    assert!(far.get_opt("from-flux").await.unwrap().is_none(), "it was pruned before the Kustomization went");
    let left = secrets.list(&ListParams::default()).await.unwrap();
    assert_eq!(
        left.items.len(),
        1,
        "the registration is gone, and the kubeconfig that it was made from is not"
    );
}
