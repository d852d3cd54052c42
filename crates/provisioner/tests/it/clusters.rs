//! Two real kube-apiservers: the second is reached through the first, rotated, away for a time, and gone for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};
use windlass_cluster::{Cluster as RealCluster, OwnCluster};
use windlass_provisioner::{
    Cluster, KubeconfigSecret, Outcome, Owner, Reason, RemoteClusters, RemoteOptions, Resource, Scope, Tree,
    Unreachable, Visited, leaf, remote_cluster, serial,
};
use windlass_runtime::CallOptions;

use crate::managed::eventually;

async fn write_kubeconfig(client: &Client, namespace: &str, second: &OwnCluster, user: Value) {
    let authority = STANDARD.encode(std::fs::read(second.ca_file()).unwrap());
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": second.url(), "certificate-authority-data": authority}}],
        "users": [{"name": "a", "user": user}],
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "second"},
        "stringData": {"kubeconfig": kubeconfig.to_string()},
    });
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    secrets.patch("second", &PatchParams::apply("test").force(), &Patch::Apply(secret)).await.unwrap();
}

fn map(name: &str, namespace: &str) -> Resource {
    let object = json!({"metadata": {"name": name, "namespace": namespace}, "data": {"key": "value"}});
    Resource::new(name, &ApiResource::erase::<ConfigMap>(&()), object)
}

fn database(namespace: &str) -> Resource {
    let labels = json!({"app": "database"});
    let object = json!({"metadata": {"name": "database", "namespace": namespace}, "spec": {
        "replicas": 1, "serviceName": "database", "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
    }});
    Resource::new("database", &ApiResource::erase::<StatefulSet>(&()), object)
}

fn why(visited: Visited) -> Option<Reason> {
    match visited {
        Ok(Outcome::Ready) => None,
        Ok(Outcome::Yield { reason, .. }) => Some(reason),
        Err(error) => Some(error.reason),
    }
}

/// How long a server is away: a minute in the nightly form, and just long enough for a visit otherwise.
fn outage() -> Duration {
    let is_long = std::env::var_os("WINDLASS_LONG_TESTS").is_some();
    if is_long { Duration::from_mins(1) } else { Duration::ZERO }
}

/// Stops the server, visits the tree for as long as the outage lasts, which says each time that it waits for the server, and
/// starts it again.
async fn away(server: &OwnCluster, expected: Reason, visit: impl AsyncFn() -> Visited) {
    server.stop_apiserver().await.unwrap();
    let end = tokio::time::Instant::now() + outage();
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        every.tick().await;
        assert_eq!(why(visit().await), Some(expected));
        if tokio::time::Instant::now() >= end {
            break;
        }
    }
    server.start_apiserver().await.unwrap();
    // They waited longer each time that they failed, and would go on with that.
    server.stop_controllers().await.unwrap();
    server.start_controllers().await.unwrap();
}

