//! The operator: which tasks it consists of.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use windlass_launch::{Context, Launch, observe_leadership};
use windlass_runtime::{BoxError, LeaderElection, Leadership, Operator, Registry, Watch};

use crate::changes::ChangesResolver;
use crate::export::LedgerSource;
use crate::finders::finders;
use crate::ledger::LedgerConfig;
use crate::objects::Kustomization;
use crate::options::needs;
use crate::report::Reporter;
use crate::select::Selected;
use crate::tracker::{Leading, ProcessMetrics, Sources, Tasks, Tracker};

/// How long each commit took from merge to applied.
pub const FLUX_COMMIT_TRACKER: &str = windlass_settings::COMMIT_TRACKER;

/// How long what ended is kept for a collector that does not take it.
const UNTAKEN: Duration = Duration::from_hours(24);

/// Adds the operator of this crate to a binary's.
pub fn register(registry: Registry<Context>) -> Registry<Context> {
    registry.with(FLUX_COMMIT_TRACKER, || Box::new(CommitTracker))
}

/// Says what the operator needs of its process.
pub fn configure(launch: Launch) -> Launch {
    launch.needs(FLUX_COMMIT_TRACKER, needs())
}

/// The operator.
pub struct CommitTracker;

#[async_trait]
impl Operator<Context> for CommitTracker {
    fn name(&self) -> &'static str {
        FLUX_COMMIT_TRACKER
    }

    async fn run(self: Box<Self>, process: Arc<Context>) -> Result<(), BoxError> {
        let settings = process.settings.commit_tracker();
        let client = process.clients.core.clone();
        let namespace = settings.state_namespace.as_deref().unwrap_or_else(|| client.default_namespace());
        let shutdown = process.supervisor.token().clone();
        let observes = settings.observes(process.settings.in_cluster());
        let election = if observes {
            tracing::info!(
                "observing only: nothing is written to the cluster, and what is counted ends with this process; see \
                 [commit_tracker] observe_only"
            );
            None
        } else {
            Some(process.election_for(namespace, &settings.state_name)?)
        };
        let leadership = election.as_ref().map_or_else(Leadership::always, LeaderElection::leadership);

        let watched = process.settings.operator().namespace.clone();
        let selected = Selected::new(settings.selection(watched.as_deref()), watched);
        let (api, config) = selected.watched(client.clone());
        let watch = Watch::<Kustomization>::reading(api, config);
        let meter = process.metrics.meter(FLUX_COMMIT_TRACKER);
        let tasks = Tasks::new(&meter);
        let scope = selected.scope.clone();
        let sources = Sources::new(client.clone(), scope, process.supervisor.clone(), tasks.clone());
        let metrics = ProcessMetrics::new(&meter, watch.store(), Arc::clone(&sources));
        observe_leadership(&meter, &settings.state_name, &leadership);
        let ask =
            ChangesResolver::new(finders(&process)?, settings.questions_at_a_time, Arc::new(metrics.clone()));
        let pushes = process.settings.operator().telemetry_mode.contains("otlp");
        let ledger = LedgerConfig {
            name: format!("{}-ledger", settings.state_name),
            show_deleted_for: settings.show_deleted_for.max(if pushes { UNTAKEN } else { Duration::ZERO }),
            ..LedgerConfig::new(Arc::clone(&process.clock))
        };
        let leading = Leading::default();
        let clock = Arc::clone(&process.clock);
        let is_scraped = settings.is_scraped(pushes);
        process.metrics.add_source(Arc::new(LedgerSource::new(settings, is_scraped, leading.clone(), clock)));
        let tracker = Arc::new(Tracker {
            namespace: namespace.to_owned(),
            ledger,
            observes,
            kustomizations: watch.store(),
            sources,
            tasks,
            ask,
            source_secrets: settings.source_secrets,
            leadership,
            leading,
            health: process.health.clone(),
            metrics,
            exported: process.metrics.clone(),
            reporter: Reporter::new(process.spans.clone()),
            clock: Arc::clone(&process.clock),
            selected,
            client,
        });

        let told = Arc::clone(&tracker);
        let follow = watch.run(process.health.clone(), shutdown.clone(), move |event| told.tell(&event));
        // The Lease is kept until the last look has ended.
        let finished = CancellationToken::new();
        let stand = async {
            if let Some(election) = election {
                election.run(process.health.clone(), finished.clone()).await;
            }
        };
        let lead = async {
            tracker.run(&shutdown).await;
            finished.cancel();
        };
        tokio::join!(follow, lead, stand);
        Ok(())
    }
}
