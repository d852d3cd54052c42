use anyhow::{Context as _, Result};
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use std::time::{Duration, Instant};
use windlass_cluster::{Cluster, Namespace};

const RBAC: &str = r"
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: elsewhere}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: elsewhere}
rules:
- {apiGroups: [folder.grafana.app], resources: [folders], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: elsewhere}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: ServiceAccount, name: reader, namespace: elsewhere}
";

fn folders(client: kube::Client, namespace: &Namespace) -> Api<DynamicObject> {
    let folder = ApiResource::from_gvk(&GroupVersionKind::gvk("folder.grafana.app", "v1beta1", "Folder"));
    Api::namespaced_with(client, namespace.name(), &folder)
}

fn folder(name: &str, owner: Option<&DynamicObject>) -> Result<DynamicObject> {
    let owners: Vec<_> = owner
        .iter()
        .map(|owner| {
            json!({
                "apiVersion": "folder.grafana.app/v1beta1",
                "kind": "Folder",
                "name": owner.metadata.name,
                "uid": owner.metadata.uid,
            })
        })
        .collect();
    Ok(serde_json::from_value(json!({
        "apiVersion": "folder.grafana.app/v1beta1",
        "kind": "Folder",
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"title": name},
    }))?)
}

#[tokio::test]
async fn an_identity_may_do_what_its_role_says_and_nothing_else() -> Result<()> {
    let Some(cluster) = Cluster::shared().await? else { return Ok(()) };
    let namespace = cluster.namespace("identity").await?;
    let reader = namespace.service_account_from(RBAC).await?;
    let api = folders(cluster.client(&reader.kubeconfig).await?, &namespace);
    assert_eq!(api.list(&ListParams::default()).await?.items.len(), 0);
    let refused = api.create(&PostParams::default(), &folder("a", None)?).await;
    let refused = refused.err().context("a folder was created")?.to_string();
    assert!(refused.contains("cannot create resource"), "{refused}");
    let elsewhere = cluster.namespace("other").await?;
    let api = folders(cluster.client(&reader.kubeconfig).await?, &elsewhere);
    assert!(api.list(&ListParams::default()).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_token_ends_when_it_was_meant_to() -> Result<()> {
    let Some(cluster) = Cluster::shared().await? else { return Ok(()) };
    let namespace = cluster.namespace("token").await?;
    let reader = namespace.service_account_from(RBAC).await?;
    let lists = async |lifetime: Duration| -> Result<bool> {
        let kubeconfig = namespace.kubeconfig("short", &namespace.token(&reader.name, lifetime).await?)?;
        let api = folders(cluster.client(&kubeconfig).await?, &namespace);
        anyhow::Ok(api.list(&ListParams::default()).await.is_ok())
    };
    assert!(lists(Duration::from_mins(1)).await?);
    assert!(!lists(Duration::ZERO).await?);
    Ok(())
}

#[tokio::test]
async fn what_an_object_owns_goes_with_it() -> Result<()> {
    let Some(cluster) = Cluster::shared().await? else { return Ok(()) };
    let namespace = cluster.namespace("garbage").await?;
    let api = folders(cluster.admin().await?, &namespace);
    let owner = api.create(&PostParams::default(), &folder("owner", None)?).await?;
    api.create(&PostParams::default(), &folder("owned", Some(&owner))?).await?;
    cluster.kubectl(&["-n", namespace.name(), "delete", "folder", "owner"], "").await?;
    until_gone(|| async { Ok(api.get_opt("owned").await?.is_none()) }).await
}

#[tokio::test]
async fn a_cluster_of_its_own_can_be_stopped_paused_and_compacted() -> Result<()> {
    let Some(cluster) = Cluster::own().await? else { return Ok(()) };
    let namespace = cluster.namespace("own").await?;
    let api = folders(cluster.admin().await?, &namespace);
    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &folder(name, None)?).await?;
    }

    let page = api.list(&ListParams::default().limit(1)).await?;
    let rest = page.metadata.continue_.context("there is one page only")?;
    cluster.compact_etcd().await?;
    cluster.stop_apiserver().await?;
    assert!(cluster.ready().await.is_err());
    cluster.start_apiserver().await?;
    let gone = api.list(&ListParams::default().limit(1).continue_token(&rest)).await;
    match gone {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 410, "{status:?}"),
        other => anyhow::bail!("the old list goes on: {other:?}"),
    }

    cluster.pause_apiserver().await?;
    let get = api.get("a");
    assert!(tokio::time::timeout(Duration::from_millis(300), get).await.is_err(), "a paused server answered");
    cluster.resume_apiserver().await?;
    api.get("a").await?;
    cluster.kill_apiserver().await?;
    assert!(cluster.ready().await.is_err());
    Ok(())
}

async fn until_gone<F: Future<Output = Result<bool>>>(mut gone: impl FnMut() -> F) -> Result<()> {
    let until = Instant::now() + Duration::from_mins(1);
    let mut interval = tokio::time::interval(Duration::from_millis(50));
    while Instant::now() < until {
        interval.tick().await;
        if gone().await? {
            return Ok(());
        }
    }
    anyhow::bail!("it is still there after a minute")
}
