//! Sites whose spec is a tree, and a manager of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::client_of;
use windlass_auth::Caller;
use windlass_provisioner::{
    DeletionPolicy, Graph, Manager, ManagerOptions, ManagerProvisioner, Node, Presence, ProvisionError,
    Reason, Scope, concurrent, conditional, leaf, serial,
};
use windlass_runtime::BackoffPolicy;
use windlass_telemetry::Health;

use crate::server::{Server, kind_of, map, thing};

pub(crate) const FINALIZER: &str = "sites.example.com/provisioner";

/// A site as the manager reads it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Site {
    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    spec: Value,
}

impl kube::Resource for Site {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "Site".into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "example.com".into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "sites".into()
    }

    fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        &mut self.metadata
    }
}

pub(crate) struct Sites;

impl ManagerProvisioner for Sites {
    type Object = Site;

    fn tree(&self, site: &Site) -> Result<Node<Scope>, ProvisionError> {
        node("site", &site.spec["tree"])
    }

    fn is_paused(&self, site: &Site) -> bool {
        site.spec["paused"] == true
    }

    fn deletion_policy(&self, _site: &Site) -> DeletionPolicy {
        DeletionPolicy::Background
    }
}

/// `{"map": name}`, `{"keep": name}`, `{"thing": name}`, `{"serial": […]}`, `{"concurrent": […]}`, `{"graph": […]}` (each
/// after the one before it up, and in the same order down), `{"if": bool, "then": …}`, `{"broken": reason}`.
fn node(name: &str, spec: &Value) -> Result<Node<Scope>, ProvisionError> {
    let (kind, value) = spec.as_object().and_then(|spec| spec.iter().next()).expect("a node");
    let text = value.as_str().unwrap_or_default();
    let children = || -> Result<Vec<Node<Scope>>, ProvisionError> {
        let list = value.as_array().into_iter().flatten().enumerate();
        list.map(|(index, child)| node(&format!("{index}"), child)).collect()
    };
    Ok(match kind.as_str() {
        "map" => leaf(map(text, "value")),
        "keep" => leaf(map(text, "value").deleted_by(DeletionPolicy::Orphan)),
        "thing" => leaf(thing(text, json!({}))),
        "serial" => serial(name, children()?),
        "concurrent" => concurrent(name, children()?),
        "graph" => {
            let children = children()?;
            let names: Vec<String> = children.iter().map(|child| child.name().to_owned()).collect();
            let mut graph = children.into_iter().fold(Graph::new(name), Graph::child);
            for pair in names.windows(2) {
                graph = graph.after(&pair[1], &pair[0]).before(&pair[0], &pair[1]);
            }
            graph.node()
        }
        "if" => {
            let presence = if *value == true { Presence::Present } else { Presence::Absent };
            conditional(name, move |_: &Scope| Ok(presence.clone()), node("then", &spec["then"])?)
        }
        "broken" => return Err(ProvisionError::user_action(Reason::VersionNotFound, text)),
        other => panic!("no node {other}"),
    })
}

/// A manager that runs until it is dropped.
pub(crate) struct Running {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(client: Client, change: impl FnOnce(&mut ManagerOptions)) -> Self {
        Self::of(Sites, client, change)
    }

    pub(crate) fn of<P: ManagerProvisioner>(
        provisioner: P,
        client: Client,
        change: impl FnOnce(&mut ManagerOptions),
    ) -> Self {
        let mut options = ManagerOptions::new(FINALIZER);
        let fast = Duration::from_millis(20);
        options.backoff = BackoffPolicy { first: fast, max: fast, factor: 1.0, jitter: 0.0 };
        change(&mut options);
        let manager = Manager::new(provisioner, options).unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(manager.run(client, Health::new(), shutdown.clone()));
        Self { shutdown, task }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

impl Server {
    pub(crate) fn sites(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.observer(), "default", &kind_of("Site", "sites"))
    }

    pub(crate) fn things(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.observer(), "default", &kind_of("Thing", "things"))
    }

    pub(crate) async fn create_site(&self, spec: Value) -> DynamicObject {
        let site = json!({
            "apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "a", "namespace": "default"},
            "spec": spec,
        });
        self.sites().create(&PostParams::default(), &serde_json::from_value(site).unwrap()).await.unwrap()
    }

    pub(crate) async fn patch_site(&self, patch: Value) {
        self.sites().patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until its status is of the site as it is now.
    pub(crate) async fn site_is_observed(&self) {
        let generation = self.sites().get("a").await.unwrap().metadata.generation;
        eventually("the generation is observed", async || {
            let status = self.sites().get("a").await.unwrap().data["status"].clone();
            if status["observedGeneration"].as_i64() == generation { Ok(()) } else { Err(status.to_string()) }
        })
        .await;
    }

    /// The condition `Available` of the site: reason and message.
    pub(crate) async fn available(&self) -> Option<(String, String)> {
        let site = self.sites().get_opt("a").await.unwrap()?;
        let conditions = site.data["status"]["conditions"].as_array()?;
        let ours = conditions.iter().find(|condition| condition["type"] == "Available")?;
        Some((ours["reason"].as_str()?.to_owned(), ours["message"].as_str()?.to_owned()))
    }

    pub(crate) async fn site_is(&self, reason: &str, message: &str) {
        eventually(&format!("the site is {reason}: {message}"), async || {
            let found = self.available().await;
            match &found {
                Some((told, text)) if told == reason && text.contains(message) => Ok(()),
                _ => Err(format!("{found:?}")),
            }
        })
        .await;
    }

    pub(crate) async fn site_is_gone(&self) {
        eventually("the site is gone", async || match self.sites().get_opt("a").await.unwrap() {
            None => Ok(()),
            Some(site) => Err(format!("{site:#?}")),
        })
        .await;
    }

    /// What is there of sites: names of `ConfigMaps` and Things.
    pub(crate) async fn left(&self) -> Vec<String> {
        let maps = self.maps().list(&kube::api::ListParams::default()).await.unwrap();
        let things = self.things().list(&kube::api::ListParams::default()).await.unwrap();
        let mut names: Vec<String> = maps.iter().map(ResourceExt::name_any).collect();
        names.extend(things.iter().map(ResourceExt::name_any));
        names.sort();
        names
    }

    /// A client whose writes are counted, and which calls `at` once this many have been answered.
    pub(crate) fn counting<F>(
        &self,
        count: usize,
        at: impl Fn() -> F + Send + Sync + Clone + 'static,
    ) -> Client
    where
        F: Future<Output = ()> + Send,
    {
        let writes = Arc::new(AtomicUsize::new(0));
        let router = self.api.router().layer(from_fn(move |request: Request, next: Next| {
            let (writes, at) = (Arc::clone(&writes), at.clone());
            async move {
                let is_write = request.method() != "GET";
                let response = next.run(request).await;
                if is_write && writes.fetch_add(1, Ordering::SeqCst) + 1 == count {
                    at().await;
                }
                response
            }
        }));
        client_of(router, Caller::system("provisioner"))
    }
}

/// Waits until it is so, for 30 seconds at most.
pub(crate) async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Result<T, String>) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_mins(2);
    loop {
        match check().await {
            Ok(found) => return found,
            Err(why) if tokio::time::Instant::now() > deadline => panic!("{what}: {why}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
