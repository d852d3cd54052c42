//! What was pushed, for a Prometheus that takes no OTLP yet: its own wire form of native histograms, as its OTLP receiver
//! would make them of exponential ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use windlass_commit_tracker::metrics::{METRICS, Spelling, prometheus_label};
use windlass_otlp_receiver::{Receiver, Sample, Series, Value};

const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
/// The finest that Prometheus knows.
const MAX_SCALE: i32 = 8;

/// Serves what a collector was sent last.
pub(super) struct Native {
    /// Its port on this machine.
    pub(super) port: u16,
    task: JoinHandle<()>,
}

impl Native {
    pub(super) async fn serve(receiver: Arc<Receiver>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let router = Router::new().route("/metrics", get(scrape)).with_state(receiver);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Ok(Self { port, task })
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn scrape(
    State(receiver): State<Arc<Receiver>>,
) -> ([(axum::http::HeaderName, &'static str); 1], Vec<u8>) {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    receiver.look(|received| {
        for (series, sample) in &received.series {
            let Some((kind, metric)) = metric(series, sample) else { continue };
            let name = name(&series.name);
            let family =
                families.entry(name.clone()).or_insert_with(|| Family { name, kind, metrics: Vec::new() });
            family.metrics.push(metric);
        }
    });
    (
        [(CONTENT_TYPE, PROTOBUF)],
        families.values().flat_map(Message::encode_length_delimited_to_vec).collect(),
    )
}

/// What Prometheus calls a metric: by the tracker's own table, or as it is.
fn name(otlp: &str) -> String {
    let own = METRICS.iter().find(|metric| metric.otlp_name(Spelling::Dashes) == otlp);
    own.map_or_else(|| otlp.to_owned(), |metric| metric.prometheus_name())
}

fn metric(series: &Series, sample: &Sample) -> Option<(i32, Metric)> {
    let label =
        |(name, value): (&String, &String)| Label { name: prometheus_label(name), value: value.clone() };
    let labels = series.attributes.iter().map(label).collect();
    let empty = Metric { labels, ..Metric::default() };
    Some(match &sample.value {
        Value::Sum { value, monotonic: true } => {
            (0, Metric { counter: Some(Number { value: *value }), ..empty })
        }
        Value::Gauge(value) | Value::Sum { value, .. } => {
            (1, Metric { gauge: Some(Number { value: *value }), ..empty })
        }
        Value::Exponential { count, sum, scale, zero_count, offset, buckets, .. } => {
            let buckets = (i64::from(*offset)..).zip(buckets.iter().copied());
            let (spans, deltas) = spans(buckets, (*scale - MAX_SCALE).max(0));
            let histogram = Histogram {
                count: *count,
                sum: *sum,
                schema: (*scale).min(MAX_SCALE),
                zero_threshold: f64::MIN_POSITIVE,
                zero_count: *zero_count,
                spans,
                deltas,
            };
            (4, Metric { histogram: Some(histogram), ..empty })
        }
        // Classic ones are of the process, which no rule and no panel asks for.
        Value::Histogram { .. } => return None,
    })
}

/// Buckets with their index, coarser by so many steps: OTLP's bucket `i` begins where Prometheus' bucket `i + 1` does.
fn spans(buckets: impl Iterator<Item = (i64, u64)>, coarser: i32) -> (Vec<Span>, Vec<i64>) {
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    for (index, count) in buckets.filter(|(_, count)| *count > 0) {
        *counts.entry((index >> coarser) + 1).or_default() += i64::try_from(count).unwrap();
    }
    let (mut spans, mut deltas): (Vec<Span>, Vec<i64>) = Default::default();
    let (mut end, mut before) = (0, 0);
    for (index, count) in counts {
        match spans.last_mut().filter(|_| index == end) {
            Some(span) => span.length += 1,
            None => spans.push(Span { offset: i32::try_from(index - end).unwrap(), length: 1 }),
        }
        deltas.push(count - before);
        (end, before) = (index + 1, count);
    }
    (spans, deltas)
}

/// `io.prometheus.client.MetricFamily`, as far as it is used.
#[derive(Clone, PartialEq, Message)]
struct Family {
    #[prost(string, tag = "1")]
    name: String,
    /// 0: counter, 1: gauge, 4: histogram.
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, tag = "1")]
    value: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, tag = "1")]
    count: u64,
    #[prost(double, tag = "2")]
    sum: f64,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "13")]
    deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}
