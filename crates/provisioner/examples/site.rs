//! An operator in one file, on API servers in this process: `cargo run -p windlass-provisioner --example site`.
//! A `Site` is a namespace, a database, a dashboard if it is wanted, and a shop on a second cluster.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example prints and stops")]
#![allow(clippy::wildcard_imports, clippy::default_trait_access, reason = "an example is short")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client, CustomResource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_apiserver::ApiServer;
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_auth::Caller;
use windlass_provisioner::*;
use windlass_runtime::CallOptions;

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced, schema = "disabled")]
struct SiteSpec {
    dashboard: bool,
}

/// What turns a site into its tree.
struct Sites {
    clusters: Arc<RemoteClusters>,
    driver: Arc<InMemory>,
    catalogue: Arc<BTreeMap<String, HelmApplicationSpec>>,
}

impl ManagerProvisioner for Sites {
    type Object = Site;

    fn tree(&self, site: &Site) -> Result<Node<Scope>, ProvisionError> {
        let name = site.metadata.name.clone().unwrap_or_default();
        let namespace: Namespace = object(json!({"metadata": {"name": name}}));
        let database = json!({"metadata": {"name": "database", "namespace": name}, "spec": {"replicas": 1}});
        let database = Resource::of("database", &object::<StatefulSet>(database))?;
        let page: ConfigMap = object(json!({"metadata": {"name": "dashboard", "namespace": name}}));
        let wanted = site.spec.dashboard;
        let second = KubeconfigSecret::new("second", "default", "second", "kubeconfig");
        let presence = move |_: &Scope| Ok(if wanted { Presence::Present } else { Presence::Absent });
        let (catalogue, driver) = (self.catalogue.clone(), self.driver.clone());
        let shop = Application::new("shop", "shop", "1.0.0", catalogue, driver);
        let registration = leaf(Registration::new(self.driver.clone(), second.clone()));
        let options = RemoteOptions { registration: Some(registration), ..Default::default() };
        let remote = remote_cluster("second", second, self.clusters.clone(), options, leaf(shop));
        let inside = Graph::new("inside")
            .child(leaf(database))
            .child(conditional("dashboard", presence, leaf(Resource::of("page", &page)?)))
            .child(remote)
            .after("second", "database")
            .before("dashboard", "database");
        Ok(serial("site", [leaf(Resource::of("namespace", &namespace)?), inside.node()]))
    }
}

fn object<K: serde::de::DeserializeOwned>(document: Value) -> K {
    serde_json::from_value(document).unwrap()
}

#[tokio::main]
async fn main() {
    let _ = windlass_auth::install_crypto_provider();
    let (first, remote) = (server(), server());
    let client = first.client(Caller::system("site-operator"));
    publish_kubeconfig(&client, remote).await;
    let driver = Arc::new(InMemory::default());
    let versions =
        json!({"versions": [{"version": "1.0.0", "repo": "https://example.com", "chart": "shop"}]});
    let catalogue = BTreeMap::from([("shop".to_owned(), object(versions))]);
    let clusters = Arc::new(RemoteClusters::new(CallOptions::new(Duration::from_secs(5))));
    let sites = Sites { clusters, driver: driver.clone(), catalogue: Arc::new(catalogue) };
    let manager = Manager::new(sites, ManagerOptions::new("sites.example.com/provisioner")).unwrap();
    tokio::spawn(manager.run(client.clone(), Default::default(), CancellationToken::new()));

    let api: Api<Site> = Api::namespaced(client.clone(), "default");
    api.create(&PostParams::default(), &Site::new("demo", SiteSpec { dashboard: true })).await.unwrap();
    until(&api, "0 of 1 replicas are ready").await;
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), "demo");
    let status = json!({"status": {"readyReplicas": 1, "observedGeneration": 1}});
    sets.patch_status("database", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    until(&api, "shop is being deployed").await;
    driver.finish("shop");
    until(&api, "Provisioned").await;
    api.delete("demo", &DeleteParams::default()).await.unwrap();
    while api.get_opt("demo").await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("\ndatabases left: {}", sets.list(&ListParams::default()).await.unwrap().items.len());
}

/// Waits until the condition says this, and prints it with each node of the tree.
async fn until(api: &Api<Site>, text: &str) {
    let kind = ApiResource::erase::<Site>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(api.clone().into_client(), "default", &kind);
    loop {
        let status = api.get("demo").await.unwrap().data["status"].clone();
        let message = status["conditions"][0]["message"].as_str().unwrap_or_default();
        if message.contains(text) {
            println!("\n{message}");
            let nodes = status["provisioning"]["nodes"].as_array().into_iter().flatten();
            return nodes.for_each(|node| println!("  {} {}", node["state"], node["path"]));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn server() -> ApiServer {
    let define = |group: &str, kind: &str, plural: &str| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        object(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural}, "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }]},
        }))
    };
    let kinds = vec![define("example.com", "Site", "sites"), define("apps", "StatefulSet", "statefulsets")];
    ApiServer::builder(in_memory(&StoreOptions::default()).unwrap()).crds(kinds).build().unwrap()
}

/// Serves the second cluster on a socket, to anybody on this machine, and writes how it is reached.
async fn publish_kubeconfig(client: &Client, remote: ApiServer) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = remote.router().layer(axum::Extension(Caller::system("site-operator")));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let kubeconfig = json!({
        "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "a", "user": {"token": "none"}}],
    });
    let data = json!({"kubeconfig": kubeconfig.to_string()});
    let secret = json!({"metadata": {"name": "second"}, "stringData": data});
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&PostParams::default(), &object(secret)).await.unwrap();
}
