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
use windlass_cluster::Cluster;
use windlass_provisioner::{
    Manager, ManagerOptions, ManagerProvisioner, Memory, Node, Observation, Outcome, Owner, ProvisionError,
    Provisioner, Resource, Scope, Tree, Visited, WakeOn, Watches, leaf, serial,
};
use windlass_runtime::{CallOptions, Scope as Namespaces};
use windlass_telemetry::Health;

use crate::samples::Samples;
use crate::table::{Row, Table, Target, Unit};

const NODES: usize = 1_000;
const PASSES: usize = 50;
const WAKES: usize = 50;
/// Owners on a real server, and the nodes of the tree of each.
const TREES: usize = 1_000;
const PARTS: usize = 20;
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    table.add(overhead().await?);
    table.add(settled().await?);
    table.add(wake().await?);
    bring_up(table).await
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
    fn observe(&self, object: &WakeOn) -> Observation {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&object.name).cloned();
        known.map_or(Observation::Absent, Observation::Version)
    }

    fn follow(&self, _cluster: &windlass_provisioner::Cluster, _object: &WakeOn) {}
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

/// Owners whose trees are so many `ConfigMap`s each, one after the other.
struct Fleet;

fn parts_of(owner: &Waiting) -> Vec<(String, Value)> {
    let name = owner.metadata.name.as_deref().unwrap_or_default();
    let part = |index: usize| {
        let name = format!("{name}-{index}");
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": owner.metadata.namespace}, "data": {"part": index.to_string()},
        });
        (name, object)
    };
    (0..PARTS).map(part).collect()
}

impl ManagerProvisioner for Fleet {
    type Object = Waiting;

    fn tree(&self, owner: &Waiting) -> Result<Node<Scope>, ProvisionError> {
        let part = |(name, object)| leaf(Resource::new(name, &ApiResource::erase::<ConfigMap>(&()), object));
        Ok(serial("parts", parts_of(owner).into_iter().map(part)))
    }
}

/// A thousand trees of twenty nodes on a real kube-apiserver, and a bare client that does the same writes: a finalizer,
/// twenty applied objects and a status an owner, with the annotations and the status that the manager gave to a first
/// owner, for as many owners at a time. It has one half of its owners before and one after the manager, so that what
/// grows or slows down meanwhile counts for both.
async fn bring_up(table: &mut Table) -> Result<()> {
    let options = windlass_cluster::Options { durable: true, compacts: true, ..Default::default() };
    let Some(cluster) = Box::pin(Cluster::own_with(options)).await? else { return Ok(()) };
    let client = cluster.admin().await?;
    let definition: Value = serde_json::to_value(definition("Waiting", "waitings"))?;
    cluster.kubectl(&["apply", "-f", "-"], &definition.to_string()).await?;
    let established = ["wait", "--for=condition=Established", "crd/waitings.example.com"];
    cluster.kubectl(&established, "").await?;
    let namespace = cluster.namespace("model").await?;
    create_owners(&client, namespace.name(), 1).await?;
    Box::pin(provisioned(&client, namespace.name(), 1)).await?;
    let model = Arc::new(Model::of(&client, namespace.name()).await?);
    let by_hand = async |name: &str| -> Result<Duration> {
        let namespace = cluster.namespace(name).await?;
        create_owners(&client, namespace.name(), TREES / 2).await?;
        written(&client, namespace.name(), ManagerOptions::new("").workers, &model).await
    };
    let before = by_hand("before").await?;
    let namespace = cluster.namespace("managed").await?;
    create_owners(&client, namespace.name(), TREES).await?;
    let managed = Box::pin(provisioned(&client, namespace.name(), TREES)).await?;
    let by_hand = before + by_hand("after").await?;
    let rate = by_hand.as_secs_f64() / managed.as_secs_f64() * 100.0;
    let figure = format!(
        "provisioner: {TREES} trees of {PARTS} nodes on a real kube-apiserver, rate of a bare client's"
    );
    let row = Row::new(figure, Target::AtLeast(80.0), Unit::Percent, Samples::one(rate));
    let note = format!("{:.1} s, by hand {:.1} s", managed.as_secs_f64(), by_hand.as_secs_f64());
    table.add(row.note(note));
    Ok(())
}

