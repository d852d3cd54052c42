//! What the tests have in common: telemetry of one test, its output, and a source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use opentelemetry::KeyValue;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::log::Buffer;
use crate::variables::tests::variables;
use crate::{
    Buckets, ClassicHistogram, Collector, CumulativePoint, CumulativeSource, CumulativeValue, CumulativeView,
    ExponentialHistogram, Family, FamilyKind, LogFormat, LogOutput, Telemetry, TelemetryMode,
    TelemetryOptions,
};

/// Long enough for anything on this machine, and an end all the same.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// What a process wrote to its output.
#[derive(Clone, Default)]
pub(super) struct Written(Buffer);

impl Written {
    pub(super) fn text(&self) -> String {
        self.0.text()
    }

    pub(super) fn lines(&self) -> Vec<serde_json::Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How many lines say something with this in it.
    pub(super) fn count(&self, text: &str) -> usize {
        self.lines().iter().filter(|line| line["msg"].as_str().unwrap().contains(text)).count()
    }
}

pub(super) fn options(mode: TelemetryMode, endpoint: &str) -> TelemetryOptions {
    TelemetryOptions {
        mode,
        format: LogFormat::Json,
        filter: "info".to_owned(),
        output: LogOutput::Stdout,
        collector: Collector { endpoint: endpoint.to_owned(), insecure: true },
        service: "windlass-test".to_owned(),
        version: "1.2.3",
        exponential: &["tracker"],
    }
}

/// Variables of a process.
pub(super) type Set<'a> = &'a [(&'a str, &'a str)];

/// Both protocols, as variables choose them.
pub(super) const PROTOCOLS: [Set<'static>; 2] =
    [&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")]];

/// Telemetry of one test, on this thread. (Exporters work on threads of their own: what those log is not seen here,
/// unless the subscriber is the process's.)
pub(super) fn start(mode: TelemetryMode, endpoint: &str) -> (Telemetry, Written, DefaultGuard) {
    start_with(&options(mode, endpoint), &[])
}

/// The same with other options, as if these variables were set.
pub(super) fn start_with(options: &TelemetryOptions, set: Set<'_>) -> (Telemetry, Written, DefaultGuard) {
    let written = Written::default();
    let (telemetry, layers) = Telemetry::build(options, &written.0.output(), &variables(set)).unwrap();
    let guard = crate::log::set_thread_default(Registry::default().with(layers));
    (telemetry, written, guard)
}

/// A ledger of so many things, each with a value in four families.
pub(super) struct Ledger {
    pub(super) things: usize,
    pub(super) leading: AtomicBool,
    /// Points that were put together.
    pub(super) copied: Arc<AtomicUsize>,
    /// Views that were exported as a whole.
    pub(super) exported: Arc<AtomicUsize>,
    /// How many requests may be sent before the leadership is lost.
    pub(super) checks_left: AtomicUsize,
}

/// When everything began.
pub(super) const BEGAN: Timestamp = Timestamp::constant(1_700_000_000, 5);
/// The bounds of the classic buckets.
const BOUNDS: [f64; 2] = [15.0, 60.0];

impl Ledger {
    pub(super) fn of(things: usize) -> Arc<Self> {
        Arc::new(Self {
            things,
            leading: AtomicBool::new(true),
            copied: Arc::default(),
            exported: Arc::default(),
            checks_left: AtomicUsize::new(usize::MAX),
        })
    }

    pub(super) fn copied(&self) -> usize {
        self.copied.load(Ordering::SeqCst)
    }
}

impl CumulativeSource for Ledger {
    fn view(&self) -> Option<Arc<dyn CumulativeView>> {
        if !self.leading.load(Ordering::SeqCst) {
            return None;
        }
        let family = |name: &'static str, unit, kind| Family {
            name: name.into(),
            description: "What it means.".into(),
            unit,
            kind,
        };
        let families = vec![
            family("ledger.export-time", "s", FamilyKind::Histogram(Buckets::Exponential)),
            family("ledger.stage-time", "s", FamilyKind::Histogram(Buckets::Classic)),
            family("ledger.commits", "", FamilyKind::Counter),
            family("ledger.age", "s", FamilyKind::Gauge),
        ];
        let (copied, exported) = (Arc::clone(&self.copied), Arc::clone(&self.exported));
        Some(Arc::new(View { families, things: self.things, copied, exported }))
    }

    fn is_current(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        self.checks_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

struct View {
    families: Vec<Family>,
    things: usize,
    copied: Arc<AtomicUsize>,
    exported: Arc<AtomicUsize>,
}

impl CumulativeView for View {
    fn exported(&self) {
        self.exported.fetch_add(1, Ordering::SeqCst);
    }

    fn identity(&self) -> &'static str {
        "the-ledger"
    }

    fn scope(&self) -> &'static str {
        "tracker"
    }

    fn families(&self) -> &[Family] {
        &self.families
    }

    fn series(&self, _family: usize) -> usize {
        self.things
    }

    fn point(&self, family: usize, series: usize, buckets: Buckets) -> Option<CumulativePoint> {
        self.copied.fetch_add(1, Ordering::SeqCst);
        let value = match (self.families[family].kind, buckets) {
            (FamilyKind::Counter, _) => CumulativeValue::Counter(7),
            (FamilyKind::Gauge, _) => CumulativeValue::Gauge(1.5),
            (FamilyKind::Histogram(_), Buckets::Classic) => CumulativeValue::Classic(ClassicHistogram {
                count: 3,
                sum: 100.5,
                bounds: (&BOUNDS).into(),
                buckets: vec![1, 0, 2],
            }),
            (FamilyKind::Histogram(_), Buckets::Exponential) => {
                let mut buckets = vec![0; 160];
                buckets[0] = 2;
                CumulativeValue::Exponential(ExponentialHistogram {
                    count: 3,
                    sum: 100.5,
                    scale: 4,
                    zero_count: 1,
                    offset: 60,
                    buckets,
                })
            }
        };
        let name = format!("thing-{series}");
        Some(CumulativePoint {
            exemplar: None,
            attributes: vec![KeyValue::new("k8s.resource.name", name)],
            start: BEGAN,
            value,
        })
    }
}
