//! Which tasks the operator consists of: a watch, workers while it leads, and the server of artifacts, always.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tokio_util::sync::CancellationToken;
use windlass_api::flux::GitRepository;
use windlass_artifact::{Algorithm, Server, Store};
use windlass_auth::ServeOptions;
use windlass_launch::{Context, Launch, observe_leadership};
use windlass_runtime::{
    BackoffPolicy, BoxError, EventRecorder, KeyedQueue, LeaderElection, Leadership, ObjectVersion, Operator,
    Registry, TermQueue, Watch, WatchConfig,
};
use windlass_settings::{DigestAlgorithm, SourceSettings};

use crate::app::Apps;
use crate::build::Builder;
use crate::controller::{Controller, origin};
use crate::externals::Externals;
use crate::lead::{Forwarder, Work};
use crate::metrics::SourceMetrics;
use crate::notify::{Notifier, REPORTER};
use crate::options::needs;
use crate::receivers::{self, Receivers};
use crate::replica::Replica;
use crate::sweep::sweep;
use crate::upstream::Upstreams;
use crate::verify::Verifications;

/// Git repositories as artifacts.
pub const SOURCE_CONTROLLER: &str = "source-controller";

/// Adds the operator of this crate to a binary's.
pub fn register(registry: Registry<Context>) -> Registry<Context> {
    registry.with(SOURCE_CONTROLLER, || Box::new(Sources))
}

/// Says what the operator needs of its process.
pub fn configure(launch: Launch) -> Launch {
    launch.needs(SOURCE_CONTROLLER, needs())
}

/// The operator.
pub struct Sources;

#[async_trait]
impl Operator<Context> for Sources {
    fn name(&self) -> &'static str {
        SOURCE_CONTROLLER
    }

    async fn run(self: Box<Self>, process: Arc<Context>) -> Result<(), BoxError> {
        let settings = Arc::new(process.settings.source().clone());
        let client = process.clients.core.clone();
        let shutdown = process.supervisor.token().clone();
        let listener = windlass_launch::bind(&settings.storage_address).await.map_err(|error| {
            let address = &settings.storage_address;
            format!("failed to listen on {address} for artifacts: {error}; set [source] storage_address")
        })?;
        let election = election(&process, &settings)?;
        let leadership = election.as_ref().map_or_else(Leadership::always, LeaderElection::leadership);
        let api: Api<GitRepository> = process.scope.api(client.clone());
        let labels = settings.watch_label_selector.clone();
        let watch = Watch::new(api, WatchConfig { labels, ..WatchConfig::new("gitrepositories") });
        let meter = process.metrics.meter(SOURCE_CONTROLLER);
        observe_leadership(&meter, &settings.leader_election_name, &leadership);
        let (events, event_writer) =
            EventRecorder::new(REPORTER, process.replica.as_str(), Arc::clone(&process.clock));
        let (notifier, poster) = Notifier::new(
            events.clone(),
            settings.events_address.clone(),
            Arc::clone(&process.clock),
            process.replica.clone(),
        );
        let store = open_store(&settings).await?;
        let upstreams = Arc::new(Upstreams::new(process.git.clone()));
        let metrics = SourceMetrics::new(&meter, &watch.store(), &events, &process.git);
        let (kept_in, from) = (Arc::clone(&store), Arc::clone(&upstreams));
        let builder = Builder::new(kept_in, from, settings.keep_symlinks, metrics.clone());
        let controller = Controller {
            origin: origin(
                &settings.storage_advertised_address,
                &listener.local_addr()?.to_string(),
                &host(),
            ),
            client: client.clone(),
            settings: Arc::clone(&settings),
            objects: watch.store(),
            builder: Arc::new(builder),
            asked: Arc::default(),
            upstreams,
            apps: Arc::new(Apps::new(process.git.clone())),
            verifications: Arc::new(Verifications::new(client.clone(), Arc::clone(&process.clock))),
            metrics,
            notifier,
            clock: Arc::clone(&process.clock),
            queue: KeyedQueue::new(BackoffPolicy::OBJECT),
            cancel: shutdown.clone(),
        };
        let externals = settings.external_artifacts.then(|| Externals::over(&process, controller.clone()));
        let replica = Replica {
            controller: controller.clone(),
            externals: externals.as_ref().map(|it| it.externals.clone()),
        };
        let artifacts = Server::new(Arc::clone(&store), Some(Arc::new(replica)));
        let work = Work { controller: controller.clone(), leadership, queue: TermQueue::default() };
        let forwarder = work.forwarder();
        let follow =
            watch.run(process.health.clone(), shutdown.clone(), move |event| forwarder.forward(event));
        let receivers = receivers(&process, &settings).await?;
        let of_receivers = receivers.as_ref().map(|it| it.receivers.clone());
        let follow_secrets = secrets(&process, &settings, work.forwarder(), of_receivers);
        let leadership = work.leadership.clone();
        let publish = async {
            if let Some(externals) = externals {
                externals.run(&leadership, &shutdown).await;
            }
        };
        let receive = async {
            if let Some(receivers) = receivers {
                receivers.run(&leadership, &shutdown).await;
            }
        };
        tracing::info!(
            artifacts = controller.origin,
            workers = settings.concurrent,
            scope = %process.scope,
            leader_election = election.is_some(),
            "source operator started"
        );
        // The Lease is kept until the last pass has ended, and artifacts are served as long.
        let finished = CancellationToken::new();
        let stop = finished.clone();
        let answer = move |stream| artifacts.clone().serve(stream, stop.clone());
        let serve = windlass_auth::plain::accept(listener, ServeOptions::default(), finished.clone(), answer);
        let stand = async {
            if let Some(election) = election {
                election.run(process.health.clone(), finished.clone()).await;
            }
        };
        let lead = async {
            work.run(&shutdown).await;
            finished.cancel();
        };
        let write_events = event_writer.run(client, finished.clone());
        let post = async {
            if let Some(poster) = poster {
                poster.run(finished.clone()).await;
            }
        };
        let sweep = finished.run_until_cancelled(sweep(&controller));
        tokio::join!(follow, follow_secrets, receive, publish, serve, lead, stand, write_events, post, sweep);
        Ok(())
    }
}

