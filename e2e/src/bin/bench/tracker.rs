//! The commit tracker on a real kube-apiserver with ten thousand Kustomizations.
//!
//! Nobody applies anything: a client writes the statuses, as fast as the API server takes them, so that the tracker is
//! what is measured. The original cannot be set beside it: its module is not served by Go's module proxy.

mod burst;
mod fleet;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use windlass_cluster::{Cluster, Etcd, Identity, Options};
use windlass_e2e::deployed;
use windlass_e2e::flux::Tracker;
use windlass_otlp_receiver::Receiver;

use self::fleet::{Fleet, Way};
use crate::samples::Samples;
use crate::scene::{memory, processor_seconds};
use crate::table::{Row, Table, Target, Unit};

const KUSTOMIZATIONS: usize = 10_000;
/// How often it is started with what it knew before.
const RESTARTS: usize = 3;
/// How long it is watched doing nothing.
const IDLE: Duration = Duration::from_secs(30);
/// How long anything may take.
const DEADLINE: Duration = Duration::from_mins(5);

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    // etcd does not wait for the disk: the client that writes statuses is to be fast, and is not what is measured.
    let options = Options { compacts: true, ..Options::default() };
    let Some(cluster) = Box::pin(Cluster::own_with(options)).await? else { return Ok(()) };
    cluster.establish_flux().await?;
    let namespace = cluster.namespace("bench").await?;
    let identity = namespace.service_account(&deployed("commit-tracker/rbac.yaml")).await?;
    let folder = tempfile::tempdir()?;
    let client = cluster.admin().await?;
    let started = Instant::now();
    let fleet = Box::pin(Fleet::create(&client, namespace.name(), KUSTOMIZATIONS)).await?;
    let took = Samples::millis([started.elapsed()]);
    let figure = format!("tracker: {KUSTOMIZATIONS} Kustomizations are created, with their statuses");
    table.add(Row::new(figure, Target::None, Unit::Millis, took));

    let bench = Bench { identity, folder, namespace: namespace.name().to_owned(), fleet };
    let tracker = bench.first_start(table).await?;
    let etcd = cluster.etcd()?;
    burst::all(table, &bench.fleet, &tracker, Way::Etcd(&etcd)).await?;
    idle(table, &tracker, "tracker: processor at rest, over 30 s", Target::AtMost(0.2)).await?;
    let resident = Samples::one(memory(&tracker.process, "VmRSS")?);
    let figure = "tracker: resident memory after the bursts";
    table.add(Row::new(figure, Target::AtMost(55.0), Unit::Megabytes, resident));
    drop(tracker);
    bench.restarts(table).await?;
    bench.exports(table, &etcd).await?;
    cluster.compact_etcd().await?;
    bench.start_after_compaction(table).await
}

/// A Lease of a tracker that was killed lapses soon.
const ELECTION: [(&str, &str); 2] = [
    ("GF_OPERATOR_LEADER_ELECTION_LEASE_DURATION", "4s"),
    ("GF_OPERATOR_LEADER_ELECTION_RENEW_DEADLINE", "3s"),
];

struct Bench {
    identity: Identity,
    folder: tempfile::TempDir,
    namespace: String,
    fleet: Fleet,
}

impl Bench {
    fn spawn(&self, environment: &[(&str, &str)]) -> Result<Tracker> {
        let origin = format!("--allow-git-origin={}", self.fleet.remote.origin());
        let namespace = format!("--namespace={}", self.namespace);
        let arguments = ["--all", &origin, &namespace];
        let environment = [&ELECTION, environment].concat();
        Tracker::spawn(self.folder.path(), &self.identity.kubeconfig, &arguments, &environment)
    }

    /// Starts it with nothing known, until it is ready, and until it has nothing more to do.
    async fn first_start(&self, table: &mut Table) -> Result<Tracker> {
        let started = Instant::now();
        let tracker = self.spawn(&[])?;
        ready(&tracker, started).await?;
        let ready = Samples::millis([started.elapsed()]);
        let figure = format!("tracker: from its first start to ready, {KUSTOMIZATIONS} Kustomizations");
        table.add(Row::new(figure, Target::AtMost(2000.0), Unit::Millis, ready));
        let at_rest = settled(&tracker).await?;
        let (bytes, shards) = self.fleet.ledger().await?;
        let settled = Samples::millis([at_rest.duration_since(started)]);
        let note = format!("{:.1} MB of ledger in {shards} ConfigMaps", bytes as f64 / 1e6);
        let figure = "tracker: from its first start until every Kustomization is in the ledger";
        table.add(Row::new(figure, Target::None, Unit::Millis, settled).note(note));
        let resident = Samples::one(memory(&tracker.process, "VmRSS")?);
        let most = format!("{:.0} MB at most", memory(&tracker.process, "VmHWM")?);
        let figure = "tracker: resident memory after the list has settled";
        table.add(Row::new(figure, Target::AtMost(45.0), Unit::Megabytes, resident).note(most));
        Ok(tracker)
    }

