//! What is told of operations on repositories, under Grafana's names. Grafana: `repository/metrics.go`.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_git::{Limits, ObjectId, Revision, Tree};
use windlass_github::RateLeft;
use windlass_telemetry::{MetricKind as Kind, MetricRow, Metrics, metric_rows};

use crate::{Base, Commit, Opened, ReadError, Reader, StagedChange, WriteError, Writer, Written};

/// Grafana's: ten that grow by the same factor, from 1 ms to 30 s.
const DURATION_BOUNDS: &[f64] =
    &[0.001, 0.003_144, 0.009_884, 0.031_07, 0.097_69, 0.307_1, 0.965_5, 3.035, 9.543, 30.0];
/// Grafana's: twenty that double, from 128 bytes.
const SIZE_BOUNDS: &[f64] = &[
    128.0,
    256.0,
    512.0,
    1_024.0,
    2_048.0,
    4_096.0,
    8_192.0,
    16_384.0,
    32_768.0,
    65_536.0,
    131_072.0,
    262_144.0,
    524_288.0,
    1_048_576.0,
    2_097_152.0,
    4_194_304.0,
    8_388_608.0,
    16_777_216.0,
    33_554_432.0,
    67_108_864.0,
];

metric_rows! {
    pub METRICS, "grafana_provisioning_repository_operation";
    OPERATIONS = "s_total", Kind::Counter, ["operation", "outcome"],
        "What was done to files of repositories, each file by itself: `read`, `write`, `delete` or `move`; `list` for a tree. The outcome is `success` or `error`.";
    DURATION = "_duration_seconds", Kind::Histogram(DURATION_BOUNDS), ["operation"],
        "Time of an operation. Files that are read together, and changes that are one commit, took it together.";
    SIZE = "_size_bytes", Kind::Histogram(SIZE_BOUNDS), ["operation"],
        "Size of a file that was read or written.";
}

metric_rows! {
    pub OWN_METRICS, "windlass_github_";
    RATE_REMAINING = "rate_limit_remaining", Kind::Gauge, ["host"],
        "Requests that GitHub leaves to the token or App of this process that has the fewest left; absent where no answer said so, or the limit was counted anew since.";
    RATE_RESET = "rate_limit_reset_timestamp_seconds", Kind::Gauge, ["host"],
        "When that limit is counted anew, in Unix seconds.";
}

/// Looks at what clients of GitHub know is left to them whenever metrics are rendered. `left` answers each with its host.
pub(crate) fn observe_rates(
    metrics: &Metrics,
    left: impl Fn() -> Vec<(String, RateLeft)> + Clone + Send + Sync + 'static,
) {
    let least = move || {
        let now = jiff::Timestamp::now().as_second();
        let mut least: BTreeMap<String, RateLeft> = BTreeMap::new();
        for (host, left) in left().into_iter().filter(|(_, left)| left.resets > now) {
            let known = least.entry(host).or_insert(left);
            if left.remaining < known.remaining {
                *known = left;
            }
        }
        least
    };
    let meter = metrics.meter("github");
    let observe = |row: &MetricRow, value: fn(&RateLeft) -> u64| {
        let least = least.clone();
        let gauge = meter.u64_observable_gauge(row.name).with_description(row.meaning);
        let looked_at = gauge.with_callback(move |gauge| {
            for (host, left) in least() {
                gauge.observe(value(&left), &[KeyValue::new("host", host)]);
            }
        });
        looked_at.build();
    };
    observe(&RATE_REMAINING, |left| left.remaining);
    observe(&RATE_RESET, |left| u64::try_from(left.resets).unwrap_or(0));
}

/// The instruments of a process.
pub(crate) struct Operations {
    count: Counter<u64>,
    duration: Histogram<f64>,
    size: Histogram<f64>,
}

impl Operations {
    pub(crate) fn new(metrics: &Metrics) -> Arc<Self> {
        let meter = &metrics.meter("repository operations");
        let (count, duration, size) = (OPERATIONS.counter(meter), DURATION.seconds(meter), SIZE.bytes(meter));
        Arc::new(Self { count, duration, size })
    }