/// The receivers, where the settings say where webhooks are taken in.
async fn receivers(
    process: &Context,
    settings: &SourceSettings,
) -> Result<Option<receivers::Unfollowed>, BoxError> {
    let address = &settings.receiver_address;
    if address.is_empty() {
        return Ok(None);
    }
    let listener = windlass_launch::bind(address).await.map_err(|error| {
        format!("failed to listen on {address} for webhooks: {error}; set [source] receiver_address")
    })?;
    Ok(Some(Receivers::over(process, listener)))
}

/// Follows the Secrets that sources name, where the settings want that.
async fn secrets(
    process: &Context,
    settings: &SourceSettings,
    forwarder: Forwarder,
    receivers: Option<Receivers>,
) {
    if !settings.watch_secrets {
        return;
    }
    let api: Api<Secret> = process.scope.api(process.clients.core.clone());
    let labels = settings.watch_configs_label_selector.clone();
    let remedy = "set [source] watch_secrets = false";
    let config = WatchConfig { labels, metadata_only: true, remedy, ..WatchConfig::new("secrets") };
    let watch: Watch<ObjectVersion> = Watch::reading(api, config);
    let known = watch.store();
    let shutdown = process.supervisor.token().clone();
    watch
        .run(process.health.clone(), shutdown, move |event| {
            forwarder.forward_secret(&event, &known);
            if let Some(receivers) = &receivers {
                receivers.forward_secret(&event);
            }
        })
        .await;
}

fn election(process: &Context, settings: &SourceSettings) -> Result<Option<LeaderElection>, BoxError> {
    if !settings.leader_election {
        return Ok(None);
    }
    let operator = process.settings.operator();
    let own = process.scope.namespace().unwrap_or_else(|| process.clients.core.default_namespace());
    let namespace = operator.leader_election_namespace.as_deref().unwrap_or(own);
    // Shards are led each by itself.
    let name = match &settings.watch_label_selector {
        Some(selector) => {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
            let shard: String = selector.chars().map(plain).collect();
            format!("{}-{}", settings.leader_election_name, shard.trim_matches('-'))
        }
        None => settings.leader_election_name.clone(),
    };
    Ok(Some(process.election_for(namespace, &name)?))
}

async fn open_store(settings: &SourceSettings) -> Result<Arc<Store>, BoxError> {
    let algorithm = match settings.artifact_digest_algorithm {
        DigestAlgorithm::Sha256 => Algorithm::Sha256,
        DigestAlgorithm::Sha384 => Algorithm::Sha384,
        DigestAlgorithm::Sha512 => Algorithm::Sha512,
        DigestAlgorithm::Blake3 => Algorithm::Blake3,
    };
    let path = settings.storage_path.clone();
    let opened = tokio::task::spawn_blocking(move || Store::open(path, algorithm)).await?;
    opened.map_err(|error| {
        let chain = windlass_telemetry::ErrorChain(&error).to_string();
        format!("{chain}; set [source] storage_path to a folder that this process may write").into()
    })
}

/// The machine's or pod's name.
fn host() -> String {
    let named = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let name = named.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    name.map_or_else(|| "localhost".to_owned(), |name| name.trim().to_owned())
}