/// What the manager writes of its own.
struct Model {
    annotations: Value,
    status: Value,
}

impl Model {
    async fn of(client: &kube::Client, namespace: &str) -> Result<Self> {
        let owners =
            Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind("Waiting", "waitings"));
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let status = owners.get("owner-0000").await?.data["status"].clone();
        let annotations = json!(maps.get("owner-0000-0").await?.metadata.annotations);
        if status.is_null() || annotations.is_null() {
            bail!("the manager wrote no status or no annotations");
        }
        Ok(Self { annotations, status })
    }
}

/// How long a manager takes to bring up the trees of the namespace's owners, which are so many.
async fn provisioned(client: &kube::Client, namespace: &str, owners: usize) -> Result<Duration> {
    let mut options = ManagerOptions::new("bench.example.com/provisioner");
    options.namespaces = Namespaces::Namespace(namespace.to_owned());
    let states: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &kind("Waiting", "waitings"));
    let ready = |owner: &DynamicObject| owner.data["status"]["conditions"][0]["status"] == "True";
    let end = CancellationToken::new();
    let begun = Instant::now();
    let running = tokio::spawn(Manager::new(Fleet, options)?.run(client.clone(), Health::new(), end.clone()));
    // The last one is asked for alone while others are not up: to look must not be what is measured.
    let last = format!("owner-{:04}", owners - 1);
    let settled = async || -> Result<bool> {
        Ok(ready(&states.get(&last).await?)
            && states.list(&ListParams::default().match_any()).await?.items.iter().all(ready))
    };
    while !settled().await? {
        if begun.elapsed() > Duration::from_mins(5) {
            bail!("not all trees are up");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = begun.elapsed();
    end.cancel();
    running.await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let made = maps.list_metadata(&ListParams::default()).await?.items.len();
    if made < owners * PARTS {
        bail!("{made} objects were made");
    }
    Ok(took)
}

async fn create_owners(client: &kube::Client, namespace: &str, owners: usize) -> Result<()> {
    let api: Api<Waiting> = Api::namespaced(client.clone(), namespace);
    for number in 0..owners {
        api.create(&PostParams::default(), &Waiting::new(&format!("owner-{number:04}"), WaitingSpec {}))
            .await?;
    }
    Ok(())
}

/// The writes of [`Fleet`] without it.
async fn written(
    client: &kube::Client,
    namespace: &str,
    workers: usize,
    model: &Arc<Model>,
) -> Result<Duration> {
    let owners: Api<Waiting> = Api::namespaced(client.clone(), namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let listed = Arc::new(owners.list(&ListParams::default()).await?.items);
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..workers {
        let (owners, maps, listed, model) =
            (owners.clone(), maps.clone(), Arc::clone(&listed), Arc::clone(model));
        tasks.spawn(async move {
            let apply = PatchParams::apply("by-hand");
            for owner in listed.iter().skip(worker).step_by(workers) {
                let name = owner.metadata.name.as_deref().unwrap_or_default();
                let held = Patch::Merge(json!({"metadata": {"finalizers": ["bench.example.com/by-hand"]}}));
                owners.patch(name, &PatchParams::default(), &held).await?;
                for (name, mut object) in parts_of(owner) {
                    object["metadata"]["annotations"] = model.annotations.clone();
                    maps.patch(&name, &apply, &Patch::Apply(object)).await?;
                }
                let ready = Patch::Merge(json!({"status": model.status}));
                owners.patch_status(name, &PatchParams::default(), &ready).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(begun.elapsed())
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

fn definition(kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn server() -> Result<ApiServer> {
    let definitions = [definition("Awaited", "awaiteds"), definition("Waiting", "waitings")];
    let definitions = definitions.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
    Ok(ApiServer::builder(in_memory(&StoreOptions::default())?).crds(definitions).build()?)
}