    /// Starts it again with all that it knew.
    async fn restarts(&self, table: &mut Table) -> Result<()> {
        let (mut times, mut resident) = (Vec::new(), Vec::new());
        for _ in 0..RESTARTS {
            let started = Instant::now();
            let tracker = self.spawn(&[])?;
            ready(&tracker, started).await?;
            times.push(started.elapsed());
            settled(&tracker).await?;
            resident.push(memory(&tracker.process, "VmRSS")?);
        }
        let figure = "tracker: from a later start to ready";
        table.add(Row::new(figure, Target::AtMost(2000.0), Unit::Millis, Samples::millis(times)));
        let figure = "tracker: resident memory after a later start";
        table.add(Row::new(figure, Target::AtMost(45.0), Unit::Megabytes, Samples::new(resident)));
        Ok(())
    }

    /// Lets it tell a collector everything besides: as often as every ten seconds, where a minute is usual.
    async fn exports(&self, table: &mut Table, etcd: &Etcd) -> Result<()> {
        let receiver = Receiver::start()?;
        let endpoint = receiver.address().to_string();
        let environment = [
            ("TELEMETRY_MODE", "stdout-logs+otlp"),
            ("TELEMETRY_ENDPOINT", &endpoint),
            ("OTEL_METRIC_EXPORT_INTERVAL", "10000"),
        ];
        let started = Instant::now();
        let tracker = self.spawn(&environment)?;
        ready(&tracker, started).await?;
        let points = exported(&receiver).await?;
        settled(&tracker).await?;
        let resident = Samples::one(memory(&tracker.process, "VmRSS")?);
        let figure = "tracker: resident memory while it exports";
        let note = format!("{points} points an export");
        table.add(Row::new(figure, Target::AtMost(55.0), Unit::Megabytes, resident).note(note));
        receiver.forget();
        let what = "tracker: while it exports, distinct revisions, written to etcd".to_owned();
        burst::distinct(table, &self.fleet, &tracker, Way::Etcd(etcd), burst::LAST, what).await?;
        exported(&receiver).await?;
        settled(&tracker).await?;
        let resident = Samples::one(memory(&tracker.process, "VmRSS")?);
        let spans = receiver.look(|received| received.spans.len());
        let figure = "tracker: resident memory after a burst while it exports";
        let note = format!("{spans} spans were exported");
        table.add(Row::new(figure, Target::AtMost(55.0), Unit::Megabytes, resident).note(note));
        Ok(())
    }

    /// Starts it once more where the API server can answer no more than a first page of a list from memory.
    async fn start_after_compaction(&self, table: &mut Table) -> Result<()> {
        let started = Instant::now();
        let tracker = self.spawn(&[])?;
        ready(&tracker, started).await?;
        let ready = Samples::millis([started.elapsed()]);
        let figure = "tracker: from a start after a compaction of etcd to ready";
        table.add(Row::new(figure, Target::AtMost(2000.0), Unit::Millis, ready));
        Ok(())
    }
}

/// Waits until the collector has all series once more, and answers how many points that is.
async fn exported(receiver: &Receiver) -> Result<usize> {
    let before = receiver.look(|received| received.points.len());
    let whole = receiver
        .until(DEADLINE, |received| {
            let points = received.points.len() - before;
            (points >= KUSTOMIZATIONS * 4).then_some(points)
        })
        .await;
    whole.context("the collector was not told everything")
}

/// Waits for `/readyz`, looking more often than a probe does.
async fn ready(tracker: &Tracker, started: Instant) -> Result<()> {
    let mut interval = tokio::time::interval(Duration::from_millis(5));
    while started.elapsed() < DEADLINE {
        interval.tick().await;
        if tracker.ask(tracker.health, "/readyz").await.is_ok_and(|(code, _)| code == 200) {
            return Ok(());
        }
    }
    bail!("the tracker is not ready; it said:\n{}", tracker.process.output())
}

/// Waits until it has used next to no processor for a while, and answers when that began.
async fn settled(tracker: &Tracker) -> Result<Instant> {
    const QUIET: Duration = Duration::from_secs(3);
    const LOOK: Duration = Duration::from_millis(250);
    let begun = Instant::now();
    let (mut since, mut last) = (Instant::now(), processor(tracker)?);
    while begun.elapsed() < DEADLINE {
        tokio::time::sleep(LOOK).await;
        let now = processor(tracker)?;
        // A tick or two are its clocks and renewals.
        if now - last > 0.021 {
            since = Instant::now();
        }
        last = now;
        if since.elapsed() >= QUIET {
            return Ok(since);
        }
    }
    bail!("the tracker does not come to rest in {DEADLINE:?}")
}

async fn idle(table: &mut Table, tracker: &Tracker, figure: &str, target: Target) -> Result<()> {
    let (before, started) = (processor(tracker)?, Instant::now());
    tokio::time::sleep(IDLE).await;
    let share = (processor(tracker)? - before) / started.elapsed().as_secs_f64() * 100.0;
    table.add(Row::new(figure, target, Unit::Percent, Samples::one(share)));
    Ok(())
}

fn processor(tracker: &Tracker) -> Result<f64> {
    processor_seconds(tracker.process.id().context("the tracker is gone")?)
}