#[tokio::test]
async fn on_real_servers_objects_of_a_second_cluster_outlive_rotation_and_outage_and_are_given_up_by_policy()
{
    let Some(first) = RealCluster::own().await.unwrap() else { return };
    let Some(second) = RealCluster::own().await.unwrap() else { return };
    let _ = windlass_auth::install_crypto_provider();
    let namespace = first.namespace("provisioner").await.unwrap();
    let (name, client) = (namespace.name().to_owned(), first.admin().await.unwrap());
    let calls = CallOptions::new(Duration::from_secs(5));
    let owner = Owner { uid: format!("owner-{name}"), ..Owner::default() };
    let scope = Scope::new(Cluster::local(client.clone(), calls.clone()), owner);
    let destroyed = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&destroyed);
    let unreachable = Unreachable::AbandonIf(Box::new(move |_: &Scope| told.load(Ordering::SeqCst)));
    let remote = KubeconfigSecret::new(format!("second-{name}"), name.as_str(), "second", "kubeconfig");
    let inside = serial("inside", [leaf(map("there", "default")), leaf(database("default"))]);
    let options = RemoteOptions { unreachable, ..RemoteOptions::default() };
    let clusters = Arc::new(RemoteClusters::new(calls));
    let tree = serial(
        "site",
        [leaf(map("here", &name)), remote_cluster("second", remote, clusters, options, inside)],
    );
    let tree = Tree::new(tree).unwrap();
    let up = async |wanted: Option<Reason>| {
        eventually(&format!("it is {wanted:?}"), async || match why(tree.provision(&scope).await) {
            found if found == wanted => Ok(()),
            found => Err(format!("{found:?}\n{}", tree.render())),
        })
        .await;
    };

    write_kubeconfig(&client, &name, &second, json!({"token": second.admin_token()})).await;
    up(Some(Reason::NotReady)).await;
    let far = second.admin().await.unwrap();
    let sets: Api<StatefulSet> = Api::namespaced(far.clone(), "default");
    let maps: Api<ConfigMap> = Api::namespaced(far, "default");
    let ready = json!({"status": {
        "observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "currentRevision": "a", "updateRevision": "a",
    }});
    sets.patch_status("database", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
    up(None).await;
    // Drift is set back, and what the server made of our fields is none.
    let version = sets.get("database").await.unwrap().metadata.resource_version;
    let drift = Patch::Merge(json!({"data": {"key": "theirs"}}));
    maps.patch("there", &PatchParams::default(), &drift).await.unwrap();
    up(None).await;
    assert_eq!(maps.get("there").await.unwrap().data.unwrap()["key"], "value");
    assert_eq!(sets.get("database").await.unwrap().metadata.resource_version, version);

    write_kubeconfig(&client, &name, &second, json!({"token": "wrong"})).await;
    up(Some(Reason::Unauthorized)).await;
    write_kubeconfig(&client, &name, &second, json!({"token": second.admin_token()})).await;
    up(None).await;
    // A certificate of somebody who may do nothing is understood, and refused.
    let (certificate, key) = second.client_certificate("nobody", SignedDuration::from_hours(1)).unwrap();
    let (certificate, key) = (STANDARD.encode(certificate), STANDARD.encode(key));
    let user = json!({"client-certificate-data": certificate, "client-key-data": key});
    write_kubeconfig(&client, &name, &second, user).await;
    maps.patch("there", &PatchParams::default(), &drift).await.unwrap();
    up(Some(Reason::Refused)).await;
    write_kubeconfig(&client, &name, &second, json!({"token": second.admin_token()})).await;
    up(None).await;

    away(&second, Reason::RemoteUnreachable, async || tree.provision(&scope).await).await;
    up(None).await;
    away(&first, Reason::Unavailable, async || tree.provision(&scope).await).await;
    up(None).await;
    assert_eq!(
        sets.get("database").await.unwrap().metadata.resource_version,
        version,
        "no outage made it anew"
    );
    away(&first, Reason::Unavailable, async || tree.deprovision(&scope).await).await;
    away(&second, Reason::RemoteUnreachable, async || tree.deprovision(&scope).await).await;
    assert!(maps.get_opt("there").await.unwrap().is_some(), "nothing was given up");
    eventually("everything is gone", async || match why(tree.deprovision(&scope).await) {
        None => Ok(()),
        found => Err(format!("{found:?}\n{}", tree.render())),
    })
    .await;
    assert!(
        maps.get_opt("there").await.unwrap().is_none() && sets.get_opt("database").await.unwrap().is_none()
    );

    up(Some(Reason::NotReady)).await;
    drop(second);
    eventually("it cannot be reached", async || match why(tree.deprovision(&scope).await) {
        Some(Reason::RemoteUnreachable) => Ok(()),
        found => Err(format!("{found:?}")),
    })
    .await;
    destroyed.store(true, Ordering::SeqCst);
    eventually("it is given up", async || match why(tree.deprovision(&scope).await) {
        None => Ok(()),
        found => Err(format!("{found:?}")),
    })
    .await;
    let here: Api<ConfigMap> = Api::namespaced(client, &name);
    assert!(here.get_opt("here").await.unwrap().is_none());
}
