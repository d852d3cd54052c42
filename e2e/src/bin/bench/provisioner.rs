//! What trees cost: a node, a pass over a settled tree, and from an event to the visit that it wakes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, CustomResource};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_apiserver::ApiServer;
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_provisioner::{
    Manager, ManagerOptions, ManagerProvisioner, Memory, Node, Outcome, Owner, ProvisionError, Provisioner,
    Resource, Scope, Tree, Visited, WakeOn, Watches, leaf, serial,
};
use windlass_runtime::CallOptions;
use windlass_telemetry::Health;

use crate::samples::Samples;
use crate::table::{Row, Table, Target, Unit};

const NODES: usize = 1_000;
const PASSES: usize = 50;
const WAKES: usize = 50;
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    table.add(overhead().await?);
    table.add(settled().await?);
    table.add(wake().await?);
    Ok(())
}

/// A leaf that is up.
struct Up(String);

#[async_trait]
impl Provisioner<()> for Up {
    fn name(&self) -> &str {
        &self.0
    }

    async fn provision(&self, _scope: &()) -> Visited {
        Ok(Outcome::Ready)
    }

    async fn deprovision(&self, _scope: &()) -> Visited {
        Ok(Outcome::Ready)
    }
}

async fn overhead() -> Result<Row> {
    let leaves = (0..NODES - 1).map(|index| leaf(Up(index.to_string())));
    let tree = Tree::new(serial("all", leaves))?;
    let mut times = Vec::new();
    for _ in 0..PASSES {
        let begun = Instant::now();
        if !tree.provision(&()).await?.is_ready() {
            bail!("a leaf is not up");
        }
        times.push(begun.elapsed());
    }
    let figure = format!("provisioner: a pass over {NODES} leaves that do nothing");
    Ok(Row::new(figure, Target::AtMost(5.0), Unit::Millis, Samples::millis(times)).note("5 µs a node"))
}

/// Versions as a watch would have them.
#[derive(Default)]
struct Seen(Mutex<HashMap<String, String>>);

impl Watches for Seen {
    fn version(&self, object: &WakeOn) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&object.name).cloned()
    }

    fn follow(&self, _object: &WakeOn) {}
}

async fn settled() -> Result<Row> {
    let client = server()?.client_for_tests();
    let local = windlass_provisioner::Cluster::local(client.clone(), CallOptions::new(DEADLINE));
    let seen = Arc::new(Seen::default());
    let mut scope = Scope::new(local, Owner { uid: "bench".to_owned(), ..Owner::default() });
    scope.memory = Arc::new(Memory::with_watches(Arc::<Seen>::clone(&seen)));
    let mut nodes = Vec::new();
    for index in 0..NODES - 1 {
        let metadata = ObjectMeta {
            name: Some(format!("n{index}")),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        nodes.push(leaf(Resource::of(format!("n{index}"), &map)?));
    }
    let tree = Tree::new(serial("all", nodes))?;
    if !tree.provision(&scope).await?.is_ready() {
        bail!("the tree is not up");
    }
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    for map in maps.list(&ListParams::default()).await?.items {
        let (name, version) = (map.metadata.name, map.metadata.resource_version);
        let mut seen = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(name.unwrap_or_default(), version.unwrap_or_default());
    }
    let mut times = Vec::new();
    for _ in 0..PASSES {
        let begun = Instant::now();
        if !tree.provision(&scope).await?.is_ready() {
            bail!("the tree is not up any more");
        }
        times.push(begun.elapsed());
    }
    let figure = format!("provisioner: a pass over a settled tree of {NODES} nodes");
    Ok(Row::new(figure, Target::AtMost(5.0), Unit::Millis, Samples::millis(times)))
}

/// An owner whose tree is one `Awaited` object of its own name.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "example.com", version = "v1", kind = "Waiting", namespaced, schema = "disabled")]
struct WaitingSpec {}

struct Owners;

impl ManagerProvisioner for Owners {
    type Object = Waiting;

    fn tree(&self, owner: &Waiting) -> Result<Node<Scope>, ProvisionError> {
        let name = owner.metadata.name.clone().unwrap_or_default();
        let object = json!({"metadata": {"name": name, "namespace": "default"}});
        Ok(leaf(Resource::new("awaited", &kind("Awaited", "awaiteds"), object).judged_by(|object| {
            use windlass_provisioner::Readiness;
            if object["status"]["ready"] == true {
                Readiness::Ready
            } else {
                Readiness::Waiting(String::new())
            }
        })))
    }
}

async fn wake() -> Result<Row> {
    let client = server()?.client_for_tests();
    let end = CancellationToken::new();
    let metrics = windlass_telemetry::Metrics::new()?;
    let mut options = ManagerOptions::new("bench.example.com/provisioner");
    options.meter = Some(metrics.meter("provisioner"));
    let running =
        tokio::spawn(Manager::new(Owners, options)?.run(client.clone(), Health::new(), end.clone()));
    let owners: Api<Waiting> = Api::namespaced(client.clone(), "default");
    owners.create(&PostParams::default(), &Waiting::new("a", WaitingSpec {})).await?;
    let awaited: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", &kind("Awaited", "awaiteds"));
    let visits = || -> Result<String> {
        let text = metrics.render()?;
        let counts = text.lines().filter(|line| line.starts_with("provisioner_node_seconds_count"));
        Ok(counts.collect::<Vec<_>>().join("\n"))
    };
    let until = async |before: &str| -> Result<()> {
        let begun = Instant::now();
        while visits()? == before {
            if begun.elapsed() > DEADLINE {
                bail!("nothing was woken");
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        Ok(())
    };
    until("").await?;
    let mut times = Vec::new();
    for round in 0..WAKES {
        // What is under way from the round before is over when nothing has been visited for a while.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let before = visits()?;
        let begun = Instant::now();
        let patch = Patch::Merge(json!({"status": {"round": round}}));
        awaited.patch_status("a", &PatchParams::default(), &patch).await.context("patch what is awaited")?;
        until(&before).await?;
        times.push(begun.elapsed());
    }
    end.cancel();
    running.await?;
    let figure = "provisioner: from a change of what is awaited to the end of the visit that it wakes";
    Ok(Row::new(figure, Target::AtMost(50.0), Unit::Millis, Samples::millis(times)).note("embedded server"))
}

fn kind(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn server() -> Result<ApiServer> {
    let schema: Value = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = |kind: &str, plural: &str| {
        serde_json::from_value(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        }))
    };
    let definitions = vec![definition("Awaited", "awaiteds")?, definition("Waiting", "waitings")?];
    Ok(ApiServer::builder(in_memory(&StoreOptions::default())?).crds(definitions).build()?)
}
