//! A controller of objects, each of which has a tree.

mod reconcile;
mod references;
mod status;
mod wakes;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::core::{ApiResource, DynamicObject};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{
    BackoffPolicy, CallOptions, Clock, Event, EventRecorder, KeyedQueue, ObjectKey, Scope as Namespaces,
    SystemClock, Watch, WatchConfig, run_keyed,
};
use windlass_telemetry::Health;

use self::reconcile::Reconciler;
pub use self::references::{REFERENCE_PREFIX, reference};
pub use self::status::{AVAILABLE, NODES_SHOWN};
use self::wakes::Wakes;
use crate::{DeletionPolicy, Direction, Node, Observer, Outcome, ProvisionError, Scope, Visited};

/// What makes a tree of an object.
pub trait ManagerProvisioner: Send + Sync + 'static {
    /// The kind of object.
    type Object: kube::Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static;

    /// The tree of an object: a function of the object alone. What may be wanted or not is a conditional node, and not
    /// left out: a node that is not there any more is not removed by anybody.
    fn tree(&self, object: &Self::Object) -> Result<Node<Scope>, ProvisionError>;

    /// Whether the object is to be left as it is. Its deletion goes on all the same.
    fn is_paused(&self, _object: &Self::Object) -> bool {
        false
    }

    /// What becomes of what was made when the object is deleted.
    fn deletion_policy(&self, _object: &Self::Object) -> DeletionPolicy {
        DeletionPolicy::default()
    }
}

/// How a manager works.
#[derive(Clone)]
pub struct ManagerOptions {
    /// What holds an object until its tree is gone: a qualified name such as `sites.example.com/provisioner`.
    pub finalizer: String,
    /// Where objects are looked for.
    pub namespaces: Namespaces,
    /// Objects that are worked on at a time.
    pub workers: usize,
    /// How API servers are called.
    pub calls: CallOptions,
    /// How failures back off, the same way up and down.
    pub backoff: BackoffPolicy,
    /// How often an object that is up is visited although nothing changed.
    pub resync: Option<Duration>,
    /// Where the time of day comes from.
    pub clock: Arc<dyn Clock>,
    /// Where `provisioner_node_seconds` is counted.
    pub meter: Option<Meter>,
    /// Where Events go.
    pub events: Option<EventRecorder>,
}

impl ManagerOptions {
    /// All namespaces, 16 workers, calls of 10 s, the default back-off of objects, a visit every ten minutes.
    pub fn new(finalizer: impl Into<String>) -> Self {
        Self {
            finalizer: finalizer.into(),
            namespaces: Namespaces::All,
            workers: 16,
            calls: CallOptions::new(Duration::from_secs(10)),
            backoff: BackoffPolicy::OBJECT,
            resync: Some(Duration::from_mins(10)),
            clock: Arc::new(SystemClock),
            meter: None,
            events: None,
        }
    }
}

/// Why a manager was not made.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The finalizer is no qualified name.
    #[error("the finalizer {0:?} is not of the form domain.example/name")]
    UnqualifiedFinalizer(String),
}

/// A controller of objects, each of which has a tree.
///
/// It holds each object by a finalizer, brings its tree up, and takes it down when the object is deleted: paused or not,
/// after those that refer to it ([`reference()`]) and after its dependants where those go first. The condition `Available`
/// says how far it is, and `status.provisioning` shows the tree.
pub struct Manager<P> {
    provisioner: P,
    options: ManagerOptions,
}

impl<P: ManagerProvisioner> Manager<P> {
    /// A manager of the trees that `provisioner` makes.
    pub fn new(provisioner: P, options: ManagerOptions) -> Result<Self, ManagerError> {
        match options.finalizer.split_once('/') {
            Some((domain, name)) if domain.contains('.') && !name.is_empty() => {
                Ok(Self { provisioner, options })
            }
            _ => Err(ManagerError::UnqualifiedFinalizer(options.finalizer)),
        }
    }

    /// Runs until `shutdown`; what is being visited then is finished.
    pub async fn run(self, client: Client, health: Health, shutdown: CancellationToken) {
        let Self { provisioner, options } = self;
        let kind = ApiResource::erase::<P::Object>(&());
        let api = options.namespaces.api_of(client.clone(), &kind);
        let mut config = WatchConfig::new(kind.plural.clone());
        config.resync = options.resync;
        let watch = Watch::<DynamicObject>::new(api, config);
        let queue = KeyedQueue::new(options.backoff);
        let wakes = Wakes::new(options.namespaces.clone(), queue.clone(), shutdown.clone());
        let workers = options.workers;
        let reconciler = Arc::new(Reconciler::new(provisioner, options, kind, client, watch.store(), wakes));
        let told = queue.clone();
        let watching = watch.run(health, shutdown.clone(), move |event| match event {
            Event::Applied { old, new } => {
                let again = old.as_ref().is_some_and(|old| Arc::ptr_eq(old, &new));
                if again || old.is_none_or(|old| reconcile::matters(&old) != reconcile::matters(&new)) {
                    told.add(ObjectKey::of(&*new));
                }
            }
            Event::Deleted(object) => told.add(ObjectKey::of(&*object)),
            Event::Synced => {}
        });
        let working = run_keyed(
            queue,
            workers,
            shutdown,
            move |key| Arc::clone(&reconciler).reconcile(key),
            |_key: &ObjectKey| {},
        );
        tokio::join!(watching, working);
    }
}

/// Counts visits by node and outcome.
struct NodeSeconds(Histogram<f64>);

impl NodeSeconds {
    fn new(meter: &Meter) -> Self {
        let histogram = meter
            .f64_histogram("provisioner_node_seconds")
            .with_description("Time of a visit to a node of a tree, by node and outcome.")
            .with_unit("s")
            .with_boundaries(vec![0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0])
            .build();
        Self(histogram)
    }
}

impl Observer for NodeSeconds {
    fn visited(&self, path: &str, _direction: Direction, visited: &Visited, took: Duration) {
        let outcome = match visited {
            Ok(Outcome::Ready) => "ready",
            Ok(Outcome::Yield { .. }) => "yield",
            Err(_) => "error",
        };
        let labels = [KeyValue::new("node", path.to_owned()), KeyValue::new("outcome", outcome)];
        self.0.record(took.as_secs_f64(), &labels);
    }
}