    /// The same repository, what is done to it being told.
    pub(crate) fn of(self: &Arc<Self>, opened: Opened) -> Opened {
        let (told, reader) = (Arc::clone(self), opened.reader);
        let writer = opened.writer.map(|writer| {
            let told = Arc::clone(self);
            Arc::new(MeteredWriter { told, writer }) as Arc<dyn Writer>
        });
        Opened { reader: Arc::new(MeteredReader { told, reader }), writer, ..opened }
    }

    fn ended(&self, operation: &'static str, files: usize, success: bool, began: Instant) {
        if files == 0 {
            return;
        }
        let operation = KeyValue::new("operation", operation);
        self.duration.record(began.elapsed().as_secs_f64(), std::slice::from_ref(&operation));
        let outcome = KeyValue::new("outcome", if success { "success" } else { "error" });
        self.count.add(files as u64, &[operation, outcome]);
    }

    fn sized(&self, operation: &'static str, sizes: impl IntoIterator<Item = usize>) {
        let operation = [KeyValue::new("operation", operation)];
        for size in sizes {
            self.size.record(size as f64, &operation);
        }
    }
}

struct MeteredReader {
    told: Arc<Operations>,
    reader: Arc<dyn Reader>,
}

#[async_trait]
impl Reader for MeteredReader {
    fn name(&self) -> &str {
        self.reader.name()
    }

    fn limits(&self) -> &Limits {
        self.reader.limits()
    }

    async fn resolve(&self, branch: &str, cancel: &CancellationToken) -> Result<Revision, ReadError> {
        self.reader.resolve(branch, cancel).await
    }

    async fn tree(
        &self,
        revision: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Tree, ReadError> {
        let began = Instant::now();
        let tree = self.reader.tree(revision, prefix, cancel).await;
        self.told.ended("list", 1, tree.is_ok(), began);
        tree
    }

    async fn blobs(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, ReadError> {
        let began = Instant::now();
        let blobs = self.reader.blobs(ids, cancel).await;
        self.told.ended("read", ids.len(), blobs.is_ok(), began);
        self.told.sized("read", blobs.iter().flatten().map(Bytes::len));
        blobs
    }

    async fn open_blob(
        &self,
        id: ObjectId,
        cancel: &CancellationToken,
    ) -> Result<Box<dyn Read + Send>, ReadError> {
        let began = Instant::now();
        let opened = self.reader.open_blob(id, cancel).await;
        self.told.ended("read", 1, opened.is_ok(), began);
        opened
    }
}

struct MeteredWriter {
    told: Arc<Operations>,
    writer: Arc<dyn Writer>,
}

#[async_trait]
impl Writer for MeteredWriter {
    fn limits(&self) -> &Limits {
        self.writer.limits()
    }

    fn id_of(&self, content: &[u8]) -> ObjectId {
        self.writer.id_of(content)
    }

    async fn check_access(&self, cancel: &CancellationToken) -> Result<(), WriteError> {
        self.writer.check_access(cancel).await
    }

    async fn write(
        &self,
        base: &Base,
        changes: Vec<StagedChange>,
        commit: &Commit,
        cancel: &CancellationToken,
    ) -> Result<Written, WriteError> {
        let (mut sizes, mut deleted, mut moved) = (Vec::new(), 0, 0);
        for change in &changes {
            match change {
                StagedChange::Put { content, .. } => sizes.push(content.len()),
                StagedChange::Delete { .. } => deleted += 1,
                StagedChange::Rename { .. } => moved += 1,
            }
        }
        let began = Instant::now();
        let written = self.writer.write(base, changes, commit, cancel).await;
        for (operation, files) in [("write", sizes.len()), ("delete", deleted), ("move", moved)] {
            self.told.ended(operation, files, written.is_ok(), began);
        }
        if written.is_ok() {
            self.told.sized("write", sizes);
        }
        written
    }
}
